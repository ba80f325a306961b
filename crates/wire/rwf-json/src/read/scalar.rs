//! Members that are numbers, words, names.

use std::net::Ipv4Addr;

use rwf::{DataState, Priority, Qos, Rate, State, StateCode, StreamState, Timeliness};

use super::fault::{Fault, What};
use crate::json::{Kind, Node};
use crate::names;

type Read<'t, T> = Result<T, Fault<'t>>;

/// The text of a number. A number is ASCII.
pub(super) fn digits<'t>(node: Node<'t>, key: &'t [u8]) -> Read<'t, &'t str> {
    match node.kind() {
        Kind::Number => Ok(std::str::from_utf8(node.raw()).unwrap_or_default()),
        _ => Err(Fault::wrong_type(node, key, Kind::Number)),
    }
}

/// A whole number that fits its type.
pub(super) fn number<'t, T: std::str::FromStr>(node: Node<'t>, key: &'t [u8]) -> Read<'t, T> {
    digits(node, key)?.parse().map_err(|_| Fault::unexpected_value(node, key))
}

pub(super) fn boolean<'t>(node: Node<'t>, key: &'t [u8]) -> Read<'t, bool> {
    match node.kind() {
        Kind::True => Ok(true),
        Kind::False => Ok(false),
        _ => Err(Fault::wrong_type(node, key, Kind::True)),
    }
}

pub(super) fn string<'t>(node: Node<'t>, key: &'t [u8]) -> Read<'t, &'t [u8]> {
    node.string().ok_or_else(|| Fault::wrong_type(node, key, Kind::String))
}

pub(super) fn object<'t>(node: Node<'t>, key: &'t [u8]) -> Read<'t, Node<'t>> {
    if node.kind() == Kind::Object { Ok(node) } else { Err(Fault::wrong_type(node, key, Kind::Object)) }
}

pub(super) fn array<'t>(node: Node<'t>, key: &'t [u8]) -> Read<'t, Node<'t>> {
    if node.kind() == Kind::Array { Ok(node) } else { Err(Fault::wrong_type(node, key, Kind::Array)) }
}

/// A name of a table, or the number it stands for.
pub(super) fn named<'t>(node: Node<'t>, key: &'t [u8], table: fn(&[u8]) -> Option<u8>) -> Read<'t, u8> {
    match node.string() {
        Some(name) => table(name).ok_or_else(|| Fault::unexpected_value(node, key)),
        None => number(node, key),
    }
}

/// A member of `object` that has to be there.
pub(super) fn required<'t>(object: Node<'t>, key: &'t [u8]) -> Read<'t, Node<'t>> {
    object.member(key).ok_or_else(|| Fault::missing(object, key))
}

/// A number that is `default` if `object` has no such member.
fn number_or<'t, T: std::str::FromStr>(object: Node<'t>, key: &'t [u8], default: T) -> Read<'t, T> {
    object.member(key).map_or(Ok(default), |node| number(node, key))
}

pub(super) fn state<'t>(node: Node<'t>, key: &'t [u8]) -> Read<'t, State<'t>> {
    let state = object(node, key)?;
    let stream = required(state, b"Stream")?;
    let data = required(state, b"Data")?;
    let code = state.member(b"Code").map_or(Ok(0), |node| named(node, b"Code", names::state_code::number))?;
    let text = state.member(b"Text").filter(|text| text.kind() != Kind::Null);
    Ok(State {
        stream: match named(stream, b"Stream", names::stream_state::number)? {
            1 => StreamState::Open,
            2 => StreamState::NonStreaming,
            3 => StreamState::ClosedRecover,
            4 => StreamState::Closed,
            5 => StreamState::Redirected,
            _ => return Err(Fault::unexpected_value(stream, b"Stream")),
        },
        data: match named(data, b"Data", names::data_state::number)? {
            0 => DataState::NoChange,
            1 => DataState::Ok,
            2 => DataState::Suspect,
            _ => return Err(Fault::unexpected_value(data, b"Data")),
        },
        code: StateCode(code),
        text: text.map_or(Ok(&[][..]), |text| string(text, b"Text"))?,
    })
}

/// A quality; `None` if it leaves open how old the data is, or which changes are sent.
pub(super) fn qos<'t>(node: Node<'t>, key: &'t [u8]) -> Read<'t, Option<Qos>> {
    let qos = object(node, key)?;
    let timeliness = required(qos, b"Timeliness")?;
    let rate = required(qos, b"Rate")?;
    let timeliness = match named(timeliness, b"Timeliness", names::timeliness::number)? {
        0 => None,
        1 => Some(Timeliness::RealTime),
        2 => Some(Timeliness::DelayedUnknown),
        3 => Some(Timeliness::Delayed(number_or(qos, b"TimeInfo", 0)?)),
        _ => return Err(Fault::unexpected_value(timeliness, b"Timeliness")),
    };
    let rate = match named(rate, b"Rate", names::rate::number)? {
        0 => None,
        1 => Some(Rate::TickByTick),
        2 => Some(Rate::JustInTimeConflated),
        3 => Some(Rate::TimeConflated(number_or(qos, b"RateInfo", 0)?)),
        _ => return Err(Fault::unexpected_value(rate, b"Rate")),
    };
    let dynamic = qos.member(b"Dynamic").map_or(Ok(false), |node| boolean(node, b"Dynamic"))?;
    Ok(timeliness.zip(rate).map(|(timeliness, rate)| Qos { timeliness, rate, dynamic }))
}

pub(super) fn priority<'t>(node: Node<'t>, key: &'t [u8]) -> Read<'t, Priority> {
    let priority = object(node, key)?;
    Ok(Priority { class: number_or(priority, b"Class", 1)?, count: number_or(priority, b"Count", 1)? })
}

/// An IPv4 address, dotted or as a number.
pub(super) fn address<'t>(node: Node<'t>, key: &'t [u8]) -> Read<'t, u32> {
    let Some(text) = node.string() else { return number(node, key) };
    let address = std::str::from_utf8(text).ok().and_then(|text| text.parse::<Ipv4Addr>().ok());
    address.map(u32::from).ok_or_else(|| Fault::unexpected_value(node, key))
}

/// The number of a service, or its name.
pub(super) fn service<'t>(node: Node<'t>, id: impl Fn(&str) -> Option<u16>) -> Read<'t, u16> {
    let Some(received) = node.string() else { return number(node, b"Service") };
    let found = std::str::from_utf8(received).ok().and_then(id);
    found.ok_or(Fault::at(What::UnknownService { received }, node))
}
