use rwf::{
    AsciiString, DataType, Domain, ElementListWriter, EncodeError, GenericMsg, Key, Map, MapAction, MapHead,
    encode_to_vec,
};

use super::Features;
use crate::element::{PutElement, known_elements};
use crate::message::{ToVec, require_domain};
use crate::{Element, RdmError};

/// What a server is to one of its consumers that has several for the same data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandbyRole {
    /// The consumer uses what it sends.
    Active = 0,
    /// It is to be ready to become the active one; it need not send data meanwhile.
    Standby = 1,
}

impl StandbyRole {
    /// `active` or `standby`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            StandbyRole::Active => "active",
            StandbyRole::Standby => "standby",
        }
    }

    /// Whether a server with this role stood by before, and is the active one now.
    #[must_use]
    pub fn takes_over_from(self, before: Option<StandbyRole>) -> bool {
        (before, self) == (Some(StandbyRole::Standby), StandbyRole::Active)
    }
}

const CONNECTION_STATUS: &[u8] = b"ConsumerConnectionStatus";
const STANDBY_INFO: &[u8] = b"WarmStandbyInfo";

/// The bit of [`Features::standby_mode`] for a role of the whole server.
pub const STANDBY_BY_LOGIN: u64 = 1;

/// The bit of [`Features::standby_mode`] for a role of each service.
pub const STANDBY_BY_SERVICE: u64 = 2;

impl Features {
    /// Whether the server wants to be told its role in this way, one of the bits of
    /// [`Features::standby_mode`]. One that says nothing of ways knows that of the login.
    #[must_use]
    pub fn takes_roles(&self, way: u64) -> bool {
        self.standby == Some(true) && self.standby_mode.unwrap_or(STANDBY_BY_LOGIN) & way != 0
    }
}

/// A consumer tells its server on the login stream what it is to it.
///
/// Shape: generic message with the name `ConsumerConnectionStatus`; payload a map with one entry
/// `WarmStandbyInfo`, an element list. Source: RWF 14.1, login domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// The stream of the login.
    pub stream_id: i32,
    /// What the server is.
    pub role: StandbyRole,
}

impl ConnectionStatus {
    /// Reads what a consumer says; `None` if the generic message is something else, or tells no role.
    ///
    /// # Errors
    /// The payload is not what it must be; [`RdmError::OutOfRange`] for a role that there is not.
    pub fn parse(msg: &GenericMsg<'_>) -> Result<Option<ConnectionStatus>, RdmError> {
        require_domain(msg.domain, Domain::LOGIN)?;
        if !tells_roles(msg, CONNECTION_STATUS) {
            return Ok(None);
        }
        let mut told = None;
        for entry in Map::parse(msg.payload)?.entries() {
            let entry = entry?;
            if entry.key == STANDBY_INFO && entry.action != MapAction::Delete {
                told = role_in(entry.data.unwrap_or_default())?.or(told);
            }
        }
        Ok(told.map(|role| ConnectionStatus { stream_id: msg.stream_id, role }))
    }
}

/// Whether a message tells roles under this name.
pub(crate) fn tells_roles(msg: &GenericMsg<'_>, name: &[u8]) -> bool {
    msg.container_type == DataType::MAP && msg.key.and_then(|key| key.name) == Some(name)
}

/// The role that a list of elements tells; an empty list tells none.
pub(crate) fn role_in(list: &[u8]) -> Result<Option<StandbyRole>, RdmError> {
    if list.is_empty() {
        return Ok(None);
    }
    let mut role = None;
    for element in known_elements(list, None)? {
        let e = element?;
        if e.element == Element::WarmStandbyMode {
            role = match e.uint()? {
                None => None,
                Some(0) => Some(StandbyRole::Active),
                Some(1) => Some(StandbyRole::Standby),
                Some(value) => return Err(RdmError::OutOfRange { part: e.part(), value, max: 1 }),
            };
        }
    }
    Ok(role)
}

impl ToVec for ConnectionStatus {
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        let msg = role_message(Domain::LOGIN, self.stream_id, CONNECTION_STATUS);
        encode_to_vec(|w| {
            msg.encode_header(w);
            w.map(&MapHead::new(DataType::ASCII_STRING, DataType::ELEMENT_LIST), |map| {
                map.entry(MapAction::Add, AsciiString(STANDBY_INFO), None, |w| {
                    w.element_list(|e| put_role(e, self.role));
                });
            });
        })
    }
}

/// The head of a message that tells roles.
pub(crate) fn role_message(domain: Domain, stream_id: i32, name: &[u8]) -> GenericMsg<'_> {
    let key = Some(Key { name: Some(name), ..Key::default() });
    GenericMsg { complete: true, key, ..GenericMsg::new(domain, stream_id, DataType::MAP) }
}

pub(crate) fn put_role(e: &mut ElementListWriter<'_, '_, '_>, role: StandbyRole) {
    e.element(Element::WarmStandbyMode, role as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::ElementList;

    #[test]
    fn the_role_is_read_as_it_was_written() {
        for role in [StandbyRole::Active, StandbyRole::Standby] {
            let told = ConnectionStatus { stream_id: 7, role };
            let bytes = told.to_vec().expect("legal");
            let msg = GenericMsg::parse(&bytes).expect("whole");
            assert_eq!(ConnectionStatus::parse(&msg), Ok(Some(told)));
            let other = GenericMsg { key: Some(Key { name: Some(b"Other"), ..Key::default() }), ..msg };
            assert_eq!(ConnectionStatus::parse(&other), Ok(None));
            let mut cut = bytes.clone();
            cut.pop();
            let cut = GenericMsg::parse(&cut).map(|msg| ConnectionStatus::parse(&msg));
            assert!(!matches!(cut, Ok(Ok(Some(_)))), "{cut:?}");
            let mut unknown = bytes.clone();
            *unknown.last_mut().expect("the role") = 2;
            let unknown = ConnectionStatus::parse(&GenericMsg::parse(&unknown).expect("whole"));
            assert!(matches!(unknown, Err(RdmError::OutOfRange { value: 2, max: 1, .. })), "{unknown:?}");
        }
    }

    #[test]
    fn the_role_stands_in_a_map_of_one_entry() {
        let bytes = ConnectionStatus { stream_id: 1, role: StandbyRole::Standby }.to_vec().expect("legal");
        let msg = GenericMsg::parse(&bytes).expect("whole");
        assert_eq!((msg.domain, msg.stream_id, msg.complete), (Domain::LOGIN, 1, true));
        assert_eq!(msg.key.and_then(|key| key.name), Some(&b"ConsumerConnectionStatus"[..]));
        let map = Map::parse(msg.payload).expect("a map");
        let entries: Vec<_> = map.entries().map(|entry| entry.expect("whole")).collect();
        let [entry] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!((entry.action, entry.key), (MapAction::Add, &b"WarmStandbyInfo"[..]));
        let list = ElementList::parse(entry.data.expect("elements")).expect("a list");
        let elements: Vec<_> = list.entries().map(|element| element.expect("whole")).collect();
        assert_eq!(elements.len(), 1);
        assert_eq!((elements[0].name, elements[0].content), (&b"WarmStandbyMode"[..], &[1][..]));
    }

    #[test]
    fn only_who_knows_a_way_is_told_in_it() {
        let takes = |standby, standby_mode| {
            let features = Features { standby, standby_mode, ..Features::default() };
            [STANDBY_BY_LOGIN, STANDBY_BY_SERVICE].map(|way| features.takes_roles(way))
        };
        assert_eq!(takes(None, Some(3)), [false, false]);
        assert_eq!(takes(Some(true), None), [true, false]);
        assert_eq!(takes(Some(true), Some(2)), [false, true]);
        assert_eq!(takes(Some(true), Some(3)), [true, true]);
    }
}
