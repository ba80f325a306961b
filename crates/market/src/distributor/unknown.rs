//! Items that peers want and no provider has published.
//!
//! There may be as many as items. Whatever concerns many of them is done in one *walk* through the table, so much in
//! a turn: those who wait are told that an item does not exist once its service has settled, and peers that are gone
//! are taken out. A walk that has to begin while another one goes on follows it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use units::Nanos;

use super::peers::{self, NOT_FOUND, TABLE_FULL, WAITING};
use super::{Distributor, DistributorSink, PeerId};
use crate::key::{ItemKey, OwnedKey};

/// The table, by the keys' bytes.
#[derive(Default)]
pub(super) struct UnknownItems {
    pub(super) table: BTreeMap<Box<[u8]>, Unknown>,
    /// None is answered before; unless there is a walk.
    pub(super) due_at: Option<Nanos>,
    /// What the walk has been at last.
    walk: Option<Vec<u8>>,
    /// One more walk has to follow.
    is_walk_due: bool,
    /// Peers that are gone, of which something may be left.
    gone: BTreeSet<PeerId>,
}

pub(super) struct Unknown {
    key: OwnedKey,
    /// Peers that are told when the service has settled without it.
    peers: Vec<PeerId>,
    /// Peers that have had an image of it before: they wait until it is published.
    resuming: Vec<PeerId>,
}

impl Unknown {
    fn forget(&mut self, peer: PeerId) {
        self.peers.retain(|p| *p != peer);
        self.resuming.retain(|p| *p != peer);
    }

    fn is_unwanted(&self) -> bool {
        self.peers.is_empty() && self.resuming.is_empty()
    }

    fn new(key: OwnedKey) -> Unknown {
        Unknown { key, peers: Vec::new(), resuming: Vec::new() }
    }
}

impl UnknownItems {
    /// Whether there is a walk.
    pub(super) fn is_walked(&self) -> bool {
        self.walk.is_some()
    }

    /// An answer is due at a time, or before.
    pub(super) fn note_due(&mut self, at: Nanos) {
        self.due_at = Some(self.due_at.map_or(at, |due_at| due_at.min(at)));
    }

    fn begin_walk(&mut self) {
        self.is_walk_due = self.walk.is_some();
        self.walk.get_or_insert_default();
    }

    fn end_walk(&mut self) {
        self.walk = None;
        if std::mem::take(&mut self.is_walk_due) {
            self.walk = Some(Vec::new());
        } else {
            self.gone.clear();
        }
    }
}

impl Distributor {
    /// A peer wants an item that its provider has not published.
    pub(super) fn on_unknown(
        &mut self,
        now: Nanos,
        (peer, key): (PeerId, ItemKey<'_>),
        (resumes, settled_at): (bool, Nanos),
        sink: &mut impl DistributorSink,
    ) {
        let table = &mut self.unknown.table;
        let known = key.with_bytes(|bytes| table.get(bytes));
        let resumes = resumes || known.is_some_and(|unknown| unknown.resuming.contains(&peer));
        if now >= settled_at && !resumes {
            self.counters.items_not_found.inc();
            self.forget_unknown(peer, key);
            return peers::tell(peer, key, NOT_FOUND, sink);
        }
        if known.is_none() && table.len() >= self.config.items_max {
            self.counters.interests_refused.inc();
            return peers::tell(peer, key, TABLE_FULL, sink);
        }
        let unknown = key.with_bytes(|bytes| {
            if !table.contains_key(bytes) {
                table.insert(bytes.into(), Unknown::new(key.to_owned()));
            }
            table.get_mut(bytes).expect("it was just put there")
        });
        unknown.forget(peer);
        if resumes {
            unknown.resuming.push(peer);
        } else {
            unknown.peers.push(peer);
            self.unknown.note_due(settled_at);
        }
        peers::tell(peer, key, WAITING, sink);
    }

    /// A peer does not wait any more for an item that nobody has published.
    pub(super) fn forget_unknown(&mut self, peer: PeerId, key: ItemKey<'_>) {
        key.with_bytes(|bytes| {
            if let Some(waiting) = self.unknown.table.get_mut(bytes) {
                waiting.forget(peer);
                if waiting.is_unwanted() {
                    self.unknown.table.remove(bytes);
                }
            }
        });
    }

    /// An item is there: who has waited for it.
    pub(super) fn take_unknown(&mut self, key: ItemKey<'_>) -> Vec<PeerId> {
        let Some(unknown) = key.with_bytes(|bytes| self.unknown.table.remove(bytes)) else {
            return Vec::new();
        };
        let mut waiting = [unknown.peers, unknown.resuming].concat();
        waiting.retain(|peer| self.peers.contains_key(peer));
        waiting
    }

    /// A peer is gone: it is taken out in time.
    pub(super) fn forget_all_unknown(&mut self, peer: PeerId) {
        if !self.unknown.table.is_empty() {
            self.unknown.gone.insert(peer);
            self.unknown.begin_walk();
        }
    }

    /// The number of a peer that is gone is used again: it is taken out at once.
    pub(super) fn forget_rest_unknown(&mut self, peer: PeerId) {
        if self.unknown.gone.remove(&peer) {
            self.unknown.table.values_mut().for_each(|unknown| unknown.forget(peer));
        }
    }

    /// Begins to tell peers that items they wait for do not exist, once their service has settled.
    pub(super) fn answer_unknown_if_due(&mut self, now: Nanos) {
        if self.unknown.due_at.is_some_and(|due_at| now >= due_at) {
            self.unknown.due_at = None;
            self.unknown.begin_walk();
        }
    }

    /// Goes on with the walk until so much of the turn's work is left.
    pub(super) fn walk_unknown(&mut self, now: Nanos, until: usize, sink: &mut impl DistributorSink) {
        while self.unknown.is_walked() && self.has_work_above(now, until) {
            self.spend(1);
            let Some(walked) = &mut self.unknown.walk else { return };
            let after = (Bound::Excluded(&walked[..]), Bound::Unbounded);
            let Some((bytes, unknown)) = self.unknown.table.range_mut::<[u8], _>(after).next() else {
                self.unknown.end_walk();
                continue;
            };
            bytes[..].clone_into(walked);
            let there = &self.peers;
            unknown.peers.retain(|peer| there.contains_key(peer));
            unknown.resuming.retain(|peer| there.contains_key(peer));
            let service = self.services.get(&unknown.key.service);
            if let Some(service) = service.filter(|_| !unknown.peers.is_empty()) {
                if service.is_settled(now) {
                    let told = std::mem::take(&mut unknown.peers);
                    self.counters.items_not_found.add(told.len() as u64);
                    for peer in &told {
                        peers::tell(*peer, unknown.key.as_key(), NOT_FOUND, sink);
                    }
                    self.spend(told.len());
                } else {
                    let settled_at = service.settled_at;
                    self.unknown.note_due(settled_at);
                }
            }
            self.drop_walked_if_unwanted();
        }
    }

    fn drop_walked_if_unwanted(&mut self) {
        let Some(walked) = &self.unknown.walk else { return };
        if self.unknown.table.get(&walked[..]).is_some_and(Unknown::is_unwanted) {
            self.unknown.table.remove(&walked[..]);
        }
    }

    /// Tells those who wait for the next item of a withdrawn service that it is gone; false if there is none.
    pub(super) fn end_next_unknown(
        &mut self,
        id: u16,
        state: rwf::State<'_>,
        sink: &mut impl DistributorSink,
    ) -> bool {
        let from: &[u8] = &id.to_be_bytes();
        let first = self.unknown.table.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)).next();
        let Some((bytes, _)) = first.filter(|(_, unknown)| unknown.key.service == id) else { return false };
        let bytes = bytes.clone();
        let Some(unknown) = self.unknown.table.remove(&bytes) else { return false };
        self.spend(unknown.peers.len() + unknown.resuming.len());
        for peer in unknown.peers.into_iter().chain(unknown.resuming) {
            if self.peers.contains_key(&peer) {
                peers::tell(peer, unknown.key.as_key(), state, sink);
            }
        }
        true
    }
}
