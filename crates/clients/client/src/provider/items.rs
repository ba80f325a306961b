//! The items of a provider and how far the server knows them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use counters::table::ProviderSession;
use market::{CachedItem, ItemKey, RefreshForm, Scratch};
use rssl::{ApiMisuse, Outbound, SendError};
use rwf::{Domain, set_stream_id};

use super::{ItemError, PublishSpec, PublishedItem};
use crate::table::{Slot, Table};

/// One item.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) name: Arc<str>,
    pub(crate) domain: Domain,
    pub(crate) service_id: u16,
    pub(crate) standing: Standing,
    /// The number of the last message, if they are numbered.
    pub(crate) seq_num: Option<u32>,
    pub(crate) key_in_updates: bool,
    /// What was published so far, if images are kept and something was.
    pub(crate) image: Option<Box<CachedItem>>,
}

/// How far the server knows an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There was no refresh yet.
    New,
    /// There was one, but not on this connection, and nothing is kept of it.
    Forgotten,
    /// Its image is kept and waits to go out on this connection, or for a connection.
    Due,
    /// Its image is out on this connection.
    Known,
}

/// All items, and the images that are due.
#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) table: Table<Item>,
    keys: HashMap<(u16, Domain, Arc<str>), Slot>,
    /// Items with [`Standing::Due`], and some that are gone.
    due: VecDeque<Slot>,
    parts: Parts,
    scratch: Scratch,
    items_max: u32,
    part_bytes: usize,
    /// Images that went out of the cache since the connection began.
    pub(crate) republished_count: u64,
    counters: Arc<ProviderSession>,
}

/// The encoded parts of the image that is going out.
#[derive(Debug, Default)]
struct Parts {
    slot: Option<Slot>,
    bytes: Vec<u8>,
    ends: VecDeque<usize>,
    written: usize,
    /// The item has changed since: it goes out again.
    is_stale: bool,
}

/// What sending images came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pumped {
    /// Nothing is due any more.
    All,
    /// The rest goes when there is room.
    Held,
    /// An image is longer than the backlog; the rest can go on.
    TooLong {
        /// The item.
        slot: Slot,
        /// The length of the message.
        bytes: usize,
    },
}

impl Items {
    pub(crate) fn new(items_max: u32, part_bytes: usize, counters: Arc<ProviderSession>) -> Items {
        Items {
            table: Table::default(),
            keys: HashMap::new(),
            due: VecDeque::new(),
            parts: Parts::default(),
            scratch: Scratch::default(),
            items_max,
            part_bytes,
            republished_count: 0,
            counters,
        }
    }

    /// The item of this key, a new one if there is none.
    pub(crate) fn open(
        &mut self,
        spec: &PublishSpec<'_>,
        service_id: u16,
    ) -> Result<PublishedItem, ItemError> {
        spec.check()?;
        let name: Arc<str> = spec.name.into();
        let key = (service_id, spec.domain, Arc::clone(&name));
        if let Some(slot) = self.keys.get(&key) {
            return Ok(PublishedItem(*slot));
        }
        if self.table.len() >= self.items_max as usize {
            return Err(ItemError::TooManyItems { max: self.items_max });
        }
        let slot = self.table.insert(Item {
            name,
            domain: spec.domain,
            service_id,
            standing: Standing::New,
            seq_num: spec.seq_nums.then_some(0),
            key_in_updates: spec.key_in_updates,
            image: None,
        });
        self.keys.insert(key, slot);
        self.counters.items.set(self.table.len() as u64);
        Ok(PublishedItem(slot))
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        if let Some(item) = self.table.remove(slot) {
            self.keys.remove(&(item.service_id, item.domain, item.name));
        }
        self.forget_parts(slot);
        self.counters.items.set(self.table.len() as u64);
    }

    /// The item on a stream.
    pub(crate) fn on_stream(&mut self, stream: i32) -> Option<PublishedItem> {
        let place = u32::try_from(-1 - i64::from(stream)).ok()?;
        self.table.at_mut(place).map(|(slot, _)| PublishedItem(slot))
    }

    /// The image of an item is to go out from the cache.
    pub(crate) fn make_due(&mut self, slot: Slot) {
        let Some(item) = self.table.get_mut(slot) else { return };
        if item.standing != Standing::Due {
            item.standing = Standing::Due;
            self.due.push_back(slot);
        }
        self.note_change(slot);
        self.counters.items_waiting.set(self.due.len() as u64);
    }

    /// The image of an item has changed while it is due.
    pub(crate) fn note_change(&mut self, slot: Slot) {
        self.parts.is_stale |= self.parts.slot == Some(slot);
    }

    /// Whether some parts of the image of an item are out already.
    pub(crate) fn is_going_out(&self, slot: Slot) -> bool {
        self.parts.slot == Some(slot) && self.parts.written > 0
    }

    /// Something newer than the parts of an image has gone out: the rest of them does not follow.
    pub(crate) fn forget_parts(&mut self, slot: Slot) {
        if self.parts.slot == Some(slot) {
            self.parts = Parts::default();
        }
    }

    /// About how many bytes a part of an image has.
    pub(crate) fn part_bytes(&self) -> usize {
        self.part_bytes
    }

    /// The connection is lost: the server knows nothing any more.
    pub(crate) fn on_disconnected(&mut self) {
        self.parts = Parts::default();
        self.due.clear();
        self.republished_count = 0;
        let slots: Vec<Slot> = self.table.slots().collect();
        for slot in slots {
            let Some(item) = self.table.get_mut(slot) else { continue };
            item.standing = match (item.standing, &item.image) {
                (Standing::New, _) => Standing::New,
                (_, None) => Standing::Forgotten,
                (_, Some(_)) => {
                    self.due.push_back(slot);
                    Standing::Due
                }
            };
        }
        self.counters.items_waiting.set(self.due.len() as u64);
    }

    /// Sends images that are due, as far as there is room for them beside what is published meanwhile.
    pub(crate) fn pump(&mut self, out: &mut Outbound) -> Pumped {
        loop {
            if let Some(outcome) = self.send_parts(out) {
                return outcome;
            }
            let Some(slot) = self.due.pop_front() else { return Pumped::All };
            self.counters.items_waiting.set(self.due.len() as u64);
            self.begin(slot);
        }
    }

    /// Encodes the image of an item.
    fn begin(&mut self, slot: Slot) {
        let Some(item) = self.table.get(slot).filter(|item| item.standing == Standing::Due) else { return };
        let Some(image) = &item.image else { return };
        let key = ItemKey::named(item.service_id, item.domain, item.name.as_bytes());
        let form = RefreshForm { solicited: false, part_bytes: self.part_bytes };
        let parts = &mut self.parts;
        parts.bytes.clear();
        image.encode_refresh(key, form, &mut self.scratch, |bytes| {
            parts.bytes.extend_from_slice(bytes);
            parts.ends.push_back(parts.bytes.len());
        });
        parts.slot = Some(slot);
        parts.is_stale = false;
        parts.written = 0;
    }

    /// Sends the parts of the image that is going out; `None` if there is none (any more).
    fn send_parts(&mut self, out: &mut Outbound) -> Option<Pumped> {
        let slot = self.parts.slot?;
        while let Some(end) = self.parts.ends.front().copied() {
            let part = &self.parts.bytes[self.parts.written..end];
            // Half of the backlog is left to what is published meanwhile; a part that is larger goes alone.
            let depth = out.depth_bytes();
            if depth > 0 && depth + part.len() > out.limit_bytes() / 2 {
                return Some(Pumped::Held);
            }
            let copy = match out.push(part) {
                Ok(copy) => copy,
                Err(SendError::Misuse(ApiMisuse::MessageTooLong { bytes, .. })) => {
                    return Some(self.give_up(slot, bytes));
                }
                Err(_) => return Some(Pumped::Held),
            };
            set_stream_id(copy, stream_id(slot)).expect("a frame holds the fixed part of a message");
            self.counters.refreshes_out.inc();
            self.parts.written = end;
            self.parts.ends.pop_front();
        }
        self.republished_count += 1;
        self.counters.images_republished.inc();
        let is_stale = self.parts.is_stale;
        self.parts.slot = None;
        if let Some(item) = self.table.get_mut(slot) {
            item.standing = Standing::Known;
        }
        if is_stale {
            self.make_due(slot);
        }
        None
    }

    fn give_up(&mut self, slot: Slot, bytes: usize) -> Pumped {
        self.parts = Parts::default();
        if let Some(item) = self.table.get_mut(slot) {
            item.standing = Standing::Forgotten;
        }
        Pumped::TooLong { slot, bytes }
    }
}

/// The stream of an item: negative, one for each place. A place is used again only after its item was closed
/// on the same stream, and messages keep their order.
pub(crate) fn stream_id(slot: Slot) -> i32 {
    // Places are below the greatest number of items, 2^24.
    -1 - slot.index as i32
}
