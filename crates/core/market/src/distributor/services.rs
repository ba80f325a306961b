//! Which services there are, who supplies them, and how peers see them.

use std::collections::{BTreeMap, BTreeSet};

use rdm::directory::{Directory, DirectoryChange, DirectoryMsg, Service};
use rwf::Msg;
use units::Nanos;

use super::Distributor;
use super::base::ProviderId;
use super::definitions::Numbers;
use super::errors::ProviderError;
use super::notices::{ProviderNotice, RefusedService};
use super::service::{PublishedService, Publisher, Supply, Untaken};
use super::sink::DistributorSink;
use super::sweep::{Fate, ItemIndices};

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

/// The directory of a provider.
impl Distributor {
    pub(super) fn on_directory(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        msg: &Msg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        let Some(known) = self.items.suppliers.providers.get_mut(&provider) else { return Ok(()) };
        let changes = match apply(&mut known.directory, msg)? {
            Applied::Changes(changes) => changes,
            Applied::Nothing => {
                self.counters.messages_refused.inc();
                return Ok(());
            }
        };
        self.take_changed(now, provider, &changes, sink);
        self.on_bulk_changes(now, provider, changes, sink);
        self.items.suppliers.publish_directory_if_due(now, sink);
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
        let Some(known) = self.items.suppliers.providers.get(&provider) else { return };
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
                self.items.suppliers.count_shared();
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
        let Some(known) = self.items.suppliers.providers.get(&provider) else { return };
        if known.dialled.is_some() {
            return self.take_offers(now, provider, sink);
        }
        let services: Vec<Service> = known.directory.services().cloned().collect();
        self.withdraw_missing(provider, &services, now, sink);
        for service in services {
            self.take_service(now, provider, service, sink);
        }
        self.items.suppliers.count_shared();
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
        let definition = match self.items.suppliers.as_ours(definition, Numbers::Kept) {
            Ok(definition) => definition,
            Err(Untaken::For(why)) => {
                return self.items.suppliers.refuse_service(provider, &name, why, sink);
            }
            Err(Untaken::Until(number)) => return self.wait_to_take(now, provider, number),
        };
        let (ours, is_up) = (definition.id, definition.state.up);
        if self.items.suppliers.listed(ours).is_some_and(|s| s.requested().is_some()) {
            return self.items.suppliers.refuse_service(provider, &name, RefusedService::AskedFor, sink);
        }
        if self.items.suppliers.listed(ours).is_none() {
            self.items.suppliers.add_service(definition.clone(), Supply::Published(Vec::new()), sink);
        }
        let is_saved = self.items.suppliers.providers.get(&provider).is_some_and(|known| known.is_saved);
        let Some(service) = self.items.suppliers.services.get_mut(&ours) else { return };
        let Supply::Published(publishers) = &mut service.supply else { return };
        service.is_saved = is_saved && (service.is_saved || publishers.is_empty());
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
        if let Some(known) = self.items.suppliers.providers.get_mut(&provider) {
            known.service_ids.insert(theirs, ours);
        }
        self.items.suppliers.redefine(now, ours, sink);
        self.items.settle_service(now, ours, is_settling);
        if is_new && providers > 1 && self.items.suppliers.sharing_ration.take(now).is_some() {
            sink.notice(provider, &ProviderNotice::SharesService { service: &name, providers });
        }
        if was_up && !is_up && providers > 1 {
            let services = [(ours, Fate::new(providers))].into();
            let places = self.items.suppliers.take_places(provider, &[ours]);
            self.items.sweep_published(
                now,
                provider,
                (services, places),
                "the provider's service is down",
                sink,
            );
        }
    }

    /// A provider publishes services no longer: those that are left go on, or they are down.
    pub(super) fn remove_publisher(
        &mut self,
        now: Nanos,
        (provider, ids): (ProviderId, &[u16]),
        (places, text): (BTreeMap<u16, ItemIndices>, &'static str),
        sink: &mut impl DistributorSink,
    ) {
        let mut lost = BTreeMap::new();
        for &id in ids {
            let Some(service) = self.items.suppliers.services.get_mut(&id) else { continue };
            let Supply::Published(publishers) = &mut service.supply else { continue };
            publishers.retain(|publisher| publisher.provider != provider);
            lost.insert(id, Fate::new(publishers.len()));
            self.items.suppliers.redefine_without(now, id, sink);
            self.items.settle_service(now, id, false);
        }
        if !lost.is_empty() {
            self.items.sweep_published(now, provider, (lost, places), text, sink);
        }
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
            .items
            .suppliers
            .services
            .iter()
            .filter(|(_, s)| s.is_published_by(provider) && !is_listed(s))
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            if self.items.suppliers.services.get(&id).is_some_and(|s| s.publishers().len() > 1) {
                let text = "the provider has withdrawn the service";
                let places = self.items.suppliers.take_places(provider, &[id]);
                self.remove_publisher(now, (provider, &[id]), (places, text), sink);
            } else {
                self.items.withdraw(now, provider, id, sink);
            }
        }
    }
}
