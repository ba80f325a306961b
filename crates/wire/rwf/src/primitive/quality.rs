//! Qos and State.

use std::borrow::Cow;
use std::fmt;

use super::{Decode, FixedForm, Primitive, Sealed, Typed};
use crate::reader::Reader;
use crate::{DataType, DecodeError, EncodeError, Place, Writer};

/// Quality of service: how old the data is and whether every change is sent.
///
/// Shape: timeliness << 5 | rate << 1 | dynamic, then `u16` of time information if delayed, then `u16` of
/// rate information if time-conflated. Source: RWF 14.1, Qos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Qos {
    /// How old the data is.
    pub timeliness: Timeliness,
    /// Which changes are sent.
    pub rate: Rate,
    /// Whether the quality may change while the stream is open.
    pub dynamic: bool,
}

/// How old data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timeliness {
    /// As it happens.
    RealTime,
    /// Delayed by an unknown time.
    DelayedUnknown,
    /// Delayed; the number says by how much.
    Delayed(u16),
}

/// Which changes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rate {
    /// Every one.
    TickByTick,
    /// Conflated when the receiver cannot keep up.
    JustInTimeConflated,
    /// Conflated over an interval that the number says.
    TimeConflated(u16),
}

impl Qos {
    /// Real time, tick by tick: what nearly every service offers.
    pub const REAL_TIME: Qos =
        Qos { timeliness: Timeliness::RealTime, rate: Rate::TickByTick, dynamic: false };

    #[inline]
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Qos, DecodeError> {
        let byte = r.u8(Place::Qos)?;
        let timeliness = match byte >> 5 {
            1 => Timeliness::RealTime,
            2 => Timeliness::DelayedUnknown,
            3 => Timeliness::Delayed(r.u16(Place::Qos)?),
            _ => return Err(bad_qos(byte)),
        };
        let rate = match byte >> 1 & 0x0F {
            1 => Rate::TickByTick,
            2 => Rate::JustInTimeConflated,
            3 => Rate::TimeConflated(r.u16(Place::Qos)?),
            _ => return Err(bad_qos(byte)),
        };
        Ok(Qos { timeliness, rate, dynamic: byte & 1 != 0 })
    }

    fn parts(self) -> (u8, Option<u16>, Option<u16>) {
        let (timeliness, time_info) = match self.timeliness {
            Timeliness::RealTime => (1, None),
            Timeliness::DelayedUnknown => (2, None),
            Timeliness::Delayed(info) => (3, Some(info)),
        };
        let (rate, rate_info) = match self.rate {
            Rate::TickByTick => (1, None),
            Rate::JustInTimeConflated => (2, None),
            Rate::TimeConflated(info) => (3, Some(info)),
        };
        (timeliness << 5 | rate << 1 | u8::from(self.dynamic), time_info, rate_info)
    }
}

#[cold]
fn bad_qos(byte: u8) -> DecodeError {
    DecodeError::BadValue { place: Place::Qos, value: byte.into(), max: 0x67 }
}

impl Sealed for Qos {}
impl Typed for Qos {
    const TYPE: DataType = DataType::QOS;
}

impl Primitive for Qos {
    #[inline]
    fn data_type(&self) -> DataType {
        Self::TYPE
    }

    #[inline]
    fn content_len(&self) -> usize {
        let (_, time_info, rate_info) = self.parts();
        1 + 2 * usize::from(time_info.is_some()) + 2 * usize::from(rate_info.is_some())
    }

    #[inline]
    fn put_content(&self, w: &mut Writer<'_>) {
        let (byte, time_info, rate_info) = self.parts();
        w.u8(byte);
        for info in [time_info, rate_info].into_iter().flatten() {
            w.u16(info);
        }
    }

    fn put_fixed(&self, _: FixedForm, w: &mut Writer<'_>) {
        w.fail(EncodeError::BadType { place: Place::ArrayItem, data_type: Self::TYPE });
    }
}

impl Decode<'_> for Qos {
    #[inline]
    fn decode(content: &[u8]) -> Result<Option<Qos>, DecodeError> {
        if content.is_empty() { Ok(None) } else { Qos::read(&mut Reader::new(content)).map(Some) }
    }
}

/// The state of a stream and of its data.
///
/// Shape: stream << 3 | data, code `u8`, text with a `u15rb` length. Source: RWF 14.1, State.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct State<'a> {
    /// Whether the stream goes on.
    pub stream: StreamState,
    /// Whether the data can be trusted.
    pub data: DataState,
    /// Why, as a number.
    pub code: StateCode,
    /// Why, in words; may be empty.
    pub text: &'a [u8],
}

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamState {
    /// It goes on.
    Open = 1,
    /// The image is complete and no updates follow.
    NonStreaming = 2,
    /// It ended; the same request may succeed later.
    ClosedRecover = 3,
    /// It ended; the same request will not succeed.
    Closed = 4,
    /// It ended; the key says where the item is.
    Redirected = 5,
}

/// Whether the data of a stream can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataState {
    /// As before.
    NoChange = 0,
    /// It can.
    Ok = 1,
    /// It may be stale.
    Suspect = 2,
}

crate::code_point::code_points! {
    /// Why a state is what it is. The set is open; 127 and below are reserved for the standard.
    StateCode, "code";
    0 NONE "none"; 1 NOT_FOUND "not found"; 2 TIMEOUT "timeout"; 3 NOT_ENTITLED "not entitled";
    4 INVALID_ARGUMENT "invalid argument"; 5 USAGE_ERROR "usage error"; 6 PREEMPTED "preempted";
    7 JIT_CONFLATION_STARTED "just-in-time conflation started"; 8 REAL_TIME_RESUMED "real time resumed";
    9 FAILOVER_STARTED "failover started"; 10 FAILOVER_COMPLETED "failover completed";
    11 GAP_DETECTED "gap detected"; 12 NO_RESOURCES "no resources"; 13 TOO_MANY_ITEMS "too many items";
    14 ALREADY_OPEN "already open"; 15 SOURCE_UNKNOWN "source unknown"; 16 NOT_OPEN "not open";
    19 NON_UPDATING_ITEM "non-updating item"; 20 UNSUPPORTED_VIEW_TYPE "unsupported view type";
    21 INVALID_VIEW "invalid view"; 22 FULL_VIEW_PROVIDED "full view provided";
    23 UNABLE_TO_REQUEST_AS_BATCH "unable to request as batch";
    26 NO_BATCH_VIEW_SUPPORT "no batch view support in request";
    27 EXCEEDED_MAX_MOUNTS_PER_USER "exceeded maximum mounts per user"; 28 ERROR "error";
    29 DACS_DOWN "DACS down";
    30 USER_UNKNOWN_TO_PERM_SYS "user unknown to permission system";
    31 DACS_MAX_LOGINS_REACHED "DACS maximum logins reached";
    32 DACS_USER_ACCESS_DENIED "DACS user access to application denied"; 34 GAP_FILL "gap fill";
    35 APP_AUTHORIZATION_FAILED "application authorization failed";
}

impl<'a> State<'a> {
    /// An open stream with good data and nothing to say.
    pub const OPEN_OK: State<'static> = State::new(StreamState::Open, DataState::Ok);

    /// A state without code and text.
    #[must_use]
    pub const fn new(stream: StreamState, data: DataState) -> State<'a> {
        State { stream, data, code: StateCode::NONE, text: b"" }
    }

    /// The same state with a code and a text.
    #[must_use]
    pub const fn because(self, code: StateCode, text: &'a str) -> State<'a> {
        State { code, text: text.as_bytes(), ..self }
    }

    /// The text, with what is not UTF-8 replaced.
    #[must_use]
    pub fn text_lossy(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.text)
    }

    #[inline]
    pub(crate) fn read(r: &mut Reader<'a>) -> Result<State<'a>, DecodeError> {
        let [states, code] = *r.chunk(Place::State)?;
        let stream = match states >> 3 {
            1 => StreamState::Open,
            2 => StreamState::NonStreaming,
            3 => StreamState::ClosedRecover,
            4 => StreamState::Closed,
            5 => StreamState::Redirected,
            value => return Err(bad_state(value, Place::StreamState, 5)),
        };
        let data = match states & 7 {
            0 => DataState::NoChange,
            1 => DataState::Ok,
            2 => DataState::Suspect,
            value => return Err(bad_state(value, Place::DataState, 2)),
        };
        Ok(State { stream, data, code: StateCode(code), text: r.buf15(Place::StateText)? })
    }
}

#[cold]
fn bad_state(value: u8, place: Place, max: u32) -> DecodeError {
    DecodeError::BadValue { place, value: value.into(), max }
}

impl Sealed for State<'_> {}
impl Typed for State<'_> {
    const TYPE: DataType = DataType::STATE;
}

impl Primitive for State<'_> {
    #[inline]
    fn data_type(&self) -> DataType {
        Self::TYPE
    }

    #[inline]
    fn content_len(&self) -> usize {
        3 + usize::from(self.text.len() >= 0x80) + self.text.len()
    }

    #[inline]
    fn put_content(&self, w: &mut Writer<'_>) {
        w.chunk([(self.stream as u8) << 3 | self.data as u8, self.code.0], 2);
        w.buf15(self.text, Place::StateText);
    }

    fn put_fixed(&self, _: FixedForm, w: &mut Writer<'_>) {
        w.fail(EncodeError::BadType { place: Place::ArrayItem, data_type: Self::TYPE });
    }
}

impl<'a> Decode<'a> for State<'a> {
    #[inline]
    fn decode(content: &'a [u8]) -> Result<Option<State<'a>>, DecodeError> {
        if content.is_empty() { Ok(None) } else { State::read(&mut Reader::new(content)).map(Some) }
    }
}

impl Default for State<'_> {
    fn default() -> Self {
        State::OPEN_OK
    }
}

impl fmt::Display for StreamState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StreamState::Open => "open",
            StreamState::NonStreaming => "non-streaming",
            StreamState::ClosedRecover => "closed-recover",
            StreamState::Closed => "closed",
            StreamState::Redirected => "redirected",
        })
    }
}

impl fmt::Display for DataState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DataState::NoChange => "no change",
            DataState::Ok => "ok",
            DataState::Suspect => "suspect",
        })
    }
}

impl fmt::Display for State<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stream, self.data)?;
        if self.code != StateCode::NONE {
            write!(f, ", {}", self.code)?;
        }
        if !self.text.is_empty() {
            write!(f, ", {:?}", self.text_lossy())?;
        }
        Ok(())
    }
}

impl fmt::Debug for State<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Qos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.timeliness {
            Timeliness::RealTime => f.write_str("real time")?,
            Timeliness::DelayedUnknown => f.write_str("delayed")?,
            Timeliness::Delayed(info) => write!(f, "delayed {info}")?,
        }
        match self.rate {
            Rate::TickByTick => f.write_str("/tick by tick")?,
            Rate::JustInTimeConflated => f.write_str("/just-in-time conflated")?,
            Rate::TimeConflated(info) => write!(f, "/time conflated {info}")?,
        }
        f.write_str(if self.dynamic { ", dynamic" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_qualities_that_do_not_exist_are_errors() {
        for byte in 0..=u8::MAX {
            let legal = (1..=5).contains(&(byte >> 3)) && byte & 7 <= 2;
            assert_eq!(State::decode(&[byte, 0, 0]).is_ok(), legal, "{byte:#x}");
            let legal = (1..=3).contains(&(byte >> 5)) && (1..=3).contains(&(byte >> 1 & 0x0F));
            assert_eq!(Qos::decode(&[byte, 0, 0, 0, 0]).is_ok(), legal, "{byte:#x}");
        }
    }

    #[test]
    fn a_state_reads_as_a_sentence() {
        let state =
            State::new(StreamState::Closed, DataState::Suspect).because(StateCode::NOT_FOUND, "no such item");
        assert_eq!(state.to_string(), "closed/suspect, not found, \"no such item\"");
        assert_eq!(Qos::REAL_TIME.to_string(), "real time/tick by tick");
    }
}
