//! Who is at fault is the top level of the types: [`PeerError`] is the peer, [`ApiMisuse`] the caller on this
//! side.

mod frame;
mod handshake;

use std::error::Error;
use std::fmt;

pub use frame::FrameError;
pub use handshake::HandshakeError;

use connection::{BacklogFull, Disconnect, TimedOut};

use crate::ConnectionVersion;

/// The peer sent bytes or behaved in a way that RSSL does not allow. It costs the peer its own connection.
///
/// Every kind is counted by a counter of its own in [`counters::table::RsslConnections`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerError {
    /// A handshake message is not acceptable.
    Handshake(HandshakeError),
    /// A frame is not acceptable.
    Frame(FrameError),
    /// The handshake was not completed before its deadline.
    HandshakeTimeout {
        /// Time allowed.
        limit_ms: u32,
    },
    /// Nothing arrived for the whole ping timeout.
    Silent {
        /// The ping timeout.
        limit_ms: u32,
    },
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Handshake(error) => write!(f, "handshake: {error}"),
            Self::Frame(error) => error.fmt(f),
            Self::HandshakeTimeout { limit_ms } => write!(f, "handshake not completed within {limit_ms} ms"),
            Self::Silent { limit_ms } => write!(f, "nothing received for {limit_ms} ms"),
        }
    }
}

impl Error for PeerError {}

impl From<HandshakeError> for PeerError {
    fn from(error: HandshakeError) -> PeerError {
        PeerError::Handshake(error)
    }
}

impl From<FrameError> for PeerError {
    fn from(error: FrameError) -> PeerError {
        PeerError::Frame(error)
    }
}

/// The application on this side broke the contract of a call. Never caused by what a peer sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApiMisuse {
    /// A message of zero bytes cannot be sent: on the wire it would be a ping.
    EmptyMessage,
    /// A message longer than the backlog of the connection, or than a fragment header can announce.
    MessageTooLong {
        /// Length of the message.
        bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// Messages can be sent only between the end of the handshake and the close.
    NotConnected,
    /// Frames were written to the socket directly while earlier bytes were still waiting.
    Overtaking {
        /// Bytes waiting.
        pending_bytes: usize,
    },
}

impl fmt::Display for ApiMisuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EmptyMessage => write!(f, "message of zero bytes"),
            Self::MessageTooLong { bytes, limit_bytes } => {
                write!(f, "message of {bytes} bytes where {limit_bytes} can be sent")
            }
            Self::NotConnected => write!(f, "connection is not between handshake and close"),
            Self::Overtaking { pending_bytes } => {
                write!(f, "frames written while {pending_bytes} earlier bytes were waiting")
            }
        }
    }
}

impl Error for ApiMisuse {}

/// Why a write did not happen. Nothing of the message is in the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The peer reads too slowly: the backlog is at its limit. What follows is the caller's policy: drop,
    /// conflate, or close with [`Stop::SlowConsumer`].
    SlowConsumer {
        /// Bytes waiting.
        pending_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// The call was wrong whatever the peer does.
    Misuse(ApiMisuse),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SlowConsumer { pending_bytes, limit_bytes } => {
                write!(f, "slow consumer: {pending_bytes} bytes waiting, limit {limit_bytes}")
            }
            Self::Misuse(misuse) => misuse.fmt(f),
        }
    }
}

impl Error for SendError {}

impl From<BacklogFull> for SendError {
    fn from(full: BacklogFull) -> SendError {
        let BacklogFull { pending_bytes, limit_bytes } = full;
        SendError::SlowConsumer { pending_bytes, limit_bytes }
    }
}

impl From<ApiMisuse> for SendError {
    fn from(misuse: ApiMisuse) -> SendError {
        SendError::Misuse(misuse)
    }
}

/// Why the application on this side ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// For a reason of its own: shutdown, a message it does not accept, an administrator's wish.
    Application,
    /// The backlog was at its limit and the policy is to disconnect.
    SlowConsumer {
        /// Bytes waiting.
        pending_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// The oldest byte for the peer had waited too long.
    Stalled {
        /// So long, in milliseconds.
        waited_ms: u32,
    },
    /// A call failed in a way that is the application's own mistake.
    Misuse(ApiMisuse),
}

impl From<SendError> for Stop {
    fn from(error: SendError) -> Stop {
        match error {
            SendError::SlowConsumer { pending_bytes, limit_bytes } => {
                Stop::SlowConsumer { pending_bytes, limit_bytes }
            }
            SendError::Misuse(misuse) => Stop::Misuse(misuse),
        }
    }
}

/// Why a server answered a connect request with a connect nak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The request's protocol type is not RWF.
    ProtocolType(u8),
    /// [`Handler::on_request`](crate::Handler::on_request) refused it, for instance at a connection limit.
    Application,
}

/// Why a connection is over. Each connection gets exactly one, and each is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer's fault.
    Peer(PeerError),
    /// The peer or the network ended the TCP connection.
    Disconnected(Disconnect),
    /// Client: the server ended the TCP connection instead of answering the connect request. It may not know
    /// the version offered.
    Unanswered {
        /// What was offered.
        offered: ConnectionVersion,
        /// What to offer on a new TCP connection, at once; `None`: this attempt has failed, retry after a
        /// delay.
        next: Option<ConnectionVersion>,
    },
    /// Server: the request was answered with a connect nak, which is pending.
    Refused(Refusal),
    /// Client: the server answered with a connect nak. Not to be answered with an older version.
    Nak,
    /// This side's wish.
    Stopped(Stop),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Peer(error) => error.fmt(f),
            Self::Disconnected(how) => how.fmt(f),
            Self::Unanswered { offered, next: Some(next) } => {
                write!(f, "offer of version {offered} not answered, version {next} is next")
            }
            Self::Unanswered { offered, next: None } => {
                write!(f, "offer of version {offered} not answered, no lower version to offer")
            }
            Self::Refused(Refusal::ProtocolType(number)) => {
                write!(f, "refused: protocol type {number} is not served")
            }
            Self::Refused(Refusal::Application) => write!(f, "refused by the application"),
            Self::Nak => write!(f, "refused by the server"),
            Self::Stopped(Stop::Application) => write!(f, "closed by the application"),
            Self::Stopped(Stop::SlowConsumer { pending_bytes, limit_bytes }) => {
                write!(f, "closed a slow consumer: {pending_bytes} bytes waiting, limit {limit_bytes}")
            }
            Self::Stopped(Stop::Stalled { waited_ms }) => {
                write!(f, "closed a slow consumer: the oldest byte for it waited {waited_ms} ms")
            }
            Self::Stopped(Stop::Misuse(misuse)) => write!(f, "closed after a misuse: {misuse}"),
        }
    }
}

impl Error for CloseReason {}

impl From<Disconnect> for CloseReason {
    fn from(cause: Disconnect) -> CloseReason {
        CloseReason::Disconnected(cause)
    }
}

impl From<TimedOut> for CloseReason {
    fn from(late: TimedOut) -> CloseReason {
        CloseReason::Peer(match late {
            TimedOut::Handshake { limit_ms } => PeerError::HandshakeTimeout { limit_ms },
            TimedOut::Silent { limit_ms } => PeerError::Silent { limit_ms },
        })
    }
}

impl From<PeerError> for CloseReason {
    fn from(error: PeerError) -> CloseReason {
        CloseReason::Peer(error)
    }
}

impl From<HandshakeError> for CloseReason {
    fn from(error: HandshakeError) -> CloseReason {
        CloseReason::Peer(error.into())
    }
}

impl From<FrameError> for CloseReason {
    fn from(error: FrameError) -> CloseReason {
        CloseReason::Peer(error.into())
    }
}

impl From<Stop> for CloseReason {
    fn from(stop: Stop) -> CloseReason {
        CloseReason::Stopped(stop)
    }
}
