use std::collections::{BTreeMap, BTreeSet};

use rwf::{
    CloseMsg, DataType, Domain, EncodeError, GenericMsg, Key, Msg, RefreshMsg, RequestMsg, State, StatusMsg,
    UpdateMsg, encode_to_vec,
};

use super::{Filter, Service, ServiceDelta, read, write};
use crate::message::{ToVec, require_domain, wrong_class};
use crate::{Part, RdmError};

/// A message of the directory stream, in either direction. Source: RWF 14.1, source directory domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryMsg<'a> {
    /// The consumer wants to know the services.
    Request(DirectoryRequest),
    /// The services there are.
    Refresh(DirectoryRefresh<'a>),
    /// What changed.
    Update(DirectoryUpdate),
    /// The state of the stream itself.
    Status(StatusMsg<'a>),
    /// The consumer no longer wants to know.
    Close(CloseMsg<'a>),
    /// A consumer tells about itself (`ConsumerStatus`); may be ignored.
    Generic(GenericMsg<'a>),
}

impl<'a> DirectoryMsg<'a> {
    /// Reads a message of the source directory domain.
    ///
    /// # Errors
    /// [`RdmError`] for another domain or a class without a meaning here, or what is wrong with a service.
    pub fn parse(msg: &Msg<'a>) -> Result<DirectoryMsg<'a>, RdmError> {
        require_domain(msg.domain(), Domain::SOURCE)?;
        Ok(match msg {
            Msg::Request(request) => DirectoryMsg::Request(DirectoryRequest::parse(request)?),
            Msg::Refresh(refresh) => DirectoryMsg::Refresh(DirectoryRefresh::parse(refresh)?),
            Msg::Update(update) => DirectoryMsg::Update(DirectoryUpdate::parse(update)?),
            Msg::Status(status) => DirectoryMsg::Status(*status),
            Msg::Close(close) => DirectoryMsg::Close(*close),
            Msg::Generic(generic) => DirectoryMsg::Generic(*generic),
            Msg::Ack(_) | Msg::Post(_) => return Err(wrong_class(msg)),
        })
    }
}

/// Asks for the services.
///
/// Shape: request; key of filter and, for one service only, its id; no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryRequest {
    /// The stream, by custom 2.
    pub stream_id: i32,
    /// Changes are wanted too.
    pub streaming: bool,
    /// Nothing is to be answered: the request only changes an open stream.
    pub no_refresh: bool,
    /// The aspects wanted. Stock providers refuse a request without info and state.
    pub filter: Filter,
    /// The only service wanted; without one all are.
    pub service_id: Option<u16>,
}

impl DirectoryRequest {
    /// What stock consumers send: everything about all services, and changes.
    #[must_use]
    pub const fn all(stream_id: i32) -> DirectoryRequest {
        DirectoryRequest {
            stream_id,
            streaming: true,
            no_refresh: false,
            filter: Filter::ALL,
            service_id: None,
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// [`RdmError::Missing`] without a filter.
    pub fn parse(msg: &RequestMsg<'_>) -> Result<DirectoryRequest, RdmError> {
        require_domain(msg.domain, Domain::SOURCE)?;
        Ok(DirectoryRequest {
            stream_id: msg.stream_id,
            streaming: msg.streaming,
            no_refresh: msg.no_refresh,
            filter: Filter(msg.key.filter.ok_or(RdmError::Missing { part: Part::Filter })?),
            service_id: msg.key.service_id,
        })
    }

    /// Whether the service is wanted.
    #[must_use]
    pub fn wants(&self, service_id: u16) -> bool {
        self.service_id.is_none_or(|wanted| wanted == service_id)
    }
}

/// The services there are: the answer to a request, or what a non-interactive provider begins with.
///
/// Shape: refresh; key of filter (the aspects delivered) and, if only one service was asked for, its id;
/// payload map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryRefresh<'a> {
    /// The stream of the request, or 0 or a negative one for a provider's own.
    pub stream_id: i32,
    /// It answers a request.
    pub solicited: bool,
    /// It is the last part.
    pub complete: bool,
    /// What was known before is void.
    pub clear_cache: bool,
    /// The state of the stream.
    pub state: State<'a>,
    /// The aspects delivered.
    pub filter: Option<Filter>,
    /// The only service that was asked for.
    pub service_id: Option<u16>,
    /// The services.
    pub services: Vec<ServiceDelta>,
}

impl<'a> DirectoryRefresh<'a> {
    /// The answer to a request, with what it wants of `services`.
    ///
    /// # Errors
    /// [`RdmError::DuplicateServiceId`] or [`RdmError::DuplicateServiceName`]: no consumer could tell them
    /// apart.
    pub fn answer<'s>(
        request: &DirectoryRequest,
        services: impl IntoIterator<Item = &'s Service>,
    ) -> Result<DirectoryRefresh<'a>, RdmError> {
        let wanted = services.into_iter().filter(|service| request.wants(service.id));
        let services = whole_services(wanted, request.filter)?;
        let has = services.iter().fold(Filter::INFO_AND_STATE, |all, service| all | service.aspects());
        Ok(DirectoryRefresh {
            stream_id: request.stream_id,
            solicited: true,
            complete: true,
            clear_cache: true,
            state: State::OPEN_OK,
            filter: Some(request.filter.and(has)),
            service_id: request.service_id,
            services,
        })
    }

    /// What a non-interactive provider begins with: unsolicited, on a stream of its own (stock providers take
    /// 0 or -1). The receiver answers nothing.
    ///
    /// # Errors
    /// As [`DirectoryRefresh::answer`].
    pub fn publish<'s>(
        stream_id: i32,
        filter: Filter,
        services: impl IntoIterator<Item = &'s Service>,
    ) -> Result<DirectoryRefresh<'a>, RdmError> {
        let request = DirectoryRequest { filter, ..DirectoryRequest::all(stream_id) };
        Ok(DirectoryRefresh { solicited: false, ..DirectoryRefresh::answer(&request, services)? })
    }

    /// Reads a refresh.
    ///
    /// # Errors
    /// [`RdmError`] names what is wrong with a service. Whether names and ids are unique is seen when the
    /// refresh is applied to a [`Directory`](super::Directory).
    pub fn parse(msg: &RefreshMsg<'a>) -> Result<DirectoryRefresh<'a>, RdmError> {
        require_domain(msg.domain, Domain::SOURCE)?;
        let key = msg.key.unwrap_or_default();
        Ok(DirectoryRefresh {
            stream_id: msg.stream_id,
            solicited: msg.solicited,
            complete: msg.complete,
            clear_cache: msg.clear_cache,
            state: msg.state,
            filter: key.filter.map(Filter),
            service_id: key.service_id,
            services: read::services(msg.container_type, msg.payload)?,
        })
    }
}

/// What changed.
///
/// Shape: update; key of filter (the aspects that may have changed); payload map as in a refresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryUpdate {
    /// The stream of the request, or of the provider's refresh.
    pub stream_id: i32,
    /// The aspects it speaks of.
    pub filter: Option<Filter>,
    /// The changes.
    pub services: Vec<ServiceDelta>,
}

impl DirectoryUpdate {
    /// The changes as who sent `request` wants to hear them; `None` if nothing of them is wanted.
    #[must_use]
    pub fn answer(request: &DirectoryRequest, deltas: &[ServiceDelta]) -> Option<DirectoryUpdate> {
        let wanted = deltas.iter().filter(|delta| request.wants(delta.service_id));
        let services: Vec<_> = wanted.filter_map(|delta| delta.restricted(request.filter)).collect();
        let filter = services.iter().fold(Filter::default(), |all, delta| all | delta.aspects());
        let update = DirectoryUpdate { stream_id: request.stream_id, filter: Some(filter), services };
        (!update.services.is_empty()).then_some(update)
    }

    /// Reads an update.
    ///
    /// # Errors
    /// [`RdmError`] names what is wrong with a service.
    pub fn parse(msg: &UpdateMsg<'_>) -> Result<DirectoryUpdate, RdmError> {
        require_domain(msg.domain, Domain::SOURCE)?;
        Ok(DirectoryUpdate {
            stream_id: msg.stream_id,
            filter: msg.key.and_then(|key| key.filter).map(Filter),
            services: read::services(msg.container_type, msg.payload)?,
        })
    }
}

/// The services as a refresh says them, each once.
fn whole_services<'s>(
    services: impl Iterator<Item = &'s Service>,
    filter: Filter,
) -> Result<Vec<ServiceDelta>, RdmError> {
    let (mut ids, mut names, mut deltas) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
    for service in services {
        if !ids.insert(service.id) {
            return Err(RdmError::DuplicateServiceId { service_id: service.id });
        }
        if let Some(service_id) = names.insert(service.info.name.as_str(), service.id) {
            return Err(RdmError::DuplicateServiceName { service_id, other_id: service.id });
        }
        deltas.extend(ServiceDelta::added(service).restricted(filter));
    }
    Ok(deltas)
}

fn key(filter: Option<Filter>, service_id: Option<u16>) -> Key<'static> {
    Key { filter: filter.map(|filter| filter.0), service_id, ..Key::default() }
}

/// The key of a message in which it may be left out.
fn optional_key(filter: Option<Filter>, service_id: Option<u16>) -> Option<Key<'static>> {
    (filter.is_some() || service_id.is_some()).then(|| key(filter, service_id))
}

impl ToVec for DirectoryRequest {
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        RequestMsg {
            streaming: self.streaming,
            no_refresh: self.no_refresh,
            key: key(Some(self.filter), self.service_id),
            ..RequestMsg::new(Domain::SOURCE, self.stream_id, DataType::NO_DATA)
        }
        .to_vec()
    }
}

impl ToVec for DirectoryRefresh<'_> {
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        let msg = RefreshMsg {
            solicited: self.solicited,
            complete: self.complete,
            clear_cache: self.clear_cache,
            state: self.state,
            key: optional_key(self.filter, self.service_id),
            ..RefreshMsg::new(Domain::SOURCE, self.stream_id, DataType::MAP)
        };
        encode_to_vec(|w| {
            msg.encode_header(w);
            write::services(w, &self.services);
        })
    }
}

impl ToVec for DirectoryUpdate {
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        let msg = UpdateMsg {
            key: optional_key(self.filter, None),
            ..UpdateMsg::new(Domain::SOURCE, self.stream_id, DataType::MAP)
        };
        encode_to_vec(|w| {
            msg.encode_header(w);
            write::services(w, &self.services);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Change, Edit, Info, Load, ServiceState};
    use super::*;
    use rwf::MapAction;

    fn service(id: u16, name: &str) -> Service {
        Service {
            id,
            info: Info { name: name.into(), ..Info::default() },
            state: ServiceState { up: true, ..ServiceState::default() },
            ..Service::default()
        }
    }

    fn refresh_of(request: &DirectoryRequest, services: &[Service]) -> DirectoryRefresh<'static> {
        DirectoryRefresh::answer(request, services).expect("unique")
    }

    #[test]
    fn a_request_comes_back_and_must_have_a_filter() {
        let request = DirectoryRequest { service_id: Some(7), ..DirectoryRequest::all(2) };
        let bytes = request.to_vec().expect("legal");
        let msg = RequestMsg::parse(&bytes).expect("whole");
        assert_eq!(DirectoryRequest::parse(&msg), Ok(request));
        let without = RequestMsg { key: Key::default(), ..msg };
        assert_eq!(DirectoryRequest::parse(&without), Err(RdmError::Missing { part: Part::Filter }));
    }

    #[test]
    fn an_answer_has_the_services_and_aspects_that_were_asked_for_and_says_which() {
        let mut loaded = service(2, "B");
        loaded.load = Load { open_limit: Some(5), ..Load::default() };
        let services = [service(1, "A"), loaded];
        let all = refresh_of(&DirectoryRequest::all(2), &services);
        assert_eq!(all.filter, Some(Filter::INFO_AND_STATE | Filter::LOAD));
        assert_eq!(all.services.len(), 2);
        let one = DirectoryRequest { filter: Filter::STATE, service_id: Some(2), ..DirectoryRequest::all(2) };
        let one = refresh_of(&one, &services);
        assert_eq!((one.filter, one.service_id, one.services.len()), (Some(Filter::STATE), Some(2), 1));
        assert!(matches!(one.services[0].edits[..], [Edit::State(Change::Set(_))]));
    }

    #[test]
    fn services_that_could_not_be_told_apart_are_not_sent() {
        let request = DirectoryRequest::all(2);
        let refused = DirectoryRefresh::answer(&request, &[service(1, "A"), service(1, "B")]);
        assert_eq!(refused, Err(RdmError::DuplicateServiceId { service_id: 1 }));
        let refused = DirectoryRefresh::answer(&request, &[service(1, "A"), service(2, "A")]);
        assert_eq!(refused, Err(RdmError::DuplicateServiceName { service_id: 1, other_id: 2 }));
    }

    #[test]
    fn an_update_says_only_what_is_wanted_and_a_removal_always() {
        let (old, mut new) = (service(1, "A"), service(1, "A"));
        new.state.up = false;
        let deltas = [ServiceDelta::between(&old, &new).expect("a change"), ServiceDelta::removed(2)];
        let all = DirectoryUpdate::answer(&DirectoryRequest::all(2), &deltas).expect("wanted");
        assert_eq!((all.services.len(), all.filter), (2, Some(Filter::STATE)));
        let info = DirectoryRequest { filter: Filter::INFO, ..DirectoryRequest::all(2) };
        let info = DirectoryUpdate::answer(&info, &deltas).expect("wanted");
        assert_eq!((info.services.len(), info.services[0].action), (1, MapAction::Delete));
        let other = DirectoryRequest { service_id: Some(9), ..DirectoryRequest::all(2) };
        assert_eq!(DirectoryUpdate::answer(&other, &deltas), None);
    }

    #[test]
    fn what_a_non_interactive_provider_begins_with_is_unsolicited_complete_and_clears() {
        let published =
            DirectoryRefresh::publish(0, Filter::INFO_AND_STATE, &[service(7, "NI")]).expect("unique");
        let bytes = published.to_vec().expect("legal");
        let msg = RefreshMsg::parse(&bytes).expect("whole");
        assert!(!msg.solicited && msg.complete && msg.clear_cache);
        assert_eq!(msg.key.and_then(|key| key.filter), Some(3));
        assert_eq!(DirectoryRefresh::parse(&msg), Ok(published));
    }
}
