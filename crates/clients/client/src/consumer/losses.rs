//! What items lose: services, the connection.

use rdm::directory::Directory;
use rwf::{DataState, State, StateCode, StreamState};
use units::Nanos;

use super::event::ConsumerSink;
use super::item::{Item, Phase};
use super::watchlist::{Lookup, StreamClose, Watchlist};
use crate::table::Slot;

impl Watchlist {
    /// The stream of an item is over for a reason that is not the item's. It is asked for again, or, without
    /// single open, ended.
    pub(super) fn lose(
        &mut self,
        now: Nanos,
        slot: Slot,
        state: State<'_>,
        lookup: Lookup<'_>,
        sink: &mut ConsumerSink<'_>,
    ) {
        self.leave_stream(slot, Phase::Waiting);
        if self.options.single_open {
            self.enqueue(slot);
            let state = State { stream: StreamState::Open, ..state };
            self.on_made_status(now, slot, state, lookup, sink);
        } else {
            let state = State { stream: StreamState::ClosedRecover, ..state };
            self.on_made_status(now, slot, state, lookup, sink);
        }
        self.publish_gauges();
    }

    /// The connection is lost: nothing is open any more.
    pub(crate) fn on_disconnected(&mut self, now: Nanos, lookup: Lookup<'_>, sink: &mut ConsumerSink<'_>) {
        self.closes.clear();
        self.changes.clear();
        self.batches.clear();
        self.answers_due.clear();
        self.rests_due.clear();
        for queue in &mut self.service_queues {
            queue.service_id = None;
        }
        let slots: Vec<Slot> = self.items.slots().collect();
        for slot in slots {
            match self.items.get(slot).map(|item| item.phase) {
                Some(Phase::Requested { .. } | Phase::Open { .. }) => {
                    self.lose(now, slot, NO_CONNECTION, lookup, sink);
                }
                Some(Phase::Resting) => self.enqueue(slot),
                Some(Phase::Waiting) | None => {}
            }
        }
        self.streams.clear();
        self.is_held = false;
    }

    /// The directory has changed: items of services that are gone or down lose their streams, those of others
    /// may be asked for.
    pub(crate) fn follow(
        &mut self,
        now: Nanos,
        directory: &Directory,
        lookup: Lookup<'_>,
        sink: &mut ConsumerSink<'_>,
    ) {
        for index in 0..self.service_queues.len() {
            let known = &self.service_queues[index];
            let service = directory.service_by_name(&known.name);
            let loss = match service {
                None => Some(SERVICE_UNKNOWN),
                Some(service) if !service.state.up => Some(SERVICE_DOWN),
                // Another service has taken the name.
                Some(service) if known.service_id.is_some_and(|id| id != service.id) => Some(SERVICE_UNKNOWN),
                Some(_) => None,
            };
            if let Some(state) = loss {
                self.lose_service(now, index, state, service.is_some(), lookup, sink);
            }
            match service {
                Some(service) if service.state.up && service.state.accepting_requests == Some(false) => {
                    self.report_waiting(now, index, NOT_ACCEPTING, lookup, sink);
                }
                _ => self.report_waiting(now, index, loss.unwrap_or(State::OPEN_OK), lookup, sink),
            }
            let known = &mut self.service_queues[index];
            known.service_id = service.map(|service| service.id);
            self.is_pump_due |= !known.waiting.is_empty();
        }
    }

    /// Whether some service has items that wait and were told nothing.
    pub(crate) fn has_unreported(&self) -> bool {
        self.service_queues.iter().any(|queue| queue.has_unreported)
    }

    fn lose_service(
        &mut self,
        now: Nanos,
        index: usize,
        state: State<'_>,
        sends_closes: bool,
        lookup: Lookup<'_>,
        sink: &mut ConsumerSink<'_>,
    ) {
        for slot in self.slots_of_service(index, |item| item.phase.stream_id().is_some()) {
            if let Some((item, stream_id)) =
                self.items.get(slot).and_then(|i| Some((i, i.phase.stream_id()?)))
                && sends_closes
            {
                self.closes.push_back(StreamClose { domain: item.domain, stream_id, batch: 0 });
            }
            self.lose(now, slot, state, lookup, sink);
        }
    }

    /// Tells the items that wait for a service why, once; nothing if they need not wait.
    fn report_waiting(
        &mut self,
        now: Nanos,
        index: usize,
        why: State<'_>,
        lookup: Lookup<'_>,
        sink: &mut ConsumerSink<'_>,
    ) {
        if why.data == DataState::Ok || !std::mem::take(&mut self.service_queues[index].has_unreported) {
            return;
        }
        let unreported = |slot: &Slot| {
            self.items.get(*slot).is_some_and(|item| item.phase == Phase::Waiting && item.shown.is_none())
        };
        let slots: Vec<Slot> =
            self.service_queues[index].waiting.iter().copied().filter(unreported).collect();
        for slot in slots {
            let state = State { stream: StreamState::Open, ..why };
            self.on_made_status(now, slot, state, lookup, sink);
        }
    }

    fn slots_of_service(&self, index: usize, wanted: impl Fn(&Item) -> bool) -> Vec<Slot> {
        let of_service = self.items.iter().filter(|(_, item)| item.service as usize == index && wanted(item));
        of_service.map(|(slot, _)| slot).collect()
    }
}

const fn suspect(code: StateCode, text: &'static str) -> State<'static> {
    State::new(StreamState::ClosedRecover, DataState::Suspect).because(code, text)
}

const NO_CONNECTION: State<'static> = suspect(StateCode::NONE, "connection to the server lost");
const SERVICE_UNKNOWN: State<'static> = suspect(StateCode::SOURCE_UNKNOWN, "service not in the directory");
const NOT_ACCEPTING: State<'static> = suspect(StateCode::NO_RESOURCES, "service accepts no requests");
const SERVICE_DOWN: State<'static> = suspect(StateCode::NONE, "service is down");
