//! How a peer is served that does not take what it is sent as fast as that comes: the ladder, one step at a time.
//!
//! ```text
//!          bytes or age above their limits       age above a higher limit      the oldest byte has waited too long
//!   Tick ---------------------------------> Conflated ----------> Interval ---------------------------> Disconnected
//!    ^                                       |    ^                  |                                       ^
//!    +---------------------------------------+    +------------------+                                       |
//!     nearly nothing has waited for a while        rounds leave at once                                      |
//!    +-------------------------------------------------------------------------------------------------------+
//!                                            the same from any step
//! ```
//!
//! [`Ladder`] decides, [`QueueAge`] says how long the oldest byte of a backlog has waited, [`Rounds`] when a peer at the
//! step "interval" is sent something. All are pure. Tests: the table of every step and input, and the age against a queue
//! that knows when each byte came.

use std::collections::VecDeque;
use std::time::Duration;

use units::Nanos;

use crate::rounds::{Rounds, RoundsState};

/// When a peer goes down the ladder, and up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LadderConfig {
    /// Updates are conflated when more bytes wait than this; `None` for never.
    pub conflate_above_bytes: Option<usize>,
    /// Updates are conflated when the oldest byte has waited so long; `None` for never.
    pub conflate_above: Option<Duration>,
    /// With no more bytes than this, a peer whose updates are conflated has room for the newest ones.
    pub room_bytes: usize,
    /// It is sent every update again after it had room for so long.
    pub tick_after: Duration,
    /// A peer whose updates are conflated is sent the newest values in rounds when the oldest byte has waited so long;
    /// `None` for never.
    pub interval_above: Option<Duration>,
    /// The longest interval between two rounds.
    pub interval_max: Duration,
    /// It is disconnected when the oldest byte has waited so long; `None` for never.
    pub disconnect_after: Option<Duration>,
}

impl Default for LadderConfig {
    /// Nobody goes down.
    fn default() -> Self {
        LadderConfig {
            conflate_above_bytes: None,
            conflate_above: None,
            room_bytes: 64 << 10,
            tick_after: Duration::from_secs(2),
            interval_above: None,
            interval_max: Duration::from_secs(30),
            disconnect_after: None,
        }
    }
}

impl LadderConfig {
    /// Whether a peer can ever go down: at least one limit is set.
    #[must_use]
    pub fn has_limits(&self) -> bool {
        let LadderConfig { conflate_above_bytes, conflate_above, disconnect_after, .. } = self;
        conflate_above_bytes.is_some() || conflate_above.is_some() || disconnect_after.is_some()
    }

    /// The same for a peer that is sent no more than so much: its updates are conflated when more than a second's bytes
    /// wait, and a quarter of that is room for the newest ones.
    #[must_use]
    pub fn at_rate(&self, bytes_per_second: u64) -> LadderConfig {
        let second = usize::try_from(bytes_per_second).unwrap_or(usize::MAX);
        let above = self.conflate_above_bytes.unwrap_or(usize::MAX).min(second);
        LadderConfig {
            conflate_above_bytes: Some(above),
            room_bytes: self.room_bytes.min(above / 4),
            ..*self
        }
    }
}

/// How a peer is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// It is sent every update.
    #[default]
    Tick,
    /// It is sent the newest values of what has changed, when it has room.
    Conflated,
    /// The same in rounds, one in an interval at most, each when the one before has left.
    Interval,
    /// It is given up.
    Disconnected,
}

/// The step of one peer.
#[derive(Clone, Debug, Default)]
pub struct Ladder {
    step: Step,
    /// Since when nearly nothing has waited, while updates are conflated.
    calm_since: Option<Nanos>,
    /// At the step "interval".
    rounds: Option<Box<Rounds>>,
}

impl Ladder {
    /// The present step.
    #[inline]
    #[must_use]
    pub fn step(&self) -> Step {
        self.step
    }

    /// What waits now: so many bytes, the oldest of them for so long. Returns the step from now on.
    pub fn observe(
        &mut self,
        now: Nanos,
        config: &LadderConfig,
        queued_bytes: usize,
        oldest: Duration,
    ) -> Step {
        let reaches =
            |limit: Option<Duration>| queued_bytes > 0 && limit.is_some_and(|limit| oldest >= limit);
        // A few bytes that stay where they are are no calm.
        let is_calm = queued_bytes <= config.room_bytes && !reaches(config.conflate_above);
        match self.step {
            Step::Disconnected => {}
            _ if reaches(config.disconnect_after) => {
                self.step = Step::Disconnected;
                self.rounds = None;
            }
            Step::Tick => {
                let is_much = config.conflate_above_bytes.is_some_and(|limit| queued_bytes > limit);
                if is_much || reaches(config.conflate_above) {
                    self.step = Step::Conflated;
                    self.calm_since = is_calm.then_some(now);
                }
            }
            Step::Conflated if reaches(config.interval_above) => {
                self.step = Step::Interval;
                self.rounds = Some(Box::new(Rounds::begin(now, config.interval_max)));
            }
            // Its rounds say when it is over.
            Step::Interval => {}
            Step::Conflated => {
                let since = *self.calm_since.get_or_insert(now);
                if !is_calm {
                    self.calm_since = None;
                } else if now.since(since) >= config.tick_after {
                    self.step = Step::Tick;
                }
            }
        }
        self.step
    }

    /// At the step "interval", sees whether the next round can be put in; `has_left` tells whether nothing waits for the
    /// peer any more. Returns the step from now on.
    pub fn look_at_rounds(&mut self, now: Nanos, has_left: impl FnOnce() -> bool) -> Step {
        let state = self.rounds.as_mut().map(|rounds| rounds.look(now, has_left));
        if state == Some(RoundsState::Over) {
            self.step = Step::Conflated;
            self.rounds = None;
            self.calm_since = None;
        }
        self.step
    }

    /// All of a round is put in.
    pub fn end_round(&mut self, now: Nanos) {
        if let Some(rounds) = &mut self.rounds {
            rounds.end_round(now);
        }
    }

    /// The rounds of a peer at the step "interval".
    #[inline]
    #[must_use]
    pub fn rounds(&self) -> Option<&Rounds> {
        self.rounds.as_deref()
    }
}

/// How long the oldest byte of a queue has waited, a little more rather than less, in bounded memory.
#[derive(Debug, Default)]
pub struct QueueAge {
    /// Bytes that have left the queue.
    taken: u64,
    /// Places in the stream of bytes, and since when bytes before each, back to the place before, have waited.
    marks: VecDeque<(u64, Nanos)>,
}

/// Bytes that come within this time are as old as the first of them.
const GRAIN: Duration = Duration::from_millis(100);
/// With so many marks the two that are nearest in time become one: ages are then too high, by an eighth of the longest
/// at most that there was since the queue was empty.
const MARKS_MAX: usize = 32;

impl QueueAge {
    /// So many bytes have left the queue.
    #[inline]
    pub fn take(&mut self, count_bytes: usize) {
        self.taken += count_bytes as u64;
    }

    /// Whether nothing waited at the last [`QueueAge::observe`].
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// So many bytes wait now; what is new has come since the last call. Returns how long the oldest has waited.
    pub fn observe(&mut self, now: Nanos, queued_bytes: usize) -> Duration {
        if queued_bytes == 0 {
            self.marks = VecDeque::new();
            return Duration::ZERO;
        }
        while self.marks.front().is_some_and(|(end, _)| *end <= self.taken) {
            self.marks.pop_front();
        }
        let end = self.taken + queued_bytes as u64;
        match self.marks.back_mut() {
            Some((last, _)) if *last >= end => {}
            Some((last, since)) if now.since(*since) < GRAIN => *last = end,
            _ => self.mark(end, now),
        }
        self.marks.front().map_or(Duration::ZERO, |(_, since)| now.since(*since))
    }

    fn mark(&mut self, end: u64, now: Nanos) {
        if self.marks.len() == MARKS_MAX {
            let span = |at: &usize| self.marks[at + 2].1.since(self.marks[*at].1);
            let nearest = (0..MARKS_MAX - 2).min_by_key(span).unwrap_or_default();
            self.marks[nearest].0 = self.marks[nearest + 1].0;
            self.marks.remove(nearest + 1);
        }
        self.marks.push_back((end, now));
    }
}

#[cfg(test)]
mod tests {
    use super::Step::{Conflated, Disconnected, Interval, Tick};
    use super::*;

    const CONFIG: LadderConfig = LadderConfig {
        conflate_above_bytes: Some(1_000),
        conflate_above: Some(Duration::from_secs(5)),
        room_bytes: 100,
        tick_after: Duration::from_secs(2),
        interval_above: None,
        interval_max: Duration::from_secs(30),
        disconnect_after: Some(Duration::from_secs(60)),
    };

    /// What is seen at a second: bytes, seconds that the oldest has waited, and the step from then on.
    type Seen = (u64, usize, u64, Step);

    fn assert_steps(config: &LadderConfig, seen: &[Seen]) {
        let mut ladder = Ladder::default();
        for (at, (second, bytes, oldest, expected)) in seen.iter().enumerate() {
            let now = Nanos(1 + second * 1_000_000_000);
            let step = ladder.observe(now, config, *bytes, Duration::from_secs(*oldest));
            assert_eq!((step, ladder.step()), (*expected, *expected), "{seen:?}, at {at}");
        }
    }

    #[test]
    fn a_peer_goes_down_by_bytes_or_age_and_up_when_little_has_waited_for_a_while() {
        let table: &[&[Seen]] = &[
            &[(0, 0, 0, Tick), (1, 1_000, 4, Tick), (2, 1_001, 0, Conflated)],
            &[(0, 1, 5, Conflated)],
            // Between the limits it stays where it is, whichever way it came.
            &[(0, 900, 4, Tick), (1, 2_000, 1, Conflated), (9, 900, 1, Conflated), (99, 101, 1, Conflated)],
            // Up after two seconds of calm, and not if they are interrupted.
            &[(0, 2_000, 1, Conflated), (1, 100, 0, Conflated), (2, 100, 0, Conflated), (3, 100, 0, Tick)],
            &[(0, 2_000, 1, Conflated), (1, 0, 0, Conflated), (2, 101, 0, Conflated), (3, 0, 0, Conflated)],
            &[(0, 2_000, 1, Conflated), (1, 0, 0, Conflated), (2, 101, 0, Conflated), (4, 0, 0, Conflated)],
            &[(0, 2_000, 1, Conflated), (3, 0, 0, Conflated), (5, 0, 0, Tick), (6, 1_001, 0, Conflated)],
            // A few bytes that nobody takes.
            &[(0, 10, 5, Conflated), (3, 10, 8, Conflated), (4, 0, 0, Conflated), (6, 0, 0, Tick)],
            // Gone is gone.
            &[(0, 1, 60, Disconnected), (1, 0, 0, Disconnected), (9, 0, 0, Disconnected)],
            &[(0, 1_001, 1, Conflated), (1, 50, 59, Conflated), (2, 50, 60, Disconnected)],
            // An empty queue has no age.
            &[(0, 0, 99, Tick)],
        ];
        table.iter().for_each(|seen| assert_steps(&CONFIG, seen));
    }

    #[test]
    fn a_conflated_peer_goes_on_down_by_age_and_up_when_its_rounds_leave_at_once() {
        let config = LadderConfig { interval_above: Some(Duration::from_secs(10)), ..CONFIG };
        assert_steps(
            &config,
            &[
                (0, 1, 11, Conflated),
                (1, 1, 9, Conflated),
                (2, 1, 10, Interval),
                (3, 0, 0, Interval),
                (99, 1, 60, Disconnected),
            ],
        );
        let mut ladder = Ladder::default();
        let (mut now, mut rounds) = (Nanos(1_000_000_000), 0);
        ladder.observe(now, &config, 1, Duration::from_secs(10));
        assert!(ladder.rounds().is_none());
        assert_eq!(ladder.look_at_rounds(now, || true), Conflated, "it has none");
        assert_eq!(ladder.observe(now, &config, 1, Duration::from_secs(10)), Interval);
        while ladder.step() == Interval {
            now = ladder.rounds().expect("it has rounds").next_look();
            ladder.look_at_rounds(now, || true);
            rounds += u32::from(ladder.rounds().is_some_and(Rounds::is_open));
            ladder.end_round(now);
        }
        assert_eq!((ladder.step(), rounds), (Conflated, 3));
        assert_eq!(ladder.observe(now, &config, 0, Duration::ZERO), Conflated, "it is calm from here on");
        now += config.tick_after;
        assert_eq!(ladder.observe(now, &config, 0, Duration::ZERO), Tick);
    }

    #[test]
    fn what_is_not_set_does_not_count() {
        let never = LadderConfig {
            conflate_above_bytes: None,
            conflate_above: None,
            disconnect_after: None,
            ..CONFIG
        };
        assert_steps(&never, &[(0, usize::MAX, 1 << 30, Tick)]);
        assert!(!never.has_limits());
        let by_age = LadderConfig { conflate_above: Some(Duration::from_secs(5)), ..never };
        assert_steps(
            &by_age,
            &[(0, usize::MAX, 4, Tick), (1, 1, 5, Conflated), (2, 101, 1 << 30, Conflated)],
        );
        let by_bytes = LadderConfig { conflate_above_bytes: Some(7), ..never };
        assert!(by_age.has_limits() && by_bytes.has_limits());
        assert_steps(&by_bytes, &[(0, 7, 1 << 30, Tick), (1, 8, 0, Conflated)]);
        let cut_off = LadderConfig { disconnect_after: Some(Duration::from_secs(9)), ..never };
        assert_steps(&cut_off, &[(0, 7, 8, Tick), (1, 7, 9, Disconnected)]);
        assert!(cut_off.has_limits());
    }

    #[test]
    fn at_once_means_with_the_next_look() {
        let config = LadderConfig { tick_after: Duration::ZERO, ..CONFIG };
        assert_steps(&config, &[(0, 2_000, 0, Conflated), (0, 100, 0, Tick)]);
    }

    /// Against a queue that knows of each byte when it came.
    #[test]
    fn the_age_is_that_of_the_oldest_byte_or_a_little_more() {
        let _repeat = testkit::repeat!();
        let mut rng = units::Rng::new(3);
        let (mut age, mut queue) = (QueueAge::default(), VecDeque::<Nanos>::new());
        let mut now = Nanos(5_000_000_000);
        let (mut worst, mut peak) = (Duration::ZERO, Duration::ZERO);
        for step in 0..20_000_u64 {
            now += Duration::from_millis(rng.below(60));
            // It fills for a long time, and empties for a long time.
            let fills = step / 2_000 % 2 == 0;
            let come = rng.below(if fills { 30 } else { 10 });
            queue.extend((0..come).map(|_| now));
            let gone = (rng.below(if fills { 20 } else { 30 }) as usize).min(queue.len());
            age.take(gone);
            queue.drain(..gone);
            let told = age.observe(now, queue.len());
            let truth = queue.front().map_or(Duration::ZERO, |since| now.since(*since));
            assert!(told >= truth, "step {step}: {told:?}, not {truth:?}");
            peak = if queue.is_empty() { Duration::ZERO } else { peak.max(truth) };
            assert!(told <= truth + peak / 8 + 2 * GRAIN, "step {step}: {told:?}, not {truth:?}");
            assert!(age.marks.len() <= MARKS_MAX && age.is_empty() == queue.is_empty());
            worst = worst.max(truth);
        }
        assert!(worst > 4 * GRAIN * MARKS_MAX as u32, "{worst:?}: marks were dropped");
    }
}
