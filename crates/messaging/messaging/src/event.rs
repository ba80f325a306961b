use std::net::{SocketAddr, SocketAddrV4};

use lbt::delivery::{Delivered, EndReason, Via};
use lbt::resolution::TransportSession;
use lbt::wire::lbmc::{Header, Headers};
use units::Sqn;

use crate::{ConnectionId, Receiver, RequestId, SendFlags, Source, StreamId};

/// What is known of a source when it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceInfo<'a> {
    /// The topic; with wildcard receivers it is one of many.
    pub topic: &'a str,
    /// Sources with the same number are of the same transport session.
    pub session: u64,
    /// Where it is heard; prints as the field's source strings do.
    pub transport: TransportSession,
    /// Where its process takes direct connections and requests.
    pub request: Option<SocketAddrV4>,
}

/// One message as a receiver gets it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Who receives it.
    pub receiver: Receiver,
    /// Whose it is.
    pub stream: StreamId,
    /// Its topic number: that of its last fragment if it was fragmented.
    pub sqn: Sqn,
    /// The topic number of its first fragment.
    pub first_sqn: Sqn,
    /// The application's bytes; valid during the call, not copied from where the transport has them.
    pub payload: &'a [u8],
    /// Whether it, or a fragment of it, came by retransmission.
    pub recovered: bool,
    /// By which way it came.
    pub via: Via,
    /// What else it carries.
    pub headers: Headers<'a>,
}

impl<'a> Message<'a> {
    /// What a transport has delivered, for one receiver.
    #[inline]
    pub(crate) fn of(receiver: Receiver, stream: StreamId, message: &Delivered<'a>) -> Message<'a> {
        Message {
            receiver,
            stream,
            sqn: message.sqn,
            first_sqn: message.first_sqn,
            payload: message.payload,
            recovered: message.recovered,
            via: message.via,
            headers: message.headers,
        }
    }

    /// The number under which several sources send it, if it was sent by
    /// [`Context::send_hot_failover`](crate::Context::send_hot_failover).
    #[must_use]
    pub fn failover_number(&self) -> Option<u64> {
        self.headers.failover_number()
    }

    /// Where to answer, if the message is a request; see [`Context::respond`](crate::Context::respond).
    #[must_use]
    pub fn request(&self) -> Option<Asked> {
        if self.headers.is_empty() {
            return None;
        }
        self.headers.iter().find_map(|header| match header {
            Header::Request { transport: 0, index, port, ip, .. } => {
                Some(Asked { index, address: SocketAddrV4::new(ip, port) })
            }
            _ => None,
        })
    }

    /// Its place in an explicit batch, if it is the first or the last message of one.
    #[must_use]
    pub fn batch(&self) -> Option<BatchEdge> {
        if self.headers.is_empty() {
            return None;
        }
        self.headers.iter().find_map(|header| match header {
            Header::Batch { flags } if flags & BATCH_START != 0 => Some(BatchEdge::Start),
            Header::Batch { flags } if flags & BATCH_END != 0 => Some(BatchEdge::End),
            _ => None,
        })
    }
}

/// Bits of the BATCH header.
pub(crate) const BATCH_START: u16 = 2;
pub(crate) const BATCH_END: u16 = 1;

/// The bits of the BATCH header that flags ask for; 0 for no header.
pub(crate) fn batch_bits(flags: SendFlags) -> u16 {
    let start = if flags.batch_start { BATCH_START } else { 0 };
    start | if flags.batch_end { BATCH_END } else { 0 }
}

/// The two ends of an explicit batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEdge {
    /// The first message.
    Start,
    /// The last message.
    End,
}

/// A request as its receiver sees it: where the answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    /// The number of the request at the one who asks.
    pub index: u32,
    /// The request port of the one who asks.
    pub address: SocketAddrV4,
}

/// Messages that will not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Topic number of the first; fragments count singly.
    pub first: Sqn,
    /// How many.
    pub count: u32,
    /// There are at least `delivery_control_maximum_burst_loss` of them.
    pub is_burst: bool,
}

/// Numbers of a topic with hot failover that no source can deliver any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailoverLoss {
    /// The first number.
    pub first: u64,
    /// How many; some of them may never have been sent.
    pub count: u64,
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Why.
    pub reason: EndReason,
    /// The topic number that would have come next; none if no message was heard.
    pub next: Option<Sqn>,
    /// There may have been further messages: the end itself was not heard, or the last thing that was lost
    /// came after the last thing that was heard of this topic.
    pub tail_unknown: bool,
}

/// What a source is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceEvent {
    /// A receiving context has connected to the source's session (transports with connections).
    ReceiverConnected(SocketAddr),
    /// It is gone.
    ReceiverDisconnected(SocketAddr),
    /// A receiver asks for more than its share of the retransmissions, or cannot follow even the lowest
    /// rate; it is left to its losses for a while. Over TCP: it takes nothing while the session waits for it,
    /// and is passed over until it does (`tcp.receiver_stopped_timeout_us`).
    ReceiverTooSlow(SocketAddr),
    /// A send was refused because it would block; there is room again.
    WakeUp,
    /// So many receivers of the source's topic have said that they receive it, since
    /// [`Context::watch_receivers`](crate::Context::watch_receivers) was called.
    ReceiversChanged(usize),
}

/// What happened to keys and certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecurityEvent {
    /// Files have changed, were read again, and are in force.
    Reloaded,
    /// Files have changed and cannot be used; what was in force stays.
    ReloadFailed,
    /// A peer's certificate is missing or not acceptable, or ours is not to the peer, or who connects to a request port
    /// that is encrypted does not agree on TLS at all.
    CertificateRefused,
    /// A session brings datagrams that cannot be read: they are encrypted and there is no key, or it is not the right
    /// one; or they are not encrypted and there are keys; or somebody changed or forged them.
    Unreadable,
    /// Others than its owner can read a file of keys, or write it. It is used.
    Exposed,
}

/// Why a request is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    /// The connection by which its last answer came was closed.
    PeerGone,
}

/// Hears what a context brings. The calls come from within the context's inputs.
///
/// For each source of a receiver's topics the calls are: [`on_source`](Handler::on_source) when it is found,
/// [`on_begin`](Handler::on_begin) before the first message, then messages and losses in their order, then
/// [`on_end`](Handler::on_end) (also if nothing was heard). Two receivers of one topic in one context have
/// the same [`StreamId`]s, and each is told everything.
///
/// A receiver with [`ReceiverOptions::hot_failover`](crate::ReceiverOptions) is told of each source the same,
/// but only the first copy of a message, under the stream that brought it, and instead of each source's loss
/// [`on_failover_loss`](Handler::on_failover_loss). A copy that had to wait for a number before it may follow
/// the end of the stream that brought it.
pub trait Handler {
    /// A message of a source.
    fn on_message(&mut self, message: &Message<'_>);
    /// A receiver's topic has a new source.
    fn on_source(&mut self, receiver: Receiver, stream: StreamId, info: &SourceInfo<'_>) {
        let _ = (receiver, stream, info);
    }
    /// The first message of a source follows, or the loss of it; `first` is its number. What was sent before
    /// is not told. If the source was heard before, and its session was lost, `first` is the number that would have
    /// come next then: the loss of what cannot be recovered follows.
    fn on_begin(&mut self, receiver: Receiver, stream: StreamId, first: Sqn) {
        let _ = (receiver, stream, first);
    }
    /// Messages of a source are lost for good, in the place where they are missing.
    fn on_loss(&mut self, receiver: Receiver, stream: StreamId, loss: Loss) {
        let _ = (receiver, stream, loss);
    }
    /// Numbers of a topic are lost for good, in the place where they are missing: no source of a hot failover
    /// receiver can deliver them any more.
    fn on_failover_loss(&mut self, receiver: Receiver, topic: &str, loss: FailoverLoss) {
        let _ = (receiver, topic, loss);
    }
    /// A source has ended, or was not heard for too long. Its id is not used again.
    fn on_end(&mut self, receiver: Receiver, stream: StreamId, end: &End) {
        let _ = (receiver, stream, end);
    }
    /// Something happened to a source of ours.
    fn on_source_event(&mut self, source: Source, event: SourceEvent) {
        let _ = (source, event);
    }
    /// Something happened to keys and certificates; `text` names the files, or the peer and the reason, for people.
    /// Of refused certificates and unreadable sessions at most 16 a second are told, of a session once; the counters
    /// have all.
    fn on_security(&mut self, event: SecurityEvent, text: &str) {
        let _ = (event, text);
    }
    /// An answer to a request of ours; a request may have many.
    fn on_response(&mut self, request: RequestId, payload: &[u8]) {
        let _ = (request, payload);
    }
    /// A request of ours is over, other than by [`Context::cancel_request`](crate::Context::cancel_request).
    fn on_request_end(&mut self, request: RequestId, reason: RequestEnd) {
        let _ = (request, reason);
    }
    /// Somebody has connected to the request port: who sends direct messages, answers a request, or asks for
    /// retained messages.
    fn on_accepted(&mut self, connection: ConnectionId, peer: SocketAddr) {
        let _ = (connection, peer);
    }
    /// A connection of [`crate::Context::connect`] is established.
    fn on_connected(&mut self, connection: ConnectionId) {
        let _ = connection;
    }
    /// A direct message.
    fn on_direct(&mut self, connection: ConnectionId, payload: &[u8]) {
        let _ = (connection, payload);
    }
    /// A connection is gone, or could not be established; `reason` says why, for people. Its id is not used
    /// again.
    fn on_closed(&mut self, connection: ConnectionId, reason: &str) {
        let _ = (connection, reason);
    }
}

/// Hears nothing: for contexts that only send.
impl Handler for () {
    fn on_message(&mut self, _: &Message<'_>) {}
}
