//! Which run of its source a datagram is of, where the session is fixed by configuration.
//!
//! Such a session keeps its id and its address when its source is started again, and its numbers begin again at 0. So
//! the source draws a number at each start and puts it at the end of every datagram ([`RunId`]; its place is in
//! `docs/protocol/extensions.md`). A receiver never takes datagrams of two runs for one: another run ends the session
//! here, and whoever drives it goes on with a receiver that [succeeds](super::Receiver::succeed) this one. That one
//! leaves out what comes late of runs that are over, and asks for a run that it has not heard before from its first
//! datagram on. A source that says no run is told by its numbers, as before.

use crate::wire::extension::{EXTENSION_HEADER_LEN, SUBTYPE_RUN, extension_header};
use std::collections::VecDeque;
use std::time::Duration;
use units::{Nanos, Sqn};

/// One run of a source, from its start to its end. Drawn at random at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(pub u64);

/// Bytes that a run takes at the end of a datagram.
pub(crate) const RUN_LEN: usize = EXTENSION_HEADER_LEN + DATA_LEN;
const DATA_LEN: usize = 12;
const VERSION: u8 = 1;

impl RunId {
    fn bytes(self) -> [u8; RUN_LEN] {
        let mut out = [0; RUN_LEN];
        out[..EXTENSION_HEADER_LEN].copy_from_slice(&extension_header(SUBTYPE_RUN, DATA_LEN));
        out[EXTENSION_HEADER_LEN] = VERSION;
        out[RUN_LEN - 8..].copy_from_slice(&self.0.to_be_bytes());
        out
    }

    /// Writes it into the last [`RUN_LEN`] bytes of `out`.
    pub(crate) fn write(self, out: &mut [u8]) {
        let at = out.len() - RUN_LEN;
        out[at..].copy_from_slice(&self.bytes());
    }

    /// A datagram without the run at its end, and that run, if there is one.
    pub(crate) fn split(datagram: &[u8]) -> (&[u8], Option<RunId>) {
        let header = extension_header(SUBTYPE_RUN, DATA_LEN);
        match datagram.split_last_chunk::<RUN_LEN>() {
            Some((rest, run))
                if run[..EXTENSION_HEADER_LEN] == header && run[EXTENSION_HEADER_LEN] == VERSION =>
            {
                let number = run.last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                (rest, Some(RunId(number)))
            }
            _ => (datagram, None),
        }
    }
}

/// What a receiver knows of the runs of its session's source.
pub(super) struct Runs {
    /// Whether the ends of datagrams are looked at.
    pub(super) is_watched: bool,
    /// The one that is heard; none before the first datagram, or if its source says none.
    pub(super) current: Option<RunId>,
    /// That of the packet that is being taken.
    pub(super) arriving: Option<RunId>,
    /// The one that is expected to go on, if it does.
    pub(super) awaited: Option<RunId>,
    /// The one that has ended the session here.
    found: Option<RunId>,
    /// Those that are over, the latest last.
    past: VecDeque<Past>,
    back: Option<Back>,
}

#[derive(Clone, Copy)]
struct Past {
    run: RunId,
    /// The transport number that would have come next.
    next: Sqn,
}

/// Packets in a row that go on with a run that was taken to be over.
struct Back {
    run: Option<RunId>,
    count: u32,
    since: Nanos,
    /// When the run that is heard was heard last.
    heard: Nanos,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is of the run that is heard, or may be the first of one.
    Taken,
    /// It is of a run that is over.
    Past,
    /// Another run has begun.
    Restarted,
}

/// Runs that are over and of which datagrams may still be under way.
const PAST_MAX: usize = 8;
/// So many packets bring a run back that was taken to be over, or fewer if they are all that is heard for longer than
/// a source is silent.
const ROW: u32 = 16;
const ROW_LASTING: u32 = 3;
const LASTING: Duration = Duration::from_millis(1_250);

impl Runs {
    pub(super) fn new() -> Runs {
        Runs {
            is_watched: true,
            current: None,
            arriving: None,
            awaited: None,
            found: None,
            past: VecDeque::new(),
            back: None,
        }
    }

    /// Where a packet of `run` stands. `end` is the number after the last that it says was sent; none if it says
    /// nothing of that. `heard` is when the session was heard last.
    pub(super) fn judge(
        &mut self,
        now: Nanos,
        is_waiting: bool,
        heard: Nanos,
        run: Option<RunId>,
        end: Option<Sqn>,
    ) -> Standing {
        if !is_waiting && run == self.current {
            return Standing::Taken;
        }
        let before = self.past.iter().find(|past| Some(past.run) == run).copied();
        if is_waiting && before.is_none() {
            return Standing::Taken;
        }
        // One that is not over is believed at once. One that is, or none at all, is believed if it goes on: what
        // comes late does not.
        let goes_on = end.is_some_and(|end| before.is_none_or(|before| before.next.precedes(end)));
        if (before.is_some() || run.is_none()) && !(goes_on && self.is_back(now, heard, run)) {
            return Standing::Past;
        }
        self.found = run;
        Standing::Restarted
    }

    fn is_back(&mut self, now: Nanos, heard: Nanos, run: Option<RunId>) -> bool {
        let row = match self.back.take() {
            Some(back) if back.run == run && back.heard == heard => Back { count: back.count + 1, ..back },
            _ => Back { run, count: 1, since: now, heard },
        };
        let is_back = row.count >= ROW || row.count >= ROW_LASTING && now.since(row.since) >= LASTING;
        self.back = Some(row);
        is_back
    }

    /// The session begins with the packet that is being taken. Whether it is the begin of a run that was not heard
    /// before, in a session that was.
    pub(super) fn begin(&mut self, resume: Option<Sqn>) -> bool {
        let run = self.arriving;
        let is_next = match self.awaited {
            Some(awaited) => run != Some(awaited),
            None => !self.past.is_empty(),
        };
        if let (Some(awaited), Some(next), true) = (self.awaited, resume, is_next) {
            self.put_past(awaited, next);
        }
        self.current = run;
        self.is_watched = run.is_some() || !self.past.is_empty();
        is_next && run.is_some()
    }

    fn put_past(&mut self, run: RunId, next: Sqn) {
        self.past.retain(|past| past.run != run);
        if self.past.len() >= PAST_MAX {
            self.past.pop_front();
        }
        self.past.push_back(Past { run, next });
    }

    /// Whether anything is known of runs.
    pub(super) fn are_known(&self) -> bool {
        self.current.is_some() || self.awaited.is_some() || !self.past.is_empty()
    }

    /// Takes over what was known when the session ended, with the number that came next then. `is_lost` tells that
    /// the run itself may go on. Returns the number with which the run goes on that is expected, if one is.
    pub(super) fn succeed(&mut self, before: &Runs, next: Option<Sqn>, is_lost: bool) -> Option<Sqn> {
        self.past = before.past.clone();
        let heard = before.current.or(before.awaited).zip(next);
        if let Some((run, next)) = heard {
            self.put_past(run, next);
        }
        let expected = if is_lost { heard.map(|(run, _)| run) } else { before.found };
        let at = self.past.iter().position(|past| Some(past.run) == expected)?;
        let Past { run, next } = self.past.remove(at)?;
        self.awaited = Some(run);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: RunId = RunId(0x0102_0304_0506_0708);
    const B: RunId = RunId(2);

    #[test]
    fn a_run_is_one_control_message_and_reads_back() {
        let mut datagram = b"datagram".to_vec();
        assert_eq!(RunId::split(&datagram), (&b"datagram"[..], None));
        datagram.extend_from_slice(&A.bytes());
        assert_eq!(crate::wire::lbmc::check(&datagram[8..]), Ok(1));
        assert_eq!(RunId::split(&datagram), (&b"datagram"[..], Some(A)));
        B.write(&mut datagram);
        assert_eq!(RunId::split(&datagram), (&b"datagram"[..], Some(B)));
        for len in 0..datagram.len() {
            assert_eq!(RunId::split(&datagram[..len]).1, None, "{len}");
        }
        datagram[8 + EXTENSION_HEADER_LEN] = VERSION + 1;
        assert_eq!(RunId::split(&datagram).1, None, "another version is skipped");
    }

    /// Receivers of one session, one after the other.
    struct World {
        runs: Runs,
        now: u64,
    }

    impl World {
        fn judge(&mut self, run: Option<RunId>, end: u32) -> Standing {
            self.now += 1_000_000;
            let is_waiting = self.runs.current.is_none();
            self.runs.judge(Nanos(self.now), is_waiting, Nanos::ZERO, run, Some(Sqn(end)))
        }

        fn begin(&mut self, run: RunId) -> bool {
            self.runs.arriving = Some(run);
            self.runs.begin(None)
        }

        fn succeed(&mut self, next: u32, is_lost: bool) -> Option<Sqn> {
            let before = std::mem::replace(&mut self.runs, Runs::new());
            self.runs.succeed(&before, Some(Sqn(next)), is_lost)
        }
    }

    #[test]
    fn another_run_is_believed_at_once_and_one_that_is_over_only_if_it_goes_on() {
        let mut world = World { runs: Runs::new(), now: 0 };
        assert_eq!(world.judge(Some(A), 1), Standing::Taken);
        assert!(!world.begin(A), "nothing was heard before");
        assert_eq!(
            (world.judge(Some(A), 2), world.judge(Some(B), 1)),
            (Standing::Taken, Standing::Restarted)
        );
        assert_eq!(world.succeed(100, false), None);
        // What is late of the last run, however much.
        assert!((0..100).all(|_| world.judge(Some(A), 100) == Standing::Past));
        assert_eq!(world.judge(Some(B), 1), Standing::Taken);
        assert!(world.begin(B), "it is heard from its begin");
        assert!((1..ROW).all(|i| world.judge(Some(A), 100 + i) == Standing::Past));
        assert_eq!(world.judge(Some(A), 200), Standing::Restarted);
        assert_eq!(world.succeed(7, false), Some(Sqn(100)), "it goes on where it was");
        assert_eq!(world.runs.awaited, Some(A));
        assert!(!world.begin(A));
    }

    #[test]
    fn a_run_that_was_lost_is_expected_to_go_on_and_another_one_is_heard_from_its_begin() {
        for (run, is_next) in [(A, false), (B, true)] {
            let mut world = World { runs: Runs::new(), now: 0 };
            world.begin(A);
            assert_eq!(world.succeed(50, true), Some(Sqn(50)));
            assert_eq!(world.judge(Some(run), 10), Standing::Taken);
            world.runs.arriving = Some(run);
            assert_eq!(world.runs.begin(Some(Sqn(50))), is_next);
            assert_eq!(world.judge(Some(A), 50), if is_next { Standing::Past } else { Standing::Taken });
        }
    }

    #[test]
    fn few_datagrams_without_a_run_are_left_out_of_a_session_that_has_one() {
        let mut world = World { runs: Runs::new(), now: 0 };
        world.begin(A);
        assert!((1..ROW).all(|i| world.judge(None, i) == Standing::Past));
        assert_eq!(world.judge(None, ROW), Standing::Restarted);
        let mut world = World { runs: Runs::new(), now: 0 };
        world.begin(A);
        assert_eq!([1, 2].map(|i| world.judge(None, i)), [Standing::Past; 2]);
        world.now += LASTING.as_nanos() as u64;
        assert_eq!(world.judge(None, 3), Standing::Restarted, "nothing else is heard for long");
    }
}
