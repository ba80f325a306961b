use std::fmt;

use rwf::{Buffer, DataType, Domain, EncodeError, RequestMsg, encode_to_vec};

use super::{NameType, attributes, key};
use crate::element::{PutElement, known_elements};
use crate::message::{ToVec, require_domain};
use crate::{Element, Part, RdmError};

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Role {
    /// It asks for items.
    #[default]
    Consumer = 0,
    /// It publishes items: a non-interactive provider.
    Provider = 1,
}

/// The first message of a connection, and its repetition that changes the login.
///
/// Shape: streaming request; key of name, name type and an element list of attributes; no payload. Attributes
/// that are absent have the value that the domain model gives them; unknown ones are passed over. Source: RWF
/// 14.1, login domain.
///
/// [`Debug`](fmt::Debug) leaves password and tokens out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LoginRequest<'a> {
    /// The stream, by custom 1.
    pub stream_id: i32,
    /// Who: a user name or what the name type says, at most 255 bytes. A single zero byte with
    /// [`NameType::AUTHENTICATION_TOKEN`].
    pub name: &'a [u8],
    /// What kind of name it is.
    pub name_type: NameType,
    /// Nothing is to be answered: the request only changes an open login.
    pub no_refresh: bool,
    /// Updates of all items may stop until the login is repeated without this.
    pub pause: bool,
    /// The id of the application in the permission system; `256` if none was given.
    pub application_id: &'a [u8],
    /// The name of the application.
    pub application_name: Option<&'a [u8]>,
    /// Where the user sits: address and host, or address and net.
    pub position: Option<&'a [u8]>,
    /// The password.
    pub password: Option<&'a [u8]>,
    /// Consumer or provider.
    pub role: Role,
    /// The consumer's library recovers items by itself.
    pub single_open: bool,
    /// Suspect data may be sent; else suspect streams are to be closed.
    pub allow_suspect_data: bool,
    /// The permission profile is wanted.
    pub provide_permission_profile: bool,
    /// Permission expressions are wanted.
    pub provide_permission_expressions: bool,
    /// Tells several instances of one application apart.
    pub instance_id: Option<&'a [u8]>,
    /// A provider could be asked for dictionaries.
    pub support_provider_dictionary_download: bool,
    /// A list of servers is wanted.
    pub download_connection_config: bool,
    /// The token, with [`NameType::AUTHENTICATION_TOKEN`].
    pub authentication_token: Option<&'a [u8]>,
    /// More for the system that checks the token.
    pub authentication_extended: Option<&'a [u8]>,
    /// The consumer offers to have the round trip measured; stock ones say 2.
    pub round_trip_latency: Option<u64>,
}

const DEFAULT_APPLICATION_ID: &[u8] = b"256";

impl<'a> LoginRequest<'a> {
    /// A consumer's login by user name, everything else by default.
    #[must_use]
    pub const fn consumer(user_name: &'a [u8]) -> LoginRequest<'a> {
        LoginRequest {
            stream_id: super::LOGIN_STREAM_ID,
            name: user_name,
            name_type: NameType::USER_NAME,
            no_refresh: false,
            pause: false,
            application_id: DEFAULT_APPLICATION_ID,
            application_name: None,
            position: None,
            password: None,
            role: Role::Consumer,
            single_open: true,
            allow_suspect_data: true,
            provide_permission_profile: true,
            provide_permission_expressions: true,
            instance_id: None,
            support_provider_dictionary_download: false,
            download_connection_config: false,
            authentication_token: None,
            authentication_extended: None,
            round_trip_latency: None,
        }
    }

    /// A non-interactive provider's login by user name.
    #[must_use]
    pub const fn provider(user_name: &'a [u8]) -> LoginRequest<'a> {
        let mut request = LoginRequest::consumer(user_name);
        request.role = Role::Provider;
        request
    }

    /// Reads a request.
    ///
    /// # Errors
    /// [`RdmError::Missing`] without a name, or without the token that the name type announces;
    /// [`RdmError::WrongType`] and [`RdmError::OutOfRange`] name the attribute.
    pub fn parse(msg: &RequestMsg<'a>) -> Result<LoginRequest<'a>, RdmError> {
        require_domain(msg.domain, Domain::LOGIN)?;
        let name = msg.key.name.ok_or(RdmError::Missing { part: Part::Name })?;
        let mut request = LoginRequest {
            stream_id: msg.stream_id,
            name_type: msg.key.name_type.map_or(NameType::USER_NAME, NameType),
            no_refresh: msg.no_refresh,
            pause: msg.pause,
            ..LoginRequest::consumer(name)
        };
        request.take_attributes(attributes(&msg.key)?)?;
        if request.name_type == NameType::AUTHENTICATION_TOKEN && request.authentication_token.is_none() {
            return Err(RdmError::Missing { part: Element::AuthenticationToken.into() });
        }
        Ok(request)
    }

    fn take_attributes(&mut self, list: &'a [u8]) -> Result<(), RdmError> {
        for element in known_elements(list, None)? {
            let e = element?;
            match e.element {
                Element::ApplicationId => self.application_id = e.ascii()?.unwrap_or(DEFAULT_APPLICATION_ID),
                Element::ApplicationName => self.application_name = e.ascii()?,
                Element::Position => self.position = e.ascii()?,
                Element::Password => self.password = e.ascii()?,
                Element::Role => self.role = role(e.uint()?)?,
                Element::SingleOpen => self.single_open = e.flag()?.unwrap_or(true),
                Element::AllowSuspectData => self.allow_suspect_data = e.flag()?.unwrap_or(true),
                Element::ProvidePermissionProfile => {
                    self.provide_permission_profile = e.flag()?.unwrap_or(true);
                }
                Element::ProvidePermissionExpressions => {
                    self.provide_permission_expressions = e.flag()?.unwrap_or(true);
                }
                Element::InstanceId => self.instance_id = e.ascii()?,
                Element::SupportProviderDictionaryDownload => {
                    self.support_provider_dictionary_download = e.flag()?.unwrap_or(false);
                }
                Element::DownloadConnectionConfig => {
                    self.download_connection_config = e.flag()?.unwrap_or(false);
                }
                Element::AuthenticationToken => self.authentication_token = e.ascii()?,
                Element::AuthenticationExtended => self.authentication_extended = e.buffer()?,
                Element::RoundTripLatency => self.round_trip_latency = e.uint()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The attributes: what stock applications always send, and the others where they differ from their
    /// defaults.
    fn encode_attributes(&self) -> Result<Vec<u8>, EncodeError> {
        encode_to_vec(|w| {
            w.element_list(|e| {
                e.ascii(Element::ApplicationId, Some(self.application_id));
                e.ascii(Element::ApplicationName, self.application_name);
                e.ascii(Element::Position, self.position);
                e.ascii(Element::Password, self.password);
                e.element(Element::Role, self.role as u64);
                self.put_switches(e);
                e.ascii(Element::InstanceId, self.instance_id);
                e.ascii(Element::AuthenticationToken, self.authentication_token);
                e.some(Element::AuthenticationExtended, self.authentication_extended.map(Buffer));
                e.some(Element::RoundTripLatency, self.round_trip_latency);
            });
        })
    }

    fn put_switches(&self, e: &mut impl PutElement) {
        let mut unless =
            |default: bool, element, value| e.flag(element, Some(value).filter(|v| *v != default));
        unless(true, Element::SingleOpen, self.single_open);
        unless(true, Element::AllowSuspectData, self.allow_suspect_data);
        unless(true, Element::ProvidePermissionProfile, self.provide_permission_profile);
        unless(true, Element::ProvidePermissionExpressions, self.provide_permission_expressions);
        unless(false, Element::SupportProviderDictionaryDownload, self.support_provider_dictionary_download);
        unless(false, Element::DownloadConnectionConfig, self.download_connection_config);
    }
}

fn role(number: Option<u64>) -> Result<Role, RdmError> {
    match number {
        None | Some(0) => Ok(Role::Consumer),
        Some(1) => Ok(Role::Provider),
        Some(value) => Err(RdmError::OutOfRange { part: Element::Role.into(), value, max: 1 }),
    }
}

impl ToVec for LoginRequest<'_> {
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        let attributes = self.encode_attributes()?;
        RequestMsg {
            streaming: true,
            no_refresh: self.no_refresh,
            pause: self.pause,
            key: key(Some(self.name), Some(self.name_type), &attributes),
            ..RequestMsg::new(Domain::LOGIN, self.stream_id, DataType::NO_DATA)
        }
        .to_vec()
    }
}

impl fmt::Debug for LoginRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &'_ [u8]| String::from_utf8_lossy(bytes).into_owned();
        let secret_name = matches!(self.name_type, NameType::USER_TOKEN | NameType::COOKIE);
        let name = if secret_name { "(not shown)".to_owned() } else { text(self.name) };
        f.debug_struct("LoginRequest")
            .field("stream_id", &self.stream_id)
            .field("name", &name)
            .field("name_type", &self.name_type)
            .field("role", &self.role)
            .field("application_id", &text(self.application_id))
            .field("application_name", &self.application_name.map(text))
            .field("position", &self.position.map(text))
            .field("pause", &self.pause)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::{AsciiString, Attributes, Key, Primitive};

    fn with_attribute(element: Element, value: impl Primitive + Copy) -> Result<Vec<u8>, EncodeError> {
        encode_to_vec(|w| w.element_list(|e| e.element(element, value)))
    }

    fn parse(name_type: u8, list: &[u8]) -> Result<Role, RdmError> {
        let attributes = Some(Attributes { container_type: DataType::ELEMENT_LIST, data: list });
        let key = Key { name: Some(b"u"), name_type: Some(name_type), attributes, ..Key::default() };
        let msg = RequestMsg { key, ..RequestMsg::new(Domain::LOGIN, 1, DataType::NO_DATA) };
        LoginRequest::parse(&msg).map(|request| request.role)
    }

    #[test]
    fn absent_attributes_have_their_defaults() {
        let key = Key { name: Some(b"u"), ..Key::default() };
        let msg = RequestMsg { key, ..RequestMsg::new(Domain::LOGIN, 1, DataType::NO_DATA) };
        assert_eq!(LoginRequest::parse(&msg), Ok(LoginRequest::consumer(b"u")));
    }

    #[test]
    fn blank_attributes_have_their_defaults_too() {
        let list = encode_to_vec(|w| {
            w.element_list(|e| {
                for element in [Element::SingleOpen, Element::AllowSuspectData, Element::Role] {
                    e.element(element, None::<u64>);
                }
                e.element(Element::ApplicationId, None::<AsciiString<'_>>);
            });
        })
        .expect("legal");
        let attributes = Some(Attributes { container_type: DataType::ELEMENT_LIST, data: &list });
        let key = Key { name: Some(b"u"), attributes, ..Key::default() };
        let msg = RequestMsg { key, ..RequestMsg::new(Domain::LOGIN, 1, DataType::NO_DATA) };
        assert_eq!(LoginRequest::parse(&msg), Ok(LoginRequest::consumer(b"u")));
    }

    #[test]
    fn every_attribute_comes_back() {
        let request = LoginRequest {
            stream_id: 9,
            name_type: NameType::AUTHENTICATION_TOKEN,
            no_refresh: true,
            pause: true,
            application_id: b"300",
            application_name: Some(b"app"),
            position: Some(b"10.0.0.1/desk"),
            password: Some(b"s3cret"),
            single_open: false,
            allow_suspect_data: false,
            provide_permission_profile: false,
            provide_permission_expressions: false,
            instance_id: Some(b"2"),
            support_provider_dictionary_download: true,
            download_connection_config: true,
            authentication_token: Some(b"token"),
            authentication_extended: Some(&[0, 255]),
            round_trip_latency: Some(2),
            ..LoginRequest::provider(b"\0")
        };
        let bytes = request.to_vec().expect("legal");
        let msg = RequestMsg::parse(&bytes).expect("whole");
        assert!(msg.streaming);
        assert_eq!(LoginRequest::parse(&msg), Ok(request));
    }

    #[test]
    fn an_attribute_of_another_type_or_out_of_range_is_named() {
        let text = with_attribute(Element::Role, AsciiString(b"1")).expect("legal");
        let (part, wanted) = (Part::Element(Element::Role), DataType::UINT);
        assert_eq!(parse(1, &text), Err(RdmError::WrongType { part, found: DataType::ASCII_STRING, wanted }));
        let two = with_attribute(Element::Role, 2u64).expect("legal");
        assert_eq!(parse(1, &two), Err(RdmError::OutOfRange { part, value: 2, max: 1 }));
    }

    #[test]
    fn a_token_that_is_announced_must_be_there() {
        let empty = encode_to_vec(|w| w.element_list(|_| ())).expect("legal");
        let missing = RdmError::Missing { part: Element::AuthenticationToken.into() };
        assert_eq!(parse(5, &empty), Err(missing));
        assert_eq!(parse(1, &empty), Ok(Role::Consumer));
    }

    #[test]
    fn a_request_without_a_name_is_refused() {
        let msg = RequestMsg::new(Domain::LOGIN, 1, DataType::NO_DATA);
        assert_eq!(LoginRequest::parse(&msg), Err(RdmError::Missing { part: Part::Name }));
    }

    #[test]
    fn secrets_are_not_shown() {
        let request = LoginRequest {
            password: Some(b"s3cret"),
            authentication_token: Some(b"s3cret"),
            name_type: NameType::USER_TOKEN,
            ..LoginRequest::consumer(b"s3cret")
        };
        assert!(!format!("{request:?}").contains("s3cret"));
    }
}
