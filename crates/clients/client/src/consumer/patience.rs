//! Answers that wait in the socket because this side does not read are not late.

use units::Nanos;

/// Whether the time of answers is judged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    /// Since when nothing is read.
    held_since: Option<Nanos>,
    /// What was asked meanwhile, or before, is not late until then.
    until: Nanos,
}

impl Patience {
    /// Nothing is read from now on, or it is again. What was left in the socket, and behind it at the server, has as
    /// long to come as it was left there.
    pub(crate) fn hold(&mut self, now: Nanos, holds: bool) {
        match (self.held_since, holds) {
            (None, true) => self.held_since = Some(now),
            (Some(since), false) => {
                self.held_since = None;
                self.until = self.until.max(now).after(now.since(since));
            }
            _ => {}
        }
    }

    /// Whether an answer that is not there is late, if it is past its time.
    pub(crate) fn judges(&self, now: Nanos) -> bool {
        self.held_since.is_none() && now >= self.until
    }

    /// When to look for an answer that is due at a time.
    pub(crate) fn due(&self, due: Nanos) -> Nanos {
        if self.held_since.is_some() { Nanos::NEVER } else { due.max(self.until) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_while_nothing_is_read_has_as_much_longer() {
        let mut patience = Patience::default();
        assert!(patience.judges(Nanos(1)) && patience.due(Nanos(5)) == Nanos(5));
        patience.hold(Nanos(10), true);
        patience.hold(Nanos(20), true);
        assert!(!patience.judges(Nanos(1_000)) && patience.due(Nanos(15)) == Nanos::NEVER);
        patience.hold(Nanos(30), false);
        patience.hold(Nanos(31), false);
        assert_eq!((patience.judges(Nanos(49)), patience.judges(Nanos(50))), (false, true));
        assert_eq!((patience.due(Nanos(15)), patience.due(Nanos(60))), (Nanos(50), Nanos(60)));
        // It adds up: what the server has to say has not become less.
        patience.hold(Nanos(40), true);
        patience.hold(Nanos(45), false);
        assert_eq!(patience.due(Nanos(15)), Nanos(55));
    }
}
