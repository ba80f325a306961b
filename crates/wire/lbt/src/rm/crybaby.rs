use crate::config::SourceConfig;
use crate::rate::TokenBucket;
use crate::session::Share;
use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::time::Duration;
use units::Nanos;

/// What a source has to say about its receivers: see [`Source::poll_event`](super::Source::poll_event).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceEvent {
    /// A receiver asks for more than its share of the retransmission rate while others ask too; what it asks
    /// for beyond the share is not retransmitted.
    Crybaby {
        /// Where its NAKs come from.
        address: SocketAddrV4,
        /// Numbers it has NAKed so far.
        naks: u64,
        /// How many of these were passed over.
        shed: u64,
    },
    /// A receiver still loses datagrams at the lowest rate that congestion control goes down to; it has no
    /// say in the rate for a while.
    TooSlow {
        /// Where its reports come from.
        address: SocketAddrV4,
    },
}

/// Who asks for how much, so that one receiver cannot use up what all have for repairs.
///
/// Each address that NAKs has a token bucket of its share of the retransmission rate. It counts only while
/// retransmissions wait for the rate limit and another receiver asks too: then what one asks for beyond its
/// share is passed over, without a confirmation, which would put off the others who miss the same.
pub(super) struct Askers {
    share_bps: u64,
    entries: Vec<Asker>,
    events: VecDeque<SourceEvent>,
}

struct Asker {
    address: SocketAddrV4,
    credit: TokenBucket,
    heard: Nanos,
    naks: u64,
    shed: u64,
    /// When it may be named again.
    name_after: Nanos,
}

/// A receiver that asks for retransmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedBy {
    /// Where from.
    pub address: SocketAddrV4,
    /// When it last did.
    pub heard: Nanos,
    /// Numbers it has NAKed.
    pub naks_rcved: u64,
    /// Of them, those passed over because it asked for more than its share.
    pub shed: u64,
}

/// Most addresses that are told apart; the one that was silent longest makes room for another.
const ASKERS_MAX: usize = 256;
/// Events that wait to be fetched; further ones are not told.
const EVENTS_MAX: usize = 16;
/// How much of its share a receiver may ask for at once: a burst of loss is not a habit.
const SHARE_DEPTH: Duration = Duration::from_millis(100);
/// A receiver that asked within this time before another one asks with it.
const TOGETHER: Duration = Duration::from_secs(1);
/// A receiver is named so often at most.
const NAME_EVERY: Duration = Duration::from_secs(10);

/// A place in the table, good until the next call of [`Askers::enter`].
#[derive(Clone, Copy)]
pub(super) struct AskerId(usize);

impl Askers {
    pub(super) fn new(config: &SourceConfig) -> Askers {
        let percent = u64::from(config.retransmit_share_maximum);
        let bps = config.retransmit_rate_limit;
        let share_bps = if percent >= 100 { 0 } else { (bps * percent / 100).max(1) };
        Askers { share_bps, entries: Vec::new(), events: VecDeque::new() }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let events = self.events.capacity() * size_of::<SourceEvent>();
        self.entries.capacity() * size_of::<Asker>() + events
    }

    /// Finds the sender of a NAK of `count` numbers, or makes room for it; also tells whether another lost
    /// its place.
    pub(super) fn enter(&mut self, now: Nanos, address: SocketAddrV4, count: u64) -> (AskerId, bool) {
        let (at, evicted) = match self.entries.iter().position(|a| a.address == address) {
            Some(at) => (at, false),
            None => self.admit(now, address),
        };
        self.entries[at].heard = now;
        self.entries[at].naks += count;
        (AskerId(at), evicted)
    }

    fn admit(&mut self, now: Nanos, address: SocketAddrV4) -> (usize, bool) {
        let credit = TokenBucket::new(self.share_bps, SHARE_DEPTH, 65_507, now);
        let fresh = Asker { address, credit, heard: now, naks: 0, shed: 0, name_after: now };
        if self.entries.len() < ASKERS_MAX {
            self.entries.push(fresh);
            return (self.entries.len() - 1, false);
        }
        let oldest = (0..ASKERS_MAX).min_by_key(|&at| self.entries[at].heard).expect("the table is full");
        self.entries[oldest] = fresh;
        (oldest, true)
    }

    /// Whether somebody else has asked lately.
    fn others_ask(&self, now: Nanos, asker: AskerId) -> bool {
        let recent = |a: &Asker| now.since(a.heard) < TOGETHER;
        self.share_bps != 0 && self.entries.iter().enumerate().any(|(at, a)| at != asker.0 && recent(a))
    }

    /// The share of one asker at this moment; `None` while nobody else asks.
    pub(super) fn share(&mut self, now: Nanos, asker: AskerId) -> Option<Asking<'_>> {
        self.others_ask(now, asker).then_some(Asking { askers: self, at: asker.0, now })
    }

    pub(super) fn tell(&mut self, event: SourceEvent) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        }
    }

    /// Who has asked lately: at most 256.
    pub(super) fn all(&self) -> impl Iterator<Item = AskedBy> + '_ {
        self.entries.iter().map(|a| AskedBy {
            address: a.address,
            heard: a.heard,
            naks_rcved: a.naks,
            shed: a.shed,
        })
    }

    pub(super) fn poll_event(&mut self) -> Option<SourceEvent> {
        self.events.pop_front()
    }
}

/// One receiver asks for retransmissions.
pub(super) struct Asking<'a> {
    askers: &'a mut Askers,
    at: usize,
    now: Nanos,
}

impl Share for Asking<'_> {
    fn allows(&mut self, bytes: u64) -> bool {
        let a = &mut self.askers.entries[self.at];
        if a.credit.available(self.now) >= bytes {
            return true;
        }
        a.shed += 1;
        if self.now >= a.name_after {
            a.name_after = self.now + NAME_EVERY;
            let event = SourceEvent::Crybaby { address: a.address, naks: a.naks, shed: a.shed };
            self.askers.tell(event);
        }
        false
    }

    fn charge(&mut self, bytes: u64) {
        let credit = &mut self.askers.entries[self.at].credit;
        let _refilled = credit.available(self.now);
        credit.take(bytes);
    }
}
