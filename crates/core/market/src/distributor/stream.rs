use std::sync::Arc;

use counters::table::Distributor as Counters;
use units::Nanos;

use super::ids::{IdPool, IdRing};
use super::outflow::Outflow;
use super::sink::DistributorSink;
use crate::backbone::{Kind, StreamMsg};

/// What an instance publishes for one service: numbers its messages and remembers which item each was about.
#[derive(Debug)]
pub(super) struct Stream {
    service: u16,
    instance: u64,
    ring: IdRing,
    ids: IdPool,
    sent_at: Nanos,
    updates: u64,
    /// What is added to each update on its way out.
    stamp_bytes: usize,
    /// How much was sent, for who wants to know how far behind a peer is.
    pub(super) outflow: Outflow,
    counters: Arc<Counters>,
}

impl Stream {
    pub(super) fn new(
        service: u16,
        instance: u64,
        (ring_len, stamp_bytes): (usize, usize),
        outflow: Outflow,
        counters: Arc<Counters>,
    ) -> Stream {
        Stream {
            service,
            instance,
            ring: IdRing::new(ring_len),
            ids: IdPool::default(),
            sent_at: Nanos::ZERO,
            updates: 0,
            stamp_bytes,
            outflow,
            counters,
        }
    }

    /// The number of the last message.
    pub(super) fn sequence(&self) -> u64 {
        self.ring.last()
    }

    /// How many updates were sent.
    pub(super) fn updates(&self) -> u64 {
        self.updates
    }

    /// Sends a message about an item (0: about none) and returns its number.
    #[inline]
    pub(super) fn send(
        &mut self,
        now: Nanos,
        kind: Kind,
        item: u32,
        body: &[u8],
        sink: &mut impl DistributorSink,
    ) -> u64 {
        self.send_with(now, (kind, &[]), item, body, sink)
    }

    /// The same with optional parts.
    #[inline]
    pub(super) fn send_with(
        &mut self,
        now: Nanos,
        (kind, parts): (Kind, &[u8]),
        item: u32,
        body: &[u8],
        sink: &mut impl DistributorSink,
    ) -> u64 {
        let sequence = self.ring.push(item);
        self.sent_at = now;
        let is_update = kind == Kind::Update;
        self.updates += u64::from(is_update);
        let stamp_bytes = if is_update { self.stamp_bytes } else { 0 };
        let bytes = (StreamMsg::HEADER_BYTES + stamp_bytes + parts.len() + body.len()) as u64;
        self.counters.stream_bytes_out.add(bytes);
        self.outflow.add(sequence, bytes);
        sink.publish(self.service, &StreamMsg { kind, instance: self.instance, sequence, item, parts, body });
        sequence
    }

    /// Says the highest number again if nothing was sent since `before`.
    pub(super) fn heartbeat(&mut self, now: Nanos, before: Nanos, sink: &mut impl DistributorSink) {
        if self.sent_at <= before {
            self.sent_at = now;
            let sequence = self.sequence();
            let msg = StreamMsg {
                kind: Kind::Heartbeat,
                instance: self.instance,
                sequence,
                item: 0,
                parts: &[],
                body: &[],
            };
            sink.publish(self.service, &msg);
        }
    }

    /// An id for an item; `None` when there are no more.
    pub(super) fn assign(&mut self) -> Option<u32> {
        self.ids.take(&self.ring)
    }

    /// Takes an item's id back.
    pub(super) fn release(&mut self, id: u32) {
        self.ids.release(id, self.ring.last());
    }

    /// The items of a range of sequence numbers, `None` if the range is too old. Items that are gone by now
    /// are among them: that may be what was lost.
    pub(super) fn items_between(&self, first: u64, last: u64) -> Option<Vec<u32>> {
        let mut items = self.ring.items(first, last);
        if units::planted(units::Bug::ShortGapAnswers) {
            items.as_mut().map(Vec::pop);
        }
        items
    }
}
