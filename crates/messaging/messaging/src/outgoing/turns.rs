//! Which of the sessions that a context sends by a turn has to look at.

use units::{Deadlines, Nanos};

/// Sessions to which something has happened, and when the others are due.
///
/// Most contexts send by one session, or by one for long: the last one that was stirred is looked at in each turn and
/// asked each time. The others are noted once, and then stand in a heap with the moment at which they are due; that may
/// come early, never late.
pub(crate) struct Turns {
    /// [`NONE`] before the first.
    last: usize,
    /// Others that were stirred since they were looked at, each once.
    stirred: Vec<usize>,
    is_stirred: Vec<bool>,
    due: Deadlines,
    /// Those that are looked at in this turn.
    turn: Vec<usize>,
}

/// No session has this number: a message is compared with one word, not with an option.
const NONE: usize = usize::MAX;

impl Default for Turns {
    fn default() -> Turns {
        let (stirred, is_stirred, turn) = (Vec::new(), Vec::new(), Vec::new());
        Turns { last: NONE, stirred, is_stirred, due: Deadlines::default(), turn }
    }
}

impl Turns {
    /// Something has happened to a session: it may have something to send, or be due at another moment. Whether
    /// another one is the last from now on.
    #[inline]
    pub(crate) fn stir(&mut self, at: usize) -> bool {
        let changes = self.last != at;
        if changes {
            self.change(at);
        }
        changes
    }

    #[cold]
    #[inline(never)]
    fn change(&mut self, at: usize) {
        let before = std::mem::replace(&mut self.last, at);
        if before == NONE {
            return;
        }
        if before >= self.is_stirred.len() {
            self.is_stirred.resize(before + 1, false);
        }
        if !std::mem::replace(&mut self.is_stirred[before], true) {
            self.stirred.push(before);
        }
    }

    /// The session that is looked at in each turn.
    #[inline]
    pub(crate) fn last(&self) -> Option<usize> {
        (self.last != NONE).then_some(self.last)
    }

    /// Whether none but the last has anything to do.
    #[inline]
    pub(crate) fn is_quiet(&self, now: Nanos) -> bool {
        self.stirred.is_empty() && self.due.next() > now
    }

    /// Takes the sessions, beside the last one, that have something to do; to be given back.
    pub(crate) fn take(&mut self, now: Nanos) -> Vec<usize> {
        let mut turn = std::mem::take(&mut self.turn);
        for at in self.stirred.drain(..) {
            self.is_stirred[at] = false;
            self.due.remove(at as u32);
            turn.push(at);
        }
        turn.extend(std::iter::from_fn(|| self.due.pop_due(now)).map(|at| at as usize));
        turn
    }

    /// Notes when the sessions are due that have had their turn.
    pub(crate) fn give_back(&mut self, mut turn: Vec<usize>, due_of: impl Fn(usize) -> Nanos) {
        for at in turn.drain(..) {
            self.due.set(at as u32, due_of(at));
        }
        self.turn = turn;
    }

    /// When one of the sessions is due.
    pub(crate) fn next(&self, due_of: impl Fn(usize) -> Nanos) -> Nanos {
        let due = self.due.next().min(self.last().map_or(Nanos::NEVER, &due_of));
        if self.stirred.is_empty() {
            due
        } else {
            self.stirred.iter().copied().map(due_of).fold(due, Nanos::min)
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Rng;

    use super::*;

    #[test]
    fn each_session_has_its_turn_when_it_is_stirred_or_due() {
        let _repeat = testkit::repeat!();
        let mut rng = Rng::new(1);
        let (mut turns, mut due) = (Turns::default(), Vec::<Nanos>::new());
        let mut looks = 0;
        for step in 0..30_000 {
            let now = Nanos(step);
            if due.len() < 40 && rng.chance(0.01) {
                due.push(Nanos(step + rng.below(100)));
                turns.stir(due.len() - 1);
            }
            let mut wanted = Vec::new();
            for _ in 0..rng.below(3) {
                if let Some(at) = (!due.is_empty()).then(|| rng.below(due.len() as u64) as usize) {
                    // What happens to it changes when it is due.
                    due[at] = Nanos(step + rng.below(200));
                    turns.stir(at);
                    wanted.push(at);
                }
            }
            assert!(
                turns.next(|at| due[at]) <= due.iter().copied().min().unwrap_or(Nanos::NEVER),
                "never late"
            );
            wanted.extend((0..due.len()).filter(|at| due[*at] <= now));
            if rng.chance(0.7) {
                let is_quiet = turns.is_quiet(now);
                let turn = turns.take(now);
                assert_eq!(is_quiet, turn.is_empty());
                looks += turn.len();
                wanted.retain(|at| !turn.contains(at) && turns.last() != Some(*at));
                assert_eq!(wanted, [], "has something to do and is not looked at");
                for &at in turn.iter().chain(&turns.last()) {
                    if due[at] <= now {
                        due[at] = Nanos(step + 1 + rng.below(300));
                    }
                }
                turns.give_back(turn, |at| due[at]);
            }
        }
        assert!(looks < 4 * 30_000, "{looks}");
    }
}
