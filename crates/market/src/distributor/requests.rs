//! Items that are asked for one by one at dialled providers: each once, as long as somebody wants it.

use rdm::ToVec;
use rwf::{CloseMsg, DataType, Domain, Key, Priority, RequestMsg, State, StateCode};
use units::Nanos;

use super::dialled::Offer;
use super::providers::Target;
use super::services::Queue;
use super::timers::Due;
use super::{
    Balance, Distributor, DistributorSink, PeerId, ProviderId, ProviderNotice, SUSPECT, Timer, peers,
    status_bytes,
};
use crate::backbone::Kind;
use crate::key::ItemKey;

/// Where an item comes from at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Upstream {
    /// Nobody supplies it.
    #[default]
    None,
    /// A provider publishes it of its own accord.
    Published { provider: ProviderId, stream_id: i32 },
    /// It is to be asked for when its turn comes, rather not at `avoid`.
    Queued { ticket: u64, avoid: Option<ProviderId>, is_told: bool },
    /// It is to be asked for again after a while.
    Resting { due: Due, avoid: Option<ProviderId> },
    /// It is asked for; the whole image is not there.
    Pending { provider: ProviderId, stream_id: i32, due: Due },
    /// It is open there.
    Open { provider: ProviderId, stream_id: i32 },
    /// The same, and nobody wants it: it is closed when the time has come.
    Lingering { provider: ProviderId, stream_id: i32, due: Due },
}

impl Upstream {
    /// Whether it belongs to a service whose items are asked for.
    pub(super) fn is_asked_for(&self) -> bool {
        !matches!(self, Upstream::None | Upstream::Published { .. })
    }

    /// Whether the whole image is on its way.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        matches!(self, Upstream::Pending { .. })
    }

    /// Provider and stream where it is open.
    pub(super) fn open_at(&self) -> Option<(ProviderId, i32)> {
        match *self {
            Upstream::Open { provider, stream_id } | Upstream::Lingering { provider, stream_id, .. } => {
                Some((provider, stream_id))
            }
            _ => None,
        }
    }

    /// The provider that supplies it or is asked for it.
    pub(super) fn provider(&self) -> Option<ProviderId> {
        match *self {
            Upstream::None | Upstream::Queued { .. } | Upstream::Resting { .. } => None,
            Upstream::Published { provider, .. }
            | Upstream::Pending { provider, .. }
            | Upstream::Open { provider, .. }
            | Upstream::Lingering { provider, .. } => Some(provider),
        }
    }
}

/// What peers want.
impl Distributor {
    /// A peer wants an item of a requested service that is not in the table.
    pub(super) fn on_new_interest(
        &mut self,
        now: Nanos,
        peer: PeerId,
        key: ItemKey<'_>,
        sink: &mut impl DistributorSink,
    ) {
        if self.items.len() >= self.config.items_max {
            self.counters.interests_refused.inc();
            peers::tell(peer, key, peers::TABLE_FULL, sink);
            return;
        }
        if !self.may_be_offered(key) {
            self.counters.items_not_found.inc();
            peers::tell(peer, key, NO_SUCH_DOMAIN, sink);
            return;
        }
        let index = self.make_item(key);
        self.enqueue(index, None);
        self.pump(now, key.service, sink);
        self.grant(now, index, peer, sink);
    }

    /// Whether a provider offers the domain, or none is there to say.
    fn may_be_offered(&self, key: ItemKey<'_>) -> bool {
        let Some(requested) = self.services.get(&key.service).and_then(|s| s.requested()) else {
            return false;
        };
        let mut offers = requested.sources.iter().filter_map(|p| self.offer(*p, key.service)).peekable();
        offers.peek().is_none() || offers.any(|o| o.definition.info.capabilities.contains(&key.domain))
    }

    /// What a peer is told that wants an item whose image is not there: nothing but that it takes its time,
    /// as long as a provider can be asked; else why not.
    pub(super) fn tell_awaited(&self, index: usize, peer: PeerId, sink: &mut impl DistributorSink) {
        let item = &self.items[index];
        let key = item.key.as_key();
        let is_available = self.services.get(&key.service).and_then(|s| s.requested()).is_some_and(|r| {
            r.sources.iter().filter_map(|p| self.offer(*p, key.service)).any(Offer::is_available)
        });
        match item.upstream {
            Upstream::Queued { .. } if !is_available => peers::tell(peer, key, NO_PROVIDER, sink),
            Upstream::Queued { .. } if self.is_over_limit(key.service, key.domain) => {
                peers::tell(peer, key, OVER_LIMIT, sink);
            }
            Upstream::Resting { .. } => peers::tell(peer, key, item.cached.state().borrow(), sink),
            _ => peers::tell_asked(peer, key, sink),
        }
    }

    /// Somebody wants an item: it is not to be closed for want of interest.
    pub(super) fn keep(&mut self, index: usize) {
        let item = &mut self.items[index];
        if let Upstream::Lingering { provider, stream_id, due } = item.upstream {
            self.timers.cancel(due);
            item.upstream = Upstream::Open { provider, stream_id };
        }
    }

    /// A peer has lost interest in an item. One that nobody wants is kept for a while if it is there, and
    /// forgotten at once if it is not even asked for.
    pub(super) fn check_wanted(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let item = &mut self.items[index];
        if !item.is_unwanted() {
            return;
        }
        match item.upstream {
            Upstream::Open { provider, stream_id } => {
                let due = self.timers.set(now + self.config.item_linger, Timer::Linger(index));
                item.upstream = Upstream::Lingering { provider, stream_id, due };
            }
            Upstream::Queued { .. } | Upstream::Resting { .. } => self.close_item(now, index, &[], sink),
            _ => {}
        }
    }

    /// Nobody has come back to an item.
    pub(super) fn lingered(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let service = self.items[index].key.service;
        self.close_item(now, index, &[], sink);
        self.pump(now, service, sink);
    }
}

const NO_SUCH_DOMAIN: State<'static> =
    peers::CLOSED.because(StateCode::NOT_FOUND, "no provider of the service has this domain");
const NO_PROVIDER: State<'static> = SUSPECT.because(StateCode::NONE, "waiting for a provider of the service");
const OVER_LIMIT: State<'static> = SUSPECT.because(
    StateCode::TOO_MANY_ITEMS,
    "waiting: the providers of the service have as many items open as they take",
);
const UNANSWERED: State<'static> =
    SUSPECT.because(StateCode::TIMEOUT, "the provider does not answer, the item is asked for again");

/// Asking.
impl Distributor {
    /// Puts an item that nobody supplies into the queue of its service.
    pub(super) fn enqueue(&mut self, index: usize, avoid: Option<ProviderId>) {
        let item = &mut self.items[index];
        let Some(requested) = self.services.get_mut(&item.key.service).and_then(|s| s.requested_mut()) else {
            return;
        };
        self.tickets += 1;
        requested.queues.entry(item.key.domain.0).or_default().items.insert(self.tickets, index);
        item.upstream = Upstream::Queued { ticket: self.tickets, avoid, is_told: false };
        self.count_queued(1);
    }

    /// Asks for the items of a service in their turn, as long as there is a provider with room for one.
    pub(super) fn pump(&mut self, now: Nanos, id: u16, sink: &mut impl DistributorSink) {
        while let Some((ticket, index)) = self.next_to_ask(id) {
            if !self.is_still_queued(now, (index, ticket), sink) {
                continue;
            }
            let Some(provider) = self.choose(id, index) else { break };
            self.ask(now, index, provider, sink);
        }
        self.tell_rest_over_limit(now, id, 0, sink);
    }

    /// Ticket and place of the item of a service that has waited longest of those that a provider takes now.
    fn next_to_ask(&self, id: u16) -> Option<(u64, usize)> {
        let requested = self.services.get(&id)?.requested()?;
        let window = self.config.requests_outstanding_max;
        let is_taken = |domain: Domain| {
            requested.sources.iter().filter_map(|p| self.offer(*p, id)).any(|o| o.takes(domain, window))
        };
        let firsts = requested.queues.iter().filter_map(|(domain, queue)| {
            let (ticket, index) = queue.items.first_key_value()?;
            is_taken(Domain(*domain)).then_some((*ticket, *index))
        });
        firsts.min()
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
        let item = self.items.get(index);
        item.is_some_and(|item| matches!(item.upstream, Upstream::Queued { ticket, .. } if ticket == place))
    }

    /// Whether items of a domain have to wait because every provider that could be asked for one has as many
    /// open as it takes.
    fn is_over_limit(&self, id: u16, domain: Domain) -> bool {
        let Some(requested) = self.services.get(&id).and_then(|s| s.requested()) else { return false };
        let offers = requested.sources.iter().filter_map(|p| self.offer(*p, id));
        let mut able = offers.filter(|o| o.is_available() && o.has_domain(domain)).peekable();
        able.peek().is_some() && able.all(Offer::is_full)
    }

    /// An item that has to wait for the limit of the providers is suspect, and those who want it are told why.
    #[cold]
    fn tell_over_limit(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let (id, domain) = (self.items[index].key.service, self.items[index].key.domain);
        if !self.is_over_limit(id, domain) {
            return;
        }
        let Upstream::Queued { is_told, .. } = &mut self.items[index].upstream else { return };
        if std::mem::replace(is_told, true) {
            return;
        }
        self.counters.items_over_limit.inc();
        self.suspect(now, index, OVER_LIMIT, sink);
        self.notice_limit(id, sink);
    }

    /// The same for all that wait in a queue and were not told before, until so much of the turn's work is left: each
    /// turn looks at the new ones alone.
    #[cold]
    pub(super) fn tell_rest_over_limit(
        &mut self,
        now: Nanos,
        id: u16,
        until: usize,
        sink: &mut impl DistributorSink,
    ) {
        let Some(requested) = self.services.get(&id).and_then(|s| s.requested()) else { return };
        let full = requested.queues.iter().filter(|(domain, queue)| {
            queue.items.last_key_value().is_some_and(|(last, _)| *last > queue.told_to)
                && self.is_over_limit(id, Domain(**domain))
        });
        for domain in full.map(|(domain, _)| *domain).collect::<Vec<u8>>() {
            while let Some((ticket, index)) = self.next_to_tell(id, domain) {
                if !self.has_work_above(now, until) {
                    return self.tell_over_limit_later(id);
                }
                let told = self.items.get(index).map_or(0, |item| item.waiting.len());
                self.spend(1 + told);
                if self.is_still_queued(now, (index, ticket), sink) {
                    self.tell_over_limit(now, index, sink);
                }
                if let Some(queue) = self.queue_mut(id, domain) {
                    queue.told_to = ticket;
                }
            }
        }
    }

    fn next_to_tell(&self, id: u16, domain: u8) -> Option<(u64, usize)> {
        let queue = self.services.get(&id)?.requested()?.queues.get(&domain)?;
        queue.items.range(queue.told_to + 1..).next().map(|(ticket, index)| (*ticket, *index))
    }

    fn queue_mut(&mut self, id: u16, domain: u8) -> Option<&mut Queue> {
        self.services.get_mut(&id)?.requested_mut()?.queues.get_mut(&domain)
    }

    /// Tells the operators once for each connection that a provider's limit makes items wait.
    fn notice_limit(&mut self, id: u16, sink: &mut impl DistributorSink) {
        let Some(service) = self.services.get(&id) else { return };
        let name = service.definition.info.name.clone();
        let sources = service.requested().map(|r| r.sources.clone()).unwrap_or_default();
        for provider in sources {
            let Some(offer) = self.offer_mut(provider, id) else { continue };
            if let Some(limit) = offer.definition.load.open_limit
                && offer.is_full()
                && !std::mem::replace(&mut offer.is_limit_told, true)
            {
                sink.notice(provider, &ProviderNotice::OpenLimit { service: &name, limit });
            }
        }
    }

    /// The provider that an item is asked for at; `None` if none has room for one of its domain.
    fn choose(&mut self, id: u16, index: usize) -> Option<ProviderId> {
        let (domain, window) = (self.items[index].key.domain, self.config.requests_outstanding_max);
        let avoid = match self.items[index].upstream {
            Upstream::Queued { avoid, .. } => avoid,
            _ => None,
        };
        self.choose_for(id, domain, window, avoid)
    }

    /// The provider that takes the next stream of a domain.
    pub(super) fn choose_for(
        &mut self,
        id: u16,
        domain: Domain,
        window: usize,
        avoid: Option<ProviderId>,
    ) -> Option<ProviderId> {
        let requested = self.services.get(&id)?.requested()?;
        let offers = requested.sources.iter().filter_map(|p| Some((*p, self.offer(*p, id)?)));
        let mut able: Vec<(ProviderId, &Offer)> = offers.filter(|(_, o)| o.takes(domain, window)).collect();
        if able.len() > 1 {
            able.retain(|(p, _)| Some(*p) != avoid);
        }
        let turn = requested.turn;
        let chosen = match self.config.balance {
            Balance::Load => able.iter().min_by_key(|(_, o)| load_of(o)),
            Balance::RoundRobin => able.get(turn % able.len().max(1)),
        }?;
        let provider = chosen.0;
        self.services.get_mut(&id)?.requested_mut()?.turn = turn.wrapping_add(1);
        Some(provider)
    }

    fn ask(&mut self, now: Nanos, index: usize, provider: ProviderId, sink: &mut impl DistributorSink) {
        self.unqueue(index);
        let item = &self.items[index];
        let (domain, service) = (item.key.domain, item.key.service);
        let Some((stream_id, theirs)) = self.take_stream(provider, service, Target::Item(index)) else {
            return;
        };
        let request = RequestMsg {
            streaming: true,
            priority: Some(Priority { class: 1, count: 1 }),
            qos: self.offer(provider, service).and_then(|o| o.definition.info.qos.first().copied()),
            key: Key { service_id: Some(theirs), ..self.items[index].key.as_key().to_key() },
            ..RequestMsg::new(domain, stream_id, DataType::NO_DATA)
        };
        sink.to_provider(provider, self.encoding.encode(|w| request.encode(w)));
        let due = self.timers.set(now + self.config.request_timeout, Timer::Request(index));
        let item = &mut self.items[index];
        item.upstream = Upstream::Pending { provider, stream_id, due };
        item.swept = self.cleanups.last_sweep();
        item.cached.begin_again();
        self.counters.requests_out.inc();
    }

    /// A stream at a provider that waits for its answer: its id, and the service's id there.
    pub(super) fn take_stream(
        &mut self,
        provider: ProviderId,
        service: u16,
        target: Target,
    ) -> Option<(i32, u16)> {
        let known = self.providers.get_mut(&provider)?;
        let dialled = known.dialled.as_mut()?;
        let stream_id = dialled.take_stream_id(&known.streams);
        let offer = dialled.offers.get_mut(&service)?;
        offer.pending_count += 1;
        known.streams.insert(stream_id, target);
        let theirs = offer.theirs;
        self.count_streams(1);
        Some((stream_id, theirs))
    }
}

/// What comes of it.
impl Distributor {
    /// A part of the image has come, perhaps the last.
    pub(super) fn answered(
        &mut self,
        now: Nanos,
        index: usize,
        is_whole: bool,
        sink: &mut impl DistributorSink,
    ) {
        let item = &mut self.items[index];
        let Upstream::Pending { provider, stream_id, due } = item.upstream else { return };
        self.timers.cancel(due);
        if !is_whole {
            let due = self.timers.set(now + self.config.request_timeout, Timer::Request(index));
            item.upstream = Upstream::Pending { provider, stream_id, due };
            return;
        }
        item.upstream = Upstream::Open { provider, stream_id };
        let service = item.key.service;
        if let Some(offer) = self.offer_mut(provider, service) {
            offer.pending_count -= 1;
            offer.open_count += 1;
        }
        self.check_wanted(now, index, sink);
        self.pump(now, service, sink);
    }

    /// The answer did not come in time: the item is asked for again, elsewhere if there is another provider.
    pub(super) fn unanswered(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        self.counters.requests_unanswered.inc();
        let avoid = self.items[index].upstream.provider();
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
        let service = self.items[index].key.service;
        self.detach(index, sink);
        self.suspect(now, index, state, sink);
        let due = self.timers.set(now + self.config.item_retry, Timer::Retry(index));
        self.items[index].upstream = Upstream::Resting { due, avoid };
        self.check_wanted(now, index, sink);
        self.pump(now, service, sink);
    }

    /// An item that was left alone for a while is asked for.
    pub(super) fn rested(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let Upstream::Resting { avoid, .. } = self.items[index].upstream else { return };
        self.ask_again(now, index, avoid, sink);
    }

    fn ask_again(
        &mut self,
        now: Nanos,
        index: usize,
        avoid: Option<ProviderId>,
        sink: &mut impl DistributorSink,
    ) {
        let service = self.items[index].key.service;
        self.enqueue(index, avoid);
        self.check_wanted(now, index, sink);
        self.pump(now, service, sink);
    }

    /// An item is not to be trusted until its next image: those who know it are told, and those who wait.
    pub(super) fn suspect(
        &mut self,
        now: Nanos,
        index: usize,
        state: State<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let item = &mut self.items[index];
        item.cached.suspect(state.code, &state.text_lossy());
        let status = status_bytes(item.key.as_key(), state);
        let service = item.key.service;
        self.tell_waiting(index, &status, sink);
        // That a service is down is said of all its items at once.
        if self.services.get(&service).is_some_and(|s| s.definition.state.up) {
            self.publish(now, index, Kind::Status, &status, sink);
        }
    }

    /// Ends whatever there is between an item and its provider, which is told if it still thinks of the
    /// stream as open.
    pub(super) fn detach(&mut self, index: usize, sink: &mut impl DistributorSink) {
        let domain = self.items[index].key.domain;
        if let Some((provider, stream_id)) = self.forget_stream(index) {
            let close = CloseMsg::new(domain, stream_id, DataType::NO_DATA).to_vec();
            sink.to_provider(provider, &close.expect("no part of a close can be too long"));
        }
    }

    /// The same without telling the provider: it has ended the stream itself. Returns the provider's stream,
    /// if the provider is there and was asked for the item.
    pub(super) fn forget_stream(&mut self, index: usize) -> Option<(ProviderId, i32)> {
        let item = &mut self.items[index];
        let (service, swept) = (item.key.service, item.swept);
        match std::mem::take(&mut item.upstream) {
            Upstream::None => None,
            Upstream::Published { provider, stream_id } => {
                let streams = &mut self.providers.get_mut(&provider)?.streams;
                if streams.get(&stream_id) == Some(&Target::Item(index)) {
                    streams.remove(&stream_id);
                }
                None
            }
            queued @ Upstream::Queued { .. } => {
                item.upstream = queued;
                self.unqueue(index);
                None
            }
            Upstream::Resting { due, .. } => {
                self.timers.cancel(due);
                None
            }
            Upstream::Pending { provider, stream_id, due } => {
                self.timers.cancel(due);
                self.end_stream(provider, stream_id, (service, swept), true)
            }
            Upstream::Lingering { provider, stream_id, due } => {
                self.timers.cancel(due);
                self.end_stream(provider, stream_id, (service, swept), false)
            }
            Upstream::Open { provider, stream_id } => {
                self.end_stream(provider, stream_id, (service, swept), false)
            }
        }
    }

    /// Takes a stream out of what is known of its provider. Sweeps up to `swept` are done with it.
    pub(super) fn end_stream(
        &mut self,
        provider: ProviderId,
        stream_id: i32,
        (service, swept): (u16, u64),
        was_pending: bool,
    ) -> Option<(ProviderId, i32)> {
        self.count_streams(-1);
        let known = self.providers.get_mut(&provider)?;
        known.streams.remove(&stream_id);
        if let Some(offer) = self.offer_mut(provider, service).filter(|offer| offer.since <= swept) {
            let count = if was_pending { &mut offer.pending_count } else { &mut offer.open_count };
            *count -= 1;
        }
        Some((provider, stream_id))
    }

    fn count_streams(&mut self, change: isize) {
        self.streams_count = self.streams_count.saturating_add_signed(change);
        self.counters.streams_open.set(self.streams_count as u64);
    }

    fn count_queued(&mut self, change: isize) {
        self.queued_count = self.queued_count.saturating_add_signed(change);
        self.counters.items_queued.set(self.queued_count as u64);
    }

    fn unqueue(&mut self, index: usize) {
        let item = &mut self.items[index];
        let Upstream::Queued { ticket, .. } = std::mem::take(&mut item.upstream) else { return };
        let domain = item.key.domain.0;
        if let Some(requested) = self.services.get_mut(&item.key.service).and_then(|s| s.requested_mut())
            && let Some(queue) = requested.queues.get_mut(&domain)
        {
            queue.items.remove(&ticket);
            if queue.items.is_empty() {
                requested.queues.remove(&domain);
            }
        }
        self.count_queued(-1);
    }
}

/// Less is better: how busy the provider says it is, then how many items it has of us.
fn load_of(offer: &Offer) -> (u64, usize) {
    (offer.definition.load.load_factor.unwrap_or(0), offer.open_count + offer.pending_count)
}
