use super::framing::Framing;
use super::source::{Ending, Source, TSNI_LEN_MAX};
use crate::wire::lbmc::{self, Chain, Kind, TSNI_RECORDS_MAX};
use units::Nanos;

/// Headers of announcements in one wake-up, so that many silent topics do not hold up what else there is to
/// do.
const HEADERS_PER_WAKEUP: usize = 16;

impl<T: Framing> Source<T> {
    /// When there is something to announce, or to go on ending with; never while the backlog is full.
    pub(super) fn announcing_due(&self) -> Nanos {
        if self.is_blocked() {
            return Nanos::NEVER;
        }
        match self.ending {
            Ending::No if self.is_held => Nanos::NEVER,
            Ending::No => self.topics.scan_at(),
            Ending::Announcing(_) => Nanos::ZERO,
            Ending::Done => Nanos::NEVER,
        }
    }

    pub(super) fn announce(&mut self, now: Nanos) {
        match self.ending {
            Ending::No => self.announce_silent(now),
            Ending::Announcing(_) => self.announce_end(now),
            Ending::Done => {}
        }
    }

    fn announce_silent(&mut self, now: Nanos) {
        let mut found = false;
        for _ in 0..HEADERS_PER_WAKEUP {
            // room first: what was collected must be sent
            if self.reserve(now, TSNI_LEN_MAX).is_err() {
                break;
            }
            self.announcements.clear();
            let more = self.topics.silent(now, TSNI_RECORDS_MAX, &mut self.announcements);
            found |= !self.announcements.is_empty();
            self.append_announcements(now);
            if !more {
                break;
            }
        }
        if found {
            self.flush();
        }
    }

    fn announce_end(&mut self, now: Nanos) {
        while let Ending::Announcing(from) = self.ending {
            if self.reserve(now, TSNI_LEN_MAX).is_err() {
                return;
            }
            if from == self.topics.len() && !self.topics.owes_departed() {
                self.append_end(now);
                return;
            }
            self.announcements.clear();
            let next = self.topics.all_spoken(from, TSNI_RECORDS_MAX, &mut self.announcements);
            self.append_announcements(now);
            self.ending = Ending::Announcing(next);
        }
    }

    fn append_announcements(&mut self, now: Nanos) {
        if self.announcements.is_empty() {
            return;
        }
        self.scratch.clear();
        lbmc::emit_tsni(&mut self.scratch, &self.announcements);
        self.counters.tsni_sent.add(self.announcements.len() as u64);
        self.append_scratch(now);
    }

    fn append_end(&mut self, now: Nanos) {
        self.scratch.clear();
        lbmc::emit_message(&mut self.scratch, Kind::EndOfTransport, None, &Chain::default(), None);
        self.append_scratch(now);
        self.flush();
        self.ending = Ending::Done;
    }

    /// Appends a control message; the caller made room for the longest.
    fn append_scratch(&mut self, now: Nanos) {
        let need = self.scratch.len();
        self.window.bytes_mut(self.open.at, need).copy_from_slice(&self.scratch);
        self.grown(now, need);
    }
}
