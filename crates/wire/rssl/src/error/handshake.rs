use std::error::Error;
use std::fmt;

use crate::ConnectionVersion;

/// A handshake message that no RSSL peer may send, or one that asks for what this side does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The first bytes are an HTTP request: tunnelling or a WebSocket client on an RSSL port.
    Http,
    /// The length of a message is out of its range.
    Length {
        /// Which message.
        message: &'static str,
        /// Length in the message.
        bytes: u16,
        /// Least length allowed here.
        least_bytes: u16,
        /// Greatest length allowed here.
        most_bytes: u16,
    },
    /// The parts of a connect request do not add up to its length.
    Parts {
        /// Length in the message.
        bytes: u16,
        /// What header size and component container add up to.
        parts_bytes: u16,
    },
    /// The flags of a message are not those of any message expected here.
    Flags {
        /// Which message.
        message: &'static str,
        /// RIPC flags.
        flags: u8,
        /// Extended flags, 0 where the message has none.
        extended: u8,
    },
    /// A field runs past the end of its part of the message.
    Field {
        /// Which field.
        field: &'static str,
        /// Where the field would end.
        end: u16,
        /// Where its part ends.
        limit: u16,
    },
    /// A connect request with a connection version nobody has defined.
    UnknownVersion {
        /// The number in the request.
        number: u32,
    },
    /// A connect ack with another version than the one offered.
    AckVersion {
        /// The RIPC version in the ack.
        number: u32,
        /// What was offered.
        offered: ConnectionVersion,
    },
    /// A connect ack with a maximum user message size that this side cannot work with.
    AckMessageSize {
        /// The size in the ack.
        bytes: u16,
        /// Least size that can be used.
        least_bytes: u16,
        /// Greatest size that can be used.
        most_bytes: u16,
    },
    /// A connect ack with a ping timeout of zero seconds.
    AckPingTimeout,
    /// A connect ack that names a compression nobody has defined.
    AckCompression {
        /// The type in the ack.
        number: u16,
    },
    /// Key data of another length than the exchange has.
    KeyLength {
        /// Length in the message.
        bytes: u16,
        /// Length required.
        required_bytes: u16,
    },
    /// A key exchange modulo zero.
    KeyModulus,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Http => write!(f, "HTTP request on an RSSL port"),
            Self::Length { message, bytes, least_bytes, most_bytes } => {
                write!(f, "{message} of {bytes} bytes, {least_bytes} to {most_bytes} allowed")
            }
            Self::Parts { bytes, parts_bytes } => {
                write!(f, "connect request of {bytes} bytes whose parts add up to {parts_bytes}")
            }
            Self::Flags { message, flags, extended } => {
                write!(f, "{message} with flags {flags:#04x} {extended:#04x}")
            }
            Self::Field { field, end, limit } => {
                write!(f, "{field} ends at {end}, beyond the end of its part at {limit}")
            }
            Self::UnknownVersion { number } => write!(f, "unknown connection version {number:#x}"),
            Self::AckVersion { number, offered } => {
                write!(f, "RIPC version {number} in the ack to an offer of version {offered}")
            }
            Self::AckMessageSize { bytes, least_bytes, most_bytes } => {
                write!(f, "maximum user message size {bytes}, {least_bytes} to {most_bytes} can be used")
            }
            Self::AckPingTimeout => write!(f, "connect ack with a ping timeout of zero"),
            Self::AckCompression { number } => {
                write!(f, "compression type {number}, 0 to 2 allowed")
            }
            Self::KeyLength { bytes, required_bytes } => {
                write!(f, "key data of {bytes} bytes, {required_bytes} required")
            }
            Self::KeyModulus => write!(f, "key exchange modulo zero"),
        }
    }
}

impl Error for HandshakeError {}
