//! A line of text for each event: for pipes and logs.

use std::io::{self, Write};

use client::{ConsumerEvent, FieldView, ItemEvent, ItemMsg, UnreadableField};
use rwf::{DataType, Real, Value};
use units::Nanos;

use super::View;
use super::item::Watched;
use super::source::Source;

pub(super) struct PlainLines {
    fields: Vec<String>,
}

impl PlainLines {
    pub(super) fn new(fields: &[String]) -> PlainLines {
        PlainLines { fields: fields.to_vec() }
    }

    fn item(&self, event: &ItemEvent<'_>, out: &mut dyn Write) -> io::Result<()> {
        match event.msg() {
            ItemMsg::Refresh(_) => write!(out, " refresh, {}:", event.state())?,
            ItemMsg::Update(_) => write!(out, " update:")?,
            _ => return writeln!(out, " status, {}", event.state()),
        }
        match event.payload().0 {
            DataType::MAP => match event.map() {
                Ok(map) => write!(out, " {} entries", map.raw().count())?,
                Err(error) => write!(out, " {error}")?,
            },
            _ => match event.fields() {
                Ok(fields) => fields.or_raw().try_for_each(|field| self.field(&field, out))?,
                Err(error) => write!(out, " {error}")?,
            },
        }
        writeln!(out)
    }

    fn field(
        &self,
        field: &Result<FieldView<'_>, UnreadableField<'_>>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match field {
            Ok(field) if self.fields.is_empty() || self.fields.iter().any(|f| f == field.name()) => {
                let name = Some(field.name()).filter(|name| !name.is_empty());
                let name = name.map_or_else(|| field.id.0.to_string(), str::to_owned);
                write!(out, " {name}={}", text(&field.value, field.enum_display()))
            }
            Ok(_) => Ok(()),
            Err(field) => write!(out, " ({field})"),
        }
    }
}

impl View for PlainLines {
    fn on_event(
        &mut self,
        event: &ConsumerEvent<'_>,
        items: &[Watched],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if let ConsumerEvent::Item(event) = event {
            write!(out, "{}", items[event.tag() as usize].name)?;
            return self.item(event, out);
        }
        match session_line(event) {
            Some(line) => writeln!(out, "{line}"),
            None => Ok(()),
        }
    }

    fn on_hint(&mut self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{text}")
    }

    fn on_turn(&mut self, _: Nanos, _: &[Watched], _: &Source, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn next_wakeup(&self) -> Nanos {
        Nanos::NEVER
    }

    fn on_end(&mut self, _: &[Watched], _: &Source, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// What happened to the session, in words; `None` for events of items.
pub(super) fn session_line(event: &ConsumerEvent<'_>) -> Option<String> {
    Some(match event {
        ConsumerEvent::Connected { host, .. } => format!("connected to {host}"),
        ConsumerEvent::Disconnected { host, reason, retry_in: Some(delay) } => {
            format!("{host}: {reason}; next attempt in {:.1} s", delay.as_secs_f64())
        }
        ConsumerEvent::Disconnected { host, reason, retry_in: None } => format!("{host}: {reason}"),
        ConsumerEvent::Active(event) => {
            let instead = event.instead_of.map_or(String::new(), |before| format!(" instead of {before}"));
            let of = event.service.map_or(String::new(), |service| format!(" of {service}"));
            format!("{} is the active server{of}{instead}", event.host)
        }
        ConsumerEvent::LoggedIn(_) => "logged in".to_owned(),
        ConsumerEvent::LoginStatus(state) => format!("login: {state}"),
        ConsumerEvent::LoginRefused { state, .. } => format!("login refused: {state}"),
        ConsumerEvent::Service(service) if service.is_usable() => format!("service {} is up", service.name),
        ConsumerEvent::Service(service) => format!("service {} is down", service.name),
        ConsumerEvent::DictionaryReady(dictionary) => {
            format!("dictionary of {} fields", dictionary.fields().count())
        }
        ConsumerEvent::DictionaryUnavailable(fault) => format!("no dictionary yet: {fault}"),
        _ => return None,
    })
}

/// A value for readers; nothing for a blank.
pub(super) fn text(value: &Value<'_>, display: Option<&[u8]>) -> String {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    match value {
        Value::Blank(_) => String::new(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Real(real) => trimmed(*real),
        Value::Date(date) => date.to_string(),
        Value::Time(time) => time.to_string(),
        Value::DateTime(time) => time.to_string(),
        Value::Enum(number) => display.map_or_else(|| number.0.to_string(), lossy),
        Value::Buffer(buffer) => lossy(buffer.0),
        Value::Ascii(text) => lossy(text.0),
        Value::Utf8(text) => lossy(text.0),
        Value::Rmtes(text) => text.text().map_or_else(|_| lossy(text.0), |text| text.into_owned()),
        other => other.to_string(),
    }
}

/// A number without zeros at its end, but for the first two decimals: venues write eight of them.
fn trimmed(real: Real) -> String {
    let mut text = real.to_string();
    if let Some(point) = text.find('.') {
        let digits = text.trim_end_matches('0').len();
        text.truncate(digits.max(point + 3).min(text.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::item::tests::{BID_AS_UINT, update};
    use super::*;

    #[test]
    fn a_field_that_cannot_be_read_stands_with_its_bytes_between_the_others() {
        let mut out = Vec::new();
        update(BID_AS_UINT).view(|event| PlainLines::new(&[]).item(event, &mut out)).expect("memory");
        let wrong = "BID cannot be read as REAL: real hint: value 31, at most 30; its bytes: 0x1f01";
        let line = format!(" update: ({wrong}) ASK=40.11 BIDSIZE=5\n");
        assert_eq!(String::from_utf8_lossy(&out), line);
    }

    #[test]
    fn zeros_at_the_end_are_left_out_but_for_two_decimals() {
        let shown = |mantissa, decimals| text(&Value::Real(Real::decimal(mantissa, decimals)), None);
        assert_eq!(shown(6_183_763_000_000, 8), "61837.63");
        assert_eq!(shown(6_183_700_000_000, 8), "61837.00");
        assert_eq!(shown(1_547, 8), "0.00001547");
        assert_eq!((shown(15, 1), shown(100, 0)), ("1.5".to_owned(), "100".to_owned()));
    }
}
