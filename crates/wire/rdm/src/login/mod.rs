//! The login domain: who connects, as consumer or provider, and what the two ends can do.

mod refresh;
mod request;
mod round_trip;
pub(crate) mod standby;
mod status;

pub use refresh::{AuthenticationAnswer, BatchSupport, Features, LoginRefresh, SymbolListSupport};
pub use request::{LoginRequest, Role};
pub use round_trip::RoundTrip;
pub use standby::{ConnectionStatus, STANDBY_BY_LOGIN, STANDBY_BY_SERVICE, StandbyRole};
pub use status::LoginStatus;

use rwf::{Attributes, CloseMsg, DataType, Domain, GenericMsg, Key, Msg};

use crate::message::{require_domain, wrong_class};
use crate::number::open_numbers;
use crate::{Part, RdmError};

/// The stream on which stock consumers log in. A server must not rely on it.
pub const LOGIN_STREAM_ID: i32 = 1;

open_numbers! {
    /// What kind of name a login has.
    NameType(u8);
    1 USER_NAME "user name"; 2 EMAIL_ADDRESS "e-mail address"; 3 USER_TOKEN "user token"; 4 COOKIE "cookie";
    5 AUTHENTICATION_TOKEN "authentication token";
}

impl Default for NameType {
    fn default() -> Self {
        NameType::USER_NAME
    }
}

/// A message of the login stream, in either direction. Source: RWF 14.1, login domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginMsg<'a> {
    /// The consumer, or non-interactive provider, logs in; or changes its login.
    Request(LoginRequest<'a>),
    /// The login is accepted.
    Refresh(LoginRefresh<'a>),
    /// The login is refused, has ended, or the connection behind it has changed.
    Status(LoginStatus<'a>),
    /// The consumer logs out. All its streams are closed with this one.
    Close(CloseMsg<'a>),
    /// The server measures the round trip, or the consumer sends the measurement back.
    RoundTrip(RoundTrip),
    /// Another generic message, such as `ConsumerConnectionStatus`; may be ignored.
    Generic(GenericMsg<'a>),
}

impl<'a> LoginMsg<'a> {
    /// Reads a message of the login domain. Posts and acks of the login stream are of the domain of their
    /// item; see [`Post`](crate::post::Post).
    ///
    /// # Errors
    /// [`RdmError`] for another domain or a class without a meaning here, or what is wrong with an attribute.
    pub fn parse(msg: &Msg<'a>) -> Result<LoginMsg<'a>, RdmError> {
        require_domain(msg.domain(), Domain::LOGIN)?;
        Ok(match msg {
            Msg::Request(request) => LoginMsg::Request(LoginRequest::parse(request)?),
            Msg::Refresh(refresh) => LoginMsg::Refresh(LoginRefresh::parse(refresh)?),
            Msg::Status(status) => LoginMsg::Status(LoginStatus::parse(status)?),
            Msg::Close(close) => LoginMsg::Close(*close),
            Msg::Generic(generic) => match RoundTrip::parse(generic)? {
                Some(round_trip) => LoginMsg::RoundTrip(round_trip),
                None => LoginMsg::Generic(*generic),
            },
            Msg::Update(_) | Msg::Ack(_) | Msg::Post(_) => return Err(wrong_class(msg)),
        })
    }
}

/// The message that logs out.
#[must_use]
pub fn logout(stream_id: i32) -> CloseMsg<'static> {
    CloseMsg::new(Domain::LOGIN, stream_id, DataType::NO_DATA)
}

/// The element list in a login key; none is an empty one.
fn attributes<'a>(key: &Key<'a>) -> Result<&'a [u8], RdmError> {
    match key.attributes {
        None | Some(Attributes { container_type: DataType::NO_DATA, .. }) => Ok(&[]),
        Some(Attributes { container_type: DataType::ELEMENT_LIST, data }) => Ok(data),
        Some(Attributes { container_type: found, .. }) => {
            Err(RdmError::WrongType { part: Part::Attributes, found, wanted: DataType::ELEMENT_LIST })
        }
    }
}

/// The key of a login message, with `attributes` if there are any.
fn key<'a>(name: Option<&'a [u8]>, name_type: Option<NameType>, attributes: &'a [u8]) -> Key<'a> {
    let data = Attributes { container_type: DataType::ELEMENT_LIST, data: attributes };
    Key {
        name,
        name_type: name_type.map(|name_type| name_type.0),
        attributes: (attributes.len() > EMPTY_LIST_BYTES).then_some(data),
        ..Key::default()
    }
}

/// An element list without elements is its flags alone.
const EMPTY_LIST_BYTES: usize = 1;
