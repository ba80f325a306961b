//! All items of a consumer: by handle, by key, by stream, by service; and who waits for what.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use counters::table::ConsumerSession;
use market::CachedItem;
use market::image::FieldRules;
use rwf::{Dictionary, Domain};
use units::Nanos;

use super::fields::FieldIndex;
use super::item::{Item, Phase};
use super::spec::NAME_BYTES_MAX;
use super::streams::StreamTable;
use super::{ItemHandle, ItemRequestSpec, SubscribeError};
use crate::table::{Slot, Table};

/// The items. What comes in for them is in `answers`, what goes out in `requests`, what they lose in
/// `losses`.
#[derive(Debug)]
pub(crate) struct Watchlist {
    pub(super) options: WatchlistOptions,
    pub(super) items: Table<Item>,
    keys: HashMap<Key, Slot>,
    pub(super) service_queues: Vec<ServiceQueue>,
    queue_indices: HashMap<Arc<str>, u32>,
    pub(super) streams: StreamTable,
    /// Requests in the order in which their answers are due; those that were answered stay until then.
    pub(super) answers_due: VecDeque<(Nanos, i32)>,
    /// Resting items in the order in which they go back to their queues.
    pub(super) rests_due: VecDeque<(Nanos, Slot)>,
    /// Streams that still have to be closed on the server.
    pub(super) closes: VecDeque<StreamClose>,
    /// Items to be asked for again on their open streams, and some that need not (any more).
    pub(super) changes: VecDeque<Slot>,
    /// Batch requests that the server has not answered as such.
    pub(super) batches: VecDeque<Batch>,
    pub(super) last_batch: u32,
    /// The backlog to the server was full: what is due goes when there is room.
    pub(super) is_held: bool,
    /// There may be something to send.
    pub(super) is_pump_due: bool,
    /// Items that have ended, if somebody wants to know, until he has taken them.
    pub(super) ended: Option<Vec<Slot>>,
    pub(super) counters: Arc<ConsumerSession>,
}

/// What of the items is configured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchlistOptions {
    pub(crate) single_open: bool,
    pub(crate) keep_images: bool,
    pub(crate) items_max: u32,
    pub(crate) answer_timeout: Duration,
    pub(crate) rest: Duration,
}

/// A service as the items see it: those that were subscribed and wait, and how many are out.
#[derive(Debug)]
pub(crate) struct ServiceQueue {
    pub(crate) name: Arc<str>,
    /// Its number, when it is in the directory.
    pub(crate) service_id: Option<u16>,
    /// Items with [`Phase::Waiting`], and some that are gone.
    pub(crate) waiting: VecDeque<Slot>,
    pub(crate) requested_count: u64,
    pub(crate) open_count: u64,
    /// Some waiting items were told nothing yet.
    pub(crate) has_unreported: bool,
}

/// A batch request that was sent, until the server has answered it as such.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) stream_id: i32,
    /// Its items have the stream ids that follow.
    pub(super) count: i32,
    pub(super) forgotten_at: Nanos,
}

/// A stream that is to be closed on the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamClose {
    pub(crate) domain: Domain,
    pub(crate) stream_id: i32,
    /// Those of one number go in one message; 0: it goes alone.
    pub(crate) batch: u32,
}

/// What two items cannot share.
type Key = (u32, Domain, Arc<str>);

/// What event and image need to know beside the item.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'c> {
    pub(crate) dictionary: Option<&'c Arc<Dictionary>>,
    pub(crate) rules: &'c FieldRules,
    pub(crate) index: &'c FieldIndex,
}

impl Watchlist {
    pub(crate) fn new(options: WatchlistOptions, counters: Arc<ConsumerSession>) -> Watchlist {
        Watchlist {
            options,
            items: Table::default(),
            keys: HashMap::new(),
            service_queues: Vec::new(),
            queue_indices: HashMap::new(),
            streams: StreamTable::default(),
            answers_due: VecDeque::new(),
            rests_due: VecDeque::new(),
            closes: VecDeque::new(),
            changes: VecDeque::new(),
            batches: VecDeque::new(),
            last_batch: 0,
            is_held: false,
            is_pump_due: false,
            ended: None,
            counters,
        }
    }

    /// Adds an item to the queue of its service.
    pub(crate) fn subscribe(&mut self, spec: &ItemRequestSpec<'_>) -> Result<ItemHandle, SubscribeError> {
        self.add(spec, 0)
    }

    /// Whether there can be such an item.
    pub(super) fn check(spec: &ItemRequestSpec<'_>) -> Result<(), SubscribeError> {
        for name in [spec.service, spec.name] {
            if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
                return Err(SubscribeError::NameLength { bytes: name.len(), max: NAME_BYTES_MAX });
            }
        }
        if rdm::item::has_items(spec.domain) {
            Ok(())
        } else {
            Err(SubscribeError::NotAnItemDomain(spec.domain))
        }
    }

    pub(super) fn add(
        &mut self,
        spec: &ItemRequestSpec<'_>,
        batch: u32,
    ) -> Result<ItemHandle, SubscribeError> {
        Watchlist::check(spec)?;
        let index = self.queue_of(spec.service);
        let name: Arc<str> = spec.name.into();
        let key = (index, spec.domain, Arc::clone(&name));
        if let Some(slot) = self.keys.get(&key).filter(|_| !spec.private_stream) {
            return Err(SubscribeError::AlreadyOpen(ItemHandle(*slot)));
        }
        if self.items.len() >= self.options.items_max as usize {
            return Err(SubscribeError::TooManyItems { max: self.options.items_max });
        }
        let slot = self.items.insert(Item::new(spec, name, index, self.options.keep_images, batch));
        if !spec.private_stream {
            self.keys.insert(key, slot);
        }
        let queue = &mut self.service_queues[index as usize];
        queue.waiting.push_back(slot);
        queue.has_unreported = true;
        self.is_pump_due = true;
        self.publish_gauges();
        Ok(ItemHandle(slot))
    }

    /// Takes an item out, and closes its stream. Returns whether there was such an item.
    pub(crate) fn unsubscribe(&mut self, handle: ItemHandle) -> bool {
        self.end(handle, 0)
    }

    pub(super) fn end(&mut self, handle: ItemHandle, batch: u32) -> bool {
        let Some(item) = self.items.get(handle.0) else { return false };
        if let Some(stream_id) = item.phase.stream_id() {
            self.closes.push_back(StreamClose { domain: item.domain, stream_id, batch });
            self.is_pump_due = true;
        }
        self.remove(handle.0);
        true
    }

    pub(crate) fn item(&self, handle: ItemHandle) -> Option<&Item> {
        self.items.get(handle.0)
    }

    pub(crate) fn item_count(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn service_name(&self, item: &Item) -> &Arc<str> {
        &self.service_queues[item.service as usize].name
    }

    /// The number of an item's service, when it is in the directory.
    pub(crate) fn service_id(&self, item: &Item) -> Option<u16> {
        self.service_queues[item.service as usize].service_id
    }

    /// The handle of an item that is not private.
    pub(crate) fn find(&self, service: &str, domain: Domain, name: &str) -> Option<ItemHandle> {
        let index = *self.queue_indices.get(service)?;
        self.keys.get(&(index, domain, name.into())).copied().map(ItemHandle)
    }

    /// The stream of the item ends here: the counts of its service follow.
    pub(super) fn leave_stream(&mut self, slot: Slot, next: Phase) {
        let Some(item) = self.items.get_mut(slot) else { return };
        let queue = &mut self.service_queues[item.service as usize];
        match std::mem::replace(&mut item.phase, next) {
            Phase::Requested { stream_id } => {
                queue.requested_count -= 1;
                self.streams.close(stream_id);
            }
            Phase::Open { stream_id } => {
                queue.open_count -= 1;
                self.streams.close(stream_id);
            }
            Phase::Waiting | Phase::Resting => {}
        }
        // A refresh that stopped half-way must not go on with the next one.
        if let Some(image) = &mut item.image
            && !image.is_known()
        {
            **image = CachedItem::default();
        }
        // Room in the window of the service, perhaps.
        self.is_pump_due |= !queue.waiting.is_empty();
    }

    /// Puts an item back into the queue of its service.
    pub(super) fn enqueue(&mut self, slot: Slot) {
        if let Some(item) = self.items.get_mut(slot) {
            item.phase = Phase::Waiting;
            self.service_queues[item.service as usize].waiting.push_back(slot);
            self.is_pump_due = true;
        }
    }

    /// Takes an item out; nothing is sent.
    pub(super) fn remove(&mut self, slot: Slot) {
        self.leave_stream(slot, Phase::Waiting);
        if let Some(item) = self.items.remove(slot) {
            if let Some(ended) = &mut self.ended {
                ended.push(slot);
            }
            let key = (item.service, item.domain, item.name);
            if self.keys.get(&key) == Some(&slot) {
                self.keys.remove(&key);
            }
        }
        self.publish_gauges();
    }

    pub(super) fn publish_gauges(&self) {
        self.counters.items.set(self.items.len() as u64);
        self.counters.items_open.set(self.service_queues.iter().map(|queue| queue.open_count).sum());
    }

    /// The queue of a service; a new one for a name that was not asked for before.
    fn queue_of(&mut self, service: &str) -> u32 {
        if let Some(index) = self.queue_indices.get(service) {
            return *index;
        }
        let name: Arc<str> = service.into();
        let index = u32::try_from(self.service_queues.len())
            .expect("each service has had an item, of which there are fewer");
        self.queue_indices.insert(Arc::clone(&name), index);
        self.service_queues.push(ServiceQueue {
            name,
            service_id: None,
            waiting: VecDeque::new(),
            requested_count: 0,
            open_count: 0,
            has_unreported: false,
        });
        index
    }
}
