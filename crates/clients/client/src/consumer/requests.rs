//! What goes out for items.

use rdm::ToVec;
use rdm::directory::{Directory, Service};
use rdm::login::Features;
use rssl::{Outbound, SendError};
use rwf::{DataState, State, StateCode, StreamState};
use units::Nanos;

use super::event::ConsumerSink;
use super::item::{Change, Phase};
use super::watchlist::{Lookup, StreamClose, Watchlist};
use crate::table::Slot;

/// The backlog is full: what is left goes later.
pub(super) struct Full;

/// Why an item is not asked for now.
pub(super) enum Obstacle {
    Full,
    /// Whatever happens, it cannot be had: the words for the application.
    Never(State<'static>),
}

impl Obstacle {
    /// A view of more fields than a message can hold.
    pub(super) const NEVER: Obstacle = Obstacle::Never(NOT_ENCODABLE);
}

impl Watchlist {
    /// Sends what is due: closes first, then what has changed, then requests to every service that takes
    /// some.
    pub(crate) fn pump(
        &mut self,
        now: Nanos,
        directory: &Directory,
        features: &Features,
        out: &mut Outbound,
        lookup: Lookup<'_>,
        sink: &mut ConsumerSink<'_>,
    ) {
        if !std::mem::take(&mut self.is_pump_due) {
            return;
        }
        let mut sent = self.send_closes(features, out);
        if sent.is_ok() {
            sent = self.send_changes(directory, features, out);
        }
        for index in 0..self.service_queues.len() {
            if sent.is_ok() {
                sent = self.send_requests(now, index, directory, features, out, lookup, sink);
            }
        }
        self.is_held = sent.is_err();
        self.counters.requests_held.add(u64::from(self.is_held));
    }

    fn send_closes(&mut self, features: &Features, out: &mut Outbound) -> Result<(), Full> {
        while !self.closes.is_empty() {
            let count = self.send_close(features, out)?;
            self.closes.drain(..count);
        }
        Ok(())
    }

    /// Sends the requests of the items in one queue, as far as the service takes them.
    #[expect(clippy::too_many_arguments, reason = "what the session knows, lent for the call")]
    fn send_requests(
        &mut self,
        now: Nanos,
        index: usize,
        directory: &Directory,
        features: &Features,
        out: &mut Outbound,
        lookup: Lookup<'_>,
        sink: &mut ConsumerSink<'_>,
    ) -> Result<(), Full> {
        let Some(service) = self.usable_service(index, directory) else { return Ok(()) };
        while let Some(slot) = self.first_waiting(index) {
            let known = &self.service_queues[index];
            let load = &service.load;
            if !load.has_window(known.requested_count)
                || !load.has_room(known.requested_count + known.open_count)
            {
                return Ok(());
            }
            let room = load.room(known.requested_count, known.open_count);
            match self.send_batch(now, index, (service, room), features, out) {
                Ok(0) => {}
                Ok(count) => {
                    self.service_queues[index].waiting.drain(..count);
                    continue;
                }
                Err(Obstacle::Full) => return Err(Full),
                Err(Obstacle::Never(_)) => {}
            }
            match self.send_request(now, slot, service, features, out) {
                Ok(()) => {}
                Err(Obstacle::Full) => return Err(Full),
                Err(Obstacle::Never(state)) => self.on_made_status(now, slot, state, lookup, sink),
            }
            self.service_queues[index].waiting.pop_front();
        }
        Ok(())
    }

    fn usable_service<'d>(&self, index: usize, directory: &'d Directory) -> Option<&'d Service> {
        let service = directory.service(self.service_queues[index].service_id?)?;
        (service.state.up && service.state.accepting_requests != Some(false)).then_some(service)
    }

    /// The first item in a queue that still waits; those that are gone leave the queue.
    fn first_waiting(&mut self, index: usize) -> Option<Slot> {
        loop {
            let slot = *self.service_queues[index].waiting.front()?;
            if self.items.get(slot).is_some_and(|item| item.phase == Phase::Waiting) {
                return Some(slot);
            }
            self.service_queues[index].waiting.pop_front();
        }
    }

    fn send_request(
        &mut self,
        now: Nanos,
        slot: Slot,
        service: &Service,
        features: &Features,
        out: &mut Outbound,
    ) -> Result<(), Obstacle> {
        let Some(item) = self.items.get_mut(slot) else { return Ok(()) };
        if let Some(refusal) = service.refuses(item.domain, item.qos_range()) {
            return Err(Obstacle::Never(refusal.state()));
        }
        let stream_id = self.streams.open(slot.index);
        let request = item.request(stream_id, service.id, &service.info.qos, features).to_vec();
        let result = match request {
            Ok(request) => push(out, &request).map_err(|Full| Obstacle::Full),
            Err(_) => Err(Obstacle::NEVER),
        };
        if result.is_err() {
            self.streams.close(stream_id);
            return result;
        }
        self.note_request(slot, stream_id, now.after(self.options.answer_timeout));
        Ok(())
    }

    /// An item has been asked for on a stream, with all that is wanted of it.
    pub(super) fn note_request(&mut self, slot: Slot, stream_id: i32, answer_due: Nanos) {
        let Some(item) = self.items.get_mut(slot) else { return };
        item.phase = Phase::Requested { stream_id };
        item.change = Change::None;
        self.service_queues[item.service as usize].requested_count += 1;
        self.answers_due.push_back((answer_due, stream_id));
        self.counters.requests_sent.inc();
    }

    /// Room in the backlog again.
    pub(crate) fn on_drained(&mut self) {
        self.is_pump_due |= std::mem::take(&mut self.is_held);
    }

    /// Looks after answers that are due and items that have rested.
    pub(crate) fn on_wakeup(&mut self, now: Nanos) {
        self.forget_batches(now);
        while let Some((_, slot)) = self.rests_due.pop_front_if(|(due, _)| *due <= now) {
            if self.items.get(slot).is_some_and(|item| item.phase == Phase::Resting) {
                self.enqueue(slot);
            }
        }
    }

    /// Gives up the requests whose answers are overdue.
    pub(crate) fn on_answers_due(&mut self, now: Nanos, lookup: Lookup<'_>, sink: &mut ConsumerSink<'_>) {
        while let Some((_, stream_id)) = self.answers_due.pop_front_if(|(due, _)| *due <= now) {
            let asked = self.streams.get(stream_id).and_then(|place| self.items.at_mut(place));
            if let Some((slot, item)) = asked
                && item.phase == (Phase::Requested { stream_id })
            {
                self.closes.push_back(StreamClose { domain: item.domain, stream_id, batch: 0 });
                self.counters.requests_timed_out.inc();
                self.lose(now, slot, UNANSWERED, lookup, sink);
            }
        }
    }

    /// When [`Watchlist::on_wakeup`] has something to do.
    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.rests_due.front().map_or(Nanos::NEVER, |due| due.0)
    }

    /// When [`Watchlist::on_answers_due`] has something to do.
    pub(crate) fn answers_due(&self) -> Nanos {
        self.answers_due.front().map_or(Nanos::NEVER, |due| due.0)
    }
}

const UNANSWERED: State<'static> = State::new(StreamState::ClosedRecover, DataState::Suspect)
    .because(StateCode::TIMEOUT, "request not answered");

const NOT_ENCODABLE: State<'static> =
    State::new(StreamState::Closed, DataState::Suspect).because(StateCode::USAGE_ERROR, "request too long");

pub(super) fn push(out: &mut Outbound, bytes: &[u8]) -> Result<(), Full> {
    match out.push(bytes) {
        Ok(_) => Ok(()),
        Err(SendError::SlowConsumer { .. }) => Err(Full),
        // Requests are short and not empty; the connection is over, and its end comes by another way.
        Err(_) => Err(Full),
    }
}
