//! What an RWF message says, whatever the form of its bytes.

use rwf::{
    AckMsg, Array, CloseMsg, DataType, Dictionary, Event, GenericMsg, Key, Msg, PostMsg, RefreshMsg,
    RequestMsg, StatusMsg, UpdateMsg, Value, walk,
};

/// The message line by line: header members, keys, entries, values; each with its depth.
///
/// The same content has several forms in RWF. They are made alike: a real of another hint but the same value,
/// a type that an entry of a filter list repeats, the width of array items, a name type of 1 that is not
/// written, RMTES text with and without the escape that says it is UTF-8, whether a request without updates
/// wants the key in them.
pub(crate) fn of(message: &[u8], dictionary: &Dictionary) -> Result<Vec<String>, rwf::DecodeError> {
    let mut lines = Vec::new();
    walk(message, Some(dictionary), |depth, event| {
        let line = match event {
            Event::Message(msg) => header(msg),
            Event::Attributes => "attributes".to_owned(),
            Event::FieldList(_) => "fields".to_owned(),
            Event::ElementList(_) => "elements".to_owned(),
            Event::FilterList(list) => format!("filter list, hint {:?}", list.total_count_hint),
            Event::Map(map) => format!(
                "map of {} by {}, field {:?}, hint {:?}",
                map.container_type, map.key_type, map.key_field_id, map.total_count_hint
            ),
            Event::Series(series) => {
                format!("series of {}, hint {:?}", series.container_type, series.total_count_hint)
            }
            Event::Vector(vector) => format!(
                "vector of {}, hint {:?}, sorting {}",
                vector.container_type, vector.total_count_hint, vector.supports_sorting
            ),
            Event::Bytes(data_type, bytes) => format!("{data_type} {bytes:?}"),
            Event::Summary => "summary".to_owned(),
            Event::Field { id, value, .. } => format!("field {id} {}", self::value(&value)),
            Event::Element { name, value } => {
                format!("element {} {}", name.escape_ascii(), self::value(&value))
            }
            Event::Item(value) => format!("item {}", self::value(&value)),
            Event::FilterEntry(entry) => format!(
                "{:?} {} of {} {:?}",
                entry.action, entry.id, entry.container_type, entry.permission_data
            ),
            Event::MapEntry { entry, key } => {
                format!("{:?} {} {:?}", entry.action, self::value(&key), entry.permission_data)
            }
            Event::SeriesEntry => "entry".to_owned(),
            Event::VectorEntry(entry) => {
                format!("{:?} {} {:?}", entry.action, entry.index, entry.permission_data)
            }
            other => format!("{other:?}"),
        };
        lines.push(format!("{:depth$}{line}", "", depth = 2 * depth as usize));
    })?;
    Ok(lines)
}

fn header(msg: &Msg<'_>) -> String {
    let key = msg.key().map(|key| Key {
        name_type: key.name.map(|_| key.name_type.unwrap_or(1)),
        attributes: key.attributes.map(|attributes| rwf::Attributes { data: &[], ..attributes }),
        ..key
    });
    let payload = &[][..];
    let bare = match *msg {
        Msg::Request(m) => {
            let key_in_updates = m.key_in_updates || !m.streaming;
            Msg::Request(RequestMsg { key: key.unwrap_or_default(), key_in_updates, payload, ..m })
        }
        Msg::Refresh(m) => Msg::Refresh(RefreshMsg { key, payload, ..m }),
        Msg::Status(m) => Msg::Status(StatusMsg { key, payload, ..m }),
        Msg::Update(m) => Msg::Update(UpdateMsg { key, payload, ..m }),
        Msg::Close(m) => Msg::Close(CloseMsg { payload, ..m }),
        Msg::Ack(m) => Msg::Ack(AckMsg { key, payload, ..m }),
        Msg::Generic(m) => Msg::Generic(GenericMsg { key, payload, ..m }),
        Msg::Post(m) => Msg::Post(PostMsg { key, payload, ..m }),
    };
    format!("{bare:?}")
}

fn value(value: &Value<'_>) -> String {
    match value {
        Value::Real(real @ rwf::Real::Finite { .. }) => decimal(&real.to_string()),
        Value::Array(Array { item_type, .. }) => format!("array of {item_type}"),
        Value::Container(data_type, _) => format!("{data_type}"),
        Value::Rmtes(text) => match std::str::from_utf8(text.0.strip_prefix(b"\x1b%0").unwrap_or(text.0)) {
            Ok(text) => format!("RMTES {text:?}"),
            Err(_) => format!("RMTES {:?}", text.text().expect("legal")),
        },
        Value::Blank(data_type) if *data_type != DataType::UNKNOWN => format!("blank {}", data_type.base()),
        other => format!("{other:?}"),
    }
}

/// A decimal number without zeros that say nothing.
fn decimal(text: &str) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    }
}
