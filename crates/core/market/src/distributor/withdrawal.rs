//! Services that nobody lists any more: their items are closed, and then they are gone.
//!
//! That takes as many turns as it needs. As long as it is not done the service is *withdrawn*: it has its stream, on
//! which items are closed, and stands in the directory as before, but whatever is asked about it is answered as if it
//! were gone. A provider that lists it again takes the mark away: it goes on with its stream and with items of its
//! own, and those that it had before are closed all the same.

use rwf::{DataState, State, StateCode, StreamState};
use units::Nanos;

use super::base::ProviderId;
use super::items::Items;
use super::service::Supply;
use super::sink::DistributorSink;
use super::status::{SERVICE_WITHDRAWN, report, status_bytes};
use super::sweep::What;

const CLOSED: State<'static> = State::new(StreamState::ClosedRecover, DataState::Suspect)
    .because(StateCode::SOURCE_UNKNOWN, "the provider has withdrawn the service");

/// The directory of a provider.
impl Items {
    /// From when on requests for unknown items of a service are answered: never while it is down, and a while
    /// after somebody began to publish it.
    pub(super) fn settle_service(&mut self, now: Nanos, id: u16, is_settling: bool) {
        let Some(service) = self.suppliers.services.get_mut(&id) else { return };
        if !service.definition.state.up {
            service.settled_at = Nanos::NEVER;
        } else if is_settling || service.settled_at == Nanos::NEVER {
            service.settled_at = now + self.config.settle_time;
        }
        let settled_at = service.settled_at;
        self.unknown.note_due(settled_at);
    }
}

impl Items {
    /// The last provider of a service lists it no longer.
    pub(super) fn withdraw(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        id: u16,
        sink: &mut impl DistributorSink,
    ) {
        if let Some(known) = self.suppliers.providers.get_mut(&provider) {
            known.places.remove(&id);
        }
        let number = self.cleanups.last_sweep() + 1;
        let Some(service) = self.suppliers.services.get_mut(&id) else { return };
        service.withdrawn = Some(number);
        service.settled_at = Nanos::NEVER;
        if let Supply::Published(publishers) = &mut service.supply {
            publishers.clear();
        }
        self.sweep(now, provider, What::Withdrawn(id), sink);
    }

    /// Closes an item of a withdrawn service. Those who wait for what the provider was asked for are told why first.
    pub(super) fn close_withdrawn(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        sink: &mut impl DistributorSink,
    ) {
        let item = &self.table[index];
        let key = item.key.as_key();
        let closed = status_bytes(key, CLOSED);
        if item.supply.is_asked_for() && item.supply.provider() == Some(provider) {
            let suspect = status_bytes(key, SERVICE_WITHDRAWN);
            self.counters.items_lost.inc();
            self.detach(index, sink);
            self.report_to_waiting(index, &suspect, sink);
        }
        self.close_item(now, index, &closed, sink);
    }

    /// Tells those who wait for an item that was never published that the service is gone; false if there is none, or
    /// the service is there again: then they go on waiting.
    pub(super) fn end_unknown(&mut self, id: u16, number: u64, sink: &mut impl DistributorSink) -> bool {
        if self.suppliers.services.get(&id).is_none_or(|service| service.withdrawn != Some(number)) {
            return false;
        }
        let Some((key, peers)) = self.unknown.take_next_of(id) else { return false };
        self.cleanups.spend(peers.len());
        for peer in peers.into_iter().filter(|peer| self.links.peers.contains_key(peer)) {
            report(peer, key.as_key(), CLOSED, sink);
        }
        true
    }

    /// All items of a withdrawn service are closed.
    pub(super) fn end_service(&mut self, id: u16, number: u64, sink: &mut impl DistributorSink) {
        if self.suppliers.services.get(&id).is_some_and(|service| service.withdrawn == Some(number)) {
            if let Some(gone) = self.suppliers.services.remove(&id) {
                self.ledger.close(&gone.ledger);
            }
            self.links.peers.values_mut().for_each(|peer| peer.flow.forget(id));
            sink.close_stream(id);
            self.suppliers.directory.is_due = true;
        }
    }
}
