use std::fmt;

use rwf::dictionary::DictionaryDecodeError;
use rwf::{DataType, DecodeError, Domain, EncodeError, MsgClass, NakCode, StateCode};

use crate::Element;

/// Legal bytes, or nearly so, that do not mean what the domain models allow.
///
/// Small and `Copy`. Each variant names the part, what was found and what was wanted;
/// [`RdmError::state_code`] is the code that the answer should carry, [`RdmError::nak_code`] the one for the
/// answer to a post.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmError {
    /// The bytes are not RWF.
    Malformed(DecodeError),
    /// The dictionary payload cannot be taken over.
    Dictionary(DictionaryDecodeError),
    /// A value that RWF cannot hold was to be sent.
    NotEncodable(EncodeError),
    /// A class of message that the domain has no use for.
    WrongClass {
        /// The domain.
        domain: Domain,
        /// The class found.
        class: MsgClass,
    },
    /// Another domain than the caller decodes.
    WrongDomain {
        /// The domain found.
        found: Domain,
        /// The domain wanted.
        wanted: Domain,
    },
    /// A domain without items: login, source directory, dictionary.
    NotAnItemDomain {
        /// The domain found.
        domain: Domain,
    },
    /// A part that must be there is not, or is blank.
    Missing {
        /// The part.
        part: Part,
    },
    /// A part of another type than it must have.
    WrongType {
        /// The part.
        part: Part,
        /// The type found.
        found: DataType,
        /// The type wanted.
        wanted: DataType,
    },
    /// A number that the part cannot have.
    OutOfRange {
        /// The part.
        part: Part,
        /// The number found; a negative one as two's complement.
        value: u64,
        /// The largest number allowed.
        max: u64,
    },
    /// A name that is not text.
    NotText {
        /// The part.
        part: Part,
    },
    /// Two parts of which only one may be there.
    Both {
        /// The one.
        part: Part,
        /// The other.
        other: Part,
    },
    /// More entries than the receiver holds.
    TooMany {
        /// What there are too many of.
        part: Part,
        /// The most there may be.
        max: u32,
    },
    /// Two services of one id in one message.
    DuplicateServiceId {
        /// The id.
        service_id: u16,
    },
    /// Two services of one name.
    DuplicateServiceName {
        /// The service that has the name.
        service_id: u16,
        /// The other one.
        other_id: u16,
    },
    /// No service of that id, and not enough said to make one.
    UnknownService {
        /// The id.
        service_id: u16,
    },
    /// A kind of view that does not exist.
    UnsupportedViewType {
        /// The number found.
        view_type: u64,
    },
    /// A dictionary that nobody serves, or that nobody asked for.
    UnknownDictionary,
}

/// The part of a message that an error is about.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// An element, by its name on the wire.
    Element(Element),
    /// The name in the key.
    Name,
    /// The service id in the key.
    ServiceId,
    /// The filter in the key.
    Filter,
    /// The attributes in the key.
    Attributes,
    /// The key.
    Key,
    /// The payload.
    Payload,
    /// The map of services.
    Services,
    /// A filter entry of a service.
    ServiceEntry,
    /// The memory that a service takes.
    ServiceBytes,
    /// The links of a service.
    Links,
    /// The stream ids that follow a batch.
    StreamId,
    /// The id of a post that wants an ack.
    PostId,
    /// Bytes of a dictionary.
    DictionaryBytes,
}

impl RdmError {
    /// The code for the status that refuses the message.
    #[must_use]
    pub fn state_code(&self) -> StateCode {
        match *self {
            Self::Missing { part } | Self::WrongType { part, .. } | Self::OutOfRange { part, .. } => {
                part.state_code()
            }
            Self::NotText { .. } | Self::TooMany { .. } | Self::Dictionary(_) => StateCode::INVALID_ARGUMENT,
            Self::Both { .. } => StateCode::UNABLE_TO_REQUEST_AS_BATCH,
            Self::UnknownService { .. } => StateCode::SOURCE_UNKNOWN,
            Self::UnsupportedViewType { .. } => StateCode::UNSUPPORTED_VIEW_TYPE,
            Self::UnknownDictionary => StateCode::NOT_FOUND,
            Self::NotEncodable(_) => StateCode::ERROR,
            Self::Malformed(_)
            | Self::WrongClass { .. }
            | Self::WrongDomain { .. }
            | Self::NotAnItemDomain { .. }
            | Self::DuplicateServiceId { .. }
            | Self::DuplicateServiceName { .. } => StateCode::USAGE_ERROR,
        }
    }

    /// The code for the ack that refuses a post.
    #[must_use]
    pub fn nak_code(&self) -> NakCode {
        match self {
            Self::UnknownService { .. } | Self::Missing { part: Part::ServiceId } => NakCode::SOURCE_UNKNOWN,
            Self::Missing { part: Part::Name } => NakCode::SYMBOL_UNKNOWN,
            _ => NakCode::INVALID_CONTENT,
        }
    }
}

impl Part {
    /// What a fault in this part means for the request it stands in.
    fn state_code(self) -> StateCode {
        match self {
            Part::Element(Element::ViewType | Element::ViewData) => StateCode::INVALID_VIEW,
            Part::Element(Element::BatchItemList | Element::StreamIdList) | Part::StreamId => {
                StateCode::UNABLE_TO_REQUEST_AS_BATCH
            }
            Part::Element(_) | Part::Attributes => StateCode::INVALID_ARGUMENT,
            _ => StateCode::USAGE_ERROR,
        }
    }
}

impl From<DecodeError> for RdmError {
    fn from(error: DecodeError) -> Self {
        RdmError::Malformed(error)
    }
}

impl From<EncodeError> for RdmError {
    fn from(error: EncodeError) -> Self {
        RdmError::NotEncodable(error)
    }
}

impl From<DictionaryDecodeError> for RdmError {
    fn from(error: DictionaryDecodeError) -> Self {
        RdmError::Dictionary(error)
    }
}

impl From<Element> for Part {
    fn from(element: Element) -> Self {
        Part::Element(element)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Element(element) => element.name(),
            Part::Name => "key name",
            Part::ServiceId => "service id",
            Part::Filter => "key filter",
            Part::Attributes => "key attributes",
            Part::Key => "key",
            Part::Payload => "payload",
            Part::Services => "services",
            Part::ServiceEntry => "service entry",
            Part::ServiceBytes => "service bytes",
            Part::Links => "links",
            Part::StreamId => "stream id",
            Part::PostId => "post id",
            Part::DictionaryBytes => "dictionary bytes",
        })
    }
}

impl fmt::Display for RdmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::Dictionary(error) => error.fmt(f),
            Self::NotEncodable(error) => error.fmt(f),
            Self::WrongClass { domain, class } => write!(f, "{domain}: no use for a {class:?} message"),
            Self::WrongDomain { found, wanted } => write!(f, "domain {found}, wanted {wanted}"),
            Self::NotAnItemDomain { domain } => write!(f, "{domain}: no domain of items"),
            Self::Missing { part } => write!(f, "{part}: missing"),
            Self::WrongType { part, found, wanted } => write!(f, "{part}: {found}, wanted {wanted}"),
            Self::OutOfRange { part, value, max } => write!(f, "{part}: {value}, at most {max}"),
            Self::NotText { part } => write!(f, "{part}: not text"),
            Self::Both { part, other } => write!(f, "{part} and {other}: only one may be there"),
            Self::TooMany { part, max } => write!(f, "{part}: at most {max}"),
            Self::DuplicateServiceId { service_id } => write!(f, "service {service_id} twice"),
            Self::DuplicateServiceName { service_id, other_id } => {
                write!(f, "services {service_id} and {other_id} have the same name")
            }
            Self::UnknownService { service_id } => write!(f, "service {service_id} unknown"),
            Self::UnsupportedViewType { view_type } => write!(f, "view type {view_type} unsupported"),
            Self::UnknownDictionary => f.write_str("dictionary unknown"),
        }
    }
}

impl std::error::Error for RdmError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_the_code_that_tells_the_other_end_what_to_change() {
        let element = Part::Element(Element::Role);
        let (found, wanted) = (DataType::INT, DataType::UINT);
        let wrong_type = |part| RdmError::WrongType { part, found, wanted };
        let domain = Domain::LOGIN;
        for (error, code) in [
            (RdmError::Malformed(DecodeError::UnknownMsgClass { class: 9 }), StateCode::USAGE_ERROR),
            (RdmError::WrongClass { domain, class: MsgClass::Ack }, StateCode::USAGE_ERROR),
            (RdmError::WrongDomain { found: domain, wanted: domain }, StateCode::USAGE_ERROR),
            (RdmError::NotAnItemDomain { domain }, StateCode::USAGE_ERROR),
            (RdmError::DuplicateServiceId { service_id: 1 }, StateCode::USAGE_ERROR),
            (RdmError::DuplicateServiceName { service_id: 1, other_id: 2 }, StateCode::USAGE_ERROR),
            (RdmError::Missing { part: Part::Name }, StateCode::USAGE_ERROR),
            (wrong_type(element), StateCode::INVALID_ARGUMENT),
            (RdmError::OutOfRange { part: element, value: 2, max: 1 }, StateCode::INVALID_ARGUMENT),
            (RdmError::NotText { part: element }, StateCode::INVALID_ARGUMENT),
            (RdmError::TooMany { part: Part::Services, max: 1 }, StateCode::INVALID_ARGUMENT),
            (wrong_type(Part::Element(Element::ViewData)), StateCode::INVALID_VIEW),
            (RdmError::UnsupportedViewType { view_type: 3 }, StateCode::UNSUPPORTED_VIEW_TYPE),
            (wrong_type(Part::Element(Element::BatchItemList)), StateCode::UNABLE_TO_REQUEST_AS_BATCH),
            (RdmError::Both { part: element, other: element }, StateCode::UNABLE_TO_REQUEST_AS_BATCH),
            (RdmError::UnknownService { service_id: 1 }, StateCode::SOURCE_UNKNOWN),
            (RdmError::UnknownDictionary, StateCode::NOT_FOUND),
            (EncodeError::Blank { place: rwf::Place::MapKey }.into(), StateCode::ERROR),
        ] {
            assert_eq!(error.state_code(), code, "{error}");
            assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn errors_are_small_and_say_which_part_and_what_was_wanted() {
        assert!(size_of::<RdmError>() <= 48);
        let part = Part::Element(Element::SupportOmmPost);
        let error = RdmError::WrongType { part, found: DataType::INT, wanted: DataType::UINT };
        assert_eq!(error.to_string(), "SupportOMMPost: INT, wanted UINT");
        let error = RdmError::OutOfRange { part: Part::ServiceId, value: 70_000, max: 65_535 };
        assert_eq!(error.to_string(), "service id: 70000, at most 65535");
    }
}
