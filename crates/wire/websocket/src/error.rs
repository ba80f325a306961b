//! Who is at fault is the top level of the types: [`PeerError`] is the peer, [`Stop`] this side.

use std::error::Error;
use std::fmt;

use connection::{BacklogFull, Disconnect, TimedOut};

use crate::close_code;

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer broke the protocol.
    Peer(PeerError),
    /// The peer has sent a close frame, with this code if with any.
    Closed {
        /// RFC 6455, 7.4; absent if the frame was empty.
        code: Option<u16>,
    },
    /// The TCP connection has ended without a close frame.
    Disconnected(Disconnect),
    /// The upgrade was refused: by this server, or by the server that this client asked.
    Refused {
        /// The HTTP status of the answer.
        status: u16,
    },
    /// This side wished it.
    Stopped(Stop),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(error) => error.fmt(f),
            Self::Closed { code: Some(code) } => write!(f, "closed by the peer with code {code}"),
            Self::Closed { code: None } => f.write_str("closed by the peer"),
            Self::Disconnected(how) => how.fmt(f),
            Self::Refused { status } => write!(f, "the upgrade was refused with status {status}"),
            Self::Stopped(stop) => stop.fmt(f),
        }
    }
}

impl Error for CloseReason {}

/// What the peer did that it must not. It costs the peer its own connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerError {
    /// The upgrade request, or the answer to it, is not acceptable.
    Upgrade(UpgradeError),
    /// A frame or message is not acceptable.
    Frame(FrameError),
    /// The upgrade was not completed before its deadline.
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
        match self {
            Self::Upgrade(error) => write!(f, "upgrade: {error}"),
            Self::Frame(error) => error.fmt(f),
            Self::HandshakeTimeout { limit_ms } => write!(f, "upgrade not completed within {limit_ms} ms"),
            Self::Silent { limit_ms } => write!(f, "nothing received for {limit_ms} ms"),
        }
    }
}

impl Error for PeerError {}

/// A fault of an upgrade request or of the answer to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpgradeError {
    /// Not HTTP at all.
    NotHttp,
    /// The head is longer than allowed.
    HeadLength {
        /// The limit.
        limit_bytes: usize,
    },
    /// More header lines than allowed.
    HeaderCount {
        /// The limit.
        limit: usize,
    },
    /// A line is not `name: value`, or holds bytes that no head may hold.
    HeaderLine {
        /// Which, counted from the start line, which is 0.
        line: usize,
    },
    /// The start line is not that of HTTP/1.1.
    StartLine,
    /// A header that must be there once is missing, doubled, or has no acceptable value.
    Header(&'static str),
    /// Client: the server answers with a sub-protocol that was not offered, or with none.
    Protocol,
    /// Client: the server accepts an extension or a parameter that was not offered.
    Extension,
}

impl fmt::Display for UpgradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHttp => f.write_str("not HTTP"),
            Self::HeadLength { limit_bytes } => write!(f, "the head is longer than {limit_bytes} bytes"),
            Self::HeaderCount { limit } => write!(f, "more than {limit} header lines"),
            Self::HeaderLine { line } => write!(f, "line {line} of the head is malformed"),
            Self::StartLine => f.write_str("the start line is not that of HTTP/1.1"),
            Self::Header(name) => write!(f, "header {name} is missing, doubled or not acceptable"),
            Self::Protocol => f.write_str("the sub-protocol of the answer was not offered"),
            Self::Extension => f.write_str("the extension of the answer was not offered"),
        }
    }
}

impl Error for UpgradeError {}

/// A fault of a frame or of the message it is part of. RFC 6455, 5, and RFC 7692, 6 and 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// Reserved bits that no agreed extension gives a meaning here.
    ReservedBits {
        /// The first byte of the frame.
        first_byte: u8,
    },
    /// An opcode that is not defined.
    Opcode {
        /// The opcode.
        opcode: u8,
    },
    /// A frame of a client that is not masked, or one of a server that is.
    Masking {
        /// Whether it is masked.
        is_masked: bool,
    },
    /// A length not in its shortest form, or of more than 63 bits.
    LengthForm,
    /// A control frame that is longer than 125 bytes.
    ControlLength {
        /// Its length.
        bytes: u64,
    },
    /// A control frame in fragments.
    ControlFragmented,
    /// A continuation frame, and no message to continue.
    NothingToContinue,
    /// A new message before the fragments of the last are complete.
    Interleaved,
    /// A close frame with a payload of one byte, or with a code that must not be sent.
    CloseCode {
        /// The code; absent if there is half of one.
        code: Option<u16>,
    },
    /// Text that is not UTF-8.
    Utf8,
    /// Compressed data that cannot be decompressed.
    Deflate,
    /// A message longer than allowed, as it comes or decompressed.
    MessageLength {
        /// The limit.
        limit_bytes: usize,
    },
}

impl FrameError {
    /// What the close frame that answers it says.
    #[must_use]
    pub fn close_code(&self) -> u16 {
        match self {
            Self::Utf8 | Self::Deflate => close_code::INVALID_DATA,
            Self::MessageLength { .. } => close_code::MESSAGE_TOO_BIG,
            _ => close_code::PROTOCOL_ERROR,
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReservedBits { first_byte } => write!(f, "reserved bits in first byte {first_byte:#04x}"),
            Self::Opcode { opcode } => write!(f, "unknown opcode {opcode}"),
            Self::Masking { is_masked: true } => f.write_str("a server's frame is masked"),
            Self::Masking { is_masked: false } => f.write_str("a client's frame is not masked"),
            Self::LengthForm => f.write_str("a frame length not in its shortest form"),
            Self::ControlLength { bytes } => write!(f, "control frame of {bytes} bytes, limit 125"),
            Self::ControlFragmented => f.write_str("control frame in fragments"),
            Self::NothingToContinue => f.write_str("continuation frame without a message"),
            Self::Interleaved => f.write_str("new message before the last one is complete"),
            Self::CloseCode { code: Some(code) } => write!(f, "close frame with code {code}"),
            Self::CloseCode { code: None } => f.write_str("close frame with a payload of one byte"),
            Self::Utf8 => f.write_str("text that is not UTF-8"),
            Self::Deflate => f.write_str("compressed data that cannot be decompressed"),
            Self::MessageLength { limit_bytes } => write!(f, "message longer than {limit_bytes} bytes"),
        }
    }
}

impl Error for FrameError {}

/// Why this side ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// For a reason of its own.
    Application,
    /// The backlog was at its limit.
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
    /// A message was sent before the upgrade was complete.
    NotConnected,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application => f.write_str("closed by this side"),
            Self::SlowConsumer { pending_bytes, limit_bytes } => {
                write!(f, "slow consumer: {pending_bytes} bytes waiting, limit {limit_bytes}")
            }
            Self::Stalled { waited_ms } => {
                write!(f, "slow consumer: the oldest byte for it waited {waited_ms} ms")
            }
            Self::NotConnected => f.write_str("sent to before the upgrade was complete"),
        }
    }
}

impl Error for Stop {}

impl From<BacklogFull> for Stop {
    fn from(full: BacklogFull) -> Stop {
        let BacklogFull { pending_bytes, limit_bytes } = full;
        Stop::SlowConsumer { pending_bytes, limit_bytes }
    }
}

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

impl From<UpgradeError> for CloseReason {
    fn from(error: UpgradeError) -> CloseReason {
        CloseReason::Peer(PeerError::Upgrade(error))
    }
}

impl From<FrameError> for CloseReason {
    fn from(error: FrameError) -> CloseReason {
        CloseReason::Peer(PeerError::Frame(error))
    }
}

impl From<PeerError> for CloseReason {
    fn from(error: PeerError) -> CloseReason {
        CloseReason::Peer(error)
    }
}

impl From<Stop> for CloseReason {
    fn from(stop: Stop) -> CloseReason {
        CloseReason::Stopped(stop)
    }
}
