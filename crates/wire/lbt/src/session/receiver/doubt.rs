//! Numbers that do not follow on those of a session: when they are believed.
//!
//! Anybody can send a datagram in a source's name. A number far ahead, or one that was passed, is believed only when
//! a row of packets goes on from there, for a while in which the session does not go on where it was. As long as the
//! session is alive, it refutes such a row with each datagram, and with a session message once a second at the latest.
//! What the row's packets said is missing afterwards, and is asked for.

use crate::delivery::NEAR;
use std::time::Duration;
use units::Nanos;

/// What is to be believed about numbers elsewhere.
pub(super) struct Doubt {
    row: Option<Row>,
    /// Where the part ended that was asked for last of what is not believed, and how long it was.
    probe: (u64, u64),
}

/// Packets that follow on each other, but not on the session.
struct Row {
    /// The number after the last of them.
    end: u64,
    count: u32,
    since: Nanos,
    /// Where the session was.
    at: u64,
}

/// A jump up to this has happened to receivers that were overrun.
const FAR: u64 = 65_536;
/// No source sends so many datagrams within a time-out: a jump beyond this is no loss.
pub(super) const ABSURD: u64 = 1 << 24;

/// Packets in a row that are believed once the row has lasted for [`ROW_SPAN`].
const ROW_FAR: u32 = 16;
const ROW_BEYOND: u32 = 256;
/// A burst is sent between two datagrams of any session. This long it takes one that sends fewer than ten a second to
/// say nothing in between; who was cut off from a fast one has it asked for by then still, as windows hold more.
const ROW_SPAN: Duration = Duration::from_millis(100);
/// Packets that are believed if they are all that was heard for this long: more than the wait between two session
/// messages of a source that is alive.
const ROW_LASTING: u32 = 3;
const LASTING: Duration = Duration::from_millis(1_250);

/// What is asked for of a jump that is not believed grows so much with each answer, from one number on.
const PROBE_GROWTH: u64 = 32;

impl Doubt {
    pub(super) const NONE: Doubt = Doubt { row: None, probe: (0, 0) };

    /// A packet of a session that is `at` a number says that `end` comes next. Whether that is believed.
    pub(super) fn is_settled(&mut self, now: Nanos, at: u64, end: u64) -> bool {
        if end == at {
            // A copy of the last one.
            self.refute();
            return false;
        }
        let enough = match end.checked_sub(at) {
            // Copies of what was heard come in rows as well.
            None => u32::MAX,
            Some(..=FAR) => ROW_FAR,
            Some(_) => ROW_BEYOND,
        };
        let (count, since) = match self.row {
            Some(Row { end: last, count, since, at: was_at }) if was_at == at && follows(last, end) => {
                (count + 1, since)
            }
            _ => (1, now),
        };
        let lasted = now.since(since);
        let is_settled = count >= enough && lasted >= ROW_SPAN || count >= ROW_LASTING && lasted >= LASTING;
        self.row = (!is_settled).then_some(Row { end, count, since, at });
        is_settled
    }

    /// How much is to be asked for of a jump that is not believed, by a session that is `at` a number and has got what was
    /// asked for so before. Nothing of a jump that no overrun receiver has met.
    pub(super) fn next_probe(&mut self, at: u64, jump: u64) -> Option<u64> {
        if jump > FAR {
            return None;
        }
        let (end, length) = self.probe;
        let length = if end == at { length.saturating_mul(PROBE_GROWTH) } else { 1 }.min(jump);
        self.probe = (at + length, length);
        // That it is asked for does not say that the session goes on.
        if let Some(row) = &mut self.row {
            row.at = at + length;
        }
        Some(length)
    }

    /// The session goes on where it was.
    pub(super) fn refute(&mut self) {
        *self = Doubt::NONE;
    }
}

fn follows(last: u64, end: u64) -> bool {
    end >= last && end - last <= NEAR
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// After how many packets in a row, one a millisecond, `jump` from 1,000 is believed.
    fn believed_after(jump: i64) -> u32 {
        let mut doubt = Doubt::NONE;
        let (at, end) = (1_000_000, 1_000_000 + jump);
        let mut now = Nanos::ZERO;
        (1..)
            .find(|i| {
                now += MS;
                doubt.is_settled(now, at, (end + i64::from(*i)) as u64)
            })
            .expect("at some time")
    }

    #[test]
    fn the_farther_the_longer_a_row_must_be() {
        assert_eq!(
            [believed_after(10_000), believed_after(1 << 20), believed_after(1 << 30)],
            [101, 256, 256]
        );
        assert_eq!(believed_after(-900_000), 1_251, "what goes back must last");
    }

    #[test]
    fn what_is_asked_for_grows_as_it_is_answered_and_stays_within_what_was_said() {
        let mut doubt = Doubt::NONE;
        assert_eq!(doubt.next_probe(100, 5_000), Some(1));
        assert_eq!(doubt.next_probe(101, 4_999), Some(32));
        assert_eq!(doubt.next_probe(133, 4_967), Some(1_024));
        assert_eq!(doubt.next_probe(1_157, 3_943), Some(3_943));
        assert_eq!(doubt.next_probe(9_000, 60_000), Some(1), "it has gone on otherwise");
        assert_eq!(doubt.next_probe(9_001, FAR + 1), None);
    }

    #[test]
    fn that_a_part_is_asked_for_does_not_end_a_row() {
        let mut doubt = Doubt::NONE;
        for i in 0..15 {
            assert!(!doubt.is_settled(at(i), 100, 5_000 + i));
        }
        assert_eq!(doubt.next_probe(100, 4_915), Some(1));
        assert!(doubt.is_settled(at(100), 101, 5_015));
    }

    #[test]
    fn however_many_come_at_once_are_not_believed() {
        let mut doubt = Doubt::NONE;
        assert!((0..10_000).all(|i| !doubt.is_settled(at(i / 101), 1, 50_000 + i)));
        assert!(doubt.is_settled(at(100), 1, 60_000));
    }

    #[test]
    fn a_row_ends_where_the_session_goes_on_and_where_it_does_not_itself() {
        let mut doubt = Doubt::NONE;
        for i in 0..1_000 {
            assert!(!doubt.is_settled(at(i), 1_000 + i, 50_000 + i), "the session moves");
            assert!(!doubt.is_settled(at(i), 1, 50_000 + 5_000 * i), "it is no row");
        }
        for i in 0..1_000 {
            assert!(!doubt.is_settled(at(i * 1_000), 1, 50_000 + i));
            doubt.refute();
        }
        assert!(!doubt.is_settled(at(1), 1, 50_000) && !doubt.is_settled(at(1_000), 1, 50_000));
        assert!(doubt.is_settled(at(1_251), 1, 50_001), "three packets, and nothing else for long");
    }
}
