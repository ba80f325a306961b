//! When a peer is sent the newest values that reads too slowly even for these: in rounds.
//!
//! A round begins when the one before has left, from the socket too, and an interval is over. So what is sent is new when
//! it goes on the line, and nothing older is in front of it. The interval grows by a quarter, and again, while a round has not
//! left when the next is due, and is halved when several in a row have left within half of it. Tests: lines of several
//! speeds, in virtual time, have one round on their way at most, and an interval below five quarters of what a round takes.

use std::time::Duration;

use units::Nanos;

/// The shortest interval between two rounds, with which they begin.
pub const ROUND_INTERVAL_MIN: Duration = Duration::from_millis(250);
/// After so many rounds in a row that left soon the interval is halved.
const SOON_ROUNDS: u32 = 3;
/// The interval grows by this part of it: the line is idle for no more than that once the interval is found.
const GROWTH: u32 = 4;

/// The rounds of one peer.
#[derive(Clone, Debug)]
pub struct Rounds {
    interval: Duration,
    interval_max: Duration,
    phase: Phase,
    /// Rounds in a row that have left within half of the interval.
    soon: u32,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// What waited before the first round has not left; when that is looked at next.
    Before(Nanos),
    /// The next round can be put in; when it is looked at next whether there is nothing to put in.
    Open(Nanos),
    /// A round is on its way.
    Sent {
        since: Nanos,
        /// Whether it had left when half of the interval was over.
        left_soon: Option<bool>,
        look_at: Nanos,
    },
}

/// What a peer is sent in rounds is sent when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundsState {
    /// Not now.
    Closed,
    /// Now: a round can be put in.
    Open,
    /// It needs no rounds any more.
    Over,
}

impl Rounds {
    /// From now on the peer is sent rounds, at most `interval_max` apart because of it.
    #[must_use]
    pub fn begin(now: Nanos, interval_max: Duration) -> Rounds {
        let interval = ROUND_INTERVAL_MIN;
        let phase = Phase::Before(now + interval);
        Rounds { interval, interval_max: interval_max.max(interval), phase, soon: 0 }
    }

    /// The present interval.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Whether a round can be put in.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    /// All of a round is put in.
    pub fn end_round(&mut self, now: Nanos) {
        if self.is_open() {
            self.phase = Phase::Sent { since: now, left_soon: None, look_at: now + self.interval / 2 };
        }
    }

    /// When [`Rounds::look`] is to be called next.
    #[must_use]
    pub fn next_look(&self) -> Nanos {
        match self.phase {
            Phase::Before(look_at) | Phase::Open(look_at) | Phase::Sent { look_at, .. } => look_at,
        }
    }

    /// What is to be done now; `has_left` tells whether nothing waits for the peer any more.
    pub fn look(&mut self, now: Nanos, has_left: impl FnOnce() -> bool) -> RoundsState {
        let is_open = self.is_open();
        if now < self.next_look() {
            return if is_open { RoundsState::Open } else { RoundsState::Closed };
        }
        let has_left = has_left();
        match &mut self.phase {
            // It was not sent in a round, and says nothing of how long these take.
            Phase::Before(look_at) if !has_left => {
                *look_at = now + ROUND_INTERVAL_MIN;
                return RoundsState::Closed;
            }
            Phase::Before(_) => {}
            // A quiet interval is as good as a round that left soon. Or a part of the round is on its way.
            Phase::Open(_) => self.soon = if has_left { self.soon + 1 } else { 0 },
            Phase::Sent { since, left_soon, look_at } => {
                let next = *since + self.interval;
                if *left_soon.get_or_insert(has_left) && !has_left || now < next {
                    // Before its time, or something else has been sent meanwhile.
                    *look_at = next.max(now + ROUND_INTERVAL_MIN / 2);
                    return RoundsState::Closed;
                }
                if !has_left {
                    self.interval = (self.interval + self.interval / GROWTH).min(self.interval_max);
                    self.soon = 0;
                    *look_at = (*since + self.interval).max(now + ROUND_INTERVAL_MIN / GROWTH);
                    return RoundsState::Closed;
                }
                self.soon = if *left_soon == Some(true) { self.soon + 1 } else { 0 };
            }
        }
        if self.soon >= SOON_ROUNDS {
            self.soon = 0;
            if self.interval <= ROUND_INTERVAL_MIN {
                return RoundsState::Over;
            }
            self.interval = (self.interval / 2).max(ROUND_INTERVAL_MIN);
        }
        self.phase = Phase::Open(now + self.interval);
        RoundsState::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_secs(16);

    /// A line that takes so many bytes a second, and what is on it.
    struct Line {
        bytes_per_second: u64,
        waiting: u64,
        now: Nanos,
    }

    impl Line {
        /// Time passes until the next look, or a tick if there is none to wait for.
        fn pass(&mut self, rounds: &Rounds) {
            let tick = Duration::from_millis(10);
            let until = rounds.next_look().min(self.now + tick).max(self.now + Duration::from_millis(1));
            let passed = until.since(self.now);
            self.waiting =
                self.waiting.saturating_sub(self.bytes_per_second * passed.as_millis() as u64 / 1_000);
            self.now = until;
        }
    }

    /// Rounds of so many bytes for a while; whether they are over then.
    fn run(line: &mut Line, rounds: &mut Rounds, round_bytes: u64, span: Duration) -> RoundsState {
        let until = line.now + span;
        let mut last_end = None;
        while line.now < until {
            line.pass(rounds);
            let waiting = line.waiting;
            match rounds.look(line.now, || waiting == 0) {
                RoundsState::Over => return RoundsState::Over,
                RoundsState::Closed => {}
                RoundsState::Open => {
                    assert_eq!(line.waiting, 0, "the one before has left");
                    let apart = last_end.map(|end| line.now.since(end));
                    assert!(apart.is_none_or(|apart| apart >= ROUND_INTERVAL_MIN), "{apart:?}");
                    line.waiting = round_bytes;
                    rounds.end_round(line.now);
                    last_end = Some(line.now);
                }
            }
        }
        RoundsState::Closed
    }

    #[test]
    fn the_interval_finds_what_a_round_takes_and_stays_there() {
        for (bytes_per_second, round_bytes) in
            [(10_000, 20_000), (25_000, 10_000), (100_000, 30_000), (4_000, 40_000)]
        {
            let mut line = Line { bytes_per_second, waiting: 100_000, now: Nanos(1_000_000_000) };
            let mut rounds = Rounds::begin(line.now, MAX);
            run(&mut line, &mut rounds, round_bytes, Duration::from_secs(200));
            let takes = Duration::from_millis(round_bytes * 1_000 / bytes_per_second);
            for _ in 0..50 {
                run(&mut line, &mut rounds, round_bytes, Duration::from_secs(1));
                assert!(
                    rounds.interval() >= takes && rounds.interval() < takes * 5 / 4 + ROUND_INTERVAL_MIN,
                    "{takes:?}, {rounds:?}"
                );
            }
        }
    }

    #[test]
    fn rounds_end_when_they_leave_at_once_and_no_sooner() {
        let mut line = Line { bytes_per_second: 10_000, waiting: 30_000, now: Nanos(1_000_000_000) };
        let mut rounds = Rounds::begin(line.now, MAX);
        let state = run(&mut line, &mut rounds, 20_000, Duration::from_secs(60));
        assert_eq!(state, RoundsState::Closed);
        let slowest = rounds.interval();
        assert!(slowest >= Duration::from_secs(2), "{slowest:?}");
        line.bytes_per_second = 10_000_000;
        let begun = line.now;
        let state = run(&mut line, &mut rounds, 20_000, Duration::from_secs(60));
        assert_eq!(state, RoundsState::Over);
        assert!(line.now.since(begun) >= slowest * SOON_ROUNDS, "each interval is tried several times");
    }

    #[test]
    fn the_interval_is_bounded_however_long_a_round_takes() {
        let mut now = Nanos(1_000_000_000);
        let mut rounds = Rounds::begin(now, MAX);
        now += ROUND_INTERVAL_MIN;
        assert_eq!(rounds.look(now, || false), RoundsState::Closed);
        assert_eq!(rounds.interval(), ROUND_INTERVAL_MIN, "what waited before was no round");
        now = rounds.next_look();
        assert_eq!(rounds.look(now, || true), RoundsState::Open);
        assert_eq!(rounds.look(now, || panic!("it is not asked")), RoundsState::Open, "until it is put in");
        rounds.end_round(now);
        for _ in 0..100 {
            now = rounds.next_look();
            assert_eq!(rounds.look(now, || false), RoundsState::Closed);
            assert!(rounds.next_look() > now && rounds.interval() <= MAX);
        }
        assert_eq!(rounds.interval(), MAX);
        now = rounds.next_look();
        assert_eq!((rounds.look(now, || true), rounds.interval()), (RoundsState::Open, MAX));
    }

    #[test]
    fn a_look_before_its_time_changes_nothing() {
        let mut now = Nanos(1_000_000_000);
        let mut rounds = Rounds::begin(now, Duration::ZERO);
        assert_eq!(rounds.look(now, || panic!("it is not asked")), RoundsState::Closed);
        rounds.end_round(now);
        assert_eq!(rounds.next_look(), now + ROUND_INTERVAL_MIN, "none was put in");
        now = rounds.next_look();
        assert_eq!(rounds.look(now, || true), RoundsState::Open);
        rounds.end_round(now);
        assert_eq!(rounds.look(now, || panic!("it is not asked")), RoundsState::Closed);
        // What has left by half of the interval, and something else that has not.
        now += ROUND_INTERVAL_MIN / 2;
        assert_eq!(rounds.look(now, || true), RoundsState::Closed);
        now = rounds.next_look();
        assert_eq!(
            (rounds.look(now, || false), rounds.interval()),
            (RoundsState::Closed, ROUND_INTERVAL_MIN)
        );
    }

    #[test]
    fn quiet_intervals_end_rounds_as_well_and_parts_of_a_round_on_their_way_do_not() {
        let mut rounds = Rounds::begin(Nanos(1), MAX);
        assert_eq!(rounds.look(rounds.next_look(), || true), RoundsState::Open);
        for _ in 0..20 {
            assert_eq!(
                rounds.look(rounds.next_look(), || false),
                RoundsState::Open,
                "it is put in bit by bit"
            );
        }
        for expected in [RoundsState::Open, RoundsState::Open, RoundsState::Over] {
            assert_eq!(rounds.look(rounds.next_look(), || true), expected);
        }
    }
}
