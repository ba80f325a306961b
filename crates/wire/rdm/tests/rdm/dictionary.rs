//! Dictionaries as they were recorded in several parts, and as they are served and downloaded here.

use std::path::Path;

use rwf::dictionary::{Field, FieldType};
use rwf::{DataType, Dictionary, Domain, EncodeError, Msg, RefreshMsg, StreamState, encode_to_vec};
use tickcast_rdm::dictionary::{
    DictionaryDownload, DictionaryKind, DictionaryMsg, DictionaryParts, DictionaryRequest, PartSizes,
    Verbosity,
};
use tickcast_rdm::{Part, RdmError, ToVec};

use crate::support::{assert_same_content, hex, json, list, parse, text};

const SERVICE: u16 = 1;
const FIELDS_STREAM: i32 = 3;
const ENUMS_STREAM: i32 = 4;

/// The refreshes of a recorded session, in order.
fn recorded(session: &str) -> Vec<Vec<u8>> {
    let file =
        json(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wire/rwf/tests/vectors/dictionary.json"));
    let session = list(&file["sessions"]).iter().find(|known| known["session"] == session);
    let messages = list(&session.expect("recorded")["messages"]).iter();
    messages.map(|message| hex(text(&message["hex"]))).collect()
}

fn refresh(message: &[u8]) -> RefreshMsg<'_> {
    let Ok(DictionaryMsg::Refresh(refresh)) = DictionaryMsg::parse(&parse(message)) else {
        panic!("a refresh of the dictionary domain")
    };
    refresh
}

/// A download that has asked for both.
fn download() -> DictionaryDownload {
    let mut download = DictionaryDownload::default();
    download.request(DictionaryKind::Fields, FIELDS_STREAM, SERVICE);
    download.request(DictionaryKind::Enums, ENUMS_STREAM, SERVICE);
    download
}

fn take_all(download: &mut DictionaryDownload, messages: &[Vec<u8>]) -> Dictionary {
    for message in messages {
        download.take(&refresh(message)).expect("legal");
    }
    download.dictionary().expect("they agree").expect("complete")
}

fn request(kind: DictionaryKind) -> DictionaryRequest<'static> {
    let stream_id = match kind {
        DictionaryKind::Fields => FIELDS_STREAM,
        DictionaryKind::Enums => ENUMS_STREAM,
    };
    DictionaryRequest::new(stream_id, SERVICE, kind)
}

fn served(dictionary: &Dictionary, kind: DictionaryKind, sizes: PartSizes) -> Vec<Vec<u8>> {
    let parts = DictionaryParts::new(&request(kind), dictionary, sizes).expect("known");
    parts.collect::<Result<_, _>>().expect("legal")
}

fn assert_same_dictionary(one: &Dictionary, other: &Dictionary) {
    assert_eq!(one.info(), other.info());
    assert!(one.fields().eq(other.fields()));
    assert_eq!(one.enum_tables(), other.enum_tables());
}

#[test]
fn a_dictionary_asked_for_once_has_no_stream() {
    let dictionary = take_all(&mut download(), &recorded("dict_fragmented"));
    for (streaming, stream) in [(true, StreamState::Open), (false, StreamState::NonStreaming)] {
        let request = DictionaryRequest { streaming, ..request(DictionaryKind::Fields) };
        let parts = DictionaryParts::new(&request, &dictionary, PartSizes::default()).expect("known");
        for part in parts {
            assert_eq!(refresh(&part.expect("legal")).state.stream, stream);
        }
    }
}

#[test]
fn recorded_parts_make_a_whole_dictionary_only_with_the_last() {
    let messages = recorded("dict_fragmented");
    assert_eq!(messages.len(), 4, "three parts of fields, one of enumerations");
    let mut download = download();
    let complete: Vec<_> =
        messages.iter().map(|message| download.take(&refresh(message)).expect("legal")).collect();
    assert_eq!(complete, [false, false, false, true]);
    let dictionary = download.dictionary().expect("they agree").expect("complete");
    assert_eq!(dictionary.field_count(), 647);
    assert!(dictionary.enum_table(4).is_some());
}

#[test]
fn what_was_recorded_is_served_with_the_same_content_part_by_part() {
    let messages = recorded("dict_fragmented");
    let dictionary = take_all(&mut download(), &messages);
    let (fields, enums) = messages.split_at(3);
    // The recorded provider was given 8192 bytes for whole messages; the same room for the payload alone.
    let payload_bytes = |message: &Vec<u8>| refresh(message).payload.len();
    let fields_bytes_max = fields.iter().map(payload_bytes).max().expect("some");
    let sizes = PartSizes { fields_bytes_max, ..PartSizes::default() };
    let ours = served(&dictionary, DictionaryKind::Enums, sizes);
    assert_eq!(ours.len(), 1);
    let same_state = |ours: &[u8], recorded: &[u8]| {
        RefreshMsg { state: refresh(recorded).state, ..refresh(ours) }.to_vec().expect("legal")
    };
    assert_same_content("enums", &enums[0], &same_state(&ours[0], &enums[0]));

    let ours = served(&dictionary, DictionaryKind::Fields, sizes);
    assert_eq!(ours.len(), 3);
    let flags = |messages: &[Vec<u8>]| -> Vec<_> {
        let flag = |message| {
            let part = refresh(message);
            (part.solicited, part.clear_cache, part.complete, part.part_num, part.stream_id)
        };
        messages.iter().map(|message| flag(message)).collect()
    };
    assert_eq!(flags(&ours), flags(fields));
    let key = |message: &Vec<u8>| format!("{:?}", refresh(message).key);
    assert!(ours.iter().map(key).eq(fields.iter().map(key)));
    assert_same_dictionary(&take_all(&mut download(), &[ours, enums.to_vec()].concat()), &dictionary);
}

#[test]
fn a_dictionary_served_in_parts_of_any_size_is_downloaded_the_same() {
    let dictionary = take_all(&mut download(), &recorded("dict_fragmented"));
    for bytes_max in [0, 1, 100, 200, 1000, 8192, 1 << 20] {
        let sizes = PartSizes { fields_bytes_max: bytes_max, enums_bytes_max: bytes_max };
        let fields = served(&dictionary, DictionaryKind::Fields, sizes);
        let enums = served(&dictionary, DictionaryKind::Enums, sizes);
        for parts in [&fields, &enums] {
            let last = parts.len() - 1;
            for (at, part) in parts.iter().enumerate() {
                let part = refresh(part);
                assert_eq!((part.clear_cache, part.complete), (at == 0, at == last));
                let single = rwf::Series::parse(part.payload).expect("legal").count() == 1;
                assert!(part.payload.len() <= bytes_max || single, "{} bytes", part.payload.len());
            }
        }
        // Parts of the two dictionaries may come in between each other.
        let mut between = Vec::new();
        for at in 0..fields.len().max(enums.len()) {
            between.extend(fields.get(at).cloned());
            between.extend(enums.get(at).cloned());
        }
        assert_same_dictionary(&take_all(&mut download(), &between), &dictionary);
    }
}

#[test]
fn every_verbosity_is_served_and_information_has_no_entries() {
    let dictionary = take_all(&mut download(), &recorded("plain"));
    for verbosity in [Verbosity::Info, Verbosity::Minimal, Verbosity::Normal, Verbosity::Verbose] {
        let request = DictionaryRequest { verbosity, ..request(DictionaryKind::Fields) };
        let parts = DictionaryParts::new(&request, &dictionary, PartSizes::default()).expect("known");
        let parts: Vec<_> = parts.collect::<Result<_, _>>().expect("legal");
        let part = refresh(&parts[0]);
        assert_eq!(part.key.and_then(|key| key.filter), Some(verbosity as u32));
        let count = rwf::Series::parse(part.payload).expect("legal").count();
        assert_eq!(count, if verbosity == Verbosity::Info { 0 } else { 47 });
        assert!(part.complete && part.clear_cache && part.solicited);
    }
}

#[test]
fn a_new_version_replaces_the_old_one() {
    let (plain, large) = (recorded("plain"), recorded("dict_fragmented"));
    let mut download = download();
    assert_eq!(take_all(&mut download, &plain).field_count(), 47);
    assert_eq!(download.take(&refresh(&large[0])), Ok(false), "the new fields are not complete");
    assert!(download.dictionary().expect("nothing to contradict").is_none());
    assert_eq!(take_all(&mut download, &large[1..]).field_count(), 647);
}

#[test]
fn a_part_that_clears_the_cache_or_follows_the_last_begins_anew() {
    let (plain, large) = (recorded("plain"), recorded("dict_fragmented"));
    let mut download = download();
    download.take(&refresh(&large[0])).expect("legal");
    // The provider begins again before it came to the end.
    assert_eq!(take_all(&mut download, &large).field_count(), 647);
    // A provider that forgets to say that the old version is void.
    for part in &plain {
        let silent = RefreshMsg { clear_cache: false, ..refresh(part) };
        download.take(&silent).expect("legal");
    }
    assert_eq!(download.dictionary().expect("they agree").expect("complete").field_count(), 47);
}

#[test]
fn a_part_nobody_asked_for_and_parts_after_an_error_are_refused() {
    let messages = recorded("dict_fragmented");
    let mut download = download();
    let first = refresh(&messages[0]);
    let stray = RefreshMsg { stream_id: 99, ..first };
    assert_eq!(download.take(&stray), Err(RdmError::UnknownDictionary));
    let other = RefreshMsg { domain: Domain::MARKET_PRICE, ..first };
    assert!(matches!(download.take(&other), Err(RdmError::WrongDomain { .. })));
    download.take(&first).expect("legal");
    let cut = RefreshMsg { payload: &first.payload[..40], clear_cache: false, ..first };
    assert!(matches!(download.take(&cut), Err(RdmError::Dictionary(_))));
    // What follows cannot make a dictionary with a hole.
    assert_eq!(download.take(&refresh(&messages[2])), Err(RdmError::UnknownDictionary));
    download.take(&refresh(&messages[3])).expect("the enumerations are not concerned");
    assert!(!download.is_complete());
    let again = download.request(DictionaryKind::Fields, 7, SERVICE);
    assert_eq!((again.stream_id, download.kind(7)), (7, Some(DictionaryKind::Fields)));
    let renamed: Vec<_> = messages[..3]
        .iter()
        .map(|message| RefreshMsg { stream_id: 7, ..refresh(message) }.to_vec().expect("legal"))
        .collect();
    assert_eq!(take_all(&mut download, &renamed).field_count(), 647);
}

#[test]
fn more_bytes_than_the_limit_are_refused() {
    let messages = recorded("plain");
    let part = refresh(&messages[0]);
    let mut download = DictionaryDownload::new(part.payload.len() - 1);
    download.request(DictionaryKind::Fields, FIELDS_STREAM, SERVICE);
    let max = part.payload.len() as u32 - 1;
    assert_eq!(download.take(&part), Err(RdmError::TooMany { part: Part::DictionaryBytes, max }));
}

#[test]
fn fields_and_enumerations_of_different_dictionaries_are_not_put_together() {
    let mut dictionary = Dictionary::new();
    let field = Field {
        id: 22,
        name: "BID".into(),
        dde_acronym: "BID".into(),
        ripples_to: None,
        field_type: FieldType::PRICE,
        length: 17,
        enum_length: 0,
        data_type: DataType::REAL,
        rwf_length: 7,
    };
    dictionary.add_field(field).expect("the only one");
    dictionary.info_mut().dictionary_id = 2;
    let mut download = download();
    for part in served(&dictionary, DictionaryKind::Fields, PartSizes::default()) {
        download.take(&refresh(&part)).expect("legal");
    }
    download.take(&refresh(&recorded("plain")[1])).expect("legal");
    assert!(download.is_complete());
    assert!(matches!(download.dictionary(), Err(RdmError::Dictionary(_))));
}

#[test]
fn an_answer_that_cannot_be_encoded_ends_the_parts() {
    let mut dictionary = Dictionary::new();
    let name = "X".repeat(40_000);
    let field = Field {
        id: 1,
        name: name.as_str().into(),
        dde_acronym: name.as_str().into(),
        ripples_to: None,
        field_type: FieldType::ALPHANUMERIC,
        length: 1,
        enum_length: 0,
        data_type: DataType::ASCII_STRING,
        rwf_length: 1,
    };
    dictionary.add_field(field).expect("the only one");
    let mut parts = DictionaryParts::new(&request(DictionaryKind::Fields), &dictionary, PartSizes::default())
        .expect("known");
    assert!(matches!(parts.next(), Some(Err(EncodeError::TooLong { .. }))));
    assert!(parts.next().is_none());
}

#[test]
fn messages_that_the_domain_has_no_use_for_are_refused() {
    let generic = rwf::GenericMsg::new(Domain::DICTIONARY, 3, DataType::NO_DATA);
    let bytes = encode_to_vec(|w| generic.encode(w)).expect("legal");
    assert!(matches!(DictionaryMsg::parse(&parse(&bytes)), Err(RdmError::WrongClass { .. })));
    let close = rwf::CloseMsg::new(Domain::DICTIONARY, 3, DataType::NO_DATA);
    assert_eq!(DictionaryMsg::parse(&Msg::Close(close)), Ok(DictionaryMsg::Close(close)));
}
