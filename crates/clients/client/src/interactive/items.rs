//! The items of an interactive provider: what was published, and who gets it.

use std::collections::HashMap;
use std::sync::Arc;

use counters::table::InteractiveSession;
use market::CachedItem;
use rwf::Domain;

use super::ClientId;
use super::client::Watcher;
use crate::table::{Slot, Table};
use crate::{ItemError, PublishSpec, PublishedItem};

/// One item.
#[derive(Debug)]
pub(crate) struct Item {
    pub(super) name: Arc<str>,
    pub(super) domain: Domain,
    pub(super) service_id: u16,
    /// The one client that it is for.
    pub(super) private: Option<ClientId>,
    /// The number of the last message, if they are numbered.
    pub(super) seq_num: Option<u32>,
    pub(super) key_in_updates: bool,
    pub(super) image: CachedItem,
    /// The application was asked for an image and has not published one since.
    pub(super) is_asked_for: bool,
    /// Streams that get updates.
    pub(super) live: Vec<Watcher>,
    /// Streams that have an image and want no updates for now.
    pub(super) paused: Vec<Watcher>,
    /// Streams that wait for an image.
    pub(super) waiting: Vec<Watcher>,
}

/// All items.
#[derive(Debug)]
pub(crate) struct Items {
    pub(super) table: Table<Item>,
    keys: HashMap<(u16, Domain, Arc<str>), Slot>,
    items_max: u32,
    counters: Arc<InteractiveSession>,
}

impl Item {
    /// Whether anybody wants it.
    pub(super) fn is_wanted(&self) -> bool {
        !(self.live.is_empty() && self.paused.is_empty() && self.waiting.is_empty())
    }

    /// Whether its image can be given to who asks.
    pub(super) fn has_image(&self) -> bool {
        self.image.is_known() && self.image.is_current()
    }

    /// Takes a stream out of all lists.
    pub(super) fn remove(&mut self, watcher: Watcher) {
        for list in [&mut self.live, &mut self.paused, &mut self.waiting] {
            if let Some(at) = list.iter().position(|other| *other == watcher) {
                list.swap_remove(at);
            }
        }
    }

    /// All streams.
    pub(super) fn watchers(&self) -> impl Iterator<Item = Watcher> + '_ {
        self.live.iter().chain(&self.paused).chain(&self.waiting).copied()
    }
}

impl Items {
    pub(super) fn new(items_max: u32, counters: Arc<InteractiveSession>) -> Items {
        Items { table: Table::default(), keys: HashMap::new(), items_max, counters }
    }

    /// The item of this key, a new one if there is none.
    pub(super) fn open(
        &mut self,
        spec: &PublishSpec<'_>,
        service_id: u16,
        private: Option<ClientId>,
    ) -> Result<PublishedItem, ItemError> {
        spec.check()?;
        let name: Arc<str> = spec.name.into();
        let key = (service_id, spec.domain, Arc::clone(&name));
        if let Some(slot) = self.keys.get(&key).filter(|_| private.is_none()) {
            return Ok(PublishedItem(*slot));
        }
        if self.table.len() >= self.items_max as usize {
            return Err(ItemError::TooManyItems { max: self.items_max });
        }
        let slot = self.table.insert(Item {
            name,
            domain: spec.domain,
            service_id,
            private,
            seq_num: spec.seq_nums.then_some(0),
            key_in_updates: spec.key_in_updates,
            image: CachedItem::default(),
            is_asked_for: false,
            live: Vec::new(),
            paused: Vec::new(),
            waiting: Vec::new(),
        });
        if private.is_none() {
            self.keys.insert(key, slot);
        }
        self.counters.items.set(self.table.len() as u64);
        Ok(PublishedItem(slot))
    }

    pub(super) fn remove(&mut self, slot: Slot) -> Option<Item> {
        let item = self.table.remove(slot)?;
        let key = (item.service_id, item.domain, Arc::clone(&item.name));
        if self.keys.get(&key) == Some(&slot) {
            self.keys.remove(&key);
        }
        self.counters.items.set(self.table.len() as u64);
        Some(item)
    }
}
