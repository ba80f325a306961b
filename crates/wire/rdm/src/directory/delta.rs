use rwf::{Domain, MapAction, Qos, State};

use super::overlay::{Overlay, apply, change};
use super::service::{Link, LinkCode, LinkType, Load, Service, ServiceData};
use super::{Aspect, Filter};
use crate::OwnedState;

/// What a directory message says about one service: it is there, it changed, it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceDelta {
    /// The service.
    pub service_id: u16,
    /// Add it, change it, delete it.
    pub action: MapAction,
    /// What is said about it, in order; nothing for a delete.
    pub edits: Vec<Edit>,
}

/// What is said about one aspect of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// What it is and what it offers.
    Info(Change<InfoElements>),
    /// Whether it can be used.
    State(Change<StateElements>),
    /// What happened to a group of its items.
    Group(Change<GroupElements>),
    /// How much it can bear.
    Load(Change<LoadElements>),
    /// Data about the service itself.
    Data(Change<ServiceData>),
    /// The connections behind it.
    Links(Change<Vec<LinkEdit>>),
}

/// How an aspect changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// This is all there is: what is not said has its default.
    Set(T),
    /// This has changed; the rest is as before.
    Update(T),
    /// Everything has its default.
    Clear,
}

/// The elements of an info entry that were there; see [`Info`](super::Info).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct InfoElements {
    /// See [`Info::name`](super::Info::name).
    pub name: Option<String>,
    /// See [`Info::vendor`](super::Info::vendor).
    pub vendor: Option<String>,
    /// See [`Info::is_source`](super::Info::is_source).
    pub is_source: Option<bool>,
    /// See [`Info::capabilities`](super::Info::capabilities).
    pub capabilities: Option<Vec<Domain>>,
    /// See [`Info::dictionaries_provided`](super::Info::dictionaries_provided).
    pub dictionaries_provided: Option<Vec<String>>,
    /// See [`Info::dictionaries_used`](super::Info::dictionaries_used).
    pub dictionaries_used: Option<Vec<String>>,
    /// See [`Info::qos`](super::Info::qos).
    pub qos: Option<Vec<Qos>>,
    /// See [`Info::supports_qos_range`](super::Info::supports_qos_range).
    pub supports_qos_range: Option<bool>,
    /// See [`Info::item_list`](super::Info::item_list).
    pub item_list: Option<String>,
    /// See [`Info::supports_out_of_band_snapshots`](super::Info::supports_out_of_band_snapshots).
    pub supports_out_of_band_snapshots: Option<bool>,
    /// See [`Info::accepting_consumer_status`](super::Info::accepting_consumer_status).
    pub accepting_consumer_status: Option<bool>,
    /// See [`Info::path`](super::Info::path).
    pub path: Option<Vec<u64>>,
}

/// The elements of a state entry that were there; see [`ServiceState`](super::ServiceState).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StateElements {
    /// See [`ServiceState::up`](super::ServiceState::up).
    pub up: Option<bool>,
    /// See [`ServiceState::accepting_requests`](super::ServiceState::accepting_requests).
    pub accepting_requests: Option<bool>,
    /// The state that all items are in from now on. Without one no such state lasts.
    pub status: Option<OwnedState>,
}

/// What happened to a group of items.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GroupElements {
    /// The group.
    pub group_id: Vec<u8>,
    /// Its items belong to this group from now on.
    pub merged_to: Option<Vec<u8>>,
    /// The state that its items are in from now on.
    pub status: Option<OwnedState>,
}

/// The elements of a load entry that were there; see [`Load`].
pub type LoadElements = Load;

/// What is said about one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEdit {
    /// The name of the link.
    pub name: String,
    /// Add it, change it, delete it.
    pub action: MapAction,
    /// What is said about it; nothing for a delete.
    pub elements: LinkElements,
}

/// The elements of a link that were there; see [`Link`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LinkElements {
    /// See [`Link::kind`].
    pub kind: Option<LinkType>,
    /// See [`Link::up`].
    pub up: Option<bool>,
    /// See [`Link::code`].
    pub code: Option<LinkCode>,
    /// See [`Link::text`].
    pub text: Option<String>,
}

impl ServiceDelta {
    /// The service is there: everything that is known of it.
    #[must_use]
    pub fn added(service: &Service) -> ServiceDelta {
        ServiceDelta { service_id: service.id, action: MapAction::Add, edits: whole(service) }
    }

    /// The service is gone.
    #[must_use]
    pub fn removed(service_id: u16) -> ServiceDelta {
        ServiceDelta { service_id, action: MapAction::Delete, edits: Vec::new() }
    }

    /// What leads from `old` to `new`, `None` if nothing does. An aspect that changed is said whole, because
    /// the vendor's libraries refuse an info entry without name and capabilities and a state entry without
    /// the state.
    #[must_use]
    pub fn between(old: &Service, new: &Service) -> Option<ServiceDelta> {
        let mut edits = Vec::new();
        edits.extend(change(&old.info, &new.info).map(Edit::Info));
        edits.extend(change(&old.state, &new.state).map(Edit::State));
        edits.extend(group_edits(old, new));
        edits.extend(change(&old.load, &new.load).map(Edit::Load));
        if old.data != new.data {
            edits.push(Edit::Data(new.data.clone().map_or(Change::Clear, Change::Set)));
        }
        let links = link_edits(old, new);
        if !links.is_empty() {
            edits.push(Edit::Links(Change::Update(links)));
        }
        let delta = ServiceDelta { service_id: new.id, action: MapAction::Update, edits };
        (!delta.edits.is_empty()).then_some(delta)
    }

    /// The aspects that it speaks of.
    #[must_use]
    pub fn aspects(&self) -> Filter {
        self.edits.iter().fold(Filter::default(), |all, edit| all | edit.aspect().filter())
    }

    /// What is left of it for who wants only some aspects; `None` if nothing is.
    #[must_use]
    pub fn restricted(&self, filter: Filter) -> Option<ServiceDelta> {
        let edits: Vec<Edit> =
            self.edits.iter().filter(|edit| filter.wants(edit.aspect())).cloned().collect();
        let silent = self.action == MapAction::Update && edits.is_empty();
        (!silent).then_some(ServiceDelta { edits, ..*self })
    }
}

impl Edit {
    /// The aspect that it speaks of.
    #[must_use]
    pub fn aspect(&self) -> Aspect {
        match self {
            Edit::Info(_) => Aspect::Info,
            Edit::State(_) => Aspect::State,
            Edit::Group(_) => Aspect::Group,
            Edit::Load(_) => Aspect::Load,
            Edit::Data(_) => Aspect::Data,
            Edit::Links(_) => Aspect::Link,
        }
    }

    /// Changes the service.
    pub(super) fn apply(&self, service: &mut Service) {
        match self {
            Edit::Info(change) => apply(change, &mut service.info),
            Edit::State(change) => apply(change, &mut service.state),
            Edit::Load(change) => apply(change, &mut service.load),
            Edit::Group(Change::Set(group) | Change::Update(group)) => group.apply(service),
            Edit::Group(Change::Clear) => service.groups.clear(),
            Edit::Data(Change::Set(data) | Change::Update(data)) => service.data = Some(data.clone()),
            Edit::Data(Change::Clear) => service.data = None,
            Edit::Links(Change::Set(links)) => {
                service.links.clear();
                links.iter().for_each(|link| link.apply(service));
            }
            Edit::Links(Change::Update(links)) => links.iter().for_each(|link| link.apply(service)),
            Edit::Links(Change::Clear) => service.links.clear(),
        }
    }
}

impl GroupElements {
    fn apply(&self, service: &mut Service) {
        match &self.status {
            Some(status) if status.lasts() && self.merged_to.is_none() => {
                service.groups.insert(self.group_id.clone(), status.clone());
            }
            None if self.merged_to.is_none() => {}
            _ => {
                service.groups.remove(&self.group_id);
            }
        }
    }
}

impl LinkEdit {
    fn apply(&self, service: &mut Service) {
        match self.action {
            MapAction::Add => {
                let mut link = Link::default();
                self.elements.overlay(&mut link);
                service.links.insert(self.name.clone(), link);
            }
            MapAction::Update => {
                self.elements.overlay(service.links.entry(self.name.clone()).or_default());
            }
            MapAction::Delete => {
                service.links.remove(&self.name);
            }
        }
    }
}

/// All that is known of a service.
fn whole(service: &Service) -> Vec<Edit> {
    let mut edits = vec![
        Edit::Info(Change::Set(InfoElements::of(&service.info))),
        Edit::State(Change::Set(StateElements::of(&service.state))),
    ];
    edits.extend(service.groups.iter().map(|(id, status)| group_edit(id, status.clone())));
    if service.load != Load::default() {
        edits.push(Edit::Load(Change::Set(service.load)));
    }
    edits.extend(service.data.clone().map(|data| Edit::Data(Change::Set(data))));
    if !service.links.is_empty() {
        edits.push(Edit::Links(Change::Set(link_edits(&Service::default(), service))));
    }
    edits
}

fn group_edit(group_id: &[u8], status: OwnedState) -> Edit {
    let group_id = group_id.to_vec();
    Edit::Group(Change::Set(GroupElements { group_id, merged_to: None, status: Some(status) }))
}

/// Groups in trouble, groups in other trouble, and groups that are well again.
fn group_edits<'s>(old: &'s Service, new: &'s Service) -> impl Iterator<Item = Edit> + 's {
    let troubled = new.groups.iter().filter(|(id, status)| old.groups.get(*id) != Some(status));
    let recovered = old.groups.keys().filter(|id| !new.groups.contains_key(*id));
    let troubled = troubled.map(|(id, status)| group_edit(id, status.clone()));
    troubled.chain(recovered.map(|id| group_edit(id, State::OPEN_OK.into())))
}

fn link_edits(old: &Service, new: &Service) -> Vec<LinkEdit> {
    let mut edits: Vec<LinkEdit> = Vec::new();
    for (name, link) in &new.links {
        let (action, elements) = match old.links.get(name).map(|known| change(known, link)) {
            None => (MapAction::Add, LinkElements::of(link)),
            Some(None) => continue,
            Some(Some(Change::Update(elements))) => (MapAction::Update, elements),
            // To add what is there replaces it.
            Some(Some(_)) => (MapAction::Add, LinkElements::of(link)),
        };
        edits.push(LinkEdit { name: name.clone(), action, elements });
    }
    for name in old.links.keys().filter(|name| !new.links.contains_key(*name)) {
        let elements = LinkElements::default();
        edits.push(LinkEdit { name: name.clone(), action: MapAction::Delete, elements });
    }
    edits
}
