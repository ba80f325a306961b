//! Services as peers see them: their ids, and what several providers offer together.

use std::collections::BTreeMap;
use std::sync::Arc;

use rdm::ToVec;
use rdm::directory::{DirectoryRefresh, Filter, Load, Service};
use units::Nanos;

use super::base::ProviderId;
use super::ledger::ProviderLedger;
use super::notices::{ProviderNotice, RefusedService};
use super::outflow::Outflow;
use super::provider::Offer;
use super::service::{PublishedService, Supply, Untaken};
use super::sink::DistributorSink;
use super::stream::Stream;
use super::suppliers::Suppliers;
use super::sweep::ItemIndices;
use crate::backbone::{Kind, can_be_topic, service_status};

/// What several providers offer as one service: it is up if one is, takes requests if one does, has the
/// domains of all; without any it is `before`, and down.
fn together<'o>(before: &Service, offers: impl Iterator<Item = &'o Service> + Clone) -> Service {
    let Some(first) = offers.clone().find(|s| s.state.up).or_else(|| offers.clone().next()) else {
        let mut down = before.clone();
        down.state.up = false;
        return down;
    };
    let mut all = first.clone();
    all.load = Load::default();
    for domain in offers.clone().flat_map(|s| &s.info.capabilities) {
        if !all.info.capabilities.contains(domain) {
            all.info.capabilities.push(*domain);
        }
    }
    if offers.clone().any(|s| s.state.up && s.state.accepting_requests == Some(true)) {
        all.state.accepting_requests = Some(true);
    }
    all
}

/// Whether directories can hold a service: its parts came in several messages, and servers add to them.
fn is_encodable(definition: &Service) -> bool {
    let refresh = DirectoryRefresh::publish(0, Filter::ALL, [definition]);
    let bytes = refresh.ok().and_then(|refresh| refresh.to_vec().ok());
    bytes.is_some_and(|bytes| bytes.len() <= DEFINITION_MAX_BYTES)
}

/// Most servers that data comes through.
const PATH_MAX: usize = 64;

/// Half of what one entry of a filter list can hold.
const DEFINITION_MAX_BYTES: usize = 32 << 10;

/// Whether the ids that a provider gives its services are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// They are: it was told which to use.
    Kept,
    /// If they are free: it has them from elsewhere.
    AnyFree,
}

/// What it offers.
impl Suppliers {
    /// Notes what a provider offers; returns whether the service could be used there before.
    pub(super) fn put_offer(
        &mut self,
        provider: ProviderId,
        theirs: u16,
        (definition, since): (Service, u64),
    ) -> bool {
        let is_loop = self.is_loop(&definition);
        let Some(known) = self.providers.get_mut(&provider) else { return false };
        let Some(dialled) = &mut known.dialled else { return false };
        known.service_ids.insert(theirs, definition.id);
        let id = definition.id;
        let fresh = Offer {
            theirs,
            definition,
            is_standby: dialled.spec.is_standby,
            is_loop,
            open_count: 0,
            pending_count: 0,
            since,
            is_limit_reported: false,
        };
        match dialled.offers.get_mut(&id) {
            Some(offer) => {
                let before = std::mem::replace(offer, fresh);
                (offer.open_count, offer.pending_count) = (before.open_count, before.pending_count);
                (offer.since, offer.is_limit_reported) = (before.since, before.is_limit_reported);
                before.is_up()
            }
            None => {
                dialled.offers.insert(id, fresh);
                false
            }
        }
    }
}

/// The directory of a provider.
impl Suppliers {
    /// The items that a provider has published of services, which it publishes no longer.
    pub(super) fn take_places(&mut self, provider: ProviderId, ids: &[u16]) -> BTreeMap<u16, ItemIndices> {
        let Some(known) = self.providers.get_mut(&provider) else { return BTreeMap::new() };
        ids.iter().filter_map(|id| known.places.remove_entry(id)).collect()
    }

    pub(super) fn count_shared(&self) {
        let shared = self.services.values().filter(|s| s.publishers().len() > 1).count();
        self.counters.services_shared.set(shared as u64);
    }

    /// Counts a service that is not taken from a provider, and tells so the first time.
    pub(super) fn refuse_service(
        &mut self,
        provider: ProviderId,
        name: &str,
        why: RefusedService,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.services_refused.inc();
        if let Some(known) = self.providers.get_mut(&provider)
            && known.refused.len() < self.config.services_max
            && known.refused.insert(name.to_owned())
        {
            sink.notice(provider, &ProviderNotice::Service { name, why });
        }
    }

    /// A service that is not there, or that is withdrawn: it has its stream then, and goes on with it.
    pub(super) fn add_service(
        &mut self,
        definition: Service,
        supply: Supply,
        sink: &mut impl DistributorSink,
    ) {
        let id = definition.id;
        if let Some(withdrawn) = self.services.get_mut(&id) {
            withdrawn.withdrawn = None;
            withdrawn.supply = supply;
            withdrawn.is_saved = false;
            return;
        }
        sink.open_stream(id, &definition.info.name);
        let posts = self.config.posts.get(&definition.info.name).copied().unwrap_or_default();
        let stream = Stream::new(
            id,
            self.instance,
            (self.config.gap_memory, self.config.stamp_bytes),
            Outflow::new(self.config.flow.window_bytes),
            Arc::clone(&self.counters),
        );
        let ripples = !self.config.unrippled.contains(&definition.info.name);
        let settled_at = Nanos::NEVER;
        let withdrawn = None;
        let (ledger, posted) = (ProviderLedger::default(), 0);
        let service = PublishedService {
            definition,
            supply,
            stream,
            ledger,
            posted,
            settled_at,
            posts,
            ripples,
            withdrawn,
            is_saved: false,
        };
        self.services.insert(id, service);
        self.directory.is_due = true;
    }

    /// A provider's service under our id, if it can be one of ours. States of groups and of all items are told item
    /// by item, and how much a provider bears is between it and us.
    pub(super) fn as_ours(&self, mut definition: Service, numbers: Numbers) -> Result<Service, Untaken> {
        definition.groups.clear();
        definition.state.status = None;
        if !can_be_topic(&definition.info.name) {
            return Err(Untaken::For(RefusedService::Unnamable));
        }
        if !is_encodable(&definition) {
            return Err(Untaken::For(RefusedService::Unfit));
        }
        definition.id = self.service_id(&definition, numbers)?;
        Ok(definition)
    }

    /// The id that a service has in the whole system: as configured, else the one it has, whoever published
    /// it before, else the provider's own, else a free one if the provider's numbers do not count.
    fn service_id(&self, definition: &Service, numbers: Numbers) -> Result<u16, Untaken> {
        let name = &definition.info.name;
        let is_of_name = |s: &&PublishedService| s.definition.info.name == *name;
        let known = self.services.values().find(is_of_name).map(|s| s.definition.id);
        let id = match self.config.service_ids.get(name).copied().or(known) {
            Some(id) => id,
            None if numbers == Numbers::AnyFree => self.free_id(definition.id),
            None if self.is_configured(definition.id) => return Err(Untaken::For(RefusedService::Unfit)),
            None => definition.id,
        };
        // What is withdrawn stands in the way for a while only.
        let in_the_way = match self.services.get(&id) {
            Some(taken) if taken.definition.info.name == *name => return Ok(id),
            Some(taken) => taken.withdrawn,
            None if self.services.len() < self.config.services_max => return Ok(id),
            None => self.services.values().filter_map(|service| service.withdrawn).min(),
        };
        Err(in_the_way.map_or(Untaken::For(RefusedService::Unfit), Untaken::Until))
    }

    /// Whether a provider has a service by way of this instance, or of so many that it may be.
    fn is_loop(&self, definition: &Service) -> bool {
        let path = &definition.info.path;
        path.contains(&self.instance) || path.len() > PATH_MAX
    }

    /// The servers that data of a service comes through: this instance, and those behind providers that it is asked for
    /// at now, or would be.
    fn path_of<'o>(&self, offers: impl Iterator<Item = &'o Offer> + Clone) -> Vec<u64> {
        let stand_by = offers.clone().filter(|o| o.is_available()).all(|o| o.is_standby);
        let is_next = |o: &Offer| o.is_available() && (stand_by || !o.is_standby);
        let mut path: Vec<u64> = offers
            .filter(|o| !o.is_loop && (is_next(o) || o.is_used()))
            .flat_map(|o| o.definition.info.path.iter().copied())
            .collect();
        path.push(self.instance);
        path.sort_unstable();
        path.dedup();
        path
    }

    /// One of several providers of a service has got its first stream, or has none any more: its data comes through others.
    pub(super) fn note_use(&mut self, id: u16) {
        let requested = self.services.get(&id).and_then(|service| service.requested());
        if requested.is_some_and(|requested| requested.sources.len() > 1) {
            self.define(id);
        }
    }

    fn is_configured(&self, id: u16) -> bool {
        self.config.service_ids.values().any(|&configured| configured == id)
    }

    /// The first id from `wished` on, and from 1 on behind the last, that no service has and none is to have; `wished` if
    /// there is none.
    fn free_id(&self, wished: u16) -> u16 {
        let is_free = |id: &u16| !self.services.contains_key(id) && !self.is_configured(*id);
        (wished..=u16::MAX).chain(1..wished).find(is_free).unwrap_or(wished)
    }

    /// Describes a service anew, as its providers together offer it. If it has gone down that is said on its stream too.
    pub(super) fn redefine(&mut self, now: Nanos, id: u16, sink: &mut impl DistributorSink) {
        let was_up = self.is_up(id);
        self.define(id);
        if was_up && !self.is_up(id) {
            self.say_down(now, id, sink);
        }
    }

    /// The same where a provider is lost: items may have become good since the service went down.
    pub(super) fn redefine_without(&mut self, now: Nanos, id: u16, sink: &mut impl DistributorSink) {
        self.define(id);
        if !self.is_up(id) {
            self.say_down(now, id, sink);
        }
    }

    /// Whether a service is known and up.
    pub(super) fn is_up(&self, id: u16) -> bool {
        self.services.get(&id).is_some_and(|service| service.definition.state.up)
    }

    /// What was sent of items before is not to be trusted from here on. The directory says so too, but it may be there
    /// before an image that left earlier, or behind one that left later.
    fn say_down(&mut self, now: Nanos, id: u16, sink: &mut impl DistributorSink) {
        if let Some(service) = self.services.get_mut(&id) {
            service.stream.send(now, Kind::ServiceStatus, 0, &service_status(), sink);
        }
    }

    fn define(&mut self, id: u16) {
        let Some(service) = self.listed(id) else { return };
        let definition = match &service.supply {
            Supply::Requested(requested) => {
                let offers = || requested.sources.iter().filter_map(|p| self.offer(*p, id));
                let ours = offers().filter(|offer| !offer.is_loop).map(|offer| &offer.definition);
                let mut all = together(&service.definition, ours);
                all.info.path = self.path_of(offers());
                all
            }
            Supply::Published(publishers) => match &publishers[..] {
                [alone] => alone.definition.clone(),
                several => together(&service.definition, several.iter().map(|p| &p.definition)),
            },
        };
        if definition != service.definition {
            self.directory.is_due = true;
            self.services.get_mut(&id).expect("it was just there").definition = definition;
        }
    }
}
