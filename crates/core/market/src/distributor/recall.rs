//! Services without a cache: the images of their items are at the providers, and are asked for there.
//!
//! Only of services whose items are asked for one by one, since nobody else can be asked. An item's image is here until
//! everybody has got it who waits for it; from then on it is *away*, and updates pass without being merged. A server
//! that wants an image then makes this instance ask the provider again, on the stream that is open. The answer comes in
//! its place among the updates, and goes to those alone that wait for it. The image of a stream that is lost comes with
//! the next one, and goes to everybody.

use rwf::{DataType, Key, Priority, RequestMsg};
use units::Nanos;

use super::base::{PeerId, ProviderId, Timer};
use super::items::Items;
use super::sink::DistributorSink;
use super::timers::Due;

/// An image that is away and wanted.
#[derive(Debug, Default)]
pub(super) struct Recall {
    /// Who waits for it. All of them are among those who get the item's updates.
    pub(super) peers: Vec<PeerId>,
    /// It is asked for, and has to be there by then. Without it, it comes when the item is supplied again.
    due: Option<Due>,
}

impl Items {
    /// A server that gets the updates of an item wants its image, which is away.
    pub(super) fn recall(&mut self, now: Nanos, index: usize, peer: PeerId, sink: &mut impl DistributorSink) {
        let recall = self.table[index].recall.get_or_insert_default();
        if !recall.peers.contains(&peer) {
            recall.peers.push(peer);
        }
        let is_asked = recall.due.is_some();
        if let (false, Some(stream)) = (is_asked, self.table[index].supply.open_at()) {
            self.send_request(index, stream, sink);
            self.expect_image(now, index);
            self.counters.images_recalled.inc();
        }
        self.report_awaited(index, peer, sink);
    }

    /// Asks a provider for an item, on a stream that is new or open: for its image, and the updates that follow.
    pub(super) fn send_request(
        &mut self,
        index: usize,
        (provider, stream_id): (ProviderId, i32),
        sink: &mut impl DistributorSink,
    ) {
        let key = self.table[index].key.as_key();
        let Some(offer) = self.suppliers.offer(provider, key.service) else { return };
        let request = RequestMsg {
            streaming: true,
            priority: Some(Priority { class: 1, count: 1 }),
            qos: offer.definition.info.qos.first().copied(),
            key: Key { service_id: Some(offer.theirs), ..key.to_key() },
            ..RequestMsg::new(key.domain, stream_id, DataType::NO_DATA)
        };
        sink.to_provider(provider, self.encoding.encode(|w| request.encode(w)));
    }

    /// The image that was asked for again, or its next part, has to come in time.
    fn expect_image(&mut self, now: Nanos, index: usize) {
        self.forget_due(index);
        if let Some(recall) = &mut self.table[index].recall {
            recall.due = Some(self.timers.set(now + self.config.request_timeout, Timer::Request(index)));
        }
    }

    /// No answer is to come on the present stream. Who waits for the image gets the one of the next.
    pub(super) fn forget_due(&mut self, index: usize) {
        if let Some(due) = self.table[index].recall.as_mut().and_then(|recall| recall.due.take()) {
            self.timers.cancel(due);
        }
    }

    /// An image, or a part of it, has come on an open stream. Returns whether it is for those alone who wait for it.
    pub(super) fn is_recalled(
        &mut self,
        now: Nanos,
        index: usize,
        (is_solicited, is_whole): (bool, bool),
    ) -> bool {
        let is_asked = self.table[index].recall.as_ref().is_some_and(|recall| recall.due.is_some());
        if is_asked && !is_whole {
            self.expect_image(now, index);
        }
        is_asked && is_solicited
    }

    /// Those who wait for an image that was away; nobody does any more.
    pub(super) fn take_recalled(&mut self, index: usize) -> Vec<PeerId> {
        self.forget_due(index);
        self.table[index].recall.take().map_or_else(Vec::new, |recall| recall.peers)
    }

    /// A server does not wait any more for an image that is here.
    pub(super) fn forget_recalling(&mut self, index: usize, peer: PeerId) {
        let item = &mut self.table[index];
        if let Some(recall) = &mut item.recall {
            recall.peers.retain(|p| *p != peer);
            item.recall.take_if(|recall| recall.peers.is_empty() && recall.due.is_none());
        }
    }

    /// The image of an item of a service without a cache is given up, unless somebody waits for it.
    pub(super) fn give_up_image(&mut self, index: usize) {
        let Some(item) = self.table.get_mut(index).filter(|item| item.is_uncached) else { return };
        if item.supply.open_at().is_some() && item.waiting.is_empty() && item.recall.is_none() {
            item.cached.give_up_image();
        }
    }
}
