//! Which services there are, who supplies them, and what peers are told about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rdm::ToVec;
use rdm::directory::{Directory, DirectoryChange, DirectoryMsg, DirectoryRefresh, Filter, Load, Service};
use rwf::Msg;
use units::Nanos;

use super::cleanups::{Fate, Places};
use super::flow::Outflow;
use super::stream::Stream;
use super::{
    Distributor, DistributorSink, PostRoute, ProviderError, ProviderId, ProviderNotice, RefusedService,
};
use crate::backbone::can_be_topic;

/// A service and its stream.
pub(super) struct PublishedService {
    pub(super) definition: Service,
    pub(super) supply: Supply,
    pub(super) stream: Stream,
    /// Requests for unknown items of a published service are answered from then on; never while it is down.
    pub(super) settled_at: Nanos,
    /// What becomes of posts to it.
    pub(super) posts: PostRoute,
    /// Its fields ripple as the dictionary says.
    pub(super) ripples: bool,
    /// Nobody lists it any more: the number of the sweep that closes its items.
    pub(super) withdrawn: Option<u64>,
}

/// Where the items of a service come from.
pub(super) enum Supply {
    /// Non-interactive providers publish them; these, in the order in which they came. There is none as long as
    /// all are away.
    Published(Vec<Publisher>),
    /// They are asked for one by one.
    Requested(Requested),
}

/// A non-interactive provider of a service.
pub(super) struct Publisher {
    provider: ProviderId,
    /// What it says about the service, with our id.
    definition: Service,
}

/// A service whose items are asked for at dialled providers.
#[derive(Default)]
pub(super) struct Requested {
    /// The providers that offer it now, in the order in which they came.
    pub(super) sources: Vec<ProviderId>,
    /// Items whose turn has not come, by domain: those that no provider takes now stand in nobody's way.
    pub(super) queues: BTreeMap<u8, Queue>,
    /// Counts requests, to take turns by.
    pub(super) turn: usize,
}

/// Items of one domain whose turn has not come.
#[derive(Default)]
pub(super) struct Queue {
    /// By ticket, by their places in the table.
    pub(super) items: BTreeMap<u64, usize>,
    /// Up to this ticket, those that wait for the providers' limits were told so.
    pub(super) told_to: u64,
}

impl PublishedService {
    pub(super) fn is_settled(&self, now: Nanos) -> bool {
        now >= self.settled_at
    }

    pub(super) fn is_published_by(&self, provider: ProviderId) -> bool {
        self.publishers().iter().any(|publisher| publisher.provider == provider)
    }

    /// Whether a provider publishes it and says that it is up.
    pub(super) fn is_up_at(&self, provider: ProviderId) -> bool {
        let mut publishers = self.publishers().iter();
        publishers.any(|publisher| publisher.provider == provider && publisher.definition.state.up)
    }

    pub(super) fn publishers(&self) -> &[Publisher] {
        match &self.supply {
            Supply::Published(publishers) => publishers,
            Supply::Requested(_) => &[],
        }
    }

    pub(super) fn requested(&self) -> Option<&Requested> {
        match &self.supply {
            Supply::Requested(requested) => Some(requested),
            Supply::Published(_) => None,
        }
    }

    pub(super) fn requested_mut(&mut self) -> Option<&mut Requested> {
        match &mut self.supply {
            Supply::Requested(requested) => Some(requested),
            Supply::Published(_) => None,
        }
    }
}

/// Why a service of a provider is not taken.
pub(super) enum Untaken {
    /// It does not fit.
    For(RefusedService),
    /// It does not fit until the sweep of this number is done.
    Until(u64),
}

/// The directory of a provider.
impl Distributor {
    pub(super) fn on_directory(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        msg: &Msg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        let Some(known) = self.providers.get_mut(&provider) else { return Ok(()) };
        let changes = match apply(&mut known.directory, msg)? {
            Applied::Changes(changes) => changes,
            Applied::Nothing => {
                self.counters.messages_refused.inc();
                return Ok(());
            }
        };
        self.take_changed(now, provider, &changes, sink);
        self.say_of_many(now, provider, changes, sink);
        self.publish_directory_if_due(now, sink);
        Ok(())
    }

    /// Takes what a provider's directory has just said. The services that it has not spoken of are as they were, unless one
    /// is gone or has another name, or some could not be taken before.
    fn take_changed(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        changes: &[DirectoryChange],
        sink: &mut impl DistributorSink,
    ) {
        let Some(known) = self.providers.get(&provider) else { return };
        let changed = |change: &DirectoryChange| match *change {
            DirectoryChange::Added { service_id }
            | DirectoryChange::State { service_id, .. }
            | DirectoryChange::Group { service_id, .. }
            | DirectoryChange::Load { service_id }
            | DirectoryChange::Data { service_id }
            | DirectoryChange::Links { service_id } => Some(service_id),
            _ => None,
        };
        let ids: Option<BTreeSet<u16>> = changes.iter().map(changed).collect();
        match ids.filter(|_| known.dialled.is_none() && known.refused.is_empty()) {
            None => self.take_services(now, provider, sink),
            Some(ids) => {
                let services = known.directory.services().filter(|service| ids.contains(&service.id));
                for service in services.cloned().collect::<Vec<Service>>() {
                    self.take_service(now, provider, service, sink);
                }
                self.count_shared();
            }
        }
    }

    /// Takes what a provider's directory lists now.
    pub(super) fn take_services(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        sink: &mut impl DistributorSink,
    ) {
        let Some(known) = self.providers.get(&provider) else { return };
        if known.dialled.is_some() {
            return self.take_offers(now, provider, sink);
        }
        let services: Vec<Service> = known.directory.services().cloned().collect();
        self.withdraw_missing(provider, &services, now, sink);
        for service in services {
            self.take_service(now, provider, service, sink);
        }
        self.count_shared();
    }

    /// A service as a non-interactive provider describes it. Others may publish it as well.
    fn take_service(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        definition: Service,
        sink: &mut impl DistributorSink,
    ) {
        let theirs = definition.id;
        let name = definition.info.name.clone();
        let definition = match self.as_ours(definition) {
            Ok(definition) => definition,
            Err(Untaken::For(why)) => return self.refuse_service(provider, &name, why, sink),
            Err(Untaken::Until(number)) => return self.wait_to_take(now, provider, number),
        };
        let (ours, is_up) = (definition.id, definition.state.up);
        if self.listed(ours).is_some_and(|s| s.requested().is_some()) {
            return self.refuse_service(provider, &name, RefusedService::AskedFor, sink);
        }
        if self.listed(ours).is_none() {
            self.add_service(definition.clone(), Supply::Published(Vec::new()), sink);
        }
        let Some(service) = self.services.get_mut(&ours) else { return };
        let Supply::Published(publishers) = &mut service.supply else { return };
        let publisher = Publisher { provider, definition };
        let known = publishers.iter_mut().find(|known| known.provider == provider);
        let is_new = known.is_none();
        let was_up = match known {
            Some(known) => std::mem::replace(known, publisher).definition.state.up,
            None => {
                publishers.push(publisher);
                false
            }
        };
        let (providers, is_settling) = (publishers.len(), is_new || is_up && !was_up);
        if let Some(known) = self.providers.get_mut(&provider) {
            known.service_ids.insert(theirs, ours);
        }
        self.redefine(ours);
        self.settle_service(now, ours, is_settling);
        if is_new && providers > 1 && self.sharing_ration.take(now).is_some() {
            sink.notice(provider, &ProviderNotice::SharesService { service: &name, providers });
        }
        if was_up && !is_up && providers > 1 {
            let services = [(ours, Fate::new(providers))].into();
            let places = self.take_places(provider, &[ours]);
            self.sweep_published(now, provider, (services, places), "the provider's service is down", sink);
        }
    }

    /// From when on requests for unknown items of a service are answered: never while it is down, and a while
    /// after somebody began to publish it.
    fn settle_service(&mut self, now: Nanos, id: u16, is_settling: bool) {
        let Some(service) = self.services.get_mut(&id) else { return };
        if !service.definition.state.up {
            service.settled_at = Nanos::NEVER;
        } else if is_settling || service.settled_at == Nanos::NEVER {
            service.settled_at = now + self.config.settle_time;
        }
        let settled_at = service.settled_at;
        self.unknown.note_due(settled_at);
    }

    /// A provider publishes services no longer: those that are left go on, or they are down.
    pub(super) fn remove_publisher(
        &mut self,
        now: Nanos,
        (provider, ids): (ProviderId, &[u16]),
        (places, text): (BTreeMap<u16, Places>, &'static str),
        sink: &mut impl DistributorSink,
    ) {
        let mut lost = BTreeMap::new();
        for &id in ids {
            let Some(service) = self.services.get_mut(&id) else { continue };
            let Supply::Published(publishers) = &mut service.supply else { continue };
            publishers.retain(|publisher| publisher.provider != provider);
            lost.insert(id, Fate::new(publishers.len()));
            self.redefine(id);
            self.settle_service(now, id, false);
        }
        if !lost.is_empty() {
            self.sweep_published(now, provider, (lost, places), text, sink);
        }
    }

    /// The items that a provider has published of services, which it publishes no longer.
    fn take_places(&mut self, provider: ProviderId, ids: &[u16]) -> BTreeMap<u16, Places> {
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
            return;
        }
        sink.open_stream(id, &definition.info.name);
        let posts = self.config.posts.get(&definition.info.name).copied().unwrap_or_default();
        let stream = Stream::new(
            id,
            self.instance,
            self.config.gap_memory,
            Outflow::new(self.config.flow.window_bytes),
            Arc::clone(&self.counters),
        );
        let ripples = !self.config.unrippled.contains(&definition.info.name);
        let settled_at = Nanos::NEVER;
        let withdrawn = None;
        let service = PublishedService { definition, supply, stream, settled_at, posts, ripples, withdrawn };
        self.services.insert(id, service);
        self.is_directory_due = true;
    }

    /// A provider's service under our id, if it can be one of ours. States of groups and of all items are told item
    /// by item, and how much a provider bears is between it and us.
    pub(super) fn as_ours(&self, mut definition: Service) -> Result<Service, Untaken> {
        definition.groups.clear();
        definition.state.status = None;
        if !can_be_topic(&definition.info.name) {
            return Err(Untaken::For(RefusedService::Unnamable));
        }
        if !can_be_told(&definition) {
            return Err(Untaken::For(RefusedService::Unfit));
        }
        definition.id = self.service_id(&definition)?;
        Ok(definition)
    }

    /// The id that a service has in the whole system: as configured, else the one it has, whoever published
    /// it before, else the provider's own.
    fn service_id(&self, definition: &Service) -> Result<u16, Untaken> {
        let name = &definition.info.name;
        let is_of_name = |s: &&PublishedService| s.definition.info.name == *name;
        let known = self.services.values().find(is_of_name).map(|s| s.definition.id);
        let id = match self.config.service_ids.get(name).copied().or(known) {
            Some(id) => id,
            None if self.config.service_ids.values().any(|&id| id == definition.id) => {
                return Err(Untaken::For(RefusedService::Unfit));
            }
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

    /// A service that its provider no longer lists is closed with all its items.
    fn withdraw_missing(
        &mut self,
        provider: ProviderId,
        listed: &[Service],
        now: Nanos,
        sink: &mut impl DistributorSink,
    ) {
        let is_listed = |s: &PublishedService| listed.iter().any(|l| l.info.name == s.definition.info.name);
        let gone: Vec<u16> = self
            .services
            .iter()
            .filter(|(_, s)| s.is_published_by(provider) && !is_listed(s))
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            if self.services.get(&id).is_some_and(|s| s.publishers().len() > 1) {
                let text = "the provider has withdrawn the service";
                let places = self.take_places(provider, &[id]);
                self.remove_publisher(now, (provider, &[id]), (places, text), sink);
            } else {
                self.withdraw(now, provider, id, sink);
            }
        }
    }

    /// Describes a service anew, as its providers together offer it.
    pub(super) fn redefine(&mut self, id: u16) {
        let Some(service) = self.listed(id) else { return };
        let definition = match &service.supply {
            Supply::Requested(requested) => {
                let offers = requested.sources.iter().filter_map(|p| self.offer(*p, id));
                together(&service.definition, offers.map(|o| &o.definition))
            }
            Supply::Published(publishers) => match &publishers[..] {
                [alone] => alone.definition.clone(),
                several => together(&service.definition, several.iter().map(|p| &p.definition)),
            },
        };
        if definition != service.definition {
            self.is_directory_due = true;
            self.services.get_mut(&id).expect("it was just there").definition = definition;
        }
    }
}

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

/// What became of a message about services.
enum Applied {
    Changes(Vec<DirectoryChange>),
    /// It says nothing about services.
    Nothing,
}

fn apply(directory: &mut Directory, msg: &Msg<'_>) -> Result<Applied, ProviderError> {
    let changes = match DirectoryMsg::parse(msg).map_err(ProviderError::Directory)? {
        DirectoryMsg::Refresh(refresh) => directory.apply_refresh(&refresh),
        DirectoryMsg::Update(update) => directory.apply_update(&update),
        DirectoryMsg::Request(_)
        | DirectoryMsg::Status(_)
        | DirectoryMsg::Close(_)
        | DirectoryMsg::Generic(_) => return Ok(Applied::Nothing),
    };
    changes.map(Applied::Changes).map_err(ProviderError::Directory)
}

/// Whether directories can hold a service: its parts came in several messages, and servers add to them.
fn can_be_told(definition: &Service) -> bool {
    let refresh = DirectoryRefresh::publish(0, Filter::ALL, [definition]);
    let bytes = refresh.ok().and_then(|refresh| refresh.to_vec().ok());
    bytes.is_some_and(|bytes| bytes.len() <= DEFINITION_MAX_BYTES)
}

/// Half of what one entry of a filter list can hold.
const DEFINITION_MAX_BYTES: usize = 32 << 10;
