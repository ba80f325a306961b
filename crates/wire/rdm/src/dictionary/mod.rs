//! The dictionary domain: asking for field definitions and enumerations, serving and downloading them.

mod download;
mod request;
mod serve;

pub use download::{DICTIONARY_BYTES_MAX, DictionaryDownload};
pub use request::{DictionaryRequest, ENUMS_NAME, FIELDS_NAME, kind_of, name_of};
pub use rwf::dictionary::{DictionaryInfo, DictionaryKind, Verbosity};
pub use serve::{DictionaryParts, PartSizes, PreparedDictionary};

use rwf::{CloseMsg, Domain, Msg, RefreshMsg, StatusMsg};

use crate::RdmError;
use crate::message::{require_domain, wrong_class};

/// A message of a dictionary stream, in either direction. Source: RWF 14.1, dictionary domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DictionaryMsg<'a> {
    /// A dictionary is wanted.
    Request(DictionaryRequest<'a>),
    /// A part of it, for [`DictionaryDownload::take`].
    Refresh(RefreshMsg<'a>),
    /// The state of the stream: an end, if the dictionary is unknown.
    Status(StatusMsg<'a>),
    /// The dictionary is no longer wanted.
    Close(CloseMsg<'a>),
}

/// What a part of a dictionary says about the whole; `None` if it says nothing, as later parts may.
///
/// # Errors
/// [`RdmError::Dictionary`] for a payload that is no part of that dictionary.
pub fn info_of(kind: DictionaryKind, part: &RefreshMsg<'_>) -> Result<Option<DictionaryInfo>, RdmError> {
    rwf::Dictionary::info_of_part(kind, part.payload).map_err(RdmError::Dictionary)
}

impl<'a> DictionaryMsg<'a> {
    /// Reads a message of the dictionary domain. The payload of a refresh is not looked at.
    ///
    /// # Errors
    /// [`RdmError`] for another domain or a class without a meaning here, or what is wrong with a request.
    pub fn parse(msg: &Msg<'a>) -> Result<DictionaryMsg<'a>, RdmError> {
        require_domain(msg.domain(), Domain::DICTIONARY)?;
        Ok(match msg {
            Msg::Request(request) => DictionaryMsg::Request(DictionaryRequest::parse(request)?),
            Msg::Refresh(refresh) => DictionaryMsg::Refresh(*refresh),
            Msg::Status(status) => DictionaryMsg::Status(*status),
            Msg::Close(close) => DictionaryMsg::Close(*close),
            Msg::Update(_) | Msg::Ack(_) | Msg::Generic(_) | Msg::Post(_) => return Err(wrong_class(msg)),
        })
    }
}
