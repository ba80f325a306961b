//! Items that peers want and no provider has published.
//!
//! There may be as many as items. Whatever concerns many of them is done in one *walk* through the table, so much in
//! a turn: those who wait are told that an item does not exist once its service has settled, and peers that are gone
//! are taken out. A walk that has to begin while another one goes on follows it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use rwf::State;
use units::Nanos;

use super::base::PeerId;
use super::status::{NOT_FOUND, TABLE_FULL, WAITING};
use crate::key::{ItemKey, OwnedKey};

/// The table, by the keys' bytes.
#[derive(Default)]
pub(super) struct UnknownItems {
    table: BTreeMap<Box<[u8]>, Unknown>,
    /// None is answered before; unless there is a walk.
    due_at: Option<Nanos>,
    /// What the walk has been at last.
    walk: Option<Vec<u8>>,
    /// One more walk has to follow.
    is_walk_due: bool,
    /// Peers that are gone, of which something may be left.
    gone: BTreeSet<PeerId>,
}

struct Unknown {
    key: OwnedKey,
    /// Peers that are told when the service has settled without it.
    peers: Vec<PeerId>,
    /// Peers that have had an image of it before: they wait until it is published.
    resuming: Vec<PeerId>,
}

/// What a step of the walk has come to.
pub(super) enum Step {
    /// There is no walk, or it is over.
    Over,
    /// Nobody has to be told.
    Passed,
    /// These peers are to be told that the item does not exist.
    NotFound(OwnedKey, Vec<PeerId>),
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

/// Interest.
impl UnknownItems {
    /// A peer wants an item that its provider has not published. With `resumes` it has had it before, and waits however
    /// long it takes. No more than `items_max` are kept. Returns what the peer is told.
    pub(super) fn want(
        &mut self,
        now: Nanos,
        (peer, key): (PeerId, ItemKey<'_>),
        (resumes, settled_at): (bool, Nanos),
        items_max: usize,
    ) -> State<'static> {
        let table = &mut self.table;
        let known = key.with_bytes(|bytes| table.get(bytes));
        let resumes = resumes || known.is_some_and(|unknown| unknown.resuming.contains(&peer));
        if now >= settled_at && !resumes {
            self.forget(peer, key);
            return NOT_FOUND;
        }
        if known.is_none() && table.len() >= items_max {
            return TABLE_FULL;
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
            self.note_due(settled_at);
        }
        WAITING
    }

    /// A peer does not wait any more for an item that nobody has published.
    pub(super) fn forget(&mut self, peer: PeerId, key: ItemKey<'_>) {
        key.with_bytes(|bytes| {
            if let Some(waiting) = self.table.get_mut(bytes) {
                waiting.forget(peer);
                if waiting.is_unwanted() {
                    self.table.remove(bytes);
                }
            }
        });
    }

    /// An item is there: who has waited for it.
    pub(super) fn take(&mut self, key: ItemKey<'_>) -> Vec<PeerId> {
        let unknown = key.with_bytes(|bytes| self.table.remove(bytes));
        unknown.map(|unknown| [unknown.peers, unknown.resuming].concat()).unwrap_or_default()
    }

    /// The next item of a service, and who has waited for it.
    pub(super) fn take_next_of(&mut self, service: u16) -> Option<(OwnedKey, Vec<PeerId>)> {
        let from: &[u8] = &service.to_be_bytes();
        let first = self.table.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)).next();
        let (bytes, _) = first.filter(|(_, unknown)| unknown.key.service == service)?;
        let bytes = bytes.clone();
        let unknown = self.table.remove(&bytes)?;
        Some((unknown.key, [unknown.peers, unknown.resuming].concat()))
    }

    /// A peer is gone: it is taken out in time.
    pub(super) fn forget_all(&mut self, peer: PeerId) {
        if !self.table.is_empty() {
            self.gone.insert(peer);
            self.begin_walk();
        }
    }

    /// The number of a peer that is gone is used again: it is taken out at once.
    pub(super) fn forget_rest(&mut self, peer: PeerId) {
        if self.gone.remove(&peer) {
            self.table.values_mut().for_each(|unknown| unknown.forget(peer));
        }
    }
}

/// The walk.
impl UnknownItems {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is a walk.
    pub(super) fn is_walked(&self) -> bool {
        self.walk.is_some()
    }

    /// When the next walk begins.
    pub(super) fn next_walk(&self) -> Nanos {
        self.due_at.unwrap_or(Nanos::NEVER)
    }

    /// An answer is due at a time, or before.
    pub(super) fn note_due(&mut self, at: Nanos) {
        self.due_at = Some(self.due_at.map_or(at, |due_at| due_at.min(at)));
    }

    /// Begins to look for peers that wait for items that do not exist, once their service has settled.
    pub(super) fn begin_walk_if_due(&mut self, now: Nanos) {
        if self.due_at.is_some_and(|due_at| now >= due_at) {
            self.due_at = None;
            self.begin_walk();
        }
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

    /// Goes on with the walk by one item. `is_linked` says whether a peer is there, `settled_at` from when on requests
    /// for unknown items of a service are answered.
    pub(super) fn step(
        &mut self,
        now: Nanos,
        is_linked: impl Fn(&PeerId) -> bool,
        settled_at: impl Fn(u16) -> Option<Nanos>,
    ) -> Step {
        let Some(walked) = &mut self.walk else { return Step::Over };
        let after = (Bound::Excluded(&walked[..]), Bound::Unbounded);
        let Some((bytes, unknown)) = self.table.range_mut::<[u8], _>(after).next() else {
            self.end_walk();
            return Step::Over;
        };
        bytes[..].clone_into(walked);
        unknown.peers.retain(&is_linked);
        unknown.resuming.retain(&is_linked);
        let (mut step, mut due_at) = (Step::Passed, None);
        if let Some(settled_at) = settled_at(unknown.key.service).filter(|_| !unknown.peers.is_empty()) {
            if now >= settled_at {
                step = Step::NotFound(unknown.key.clone(), std::mem::take(&mut unknown.peers));
            } else {
                due_at = Some(settled_at);
            }
        }
        if unknown.is_unwanted() {
            self.table.remove(&walked[..]);
        }
        if let Some(at) = due_at {
            self.note_due(at);
        }
        step
    }
}
