//! The three messages of the handshake and who sends them.
//!
//! Each starts with its own `u16` length; none may be taken for a TCP segment. Shapes, field by field, stand
//! at [`ConnectRequest`], [`ConnectAck`] and [`ClientKey`].

mod fields;
mod key;
mod reply;
mod request;

pub use key::{ClientKey, KeyOffer};
pub(crate) use key::{KEY_LEAST_BYTES, KEY_MOST_BYTES, KeySecret};
pub use reply::{ConnectAck, KeyExchange, REFUSAL_TEXT, Reply, emit_nak};
pub(crate) use reply::{REPLY_LEAST_BYTES, REPLY_MOST_BYTES, session_flag};
pub use request::{ConnectRequest, PROTOCOL_RWF};
pub(crate) use request::{REQUEST_LEAST_BYTES, REQUEST_MOST_BYTES};

use crate::HandshakeError;
use crate::frame::HEADER_BYTES;

/// RWF version announced by both our ends.
pub(crate) const RWF_VERSION: (u8, u8) = (14, 1);

/// Length of the handshake message that starts with `start`, which must lie in `least_bytes..=most_bytes`.
fn length_of(
    message: &'static str,
    start: [u8; HEADER_BYTES],
    least_bytes: u16,
    most_bytes: u16,
) -> Result<usize, HandshakeError> {
    let bytes = u16::from_be_bytes([start[0], start[1]]);
    if bytes < least_bytes || bytes > most_bytes {
        return Err(HandshakeError::Length { message, bytes, least_bytes, most_bytes });
    }
    Ok(usize::from(bytes))
}

/// Length of a connect request; an HTTP request is told apart from garbage.
pub(crate) fn request_length(start: [u8; HEADER_BYTES]) -> Result<usize, HandshakeError> {
    match &start {
        b"GET" | b"POS" => Err(HandshakeError::Http),
        _ => length_of("connect request", start, REQUEST_LEAST_BYTES, REQUEST_MOST_BYTES),
    }
}

/// Length of a client key.
pub(crate) fn key_length(start: [u8; HEADER_BYTES]) -> Result<usize, HandshakeError> {
    length_of("client key", start, KEY_LEAST_BYTES, KEY_MOST_BYTES)
}

/// Length of a connect ack or nak.
pub(crate) fn reply_length(start: [u8; HEADER_BYTES]) -> Result<usize, HandshakeError> {
    length_of("connect reply", start, REPLY_LEAST_BYTES, REPLY_MOST_BYTES)
}
