//! Messages as people read them, for logs and tools.

use std::fmt;

use crate::dictionary::{Dictionary, Field};
use crate::{
    AckMsg, DataType, Event, FilterEntry, GenericMsg, Key, MapEntry, Msg, PostMsg, RefreshMsg, RequestMsg,
    StatusMsg, UpdateMsg, Value, VectorEntry, rmtes, walk,
};

/// An encoded message, printed with everything in it, a part a line. With a dictionary fields have names,
/// types and texts; without one they are bytes. A message that is not legal is printed as far as it is, then
/// the error.
///
/// ```
/// # let message = [0, 9, 4, 6, 0, 0, 0, 5, 0, 4, 1, 8, 0, 1, 0, 22, 3, 12, 15, 150];
/// let text = tickcast_rwf::print::Pretty(&message, None).to_string();
/// assert_eq!(text, "update market price, stream 5, quote\n  FIELD_LIST, 1 entries\n    22: 0c0f96\n");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Pretty<'a>(pub &'a [u8], pub Option<&'a Dictionary>);

impl fmt::Display for Pretty<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut result = Ok(());
        let decoded = walk(self.0, self.1, |depth, event| {
            if result.is_ok() {
                result = write!(f, "{:1$}", "", 2 * depth as usize)
                    .and_then(|()| line(f, &event, self.1))
                    .and_then(|()| f.write_str("\n"));
            }
        });
        result?;
        match decoded {
            Ok(()) => Ok(()),
            Err(error) => writeln!(f, "! {error}"),
        }
    }
}

fn line(f: &mut fmt::Formatter<'_>, event: &Event<'_, '_>, dictionary: Option<&Dictionary>) -> fmt::Result {
    match *event {
        Event::Message(msg) => message(f, msg),
        Event::Attributes => f.write_str("attributes"),
        Event::FieldList(list) => write!(f, "FIELD_LIST, {} entries", list.standard_count()),
        Event::ElementList(list) => write!(f, "ELEMENT_LIST, {} entries", list.standard_count()),
        Event::FilterList(list) => {
            write!(f, "FILTER_LIST of {}, {} entries", list.container_type, list.count())
        }
        Event::Map(map) => {
            write!(f, "MAP {} to {}, {} entries", map.key_type, map.container_type, map.count())
        }
        Event::Series(series) => write!(f, "SERIES of {}, {} entries", series.container_type, series.count()),
        Event::Vector(vector) => write!(f, "VECTOR of {}, {} entries", vector.container_type, vector.count()),
        Event::Bytes(data_type, bytes) => {
            write!(f, "{data_type} ")?;
            match std::str::from_utf8(bytes) {
                Ok(text) if matches!(data_type, DataType::XML | DataType::JSON) => write!(f, "{text:?}"),
                _ => hex(f, bytes),
            }
        }
        Event::Summary => f.write_str("summary"),
        Event::Field { id, field, value } => {
            write!(f, "{id}")?;
            if let Some(field) = field {
                write!(f, " {}", field.name)?;
            }
            f.write_str(": ")?;
            field_value(f, &value, field, dictionary)
        }
        Event::Element { name, value } => {
            write!(f, "{}: ", String::from_utf8_lossy(name))?;
            self::value(f, &value)
        }
        Event::Item(item) => self::value(f, &item),
        Event::FilterEntry(FilterEntry { action, id, permission_data, .. }) => {
            write!(f, "{action:?} {id}")?;
            permission(f, *permission_data)
        }
        Event::MapEntry { entry: MapEntry { action, permission_data, .. }, key } => {
            write!(f, "{action:?} ")?;
            self::value(f, &key)?;
            permission(f, *permission_data)
        }
        Event::SeriesEntry => f.write_str("entry"),
        Event::VectorEntry(VectorEntry { action, index, permission_data, .. }) => {
            write!(f, "{action:?} {index}")?;
            permission(f, *permission_data)
        }
    }
}

fn field_value(
    f: &mut fmt::Formatter<'_>,
    value: &Value<'_>,
    field: Option<&Field>,
    dictionary: Option<&Dictionary>,
) -> fmt::Result {
    self::value(f, value)?;
    let (Value::Enum(number), Some(field), Some(dictionary)) = (value, field, dictionary) else {
        return Ok(());
    };
    match dictionary.enum_display(field.id, number.0) {
        Some(display) => write!(f, " {:?}", rmtes::text(display)),
        None => Ok(()),
    }
}

fn value(f: &mut fmt::Formatter<'_>, value: &Value<'_>) -> fmt::Result {
    match value {
        Value::Blank(_) => f.write_str("blank"),
        Value::Unknown(bytes) => hex(f, bytes),
        Value::Int(number) => write!(f, "{number}"),
        Value::UInt(number) => write!(f, "{number}"),
        Value::Float(number) => write!(f, "{number}"),
        Value::Double(number) => write!(f, "{number}"),
        Value::Real(number) => write!(f, "{number}"),
        Value::Date(date) => write!(f, "{date}"),
        Value::Time(time) => write!(f, "{time}"),
        Value::DateTime(time) => write!(f, "{time}"),
        Value::Qos(qos) => write!(f, "{qos}"),
        Value::State(state) => write!(f, "{state}"),
        Value::Enum(value) => write!(f, "{}", value.0),
        Value::Array(array) => write!(f, "ARRAY of {}, {} items", array.item_type, array.count()),
        Value::Buffer(bytes) => hex(f, bytes.0),
        Value::Ascii(text) => write!(f, "{:?}", String::from_utf8_lossy(text.0)),
        Value::Utf8(text) => write!(f, "{:?}", String::from_utf8_lossy(text.0)),
        Value::Rmtes(text) if text.is_partial_update() => {
            f.write_str("partial ")?;
            hex(f, text.0)
        }
        Value::Rmtes(text) => write!(f, "{:?}", rmtes::text(text.0)),
        Value::Container(data_type, bytes) => write!(f, "{data_type}, {} bytes", bytes.len()),
    }
}

fn hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn permission(f: &mut fmt::Formatter<'_>, data: Option<&[u8]>) -> fmt::Result {
    part(f, "permission data", data.map(Hex))
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(f, self.0)
    }
}

/// `, name value` if there is a value.
fn part(f: &mut fmt::Formatter<'_>, name: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    match value {
        Some(value) => write!(f, ", {name} {value}"),
        None => Ok(()),
    }
}

/// `, name` of each flag that is set.
fn flags(f: &mut fmt::Formatter<'_>, named: &[(bool, &str)]) -> fmt::Result {
    named.iter().filter(|(set, _)| *set).try_for_each(|(_, name)| write!(f, ", {name}"))
}

fn message(f: &mut fmt::Formatter<'_>, msg: &Msg<'_>) -> fmt::Result {
    let class = format!("{:?}", msg.class()).to_lowercase();
    write!(f, "{class} {}, stream {}", msg.domain(), msg.stream_id())?;
    match msg {
        Msg::Request(m) => request(f, m)?,
        Msg::Refresh(m) => refresh(f, m)?,
        Msg::Status(m) => status(f, m)?,
        Msg::Update(m) => update(f, m)?,
        Msg::Close(m) => {
            flags(f, &[(m.ack, "ack wanted"), (m.batch, "batch")])?;
            part(f, "extended header", m.extended_header.map(Hex))?;
        }
        Msg::Ack(m) => ack(f, m)?,
        Msg::Generic(m) => generic(f, m)?,
        Msg::Post(m) => post(f, m)?,
    }
    match msg.key() {
        Some(key) => self::key(f, &key),
        None => Ok(()),
    }
}

fn request(f: &mut fmt::Formatter<'_>, m: &RequestMsg<'_>) -> fmt::Result {
    flags(
        f,
        &[
            (m.streaming, "streaming"),
            (m.key_in_updates, "key in updates"),
            (m.conflation_info_in_updates, "conflation information in updates"),
            (m.no_refresh, "no refresh"),
            (m.private_stream, "private"),
            (m.qualified_stream, "qualified"),
            (m.pause, "pause"),
            (m.view, "view"),
            (m.batch, "batch"),
        ],
    )?;
    if let Some(priority) = m.priority {
        write!(f, ", priority {}/{}", priority.class, priority.count)?;
    }
    part(f, "qos", m.qos)?;
    part(f, "worst qos", m.worst_qos)?;
    part(f, "extended header", m.extended_header.map(Hex))
}

fn refresh(f: &mut fmt::Formatter<'_>, m: &RefreshMsg<'_>) -> fmt::Result {
    flags(
        f,
        &[
            (m.solicited, "solicited"),
            (m.complete, "complete"),
            (m.clear_cache, "clear cache"),
            (m.do_not_cache, "do not cache"),
            (m.private_stream, "private"),
            (m.qualified_stream, "qualified"),
        ],
    )?;
    write!(f, ", {}, group {}", m.state, Hex(m.group_id))?;
    part(f, "sequence", m.seq_num)?;
    part(f, "part", m.part_num)?;
    part(f, "qos", m.qos)?;
    permission(f, m.permission_data)?;
    part(f, "posted by", m.post_user_info.map(|user| format!("{}/{}", user.address, user.user_id)))?;
    part(f, "extended header", m.extended_header.map(Hex))
}

fn status(f: &mut fmt::Formatter<'_>, m: &StatusMsg<'_>) -> fmt::Result {
    let named =
        [(m.clear_cache, "clear cache"), (m.private_stream, "private"), (m.qualified_stream, "qualified")];
    flags(f, &named)?;
    part(f, "state", m.state)?;
    part(f, "group", m.group_id.map(Hex))?;
    permission(f, m.permission_data)?;
    part(f, "posted by", m.post_user_info.map(|user| format!("{}/{}", user.address, user.user_id)))?;
    part(f, "extended header", m.extended_header.map(Hex))
}

fn update(f: &mut fmt::Formatter<'_>, m: &UpdateMsg<'_>) -> fmt::Result {
    write!(f, ", {}", m.update_type)?;
    flags(
        f,
        &[
            (m.do_not_cache, "do not cache"),
            (m.do_not_conflate, "do not conflate"),
            (m.do_not_ripple, "do not ripple"),
            (m.discardable, "discardable"),
        ],
    )?;
    part(f, "sequence", m.seq_num)?;
    if let Some(conflation) = m.conflation {
        write!(f, ", stands for {} over {}", conflation.count, conflation.time)?;
    }
    permission(f, m.permission_data)?;
    part(f, "posted by", m.post_user_info.map(|user| format!("{}/{}", user.address, user.user_id)))?;
    part(f, "extended header", m.extended_header.map(Hex))
}

fn ack(f: &mut fmt::Formatter<'_>, m: &AckMsg<'_>) -> fmt::Result {
    flags(f, &[(m.private_stream, "private"), (m.qualified_stream, "qualified")])?;
    write!(f, ", ack id {}", m.ack_id)?;
    part(f, "nak", m.nak_code)?;
    part(f, "text", m.text.map(|text| format!("{:?}", String::from_utf8_lossy(text))))?;
    part(f, "sequence", m.seq_num)?;
    part(f, "extended header", m.extended_header.map(Hex))
}

fn generic(f: &mut fmt::Formatter<'_>, m: &GenericMsg<'_>) -> fmt::Result {
    flags(f, &[(m.complete, "complete"), (m.provider_driven, "provider driven")])?;
    part(f, "sequence", m.seq_num)?;
    part(f, "secondary sequence", m.secondary_seq_num)?;
    part(f, "part", m.part_num)?;
    permission(f, m.permission_data)?;
    part(f, "extended header", m.extended_header.map(Hex))
}

fn post(f: &mut fmt::Formatter<'_>, m: &PostMsg<'_>) -> fmt::Result {
    flags(f, &[(m.complete, "complete"), (m.ack, "ack wanted")])?;
    write!(f, ", posted by {}/{}", m.post_user_info.address, m.post_user_info.user_id)?;
    part(f, "post id", m.post_id)?;
    part(f, "sequence", m.seq_num)?;
    part(f, "part", m.part_num)?;
    part(f, "user rights", m.user_rights)?;
    permission(f, m.permission_data)?;
    part(f, "extended header", m.extended_header.map(Hex))
}

fn key(f: &mut fmt::Formatter<'_>, key: &Key<'_>) -> fmt::Result {
    part(f, "service", key.service_id)?;
    part(f, "name", key.name.map(|name| format!("{:?}", String::from_utf8_lossy(name))))?;
    part(f, "name type", key.name_type)?;
    part(f, "filter", key.filter.map(|filter| format!("{filter:#x}")))?;
    part(f, "identifier", key.identifier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AsciiString, Attributes, Domain, Enum, FieldListWriter, MapAction, MapHead, Qos, Real, RefreshMsg,
        State, encode_to_vec,
    };

    fn dictionary() -> Dictionary {
        let mut dictionary = Dictionary::new();
        let fields =
            b"BID \"BID\" 22 NULL PRICE 17 REAL64 7\nEXCH \"EXCH\" 4 NULL ENUMERATED 3 ( 3 ) ENUM 1\n";
        dictionary.load_fields(fields).expect("well written");
        dictionary.load_enums(b"EXCH 4\n2 \"NYS\" exchange\n").expect("well written");
        dictionary
    }

    fn refresh(fields: impl Fn(&mut FieldListWriter<'_, '_, '_>)) -> Vec<u8> {
        let attributes =
            encode_to_vec(|w| w.element_list(|e| e.put("Position", AsciiString(b"here")))).expect("small");
        let attributes = Attributes { container_type: DataType::ELEMENT_LIST, data: &attributes };
        let key = Key { attributes: Some(attributes), ..Key::item(7, b"TEST.1") };
        let msg = RefreshMsg {
            solicited: true,
            complete: true,
            state: State::OPEN_OK,
            qos: Some(Qos::REAL_TIME),
            key: Some(key),
            ..RefreshMsg::new(Domain::MARKET_BY_ORDER, -3, DataType::MAP)
        };
        encode_to_vec(|w| {
            msg.encode_header(w);
            w.map(&MapHead::new(DataType::ASCII_STRING, DataType::FIELD_LIST), |m| {
                m.entry(MapAction::Add, AsciiString(b"A"), Some(&[1, 0xAB]), |w| w.field_list(&fields));
            });
        })
        .expect("small")
    }

    #[test]
    fn every_part_of_a_message_is_on_a_line_of_its_own() {
        let bytes = refresh(|f| {
            f.put(22, Real::decimal(3990, 2));
            f.put(4, Enum(2));
            f.blank(22);
            f.encoded(-1, &[0xFF]);
        });
        let expected = "\
refresh market by order, stream -3, solicited, complete, open/ok, group 0000, qos real time/tick by tick, \
service 7, name \"TEST.1\"
  attributes
    ELEMENT_LIST, 1 entries
      Position: \"here\"
  MAP ASCII_STRING to FIELD_LIST, 1 entries
    Add \"A\", permission data 01ab
      FIELD_LIST, 4 entries
        22 BID: 39.90
        4 EXCH: 2 \"NYS\"
        22 BID: blank
        -1: ff
";
        assert_eq!(Pretty(&bytes, Some(&dictionary())).to_string(), expected);
    }

    #[test]
    fn what_cannot_be_decoded_is_printed_as_an_error_behind_what_can() {
        let bytes = refresh(|f| {
            f.put(4, Enum(2));
            f.encoded(22, &[0x1F, 1]);
        });
        let text = Pretty(&bytes, Some(&dictionary())).to_string();
        assert!(text.ends_with("        4 EXCH: 2 \"NYS\"\n! real hint: value 31, at most 30\n"), "{text}");
        assert_eq!(Pretty(&[0], None).to_string(), "! message header: 2 bytes needed, 1 left\n");
    }
}
