use std::collections::{HashMap, HashSet, VecDeque};

use lbt::resolution::{SourceRecord, TransportSession};

use super::Owner;
use crate::Receiver;

/// Sources that wait until their sessions may be opened, of one kind: whose they say they are takes turns, so
/// that one address that advertises a thousand is no more than one that advertises one.
#[derive(Default)]
pub(super) struct Queue {
    /// In the order of their turns.
    owners: VecDeque<Owner>,
    of: HashMap<Owner, VecDeque<Waiting>>,
    known: HashSet<(Receiver, TransportSession, u32)>,
}

/// A source that a receiver wants.
pub(super) struct Waiting {
    pub(super) receiver: Receiver,
    pub(super) topic: Box<str>,
    pub(super) record: SourceRecord,
    pub(super) owner: Owner,
}

/// Those that wait at once, and owners that are looked at when one of them is chosen.
const WAITING_MAX: usize = 16_384;
const COMPARED: usize = 256;

impl Waiting {
    fn key(&self) -> (Receiver, TransportSession, u32) {
        (self.receiver, self.record.session, self.record.topic_index)
    }
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Lets one more wait, unless it does already. What one owner may have is as much as there is room left:
    /// nobody fills the room alone. False if there is none.
    pub(super) fn put(&mut self, waiting: Waiting) -> bool {
        if self.known.contains(&waiting.key()) {
            return true;
        }
        let own = self.of.get(&waiting.owner).map_or(0, VecDeque::len);
        if own >= WAITING_MAX.saturating_sub(self.len()) {
            return false;
        }
        if own == 0 {
            self.owners.push_back(waiting.owner);
        }
        self.known.insert(waiting.key());
        self.of.entry(waiting.owner).or_default().push_back(waiting);
        true
    }

    /// The first of the owner whose turn is the `place`th.
    pub(super) fn get(&self, place: usize) -> Option<&Waiting> {
        self.of.get(self.owners.get(place)?)?.front()
    }

    /// Takes it out; its owner's next turn is the last.
    pub(super) fn take(&mut self, place: usize) -> Option<Waiting> {
        let owner = self.owners.remove(place)?;
        let own = self.of.get_mut(&owner)?;
        let taken = own.pop_front()?;
        if own.is_empty() {
            self.of.remove(&owner);
        } else {
            self.owners.push_back(owner);
        }
        self.known.remove(&taken.key());
        Some(taken)
    }

    /// The turn of the first of those who have least.
    pub(super) fn poorest(&self, held_by: impl Fn(Owner) -> usize) -> Option<usize> {
        let compared = self.owners.iter().take(COMPARED).enumerate();
        compared.min_by_key(|(_, owner)| held_by(**owner)).map(|(place, _)| place)
    }
}
