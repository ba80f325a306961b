//! The structures that `decoded` describes, encoded: nothing is taken from a vector's bytes but the length of
//! a blank that has several forms.
//!
//! Texts and bytes are leaked, so that messages can borrow them.

use serde_json::Value as Json;
use tickcast_rwf::{
    Array, AsciiString, Blank, Buffer, DataState, DataType, Date, DateTime, ElementListHead,
    ElementListWriter, ElementSetDef, ElementSetEntry, EncodeError, Encoded, Enum, FieldListHead,
    FieldListInfo, FieldListWriter, FieldSetDef, FieldSetEntry, FilterAction, FixedForm, Hint, MapAction,
    MapHead, Primitive, Qos, Rate, Real, RmtesString, SeriesHead, SetDefinitions, SetHead, State, StateCode,
    StreamState, Time, Timeliness, Utf8String, Value, VectorAction, VectorHead, Writer, encode_to_vec,
};

use super::golden::{Kind, hex, text};
use message::message;

#[path = "build_message.rs"]
mod message;

/// The definitions that apply to the lists of a container.
#[derive(Clone, Copy, Default)]
struct Sets {
    fields: &'static [FieldSetDef<'static>],
    elements: &'static [ElementSetDef<'static>],
}

/// Does the same with a value and with a blank that is encoded already.
macro_rules! with_value {
    ($json:expr, $value:ident => $put:expr) => {
        match blank_form($json) {
            Some($value) => $put,
            None => {
                let $value = value_of($json);
                $put
            }
        }
    };
}

/// The same in set data, where a fixed type says the form of its blank.
macro_rules! with_set_value {
    ($set_type:expr, $json:expr, $value:ident => $put:expr) => {
        match blank_form($json).filter(|_| FixedForm::of($set_type).is_none()) {
            Some($value) => $put,
            None => {
                let $value = value_of($json);
                $put
            }
        }
    };
}

/// The bytes of what `decoded` describes.
pub(crate) fn case(kind: Kind, decoded: &Json) -> Result<Vec<u8>, EncodeError> {
    match kind {
        Kind::Content(_) => encode_to_vec(|w| with_value!(decoded, value => value.put_content(w))),
        Kind::SetValue(data_type) => set_value(data_type, decoded),
        Kind::Container(_) => encode_to_vec(|w| container(decoded, Sets::default(), w)),
        Kind::Message => encode_to_vec(|w| message(decoded, w)),
    }
}

/// A value as it stands in set data: encoded as the only value of a field list with a definition for it.
fn set_value(data_type: DataType, decoded: &Json) -> Result<Vec<u8>, EncodeError> {
    let entries = [FieldSetEntry { id: 1, data_type }];
    let head = FieldListHead { info: None, set: Some(SetHead { explicit_id: None, entries: &entries }) };
    let list = encode_to_vec(|w| {
        w.field_list_with(&head, |f| match type_named(&decoded["type"]) {
            data_type if data_type.is_container() => {
                f.put_set_nested(|w| maybe_container(&decoded["value"], Sets::default(), w));
            }
            _ => with_set_value!(data_type, decoded, value => f.put_set(value)),
        });
    })?;
    Ok(list[1..].to_vec())
}

fn leak(bytes: Vec<u8>) -> &'static [u8] {
    Vec::leak(bytes)
}

fn leaked_hex(json: &Json) -> Option<&'static [u8]> {
    json.as_str().map(|text| leak(hex(text)))
}

fn leaked_text(json: &Json) -> Option<&'static [u8]> {
    json.as_str().map(|text| leak(text.as_bytes().to_vec()))
}

fn number<T: TryFrom<i128>>(json: &Json) -> T {
    maybe_number(json).unwrap_or_else(|| panic!("not a number of that size: {json}"))
}

fn maybe_number<T: TryFrom<i128>>(json: &Json) -> Option<T> {
    let number = json.as_i64().map(i128::from).or_else(|| json.as_u64().map(i128::from))?;
    T::try_from(number).ok()
}

fn type_named(json: &Json) -> DataType {
    DataType::from_name(text(json)).unwrap_or_else(|| panic!("no type {json}"))
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or_else(|| panic!("not a list: {json}"), Vec::as_slice)
}

fn has_flag(json: &Json, name: &str) -> bool {
    list(&json["flags"]).iter().any(|flag| flag == name)
}

/// A value that is not a container.
fn value_of(json: &Json) -> Value<'static> {
    let data_type = type_named(&json["type"]);
    let value = &json["value"];
    match data_type {
        _ if json["blank"] == true => Value::Blank(data_type),
        DataType::ARRAY => {
            let array = leak(encode_to_vec(|w| array(value, w)).expect("an array of the vectors"));
            Value::Array(Array::parse(array).expect("it was just written"))
        }
        _ => primitive(data_type, value),
    }
}

/// The content of a blank that is not the empty one: dates and times have one for each of their lengths,
/// reals one byte.
fn blank_form(json: &Json) -> Option<Encoded<'static>> {
    let length = json["hex"].as_str().map_or(0, |hex| hex.len() / 2);
    if json["blank"] != true || length == 0 {
        return None;
    }
    let data_type = type_named(&json["type"]);
    let form = match data_type {
        DataType::DATE | DataType::TIME | DataType::DATETIME => FixedForm::Width(length),
        DataType::REAL => FixedForm::Real4Rb,
        _ => return None,
    };
    let content =
        leak(encode_to_vec(|w| Blank(data_type).put_fixed(form, w)).expect("a blank of that length"));
    Some(Encoded { data_type, content })
}

fn primitive(data_type: DataType, value: &Json) -> Value<'static> {
    let text = || leaked_text(&value["text"]).unwrap_or_else(|| panic!("no text: {value}"));
    match data_type {
        DataType::INT => Value::Int(number(value)),
        DataType::UINT => Value::UInt(number(value)),
        DataType::FLOAT => Value::Float(f32::from_bits(bits(value) as u32)),
        DataType::DOUBLE => Value::Double(f64::from_bits(bits(value))),
        DataType::REAL => Value::Real(real(value)),
        DataType::DATE => Value::Date(date(value)),
        DataType::TIME => Value::Time(time(value)),
        DataType::DATETIME => Value::DateTime(DateTime { date: date(value), time: time(value) }),
        DataType::QOS => Value::Qos(qos(value)),
        DataType::STATE => Value::State(state(value)),
        DataType::ENUM => Value::Enum(Enum(number(value))),
        DataType::BUFFER => {
            Value::Buffer(Buffer(leaked_hex(&value["hex"]).expect("buffers are hexadecimal")))
        }
        DataType::ASCII_STRING => Value::Ascii(AsciiString(text())),
        DataType::UTF8_STRING => Value::Utf8(Utf8String(text())),
        DataType::RMTES_STRING => Value::Rmtes(RmtesString(rmtes(text()))),
        other => panic!("no primitive: {other}"),
    }
}

fn bits(value: &Json) -> u64 {
    u64::from_str_radix(text(&value["bits"]), 16).expect("bits are hexadecimal")
}

fn real(value: &Json) -> Real {
    match number::<u8>(&value["hint"]) {
        33 => Real::Infinity,
        34 => Real::NegativeInfinity,
        35 => Real::NotANumber,
        hint => Real::new(number(&value["mantissa"]), Hint::new(hint).expect("a legal hint")),
    }
}

fn date(value: &Json) -> Date {
    Date { day: number(&value["day"]), month: number(&value["month"]), year: number(&value["year"]) }
}

fn time(value: &Json) -> Time {
    Time {
        hour: number(&value["hour"]),
        minute: number(&value["minute"]),
        second: number(&value["second"]),
        millisecond: number(&value["ms"]),
        microsecond: number(&value["us"]),
        nanosecond: number(&value["ns"]),
    }
}

fn qos(value: &Json) -> Qos {
    Qos {
        timeliness: match number(&value["timeliness"]) {
            1 => Timeliness::RealTime,
            2 => Timeliness::DelayedUnknown,
            3 => Timeliness::Delayed(number(&value["time_info"])),
            other => panic!("timeliness {other}"),
        },
        rate: match number(&value["rate"]) {
            1 => Rate::TickByTick,
            2 => Rate::JustInTimeConflated,
            3 => Rate::TimeConflated(number(&value["rate_info"])),
            other => panic!("rate {other}"),
        },
        dynamic: value["dynamic"] == true,
    }
}

fn state(value: &Json) -> State<'static> {
    State {
        stream: match number(&value["stream"]) {
            1 => StreamState::Open,
            2 => StreamState::NonStreaming,
            3 => StreamState::ClosedRecover,
            4 => StreamState::Closed,
            5 => StreamState::Redirected,
            other => panic!("stream state {other}"),
        },
        data: match number(&value["data"]) {
            0 => DataState::NoChange,
            1 => DataState::Ok,
            2 => DataState::Suspect,
            other => panic!("data state {other}"),
        },
        code: StateCode(number(&value["code"])),
        text: leaked_text(&value["text"]).expect("a state has a text"),
    }
}

/// What is not ASCII goes behind the escape for UTF-8.
fn rmtes(text: &'static [u8]) -> &'static [u8] {
    if text.is_ascii() { text } else { leak([b"\x1b%0", text].concat()) }
}

fn array(value: &Json, w: &mut Writer<'_>) {
    w.array(type_named(&value["item_type"]), number(&value["item_length"]), |a| {
        for item in list(&value["items"]) {
            match number(&value["item_length"]) {
                0u16 => with_value!(item, value => a.put(value)),
                _ => a.put(value_of(item)),
            }
        }
    });
}

/// A container, or nothing where the vectors say that there is none.
fn maybe_container(json: &Json, sets: Sets, w: &mut Writer<'_>) {
    if !json.is_null() {
        container(json, sets, w);
    }
}

fn container(json: &Json, sets: Sets, w: &mut Writer<'_>) {
    if json.get("msg_class").is_some() {
        return message(json, w);
    }
    match type_named(&json["container"]) {
        DataType::FIELD_LIST => field_list(json, sets, w),
        DataType::ELEMENT_LIST => element_list(json, sets, w),
        DataType::FILTER_LIST => filter_list(json, w),
        DataType::MAP => map(json, w),
        DataType::SERIES => series(json, w),
        DataType::VECTOR => vector(json, w),
        _ => w.bytes(leaked_hex(&json["hex"]).or_else(|| leaked_text(&json["text"])).expect("hex or text")),
    }
}

/// The definition that a list's set data follows, and its id if it is written; `None` without set data.
fn set_of<E: Copy>(json: &Json, defs: &[(u16, &'static [E])]) -> Option<(Option<u16>, Option<&'static [E]>)> {
    if !has_flag(json, "HAS_SET_DATA") {
        return None;
    }
    let explicit_id = maybe_number(&json["set_id"]);
    let id = explicit_id.unwrap_or(0);
    Some((explicit_id, defs.iter().find(|(known, _)| *known == id).map(|(_, entries)| *entries)))
}

fn field_list(json: &Json, sets: Sets, w: &mut Writer<'_>) {
    let defs: Vec<_> = sets.fields.iter().map(|def| (def.id, def.entries)).collect();
    let set = set_of(json, &defs);
    let entries_of = |entries: Option<&'static [FieldSetEntry]>| entries.unwrap_or(&[]);
    let head = FieldListHead {
        info: has_flag(json, "HAS_INFO").then(|| FieldListInfo {
            dictionary_id: number(&json["dictionary_id"]),
            list_number: number(&json["field_list_num"]),
        }),
        set: set.map(|(explicit_id, entries)| SetHead { explicit_id, entries: entries_of(entries) }),
    };
    let in_set = head.set.map_or(&[][..], |set| set.entries);
    w.field_list_with(&head, |f| {
        if matches!(set, Some((_, None))) {
            f.put_set_encoded(leaked_hex(&json["set_data_hex"]).expect("set data is hexadecimal"));
        }
        let (set_entries, standard) = list(&json["entries"]).split_at(in_set.len());
        for (entry, definition) in set_entries.iter().zip(in_set) {
            assert_eq!(number::<i16>(&entry["fid"]), definition.id);
            put_set_field(f, definition.data_type, entry);
        }
        if has_flag(json, "HAS_STANDARD_DATA") {
            f.begin_standard();
        }
        for entry in standard {
            put_field(f, entry);
        }
    });
}

fn put_set_field(f: &mut FieldListWriter<'_, '_, '_>, set_type: DataType, entry: &Json) {
    if set_type.is_container() {
        f.put_set_nested(|w| maybe_container(&entry["value"], Sets::default(), w));
    } else {
        with_set_value!(set_type, entry, value => f.put_set(value));
    }
}

/// A field whose type the vectors do not say has nothing but its bytes.
fn put_field(f: &mut FieldListWriter<'_, '_, '_>, entry: &Json) {
    let id: i16 = number(&entry["fid"]);
    match entry["type"].as_str().map(|_| type_named(&entry["type"])) {
        None => f.encoded(id, leaked_hex(&entry["hex"]).expect("bytes are hexadecimal")),
        Some(data_type) if data_type.is_container() => {
            f.container(id, |w| maybe_container(&entry["value"], Sets::default(), w));
        }
        Some(_) => with_value!(entry, value => f.put(id, value)),
    }
}

fn element_list(json: &Json, sets: Sets, w: &mut Writer<'_>) {
    let defs: Vec<_> = sets.elements.iter().map(|def| (def.id, def.entries)).collect();
    let set = set_of(json, &defs);
    let head = ElementListHead {
        list_number: maybe_number(&json["element_list_num"]),
        set: set.map(|(explicit_id, entries)| SetHead { explicit_id, entries: entries.unwrap_or(&[]) }),
    };
    let in_set = head.set.map_or(&[][..], |set| set.entries);
    w.element_list_with(&head, |e| {
        if matches!(set, Some((_, None))) {
            e.put_set_encoded(leaked_hex(&json["set_data_hex"]).expect("set data is hexadecimal"));
        }
        let (set_entries, standard) = list(&json["entries"]).split_at(in_set.len());
        for (entry, definition) in set_entries.iter().zip(in_set) {
            assert_eq!(text(&entry["name"]).as_bytes(), definition.name);
            put_set_element(e, definition.data_type, entry);
        }
        if has_flag(json, "HAS_STANDARD_DATA") {
            e.begin_standard();
        }
        for entry in standard {
            put_element(e, entry);
        }
    });
}

fn put_set_element(e: &mut ElementListWriter<'_, '_, '_>, set_type: DataType, entry: &Json) {
    if set_type.is_container() {
        e.put_set_nested(|w| maybe_container(&entry["value"], Sets::default(), w));
    } else {
        with_set_value!(set_type, entry, value => e.put_set(value));
    }
}

fn put_element(e: &mut ElementListWriter<'_, '_, '_>, entry: &Json) {
    let name = text(&entry["name"]);
    match type_named(&entry["type"]) {
        DataType::NO_DATA => e.no_data(name),
        data_type if data_type.is_container() => {
            e.container(name, data_type, |w| maybe_container(&entry["value"], Sets::default(), w));
        }
        _ => with_value!(entry, value => e.put(name, value)),
    }
}

fn filter_list(json: &Json, w: &mut Writer<'_>) {
    let hint = maybe_number(&json["total_count_hint"]);
    w.filter_list(type_named(&json["container_type"]), hint, |f| {
        for entry in list(&json["entries"]) {
            let action = match number(&entry["action"]) {
                1 => FilterAction::Update,
                2 => FilterAction::Set,
                3 => FilterAction::Clear,
                other => panic!("filter action {other}"),
            };
            let explicit_type =
                has_flag(entry, "HAS_CONTAINER_TYPE").then(|| type_named(&entry["container_type"]));
            let permission_data = leaked_hex(&entry["perm_data"]);
            f.entry_with(action, number(&entry["id"]), explicit_type, permission_data, |w| {
                maybe_container(&entry["value"], Sets::default(), w);
            });
        }
    });
}

fn sets_of(json: &Json) -> Sets {
    let mut sets = Sets::default();
    let Some(defs) = json["set_defs"].as_array() else { return sets };
    let id = |def: &Json| number(&def["set_id"]);
    let type_of = |entry: &Json| DataType(number(&entry["type_num"]));
    match type_named(&json["container_type"]) {
        DataType::FIELD_LIST => {
            let entry = |entry: &Json| FieldSetEntry { id: number(&entry["fid"]), data_type: type_of(entry) };
            let entries = |def: &Json| Vec::leak(list(&def["entries"]).iter().map(entry).collect());
            sets.fields = Vec::leak(
                defs.iter().map(|def| FieldSetDef { id: id(def), entries: entries(def) }).collect(),
            );
        }
        _ => {
            let name = |entry: &Json| leaked_text(&entry["name"]).expect("elements have names");
            let entry = |entry: &Json| ElementSetEntry { name: name(entry), data_type: type_of(entry) };
            let entries = |def: &Json| Vec::leak(list(&def["entries"]).iter().map(entry).collect());
            sets.elements = Vec::leak(
                defs.iter().map(|def| ElementSetDef { id: id(def), entries: entries(def) }).collect(),
            );
        }
    }
    sets
}

fn set_definitions(json: &Json, sets: Sets) -> Option<SetDefinitions<'static>> {
    json["set_defs"].as_array().map(|_| match type_named(&json["container_type"]) {
        DataType::FIELD_LIST => SetDefinitions::Fields(sets.fields),
        _ => SetDefinitions::Elements(sets.elements),
    })
}

fn map(json: &Json, w: &mut Writer<'_>) {
    let sets = sets_of(json);
    let head = MapHead {
        key_type: type_named(&json["key_type"]),
        container_type: type_named(&json["container_type"]),
        key_field_id: maybe_number(&json["key_field_id"]),
        total_count_hint: maybe_number(&json["total_count_hint"]),
        set_definitions: set_definitions(json, sets),
    };
    w.map(&head, |m| {
        if let Some(summary) = json.get("summary") {
            m.summary(|w| maybe_container(summary, sets, w));
        }
        for entry in list(&json["entries"]) {
            let action = match number(&entry["action"]) {
                1 => MapAction::Update,
                2 => MapAction::Add,
                3 => MapAction::Delete,
                other => panic!("map action {other}"),
            };
            let key = value_of(&entry["key"]);
            m.entry(action, key, leaked_hex(&entry["perm_data"]), |w| {
                maybe_container(&entry["value"], sets, w)
            });
        }
    });
}

fn series(json: &Json, w: &mut Writer<'_>) {
    let sets = sets_of(json);
    let head = SeriesHead {
        container_type: type_named(&json["container_type"]),
        total_count_hint: maybe_number(&json["total_count_hint"]),
        set_definitions: set_definitions(json, sets),
    };
    w.series(&head, |s| {
        if let Some(summary) = json.get("summary") {
            s.summary(|w| maybe_container(summary, sets, w));
        }
        for entry in list(&json["entries"]) {
            s.entry(|w| maybe_container(entry, sets, w));
        }
    });
}

fn vector(json: &Json, w: &mut Writer<'_>) {
    let sets = sets_of(json);
    let head = VectorHead {
        container_type: type_named(&json["container_type"]),
        total_count_hint: maybe_number(&json["total_count_hint"]),
        supports_sorting: has_flag(json, "SUPPORTS_SORTING"),
        set_definitions: set_definitions(json, sets),
    };
    w.vector(&head, |v| {
        if let Some(summary) = json.get("summary") {
            v.summary(|w| maybe_container(summary, sets, w));
        }
        for entry in list(&json["entries"]) {
            let action = match number(&entry["action"]) {
                1 => VectorAction::Update,
                2 => VectorAction::Set,
                3 => VectorAction::Clear,
                4 => VectorAction::Insert,
                5 => VectorAction::Delete,
                other => panic!("vector action {other}"),
            };
            let permission_data = leaked_hex(&entry["perm_data"]);
            v.entry(action, number(&entry["index"]), permission_data, |w| {
                maybe_container(&entry["value"], sets, w);
            });
        }
    });
}
