//! Events as people read them: a line each.

use std::fmt;

use rdm::directory::Service;
use rwf::{DataType, Dictionary};

use super::event::{ConsumerEvent, DictionaryFault, ItemEvent, ItemMsg, PostOutcome, ServiceChange};
use super::owned::{Merged, OwnedEvent, OwnedItemEvent, OwnedOutcome};
use crate::{HostPort, shown};

impl fmt::Display for ConsumerEvent<'_> {
    /// What happened, in a line. Of an item: service, name, what came, its state or its fields.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { host, session } => shown::connected(f, host, session.component_version),
            Self::Disconnected { host, reason, retry_in } => shown::disconnected(f, host, *reason, *retry_in),
            Self::LoggedIn(refresh) => write!(f, "logged in: {}", refresh.state),
            Self::LoginStatus(state) => write!(f, "login: {state}"),
            Self::LoginRefused { state, retry } => shown::login_refused(f, *state, *retry),
            Self::Service(event) => service(f, event.name, event.change, event.service),
            Self::DictionaryReady(dictionary) => dictionary_ready(f, dictionary),
            Self::DictionaryUnavailable(fault) => write!(f, "no dictionary yet: {fault}"),
            Self::Active(event) => active(f, event.service, event.host, event.instead_of),
            Self::Posted(event) => write!(f, "post {}: {}", event.id.0, event.outcome),
            Self::Item(event) => event.fmt(f),
        }
    }
}

impl fmt::Display for OwnedEvent {
    /// As [`ConsumerEvent`] is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { host, component } => shown::connected(f, host, component),
            Self::Disconnected { host, reason, retry_in } => shown::disconnected(f, host, *reason, *retry_in),
            Self::LoggedIn { state, .. } => write!(f, "logged in: {}", state.borrow()),
            Self::LoginStatus(state) => write!(f, "login: {}", state.borrow()),
            Self::LoginRefused { state, retry } => shown::login_refused(f, state.borrow(), *retry),
            Self::Service { change, name, service: known, .. } => service(f, name, *change, known.as_deref()),
            Self::DictionaryReady(dictionary) => dictionary_ready(f, dictionary),
            Self::DictionaryUnavailable(fault) => write!(f, "no dictionary yet: {fault}"),
            Self::Active { service, host, instead_of, .. } => {
                active(f, service.as_deref(), host, instead_of.as_ref())
            }
            Self::Posted { id, outcome, .. } => write!(f, "post {}: {outcome}", id.0),
            Self::Item(event) => event.fmt(f),
            Self::QueueFull(overrun) => overrun.fmt(f),
        }
    }
}

impl fmt::Display for ItemEvent<'_> {
    /// `BINANCE BTCUSDT update: BID=40.07 ASK=40.11`; a field that cannot be read stands with its bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.service(), self.name())?;
        match self.msg() {
            ItemMsg::Refresh(_) => write!(f, "refresh, {}", self.state())?,
            ItemMsg::Update(_) => f.write_str("update")?,
            ItemMsg::Status(_) => return write!(f, "status, {}", self.state()),
            ItemMsg::Generic(_) => f.write_str("generic message")?,
            ItemMsg::Ack(_) => f.write_str("ack")?,
        }
        match self.payload() {
            (DataType::NO_DATA, _) => Ok(()),
            (DataType::FIELD_LIST, _) => show_fields(f, self),
            (DataType::MAP, _) => match self.map() {
                Ok(map) => write!(f, ": MAP of {} entries", map.raw().count()),
                Err(error) => write!(f, ": {error}"),
            },
            (container_type, bytes) => write!(f, ": {container_type} of {} bytes", bytes.len()),
        }
    }
}

impl fmt::Display for OwnedItemEvent {
    /// As [`ItemEvent`] is shown; `(37 updates, 120 ms)` stands before a merged one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Merged { updates, waited }) = self.merged {
            write!(f, "({updates} updates, {} ms) ", waited.as_millis())?;
        }
        self.view(|event| event.fmt(f))
    }
}

fn show_fields(f: &mut fmt::Formatter<'_>, event: &ItemEvent<'_>) -> fmt::Result {
    f.write_str(":")?;
    match event.fields() {
        Ok(fields) => fields.or_raw().try_for_each(|field| match field {
            Ok(field) => write!(f, " {field}"),
            Err(field) => write!(f, " ({field})"),
        }),
        Err(error) => write!(f, " {error}"),
    }
}

/// Events are debugged as they are shown: a message is bytes, of which nobody reads anything.
macro_rules! debug_as_shown {
    ($($shown:ty),*) => {
        $(impl fmt::Debug for $shown {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($shown).trim_end_matches("<'_>"))
            }
        })*
    };
}

debug_as_shown!(ConsumerEvent<'_>, OwnedEvent, ItemEvent<'_>, OwnedItemEvent);

fn service(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    change: ServiceChange,
    service: Option<&Service>,
) -> fmt::Result {
    let is_up = service.is_some_and(|service| service.state.up);
    match change {
        ServiceChange::Removed => write!(f, "service {name} is gone"),
        ServiceChange::Added | ServiceChange::Changed if is_up => write!(f, "service {name} is up"),
        ServiceChange::Added | ServiceChange::Changed => write!(f, "service {name} is down"),
    }
}

fn dictionary_ready(f: &mut fmt::Formatter<'_>, dictionary: &Dictionary) -> fmt::Result {
    write!(f, "dictionary of {} fields", dictionary.field_count())
}

fn active(
    f: &mut fmt::Formatter<'_>,
    service: Option<&str>,
    host: &HostPort,
    instead_of: Option<&HostPort>,
) -> fmt::Result {
    write!(f, "{host} is the active server")?;
    if let Some(service) = service {
        write!(f, " of {service}")?;
    }
    match instead_of {
        Some(before) => write!(f, " instead of {before}"),
        None => Ok(()),
    }
}

impl fmt::Display for PostOutcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.write_str("taken"),
            Self::Refused { code, text } => {
                write!(f, "refused: {code}, {:?}", String::from_utf8_lossy(text))
            }
            Self::TimedOut => f.write_str("no answer in time: it may have been taken or not"),
            Self::Lost => f.write_str("connection lost before the answer: it may have been taken or not"),
        }
    }
}

impl fmt::Display for OwnedOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => PostOutcome::Taken.fmt(f),
            Self::Refused { code, text } => {
                PostOutcome::Refused { code: *code, text: text.as_bytes() }.fmt(f)
            }
            Self::TimedOut => PostOutcome::TimedOut.fmt(f),
            Self::Lost => PostOutcome::Lost.fmt(f),
        }
    }
}

impl fmt::Display for DictionaryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOffered => f.write_str(
                "no service that is up offers a data dictionary (RWFFld and RWFEnum); one of the application's \
                 own can be given (with_dictionary)",
            ),
            Self::Ended { service_id, code } => {
                write!(f, "service {service_id} ended the stream of the dictionary ({code})")
            }
            Self::ServiceLost { service_id } => {
                write!(f, "service {service_id}, which was asked for the dictionary, is gone or down")
            }
            Self::Timeout { service_id, limit_ms } => {
                write!(f, "service {service_id} did not send the dictionary within {limit_ms} ms")
            }
            Self::Malformed(error) => write!(f, "what came is no dictionary: {error}"),
        }
    }
}
