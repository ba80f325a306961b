//! Several items in one message, where the server takes such.

use rdm::ToVec;
use rdm::directory::Service;
use rdm::item::{CloseTarget, ItemClose, ItemKey, ItemRequest, Target};
use rdm::login::{BatchSupport, Features};
use rssl::Outbound;
use rwf::{DataState, StatusMsg};
use units::Nanos;

use super::item::Phase;
use super::requests::{Full, Obstacle, push};
use super::watchlist::{Batch, StreamClose, Watchlist};
use super::{ItemHandle, ItemRequestSpec, SubscribeError};
use crate::table::Slot;

/// Most items in one message: their names fit the 64 KiB that an array can have.
const ITEMS_MAX: usize = 200;

impl Watchlist {
    /// Adds items of one kind to the queue of their service.
    pub(crate) fn subscribe_all(
        &mut self,
        spec: &ItemRequestSpec<'_>,
        names: &[&str],
    ) -> Vec<Result<ItemHandle, SubscribeError>> {
        let batch = self.next_batch();
        names.iter().map(|name| self.add(&ItemRequestSpec { name, ..spec.clone() }, batch)).collect()
    }

    /// Ends items; returns how many there were.
    pub(crate) fn unsubscribe_all(&mut self, handles: &[ItemHandle]) -> usize {
        let batch = self.next_batch();
        handles.iter().filter(|handle| self.end(**handle, batch)).count()
    }

    pub(super) fn next_batch(&mut self) -> u32 {
        self.last_batch = self.last_batch.checked_add(1).unwrap_or(1);
        self.last_batch
    }

    /// Requests the first items of a queue in one message, if they were subscribed as a batch and the server
    /// takes batches; returns how many. `room_count`: how many the service takes.
    pub(super) fn send_batch(
        &mut self,
        now: Nanos,
        index: usize,
        (service, room_count): (&Service, u64),
        features: &Features,
        out: &mut Outbound,
    ) -> Result<usize, Obstacle> {
        if !features.batch_requests.unwrap_or_default().contains(BatchSupport::REQUESTS) {
            return Ok(0);
        }
        let slots = self.batch_of(index, usize::try_from(room_count).unwrap_or(usize::MAX), service);
        if slots.len() < 2 {
            return Ok(0);
        }
        let stream_id = self.streams.reserve();
        let ids = self.streams.open_following(stream_id, slots.iter().map(|slot| slot.index));
        if ids < 2 {
            // The end of the range of ids.
            (1..=ids).for_each(|n| self.streams.close(stream_id + n));
            return Ok(0);
        }
        let slots = &slots[..ids as usize];
        if let Err(obstacle) = self.push_batch(stream_id, slots, service, features, out) {
            (1..=ids).for_each(|n| self.streams.close(stream_id + n));
            return Err(obstacle);
        }
        let due = now.after(self.options.answer_timeout);
        for (slot, id) in slots.iter().zip(stream_id + 1..) {
            self.note_request(*slot, id, due);
        }
        self.counters.batches_out.inc();
        self.batches.push_back(Batch { stream_id, count: ids, forgotten_at: due });
        Ok(slots.len())
    }

    /// The items at the head of a queue that go in one message.
    fn batch_of(&self, index: usize, room: usize, service: &Service) -> Vec<Slot> {
        let mut queue = self.service_queues[index].waiting.iter().copied();
        let item = |slot: Slot| self.items.get(slot).filter(|item| item.phase == Phase::Waiting);
        let Some(first) = queue.next().and_then(|slot| Some((slot, item(slot)?))) else { return Vec::new() };
        if first.1.wish.batch == 0 || service.refuses(first.1.domain, first.1.qos_range()).is_some() {
            return Vec::new();
        }
        let fits = |slot: &Slot| {
            item(*slot).is_some_and(|other| {
                other.domain == first.1.domain && other.wish.is_one_request_with(&first.1.wish)
            })
        };
        std::iter::once(first.0).chain(queue.take_while(fits)).take(room.min(ITEMS_MAX)).collect()
    }

    fn push_batch(
        &self,
        stream_id: i32,
        slots: &[Slot],
        service: &Service,
        features: &Features,
        out: &mut Outbound,
    ) -> Result<(), Obstacle> {
        let items = || slots.iter().filter_map(|slot| self.items.get(*slot));
        let Some(first) = items().next() else { return Ok(()) };
        let names = items().map(|item| item.name.as_bytes()).collect();
        let common = ItemKey::new(service.id, b"");
        let single = first.request(stream_id, service.id, &service.info.qos, features);
        let request = ItemRequest { target: Target::Items { common, names }, ..single };
        let bytes = request.to_vec().map_err(|_| Obstacle::NEVER)?;
        push(out, &bytes).map_err(|Full| Obstacle::Full)
    }

    /// A status on the stream of a batch: the server has taken it apart, or does not take it. Returns whether
    /// there was such a batch.
    pub(crate) fn on_batch_status(&mut self, msg: &StatusMsg<'_>) -> bool {
        let Some(at) = self.batches.iter().position(|batch| batch.stream_id == msg.stream_id) else {
            return false;
        };
        self.counters.statuses_in.inc();
        let batch = self.batches.remove(at).expect("it was found there");
        if msg.state.is_some_and(|state| state.data != DataState::Ok) {
            (1..=batch.count).for_each(|n| self.ask_alone(batch.stream_id + n));
        }
        true
    }

    /// The batch that an item was asked for with was refused: the item is asked for alone.
    fn ask_alone(&mut self, stream_id: i32) {
        let asked = self.streams.get(stream_id).and_then(|place| self.items.at_mut(place));
        if let Some((slot, item)) = asked
            && item.phase == (Phase::Requested { stream_id })
        {
            item.wish.batch = 0;
            self.leave_stream(slot, Phase::Waiting);
            self.enqueue(slot);
        }
    }

    /// Batches that were not answered as such are forgotten; their items have time-outs of their own.
    pub(super) fn forget_batches(&mut self, now: Nanos) {
        while self.batches.pop_front_if(|batch| batch.forgotten_at <= now).is_some() {}
    }

    /// Sends what closes the stream at the head of the queue, and those that may go in the same message.
    /// Returns how many these are.
    pub(super) fn send_close(&mut self, features: &Features, out: &mut Outbound) -> Result<usize, Full> {
        let Some(first) = self.closes.front().copied() else { return Ok(0) };
        let takes_batches = features.batch_requests.unwrap_or_default().contains(BatchSupport::CLOSES);
        let of_batch = |other: &&StreamClose| (other.domain, other.batch) == (first.domain, first.batch);
        let streams: Vec<i32> = self.closes.iter().take_while(of_batch).map(|e| e.stream_id).collect();
        let alone = ItemClose::stream(first.domain, first.stream_id);
        let (count, close) = if takes_batches && first.batch != 0 && streams.len() > 1 {
            let streams: Vec<i32> = streams.into_iter().take(ITEMS_MAX).collect();
            let (count, stream_id) = (streams.len(), self.streams.reserve());
            (count, ItemClose { stream_id, target: CloseTarget::Streams(streams), ..alone })
        } else {
            (1, alone)
        };
        push(out, &close.to_vec().expect("no part of a close can be too long"))?;
        self.counters.batches_out.add(u64::from(count > 1));
        Ok(count)
    }
}
