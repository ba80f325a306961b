use rwf::dictionary::{DictionaryKind, Verbosity};
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
    payloads: Payloads<'a>,
    is_first: bool,
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
        let payloads = Payloads::new(dictionary, request.kind()?, request.verbosity, sizes);
        Ok(DictionaryParts { request: *request, payloads, is_first: true })
    }
}

impl Iterator for DictionaryParts<'_> {
    type Item = Result<Vec<u8>, EncodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let is_first = std::mem::take(&mut self.is_first);
        let part = self.payloads.next()?;
        Some(part.and_then(|part| part.answer(&self.request, is_first).to_vec()))
    }
}

/// A dictionary whose payloads were encoded once, for any number of requests: encoding one takes
/// milliseconds, answering from it what copying takes.
#[derive(Clone, Debug)]
pub struct PreparedDictionary {
    parts: Vec<Payload>,
}

impl PreparedDictionary {
    /// Encodes all of a dictionary in one verbosity.
    ///
    /// # Errors
    /// It cannot be encoded.
    pub fn new(
        dictionary: &Dictionary,
        kind: DictionaryKind,
        verbosity: Verbosity,
        sizes: PartSizes,
    ) -> Result<PreparedDictionary, EncodeError> {
        let parts = Payloads::new(dictionary, kind, verbosity, sizes).collect::<Result<_, _>>()?;
        Ok(PreparedDictionary { parts })
    }

    /// How many messages answer a request.
    #[must_use]
    pub fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// The answer to `request`, which has to be for this dictionary in this verbosity: part `number`, counted
    /// from 0, in the shape of [`DictionaryParts`]. `None` behind the last one.
    #[must_use]
    pub fn part<'a>(&'a self, request: &DictionaryRequest<'a>, number: usize) -> Option<RefreshMsg<'a>> {
        Some(self.parts.get(number)?.answer(request, number == 0))
    }
}

/// The payload of one part.
#[derive(Clone, Debug)]
struct Payload {
    /// For the state of its message.
    text: String,
    series: Vec<u8>,
    is_last: bool,
}

impl Payload {
    fn answer<'a>(&'a self, request: &DictionaryRequest<'a>, is_first: bool) -> RefreshMsg<'a> {
        let stream = if request.streaming { StreamState::Open } else { StreamState::NonStreaming };
        RefreshMsg {
            solicited: true,
            complete: self.is_last,
            clear_cache: is_first,
            state: State::new(stream, DataState::Ok).because(StateCode::NONE, &self.text),
            key: Some(request.key()),
            payload: &self.series,
            ..RefreshMsg::new(Domain::DICTIONARY, request.stream_id, DataType::SERIES)
        }
    }
}

/// The payloads of a dictionary, each as large as its limit allows.
#[derive(Clone)]
struct Payloads<'a> {
    dictionary: &'a Dictionary,
    verbosity: Verbosity,
    next: Next,
    part_bytes_max: usize,
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

impl<'a> Payloads<'a> {
    fn new(
        dictionary: &'a Dictionary,
        kind: DictionaryKind,
        verbosity: Verbosity,
        sizes: PartSizes,
    ) -> Payloads<'a> {
        let (next, part_bytes_max) = match kind {
            DictionaryKind::Fields => (Next::Field(None), sizes.fields_bytes_max),
            DictionaryKind::Enums => (Next::Table(0), sizes.enums_bytes_max),
        };
        Payloads { dictionary, verbosity, next, part_bytes_max }
    }

    /// As much as fits the limit, but at least one entry.
    fn series(&self) -> Result<(Vec<u8>, Next), EncodeError> {
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
        Ok(match self.next {
            Next::Field(first) => match self.dictionary.encode_fields(w, self.verbosity, first)? {
                Some(next) => Next::Field(Some(next)),
                None => Next::Nothing,
            },
            Next::Table(first) => match self.dictionary.encode_enums(w, self.verbosity, first)? {
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

impl Iterator for Payloads<'_> {
    type Item = Result<Payload, EncodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if matches!(self.next, Next::Nothing) {
            return None;
        }
        let text = self.text();
        let (series, next) = match self.series() {
            Ok(made) => made,
            Err(error) => {
                self.next = Next::Nothing;
                return Some(Err(error));
            }
        };
        self.next = next;
        Some(Ok(Payload { text, series, is_last: matches!(next, Next::Nothing) }))
    }
}
