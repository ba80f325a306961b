//! The last number of each topic, said when it is silent and when the session ends, and the end itself.

use super::packer::Packer;
use super::topics::Topics;
use super::transport::SourceTransport;
use crate::wire::lbmc::{self, CONTROL_HEADER_LEN, Chain, Kind, TSNI_RECORDS_MAX};
use counters::table::ReliableSource;
use std::sync::Arc;
use units::{Nanos, Sqn};

/// Bytes of the longest control message that announces topics.
pub(crate) const TSNI_LEN_MAX: usize = CONTROL_HEADER_LEN + 4 + 8 * TSNI_RECORDS_MAX;

/// Headers of announcements in one wake-up, so that many silent topics do not hold up what else there is to
/// do.
const HEADERS_PER_WAKEUP: usize = 16;

/// What is said of topics besides their messages.
pub(super) struct Announcer {
    ending: Ending,
    announcements: Vec<(u32, Sqn)>,
    /// A control message being built.
    scratch: Vec<u8>,
    counters: Arc<ReliableSource>,
}

/// How far the end of the session has been said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// Topics before this one have been announced for the last time.
    Announcing(usize),
    Done,
}

impl Announcer {
    pub(super) fn new(counters: Arc<ReliableSource>) -> Announcer {
        Announcer {
            ending: Ending::No,
            announcements: Vec::with_capacity(TSNI_RECORDS_MAX),
            scratch: Vec::with_capacity(TSNI_LEN_MAX),
            counters,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.scratch.capacity() + self.announcements.capacity() * size_of::<(u32, Sqn)>()
    }

    /// Whether the session was ended.
    #[inline]
    pub(super) fn is_ending(&self) -> bool {
        self.ending != Ending::No
    }

    /// Whether the end has been written.
    pub(super) fn has_ended(&self) -> bool {
        self.ending == Ending::Done
    }

    /// The last number of each topic and the end are to be said, once more if they were.
    pub(super) fn end(&mut self) {
        self.ending = Ending::Announcing(0);
    }

    /// When there is something to announce, or to go on ending with; never while the backlog is full.
    pub(super) fn due(&self, topics: &Topics, packer: &Packer) -> Nanos {
        if packer.is_blocked() {
            return Nanos::NEVER;
        }
        match self.ending {
            Ending::No if packer.is_held() => Nanos::NEVER,
            Ending::No => topics.scan_at(),
            Ending::Announcing(_) => Nanos::ZERO,
            Ending::Done => Nanos::NEVER,
        }
    }

    /// Writes what is due.
    pub(super) fn announce<T: SourceTransport>(
        &mut self,
        topics: &mut Topics,
        packer: &mut Packer,
        transport: &T,
        now: Nanos,
    ) {
        match self.ending {
            Ending::No => self.announce_silent(topics, packer, transport, now),
            Ending::Announcing(_) => self.announce_end(topics, packer, transport, now),
            Ending::Done => {}
        }
    }

    fn announce_silent<T: SourceTransport>(
        &mut self,
        topics: &mut Topics,
        packer: &mut Packer,
        transport: &T,
        now: Nanos,
    ) {
        let mut found = false;
        for _ in 0..HEADERS_PER_WAKEUP {
            // room first: what was collected must be sent
            if packer.reserve(transport, now, TSNI_LEN_MAX).is_err() {
                break;
            }
            self.announcements.clear();
            let more = topics.silent(now, TSNI_RECORDS_MAX, &mut self.announcements);
            found |= !self.announcements.is_empty();
            self.append_announcements(packer, transport, now);
            if !more {
                break;
            }
        }
        if found {
            packer.flush(transport);
        }
    }

    fn announce_end<T: SourceTransport>(
        &mut self,
        topics: &mut Topics,
        packer: &mut Packer,
        transport: &T,
        now: Nanos,
    ) {
        while let Ending::Announcing(from) = self.ending {
            if packer.reserve(transport, now, TSNI_LEN_MAX).is_err() {
                return;
            }
            if from == topics.len() && !topics.owes_departed() {
                self.append_end(packer, transport, now);
                return;
            }
            self.announcements.clear();
            let next = topics.all_spoken(from, TSNI_RECORDS_MAX, &mut self.announcements);
            self.append_announcements(packer, transport, now);
            self.ending = Ending::Announcing(next);
        }
    }

    fn append_announcements<T: SourceTransport>(&mut self, packer: &mut Packer, transport: &T, now: Nanos) {
        if self.announcements.is_empty() {
            return;
        }
        self.scratch.clear();
        lbmc::emit_tsni(&mut self.scratch, &self.announcements);
        self.counters.tsni_sent.add(self.announcements.len() as u64);
        self.append_scratch(packer, transport, now);
    }

    fn append_end<T: SourceTransport>(&mut self, packer: &mut Packer, transport: &T, now: Nanos) {
        self.scratch.clear();
        lbmc::emit_message(&mut self.scratch, Kind::EndOfTransport, None, &Chain::default(), None);
        self.append_scratch(packer, transport, now);
        packer.flush(transport);
        self.ending = Ending::Done;
    }

    /// Appends a control message; the caller made room for the longest.
    fn append_scratch<T: SourceTransport>(&self, packer: &mut Packer, transport: &T, now: Nanos) {
        packer.next_bytes(self.scratch.len()).copy_from_slice(&self.scratch);
        packer.grown(transport, now, self.scratch.len());
    }
}
