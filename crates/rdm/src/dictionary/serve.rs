use rwf::dictionary::DictionaryKind;
use rwf::{
    DataState, DataType, Dictionary, Domain, EncodeError, RefreshMsg, State, StateCode, StreamState, Writer,
};

use super::DictionaryRequest;
use crate::RdmError;
use crate::message::ToVec;

/// How large the payloads of dictionary parts may be, in bytes. One entry that is longer makes a part of its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSizes {
    /// Of field definitions.
    pub fields_bytes_max: usize,
    /// Of enumerations, which are cut between tables only.
    pub enums_bytes_max: usize,
}

impl Default for PartSizes {
    /// Those of stock providers.
    fn default() -> Self {
        PartSizes { fields_bytes_max: 8192, enums_bytes_max: 128_000 }
    }
}

/// The answer to a dictionary request, part by part, each a whole message.
///
/// Shape: refresh, solicited; the stream is open if the request wants one, else without a stream; the first
/// clears the cache, the last is complete; key as in the request; payload series. Source: RWF 14.1, dictionary
/// domain.
#[derive(Clone)]
pub struct DictionaryParts<'a> {
    request: DictionaryRequest<'a>,
    dictionary: &'a Dictionary,
    next: Next,
    part_bytes_max: usize,
    is_first: bool,
}

/// What the next part begins with.
#[derive(Clone, Copy)]
enum Next {
    /// A field, `None` for the lowest.
    Field(Option<i16>),
    /// The enumeration table at this position.
    Table(usize),
    /// There is none.
    Nothing,
}

impl<'a> DictionaryParts<'a> {
    /// The parts of what `request` asks for.
    ///
    /// # Errors
    /// [`RdmError::UnknownDictionary`] if it asks for something else.
    pub fn new(
        request: &DictionaryRequest<'a>,
        dictionary: &'a Dictionary,
        sizes: PartSizes,
    ) -> Result<DictionaryParts<'a>, RdmError> {
        let (next, part_bytes_max) = match request.kind()? {
            DictionaryKind::Fields => (Next::Field(None), sizes.fields_bytes_max),
            DictionaryKind::Enums => (Next::Table(0), sizes.enums_bytes_max),
        };
        Ok(DictionaryParts { request: *request, dictionary, next, part_bytes_max, is_first: true })
    }

    fn part(&mut self) -> Result<Vec<u8>, EncodeError> {
        let text = self.text();
        let (payload, next) = self.payload()?;
        let stream = if self.request.streaming { StreamState::Open } else { StreamState::NonStreaming };
        let msg = RefreshMsg {
            solicited: true,
            complete: matches!(next, Next::Nothing),
            clear_cache: self.is_first,
            state: State::new(stream, DataState::Ok).because(StateCode::NONE, &text),
            key: Some(self.request.key()),
            ..RefreshMsg::new(Domain::DICTIONARY, self.request.stream_id, DataType::SERIES)
        };
        self.next = next;
        self.is_first = false;
        RefreshMsg { payload: &payload, ..msg }.to_vec()
    }

    /// As much as fits the limit, but at least one entry.
    fn payload(&self) -> Result<(Vec<u8>, Next), EncodeError> {
        let mut buffer = vec![0; self.part_bytes_max];
        loop {
            let mut writer = Writer::new(&mut buffer);
            match self.encode(&mut writer).and_then(|next| Ok((writer.status()?, next))) {
                Ok((length, next)) => {
                    buffer.truncate(length);
                    return Ok((buffer, next));
                }
                Err(EncodeError::BufferTooSmall { need_bytes, have_bytes }) if need_bytes > have_bytes => {
                    buffer.resize(need_bytes as usize, 0);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn encode(&self, w: &mut Writer<'_>) -> Result<Next, EncodeError> {
        let verbosity = self.request.verbosity;
        Ok(match self.next {
            Next::Field(first) => match self.dictionary.encode_fields(w, verbosity, first)? {
                Some(next) => Next::Field(Some(next)),
                None => Next::Nothing,
            },
            Next::Table(first) => match self.dictionary.encode_enums(w, verbosity, first)? {
                Some(next) => Next::Table(next),
                None => Next::Nothing,
            },
            Next::Nothing => Next::Nothing,
        })
    }

    fn text(&self) -> String {
        match self.next {
            Next::Field(None) => "field dictionary from its first field".into(),
            Next::Field(Some(id)) => format!("field dictionary from field {id}"),
            Next::Table(at) => format!("enumerations from table {at}"),
            Next::Nothing => String::new(),
        }
    }
}

impl Iterator for DictionaryParts<'_> {
    type Item = Result<Vec<u8>, EncodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if matches!(self.next, Next::Nothing) {
            return None;
        }
        let part = self.part();
        if part.is_err() {
            self.next = Next::Nothing;
        }
        Some(part)
    }
}
