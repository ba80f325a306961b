//! Events, as C hears them.

use std::ffi::{c_char, c_int, c_void};
use std::net::{Ipv4Addr, SocketAddrV4};

use messaging::{
    Asked, BatchEdge, End, EndReason, FailoverLoss, Handler, Left, Loss, Message, Receiver, RequestEnd,
    RequestId, SecurityEvent, Source, SourceEvent, SourceInfo, Sqn, StreamId, Via,
};

use crate::text;

/// Flags of a message.
pub mod flags {
    /// `TICKCAST_RECOVERED`
    pub const RECOVERED: u32 = 1;
    /// `TICKCAST_LATE_JOIN`
    pub const LATE_JOIN: u32 = 2;
    /// `TICKCAST_OFF_TRANSPORT`
    pub const OFF_TRANSPORT: u32 = 4;
    /// `TICKCAST_IS_REQUEST`
    pub const IS_REQUEST: u32 = 8;
    /// `TICKCAST_IS_BATCH_START`
    pub const IS_BATCH_START: u32 = 16;
    /// `TICKCAST_IS_BATCH_END`
    pub const IS_BATCH_END: u32 = 32;
    /// `TICKCAST_HAS_NUMBER`
    pub const HAS_NUMBER: u32 = 64;
}

/// Events of a source.
pub mod source_events {
    /// `TICKCAST_SOURCE_RECEIVER_CONNECTED`
    pub const RECEIVER_CONNECTED: i32 = 1;
    /// `TICKCAST_SOURCE_RECEIVER_DISCONNECTED`
    pub const RECEIVER_DISCONNECTED: i32 = 2;
    /// `TICKCAST_SOURCE_WAKE_UP`
    pub const WAKE_UP: i32 = 3;
    /// `TICKCAST_SOURCE_RECEIVER_TOO_SLOW`
    pub const RECEIVER_TOO_SLOW: i32 = 4;
}

/// What happened to keys and certificates.
pub mod security_events {
    /// `TICKCAST_SECURITY_RELOADED`
    pub const RELOADED: i32 = 1;
    /// `TICKCAST_SECURITY_RELOAD_FAILED`
    pub const RELOAD_FAILED: i32 = 2;
    /// `TICKCAST_SECURITY_CERTIFICATE_REFUSED`
    pub const CERTIFICATE_REFUSED: i32 = 3;
    /// `TICKCAST_SECURITY_UNREADABLE`
    pub const UNREADABLE: i32 = 4;
    /// `TICKCAST_SECURITY_EXPOSED`
    pub const EXPOSED: i32 = 5;
}

/// Why a stream is over.
pub mod ends {
    /// `TICKCAST_END_ENDED`
    pub const ENDED: i32 = 1;
    /// `TICKCAST_END_TIMED_OUT`
    pub const TIMED_OUT: i32 = 2;
    /// `TICKCAST_END_CLOSED`
    pub const CLOSED: i32 = 3;
    /// `TICKCAST_END_BROKEN`
    pub const BROKEN: i32 = 4;
    /// `TICKCAST_END_RESET`
    pub const RESET: i32 = 5;
    /// `TICKCAST_END_RESTARTED`
    pub const RESTARTED: i32 = 6;
}

/// `tickcast_asked`
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct AskedValue {
    pub index: u32,
    pub address: u32,
    pub port: u16,
}

impl From<Asked> for AskedValue {
    fn from(asked: Asked) -> AskedValue {
        let Asked { index, address } = asked;
        AskedValue { index, address: address.ip().to_bits(), port: address.port() }
    }
}

impl From<AskedValue> for Asked {
    fn from(asked: AskedValue) -> Asked {
        let AskedValue { index, address, port } = asked;
        Asked { index, address: SocketAddrV4::new(Ipv4Addr::from_bits(address), port) }
    }
}

/// `tickcast_message`
#[repr(C)]
#[allow(missing_docs)]
pub struct MessageValue {
    pub receiver: u64,
    pub stream: u32,
    pub sqn: u32,
    pub first_sqn: u32,
    pub flags: u32,
    pub data: *const c_void,
    pub length: usize,
    pub asked: AskedValue,
    pub number: u64,
}

/// `tickcast_end`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs)]
pub struct EndValue {
    pub reason: c_int,
    pub has_next: c_int,
    pub next: u32,
    pub is_tail_unknown: c_int,
}

/// `tickcast_left`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs)]
pub struct LeftValue {
    pub messages: u64,
    pub bytes: u64,
    pub sessions: u32,
    pub receivers: u32,
}

impl From<&Left> for LeftValue {
    fn from(left: &Left) -> LeftValue {
        LeftValue {
            messages: left.messages(),
            bytes: left.bytes(),
            sessions: left.sessions.len() as u32,
            receivers: left.sessions.iter().map(|session| session.receivers).sum(),
        }
    }
}

/// A number of receivers as C has it.
pub(crate) fn number_of(receivers: usize) -> u32 {
    u32::try_from(receivers).unwrap_or(u32::MAX)
}

type User = *mut c_void;

/// `tickcast_handlers`
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Handlers {
    pub size: usize,
    pub on_message: Option<unsafe extern "C" fn(User, *const MessageValue)>,
    pub on_source: Option<unsafe extern "C" fn(User, u64, u32, *const c_char, *const c_char)>,
    pub on_begin: Option<unsafe extern "C" fn(User, u64, u32, u32)>,
    pub on_loss: Option<unsafe extern "C" fn(User, u64, u32, u32, u32, c_int)>,
    pub on_end: Option<unsafe extern "C" fn(User, u64, u32, c_int)>,
    pub on_source_event: Option<unsafe extern "C" fn(User, u64, c_int, *const c_char)>,
    pub on_response: Option<unsafe extern "C" fn(User, u32, *const c_void, usize)>,
    pub on_request_end: Option<unsafe extern "C" fn(User, u32)>,
    pub on_failover_loss: Option<unsafe extern "C" fn(User, u64, *const c_char, u64, u64)>,
    pub on_security: Option<unsafe extern "C" fn(User, c_int, *const c_char)>,
    pub on_stream_end: Option<unsafe extern "C" fn(User, u64, u32, *const EndValue)>,
    pub on_receivers: Option<unsafe extern "C" fn(User, u64, u32)>,
}

impl Handlers {
    /// Nobody hears anything.
    pub const NONE: Handlers = Handlers {
        size: size_of::<Handlers>(),
        on_message: None,
        on_source: None,
        on_begin: None,
        on_loss: None,
        on_end: None,
        on_source_event: None,
        on_response: None,
        on_request_end: None,
        on_failover_loss: None,
        on_security: None,
        on_stream_end: None,
        on_receivers: None,
    };
}

/// Calls the application. Whoever makes it has the application's promise (header) that each callback may be
/// called with `user` until the handlers are set anew.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    pub(crate) handlers: Handlers,
    pub(crate) user: User,
}

impl Calls {
    pub(crate) const NONE: Calls = Calls { handlers: Handlers::NONE, user: std::ptr::null_mut() };
}

impl Handler for Calls {
    #[inline]
    fn on_message(&mut self, message: &Message<'_>) {
        let Some(call) = self.handlers.on_message else { return };
        let mut value = MessageValue {
            receiver: message.receiver.to_bits(),
            stream: message.stream.0,
            sqn: message.sqn.0,
            first_sqn: message.first_sqn.0,
            flags: if message.recovered { flags::RECOVERED } else { 0 },
            data: message.payload.as_ptr().cast(),
            length: message.payload.len(),
            asked: AskedValue::default(),
            number: 0,
        };
        value.flags |= match message.via {
            Via::Transport => 0,
            Via::LateJoin => flags::LATE_JOIN,
            Via::OffTransport => flags::OFF_TRANSPORT,
        };
        if !message.headers.is_empty() {
            describe(message, &mut value);
        }
        // SAFETY: the promise of `Calls`; `value` and the payload outlive the call.
        unsafe { call(self.user, &raw const value) };
    }

    fn on_source(&mut self, receiver: Receiver, stream: StreamId, info: &SourceInfo<'_>) {
        let Some(call) = self.handlers.on_source else { return };
        let (topic, source) = (text::owned(info.topic), text::owned(&info.transport.to_string()));
        // SAFETY: the promise of `Calls`; the texts outlive the call.
        unsafe { call(self.user, receiver.to_bits(), stream.0, topic.as_ptr(), source.as_ptr()) };
    }

    fn on_begin(&mut self, receiver: Receiver, stream: StreamId, first: Sqn) {
        let Some(call) = self.handlers.on_begin else { return };
        // SAFETY: the promise of `Calls`.
        unsafe { call(self.user, receiver.to_bits(), stream.0, first.0) };
    }

    fn on_loss(&mut self, receiver: Receiver, stream: StreamId, loss: Loss) {
        let Some(call) = self.handlers.on_loss else { return };
        let Loss { first, count, is_burst } = loss;
        // SAFETY: the promise of `Calls`.
        unsafe { call(self.user, receiver.to_bits(), stream.0, first.0, count, is_burst.into()) };
    }

    fn on_failover_loss(&mut self, receiver: Receiver, topic: &str, loss: FailoverLoss) {
        let Some(call) = self.handlers.on_failover_loss else { return };
        let (topic, FailoverLoss { first, count }) = (text::owned(topic), loss);
        // SAFETY: the promise of `Calls`; the text outlives the call.
        unsafe { call(self.user, receiver.to_bits(), topic.as_ptr(), first, count) };
    }

    fn on_end(&mut self, receiver: Receiver, stream: StreamId, end: &End) {
        let reason = match end.reason {
            EndReason::Ended => ends::ENDED,
            EndReason::TimedOut => ends::TIMED_OUT,
            EndReason::Closed => ends::CLOSED,
            EndReason::Broken => ends::BROKEN,
            EndReason::Reset => ends::RESET,
            EndReason::Restarted => ends::RESTARTED,
        };
        if let Some(call) = self.handlers.on_stream_end {
            let value = EndValue {
                reason,
                has_next: end.next.is_some().into(),
                next: end.next.map_or(0, |next| next.0),
                is_tail_unknown: end.tail_unknown.into(),
            };
            // SAFETY: the promise of `Calls`.
            unsafe { call(self.user, receiver.to_bits(), stream.0, &raw const value) };
        }
        if let Some(call) = self.handlers.on_end {
            // SAFETY: the promise of `Calls`.
            unsafe { call(self.user, receiver.to_bits(), stream.0, reason) };
        }
    }

    fn on_source_event(&mut self, source: Source, event: SourceEvent) {
        if let SourceEvent::ReceiversChanged(count) = event {
            if let Some(call) = self.handlers.on_receivers {
                // SAFETY: the promise of `Calls`.
                unsafe { call(self.user, source.to_bits(), number_of(count)) };
            }
            return;
        }
        let Some(call) = self.handlers.on_source_event else { return };
        let (number, peer) = match event {
            SourceEvent::ReceiverConnected(peer) => (source_events::RECEIVER_CONNECTED, Some(peer)),
            SourceEvent::ReceiverDisconnected(peer) => (source_events::RECEIVER_DISCONNECTED, Some(peer)),
            SourceEvent::WakeUp => (source_events::WAKE_UP, None),
            SourceEvent::ReceiverTooSlow(peer) => (source_events::RECEIVER_TOO_SLOW, Some(peer)),
            _ => return,
        };
        let peer = peer.map(|peer| text::owned(&peer.to_string()));
        let peer = peer.as_ref().map_or(std::ptr::null(), |peer| peer.as_ptr());
        // SAFETY: the promise of `Calls`; the text outlives the call.
        unsafe { call(self.user, source.to_bits(), number, peer) };
    }

    fn on_security(&mut self, event: SecurityEvent, text: &str) {
        let Some(call) = self.handlers.on_security else { return };
        let number = match event {
            SecurityEvent::Reloaded => security_events::RELOADED,
            SecurityEvent::ReloadFailed => security_events::RELOAD_FAILED,
            SecurityEvent::CertificateRefused => security_events::CERTIFICATE_REFUSED,
            SecurityEvent::Unreadable => security_events::UNREADABLE,
            SecurityEvent::Exposed => security_events::EXPOSED,
            _ => return,
        };
        let text = text::owned(text);
        // SAFETY: the promise of `Calls`; the text outlives the call.
        unsafe { call(self.user, number, text.as_ptr()) };
    }

    fn on_response(&mut self, request: RequestId, payload: &[u8]) {
        let Some(call) = self.handlers.on_response else { return };
        // SAFETY: the promise of `Calls`; the payload outlives the call.
        unsafe { call(self.user, request.0, payload.as_ptr().cast(), payload.len()) };
    }

    fn on_request_end(&mut self, request: RequestId, _: RequestEnd) {
        let Some(call) = self.handlers.on_request_end else { return };
        // SAFETY: the promise of `Calls`.
        unsafe { call(self.user, request.0) };
    }
}

/// What few messages have.
#[cold]
fn describe(message: &Message<'_>, value: &mut MessageValue) {
    if let Some(asked) = message.request() {
        value.flags |= flags::IS_REQUEST;
        value.asked = asked.into();
    }
    if let Some(number) = message.failover_number() {
        value.flags |= flags::HAS_NUMBER;
        value.number = number;
    }
    value.flags |= match message.batch() {
        Some(BatchEdge::Start) => flags::IS_BATCH_START,
        Some(BatchEdge::End) => flags::IS_BATCH_END,
        None => 0,
    };
}
