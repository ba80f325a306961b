//! Events as lines of JSON, exact: a REAL is its mantissa and hint, never a floating point number.

use std::collections::HashMap;
use std::io::{self, Write};

use client::{ConsumerEvent, FieldView, ItemEvent, ItemMsg, MapEntryView, UnreadableField};
use market::CachedItem;
use market::image::{FieldImage, Image};
use rwf::{DataType, DecodeError, Dictionary, MapAction, Real, State, StreamState, Value as RwfValue};
use serde_json::{Map, Value, json};
use units::Nanos;

use super::View;
use super::item::Watched;
use super::source::Source;

pub(super) struct JsonLines {
    /// Names of the fields that are shown; all if there are none.
    fields: Vec<String>,
    /// Images of streams that have ended, by the item's tag: the consumer keeps them no longer.
    ended: HashMap<u64, Map<String, Value>>,
}

impl JsonLines {
    pub(super) fn new(fields: &[String]) -> JsonLines {
        JsonLines { fields: fields.to_vec(), ended: HashMap::new() }
    }

    fn is_shown(&self, name: &str) -> bool {
        self.fields.is_empty() || self.fields.iter().any(|f| f == name)
    }

    /// Fields by id.
    fn fields<'f>(&self, fields: impl Iterator<Item = Result<FieldView<'f>, UnreadableField<'f>>>) -> Value {
        let mut object = Map::new();
        for field in fields {
            match field {
                Ok(field) if self.is_shown(field.name()) => {
                    object.insert(field.id.0.to_string(), value(&field.value, field.enum_display()));
                }
                Err(UnreadableField { id: None, error, .. }) => {
                    object.insert("error".to_owned(), error.to_string().into());
                }
                // Whoever asked for other fields is still to know that this one is wrong.
                Err(field) => {
                    let id = field.id.map_or(String::new(), |id| id.0.to_string());
                    let json = unreadable(field.name(), field.data_type, field.content, &field.error);
                    object.insert(id, json);
                }
                Ok(_) => {}
            }
        }
        Value::Object(object)
    }

    fn image_fields(&self, image: &FieldImage, dictionary: Option<&Dictionary>) -> Value {
        let mut object = Map::new();
        for (id, content) in image.entries() {
            let name = dictionary.and_then(|d| d.field(id)).map_or("", |field| &field.name);
            if !self.is_shown(name) {
                continue;
            }
            let data_type = dictionary.map_or(DataType::UNKNOWN, |d| d.data_type(id));
            let json = match RwfValue::decode(data_type, content) {
                Ok(found) => value(&found, display(dictionary, id, &found)),
                Err(error) => unreadable(name, data_type, content, &error),
            };
            object.insert(id.to_string(), json);
        }
        Value::Object(object)
    }

    fn payload(&self, event: &ItemEvent<'_>, object: &mut Map<String, Value>) {
        match event.payload().0 {
            DataType::FIELD_LIST => match event.fields() {
                Ok(fields) => drop(object.insert("fields".to_owned(), self.fields(fields.or_raw()))),
                Err(error) => drop(object.insert("error".to_owned(), error.to_string().into())),
            },
            DataType::MAP => match event.map() {
                Ok(map) => {
                    let entries = map.entries().map(|entry| match entry {
                        Ok(entry) => self.map_entry(&entry),
                        Err(error) => json!({ "error": error.to_string() }),
                    });
                    object.insert("entries".to_owned(), entries.collect());
                }
                Err(error) => drop(object.insert("error".to_owned(), error.to_string().into())),
            },
            _ => {}
        }
    }

    fn map_entry(&self, entry: &MapEntryView<'_>) -> Value {
        let mut object = Map::new();
        object.insert("action".to_owned(), format!("{:?}", entry.action).into());
        object.insert("key".to_owned(), key(&entry.key).into());
        if entry.action != MapAction::Delete {
            let fields = entry
                .fields()
                .map_or_else(|e| json!({ "error": e.to_string() }), |f| self.fields(f.or_raw()));
            object.insert("fields".to_owned(), fields);
        }
        Value::Object(object)
    }

    fn item(&self, event: &ItemEvent<'_>) -> Value {
        let kind = match event.msg() {
            ItemMsg::Refresh(_) => "refresh",
            ItemMsg::Update(_) => "update",
            ItemMsg::Status(_) => "status",
            _ => "other",
        };
        let mut object = Map::new();
        object.insert("ev".to_owned(), kind.into());
        object.insert("item".to_owned(), event.name().into());
        object.insert("domain".to_owned(), event.domain().0.into());
        if let Some(number) = event.seq_num() {
            object.insert("seq".to_owned(), number.into());
        }
        match event.msg() {
            ItemMsg::Update(msg) => drop(object.insert("update_type".to_owned(), msg.update_type.0.into())),
            ItemMsg::Refresh(msg) => {
                object.insert("state".to_owned(), state(event.state()));
                object.insert("complete".to_owned(), msg.complete.into());
            }
            _ => drop(object.insert("state".to_owned(), state(event.state()))),
        }
        self.payload(event, &mut object);
        Value::Object(object)
    }

    fn final_line(&self, tag: u64, item: &Watched, consumer: &Source) -> Value {
        let mut object = Map::new();
        object.insert("ev".to_owned(), "final".into());
        object.insert("item".to_owned(), item.name.name.clone().into());
        object.insert("domain".to_owned(), item.name.domain.0.into());
        object.insert("state".to_owned(), state(item.last_state.borrow()));
        object.insert("refreshes".to_owned(), item.refresh_count.into());
        object.insert("updates".to_owned(), item.update_count.into());
        object.insert("statuses".to_owned(), item.status_count.into());
        match consumer.image(item.handle) {
            Some(image) => object.append(&mut self.image(image, consumer.dictionary().map(|d| &**d))),
            None => object.extend(self.ended.get(&tag).cloned().unwrap_or_default()),
        }
        Value::Object(object)
    }

    /// `fields` or `entries` of an image.
    fn image(&self, image: &CachedItem, dictionary: Option<&Dictionary>) -> Map<String, Value> {
        let mut object = Map::new();
        match image.image() {
            Image::Fields(fields) => {
                object.insert("fields".to_owned(), self.image_fields(fields, dictionary));
            }
            Image::Map(map) => {
                let fields = |entry: &Image| match entry.fields() {
                    Some(fields) => self.image_fields(fields, dictionary),
                    None => json!({}),
                };
                let entry =
                    |(content, entry): (&[u8], &Image)| match RwfValue::decode(map.key_type(), content) {
                        Ok(found) => (key(&found), fields(entry)),
                        Err(error) => (error.to_string(), Value::Null),
                    };
                object.insert("entries".to_owned(), Value::Object(map.entries().map(entry).collect()));
            }
            _ => {}
        }
        object
    }

    /// Keeps the image of a stream that ends with this message.
    fn keep_if_ended(&mut self, event: &ItemEvent<'_>) {
        let is_part = matches!(event.msg(), ItemMsg::Refresh(msg) if !msg.complete);
        if event.state().stream == StreamState::Open || is_part {
            return;
        }
        if let Some(image) = event.image() {
            let image = self.image(image, event.dictionary().map(|d| &**d));
            self.ended.insert(event.tag(), image);
        }
    }
}

impl View for JsonLines {
    fn on_event(&mut self, event: &ConsumerEvent<'_>, _: &[Watched], out: &mut dyn Write) -> io::Result<()> {
        let line = match event {
            ConsumerEvent::Connected { host, .. } => json!({ "ev": "connected", "host": host.to_string() }),
            ConsumerEvent::Disconnected { host, reason, .. } => {
                json!({ "ev": "disconnected", "host": host.to_string(), "reason": reason.to_string() })
            }
            ConsumerEvent::Active(event) => json!({
                "ev": "active", "host": event.host.to_string(), "server": event.server,
                "service": event.service, "instead_of": event.instead_of.map(ToString::to_string),
            }),
            ConsumerEvent::LoggedIn(login) => json!({ "ev": "login", "state": state(login.state) }),
            ConsumerEvent::LoginStatus(now) => json!({ "ev": "login_status", "state": state(*now) }),
            ConsumerEvent::LoginRefused { state: now, retry } => {
                json!({ "ev": "login_refused", "state": state(*now), "retry": retry })
            }
            ConsumerEvent::Service(service) => json!({
                "ev": "service", "name": service.name, "id": service.id,
                "change": format!("{:?}", service.change), "usable": service.is_usable(),
            }),
            ConsumerEvent::DictionaryReady(dictionary) => {
                json!({ "ev": "dictionary", "fields": dictionary.fields().count() })
            }
            ConsumerEvent::DictionaryUnavailable(fault) => {
                json!({ "ev": "dictionary_unavailable", "reason": fault.to_string() })
            }
            ConsumerEvent::Item(event) => {
                self.keep_if_ended(event);
                self.item(event)
            }
            _ => return Ok(()),
        };
        writeln!(out, "{line}")
    }

    fn on_hint(&mut self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", json!({ "ev": "hint", "text": text }))
    }

    fn on_turn(&mut self, _: Nanos, _: &[Watched], _: &Source, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn next_wakeup(&self) -> Nanos {
        Nanos::NEVER
    }

    fn on_end(&mut self, items: &[Watched], consumer: &Source, out: &mut dyn Write) -> io::Result<()> {
        let mut tagged = (0..).zip(items);
        tagged.try_for_each(|(tag, item)| writeln!(out, "{}", self.final_line(tag, item, consumer)))
    }
}

fn state(state: State<'_>) -> Value {
    json!({
        "stream": format!("{:?}", state.stream),
        "data": format!("{:?}", state.data),
        "code": state.code.to_string(),
        "text": state.text_lossy(),
    })
}

fn display<'d>(dictionary: Option<&'d Dictionary>, id: i16, value: &RwfValue<'_>) -> Option<&'d [u8]> {
    match value {
        RwfValue::Enum(number) => dictionary?.enum_display(id, number.0),
        _ => None,
    }
}

fn key(value: &RwfValue<'_>) -> String {
    super::plain::text(value, None)
}

/// A value with its type and nothing lost.
fn value(value: &RwfValue<'_>, display: Option<&[u8]>) -> Value {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match *value {
        RwfValue::Blank(data_type) => json!({ "type": type_name(data_type), "blank": true }),
        RwfValue::Int(number) => json!({ "type": "INT", "value": number }),
        RwfValue::UInt(number) => json!({ "type": "UINT", "value": number }),
        RwfValue::Float(number) => json!({ "type": "FLOAT", "text": number.to_string() }),
        RwfValue::Double(number) => json!({ "type": "DOUBLE", "text": number.to_string() }),
        RwfValue::Real(real @ Real::Finite { mantissa, hint }) => {
            json!({ "type": "REAL", "mantissa": mantissa, "hint": hint.number(), "text": real.to_string() })
        }
        RwfValue::Real(real) => json!({ "type": "REAL", "text": real.to_string() }),
        RwfValue::Date(date) => {
            json!({ "type": "DATE", "year": date.year, "month": date.month, "day": date.day, "text": date.to_string() })
        }
        RwfValue::Time(time) => json!({
            "type": "TIME", "hour": time.hour, "minute": time.minute, "second": time.second,
            "nanosecond": nanosecond(time), "text": time.to_string(),
        }),
        RwfValue::Enum(number) => match display {
            Some(text) => json!({ "type": "ENUM", "value": number.0, "display": lossy(text) }),
            None => json!({ "type": "ENUM", "value": number.0 }),
        },
        RwfValue::Buffer(buffer) => json!({ "type": "BUFFER", "text": lossy(buffer.0) }),
        RwfValue::Ascii(text) => json!({ "type": "ASCII", "text": lossy(text.0) }),
        RwfValue::Utf8(text) => json!({ "type": "UTF8", "text": lossy(text.0) }),
        RwfValue::Rmtes(text) => {
            json!({ "type": "RMTES", "text": text.text().map_or_else(|_| lossy(text.0), |t| t.into_owned()) })
        }
        RwfValue::Unknown(bytes) => json!({ "type": "UNKNOWN", "hex": hex(bytes) }),
        other => json!({ "type": "OTHER", "text": format!("{other:?}") }),
    }
}

/// A field whose content is not of its type: its name, its bytes, and why they cannot be read.
fn unreadable(name: &str, data_type: DataType, content: &[u8], error: &DecodeError) -> Value {
    json!({
        "type": type_name(data_type), "name": name, "error": error.to_string(), "hex": hex(content),
    })
}

/// Nanoseconds within the second, as far as the time says them.
fn nanosecond(time: rwf::Time) -> Value {
    let whole = time.nanos_of_day();
    whole.map_or(Value::Null, |nanos| (nanos % 1_000_000_000).into())
}

fn type_name(data_type: DataType) -> String {
    match data_type {
        DataType::RMTES_STRING => "RMTES".to_owned(),
        DataType::ASCII_STRING => "ASCII".to_owned(),
        DataType::UTF8_STRING => "UTF8".to_owned(),
        other => other.name().map_or_else(|| other.0.to_string(), str::to_owned),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::item::tests::{BID_AS_UINT, update};
    use super::*;

    #[test]
    fn a_field_that_cannot_be_read_is_named_with_its_bytes_and_costs_no_other() {
        let lines = JsonLines::new(&[]);
        let line = update(BID_AS_UINT).view(|event| lines.item(event));
        let wrong = json!({
            "type": "REAL", "name": "BID", "error": "real hint: value 31, at most 30", "hex": "1f01",
        });
        assert_eq!(line["fields"]["22"], wrong);
        assert_eq!(line["fields"]["25"]["text"], "40.11");
        assert_eq!(line["fields"]["30"]["text"], "5");
        let asked = JsonLines::new(&["ASK".to_owned()]);
        let line = update(BID_AS_UINT).view(|event| asked.item(event));
        assert_eq!(line["fields"]["22"], wrong);
        assert!(line["fields"]["30"].is_null() && !line["fields"]["25"].is_null());
    }

    #[test]
    fn a_list_that_is_cut_off_keeps_what_came_before() {
        let lines = JsonLines::new(&[]);
        let cut = &BID_AS_UINT[..BID_AS_UINT.len() - 1];
        let line = update(cut).view(|event| lines.item(event));
        assert_eq!(line["fields"]["25"]["text"], "40.11");
        assert_eq!(line["fields"]["error"], "field list entry: 2 bytes needed, 1 left");
    }
}
