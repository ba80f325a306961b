use std::collections::{BTreeMap, BTreeSet};

use rwf::{Domain, MapAction};

use super::delta::{Change, Edit, GroupElements};
use super::{DirectoryRefresh, DirectoryUpdate, QosRange, Refusal, Service, ServiceDelta};
use crate::{Element, OwnedState, Part, RdmError};

/// The services that are known, by id and by name, both unique.
///
/// A server builds one with [`insert`](Directory::insert), [`change`](Directory::change) and
/// [`remove`](Directory::remove), which return the delta to send on. A consumer feeds one with what it
/// receives: [`apply_refresh`](Directory::apply_refresh) and [`apply_update`](Directory::apply_update), which
/// return what changed. What is received may have an empty name; nobody can ask for such a service. A message
/// takes effect as a whole or, if anything in it is wrong, not at all.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    limits: DirectoryLimits,
    services: BTreeMap<u16, Service>,
    names: BTreeMap<String, u16>,
    /// Services that the refresh under way has not confirmed yet.
    unconfirmed: BTreeSet<u16>,
}

/// The most that a [`Directory`] holds of what a peer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryLimits {
    /// Services.
    pub service_count_max: u32,
    /// Memory of one service: names, texts, groups and links. Typical ones take less than 1 KiB.
    pub service_bytes_max: u32,
}

impl Default for DirectoryLimits {
    /// Some ten times what the largest installations have.
    fn default() -> Self {
        DirectoryLimits { service_count_max: 4096, service_bytes_max: 1 << 16 }
    }
}

/// What a message changed in a [`Directory`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryChange {
    /// The service is new. Nothing else is said about it in the same message but what happened to its groups.
    Added {
        /// The service.
        service_id: u16,
    },
    /// What it is or offers is another.
    Info {
        /// The service.
        service_id: u16,
    },
    /// Whether it can be used is another, or its items have a new state.
    State {
        /// The service.
        service_id: u16,
        /// The state that all its items are in from now on, if it was said.
        status: Option<OwnedState>,
    },
    /// Something happened to a group of its items.
    Group {
        /// The service.
        service_id: u16,
        /// What happened.
        group: GroupElements,
    },
    /// How much it can bear is another.
    Load {
        /// The service.
        service_id: u16,
    },
    /// The data about it is other data.
    Data {
        /// The service.
        service_id: u16,
    },
    /// The connections behind it are others.
    Links {
        /// The service.
        service_id: u16,
    },
    /// The service is gone; its items are closed, to be asked for again.
    Removed {
        /// The service.
        service_id: u16,
        /// The name that it had.
        name: String,
    },
}

impl Directory {
    /// No services.
    #[must_use]
    pub fn new(limits: DirectoryLimits) -> Directory {
        Directory { limits, ..Directory::default() }
    }

    /// The services, by ascending id.
    pub fn services(&self) -> impl Iterator<Item = &Service> + '_ {
        self.services.values()
    }

    /// The number of services.
    #[must_use]
    pub fn service_count(&self) -> usize {
        self.services.len()
    }

    /// A service by its id.
    #[must_use]
    pub fn service(&self, service_id: u16) -> Option<&Service> {
        self.services.get(&service_id)
    }

    /// A service by its name.
    #[must_use]
    pub fn service_by_name(&self, name: &str) -> Option<&Service> {
        self.service(*self.names.get(name)?)
    }

    /// Why an item cannot be asked for; see [`Service::refuses`].
    #[must_use]
    pub fn refuses(&self, service_id: u16, domain: Domain, qos: Option<QosRange>) -> Option<Refusal> {
        match self.service(service_id) {
            Some(service) => service.refuses(domain, qos),
            None => Some(Refusal::ServiceUnknown),
        }
    }
}

/// Building a directory.
impl Directory {
    /// Adds a service, or puts it in place of the one of its id. Returns the delta to send; `None` if nothing
    /// changed.
    ///
    /// # Errors
    /// [`RdmError::DuplicateServiceName`], [`RdmError::Missing`] without a name, [`RdmError::TooMany`].
    pub fn insert(&mut self, mut service: Service) -> Result<Option<ServiceDelta>, RdmError> {
        let delta = match self.service(service.id) {
            Some(old) => ServiceDelta::between(old, &service),
            None => Some(ServiceDelta::added(&service)),
        };
        if service.info.name.is_empty() {
            return Err(RdmError::Missing { part: Element::Name.into() });
        }
        let mut staged = Staged::new(self);
        staged.check_size(&service)?;
        service.keep_what_lasts();
        staged.services.insert(service.id, Some(service));
        let staged = staged.check()?;
        self.commit(staged);
        Ok(delta)
    }

    /// Changes a service. Returns the delta to send; `None` if nothing changed.
    ///
    /// # Errors
    /// [`RdmError::UnknownService`], else as [`Directory::insert`].
    pub fn change(
        &mut self,
        service_id: u16,
        change: impl FnOnce(&mut Service),
    ) -> Result<Option<ServiceDelta>, RdmError> {
        let mut service = self.service(service_id).ok_or(RdmError::UnknownService { service_id })?.clone();
        change(&mut service);
        service.id = service_id;
        self.insert(service)
    }

    /// Removes a service. Returns the delta to send; `None` if there was none.
    pub fn remove(&mut self, service_id: u16) -> Option<ServiceDelta> {
        let service = self.services.remove(&service_id)?;
        self.names.remove(&service.info.name);
        self.unconfirmed.remove(&service_id);
        Some(ServiceDelta::removed(service_id))
    }
}

/// Following a directory.
impl Directory {
    /// Says that the next refresh is the whole truth: services that it does not name are then gone. For a
    /// stream that is opened anew, after a connection was lost; a refresh that clears the cache says so
    /// itself.
    pub fn expect_image(&mut self) {
        self.unconfirmed = self.services.keys().copied().collect();
    }

    /// Takes over a refresh, or one part of it. Services that are not confirmed are removed when it is
    /// complete.
    ///
    /// # Errors
    /// [`RdmError::DuplicateServiceId`], [`RdmError::DuplicateServiceName`], [`RdmError::UnknownService`],
    /// [`RdmError::Missing`] without a name, [`RdmError::TooMany`]; nothing has changed then.
    pub fn apply_refresh(
        &mut self,
        refresh: &DirectoryRefresh<'_>,
    ) -> Result<Vec<DirectoryChange>, RdmError> {
        let mut staged = Staged::new(self);
        if refresh.clear_cache {
            staged.unconfirmed = self.services.keys().copied().collect();
        }
        staged.take(&refresh.services)?;
        if refresh.complete {
            staged.remove_unconfirmed();
        }
        let staged = staged.check()?;
        Ok(self.commit(staged))
    }

    /// Takes over an update.
    ///
    /// # Errors
    /// As [`Directory::apply_refresh`].
    pub fn apply_update(&mut self, update: &DirectoryUpdate) -> Result<Vec<DirectoryChange>, RdmError> {
        let mut staged = Staged::new(self);
        staged.take(&update.services)?;
        let staged = staged.check()?;
        Ok(self.commit(staged))
    }

    fn commit(&mut self, outcome: Outcome) -> Vec<DirectoryChange> {
        self.unconfirmed = outcome.unconfirmed;
        for (service_id, service) in outcome.services {
            if let Some(old) = self.services.remove(&service_id)
                && self.names.get(&old.info.name) == Some(&service_id)
            {
                self.names.remove(&old.info.name);
            }
            if let Some(service) = service {
                if !service.info.name.is_empty() {
                    self.names.insert(service.info.name.clone(), service_id);
                }
                self.services.insert(service_id, service);
            }
        }
        outcome.changes
    }
}

/// A message on its way into a directory.
struct Staged<'d> {
    directory: &'d Directory,
    /// Services as they will be; `None` are gone.
    services: BTreeMap<u16, Option<Service>>,
    unconfirmed: BTreeSet<u16>,
    changes: Vec<DirectoryChange>,
}

/// A message that can take effect.
struct Outcome {
    services: BTreeMap<u16, Option<Service>>,
    unconfirmed: BTreeSet<u16>,
    changes: Vec<DirectoryChange>,
}

impl<'d> Staged<'d> {
    fn new(directory: &'d Directory) -> Staged<'d> {
        Staged {
            directory,
            services: BTreeMap::new(),
            unconfirmed: directory.unconfirmed.clone(),
            changes: Vec::new(),
        }
    }

    fn service(&self, service_id: u16) -> Option<&Service> {
        match self.services.get(&service_id) {
            Some(staged) => staged.as_ref(),
            None => self.directory.service(service_id),
        }
    }

    fn take(&mut self, deltas: &[ServiceDelta]) -> Result<(), RdmError> {
        let mut added = BTreeSet::new();
        for delta in deltas {
            let service_id = delta.service_id;
            match delta.action {
                MapAction::Add if !added.insert(service_id) => {
                    return Err(RdmError::DuplicateServiceId { service_id });
                }
                MapAction::Add => self.put(delta, Service { id: service_id, ..Service::default() })?,
                MapAction::Update => {
                    let known = self.service(service_id).cloned();
                    self.put(delta, known.unwrap_or(Service { id: service_id, ..Service::default() }))?;
                }
                MapAction::Delete => {
                    added.remove(&service_id);
                    self.remove(service_id);
                }
            }
        }
        Ok(())
    }

    /// Lays a delta over `service` and stages the result. An update of a service that is not known is an
    /// addition if it says enough.
    fn put(&mut self, delta: &ServiceDelta, mut service: Service) -> Result<(), RdmError> {
        delta.edits.iter().for_each(|edit| edit.apply(&mut service));
        self.check_is_named(delta)?;
        self.check_size(&service)?;
        let known = self.service(service.id);
        let mut changes = differences(known, &service, delta);
        changes.extend(group_events(delta));
        self.changes.append(&mut changes);
        if delta.action == MapAction::Add {
            self.unconfirmed.remove(&service.id);
        }
        self.services.insert(service.id, Some(service));
        Ok(())
    }

    /// A service has a name once one was said, which may be empty: its peer said so, and the service alone is then
    /// of no use, not all that the peer says.
    fn check_is_named(&self, delta: &ServiceDelta) -> Result<(), RdmError> {
        let names = |edit: &Edit| match edit {
            Edit::Info(Change::Set(info) | Change::Update(info)) if info.name.is_some() => Some(true),
            Edit::Info(Change::Set(_) | Change::Clear) => Some(false),
            _ => None,
        };
        let is_update = delta.action == MapAction::Update;
        let is_known = self.service(delta.service_id).is_some();
        match delta.edits.iter().rev().find_map(names).unwrap_or(is_update && is_known) {
            true => Ok(()),
            false if is_update && !is_known => Err(RdmError::UnknownService { service_id: delta.service_id }),
            false => Err(RdmError::Missing { part: Element::Name.into() }),
        }
    }

    fn check_size(&self, service: &Service) -> Result<(), RdmError> {
        check_max(Part::ServiceBytes, service.heap_bytes(), self.directory.limits.service_bytes_max)
    }

    fn remove(&mut self, service_id: u16) {
        self.unconfirmed.remove(&service_id);
        if let Some(service) = self.service(service_id) {
            let name = service.info.name.clone();
            self.changes.push(DirectoryChange::Removed { service_id, name });
            self.services.insert(service_id, None);
        }
    }

    fn remove_unconfirmed(&mut self) {
        while let Some(service_id) = self.unconfirmed.first().copied() {
            self.remove(service_id);
        }
    }

    /// Names are unique when everything is said, but for empty ones; a service that is not confirmed makes way.
    fn check(mut self) -> Result<Outcome, RdmError> {
        let mut names: BTreeMap<&str, u16> = BTreeMap::new();
        let mut displaced = Vec::new();
        for (service_id, service) in &self.services {
            let Some(service) = service else { continue };
            let name = service.info.name.as_str();
            if name.is_empty() {
                continue;
            }
            let Some(other) = names.insert(name, *service_id).or_else(|| self.untouched_holder(name)) else {
                continue;
            };
            let makes_way = [other, *service_id].into_iter().find(|id| self.unconfirmed.contains(id));
            displaced.push(
                makes_way
                    .ok_or(RdmError::DuplicateServiceName { service_id: other, other_id: *service_id })?,
            );
        }
        displaced.into_iter().for_each(|service_id| self.remove(service_id));
        check_max(Part::Services, self.count_after(), self.directory.limits.service_count_max)?;
        Ok(Outcome { services: self.services, unconfirmed: self.unconfirmed, changes: self.changes })
    }

    /// The service that has the name and is not staged.
    fn untouched_holder(&self, name: &str) -> Option<u16> {
        self.directory.names.get(name).copied().filter(|holder| !self.services.contains_key(holder))
    }

    fn count_after(&self) -> usize {
        let touched = self.services.keys().filter(|id| self.directory.services.contains_key(id)).count();
        let staged = self.services.values().flatten().count();
        self.directory.services.len() - touched + staged
    }
}

fn check_max(part: Part, value: usize, max: u32) -> Result<(), RdmError> {
    if value <= max as usize { Ok(()) } else { Err(RdmError::TooMany { part, max }) }
}

/// What is other in `new` than in `known`.
fn differences(known: Option<&Service>, new: &Service, delta: &ServiceDelta) -> Vec<DirectoryChange> {
    let service_id = new.id;
    let Some(known) = known else { return vec![DirectoryChange::Added { service_id }] };
    let status = delta.edits.iter().rev().find_map(status_of).cloned();
    let changes = [
        (known.info != new.info).then_some(DirectoryChange::Info { service_id }),
        (known.state != new.state || status.is_some())
            .then_some(DirectoryChange::State { service_id, status }),
        (known.load != new.load).then_some(DirectoryChange::Load { service_id }),
        (known.data != new.data).then_some(DirectoryChange::Data { service_id }),
        (known.links != new.links).then_some(DirectoryChange::Links { service_id }),
    ];
    changes.into_iter().flatten().collect()
}

/// The state of all items that an edit says.
fn status_of(edit: &Edit) -> Option<&OwnedState> {
    match edit {
        Edit::State(Change::Set(state) | Change::Update(state)) => state.status.as_ref(),
        _ => None,
    }
}

fn group_events(delta: &ServiceDelta) -> impl Iterator<Item = DirectoryChange> + '_ {
    let service_id = delta.service_id;
    delta.edits.iter().filter_map(move |edit| match edit {
        Edit::Group(Change::Set(group) | Change::Update(group)) => {
            Some(DirectoryChange::Group { service_id, group: group.clone() })
        }
        _ => None,
    })
}
