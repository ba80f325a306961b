//! The dictionary domain against recorded sessions: what a provider built with the public libraries sent is
//! what is read from the same files and sent here.

#[allow(dead_code, reason = "this test needs no vectors but its own")]
mod golden;

use golden::{hex, text};
use serde_json::Value as Json;
use tickcast_rwf::dictionary::{
    Dictionary, DictionaryDecodeError, DictionaryError, DictionaryKind, Verbosity, dictionary_kind,
};
use tickcast_rwf::{
    AsciiString, DataType, ElementList, ElementListWriter, EncodeError, Msg, RefreshMsg, Series, SeriesHead,
    Writer, encode_to_vec,
};

const FIELDS: &[u8] = include_bytes!("vectors/fields.dic");
const ENUMS: &[u8] = include_bytes!("vectors/enums.def");

/// What the provider was told a part may have, header included.
const PART_BYTES: usize = 8192;

/// The recorded refreshes of one session: those of the fields and that of the enumerations.
struct Recorded {
    fields: Vec<Vec<u8>>,
    enums: Vec<u8>,
}

fn recorded(session: &str) -> Recorded {
    let file: Json = serde_json::from_str(include_str!("vectors/dictionary.json")).expect("committed");
    let sessions = file["sessions"].as_array().expect("committed");
    let session = sessions.iter().find(|known| known["session"] == session).expect("committed");
    let messages = session["messages"].as_array().expect("committed").iter();
    let mut fields: Vec<Vec<u8>> = messages.map(|message| hex(text(&message["hex"]))).collect();
    let enums = fields.pop().expect("the enumerations come last");
    Recorded { fields, enums }
}

fn refresh(message: &[u8]) -> RefreshMsg<'_> {
    match Msg::parse(message) {
        Ok(Msg::Refresh(refresh)) => refresh,
        other => panic!("not a refresh: {other:?}"),
    }
}

fn loaded() -> Dictionary {
    let mut dictionary = Dictionary::new();
    dictionary.load_fields(FIELDS).expect("well written");
    dictionary.load_enums(ENUMS).expect("well written");
    dictionary
}

fn downloaded(recorded: &Recorded) -> Dictionary {
    let mut dictionary = Dictionary::new();
    for part in &recorded.fields {
        dictionary.decode_fields(refresh(part).payload).expect("recorded");
    }
    dictionary.decode_enums(refresh(&recorded.enums).payload).expect("recorded");
    dictionary
}

/// All fields, and all tables without what the wire does not carry.
fn content(dictionary: &Dictionary) -> String {
    let fields: Vec<_> = dictionary.fields().collect();
    let tables: Vec<_> = dictionary
        .enum_tables()
        .iter()
        .map(|table| {
            let ids: Vec<_> = table.fields().iter().map(|field| field.id).collect();
            let values: Vec<_> = table.values().iter().map(|value| (value.value, &value.display)).collect();
            (ids, values)
        })
        .collect();
    format!("{:?}\n{fields:#?}\n{tables:#?}", dictionary.info())
}

/// Encodes into a buffer with room for everything.
fn whole(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buffer = vec![0; 1 << 17];
    let mut writer = Writer::new(&mut buffer);
    write(&mut writer);
    writer.finish().expect("room for everything").to_vec()
}

/// Everything of a series but the form of its lengths: definitions, summary, hint and entries.
type Parts<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, Option<u32>, Vec<&'a [u8]>);

fn parts(payload: &[u8]) -> Parts<'_> {
    let series = Series::parse(payload).expect("recorded or written");
    let entries = series.entries().collect::<Result<_, _>>().expect("recorded or written");
    (series.set_definitions, series.summary, series.total_count_hint, entries)
}

#[test]
fn the_files_and_the_recorded_session_are_the_same_dictionary() {
    let recorded = recorded("plain");
    assert_eq!(content(&loaded()), content(&downloaded(&recorded)));
    assert_eq!(loaded().field_count(), 47);
    assert_eq!(loaded().enum_tables().len(), 4);
    assert_eq!(dictionary_kind(refresh(&recorded.fields[0]).payload), Ok(Some(DictionaryKind::Fields)));
    assert_eq!(dictionary_kind(refresh(&recorded.enums).payload), Ok(Some(DictionaryKind::Enums)));
}

#[test]
fn fields_are_served_byte_for_byte_but_for_the_form_of_two_lengths() {
    let recorded = recorded("plain");
    let theirs = refresh(&recorded.fields[0]).payload;
    let ours = whole(|w| assert_eq!(loaded().encode_fields(w, Verbosity::Normal, None), Ok(None)));
    assert_eq!(parts(&ours), parts(theirs));
    assert_eq!(ours.len() + 2, theirs.len());
}

/// Name and content of every value in the tables of an enumeration dictionary.
fn table_columns(payload: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let series = Series::parse(payload).expect("recorded or written");
    let definitions = series.element_set_defs().expect("recorded or written");
    let mut columns = Vec::new();
    for entry in series.entries() {
        let list = ElementList::parse(entry.expect("whole")).expect("legal");
        assert_eq!(list.set_data.map(|set| set.explicit_id), Some(Some(0)));
        for element in list.all_entries(definitions.as_ref()) {
            let element = element.expect("whole");
            columns.push((element.name.to_vec(), element.content.to_vec()));
        }
    }
    columns
}

fn assert_same_enums(ours: &[u8], theirs: &[u8]) {
    let (ours_parts, theirs_parts) = (parts(ours), parts(theirs));
    assert_eq!((ours_parts.0, ours_parts.1, ours_parts.2), (theirs_parts.0, theirs_parts.1, theirs_parts.2));
    assert_eq!(table_columns(ours), table_columns(theirs));
    assert_eq!(table_columns(ours).len(), 4 * 3);
}

#[test]
fn enumerations_are_served_with_the_same_values_in_the_same_order() {
    let recorded = recorded("plain");
    let ours = whole(|w| assert_eq!(loaded().encode_enums(w, Verbosity::Normal, 0), Ok(None)));
    assert_same_enums(&ours, refresh(&recorded.enums).payload);
}

#[test]
fn the_dictionaries_of_the_recorded_messages_are_served_the_same() {
    let mut seen = Vec::new();
    for file in golden::committed() {
        for case in file.cases.iter().filter(|case| case.name.ends_with("/dictionary/refresh")) {
            let theirs = refresh(&case.bytes).payload;
            let kind = dictionary_kind(theirs).expect("recorded").expect("the first part has a summary");
            match kind {
                DictionaryKind::Fields => {
                    let ours =
                        whole(|w| assert_eq!(loaded().encode_fields(w, Verbosity::Normal, None), Ok(None)));
                    assert_eq!(parts(&ours), parts(theirs));
                }
                DictionaryKind::Enums => {
                    let ours =
                        whole(|w| assert_eq!(loaded().encode_enums(w, Verbosity::Normal, 0), Ok(None)));
                    assert_same_enums(&ours, theirs);
                }
            }
            seen.push(kind);
        }
    }
    assert_eq!(seen, [DictionaryKind::Fields, DictionaryKind::Enums]);
}

#[test]
fn a_long_dictionary_is_cut_where_the_recorded_provider_cut_it() {
    let recorded = recorded("dict_fragmented");
    let dictionary = downloaded(&recorded);
    assert_eq!(dictionary.field_count(), 647);
    let mut first = None;
    for message in &recorded.fields {
        let theirs = refresh(message).payload;
        let header = &message[..message.len() - theirs.len()];
        let mut buffer = [0; PART_BYTES];
        let mut writer = Writer::new(&mut buffer);
        writer.bytes(header);
        first = dictionary.encode_fields(&mut writer, Verbosity::Normal, first).expect("room for some");
        let ours = writer.finish().expect("it stopped in time");
        assert_eq!(parts(refresh(ours).payload), parts(theirs));
    }
    assert_eq!(first, None);
}

#[test]
fn enumerations_are_cut_between_tables() {
    let dictionary = loaded();
    let (mut next, mut received, mut parts) = (Some(0), Dictionary::new(), 0);
    while let Some(first) = next {
        let mut buffer = [0; 230];
        let mut writer = Writer::new(&mut buffer);
        next = dictionary.encode_enums(&mut writer, Verbosity::Normal, first).expect("room for one");
        let part = writer.finish().expect("it stopped in time");
        assert_eq!(dictionary_kind(part), Ok(Some(DictionaryKind::Enums)));
        received.decode_enums(part).expect("whole tables");
        parts += 1;
    }
    assert_eq!(parts, 2);
    received.load_fields(FIELDS).expect("well written");
    assert_eq!(content(&received), content(&dictionary));
}

#[test]
fn a_part_without_room_for_one_entry_says_how_much_it_needs() {
    let dictionary = loaded();
    let mut buffer = [0; 100];
    let mut writer = Writer::new(&mut buffer);
    let refused = dictionary.encode_fields(&mut writer, Verbosity::Normal, None);
    let Err(EncodeError::BufferTooSmall { need_bytes, have_bytes: 100 }) = refused else {
        panic!("{refused:?}")
    };
    let mut buffer = vec![0; need_bytes as usize];
    let mut writer = Writer::new(&mut buffer);
    assert_eq!(dictionary.encode_fields(&mut writer, Verbosity::Normal, None), Ok(Some(-13)));
    assert_eq!(writer.finish().expect("one entry").len(), need_bytes as usize);
}

#[test]
fn each_verbosity_has_its_columns() {
    let dictionary = loaded();
    let received = |verbosity| {
        let mut received = Dictionary::new();
        let fields = whole(|w| assert_eq!(dictionary.encode_fields(w, verbosity, None), Ok(None)));
        received.decode_fields(&fields).expect("written");
        let enums = whole(|w| assert_eq!(dictionary.encode_enums(w, verbosity, 0), Ok(None)));
        received.decode_enums(&enums).expect("written");
        assert_eq!(Series::parse(&fields).expect("written").total_count_hint, Some(47));
        assert_eq!(received.info(), dictionary.info());
        received
    };
    let info = received(Verbosity::Info);
    assert_eq!((info.field_count(), info.enum_tables().len()), (0, 0));

    let minimal = received(Verbosity::Minimal);
    let exchange = minimal.field(4).expect("served");
    assert_eq!((exchange.data_type, exchange.enum_length, &*exchange.dde_acronym), (DataType::ENUM, 0, ""));
    assert_eq!(minimal.field(6).and_then(|field| field.ripples_to), Some(7));

    let normal = received(Verbosity::Normal);
    assert_eq!(content(&normal), content(&dictionary));
    let meaning = |dictionary: &Dictionary| {
        let value = dictionary.enum_table(4).and_then(|table| table.get(43)).expect("served");
        value.meaning.to_string()
    };
    assert_eq!(meaning(&normal), "");
    assert_eq!(meaning(&received(Verbosity::Verbose)), "exchange Q");

    for (filter, verbosity) in
        [(0, Verbosity::Info), (3, Verbosity::Minimal), (7, Verbosity::Normal), (15, Verbosity::Verbose)]
    {
        assert_eq!((Verbosity::from_filter(filter), verbosity as u32), (verbosity, filter));
    }
}

#[test]
fn displays_beyond_ascii_travel_as_rmtes_strings() {
    let mut dictionary = Dictionary::new();
    dictionary.load_fields(include_bytes!("vectors/RDMFieldDictionary")).expect("well written");
    dictionary.load_enums(include_bytes!("vectors/enumtype.def")).expect("well written");
    assert_eq!((dictionary.field_count(), dictionary.enum_tables().len()), (69, 5));
    assert_eq!(
        dictionary.field_by_name("X_ELEMS").map(|field| field.data_type),
        Some(DataType::ELEMENT_LIST)
    );
    let payload = whole(|w| assert_eq!(dictionary.encode_enums(w, Verbosity::Normal, 0), Ok(None)));
    let mut received = Dictionary::new();
    received.decode_enums(&payload).expect("written");
    for (id, value, display) in [(14, 1, &[0xDE][..]), (115, 2, &[0xFE]), (4, 1500, b"X1K"), (-111, 3, b"3 ")]
    {
        assert_eq!(received.enum_display(id, value), Some(display));
    }
}

/// A field as standard data, changed by `change`.
fn standard_entry(change: impl Fn(&mut ElementListWriter<'_, '_, '_>)) -> Vec<u8> {
    encode_to_vec(|w| {
        w.series(&SeriesHead::new(DataType::ELEMENT_LIST), |s| {
            s.entry(|w| {
                w.element_list(|e| {
                    e.put("NAME", AsciiString(b"BID"));
                    e.put("RWFTYPE", 8u64);
                    e.put("MadeUp", 1u64);
                    change(e);
                });
            });
        });
    })
    .expect("small")
}

#[test]
fn entries_may_be_standard_data_and_have_columns_nobody_knows() {
    let mut dictionary = Dictionary::new();
    assert_eq!(dictionary.decode_fields(&standard_entry(|e| e.put("FID", 22i64))), Ok(1));
    assert_eq!(dictionary.data_type(22), DataType::REAL);
}

#[test]
fn an_entry_that_lacks_or_spoils_a_column_is_refused_by_name() {
    let refused = |payload: &[u8]| Dictionary::new().decode_fields(payload).expect_err("spoilt");
    assert_eq!(
        refused(&standard_entry(|_| ())),
        DictionaryDecodeError::MissingColumn { entry: 0, column: "FID" }
    );
    let bad = |column, data_type| DictionaryDecodeError::BadColumn { entry: 0, column, data_type };
    assert_eq!(refused(&standard_entry(|e| e.put("FID", 22u64))), bad("FID", DataType::UINT));
    assert_eq!(refused(&standard_entry(|e| e.put("FID", 40_000i64))), bad("FID", DataType::INT));
    assert_eq!(refused(&standard_entry(|e| e.put("FID", None::<i64>))), bad("FID", DataType::INT));
    assert_eq!(
        refused(&standard_entry(|e| e.put("NAME", AsciiString(&[0xFF])))),
        bad("NAME", DataType::ASCII_STRING)
    );
    assert_eq!(
        refused(&standard_entry(|e| e.put("FID", 0i64))),
        DictionaryDecodeError::Contradicts(DictionaryError::ReservedFieldId)
    );
    let container_type = DataType::FIELD_LIST;
    let other = encode_to_vec(|w| w.series(&SeriesHead::new(container_type), |_| ())).expect("small");
    assert_eq!(refused(&other), DictionaryDecodeError::NotElementLists { container_type });
}

#[test]
fn the_other_dictionary_and_another_id_are_refused() {
    let recorded = recorded("plain");
    let mut dictionary = Dictionary::new();
    let enums = refresh(&recorded.enums).payload;
    assert_eq!(dictionary.decode_fields(enums), Err(DictionaryDecodeError::OtherKind { kind: 2 }));
    dictionary.info_mut().dictionary_id = 2;
    let mismatch = DictionaryError::DictionaryIdMismatch { id: 1, known: 2 };
    assert_eq!(dictionary.decode_enums(enums), Err(DictionaryDecodeError::Contradicts(mismatch)));
}

#[test]
fn a_part_received_twice_is_refused() {
    let recorded = recorded("plain");
    let mut dictionary = downloaded(&recorded);
    let again = dictionary.decode_fields(refresh(&recorded.fields[0]).payload);
    let duplicate = DictionaryError::DuplicateFieldId { id: -14 };
    assert_eq!(again, Err(DictionaryDecodeError::Contradicts(duplicate)));
}

#[test]
fn arrays_of_different_length_are_refused() {
    let payload = encode_to_vec(|w| {
        w.series(&SeriesHead::new(DataType::ELEMENT_LIST), |s| {
            s.entry(|w| {
                w.element_list(|e| {
                    e.array("FIDS", DataType::INT, 2, |a| a.put(4i64));
                    e.array("VALUE", DataType::ENUM, 0, |a| a.put(tickcast_rwf::Enum(1)));
                    e.array("DISPLAY", DataType::ASCII_STRING, 0, |_| ());
                });
            });
        });
    })
    .expect("small");
    let unequal = DictionaryDecodeError::UnequalColumns { entry: 0, values: 1, texts: 0 };
    assert_eq!(Dictionary::new().decode_enums(&payload), Err(unequal));
}

#[test]
fn every_cut_and_every_changed_byte_of_a_recorded_dictionary_ends_with_a_result() {
    let recorded = recorded("plain");
    let (fields, enums) = (refresh(&recorded.fields[0]).payload, refresh(&recorded.enums).payload);
    let mut dictionary = Dictionary::new();
    for length in 0..fields.len() {
        dictionary = Dictionary::new();
        assert!(dictionary.decode_fields(&fields[..length]).is_err(), "cut at {length}");
    }
    assert_eq!(dictionary.field_count(), 46, "all but the one that was cut");
    for at in 0..enums.len() {
        let mut changed = enums.to_vec();
        for wrong in [0, 0x7F, 0x80, 0xFE, 0xFF] {
            changed[at] = wrong;
            let _: Result<usize, DictionaryDecodeError> = Dictionary::new().decode_enums(&changed);
        }
    }
}
