//! Decoded bytes in the terms of the golden vectors: every member that `decoded` has.

use serde_json::{Map as JsonMap, Value as Json, json};
use tickcast_rwf::dictionary::Dictionary;
use tickcast_rwf::{
    AckMsg, Array, CloseMsg, DataType, Date, DecodeError, ElementList, ElementSetDefs, FieldList,
    FieldSetDefs, FilterList, GenericMsg, Key, Map, Msg, PostMsg, PostUserInfo, Qos, Rate, Real, RefreshMsg,
    RequestMsg, Series, State, StatusMsg, Time, Timeliness, UpdateMsg, Value, Vector, peek,
};

use super::{Kind, to_hex};

type Result<T> = std::result::Result<T, DecodeError>;
type Object = JsonMap<String, Json>;

/// The definitions that apply to the lists of a container.
#[derive(Clone, Copy, Default)]
struct Sets<'s, 'a> {
    fields: Option<&'s FieldSetDefs<'a>>,
    elements: Option<&'s ElementSetDefs<'a>>,
}

/// What the bytes of a case decode to.
pub(crate) fn case(kind: Kind, bytes: &[u8], dictionary: &Dictionary) -> Result<Json> {
    match kind {
        Kind::Content(data_type) => Ok(Json::Object(content(data_type, bytes, dictionary)?)),
        Kind::SetValue(data_type) => set_value(data_type, bytes, dictionary),
        Kind::Container(data_type) => container(data_type, bytes, dictionary, Sets::default()),
        Kind::Message => message(bytes, dictionary),
    }
}

/// A value as it stands in set data: decoded as the only value of a field list with a definition for it.
fn set_value(data_type: DataType, bytes: &[u8], dictionary: &Dictionary) -> Result<Json> {
    let definition = [0, 1, 0, 1, 0, 1, data_type.0];
    let list = [&[2], bytes].concat();
    let definitions = FieldSetDefs::parse(&definition)?;
    let list = FieldList::parse(&list)?;
    let entries: Vec<_> = list.set_entries(&definitions).collect::<Result<_>>()?;
    Ok(Json::Object(content(entries[0].set_type, entries[0].content, dictionary)?))
}

fn content(data_type: DataType, bytes: &[u8], dictionary: &Dictionary) -> Result<Object> {
    let mut object = Object::new();
    object.insert("type".into(), json!(data_type.base().to_string()));
    object.insert("hex".into(), json!(to_hex(bytes)));
    if data_type.is_container() {
        let value = match bytes {
            [] => Json::Null,
            bytes => container(data_type, bytes, dictionary, Sets::default())?,
        };
        object.insert("value".into(), value);
        return Ok(object);
    }
    let value = Value::decode(data_type, bytes)?;
    if value.is_blank() {
        object.insert("blank".into(), json!(true));
    }
    if !(value.is_blank() && data_type == DataType::ARRAY) {
        object.insert("value".into(), primitive(&value)?);
    }
    Ok(object)
}

fn primitive(value: &Value<'_>) -> Result<Json> {
    Ok(match value {
        Value::Blank(_) => Json::Null,
        Value::Int(number) => json!(number),
        Value::UInt(number) => json!(number),
        Value::Float(float) => json!({ "bits": format!("{:08x}", float.to_bits()) }),
        Value::Double(double) => json!({ "bits": format!("{:016x}", double.to_bits()) }),
        Value::Real(Real::Finite { mantissa, hint }) => {
            json!({ "hint": hint.number(), "mantissa": mantissa })
        }
        Value::Real(Real::Infinity) => json!({ "hint": 33 }),
        Value::Real(Real::NegativeInfinity) => json!({ "hint": 34 }),
        Value::Real(Real::NotANumber) => json!({ "hint": 35 }),
        Value::Date(date) => Json::Object(self::date(date)),
        Value::Time(time) => Json::Object(self::time(time)),
        Value::DateTime(value) => {
            Json::Object(date(&value.date).into_iter().chain(time(&value.time)).collect())
        }
        Value::Qos(qos) => self::qos(qos),
        Value::State(state) => self::state(state),
        Value::Enum(value) => json!(value.0),
        Value::Array(array) => self::array(array)?,
        Value::Buffer(bytes) => json!({ "hex": to_hex(bytes.0) }),
        Value::Ascii(text) => json!({ "text": lossy(text.0) }),
        Value::Utf8(text) => json!({ "text": text.as_str().map_or_else(|_| lossy(text.0), str::to_owned) }),
        Value::Rmtes(text) => json!({ "text": text.text()? }),
        other => panic!("a value this test does not know: {other:?}"),
    })
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn date(date: &Date) -> Object {
    object(json!({ "day": date.day, "month": date.month, "year": date.year }))
}

fn time(time: &Time) -> Object {
    object(json!({
        "hour": time.hour, "minute": time.minute, "second": time.second,
        "ms": time.millisecond, "us": time.microsecond, "ns": time.nanosecond,
    }))
}

fn qos(qos: &Qos) -> Json {
    let (timeliness, time_info) = match qos.timeliness {
        Timeliness::RealTime => (1, 0),
        Timeliness::DelayedUnknown => (2, 0),
        Timeliness::Delayed(info) => (3, info),
    };
    let (rate, rate_info) = match qos.rate {
        Rate::TickByTick => (1, 0),
        Rate::JustInTimeConflated => (2, 0),
        Rate::TimeConflated(info) => (3, info),
    };
    json!({
        "timeliness": timeliness, "rate": rate, "dynamic": qos.dynamic,
        "time_info": time_info, "rate_info": rate_info,
    })
}

fn state(state: &State<'_>) -> Json {
    json!({
        "stream": state.stream as u8, "data": state.data as u8,
        "code": state.code.0, "text": state.text_lossy(),
    })
}

fn array(array: &Array<'_>) -> Result<Json> {
    let items =
        array.items().map(|item| Ok(Json::Object(content(array.item_type, item?, &Dictionary::new())?)));
    Ok(json!({
        "item_type": array.item_type.to_string(), "item_length": array.item_length,
        "items": items.collect::<Result<Vec<_>>>()?,
    }))
}

fn object(json: Json) -> Object {
    match json {
        Json::Object(object) => object,
        other => panic!("not an object: {other}"),
    }
}

fn insert_some(object: &mut Object, name: &str, value: Option<impl Into<Json>>) {
    if let Some(value) = value {
        object.insert(name.into(), value.into());
    }
}

/// The names of those flags that are set.
fn flags(named: &[(bool, &str)]) -> Json {
    named.iter().filter(|(set, _)| *set).map(|(_, name)| json!(name)).collect()
}

/// A container that may be empty where its type alone is given.
fn maybe_empty(
    data_type: DataType,
    bytes: &[u8],
    dictionary: &Dictionary,
    sets: Sets<'_, '_>,
) -> Result<Json> {
    if bytes.is_empty() { Ok(Json::Null) } else { container(data_type, bytes, dictionary, sets) }
}

fn container(data_type: DataType, bytes: &[u8], dictionary: &Dictionary, sets: Sets<'_, '_>) -> Result<Json> {
    let mut object = match data_type {
        DataType::FIELD_LIST => field_list(bytes, dictionary, sets)?,
        DataType::ELEMENT_LIST => element_list(bytes, dictionary, sets)?,
        DataType::FILTER_LIST => filter_list(bytes, dictionary)?,
        DataType::MAP => map(bytes, dictionary)?,
        DataType::SERIES => series(bytes, dictionary)?,
        DataType::VECTOR => vector(bytes, dictionary)?,
        DataType::MSG => return message(bytes, dictionary),
        DataType::XML | DataType::JSON => self::object(json!({ "text": lossy(bytes) })),
        _ => self::object(json!({ "hex": to_hex(bytes) })),
    };
    object.insert("container".into(), json!(data_type.to_string()));
    Ok(Json::Object(object))
}

fn field_list(bytes: &[u8], dictionary: &Dictionary, sets: Sets<'_, '_>) -> Result<Object> {
    let list = FieldList::parse(bytes)?;
    let mut entries = Vec::new();
    for entry in list.all_entries(sets.fields) {
        let entry = entry?;
        let mut object = match entry.data_type(dictionary) {
            DataType::UNKNOWN => object(json!({ "hex": to_hex(entry.content) })),
            data_type => content(data_type, entry.content, dictionary)?,
        };
        object.insert("fid".into(), json!(entry.id));
        entries.push(Json::Object(object));
    }
    let set = list.set_data.map(|set| set.explicit_id.is_some());
    let flags = list_flags(list.info.is_some(), set, list.has_standard_data());
    let mut object = object(json!({ "flags": flags }));
    insert_some(&mut object, "dictionary_id", list.info.map(|info| info.dictionary_id));
    insert_some(&mut object, "field_list_num", list.info.map(|info| info.list_number));
    if let Some(set) = list.set_data {
        insert_some(&mut object, "set_id", set.explicit_id);
        object.insert("set_data_hex".into(), json!(to_hex(set.bytes)));
        object.insert(
            "set_decoded".into(),
            json!(sets.fields.is_some_and(|defs| defs.get(set.id()).is_some())),
        );
    }
    object.insert("entries".into(), json!(entries));
    Ok(object)
}

fn list_flags(info: bool, set: Option<bool>, standard: bool) -> Json {
    flags(&[
        (info, "HAS_INFO"),
        (set.is_some(), "HAS_SET_DATA"),
        (set == Some(true), "HAS_SET_ID"),
        (standard, "HAS_STANDARD_DATA"),
    ])
}

fn element_list(bytes: &[u8], dictionary: &Dictionary, sets: Sets<'_, '_>) -> Result<Object> {
    let list = ElementList::parse(bytes)?;
    let mut entries = Vec::new();
    for entry in list.all_entries(sets.elements) {
        let entry = entry?;
        let mut object = content(entry.data_type, entry.content, dictionary)?;
        object.insert("name".into(), json!(entry.name_lossy()));
        entries.push(Json::Object(object));
    }
    let set = list.set_data.map(|set| set.explicit_id.is_some());
    let flags = list_flags(list.list_number.is_some(), set, list.has_standard_data());
    let mut object = object(json!({ "flags": flags }));
    insert_some(&mut object, "element_list_num", list.list_number);
    if let Some(set) = list.set_data {
        insert_some(&mut object, "set_id", set.explicit_id);
        object.insert("set_data_hex".into(), json!(to_hex(set.bytes)));
        object.insert(
            "set_decoded".into(),
            json!(sets.elements.is_some_and(|defs| defs.get(set.id()).is_some())),
        );
    }
    object.insert("entries".into(), json!(entries));
    Ok(object)
}

fn filter_list(bytes: &[u8], dictionary: &Dictionary) -> Result<Object> {
    let list = FilterList::parse(bytes)?;
    let mut entries = Vec::new();
    for entry in list.entries() {
        let entry = entry?;
        let mut object = object(json!({
            "id": entry.id, "action": entry.action as u8,
            "flags": flags(&[
                (entry.permission_data.is_some(), "HAS_PERM_DATA"),
                (entry.explicit_type.is_some(), "HAS_CONTAINER_TYPE"),
            ]),
            "container_type": entry.container_type.to_string(),
        }));
        insert_some(&mut object, "perm_data", entry.permission_data.map(to_hex));
        if let Some(data) = entry.data {
            object.insert(
                "value".into(),
                maybe_empty(entry.container_type, data, dictionary, Sets::default())?,
            );
        }
        entries.push(Json::Object(object));
    }
    let mut object = object(json!({
        "flags": flags(&[
            (list.entry_permission_data, "HAS_PER_ENTRY_PERM_DATA"),
            (list.total_count_hint.is_some(), "HAS_TOTAL_COUNT_HINT"),
        ]),
        "container_type": list.container_type.to_string(), "entries": entries,
    }));
    insert_some(&mut object, "total_count_hint", list.total_count_hint);
    Ok(object)
}

/// Set definitions of a container, parsed as its lists need them, and what the vectors say about them.
struct Definitions<'a> {
    fields: Option<FieldSetDefs<'a>>,
    elements: Option<ElementSetDefs<'a>>,
    bytes: Option<&'a [u8]>,
}

impl<'a> Definitions<'a> {
    fn parse(container_type: DataType, bytes: Option<&'a [u8]>) -> Result<Definitions<'a>> {
        let field_lists = container_type == DataType::FIELD_LIST;
        Ok(Definitions {
            fields: bytes.filter(|_| field_lists).map(FieldSetDefs::parse).transpose()?,
            elements: bytes.filter(|_| !field_lists).map(ElementSetDefs::parse).transpose()?,
            bytes,
        })
    }

    fn sets(&self) -> Sets<'_, 'a> {
        Sets { fields: self.fields.as_ref(), elements: self.elements.as_ref() }
    }

    fn describe(&self, object: &mut Object) {
        let typed = |data_type: DataType| json!({ "type": data_type.to_string(), "type_num": data_type.0 });
        let mut sets = Vec::new();
        for (id, entries) in self.fields.iter().flat_map(|defs| defs.iter()) {
            let entries = entries.map(|entry| merged(typed(entry.data_type), json!({ "fid": entry.id })));
            sets.push(json!({ "set_id": id, "entries": entries.collect::<Vec<_>>() }));
        }
        for (id, entries) in self.elements.iter().flat_map(|defs| defs.iter()) {
            let entries =
                entries.map(|entry| merged(typed(entry.data_type), json!({ "name": lossy(entry.name) })));
            sets.push(json!({ "set_id": id, "entries": entries.collect::<Vec<_>>() }));
        }
        if let Some(bytes) = self.bytes {
            object.insert("set_defs".into(), json!(sets));
            object.insert("set_defs_hex".into(), json!(to_hex(bytes)));
        }
    }
}

fn merged(a: Json, b: Json) -> Json {
    Json::Object(object(a).into_iter().chain(object(b)).collect())
}

fn map(bytes: &[u8], dictionary: &Dictionary) -> Result<Object> {
    let map = Map::parse(bytes)?;
    let definitions = Definitions::parse(map.container_type, map.set_definitions)?;
    let mut entries = Vec::new();
    for entry in map.entries() {
        let entry = entry?;
        let mut object = object(json!({
            "action": entry.action as u8, "key": content(map.key_type, entry.key, dictionary)?,
        }));
        insert_some(&mut object, "perm_data", entry.permission_data.map(to_hex));
        if let Some(data) = entry.data {
            let value = maybe_empty(map.container_type, data, dictionary, definitions.sets())?;
            object.insert("value".into(), value);
        }
        entries.push(Json::Object(object));
    }
    let mut object = object(json!({
        "flags": flags(&[
            (map.set_definitions.is_some(), "HAS_SET_DEFS"),
            (map.summary.is_some(), "HAS_SUMMARY_DATA"),
            (map.entry_permission_data, "HAS_PER_ENTRY_PERM_DATA"),
            (map.total_count_hint.is_some(), "HAS_TOTAL_COUNT_HINT"),
            (map.key_field_id.is_some(), "HAS_KEY_FIELD_ID"),
        ]),
        "key_type": map.key_type.to_string(), "container_type": map.container_type.to_string(),
        "entries": entries,
    }));
    insert_some(&mut object, "key_field_id", map.key_field_id);
    insert_some(&mut object, "total_count_hint", map.total_count_hint);
    definitions.describe(&mut object);
    if let Some(summary) = map.summary {
        let summary = maybe_empty(map.container_type, summary, dictionary, definitions.sets())?;
        object.insert("summary".into(), summary);
    }
    Ok(object)
}

fn series(bytes: &[u8], dictionary: &Dictionary) -> Result<Object> {
    let series = Series::parse(bytes)?;
    let definitions = Definitions::parse(series.container_type, series.set_definitions)?;
    let entries = series
        .entries()
        .map(|entry| maybe_empty(series.container_type, entry?, dictionary, definitions.sets()))
        .collect::<Result<Vec<_>>>()?;
    let mut object = object(json!({
        "flags": flags(&[
            (series.set_definitions.is_some(), "HAS_SET_DEFS"),
            (series.summary.is_some(), "HAS_SUMMARY_DATA"),
            (series.total_count_hint.is_some(), "HAS_TOTAL_COUNT_HINT"),
        ]),
        "container_type": series.container_type.to_string(), "entries": entries,
    }));
    insert_some(&mut object, "total_count_hint", series.total_count_hint);
    definitions.describe(&mut object);
    if let Some(summary) = series.summary {
        let summary = maybe_empty(series.container_type, summary, dictionary, definitions.sets())?;
        object.insert("summary".into(), summary);
    }
    Ok(object)
}

fn vector(bytes: &[u8], dictionary: &Dictionary) -> Result<Object> {
    let vector = Vector::parse(bytes)?;
    let definitions = Definitions::parse(vector.container_type, vector.set_definitions)?;
    let mut entries = Vec::new();
    for entry in vector.entries() {
        let entry = entry?;
        let mut object = object(json!({ "index": entry.index, "action": entry.action as u8 }));
        insert_some(&mut object, "perm_data", entry.permission_data.map(to_hex));
        if let Some(data) = entry.data {
            let value = maybe_empty(vector.container_type, data, dictionary, definitions.sets())?;
            object.insert("value".into(), value);
        }
        entries.push(Json::Object(object));
    }
    let mut object = object(json!({
        "flags": flags(&[
            (vector.set_definitions.is_some(), "HAS_SET_DEFS"),
            (vector.summary.is_some(), "HAS_SUMMARY_DATA"),
            (vector.entry_permission_data, "HAS_PER_ENTRY_PERM_DATA"),
            (vector.total_count_hint.is_some(), "HAS_TOTAL_COUNT_HINT"),
            (vector.supports_sorting, "SUPPORTS_SORTING"),
        ]),
        "container_type": vector.container_type.to_string(), "entries": entries,
    }));
    insert_some(&mut object, "total_count_hint", vector.total_count_hint);
    definitions.describe(&mut object);
    if let Some(summary) = vector.summary {
        let summary = maybe_empty(vector.container_type, summary, dictionary, definitions.sets())?;
        object.insert("summary".into(), summary);
    }
    Ok(object)
}

fn message(bytes: &[u8], dictionary: &Dictionary) -> Result<Json> {
    let head = peek(bytes)?;
    let msg = Msg::parse(bytes)?;
    assert_eq!(
        (head.class, head.domain, head.stream_id, head.container_type, &bytes[head.payload_offset()..]),
        (msg.class(), msg.domain(), msg.stream_id(), msg.container_type(), msg.payload()),
        "the fast path sees another message"
    );
    let mut object = match &msg {
        Msg::Request(m) => request(m, dictionary)?,
        Msg::Refresh(m) => refresh(m, dictionary)?,
        Msg::Status(m) => status(m, dictionary)?,
        Msg::Update(m) => update(m, dictionary)?,
        Msg::Close(m) => close(m),
        Msg::Ack(m) => ack(m, dictionary)?,
        Msg::Generic(m) => generic(m, dictionary)?,
        Msg::Post(m) => post(m, dictionary)?,
    };
    object.extend(self::object(json!({
        "msg_class": format!("{:?}", msg.class()).to_uppercase(), "domain": head.domain.0,
        "stream_id": head.stream_id, "flags_num": head.flags,
        "container_type": head.container_type.to_string(), "header_size": head.header_size,
    })));
    if head.container_type != DataType::NO_DATA {
        let payload = maybe_empty(head.container_type, msg.payload(), dictionary, Sets::default())?;
        object.insert("payload".into(), payload);
    }
    Ok(Json::Object(object))
}

fn key(key: &Key<'_>, dictionary: &Dictionary) -> Result<Json> {
    let mut object = object(json!({ "flags": flags(&[
        (key.service_id.is_some(), "HAS_SERVICE_ID"),
        (key.name.is_some(), "HAS_NAME"),
        (key.name_type.is_some(), "HAS_NAME_TYPE"),
        (key.filter.is_some(), "HAS_FILTER"),
        (key.identifier.is_some(), "HAS_IDENTIFIER"),
        (key.attributes.is_some(), "HAS_ATTRIB"),
    ]) }));
    insert_some(&mut object, "service_id", key.service_id);
    insert_some(&mut object, "name", key.name.map(lossy));
    insert_some(&mut object, "name_type", key.name_type);
    insert_some(&mut object, "filter", key.filter);
    insert_some(&mut object, "identifier", key.identifier);
    if let Some(attributes) = key.attributes {
        object.insert("attrib_type".into(), json!(attributes.container_type.to_string()));
        if attributes.container_type != DataType::NO_DATA {
            let attrib =
                maybe_empty(attributes.container_type, attributes.data, dictionary, Sets::default())?;
            object.insert("attrib".into(), attrib);
        }
    }
    Ok(Json::Object(object))
}

fn insert_key(object: &mut Object, name: &str, key: Option<Key<'_>>, dictionary: &Dictionary) -> Result<()> {
    if let Some(key) = key {
        object.insert(name.into(), self::key(&key, dictionary)?);
    }
    Ok(())
}

fn user(info: PostUserInfo) -> Json {
    json!({ "user_addr": info.address, "user_id": info.user_id })
}

fn request(m: &RequestMsg<'_>, dictionary: &Dictionary) -> Result<Object> {
    let mut object = object(json!({ "flags": flags(&[
        (m.extended_header.is_some(), "HAS_EXTENDED_HEADER"),
        (m.priority.is_some(), "HAS_PRIORITY"),
        (m.streaming, "STREAMING"),
        (m.key_in_updates, "MSG_KEY_IN_UPDATES"),
        (m.conflation_info_in_updates, "CONF_INFO_IN_UPDATES"),
        (m.no_refresh, "NO_REFRESH"),
        (m.qos.is_some(), "HAS_QOS"),
        (m.worst_qos.is_some(), "HAS_WORST_QOS"),
        (m.private_stream, "PRIVATE_STREAM"),
        (m.pause, "PAUSE"),
        (m.view, "HAS_VIEW"),
        (m.batch, "HAS_BATCH"),
        (m.qualified_stream, "QUALIFIED_STREAM"),
    ]), "key": key(&m.key, dictionary)? }));
    insert_some(&mut object, "priority", m.priority.map(|p| json!({ "class": p.class, "count": p.count })));
    insert_some(&mut object, "qos", m.qos.as_ref().map(qos));
    insert_some(&mut object, "worst_qos", m.worst_qos.as_ref().map(qos));
    insert_some(&mut object, "extended_header", m.extended_header.map(to_hex));
    Ok(object)
}

fn refresh(m: &RefreshMsg<'_>, dictionary: &Dictionary) -> Result<Object> {
    let mut object = object(json!({ "flags": flags(&[
        (m.extended_header.is_some(), "HAS_EXTENDED_HEADER"),
        (m.permission_data.is_some(), "HAS_PERM_DATA"),
        (m.key.is_some(), "HAS_MSG_KEY"),
        (m.seq_num.is_some(), "HAS_SEQ_NUM"),
        (m.solicited, "SOLICITED"),
        (m.complete, "REFRESH_COMPLETE"),
        (m.qos.is_some(), "HAS_QOS"),
        (m.clear_cache, "CLEAR_CACHE"),
        (m.do_not_cache, "DO_NOT_CACHE"),
        (m.private_stream, "PRIVATE_STREAM"),
        (m.post_user_info.is_some(), "HAS_POST_USER_INFO"),
        (m.part_num.is_some(), "HAS_PART_NUM"),
        (m.request_key.is_some(), "HAS_REQ_MSG_KEY"),
        (m.qualified_stream, "QUALIFIED_STREAM"),
    ]), "state": state(&m.state), "group_id": to_hex(m.group_id) }));
    insert_some(&mut object, "seq_num", m.seq_num);
    insert_some(&mut object, "perm_data", m.permission_data.map(to_hex));
    insert_some(&mut object, "qos", m.qos.as_ref().map(qos));
    insert_key(&mut object, "key", m.key, dictionary)?;
    insert_some(&mut object, "extended_header", m.extended_header.map(to_hex));
    insert_some(&mut object, "post_user_info", m.post_user_info.map(user));
    insert_some(&mut object, "part_num", m.part_num);
    insert_key(&mut object, "req_key", m.request_key, dictionary)?;
    Ok(object)
}

fn status(m: &StatusMsg<'_>, dictionary: &Dictionary) -> Result<Object> {
    let mut object = object(json!({ "flags": flags(&[
        (m.extended_header.is_some(), "HAS_EXTENDED_HEADER"),
        (m.permission_data.is_some(), "HAS_PERM_DATA"),
        (m.key.is_some(), "HAS_MSG_KEY"),
        (m.group_id.is_some(), "HAS_GROUP_ID"),
        (m.state.is_some(), "HAS_STATE"),
        (m.clear_cache, "CLEAR_CACHE"),
        (m.private_stream, "PRIVATE_STREAM"),
        (m.post_user_info.is_some(), "HAS_POST_USER_INFO"),
        (m.request_key.is_some(), "HAS_REQ_MSG_KEY"),
        (m.qualified_stream, "QUALIFIED_STREAM"),
    ]) }));
    insert_some(&mut object, "state", m.state.as_ref().map(state));
    insert_some(&mut object, "group_id", m.group_id.map(to_hex));
    insert_some(&mut object, "perm_data", m.permission_data.map(to_hex));
    insert_key(&mut object, "key", m.key, dictionary)?;
    insert_some(&mut object, "extended_header", m.extended_header.map(to_hex));
    insert_some(&mut object, "post_user_info", m.post_user_info.map(user));
    insert_key(&mut object, "req_key", m.request_key, dictionary)?;
    Ok(object)
}

fn update(m: &UpdateMsg<'_>, dictionary: &Dictionary) -> Result<Object> {
    let mut object = object(json!({ "flags": flags(&[
        (m.extended_header.is_some(), "HAS_EXTENDED_HEADER"),
        (m.permission_data.is_some(), "HAS_PERM_DATA"),
        (m.key.is_some(), "HAS_MSG_KEY"),
        (m.seq_num.is_some(), "HAS_SEQ_NUM"),
        (m.conflation.is_some(), "HAS_CONF_INFO"),
        (m.do_not_cache, "DO_NOT_CACHE"),
        (m.do_not_conflate, "DO_NOT_CONFLATE"),
        (m.do_not_ripple, "DO_NOT_RIPPLE"),
        (m.post_user_info.is_some(), "HAS_POST_USER_INFO"),
        (m.discardable, "DISCARDABLE"),
    ]), "update_type": m.update_type.0 }));
    insert_some(&mut object, "seq_num", m.seq_num);
    insert_some(&mut object, "conflation_count", m.conflation.map(|c| c.count));
    insert_some(&mut object, "conflation_time", m.conflation.map(|c| c.time));
    insert_some(&mut object, "perm_data", m.permission_data.map(to_hex));
    insert_key(&mut object, "key", m.key, dictionary)?;
    insert_some(&mut object, "extended_header", m.extended_header.map(to_hex));
    insert_some(&mut object, "post_user_info", m.post_user_info.map(user));
    Ok(object)
}

fn close(m: &CloseMsg<'_>) -> Object {
    let mut object = object(json!({ "flags": flags(&[
        (m.extended_header.is_some(), "HAS_EXTENDED_HEADER"),
        (m.ack, "ACK"),
        (m.batch, "HAS_BATCH"),
    ]) }));
    insert_some(&mut object, "extended_header", m.extended_header.map(to_hex));
    object
}

fn ack(m: &AckMsg<'_>, dictionary: &Dictionary) -> Result<Object> {
    let mut object = object(json!({ "flags": flags(&[
        (m.extended_header.is_some(), "HAS_EXTENDED_HEADER"),
        (m.text.is_some(), "HAS_TEXT"),
        (m.private_stream, "PRIVATE_STREAM"),
        (m.seq_num.is_some(), "HAS_SEQ_NUM"),
        (m.key.is_some(), "HAS_MSG_KEY"),
        (m.nak_code.is_some(), "HAS_NAK_CODE"),
        (m.qualified_stream, "QUALIFIED_STREAM"),
    ]), "ack_id": m.ack_id }));
    insert_some(&mut object, "nak_code", m.nak_code.map(|code| code.0));
    insert_some(&mut object, "text", m.text.map(lossy));
    insert_some(&mut object, "seq_num", m.seq_num);
    insert_key(&mut object, "key", m.key, dictionary)?;
    insert_some(&mut object, "extended_header", m.extended_header.map(to_hex));
    Ok(object)
}

fn generic(m: &GenericMsg<'_>, dictionary: &Dictionary) -> Result<Object> {
    let mut object = object(json!({ "flags": flags(&[
        (m.extended_header.is_some(), "HAS_EXTENDED_HEADER"),
        (m.permission_data.is_some(), "HAS_PERM_DATA"),
        (m.key.is_some(), "HAS_MSG_KEY"),
        (m.seq_num.is_some(), "HAS_SEQ_NUM"),
        (m.complete, "MESSAGE_COMPLETE"),
        (m.secondary_seq_num.is_some(), "HAS_SECONDARY_SEQ_NUM"),
        (m.part_num.is_some(), "HAS_PART_NUM"),
        (m.request_key.is_some(), "HAS_REQ_MSG_KEY"),
        (m.provider_driven, "PROVIDER_DRIVEN"),
    ]) }));
    insert_some(&mut object, "seq_num", m.seq_num);
    insert_some(&mut object, "secondary_seq_num", m.secondary_seq_num);
    insert_some(&mut object, "perm_data", m.permission_data.map(to_hex));
    insert_key(&mut object, "key", m.key, dictionary)?;
    insert_some(&mut object, "extended_header", m.extended_header.map(to_hex));
    insert_some(&mut object, "part_num", m.part_num);
    insert_key(&mut object, "req_key", m.request_key, dictionary)?;
    Ok(object)
}

fn post(m: &PostMsg<'_>, dictionary: &Dictionary) -> Result<Object> {
    let mut object = object(json!({ "flags": flags(&[
        (m.extended_header.is_some(), "HAS_EXTENDED_HEADER"),
        (m.post_id.is_some(), "HAS_POST_ID"),
        (m.key.is_some(), "HAS_MSG_KEY"),
        (m.seq_num.is_some(), "HAS_SEQ_NUM"),
        (m.complete, "POST_COMPLETE"),
        (m.ack, "ACK"),
        (m.permission_data.is_some(), "HAS_PERM_DATA"),
        (m.part_num.is_some(), "HAS_PART_NUM"),
        (m.user_rights.is_some(), "HAS_POST_USER_RIGHTS"),
    ]), "post_user_info": user(m.post_user_info) }));
    insert_some(&mut object, "seq_num", m.seq_num);
    insert_some(&mut object, "post_id", m.post_id);
    insert_some(&mut object, "perm_data", m.permission_data.map(to_hex));
    insert_key(&mut object, "key", m.key, dictionary)?;
    insert_some(&mut object, "extended_header", m.extended_header.map(to_hex));
    insert_some(&mut object, "part_num", m.part_num);
    insert_some(&mut object, "post_user_rights", m.user_rights);
    Ok(object)
}
