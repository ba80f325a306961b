use rwf::dictionary::{DictionaryDecodeError, DictionaryError, DictionaryKind};
use rwf::{Dictionary, Domain, RefreshMsg};

use super::DictionaryRequest;
use crate::message::require_domain;
use crate::{Part, RdmError};

/// The payloads of one dictionary, in bytes, that a download takes by default. Dictionaries in use have a few
/// MB.
pub const DICTIONARY_BYTES_MAX: usize = 16 << 20;

/// Makes a dictionary of what a server sends: parts of field definitions on one stream, of enumerations on
/// another.
pub struct DictionaryDownload {
    fields: Download,
    enums: Download,
    bytes_max: usize,
}

/// The download of one of the two dictionaries.
struct Download {
    stream_id: Option<i32>,
    parts: Dictionary,
    bytes: usize,
    complete: bool,
}

impl Default for DictionaryDownload {
    fn default() -> Self {
        DictionaryDownload::new(DICTIONARY_BYTES_MAX)
    }
}

impl DictionaryDownload {
    /// A download that takes payloads of so many bytes of each dictionary.
    #[must_use]
    pub fn new(bytes_max: usize) -> DictionaryDownload {
        DictionaryDownload { fields: Download::new(None), enums: Download::new(None), bytes_max }
    }

    /// Begins the download of a dictionary, or begins it anew. Returns the request to send.
    pub fn request(
        &mut self,
        kind: DictionaryKind,
        stream_id: i32,
        service_id: u16,
    ) -> DictionaryRequest<'static> {
        match kind {
            DictionaryKind::Fields => self.fields = Download::new(Some(stream_id)),
            DictionaryKind::Enums => self.enums = Download::new(Some(stream_id)),
        }
        DictionaryRequest::new(stream_id, service_id, kind)
    }

    /// Which dictionary was asked for on a stream.
    #[must_use]
    pub fn kind(&self, stream_id: i32) -> Option<DictionaryKind> {
        match Some(stream_id) {
            id if id == self.fields.stream_id => Some(DictionaryKind::Fields),
            id if id == self.enums.stream_id => Some(DictionaryKind::Enums),
            _ => None,
        }
    }

    /// Takes one part; returns whether both dictionaries are complete now. A part that clears the cache, or
    /// that follows the last one, begins its dictionary anew.
    ///
    /// # Errors
    /// [`RdmError::UnknownDictionary`] for a stream without a request; [`RdmError::TooMany`] for more bytes
    /// than the limit; [`RdmError::Dictionary`] for what is wrong with the part. After an error the stream is
    /// forgotten and the dictionary is to be asked for anew.
    pub fn take(&mut self, part: &RefreshMsg<'_>) -> Result<bool, RdmError> {
        require_domain(part.domain, Domain::DICTIONARY)?;
        let kind = self.kind(part.stream_id).ok_or(RdmError::UnknownDictionary)?;
        let download = match kind {
            DictionaryKind::Fields => &mut self.fields,
            DictionaryKind::Enums => &mut self.enums,
        };
        if part.clear_cache || download.complete {
            *download = Download::new(download.stream_id);
        }
        let taken = download.take(kind, part, self.bytes_max);
        if taken.is_err() {
            *download = Download::new(None);
        }
        taken.map(|()| self.is_complete())
    }

    /// Whether both dictionaries are complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.fields.complete && self.enums.complete
    }

    /// Both dictionaries as one; `None` unless they are complete.
    ///
    /// # Errors
    /// [`RdmError::Dictionary`] if they contradict each other.
    pub fn dictionary(&self) -> Result<Option<Dictionary>, RdmError> {
        if !self.is_complete() {
            return Ok(None);
        }
        let mut whole = self.fields.parts.clone();
        let enums = self.enums.parts.info();
        let known = whole.info().dictionary_id;
        if known != 0 && enums.dictionary_id != 0 && known != enums.dictionary_id {
            return Err(contradicts(DictionaryError::DictionaryIdMismatch {
                id: enums.dictionary_id,
                known,
            }));
        }
        let info = whole.info_mut();
        info.dictionary_id = known.max(enums.dictionary_id);
        info.enum_rt_version.clone_from(&enums.enum_rt_version);
        info.enum_dt_version.clone_from(&enums.enum_dt_version);
        for table in self.enums.parts.enum_tables() {
            let (fields, values) = (table.fields().to_vec(), table.values().to_vec());
            whole.add_enum_table(fields, values).map_err(contradicts)?;
        }
        Ok(Some(whole))
    }
}

fn contradicts(error: DictionaryError) -> RdmError {
    RdmError::Dictionary(DictionaryDecodeError::Contradicts(error))
}

impl Download {
    fn new(stream_id: Option<i32>) -> Download {
        Download { stream_id, parts: Dictionary::new(), bytes: 0, complete: false }
    }

    fn take(
        &mut self,
        kind: DictionaryKind,
        part: &RefreshMsg<'_>,
        bytes_max: usize,
    ) -> Result<(), RdmError> {
        self.bytes = self.bytes.saturating_add(part.payload.len());
        if self.bytes > bytes_max {
            let max = u32::try_from(bytes_max).unwrap_or(u32::MAX);
            return Err(RdmError::TooMany { part: Part::DictionaryBytes, max });
        }
        match kind {
            DictionaryKind::Fields => self.parts.decode_fields(part.payload)?,
            DictionaryKind::Enums => self.parts.decode_enums(part.payload)?,
        };
        self.complete = part.complete;
        Ok(())
    }
}
