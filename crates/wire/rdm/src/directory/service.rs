use std::collections::BTreeMap;

use rwf::{DataType, Domain, Qos};

use super::qos::qos_rank;
use super::{QosRange, Refusal};
use crate::OwnedState;
use crate::number::open_numbers;

/// A service: all that the source directory says about a source of items.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Service {
    /// The number by which keys name it.
    pub id: u16,
    /// What it is and what it offers.
    pub info: Info,
    /// Whether it can be used.
    pub state: ServiceState,
    /// The groups whose items are open but suspect, by group id. What happened to others is told once, when
    /// it happens: [`DirectoryChange::Group`](super::DirectoryChange::Group).
    pub groups: BTreeMap<Vec<u8>, OwnedState>,
    /// How much it can bear.
    pub load: Load,
    /// Data about the service itself.
    pub data: Option<ServiceData>,
    /// The connections behind it, by name.
    pub links: BTreeMap<String, Link>,
}

/// What a service is and what it offers. [`Default`] is what holds for elements that are absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The name by which applications ask for it. Unique, as the id is.
    pub name: String,
    /// Who it comes from.
    pub vendor: Option<String>,
    /// It is the source itself, not an aggregation.
    pub is_source: bool,
    /// The domains in which items may be asked for; the dictionary domain among them if dictionaries are
    /// served.
    pub capabilities: Vec<Domain>,
    /// The dictionaries that can be downloaded.
    pub dictionaries_provided: Vec<String>,
    /// The dictionaries that a consumer needs.
    pub dictionaries_used: Vec<String>,
    /// The qualities on offer; real time, tick by tick if none is named.
    pub qos: Vec<Qos>,
    /// A request may name a range of qualities.
    pub supports_qos_range: bool,
    /// The name of the symbol list that has all items.
    pub item_list: Option<String>,
    /// A snapshot may be asked for even if the limit of open items is reached.
    pub supports_out_of_band_snapshots: bool,
    /// Consumers may tell it about their own status.
    pub accepting_consumer_status: bool,
    /// The servers that its data has come through, by their random numbers, in no order. An element of our own,
    /// `TickcastPath`: others pass it over.
    pub path: Vec<u64>,
}

impl Default for Info {
    fn default() -> Self {
        Info {
            name: String::new(),
            vendor: None,
            is_source: false,
            capabilities: Vec::new(),
            dictionaries_provided: Vec::new(),
            dictionaries_used: Vec::new(),
            qos: vec![Qos::REAL_TIME],
            supports_qos_range: false,
            item_list: None,
            supports_out_of_band_snapshots: true,
            accepting_consumer_status: true,
            path: Vec::new(),
        }
    }
}

/// Whether a service can be used. [`Default`] is down.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ServiceState {
    /// It is up.
    pub up: bool,
    /// It takes new requests; absent it does.
    pub accepting_requests: Option<bool>,
    /// The state that all its items are in from now on. It is part of a change; only an open, suspect one
    /// lasts.
    pub status: Option<OwnedState>,
}

/// How much a service can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Load {
    /// The most items that may be open at a time.
    pub open_limit: Option<u64>,
    /// The most requests that may wait for an answer at a time. 0 blocks all.
    pub open_window: Option<u64>,
    /// How busy it is, up to 65535; consumers prefer a service with less.
    pub load_factor: Option<u64>,
}

open_numbers! {
    /// What data about a service is.
    ServiceDataType(u64);
    1 TIME "time"; 2 ALERT "alert"; 3 HEADLINE "headline"; 4 STATUS "status";
}

open_numbers! {
    /// How data comes over a link.
    LinkType(u64);
    1 INTERACTIVE "interactive"; 2 BROADCAST "broadcast";
}

open_numbers! {
    /// What a link is doing.
    LinkCode(u64);
    0 NONE "none"; 1 OK "ok"; 2 RECOVERY_STARTED "recovery started";
    3 RECOVERY_COMPLETED "recovery completed";
}

/// Data about the service itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceData {
    /// What it is.
    pub kind: ServiceDataType,
    /// Its type on the wire, primitive or container.
    pub data_type: DataType,
    /// Its content.
    pub content: Vec<u8>,
}

/// A connection behind a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// How data comes over it.
    pub kind: LinkType,
    /// It is up.
    pub up: bool,
    /// What it is doing.
    pub code: LinkCode,
    /// The same in words.
    pub text: String,
}

impl Default for Link {
    fn default() -> Self {
        Link { kind: LinkType::INTERACTIVE, up: false, code: LinkCode::NONE, text: String::new() }
    }
}

impl Info {
    /// Why an item of `domain`, in a quality out of `qos` if one is wanted, is never to be had of the service,
    /// be it up or down; `None` if it may be.
    #[must_use]
    pub fn refuses(&self, domain: Domain, qos: Option<QosRange>) -> Option<Refusal> {
        if !self.capabilities.contains(&domain) {
            return Some(Refusal::NoCapability { domain });
        }
        (qos.is_some() && self.best_qos(qos).is_none()).then_some(Refusal::QosUnmatched)
    }

    /// The best quality that the service has among those that are wanted; any will do if there is no range. `None` if
    /// it has none of them.
    #[must_use]
    pub fn best_qos(&self, wanted: Option<QosRange>) -> Option<Qos> {
        let offered = self.qos.iter().copied();
        offered.filter(|qos| wanted.is_none_or(|range| range.contains(*qos))).min_by_key(|qos| qos_rank(*qos))
    }
}

impl Service {
    /// Why an item of `domain` cannot be asked for, in a quality out of `qos` if one is wanted; `None` if it
    /// can.
    ///
    /// How many requests may wait is a matter of its own: [`Load::has_window`].
    #[must_use]
    pub fn refuses(&self, domain: Domain, qos: Option<QosRange>) -> Option<Refusal> {
        if !self.state.up {
            return Some(Refusal::ServiceDown);
        }
        if self.state.accepting_requests == Some(false) {
            return Some(Refusal::NotAccepting);
        }
        self.info.refuses(domain, qos)
    }

    /// Whether a consumer that needs the dictionary finds it here now: used by the service, served by it, and
    /// the service takes requests. This is what the automatic download of stock consumers looks at.
    #[must_use]
    pub fn serves_dictionary(&self, name: &str) -> bool {
        let has = |names: &[String]| names.iter().any(|known| known == name);
        let takes_requests = self.state.up && self.state.accepting_requests != Some(false);
        takes_requests && has(&self.info.dictionaries_used) && has(&self.info.dictionaries_provided)
    }
}

impl Service {
    /// Forgets states that happen once.
    pub(super) fn keep_what_lasts(&mut self) {
        self.state.status = self.state.status.take().filter(OwnedState::lasts);
        self.groups.retain(|_, status| status.lasts());
    }

    /// The memory that it takes beside its own fields, roughly: texts, and the room of each entry of a list.
    pub(super) fn heap_bytes(&self) -> usize {
        let Info { name, vendor, dictionaries_provided, dictionaries_used, item_list, .. } = &self.info;
        let texts = [Some(name), vendor.as_ref(), item_list.as_ref()].into_iter().flatten();
        let names =
            dictionaries_provided.iter().chain(dictionaries_used).map(|name| ENTRY_BYTES + name.len());
        let groups = self.groups.iter().map(|(id, status)| ENTRY_BYTES + id.len() + status.text.len());
        let links = self.links.iter().map(|(name, link)| ENTRY_BYTES + name.len() + link.text.len());
        texts.map(String::len).chain(names).chain(groups).chain(links).sum::<usize>()
            + self.info.capabilities.len()
            + self.info.qos.len() * size_of::<Qos>()
            + self.state.status.as_ref().map_or(0, |status| status.text.len())
            + self.data.as_ref().map_or(0, |data| data.content.len())
    }
}

/// What an entry of a list or map takes beside its text.
const ENTRY_BYTES: usize = 64;

impl Load {
    /// Whether one more request may be sent while `outstanding` ones wait for their answers.
    #[must_use]
    pub fn has_window(&self, outstanding: u64) -> bool {
        self.open_window.is_none_or(|window| outstanding < window)
    }

    /// How many more requests may be sent while `outstanding` ones wait for their answers and `open` items are.
    #[must_use]
    pub fn room(&self, outstanding: u64, open: u64) -> u64 {
        let left = |most: Option<u64>, used: u64| most.map_or(u64::MAX, |most| most.saturating_sub(used));
        left(self.open_window, outstanding).min(left(self.open_limit, outstanding.saturating_add(open)))
    }

    /// Whether one more item may be opened while `open` ones are.
    #[must_use]
    pub fn has_room(&self, open: u64) -> bool {
        self.open_limit.is_none_or(|limit| open < limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::{Rate, Timeliness};

    fn service() -> Service {
        Service {
            info: Info { capabilities: vec![Domain::MARKET_PRICE], ..Info::default() },
            state: ServiceState { up: true, ..ServiceState::default() },
            ..Service::default()
        }
    }

    #[test]
    fn every_reason_to_refuse_an_item_has_its_name() {
        let real_time = Some(QosRange::exactly(Qos::REAL_TIME));
        let ask = |service: &Service| service.refuses(Domain::MARKET_PRICE, real_time);
        assert_eq!(ask(&service()), None);
        let mut closed = service();
        closed.state.accepting_requests = Some(false);
        assert_eq!(ask(&closed), Some(Refusal::NotAccepting));
        closed.state.up = false;
        assert_eq!(ask(&closed), Some(Refusal::ServiceDown));
        let other = Domain::MARKET_BY_ORDER;
        assert_eq!(service().refuses(other, real_time), Some(Refusal::NoCapability { domain: other }));
        let mut delayed = service();
        delayed.info.qos =
            vec![Qos { timeliness: Timeliness::Delayed(15), rate: Rate::TickByTick, dynamic: false }];
        assert_eq!(ask(&delayed), Some(Refusal::QosUnmatched));
        assert_eq!(delayed.refuses(Domain::MARKET_PRICE, None), None);
    }

    #[test]
    fn a_window_of_zero_blocks_all_requests_and_none_blocks_no_request() {
        assert!(Load::default().has_window(u64::MAX) && Load::default().has_room(u64::MAX));
        let load = Load { open_window: Some(0), open_limit: Some(2), load_factor: None };
        assert!(!load.has_window(0));
        assert!(load.has_room(1) && !load.has_room(2));
    }

    #[test]
    fn a_dictionary_must_be_used_and_provided_by_a_service_that_takes_requests() {
        let mut service = service();
        service.info.dictionaries_used = vec!["RWFFld".into()];
        assert!(!service.serves_dictionary("RWFFld"));
        service.info.dictionaries_provided = vec!["RWFFld".into(), "RWFEnum".into()];
        assert!(service.serves_dictionary("RWFFld"));
        assert!(!service.serves_dictionary("RWFEnum"));
        service.state.up = false;
        assert!(!service.serves_dictionary("RWFFld"));
    }
}
