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

use std::time::Duration;

use units::Nanos;

use super::base::{FlowConfig, PeerId};
use super::links::Links;
use super::notices::PeerNotice;
use super::peer::PeerFlow;
use super::sink::DistributorSink;
use super::suppliers::Suppliers;
use crate::backbone::LinkUp;

/// A server that was left behind is waited for again after so many times the patience at the earliest.
const REJOIN_AFTER: u32 = 30;

/// So many names of servers that have gone while they were left behind are remembered, the last ones.
const NAMES_MAX: usize = 1_000;

/// What is sent in all when one that lacks so much now could lack more than the window.
fn check_at(sent: u64, window_bytes: u64, lacks: u64) -> u64 {
    window_bytes.checked_sub(lacks).map_or(sent, |left| sent.saturating_add(left).saturating_add(1))
}

/// Bytes a second.
fn rate(bytes: u64, span: Duration) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / span.as_nanos().max(1)) as u64
}

impl Links {
    /// When [`super::Distributor::holds_providers`] is to be asked at the latest.
    pub(super) fn next_flow_check(&self) -> Nanos {
        if self.flow.held_since.is_some() { self.flow.due_at } else { Nanos::NEVER }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn check_flow(
        &mut self,
        now: Nanos,
        suppliers: &mut Suppliers,
        sink: &mut impl DistributorSink,
    ) -> bool {
        let FlowConfig { window_bytes, floor, patience } = self.config.flow;
        if window_bytes == 0 {
            self.flow.check_at = u64::MAX;
            return false;
        }
        let limit =
            if self.flow.held_since.is_some() { window_bytes - window_bytes / 4 } else { window_bytes };
        let sent = self.counters.stream_bytes_out.get();
        let (mut is_held, mut due_at) = (false, Nanos::NEVER);
        let services = &suppliers.services;
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
            flow.hold(now, &mut self.flow.ration, |unreported| {
                sink.peer_notice(id, &peer.name, &PeerNotice::HoldsBack { lacks, unreported });
            });
            is_held = true;
            due_at = due_at.min(flow.busy_since.map_or(now, |(since, _)| since) + patience);
        }
        self.note_held(now, is_held, suppliers);
        self.flow.due_at = due_at;
        self.flow.check_at = self.first_check();
        is_held
    }

    fn note_held(&mut self, now: Nanos, is_held: bool, suppliers: &mut Suppliers) {
        match self.flow.held_since {
            Some(since) => self.counters.providers_held_ns.add(now.since(since).as_nanos() as u64),
            None => {
                self.counters.provider_holds.add(u64::from(is_held));
                self.flow.held_from = now;
            }
        }
        if self.flow.held_since.is_some() && !is_held {
            let held = now.since(self.flow.held_from);
            for provider in suppliers.providers.values_mut() {
                provider.excuse(now, held);
            }
        }
        self.flow.held_since = is_held.then_some(now);
        self.count_behind();
    }

    fn count_behind(&self) {
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
        (id, positions): (PeerId, &[u8]),
        suppliers: &Suppliers,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.progress_in.inc();
        let FlowConfig { window_bytes, patience, .. } = self.config.flow;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let flow = &mut peer.flow;
        for (service, sequence) in LinkUp::positions(positions) {
            let Some(published) = suppliers.services.get(&service) else { continue };
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
        let services = &suppliers.services;
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
    pub(super) fn end_flow(&mut self, now: Nanos, name: String, flow: &PeerFlow, suppliers: &Suppliers) {
        let FlowConfig { window_bytes, patience, .. } = self.config.flow;
        let services = &suppliers.services;
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
}
