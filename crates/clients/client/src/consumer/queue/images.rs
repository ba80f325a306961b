//! The images that the updates of a slow application are merged into.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use market::image::{FieldRules, Image};
use market::{CachedItem, Conflated, ItemKey, RefreshForm, Scratch};
use rdm::OwnedState;
use rwf::{
    Conflation, DataType, Dictionary, Domain, FieldList, Key, Map, Msg, RefreshMsg, UpdateMsg, encode_to_vec,
};
use units::Nanos;

use super::QueueStats;
use crate::consumer::event::{ItemEvent, ItemMsg};
use crate::consumer::{ItemHandle, Merged, OwnedEvent, OwnedItemEvent};

/// All items whose updates may be merged.
#[derive(Default)]
pub(super) struct Images {
    items: HashMap<ItemHandle, Box<Merging>>,
    /// Of the dictionary that the last event came with.
    rules: FieldRules,
    dictionary: Option<Arc<Dictionary>>,
    /// Rises with other rules: an image that was made by those before is of no use.
    rules_version: u32,
    scratch: Scratch,
}

/// What becomes of an event.
pub(super) enum Intake {
    /// It is added as it is.
    Event,
    /// It is in the changes that wait.
    Merged,
    /// It is in the changes, which wait from now on.
    Placed,
    /// It is added as it is, and the changes that wait at this place become these events.
    Behind(u64, VecDeque<OwnedEvent>),
}

/// An item: its image with everything that came.
struct Merging {
    tag: u64,
    name: Arc<str>,
    service: Arc<str>,
    domain: Domain,
    state: OwnedState,
    stream_id: i32,
    /// The service in the key of its updates, if they have one.
    keyed: Option<Option<u16>>,
    is_private: bool,
    rules_version: u32,
    image: CachedItem,
    waiting: Option<Changes>,
}

/// Changes that wait for the application.
struct Changes {
    /// Where in the queue.
    place: u64,
    /// What the application has, or will have before.
    since: u64,
    received: u64,
    stands_for: u64,
    first_at: Nanos,
}

/// About how many bytes a part of an image has that is made here.
const PART_BYTES: usize = 1 << 16;

impl Images {
    /// Takes what has come for an item. Where changes would wait is `place`; without it nothing is merged.
    pub(super) fn take(
        &mut self,
        now: Nanos,
        event: &ItemEvent<'_>,
        place: Option<u64>,
        stats: &mut QueueStats,
    ) -> Intake {
        self.follow(event.dictionary());
        if let ItemMsg::Update(msg) = event.msg {
            return self.take_update(now, event, msg, place, stats);
        }
        let behind = self.seal(now, event.handle, place.is_some(), stats);
        match event.msg {
            ItemMsg::Refresh(msg) => self.take_refresh(event, msg),
            ItemMsg::Status(msg) => {
                if let Some(item) = self.items.get_mut(&event.handle) {
                    item.image.on_status(msg);
                }
            }
            ItemMsg::Update(_) | ItemMsg::Generic(_) | ItemMsg::Ack(_) => {}
        }
        if event.is_final {
            self.items.remove(&event.handle);
        } else if let Some(item) = self.items.get_mut(&event.handle) {
            item.state = event.state.into();
        }
        behind
    }

    /// Goes by the dictionary that is in use.
    fn follow(&mut self, dictionary: Option<&Arc<Dictionary>>) {
        let is_same = match (&self.dictionary, dictionary) {
            (Some(known), Some(used)) => Arc::ptr_eq(known, used),
            (None, None) => true,
            _ => false,
        };
        if is_same {
            return;
        }
        // Each connection brings a dictionary, which is mostly the same.
        let rules = dictionary.map_or_else(FieldRules::default, |used| FieldRules::of(used));
        if !rules.are_those_of(&self.rules) {
            self.rules = rules;
            self.rules_version += 1;
        }
        self.dictionary = dictionary.cloned();
    }

    fn take_refresh(&mut self, event: &ItemEvent<'_>, msg: &RefreshMsg<'_>) {
        let item = self.items.entry(event.handle).or_insert_with(|| Merging::new(event));
        let is_new = msg.part_num.unwrap_or(0) == 0 || item.image.is_known();
        if is_new {
            item.rules_version = self.rules_version;
        }
        item.stream_id = msg.stream_id;
        item.is_private = msg.private_stream;
        if item.image.on_refresh(msg, &self.rules).is_err() {
            item.image = item.image.anew();
        }
    }

    fn take_update(
        &mut self,
        now: Nanos,
        event: &ItemEvent<'_>,
        msg: &UpdateMsg<'_>,
        place: Option<u64>,
        stats: &mut QueueStats,
    ) -> Intake {
        let Some(item) = self.items.get_mut(&event.handle) else {
            stats.updates_not_merged += u64::from(place.is_some());
            return Intake::Event;
        };
        let can_merge =
            self.dictionary.is_some() && item.rules_version == self.rules_version && item.can_merge(msg);
        let Some(place) = place.filter(|_| can_merge) else {
            stats.updates_not_merged += u64::from(place.is_some());
            let behind = self.seal(now, event.handle, place.is_some(), stats);
            if let Some(item) = self.items.get_mut(&event.handle) {
                item.merge(msg, &self.rules);
            }
            return behind;
        };
        let is_first = item.waiting.is_none();
        if is_first {
            item.image.track_changes(None);
        }
        let since = item.image.version();
        let waiting =
            item.waiting.get_or_insert(Changes { place, since, received: 0, stands_for: 0, first_at: now });
        if item.image.on_update(msg, &self.rules).is_err() || !item.image.has_all_updates() {
            // Malformed deep within: the event says so itself. What waited comes as an image, and nothing more is
            // merged before the next one from the server.
            stats.updates_not_merged += 1;
            if is_first {
                item.waiting = None;
                item.image = item.image.anew();
                return Intake::Event;
            }
            let behind = self.seal(now, event.handle, true, stats);
            if let Some(item) = self.items.get_mut(&event.handle) {
                item.image = item.image.anew();
            }
            return behind;
        }
        waiting.received += 1;
        waiting.stands_for += msg.conflation.map_or(1, |conflation| u64::from(conflation.count).max(1));
        item.stream_id = msg.stream_id;
        item.keyed = msg.key.map(|key| key.service_id);
        stats.updates_in += 1;
        stats.updates_merged += 1;
        if is_first { Intake::Placed } else { Intake::Merged }
    }

    /// Makes events of the changes that wait: something comes that must be behind them.
    fn seal(&mut self, now: Nanos, handle: ItemHandle, keeps: bool, stats: &mut QueueStats) -> Intake {
        let waiting = self.items.get(&handle).and_then(|item| item.waiting.as_ref());
        match waiting.map(|waiting| waiting.place) {
            Some(place) => Intake::Behind(place, self.changes_of(now, handle, keeps, stats)),
            None => Intake::Event,
        }
    }

    /// What has changed of an item, as an update, as an image in parts, or as nothing. What is noted of its changes is
    /// kept for the next ones if it `keeps`.
    pub(super) fn changes_of(
        &mut self,
        now: Nanos,
        handle: ItemHandle,
        keeps: bool,
        stats: &mut QueueStats,
    ) -> VecDeque<OwnedEvent> {
        let Images { items, scratch, dictionary, .. } = self;
        let Some(item) = items.get_mut(&handle) else { return VecDeque::new() };
        let Some(waiting) = item.waiting.take() else { return VecDeque::new() };
        let merged = Merged { updates: waiting.stands_for, waited: now.since(waiting.first_at) };
        let key = ItemKey::named(item.keyed.flatten().unwrap_or_default(), item.domain, item.name.as_bytes());
        let messages = match item.image.encode_changes(key, waiting.since, None, scratch) {
            Conflated::Nothing => Vec::new(),
            Conflated::Update(bytes) => vec![item.update(bytes, merged)],
            Conflated::NeedsImage => {
                stats.images_made += 1;
                let form = RefreshForm { solicited: false, part_bytes: PART_BYTES };
                let mut parts = Vec::new();
                item.image.encode_refresh(key, form, scratch, |bytes| parts.push(item.refresh(bytes)));
                parts
            }
        };
        if messages.is_empty() {
            stats.updates_without_effect += waiting.received;
        }
        let last = messages.len().saturating_sub(1);
        let events = messages.into_iter().enumerate();
        let made = events.map(|(at, message)| {
            OwnedEvent::Item(OwnedItemEvent {
                handle,
                tag: item.tag,
                name: Arc::clone(&item.name),
                service: Arc::clone(&item.service),
                domain: item.domain,
                state: item.state.clone(),
                is_final: false,
                message: message.into(),
                dictionary: dictionary.clone(),
                merged: Some(Merged { updates: if at == last { merged.updates } else { 0 }, ..merged }),
            })
        });
        let made = made.collect();
        if !keeps {
            item.image.forget_changes();
        }
        made
    }

    /// An item is gone; returns where its changes waited.
    pub(super) fn forget(&mut self, handle: ItemHandle, stats: &mut QueueStats) -> Option<u64> {
        let waiting = self.items.remove(&handle)?.waiting?;
        stats.updates_without_effect += waiting.received;
        Some(waiting.place)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }
}

impl Merging {
    fn new(event: &ItemEvent<'_>) -> Box<Merging> {
        Box::new(Merging {
            tag: event.tag,
            name: Arc::clone(event.name),
            service: Arc::clone(event.service),
            domain: event.domain,
            state: event.state.into(),
            stream_id: 0,
            keyed: None,
            is_private: false,
            rules_version: 0,
            image: CachedItem::default(),
            waiting: None,
        })
    }

    /// Whether an update may be merged with others, and the image says what came of it.
    fn can_merge(&self, msg: &UpdateMsg<'_>) -> bool {
        let is_followed = match (msg.container_type, self.image.image()) {
            (DataType::FIELD_LIST, Image::Fields(_)) => {
                FieldList::parse(msg.payload).is_ok_and(|list| list.entries().all(|entry| entry.is_ok()))
            }
            (DataType::MAP, Image::Map(_)) => {
                Map::parse(msg.payload).is_ok_and(|map| map.entries().all(|entry| entry.is_ok()))
            }
            _ => false,
        };
        is_followed
            && !self.is_private
            && !msg.do_not_conflate
            && !msg.do_not_cache
            && self.image.has_all_updates()
    }

    /// Merges an update that the application gets as it is.
    fn merge(&mut self, msg: &UpdateMsg<'_>, rules: &FieldRules) {
        if self.image.tracks_changes() && self.waiting.is_none() {
            self.image.forget_changes();
        }
        if self.image.on_update(msg, rules).is_err() {
            self.image = self.image.anew();
        }
    }

    /// An update as the stream of the item has it.
    fn update(&self, bytes: &[u8], merged: Merged) -> Vec<u8> {
        let Ok(Msg::Update(msg)) = Msg::parse(bytes) else { return bytes.to_vec() };
        let conflation = Conflation {
            count: merged.updates.min(0x7FFF) as u16,
            time: u16::try_from(merged.waited.as_millis()).unwrap_or(u16::MAX),
        };
        let key = self.keyed.map(|service_id| Key { service_id, ..Key::item(0, self.name.as_bytes()) });
        let msg = UpdateMsg { stream_id: self.stream_id, conflation: Some(conflation), key, ..msg };
        encode_to_vec(|w| msg.encode(w)).unwrap_or_else(|_| bytes.to_vec())
    }

    /// A part of an image as the stream of the item has it.
    fn refresh(&self, bytes: &[u8]) -> Vec<u8> {
        let Ok(Msg::Refresh(msg)) = Msg::parse(bytes) else { return bytes.to_vec() };
        let msg = RefreshMsg { stream_id: self.stream_id, key: None, state: self.state.borrow(), ..msg };
        encode_to_vec(|w| msg.encode(w)).unwrap_or_else(|_| bytes.to_vec())
    }
}
