//! What a turn brings, before it becomes objects.

use std::net::SocketAddr;
use std::ops::Range;

use messaging::{
    Asked, BatchEdge, End, EndReason, FailoverLoss, Handler, Loss, Message, Receiver, RequestEnd, RequestId,
    SecurityEvent, Source, SourceEvent, SourceInfo, Sqn, StreamId, Via,
};

/// An event without its payload, which stands in [`Gathered::bytes`].
pub(crate) enum Event {
    Message(Received),
    Source { receiver: u64, stream: u32, topic: String, source: String },
    Begin { receiver: u64, stream: u32, first: u32 },
    Loss { receiver: u64, stream: u32, first: u32, count: u32, is_burst: bool },
    FailoverLoss { receiver: u64, topic: String, loss: FailoverLoss },
    End { receiver: u64, stream: u32, reason: &'static str, next: Option<u32>, is_tail_unknown: bool },
    Notice { source: u64, what: &'static str, peer: Option<SocketAddr>, receivers: Option<usize> },
    Security { what: &'static str, text: String },
    Response { request: u32, payload: Range<usize> },
    RequestEnd { request: u32 },
}

/// A message without its payload.
pub(crate) struct Received {
    pub(crate) receiver: u64,
    pub(crate) stream: u32,
    pub(crate) sqn: u32,
    pub(crate) first_sqn: u32,
    pub(crate) payload: Range<usize>,
    pub(crate) recovered: bool,
    pub(crate) via: &'static str,
    pub(crate) batch: Option<&'static str>,
    pub(crate) asked: Option<Asked>,
    pub(crate) number: Option<u64>,
}

/// The events of a turn and their payloads, one behind the other.
#[derive(Default)]
pub(crate) struct Gathered {
    pub(crate) events: Vec<Event>,
    pub(crate) bytes: Vec<u8>,
}

/// Events and bytes of payloads that may wait while a send or a drain drives the context.
const EARLY_EVENTS_MAX: usize = 1 << 20;
const EARLY_BYTES_MAX: usize = 64 << 20;

impl Gathered {
    /// Whether so much waits that somebody has to take it first.
    pub(crate) fn is_full(&self) -> bool {
        self.events.len() >= EARLY_EVENTS_MAX || self.bytes.len() >= EARLY_BYTES_MAX
    }

    fn keep(&mut self, payload: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        start..self.bytes.len()
    }
}

impl Handler for Gathered {
    fn on_message(&mut self, message: &Message<'_>) {
        let payload = self.keep(message.payload);
        let is_plain = message.headers.is_empty();
        self.events.push(Event::Message(Received {
            receiver: message.receiver.to_bits(),
            stream: message.stream.0,
            sqn: message.sqn.0,
            first_sqn: message.first_sqn.0,
            payload,
            recovered: message.recovered,
            via: match message.via {
                Via::Transport => "transport",
                Via::LateJoin => "late_join",
                Via::OffTransport => "off_transport",
            },
            batch: if is_plain { None } else { message.batch() }.map(|edge| match edge {
                BatchEdge::Start => "start",
                BatchEdge::End => "end",
            }),
            asked: if is_plain { None } else { message.request() },
            number: if is_plain { None } else { message.failover_number() },
        }));
    }

    fn on_source(&mut self, receiver: Receiver, stream: StreamId, info: &SourceInfo<'_>) {
        let (topic, source) = (info.topic.to_owned(), info.transport.to_string());
        self.events.push(Event::Source { receiver: receiver.to_bits(), stream: stream.0, topic, source });
    }

    fn on_begin(&mut self, receiver: Receiver, stream: StreamId, first: Sqn) {
        self.events.push(Event::Begin { receiver: receiver.to_bits(), stream: stream.0, first: first.0 });
    }

    fn on_loss(&mut self, receiver: Receiver, stream: StreamId, loss: Loss) {
        let Loss { first, count, is_burst } = loss;
        let (receiver, stream, first) = (receiver.to_bits(), stream.0, first.0);
        self.events.push(Event::Loss { receiver, stream, first, count, is_burst });
    }

    fn on_failover_loss(&mut self, receiver: Receiver, topic: &str, loss: FailoverLoss) {
        self.events.push(Event::FailoverLoss { receiver: receiver.to_bits(), topic: topic.to_owned(), loss });
    }

    fn on_end(&mut self, receiver: Receiver, stream: StreamId, end: &End) {
        let reason = match end.reason {
            EndReason::Ended => "ended",
            EndReason::TimedOut => "timed_out",
            EndReason::Closed => "closed",
            EndReason::Broken => "broken",
            EndReason::Reset => "reset",
            EndReason::Restarted => "restarted",
        };
        let (next, is_tail_unknown) = (end.next.map(|next| next.0), end.tail_unknown);
        let (receiver, stream) = (receiver.to_bits(), stream.0);
        self.events.push(Event::End { receiver, stream, reason, next, is_tail_unknown });
    }

    fn on_source_event(&mut self, source: Source, event: SourceEvent) {
        let mut receivers = None;
        let (what, peer) = match event {
            SourceEvent::ReceiverConnected(peer) => ("receiver_connected", Some(peer)),
            SourceEvent::ReceiverDisconnected(peer) => ("receiver_disconnected", Some(peer)),
            SourceEvent::WakeUp => ("wake_up", None),
            SourceEvent::ReceiverTooSlow(peer) => ("receiver_too_slow", Some(peer)),
            SourceEvent::ReceiversChanged(count) => {
                receivers = Some(count);
                ("receivers_changed", None)
            }
            _ => return,
        };
        self.events.push(Event::Notice { source: source.to_bits(), what, peer, receivers });
    }

    fn on_security(&mut self, event: SecurityEvent, text: &str) {
        let what = match event {
            SecurityEvent::Reloaded => "reloaded",
            SecurityEvent::ReloadFailed => "reload_failed",
            SecurityEvent::CertificateRefused => "certificate_refused",
            SecurityEvent::Unreadable => "unreadable",
            SecurityEvent::Exposed => "exposed",
            _ => return,
        };
        self.events.push(Event::Security { what, text: text.to_owned() });
    }

    fn on_response(&mut self, request: RequestId, payload: &[u8]) {
        let payload = self.keep(payload);
        self.events.push(Event::Response { request: request.0, payload });
    }

    fn on_request_end(&mut self, request: RequestId, _: RequestEnd) {
        self.events.push(Event::RequestEnd { request: request.0 });
    }
}
