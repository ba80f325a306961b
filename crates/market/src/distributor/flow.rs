//! How far behind the point-to-point servers are, and whether providers have to be held back for them.
//!
//! Each server reports how far it has taken the streams (`Progress`). What was sent and is not taken yet is what
//! it *lacks*. As soon as a server lacks more than the window, providers are held back: they are not read until
//! it lacks a quarter less. What is in the window can still be retransmitted, so a server that is waited for
//! loses nothing for good.
//!
//! A server that holds providers back and takes less than the floor is *left behind*: nobody waits for it any
//! more. It loses what it cannot take, notices that by the numbers, and fetches images. It is waited for again
//! when it has caught up, but not before [`REJOIN_AFTER`] times the patience have passed, so that a server
//! cannot hold the others up again and again. That holds for its next links too, by its name: a server that is
//! started again and again is not new each time. And it is left behind as well when it stops following a stream,
//! or goes, while much is lacking: nothing was taken by that.
//!
//! A server that begins to follow a stream, or does so again, lacks what is sent from then on: one that says otherwise
//! cannot hold providers back for what went out before.
//!
//! Servers that report nothing, because they are of an earlier version, are not waited for.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use units::Nanos;

use super::{Distributor, DistributorSink, PeerId};
use crate::backbone::LinkUp;
use crate::ration::Ration;

/// When providers are held back.
#[derive(Clone, Copy, Debug)]
pub struct FlowConfig {
    /// The most bytes of stream messages that a server may lack before providers are held back; 0 if they never
    /// are.
    pub window_bytes: u64,
    /// In bytes a second: a server that takes less is not waited for.
    pub floor: u64,
    /// For so long a server's rate is measured, and so long it is waited for at least.
    pub patience: Duration,
}

impl Default for FlowConfig {
    fn default() -> Self {
        FlowConfig { window_bytes: 8 << 20, floor: 1_000_000, patience: Duration::from_secs(1) }
    }
}

/// What operators should know of a point-to-point server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerNotice {
    /// Providers are held back for it from now on.
    HoldsBack {
        /// What it lacks, in bytes.
        lacks: u64,
        /// How often that happened since it was told last, for any server, and was not told.
        untold: u64,
    },
    /// Providers are not held back for it any more; told if the begin was.
    LetsGo {
        /// For how long they were.
        after: Duration,
    },
    /// It takes less than the floor and is not waited for any more: it will lose messages.
    LeftBehind {
        /// What it takes, in bytes a second.
        rate: u64,
        /// What it lacks, in bytes.
        lacks: u64,
    },
    /// It follows a stream no more of which it lacked much, and is not waited for for a while.
    GivesUp {
        /// What it lacked, in bytes.
        lacks: u64,
    },
    /// It was behind when its last link ended, so long ago, and is not waited for on its new one yet.
    StillBehind {
        /// How long ago it was left behind.
        since: Duration,
        /// For how long it is not waited for.
        left: Duration,
    },
    /// It has caught up and is waited for again.
    CaughtUp {
        /// How long it was left behind.
        after: Duration,
    },
}

impl fmt::Display for PeerNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerNotice::HoldsBack { lacks, untold } => {
                write!(f, "providers are held back for it: it lacks {lacks} bytes")?;
                if *untold > 0 {
                    write!(f, "; {untold} more such holds since the last line")?;
                }
                Ok(())
            }
            PeerNotice::LetsGo { after } => {
                write!(f, "providers were held back for it for {} ms", after.as_millis())
            }
            PeerNotice::LeftBehind { rate, lacks } => write!(
                f,
                "it takes {rate} bytes/s, less than the floor, and lacks {lacks} bytes: providers are not held back for it any more, and it will lose messages"
            ),
            PeerNotice::GivesUp { lacks } => write!(
                f,
                "it follows a stream no more of which it lacks {lacks} bytes: providers are not held back for it for a while"
            ),
            PeerNotice::StillBehind { since, left } => write!(
                f,
                "it was behind when its last link ended, {} ms ago: providers are not held back for it for {} ms, and it may lose messages",
                since.as_millis(),
                left.as_millis()
            ),
            PeerNotice::CaughtUp { after } => {
                write!(
                    f,
                    "it has caught up after {} ms: providers are held back for it again",
                    after.as_millis()
                )
            }
        }
    }
}

/// A server that was left behind is waited for again after so many times the patience at the earliest.
const REJOIN_AFTER: u32 = 30;
/// So many names of servers that have gone while they were left behind are remembered, the last ones.
const NAMES_MAX: usize = 1_000;
/// The window has so many marks; a position between two counts as the lower one.
const MARKS_IN_WINDOW: u64 = 64;
/// Positions are told apart as far back as this many windows.
const WINDOWS_MARKED: u64 = 4;

/// How many bytes one stream has sent, and had sent at some of its numbers.
#[derive(Debug)]
pub(super) struct Outflow {
    bytes: u64,
    last: u64,
    /// Number and bytes, both with the message that the number is of.
    marks: VecDeque<(u64, u64)>,
    next_mark: u64,
    spacing: u64,
}

impl Outflow {
    pub(super) fn new(window_bytes: u64) -> Outflow {
        let spacing = if window_bytes == 0 { u64::MAX } else { (window_bytes / MARKS_IN_WINDOW).max(1) };
        Outflow { bytes: 0, last: 0, marks: VecDeque::new(), next_mark: spacing, spacing }
    }

    /// A message was sent.
    #[inline]
    pub(super) fn add(&mut self, sequence: u64, bytes: u64) {
        self.bytes += bytes;
        self.last = sequence;
        if self.bytes >= self.next_mark {
            self.mark();
        }
    }

    #[cold]
    #[inline(never)]
    fn mark(&mut self) {
        if self.marks.len() as u64 >= MARKS_IN_WINDOW * WINDOWS_MARKED {
            self.marks.pop_front();
        }
        self.marks.push_back((self.last, self.bytes));
        self.next_mark = self.bytes.saturating_add(self.spacing);
    }

    /// The bytes up to a number, or somewhat less. Too far back it is the oldest known, less than that of anything
    /// in the window.
    fn bytes_at(&self, sequence: u64) -> u64 {
        if sequence >= self.last {
            return self.bytes;
        }
        let behind = self.marks.partition_point(|(marked, _)| *marked <= sequence);
        let oldest = if self.marks.len() as u64 >= MARKS_IN_WINDOW * WINDOWS_MARKED {
            self.marks.front().map_or(0, |(_, bytes)| *bytes)
        } else {
            0
        };
        behind.checked_sub(1).and_then(|at| self.marks.get(at)).map_or(oldest, |(_, bytes)| *bytes)
    }
}

/// What a server has taken.
#[derive(Debug, Default)]
pub(super) struct PeerFlow {
    /// Of each stream that it follows, in bytes.
    taken: BTreeMap<u16, u64>,
    /// Of all streams since it is linked.
    total: u64,
    /// It does not lack a window before so much is sent in all.
    check_at: u64,
    /// Since when it has been busy without a break, and what it had taken by then.
    busy_since: Option<(Nanos, u64)>,
    left_at: Option<Nanos>,
    /// Since when providers are held back for it, and whether operators were told.
    holds: Option<(Nanos, bool)>,
}

impl PeerFlow {
    /// It takes no part in a stream any more.
    pub(super) fn forget(&mut self, service: u16) {
        self.taken.remove(&service);
    }

    /// Providers are held back for it.
    fn hold(&mut self, now: Nanos, ration: &mut Ration, tell: impl FnOnce(u64)) {
        if self.holds.is_none() {
            let untold = ration.take(now);
            self.holds = Some((now, untold.is_some()));
            untold.map(tell);
        }
    }

    /// Providers are not held back for it.
    pub(super) fn let_go(&mut self, now: Nanos, tell: impl FnOnce(&PeerNotice)) {
        if let Some((since, true)) = self.holds.take() {
            tell(&PeerNotice::LetsGo { after: now.since(since) });
        }
    }

    fn is_counted(&self) -> bool {
        self.left_at.is_none() && !self.taken.is_empty()
    }
}

/// Whether providers are held back.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Nobody lacks a window before so much is sent in all.
    check_at: u64,
    held_since: Option<Nanos>,
    /// When they began to be held back, while they are.
    held_from: Nanos,
    /// While they are held back: when a server's patience is over.
    due_at: Nanos,
    /// How often it may be told that they are.
    ration: Ration,
    /// Servers that have gone, by name, and since when they were left behind.
    gone: BTreeMap<String, Nanos>,
}

impl Distributor {
    /// Whether providers have to be held back now: nothing is to be read from them until this says no. To be asked
    /// in each turn.
    #[inline]
    pub fn holds_providers(&mut self, now: Nanos, sink: &mut impl DistributorSink) -> bool {
        if self.flow.held_since.is_none() && self.counters.stream_bytes_out.get() < self.flow.check_at {
            return false;
        }
        self.check_flow(now, sink)
    }

    /// When [`Distributor::holds_providers`] is to be asked at the latest.
    pub(super) fn next_flow_check(&self) -> Nanos {
        if self.flow.held_since.is_some() { self.flow.due_at } else { Nanos::NEVER }
    }

    #[cold]
    #[inline(never)]
    fn check_flow(&mut self, now: Nanos, sink: &mut impl DistributorSink) -> bool {
        let FlowConfig { window_bytes, floor, patience } = self.config.flow;
        if window_bytes == 0 {
            self.flow.check_at = u64::MAX;
            return false;
        }
        let limit =
            if self.flow.held_since.is_some() { window_bytes - window_bytes / 4 } else { window_bytes };
        let sent = self.counters.stream_bytes_out.get();
        let (mut is_held, mut due_at) = (false, Nanos::NEVER);
        let services = &self.services;
        for (&id, peer) in &mut self.peers {
            let flow = &mut peer.flow;
            if !flow.is_counted() {
                flow.let_go(now, |notice| sink.peer_notice(id, &peer.name, notice));
                continue;
            }
            let lacks = flow.lacks(|service| Some(services.get(&service)?.stream.outflow.bytes));
            flow.check_at = check_at(sent, window_bytes, lacks);
            if lacks <= limit {
                flow.let_go(now, |notice| sink.peer_notice(id, &peer.name, notice));
                continue;
            }
            let (since, before) = *flow.busy_since.get_or_insert((now, flow.total));
            let spent = now.since(since);
            if spent >= patience {
                let taken = flow.total - before;
                let rate = rate(taken, spent);
                if taken == 0 || rate < floor {
                    flow.left_at = Some(now);
                    flow.busy_since = None;
                    self.counters.peers_left_behind.inc();
                    flow.let_go(now, |notice| sink.peer_notice(id, &peer.name, notice));
                    sink.peer_notice(id, &peer.name, &PeerNotice::LeftBehind { rate, lacks });
                    continue;
                }
                flow.busy_since = Some((now, flow.total));
            }
            flow.hold(now, &mut self.flow.ration, |untold| {
                sink.peer_notice(id, &peer.name, &PeerNotice::HoldsBack { lacks, untold });
            });
            is_held = true;
            due_at = due_at.min(flow.busy_since.map_or(now, |(since, _)| since) + patience);
        }
        self.note_held(now, is_held);
        self.flow.due_at = due_at;
        self.flow.check_at = self.first_check();
        is_held
    }

    fn note_held(&mut self, now: Nanos, is_held: bool) {
        match self.flow.held_since {
            Some(since) => self.counters.providers_held_ns.add(now.since(since).as_nanos() as u64),
            None => {
                self.counters.provider_holds.add(u64::from(is_held));
                self.flow.held_from = now;
            }
        }
        if self.flow.held_since.is_some() && !is_held {
            // They were not read: that they said nothing does not mean that they are silent.
            let held = now.since(self.flow.held_from);
            for provider in self.providers.values_mut() {
                provider.heard_at = provider.heard_at.after(held).min(now);
            }
        }
        self.flow.held_since = is_held.then_some(now);
        self.count_behind();
    }

    pub(super) fn count_behind(&self) {
        let behind = self.peers.values().filter(|peer| peer.flow.left_at.is_some()).count();
        self.counters.peers_behind.set(behind as u64);
    }

    fn first_check(&self) -> u64 {
        let counted = self.peers.values().filter(|peer| peer.flow.is_counted());
        counted.map(|peer| peer.flow.check_at).min().unwrap_or(u64::MAX)
    }

    /// A server says how far it has taken the streams.
    pub(super) fn on_progress(
        &mut self,
        now: Nanos,
        id: PeerId,
        positions: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        self.counters.progress_in.inc();
        let FlowConfig { window_bytes, patience, .. } = self.config.flow;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let flow = &mut peer.flow;
        for (service, sequence) in LinkUp::positions(positions) {
            let Some(published) = self.services.get(&service) else { continue };
            if sequence == LinkUp::NOT_FOLLOWED {
                let taken = flow.taken.remove(&service);
                let lacks = taken.map_or(0, |taken| published.stream.outflow.bytes.saturating_sub(taken));
                if lacks > window_bytes / 2 && window_bytes > 0 && flow.left_at.is_none() {
                    flow.left_at = Some(now);
                    flow.busy_since = None;
                    self.counters.peers_left_behind.inc();
                    sink.peer_notice(id, &peer.name, &PeerNotice::GivesUp { lacks });
                }
                continue;
            }
            let at = published.stream.outflow.bytes_at(sequence);
            // Whoever begins to follow lacks nothing of what was sent before, whatever it says.
            let before = flow.taken.entry(service).or_insert(published.stream.outflow.bytes);
            flow.total += at.saturating_sub(*before);
            *before = at.max(*before);
        }
        let services = &self.services;
        let lacks = flow.lacks(|service| Some(services.get(&service)?.stream.outflow.bytes));
        let sent = self.counters.stream_bytes_out.get();
        flow.check_at = check_at(sent, window_bytes, lacks);
        if lacks <= window_bytes / 2 {
            flow.busy_since = None;
            if let Some(left_at) = flow.left_at
                && now >= left_at + patience * REJOIN_AFTER
            {
                flow.left_at = None;
                let after = now.since(left_at);
                sink.peer_notice(id, &peer.name, &PeerNotice::CaughtUp { after });
                self.count_behind();
            }
        } else if flow.busy_since.is_none_or(|(since, _)| {
            // Longer than its patience it is measured only while it is waited for.
            self.flow.held_since.is_none() && now.since(since) >= patience
        }) {
            flow.busy_since = Some((now, flow.total));
        }
        self.flow.check_at = self.first_check();
    }

    /// A server has said its name: one that was left behind over another link still is.
    pub(super) fn resume_flow(&mut self, now: Nanos, id: PeerId, sink: &mut impl DistributorSink) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let left_at = self.flow.gone.remove(&peer.name);
        let again_after = self.config.flow.patience * REJOIN_AFTER;
        if let Some(left_at) = left_at.filter(|at| now < *at + again_after) {
            peer.flow.left_at = peer.flow.left_at.or(Some(left_at));
            let (since, left) = (now.since(left_at), (left_at + again_after).since(now));
            sink.peer_notice(id, &peer.name, &PeerNotice::StillBehind { since, left });
            self.count_behind();
        }
    }

    /// A link is gone. If providers were held back for it, or not any more, that is remembered.
    pub(super) fn end_flow(&mut self, now: Nanos, name: String, flow: &PeerFlow) {
        let FlowConfig { window_bytes, patience, .. } = self.config.flow;
        let services = &self.services;
        let lacks = flow.lacks(|service| Some(services.get(&service)?.stream.outflow.bytes));
        let is_waited_for = self.flow.held_since.is_some() && lacks > window_bytes / 2;
        if let Some(left_at) = flow.left_at.or(is_waited_for.then_some(now)) {
            if flow.left_at.is_none() {
                self.counters.peers_left_behind.inc();
            }
            let gone = &mut self.flow.gone;
            gone.retain(|_, at| now < *at + patience * REJOIN_AFTER);
            if gone.len() >= NAMES_MAX
                && let Some(oldest) = gone.iter().min_by_key(|(_, at)| **at).map(|(name, _)| name.clone())
            {
                gone.remove(&oldest);
            }
            gone.insert(name, left_at);
        }
        self.count_behind();
    }

    /// What each server lacks, in bytes, and whether it is left behind, for status pages: by name.
    pub fn peer_flows(&self) -> impl Iterator<Item = (&str, u64, bool)> + '_ {
        self.peers.values().map(|peer| {
            let lacks = peer.flow.lacks(|service| Some(self.services.get(&service)?.stream.outflow.bytes));
            (&*peer.name, lacks, peer.flow.left_at.is_some())
        })
    }
}

impl PeerFlow {
    /// What it lacks of the streams that it follows.
    fn lacks(&self, sent: impl Fn(u16) -> Option<u64>) -> u64 {
        let each = self
            .taken
            .iter()
            .map(|(service, taken)| sent(*service).map_or(0, |sent| sent.saturating_sub(*taken)));
        each.sum()
    }
}

/// What is sent in all when one that lacks so much now could lack more than the window.
fn check_at(sent: u64, window_bytes: u64, lacks: u64) -> u64 {
    window_bytes.checked_sub(lacks).map_or(sent, |left| sent.saturating_add(left).saturating_add(1))
}

/// Bytes a second.
fn rate(bytes: u64, span: Duration) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / span.as_nanos().max(1)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_its_bytes_or_somewhat_less() {
        let mut outflow = Outflow::new(6_400);
        for sequence in 1..=10_000 {
            outflow.add(sequence, 30);
        }
        assert_eq!((outflow.bytes_at(10_000), outflow.bytes_at(u64::MAX)), (300_000, 300_000));
        for sequence in 9_500..10_000 {
            let bytes = outflow.bytes_at(sequence);
            assert!(bytes <= sequence * 30 && bytes + 130 > sequence * 30, "{sequence}: {bytes}");
        }
        let oldest = outflow.bytes_at(1);
        assert!(300_000 - oldest >= 3 * 6_400, "what is too far back lacks windows: {oldest}");
        assert!(outflow.marks.len() <= 256);
    }

    #[test]
    fn a_young_stream_counts_from_its_begin() {
        let mut outflow = Outflow::new(6_400);
        assert_eq!(outflow.bytes_at(0), 0);
        outflow.add(1, 30);
        outflow.add(2, 30);
        assert_eq!((outflow.bytes_at(0), outflow.bytes_at(1), outflow.bytes_at(2)), (0, 0, 60));
    }
}
