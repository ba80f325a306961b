use rwf::Writer;
use rwf::dictionary::{Dictionary, EnumTable, Verbosity};

use crate::Outcome;
use crate::input::Input;

/// Room for a part: small, so that small dictionaries come in parts.
const PART_BYTES: usize = 1024;
/// Room for what does not fit into a small part: the longest table of an input, with its lengths.
const LONG_PART_BYTES: usize = 1 << 16;

/// Input: which kind of file (even: fields), file.
pub(super) fn file(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let is_fields = input.u8().is_multiple_of(2);
    let mut dictionary = Dictionary::new();
    let file = input.rest();
    let loaded = if is_fields { dictionary.load_fields(file) } else { dictionary.load_enums(file) };
    if let Err(error) = &loaded {
        let lines = file.split(|byte| *byte == b'\n').count();
        assert!(error.line >= 1 && error.line as usize <= lines && error.column >= 1, "{error}");
    }
    assert_serves(&dictionary);
    let count = |count: usize| count.checked_ilog2();
    let loaded = loaded.map_err(|error| error.kind);
    Outcome::of(&loaded, |()| (count(dictionary.field_count()), count(dictionary.enum_tables().len())))
}

/// Input: payloads behind `u16` lengths, of fields and of enumerations in turn.
pub(super) fn download(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let mut dictionary = Dictionary::new();
    let mut last = Ok(0);
    while !input.is_empty() && last.is_ok() {
        last = match input.u8().is_multiple_of(2) {
            true => dictionary.decode_fields(input.chunk()),
            false => dictionary.decode_enums(input.chunk()),
        };
    }
    assert_serves(&dictionary);
    Outcome::of(&last, |_| (dictionary.field_count() > 0, !dictionary.enum_tables().is_empty()))
}

/// What is in a dictionary can be sent in parts and arrives as it was.
fn assert_serves(dictionary: &Dictionary) {
    if dictionary.field_count() == 0 && dictionary.enum_tables().is_empty() {
        return;
    }
    let Some(again) = served(dictionary) else { return };
    assert!(again.fields().map(column).eq(dictionary.fields().map(column)), "fields as they were");
    let tables = |d: &Dictionary| -> Vec<String> {
        // Names of fields do not go over the wire.
        let ids = |t: &EnumTable| t.fields().iter().map(|field| field.id).collect::<Vec<_>>();
        d.enum_tables().iter().map(|t| format!("{:?} {:?}", ids(t), t.values())).collect()
    };
    assert_eq!(tables(&again), tables(dictionary));
}

/// What of a field goes over the wire.
fn column(field: &rwf::dictionary::Field) -> impl PartialEq + use<> {
    (field.id, field.name.clone(), field.field_type, field.length, field.enum_length, field.data_type)
}

/// The dictionary as a client has it after a download; `None` if something in it is too long to be sent.
fn served(dictionary: &Dictionary) -> Option<Dictionary> {
    let mut again = Dictionary::new();
    let mut next = None;
    while dictionary.field_count() > 0 {
        let (payload, more) = part(|w| dictionary.encode_fields(w, Verbosity::Verbose, next))?;
        again.decode_fields(&payload).expect("it was just encoded");
        next = more;
        if next.is_none() {
            break;
        }
    }
    let mut table = Some(0).filter(|_| !dictionary.enum_tables().is_empty());
    while let Some(first) = table {
        let (payload, more) = part(|w| dictionary.encode_enums(w, Verbosity::Verbose, first))?;
        again.decode_enums(&payload).expect("it was just encoded");
        table = more;
    }
    Some(again)
}

fn part<T>(
    encode: impl Fn(&mut Writer<'_>) -> Result<Option<T>, rwf::EncodeError>,
) -> Option<(Vec<u8>, Option<T>)> {
    for room in [PART_BYTES, LONG_PART_BYTES] {
        let mut buffer = vec![0; room];
        let mut w = Writer::new(&mut buffer);
        if let Ok(more) = encode(&mut w) {
            let length = w.status().expect("it was encoded");
            buffer.truncate(length);
            return Some((buffer, more));
        }
    }
    None
}
