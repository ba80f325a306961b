use rwf::{
    DataState, DataType, Domain, EncodeError, Key, State, StateCode, StatusMsg, StreamState, encode_to_vec,
};

use super::{AuthenticationAnswer, LoginRequest, NameType, attributes, key};
use crate::RdmError;
use crate::element::known_elements;
use crate::message::{ToVec, require_domain};

/// The answer that refuses a login, or a later change of an accepted one: all item streams follow it.
///
/// | state | means |
/// |---|---|
/// | closed | refused, or logged out; stock consumers do not try again |
/// | closed-recover | stock consumers disconnect and connect again |
/// | open, suspect | trouble behind the server |
/// | open, ok | the trouble is over |
///
/// Shape: status; state; key of name, name type and attributes, all optional; no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LoginStatus<'a> {
    /// The stream of the login.
    pub stream_id: i32,
    /// The new state; without one it is as before.
    pub state: Option<State<'a>>,
    /// Whose login.
    pub name: Option<&'a [u8]>,
    /// What kind of name it is.
    pub name_type: Option<NameType>,
    /// What became of a token.
    pub authentication: AuthenticationAnswer<'a>,
}

impl<'a> LoginStatus<'a> {
    /// Refuses a login for good.
    #[must_use]
    pub fn reject(request: &LoginRequest<'a>, code: StateCode, text: &'a str) -> LoginStatus<'a> {
        let state = State::new(StreamState::Closed, DataState::Suspect).because(code, text);
        LoginStatus::of(request, state)
    }

    /// Ends a login for good.
    #[must_use]
    pub fn ended(stream_id: i32, code: StateCode, text: &'a str) -> LoginStatus<'a> {
        let state = State::new(StreamState::Closed, DataState::Suspect).because(code, text);
        LoginStatus { stream_id, state: Some(state), ..LoginStatus::default() }
    }

    /// Refuses a login for now.
    #[must_use]
    pub fn retry_later(request: &LoginRequest<'a>, code: StateCode, text: &'a str) -> LoginStatus<'a> {
        let state = State::new(StreamState::ClosedRecover, DataState::Suspect).because(code, text);
        LoginStatus::of(request, state)
    }

    fn of(request: &LoginRequest<'a>, state: State<'a>) -> LoginStatus<'a> {
        LoginStatus {
            stream_id: request.stream_id,
            state: Some(state),
            name: Some(request.name),
            name_type: Some(request.name_type),
            ..LoginStatus::default()
        }
    }

    /// Reads a status.
    ///
    /// # Errors
    /// [`RdmError::WrongType`] names the attribute.
    pub fn parse(msg: &StatusMsg<'a>) -> Result<LoginStatus<'a>, RdmError> {
        require_domain(msg.domain, Domain::LOGIN)?;
        let key = msg.key.unwrap_or_default();
        let mut status = LoginStatus {
            stream_id: msg.stream_id,
            state: msg.state,
            name: key.name,
            name_type: key.name_type.map(NameType),
            ..LoginStatus::default()
        };
        for element in known_elements(attributes(&key)?, None)? {
            status.authentication.take_attribute(&element?)?;
        }
        Ok(status)
    }
}

impl ToVec for LoginStatus<'_> {
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        let attributes = encode_to_vec(|w| w.element_list(|e| self.authentication.put(e)))?;
        let key = key(self.name, self.name_type, &attributes);
        StatusMsg {
            state: self.state,
            key: (key != Key::default()).then_some(key),
            ..StatusMsg::new(Domain::LOGIN, self.stream_id, DataType::NO_DATA)
        }
        .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_comes_back_with_its_reason() {
        let request = LoginRequest::consumer(b"u");
        let authentication = AuthenticationAnswer { error_code: Some(1), ..Default::default() };
        for status in [
            LoginStatus::reject(&request, StateCode::NOT_ENTITLED, "denied"),
            LoginStatus {
                authentication,
                ..LoginStatus::retry_later(&request, StateCode::NO_RESOURCES, "busy")
            },
            LoginStatus { stream_id: 1, ..LoginStatus::default() },
        ] {
            let bytes = status.to_vec().expect("legal");
            assert_eq!(LoginStatus::parse(&StatusMsg::parse(&bytes).expect("whole")), Ok(status));
        }
    }
}
