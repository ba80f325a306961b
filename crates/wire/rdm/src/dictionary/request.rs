use rwf::dictionary::{DictionaryKind, Verbosity};
use rwf::{DataType, Domain, EncodeError, Key, Priority, RequestMsg};

use crate::message::{ToVec, require_domain};
use crate::{Part, RdmError};

/// The name of the field definitions.
pub const FIELDS_NAME: &str = "RWFFld";
/// The name of the enumerations.
pub const ENUMS_NAME: &str = "RWFEnum";

/// Asks for a dictionary.
///
/// Shape: request; key of service id, name and filter (the verbosity); no payload. By custom the priority is
/// 1/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DictionaryRequest<'a> {
    /// The stream; negative when a provider asks a server.
    pub stream_id: i32,
    /// The service that provides the dictionary; a provider that asks a server need not name one.
    pub service_id: Option<u16>,
    /// The name of the dictionary.
    pub name: &'a [u8],
    /// How much of it is wanted.
    pub verbosity: Verbosity,
    /// New versions are wanted too.
    pub streaming: bool,
    /// How important it is.
    pub priority: Option<Priority>,
}

impl<'a> DictionaryRequest<'a> {
    /// What stock consumers send.
    #[must_use]
    pub const fn new(stream_id: i32, service_id: u16, kind: DictionaryKind) -> DictionaryRequest<'a> {
        DictionaryRequest {
            stream_id,
            service_id: Some(service_id),
            name: name_of(kind).as_bytes(),
            verbosity: Verbosity::Normal,
            streaming: true,
            priority: Some(Priority { class: 1, count: 1 }),
        }
    }

    /// Reads a request. An absent filter is taken for the normal verbosity.
    ///
    /// # Errors
    /// [`RdmError::Missing`] without a name.
    pub fn parse(msg: &RequestMsg<'a>) -> Result<DictionaryRequest<'a>, RdmError> {
        require_domain(msg.domain, Domain::DICTIONARY)?;
        Ok(DictionaryRequest {
            stream_id: msg.stream_id,
            service_id: msg.key.service_id,
            name: msg.key.name.ok_or(RdmError::Missing { part: Part::Name })?,
            verbosity: msg.key.filter.map_or(Verbosity::Normal, Verbosity::from_filter),
            streaming: msg.streaming,
            priority: msg.priority,
        })
    }

    /// Which of the two dictionaries is wanted.
    ///
    /// # Errors
    /// [`RdmError::UnknownDictionary`] for another name: the answer is then *closed*, never closed-recover,
    /// which stock consumers would answer with the same request at once.
    pub fn kind(&self) -> Result<DictionaryKind, RdmError> {
        kind_of(self.name).ok_or(RdmError::UnknownDictionary)
    }

    pub(super) fn key(&self) -> Key<'a> {
        Key {
            service_id: self.service_id,
            name: Some(self.name),
            filter: Some(self.verbosity as u32),
            ..Key::default()
        }
    }
}

/// The dictionary of a standard name.
#[must_use]
pub fn kind_of(name: &[u8]) -> Option<DictionaryKind> {
    [DictionaryKind::Fields, DictionaryKind::Enums].into_iter().find(|kind| name_of(*kind).as_bytes() == name)
}

/// The standard name of a dictionary.
#[must_use]
pub const fn name_of(kind: DictionaryKind) -> &'static str {
    match kind {
        DictionaryKind::Fields => FIELDS_NAME,
        DictionaryKind::Enums => ENUMS_NAME,
    }
}

impl ToVec for DictionaryRequest<'_> {
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        RequestMsg {
            streaming: self.streaming,
            priority: self.priority,
            key: self.key(),
            ..RequestMsg::new(Domain::DICTIONARY, self.stream_id, DataType::NO_DATA)
        }
        .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reply;
    use rwf::{Msg, StateCode, StatusMsg, StreamState};

    #[test]
    fn a_request_comes_back() {
        for kind in [DictionaryKind::Fields, DictionaryKind::Enums] {
            let verbosity = Verbosity::Verbose;
            let request = DictionaryRequest { verbosity, ..DictionaryRequest::new(3, 1, kind) };
            let bytes = request.to_vec().expect("legal");
            let back = DictionaryRequest::parse(&RequestMsg::parse(&bytes).expect("whole"));
            assert_eq!(back, Ok(request));
            assert_eq!(request.kind(), Ok(kind));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_by_a_closed_status() {
        let request =
            DictionaryRequest { name: b"Other", ..DictionaryRequest::new(3, 1, DictionaryKind::Enums) };
        let bytes = request.to_vec().expect("legal");
        let msg = Msg::parse(&bytes).expect("whole");
        let error = request.kind().expect_err("unknown");
        let answer = Reply::to(&msg).refuse(&error).expect("legal");
        let status = StatusMsg::parse(&answer).expect("whole");
        let state = status.state.expect("a state");
        assert_eq!((state.stream, state.code), (StreamState::Closed, StateCode::NOT_FOUND));
        assert_eq!((status.stream_id, status.key), (3, msg.key()));
    }

    #[test]
    fn a_request_without_a_filter_wants_the_normal_verbosity_and_without_a_name_nothing() {
        let key = Key { name: Some(FIELDS_NAME.as_bytes()), ..Key::default() };
        let msg = RequestMsg { key, ..RequestMsg::new(Domain::DICTIONARY, -3, DataType::NO_DATA) };
        let request = DictionaryRequest::parse(&msg).expect("legal");
        assert_eq!((request.verbosity, request.service_id), (Verbosity::Normal, None));
        let nameless = RequestMsg { key: Key::default(), ..msg };
        let missing = Err(RdmError::Missing { part: Part::Name });
        assert_eq!(DictionaryRequest::parse(&nameless), missing);
    }
}
