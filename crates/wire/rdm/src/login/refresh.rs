use rwf::{Buffer, DataType, Domain, EncodeError, Key, RefreshMsg, State, encode_to_vec};

use super::{LoginRequest, NameType, attributes, key};
use crate::element::{KnownElement, PutElement, known_elements};
use crate::message::{ToVec, require_domain};
use crate::{Element, RdmError};

/// The answer that accepts a login, and says what the server can do.
///
/// Shape: refresh, solicited and complete; state; key of name, name type and an element list of attributes,
/// all of them optional; no payload. Source: RWF 14.1, login domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LoginRefresh<'a> {
    /// The stream of the request.
    pub stream_id: i32,
    /// It answers a request.
    pub solicited: bool,
    /// The state of the login.
    pub state: State<'a>,
    /// The name of the request.
    pub name: Option<&'a [u8]>,
    /// What kind of name it is.
    pub name_type: Option<NameType>,
    /// The application id of the request.
    pub application_id: Option<&'a [u8]>,
    /// The name of the server.
    pub application_name: Option<&'a [u8]>,
    /// The position of the request.
    pub position: Option<&'a [u8]>,
    /// The server's view of single open.
    pub single_open: Option<bool>,
    /// The server's view of suspect data.
    pub allow_suspect_data: Option<bool>,
    /// Whether permission expressions are provided.
    pub provide_permission_expressions: Option<bool>,
    /// Whether the permission profile is provided.
    pub provide_permission_profile: Option<bool>,
    /// What the server can do.
    pub features: Features,
    /// The server will measure the round trip.
    pub round_trip_latency: Option<u64>,
    /// What became of a token.
    pub authentication: AuthenticationAnswer<'a>,
}

/// What a server says it can do; what it does not say it cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Features {
    /// The consumer may post. Without it stock consumers refuse their application's posts.
    pub omm_post: Option<bool>,
    /// Which batch messages are understood.
    pub batch_requests: Option<BatchSupport>,
    /// Views are understood. Without it stock consumers remove them from requests.
    pub view_requests: Option<bool>,
    /// Pause and resume are understood. Without it stock consumers do not send them.
    pub optimized_pause_resume: Option<bool>,
    /// Warm standby is possible.
    pub standby: Option<bool>,
    /// Which modes of standby, as bits: [`STANDBY_BY_LOGIN`](super::STANDBY_BY_LOGIN),
    /// [`STANDBY_BY_SERVICE`](super::STANDBY_BY_SERVICE).
    pub standby_mode: Option<u64>,
    /// A provider may ask the server for dictionaries.
    pub provider_dictionary_download: Option<bool>,
    /// What the server does for symbol lists.
    pub enhanced_symbol_list: Option<SymbolListSupport>,
}

/// Which batch messages a server understands, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct BatchSupport(pub u64);

impl BatchSupport {
    /// Batch requests.
    pub const REQUESTS: BatchSupport = BatchSupport(1);
    /// Batch reissues.
    pub const REISSUES: BatchSupport = BatchSupport(2);
    /// Batch closes.
    pub const CLOSES: BatchSupport = BatchSupport(4);
    /// All three.
    pub const ALL: BatchSupport = BatchSupport(7);

    /// Whether all of `wanted` is supported.
    #[must_use]
    pub const fn contains(self, wanted: BatchSupport) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// What a server does for symbol lists, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct SymbolListSupport(pub u64);

impl SymbolListSupport {
    /// It opens the items of a list by itself.
    pub const DATA_STREAMS: SymbolListSupport = SymbolListSupport(1);
}

/// What became of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AuthenticationAnswer<'a> {
    /// When a new token is wanted, in seconds of the Unix epoch.
    pub reissue_at_s: Option<u64>,
    /// More, as the system that checked the token says it.
    pub extended: Option<&'a [u8]>,
    /// Why it was refused; 0 if it was not.
    pub error_code: Option<u64>,
    /// The same in words.
    pub error_text: Option<&'a [u8]>,
}

impl<'a> LoginRefresh<'a> {
    /// Accepts a login: repeats who, where and which application; promises nothing.
    #[must_use]
    pub fn accept(request: &LoginRequest<'a>) -> LoginRefresh<'a> {
        LoginRefresh {
            stream_id: request.stream_id,
            solicited: true,
            name: Some(request.name),
            name_type: Some(request.name_type),
            application_id: Some(request.application_id),
            position: request.position,
            single_open: Some(request.single_open),
            allow_suspect_data: Some(request.allow_suspect_data),
            ..LoginRefresh::default()
        }
    }

    /// Reads a refresh.
    ///
    /// # Errors
    /// [`RdmError::WrongType`] names the attribute.
    pub fn parse(msg: &RefreshMsg<'a>) -> Result<LoginRefresh<'a>, RdmError> {
        require_domain(msg.domain, Domain::LOGIN)?;
        let key = msg.key.unwrap_or_default();
        let mut refresh = LoginRefresh {
            stream_id: msg.stream_id,
            solicited: msg.solicited,
            state: msg.state,
            name: key.name,
            name_type: key.name_type.map(NameType),
            ..LoginRefresh::default()
        };
        for element in known_elements(attributes(&key)?, None)? {
            refresh.take_attribute(&element?)?;
        }
        Ok(refresh)
    }

    fn take_attribute(&mut self, e: &KnownElement<'a>) -> Result<(), RdmError> {
        match e.element {
            Element::ApplicationId => self.application_id = e.ascii()?,
            Element::ApplicationName => self.application_name = e.ascii()?,
            Element::Position => self.position = e.ascii()?,
            Element::SingleOpen => self.single_open = e.flag()?,
            Element::AllowSuspectData => self.allow_suspect_data = e.flag()?,
            Element::ProvidePermissionExpressions => self.provide_permission_expressions = e.flag()?,
            Element::ProvidePermissionProfile => self.provide_permission_profile = e.flag()?,
            Element::RoundTripLatency => self.round_trip_latency = e.uint()?,
            _ => {
                self.features.take_attribute(e)?;
                self.authentication.take_attribute(e)?;
            }
        }
        Ok(())
    }

    /// In the order in which stock providers write them.
    fn encode_attributes(&self) -> Result<Vec<u8>, EncodeError> {
        encode_to_vec(|w| {
            w.element_list(|e| {
                e.ascii(Element::ApplicationId, self.application_id);
                e.ascii(Element::Position, self.position);
                e.ascii(Element::ApplicationName, self.application_name);
                e.flag(Element::SingleOpen, self.single_open);
                e.flag(Element::AllowSuspectData, self.allow_suspect_data);
                e.flag(Element::ProvidePermissionExpressions, self.provide_permission_expressions);
                e.flag(Element::ProvidePermissionProfile, self.provide_permission_profile);
                self.features.put(e);
                e.some(Element::RoundTripLatency, self.round_trip_latency);
                self.authentication.put(e);
            });
        })
    }
}

impl Features {
    fn take_attribute(&mut self, e: &KnownElement<'_>) -> Result<(), RdmError> {
        match e.element {
            Element::SupportOmmPost => self.omm_post = e.flag()?,
            Element::SupportBatchRequests => self.batch_requests = e.uint()?.map(BatchSupport),
            Element::SupportViewRequests => self.view_requests = e.flag()?,
            Element::SupportOptimizedPauseResume => self.optimized_pause_resume = e.flag()?,
            Element::SupportStandby => self.standby = e.flag()?,
            Element::SupportStandbyMode => self.standby_mode = e.uint()?,
            Element::SupportProviderDictionaryDownload => self.provider_dictionary_download = e.flag()?,
            Element::SupportEnhancedSymbolList => {
                self.enhanced_symbol_list = e.uint()?.map(SymbolListSupport);
            }
            _ => {}
        }
        Ok(())
    }

    fn put(&self, e: &mut impl PutElement) {
        e.some(Element::SupportBatchRequests, self.batch_requests.map(|support| support.0));
        e.flag(Element::SupportViewRequests, self.view_requests);
        e.flag(Element::SupportOmmPost, self.omm_post);
        e.flag(Element::SupportOptimizedPauseResume, self.optimized_pause_resume);
        e.flag(Element::SupportStandby, self.standby);
        e.some(Element::SupportStandbyMode, self.standby_mode);
        e.flag(Element::SupportProviderDictionaryDownload, self.provider_dictionary_download);
        e.some(Element::SupportEnhancedSymbolList, self.enhanced_symbol_list.map(|support| support.0));
    }
}

impl<'a> AuthenticationAnswer<'a> {
    pub(super) fn take_attribute(&mut self, e: &KnownElement<'a>) -> Result<(), RdmError> {
        match e.element {
            Element::AuthenticationTtReissue => self.reissue_at_s = e.uint()?,
            Element::AuthenticationExtendedResp => self.extended = e.buffer()?,
            Element::AuthenticationErrorCode => self.error_code = e.uint()?,
            Element::AuthenticationErrorText => self.error_text = e.ascii()?,
            _ => {}
        }
        Ok(())
    }

    pub(super) fn put(&self, e: &mut impl PutElement) {
        e.some(Element::AuthenticationTtReissue, self.reissue_at_s);
        e.some(Element::AuthenticationExtendedResp, self.extended.map(Buffer));
        e.some(Element::AuthenticationErrorCode, self.error_code);
        e.ascii(Element::AuthenticationErrorText, self.error_text);
    }
}

impl ToVec for LoginRefresh<'_> {
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        let attributes = self.encode_attributes()?;
        let key = key(self.name, self.name_type, &attributes);
        RefreshMsg {
            solicited: self.solicited,
            complete: true,
            state: self.state,
            key: (key != Key::default()).then_some(key),
            ..RefreshMsg::new(Domain::LOGIN, self.stream_id, DataType::NO_DATA)
        }
        .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_comes_back() {
        let refresh = LoginRefresh {
            application_name: Some(b"server"),
            provide_permission_expressions: Some(false),
            provide_permission_profile: Some(false),
            features: Features {
                omm_post: Some(true),
                batch_requests: Some(BatchSupport::ALL),
                view_requests: Some(true),
                optimized_pause_resume: Some(true),
                standby: Some(true),
                standby_mode: Some(3),
                provider_dictionary_download: Some(true),
                enhanced_symbol_list: Some(SymbolListSupport::DATA_STREAMS),
            },
            round_trip_latency: Some(2),
            authentication: AuthenticationAnswer {
                reissue_at_s: Some(1_700_000_000),
                extended: Some(&[1, 2]),
                error_code: Some(7),
                error_text: Some(b"expired"),
            },
            ..LoginRefresh::accept(&LoginRequest { position: Some(b"p"), ..LoginRequest::consumer(b"u") })
        };
        let bytes = refresh.to_vec().expect("legal");
        let msg = RefreshMsg::parse(&bytes).expect("whole");
        assert!(msg.solicited && msg.complete);
        assert_eq!(LoginRefresh::parse(&msg), Ok(refresh));
    }

    #[test]
    fn a_refresh_without_key_and_attributes_is_legal_and_promises_nothing() {
        let bare = LoginRefresh { stream_id: 1, solicited: true, ..LoginRefresh::default() };
        let bytes = bare.to_vec().expect("legal");
        let msg = RefreshMsg::parse(&bytes).expect("whole");
        assert_eq!(msg.key, None);
        assert_eq!(LoginRefresh::parse(&msg), Ok(bare));
        assert_eq!(bare.features, Features::default());
    }

    #[test]
    fn batch_support_is_a_set_of_bits() {
        assert!(BatchSupport::ALL.contains(BatchSupport::CLOSES));
        assert!(!BatchSupport::REQUESTS.contains(BatchSupport::ALL));
    }
}
