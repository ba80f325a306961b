//! Items that are asked for one by one at dialled providers: each once, as long as somebody wants it.

use rwf::{Domain, State, StateCode};
use units::Nanos;

use super::base::{ProviderId, Timer};
use super::item::ItemSupply;
use super::items::{Items, OVER_LIMIT};
use super::provider::Target;
use super::recall;
use super::sink::DistributorSink;
use super::status::SUSPECT;

const UNANSWERED: State<'static> =
    SUSPECT.because(StateCode::TIMEOUT, "the provider does not answer, the item is asked for again");

/// What peers want.
impl Items {
    /// Nobody has come back to an item.
    pub(super) fn lingered(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let service = self.table[index].key.service;
        self.close_item(now, index, &[], sink);
        self.pump(now, service, sink);
    }
}

/// Asking.
impl Items {
    /// Puts an item that nobody supplies into the queue of its service.
    pub(super) fn enqueue(&mut self, index: usize, avoid: Option<ProviderId>) {
        let item = &mut self.table[index];
        let (service, domain) = (item.key.service, item.key.domain);
        if let Some(ticket) = self.suppliers.enqueue(service, domain, index) {
            item.supply = ItemSupply::Queued { ticket, avoid, is_reported: false };
        }
    }

    /// Asks for the items of a service in their turn, as long as there is a provider with room for one.
    pub(super) fn pump(&mut self, now: Nanos, id: u16, sink: &mut impl DistributorSink) {
        while let Some((ticket, index)) = self.suppliers.next_to_ask(id) {
            if !self.is_still_queued(now, (index, ticket), sink) {
                continue;
            }
            let Some(provider) = self.choose(id, index) else { break };
            self.ask(now, index, provider, sink);
        }
        self.report_rest_over_limit(now, id, 0, sink);
    }

    /// What sweeps have for an item whose turn it is comes first: its service may have been withdrawn since.
    fn is_still_queued(
        &mut self,
        now: Nanos,
        (index, place): (usize, u64),
        sink: &mut impl DistributorSink,
    ) -> bool {
        if !self.cleanups.has_sweeps() {
            return true;
        }
        self.settle(now, index, sink);
        let item = self.table.get(index);
        item.is_some_and(|item| matches!(item.supply, ItemSupply::Queued { ticket, .. } if ticket == place))
    }

    /// An item that has to wait for the limit of the providers is suspect, and those who want it are notified why.
    #[cold]
    fn report_over_limit(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let (id, domain) = (self.table[index].key.service, self.table[index].key.domain);
        if !self.suppliers.is_over_limit(id, domain) {
            return;
        }
        let ItemSupply::Queued { is_reported, .. } = &mut self.table[index].supply else { return };
        if std::mem::replace(is_reported, true) {
            return;
        }
        self.counters.items_over_limit.inc();
        self.suspect(now, index, OVER_LIMIT, sink);
        self.suppliers.notice_limit(id, sink);
    }

    /// The same for all that wait in a queue and were not told before, until so much of the turn's work is left: each
    /// turn looks at the new ones alone.
    #[cold]
    pub(super) fn report_rest_over_limit(
        &mut self,
        now: Nanos,
        id: u16,
        until: usize,
        sink: &mut impl DistributorSink,
    ) {
        let Some(requested) = self.suppliers.services.get(&id).and_then(|s| s.requested()) else { return };
        let full = requested.queues.iter().filter(|(domain, queue)| {
            queue.items.last_key_value().is_some_and(|(last, _)| *last > queue.reported_to)
                && self.suppliers.is_over_limit(id, Domain(**domain))
        });
        for domain in full.map(|(domain, _)| *domain).collect::<Vec<u8>>() {
            while let Some((ticket, index)) = self.suppliers.next_to_report(id, domain) {
                if !self.cleanups.has_work_above(now, until) {
                    return self.report_over_limit_later(id);
                }
                let reported = self.table.get(index).map_or(0, |item| item.waiting.len());
                self.cleanups.spend(1 + reported);
                if self.is_still_queued(now, (index, ticket), sink) {
                    self.report_over_limit(now, index, sink);
                }
                if let Some(queue) = self.suppliers.queue_mut(id, domain) {
                    queue.reported_to = ticket;
                }
            }
        }
    }

    /// The provider that an item is asked for at; `None` if none has room for one of its domain.
    fn choose(&mut self, id: u16, index: usize) -> Option<ProviderId> {
        let (domain, window) = (self.table[index].key.domain, self.config.requests_outstanding_max);
        let avoid = match self.table[index].supply {
            ItemSupply::Queued { avoid, .. } => avoid,
            _ => None,
        };
        self.suppliers.choose_for(id, domain, window, avoid)
    }

    fn ask(&mut self, now: Nanos, index: usize, provider: ProviderId, sink: &mut impl DistributorSink) {
        self.unqueue(index);
        let item = &self.table[index];
        let service = item.key.service;
        let Some((stream_id, _)) = self.suppliers.take_stream(provider, service, Target::Item(index)) else {
            return;
        };
        recall::send_request(self, index, (provider, stream_id), sink);
        let due = self.timers.set(now + self.config.request_timeout, Timer::Request(index));
        let item = &mut self.table[index];
        item.supply = ItemSupply::Pending { provider, stream_id, due };
        item.swept = self.cleanups.last_sweep();
        item.cached.begin_again();
        self.counters.requests_out.inc();
    }
}

/// What comes of it.
impl Items {
    /// A part of the image has come, perhaps the last.
    pub(super) fn answered(
        &mut self,
        now: Nanos,
        index: usize,
        is_whole: bool,
        sink: &mut impl DistributorSink,
    ) {
        let item = &mut self.table[index];
        let ItemSupply::Pending { provider, stream_id, due } = item.supply else { return };
        self.timers.cancel(due);
        if !is_whole {
            let due = self.timers.set(now + self.config.request_timeout, Timer::Request(index));
            item.supply = ItemSupply::Pending { provider, stream_id, due };
            return;
        }
        item.supply = ItemSupply::Open { provider, stream_id };
        let service = item.key.service;
        if let Some(offer) = self.suppliers.offer_mut(provider, service) {
            offer.pending_count -= 1;
            offer.open_count += 1;
        }
        self.check_wanted(now, index, sink);
        self.pump(now, service, sink);
    }

    /// The answer did not come in time: the item is asked for again, elsewhere if there is another provider.
    pub(super) fn unanswered(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        self.counters.requests_unanswered.inc();
        let avoid = self.table[index].supply.provider();
        self.detach(index, sink);
        self.suspect(now, index, UNANSWERED, sink);
        self.ask_again(now, index, avoid, sink);
    }

    /// The stream of an item is lost, the item is not: it is asked for again, where it can be.
    pub(super) fn item_lost(
        &mut self,
        now: Nanos,
        index: usize,
        state: State<'_>,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.items_lost.inc();
        self.detach(index, sink);
        self.suspect(now, index, state, sink);
        self.ask_again(now, index, None, sink);
    }

    /// The item cannot be had where it was asked for: it is asked for again after a while, elsewhere if there
    /// is another provider.
    pub(super) fn ask_later(
        &mut self,
        now: Nanos,
        index: usize,
        avoid: Option<ProviderId>,
        state: State<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let service = self.table[index].key.service;
        self.detach(index, sink);
        self.suspect(now, index, state, sink);
        let due = self.timers.set(now + self.config.item_retry, Timer::Retry(index));
        self.table[index].supply = ItemSupply::Resting { due, avoid };
        self.check_wanted(now, index, sink);
        self.pump(now, service, sink);
    }

    /// An item that was left alone for a while is asked for.
    pub(super) fn rested(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let ItemSupply::Resting { avoid, .. } = self.table[index].supply else { return };
        self.ask_again(now, index, avoid, sink);
    }

    fn ask_again(
        &mut self,
        now: Nanos,
        index: usize,
        avoid: Option<ProviderId>,
        sink: &mut impl DistributorSink,
    ) {
        let service = self.table[index].key.service;
        self.enqueue(index, avoid);
        self.check_wanted(now, index, sink);
        self.pump(now, service, sink);
    }

    pub(super) fn unqueue(&mut self, index: usize) {
        let item = &mut self.table[index];
        let ItemSupply::Queued { ticket, .. } = std::mem::take(&mut item.supply) else { return };
        self.suppliers.unqueue(item.key.service, item.key.domain, ticket);
    }
}
