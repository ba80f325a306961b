//! Providers and services: who can be asked for what.

use std::collections::BTreeMap;
use std::sync::Arc;

use counters::table::Distributor as Counters;
use rwf::{Dictionary, Domain, Key};
use units::Nanos;

use super::base::{Balance, DistributorConfig, PostRoute, ProviderId};
use super::item::Standby;
use super::notices::ProviderNotice;
use super::provider::{Dialled, Offer, Provider, Target};
use super::publication::Publication;
use super::service::{PublishedService, Queue, Requested};
use super::sink::DistributorSink;
use crate::key::ItemKey;
use crate::ration::Ration;

/// Providers and the services that they supply.
pub(super) struct Suppliers {
    pub(super) instance: u64,
    pub(super) config: Arc<DistributorConfig>,
    pub(super) services: BTreeMap<u16, PublishedService>,
    pub(super) providers: BTreeMap<ProviderId, Provider>,
    /// Streams open or asked for at dialled providers.
    streams_count: usize,
    /// Items that wait for their turn.
    queued_count: usize,
    /// Tickets given out to items that wait for their turn.
    tickets: u64,
    /// What may be reported of services that several providers publish.
    pub(super) sharing_ration: Ration,
    pub(super) dictionary: Arc<Dictionary>,
    pub(super) directory: Publication,
    pub(super) counters: Arc<Counters>,
}

impl Suppliers {
    pub(super) fn new(
        instance: u64,
        config: Arc<DistributorConfig>,
        dictionary: Arc<Dictionary>,
        counters: Arc<Counters>,
    ) -> Suppliers {
        Suppliers {
            instance,
            config,
            services: BTreeMap::new(),
            providers: BTreeMap::new(),
            streams_count: 0,
            queued_count: 0,
            tickets: 0,
            sharing_ration: Ration::default(),
            dictionary,
            directory: Publication::default(),
            counters,
        }
    }
}

/// Less is better: how busy the provider says it is, then how many items it has of us.
fn load_of(offer: &Offer) -> (u64, usize) {
    (offer.definition.load.load_factor.unwrap_or(0), offer.open_count + offer.pending_count)
}

impl Suppliers {
    /// Whether posts change items of a service, so that items of no provider may be good.
    pub(super) fn takes_posts(&self, id: u16) -> bool {
        self.services.get(&id).is_some_and(|service| service.posts == PostRoute::Cache)
    }
}

impl Suppliers {
    pub(super) fn dialled(&self, provider: ProviderId) -> Option<&Dialled> {
        self.providers.get(&provider)?.dialled.as_ref()
    }

    pub(super) fn dialled_mut(&mut self, provider: ProviderId) -> Option<&mut Dialled> {
        self.providers.get_mut(&provider)?.dialled.as_mut()
    }

    pub(super) fn offer(&self, provider: ProviderId, service: u16) -> Option<&Offer> {
        self.dialled(provider)?.offers.get(&service)
    }

    pub(super) fn offer_mut(&mut self, provider: ProviderId, service: u16) -> Option<&mut Offer> {
        self.dialled_mut(provider)?.offers.get_mut(&service)
    }

    /// Whether images of a service stay at its providers: only where they can be asked for them, and posts change none
    /// here.
    pub(super) fn is_uncached(&self, service: u16) -> bool {
        self.services.get(&service).is_some_and(|service| {
            service.requested().is_some()
                && service.posts != PostRoute::Cache
                && self.config.uncached.contains(&service.definition.info.name)
        })
    }

    pub(super) fn count_providers(&self) {
        let logged_in = self.providers.values().filter(|p| p.user.is_some()).count();
        self.counters.providers.set(logged_in as u64);
    }
}

impl Suppliers {
    /// A provider's key with our service id; `None` if it is incomplete or too long to be kept, or the
    /// service is not its to publish.
    pub(super) fn key_of<'k>(
        &self,
        provider: ProviderId,
        domain: Domain,
        key: Key<'k>,
    ) -> Option<ItemKey<'k>> {
        let service = *self.providers.get(&provider)?.service_ids.get(&key.service_id?)?;
        let is_publisher = self.services.get(&service)?.is_published_by(provider);
        key.name.filter(|_| is_publisher)?;
        ItemKey::of(service, domain, &key).ok()
    }
}

impl Suppliers {
    /// Whether a provider offers the domain, or none is there to say.
    pub(super) fn may_be_offered(&self, key: ItemKey<'_>) -> bool {
        let Some(requested) = self.services.get(&key.service).and_then(|s| s.requested()) else {
            return false;
        };
        let mut offers = requested.sources.iter().filter_map(|p| self.offer(*p, key.service)).peekable();
        offers.peek().is_none() || offers.any(|o| o.definition.info.capabilities.contains(&key.domain))
    }
}

impl Suppliers {
    /// Ticket and place of the item of a service that has waited longest of those that a provider takes now.
    pub(super) fn next_to_ask(&self, id: u16) -> Option<(u64, usize)> {
        let requested = self.services.get(&id)?.requested()?;
        let window = self.config.requests_outstanding_max;
        let is_taken =
            |domain: Domain| self.able(requested, id, domain).any(|(_, offer)| offer.has_room(window));
        let firsts = requested.queues.iter().filter_map(|(domain, queue)| {
            let (ticket, index) = queue.items.first_key_value()?;
            is_taken(Domain(*domain)).then_some((*ticket, *index))
        });
        firsts.min()
    }

    /// Whether items of a domain have to wait because every provider that could be asked for one has as many
    /// open as it takes.
    pub(super) fn is_over_limit(&self, id: u16, domain: Domain) -> bool {
        let Some(requested) = self.services.get(&id).and_then(|s| s.requested()) else { return false };
        let mut able = self.able(requested, id, domain).peekable();
        able.peek().is_some() && able.all(|(_, offer)| offer.is_full())
    }

    /// The providers that can be asked for items of a domain now: those that stand by only if there is no other.
    fn able<'s>(
        &'s self,
        requested: &'s Requested,
        id: u16,
        domain: Domain,
    ) -> impl Iterator<Item = (ProviderId, &'s Offer)> {
        let offers = requested.sources.iter().filter_map(move |p| Some((*p, self.offer(*p, id)?)));
        let able = offers.filter(move |(_, offer)| offer.is_available() && offer.has_domain(domain));
        let stand_by = able.clone().all(|(_, offer)| offer.is_standby);
        able.filter(move |(_, offer)| stand_by || !offer.is_standby)
    }

    pub(super) fn next_to_report(&self, id: u16, domain: u8) -> Option<(u64, usize)> {
        let queue = self.services.get(&id)?.requested()?.queues.get(&domain)?;
        queue.items.range(queue.reported_to + 1..).next().map(|(ticket, index)| (*ticket, *index))
    }

    pub(super) fn queue_mut(&mut self, id: u16, domain: u8) -> Option<&mut Queue> {
        self.services.get_mut(&id)?.requested_mut()?.queues.get_mut(&domain)
    }

    /// Tells the operators once for each connection that a provider's limit makes items wait.
    pub(super) fn notice_limit(&mut self, id: u16, sink: &mut impl DistributorSink) {
        let Some(service) = self.services.get(&id) else { return };
        let name = service.definition.info.name.clone();
        let sources = service.requested().map(|r| r.sources.clone()).unwrap_or_default();
        for provider in sources {
            let Some(offer) = self.offer_mut(provider, id) else { continue };
            if let Some(limit) = offer.definition.load.open_limit
                && offer.is_full()
                && !std::mem::replace(&mut offer.is_limit_reported, true)
            {
                sink.notice(provider, &ProviderNotice::OpenLimit { service: &name, limit });
            }
        }
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
        let mut able: Vec<(ProviderId, &Offer)> =
            self.able(requested, id, domain).filter(|(_, offer)| offer.has_room(window)).collect();
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
        let is_first = !offer.is_used();
        offer.pending_count += 1;
        known.streams.insert(stream_id, target);
        let theirs = offer.theirs;
        if is_first {
            self.note_use(service);
        }
        self.count_streams(1);
        Some((stream_id, theirs))
    }
}

impl Suppliers {
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
        known.streams.remove(stream_id);
        if let Some(offer) = self.offer_mut(provider, service).filter(|offer| offer.since <= swept) {
            let count = if was_pending { &mut offer.pending_count } else { &mut offer.open_count };
            *count -= 1;
            if !offer.is_used() {
                self.note_use(service);
            }
        }
        Some((provider, stream_id))
    }

    fn count_streams(&mut self, change: isize) {
        self.streams_count = self.streams_count.saturating_add_signed(change);
        self.counters.streams_open.set(self.streams_count as u64);
    }
}

impl Suppliers {
    /// A provider's stream is no longer that of an item.
    pub(super) fn forget_standby_stream(&mut self, index: usize, standby: &Standby) {
        if let Some(known) = self.providers.get_mut(&standby.provider)
            && known.streams.get(standby.stream_id) == Some(Target::Item(index))
        {
            known.streams.remove(standby.stream_id);
        }
    }
}

impl Suppliers {
    /// Of how many numbers the items are looked up for a question.
    pub(super) fn numbers_of(&self, service: u16, first: u64, last: u64) -> u64 {
        let published = self.services.get(&service).map_or(0, |known| known.stream.sequence());
        let most = self.config.gap_memory as u64;
        last.min(published).saturating_sub(first).saturating_add(1).min(most)
    }

    /// The service of an id, unless it is withdrawn.
    pub(super) fn listed(&self, id: u16) -> Option<&PublishedService> {
        self.services.get(&id).filter(|service| !service.is_withdrawn())
    }
}

impl Suppliers {
    /// Publishes the directory if it has changed since, or is to be repeated.
    pub(super) fn publish_directory_if_due(&mut self, now: Nanos, sink: &mut impl DistributorSink) {
        let Suppliers { directory, services, config, .. } = self;
        if directory.publish((now, config.heartbeat_interval, self.instance), services, sink) {
            self.counters.services.set(self.services.len() as u64);
        }
    }
}

/// Items whose turn has not come.
impl Suppliers {
    /// Puts an item into the queue of its service; `None` if its items are not asked for.
    pub(super) fn enqueue(&mut self, id: u16, domain: Domain, index: usize) -> Option<u64> {
        let requested = self.services.get_mut(&id)?.requested_mut()?;
        self.tickets += 1;
        requested.queues.entry(domain.0).or_default().items.insert(self.tickets, index);
        self.count_queued(1);
        Some(self.tickets)
    }

    /// Takes an item out of the queue.
    pub(super) fn unqueue(&mut self, id: u16, domain: Domain, ticket: u64) {
        if let Some(requested) = self.services.get_mut(&id).and_then(|s| s.requested_mut())
            && let Some(queue) = requested.queues.get_mut(&domain.0)
        {
            queue.items.remove(&ticket);
            if queue.items.is_empty() {
                requested.queues.remove(&domain.0);
            }
        }
        self.count_queued(-1);
    }

    fn count_queued(&mut self, change: isize) {
        self.queued_count = self.queued_count.saturating_add_signed(change);
        self.counters.items_queued.set(self.queued_count as u64);
    }
}
