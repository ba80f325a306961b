//! Services without a cache: the images of their items are at the providers, and are asked for there.
//!
//! Only of services whose items are asked for one by one, since nobody else can be asked. An item's image is here until
//! everybody has got it who waits for it; from then on it is *away*, and updates pass without being merged. A server
//! that wants an image then makes this instance ask the provider again, on the stream that is open. The answer comes in
//! its place among the updates. It goes to those alone that wait for it if its number says that nothing was left out for
//! its sake, and to everybody else otherwise. The image of a stream that is lost comes with the next one, and goes to
//! everybody.

use std::collections::VecDeque;

use rwf::{DataType, Key, Priority, RefreshMsg, RequestMsg};
use units::Nanos;

use super::base::{PeerId, ProviderId, Timer};
use super::item::Item;
use super::items::Items;
use super::sink::DistributorSink;

/// Images to ask for, and those asked for.
#[derive(Debug, Default)]
pub(super) struct Recalls {
    /// Places of items whose turn has not come. One may hold another item by then, or one that waits for nothing.
    wanted: VecDeque<usize>,
    /// Requests that are not answered.
    outstanding: usize,
}

impl Recalls {
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.outstanding == 0
    }
}

/// A server that gets the updates of an item wants its image, which is away.
pub(super) fn recall(
    items: &mut Items,
    now: Nanos,
    index: usize,
    peer: PeerId,
    sink: &mut impl DistributorSink,
) {
    let recall = items.table[index].recall.get_or_insert_default();
    if !recall.peers.contains(&peer) {
        recall.peers.push(peer);
    }
    if recall.due.is_none() && items.table[index].supply.open_at().is_some() {
        items.recalls.wanted.push_back(index);
        ask(items, now, sink);
    }
}

/// Whether there is an image to ask for, and room for its request.
pub(super) fn may_ask(items: &Items) -> bool {
    !items.recalls.wanted.is_empty() && items.recalls.outstanding < items.config.requests_outstanding_max
}

/// Asks for images in their turn, as many as may be on their way; so many are looked at in a turn.
pub(super) fn ask(items: &mut Items, now: Nanos, sink: &mut impl DistributorSink) {
    for _ in 0..items.config.cleanups_per_turn {
        if !may_ask(items) {
            break;
        }
        let Some(index) = items.recalls.wanted.pop_front() else { break };
        let is_wanted = |item: &&Item| {
            item.recall.as_ref().is_some_and(|recall| recall.due.is_none() && !recall.peers.is_empty())
        };
        let item = items.table.get(index).filter(|item| item.cached.is_away()).filter(is_wanted);
        if let Some(stream) = item.and_then(|item| item.supply.open_at()) {
            send_request(items, index, stream, sink);
            expect_image(items, now, index);
            items.counters.images_recalled.inc();
        }
    }
}

/// Asks a provider for an item, on a stream that is new or open: for its image, and the updates that follow.
pub(super) fn send_request(
    items: &mut Items,
    index: usize,
    (provider, stream_id): (ProviderId, i32),
    sink: &mut impl DistributorSink,
) {
    let key = items.table[index].key.as_key();
    let Some(offer) = items.suppliers.offer(provider, key.service) else { return };
    let request = RequestMsg {
        streaming: true,
        priority: Some(Priority { class: 1, count: 1 }),
        qos: offer.definition.info.qos.first().copied(),
        key: Key { service_id: Some(offer.theirs), ..key.to_key() },
        ..RequestMsg::new(key.domain, stream_id, DataType::NO_DATA)
    };
    sink.to_provider(provider, items.encoding.encode(|w| request.encode(w)));
}

/// The image that was asked for again, or its next part, has to come in time.
fn expect_image(items: &mut Items, now: Nanos, index: usize) {
    forget_due(items, index);
    if let Some(recall) = &mut items.table[index].recall {
        recall.due = Some(items.timers.set(now + items.config.request_timeout, Timer::Request(index)));
        items.recalls.outstanding += 1;
    }
}

/// No answer is to come on the present stream. Who waits for the image gets the one of the next.
pub(super) fn forget_due(items: &mut Items, index: usize) {
    if let Some(due) = items.table[index].recall.as_mut().and_then(|recall| recall.due.take()) {
        items.timers.cancel(due);
        items.recalls.outstanding -= 1;
    }
}

/// An image, or a part of it, is about to be taken. One that was asked for again is for those alone who wait for it if it
/// says nothing new to others, and its number says that no message was left out in favour of it. Servers that have to fetch
/// the image themselves leave updates out meanwhile; providers that number nothing may.
pub(super) fn begin_part(items: &mut Items, now: Nanos, index: usize, msg: &RefreshMsg<'_>) {
    let item = &mut items.table[index];
    let Some(recall) = item.recall.as_mut().filter(|recall| recall.due.is_some()) else { return };
    if msg.part_num.unwrap_or(0) == 0 {
        recall.is_for_some = msg.solicited && item.cached.is_repeated_by(msg);
    }
    if !msg.complete {
        expect_image(items, now, index);
    }
}

/// Whether the image that has come is for those alone who wait for it.
pub(super) fn is_for_some(items: &Items, index: usize) -> bool {
    items.table[index].recall.as_ref().is_some_and(|recall| recall.is_for_some)
}

/// Those who wait for an image that was away; nobody does any more.
pub(super) fn take_recalled(items: &mut Items, index: usize) -> Vec<PeerId> {
    forget_due(items, index);
    items.table[index].recall.take().map_or_else(Vec::new, |recall| recall.peers)
}

/// A server does not wait any more for an image that is here.
pub(super) fn forget_recalling(items: &mut Items, index: usize, peer: PeerId) {
    let item = &mut items.table[index];
    if let Some(recall) = &mut item.recall {
        recall.peers.retain(|p| *p != peer);
        item.recall.take_if(|recall| recall.peers.is_empty() && recall.due.is_none());
    }
}

/// The image of an item of a service without a cache is given up, unless somebody waits for it.
pub(super) fn give_up_image(items: &mut Items, index: usize) {
    let Some(item) = items.table.get_mut(index).filter(|item| item.is_uncached) else { return };
    if item.supply.open_at().is_some() && item.waiting.is_empty() && item.recall.is_none() {
        item.cached.give_up_image();
    }
}
