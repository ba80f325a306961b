use std::num::NonZeroU64;

use super::fields::{Fields, put_component, set_length};
use super::key::KeyOffer;
use crate::config::{MESSAGE_SIZE_LEAST_BYTES, MESSAGE_SIZE_MOST_BYTES};
use crate::frame::{extended_flag, flag};
use crate::{CompressionType, ConnectionVersion, HandshakeError, Text};

/// What the implementations in the field say in a connect nak.
pub const REFUSAL_TEXT: &[u8] = b"Connection refused.";

/// Below this length there is no room for the header.
pub(crate) const REPLY_LEAST_BYTES: u16 = 8;
/// Acks are below 256 bytes in the field, naks shorter still; the rest is room for a longer text.
pub(crate) const REPLY_MOST_BYTES: u16 = 1024;

/// Bits of the session flags in a connect ack.
pub(crate) mod session_flag {
    /// The client sends pings.
    pub(crate) const CLIENT_PINGS: u8 = 0x01;
    /// The server sends pings.
    pub(crate) const SERVER_PINGS: u8 = 0x02;
}

const ACK_HEADER_BYTES: u8 = 10;
const NAK_HEADER_BYTES: u8 = 8;
const FLAG_KEY_EXCHANGE: u8 = 0x08;
/// The only type of key exchange there is, and the length of its data.
const KEY_EXCHANGE_TYPE: u8 = 1;
const KEY_EXCHANGE_BYTES: u8 = 24;

/// A server's answer to a connect request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The connection is accepted.
    Ack(ConnectAck<'a>),
    /// The connection is refused, with a text.
    ///
    /// Shape: `u16` length; 0x01; extended flags 0x02; `u8` header length 8; 0; `u16` text length; text
    /// ending in zero.
    Nak(Text<'a>),
}

/// What a server grants.
///
/// Shape: `u16` length of all; `u8` flags, 0x01 and 0x80 if compression is imposed; `u8` extended flags 0x01;
/// `u8` header length 10; 0; `u32` RIPC version; `u16` maximum user message size; `u8` session flags; `u8`
/// ping timeout, s; `u8` RWF major; `u8` RWF minor; `u16` compression type; `u8` compression level (version
/// 11 and up); with key exchange: 0x08, `u8` type 1, `u8` length 24, `u64` P, `u64` G, `u64` server key;
/// version 13 and up: `u8` length of the component container; `u8` length, component version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectAck<'a> {
    /// The version of the request.
    pub version: ConnectionVersion,
    /// Maximum user message size, bytes.
    pub message_size_bytes: u16,
    /// 0x01 the client sends pings, 0x02 the server does.
    pub session_flags: u8,
    /// Ping timeout of both sides, seconds.
    pub ping_timeout_s: u8,
    /// RWF version of the server: major, minor.
    pub rwf_version: (u8, u8),
    /// Compression of both directions.
    pub compression: CompressionType,
    /// Whether the server imposes the compression.
    pub forced: bool,
    /// Level of zlib.
    pub compression_level: u8,
    /// Key exchange.
    pub key_exchange: KeyExchange,
    /// What the server calls itself; empty below version 13.
    pub component_version: Text<'a>,
}

/// The key exchange part of a connect ack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyExchange {
    /// None takes place.
    Absent,
    /// The client answers with its key.
    Offered(KeyOffer),
    /// A type this side does not know; the client answers without a key.
    UnknownType(u8),
}

impl<'a> Reply<'a> {
    /// Parses a whole message, length field included, as the answer to a request of version `offered`.
    ///
    /// # Errors
    /// [`HandshakeError`]; the connection is then closed.
    pub fn parse(message: &'a [u8], offered: ConnectionVersion) -> Result<Reply<'a>, HandshakeError> {
        let mut fields = Fields::new(message, 2);
        let flags = fields.u8("RIPC flags")?;
        let extended = fields.u8("extended flags")?;
        let header_bytes = fields.u8("header length")?;
        fields.u8("header")?;
        let forced = flags & flag::FORCED_COMPRESSION != 0;
        match (flags & !flag::FORCED_COMPRESSION, extended) {
            (flag::EXTENDED, extended_flag::ACK) => {
                ConnectAck::parse(message, fields, header_bytes, forced, offered).map(Reply::Ack)
            }
            (flag::EXTENDED, extended_flag::NAK) => parse_nak(message, fields, header_bytes).map(Reply::Nak),
            _ => Err(HandshakeError::Flags { message: "connect reply", flags, extended }),
        }
    }
}

impl<'a> ConnectAck<'a> {
    fn parse(
        message: &'a [u8],
        mut header: Fields<'a>,
        header_bytes: u8,
        forced: bool,
        offered: ConnectionVersion,
    ) -> Result<ConnectAck<'a>, HandshakeError> {
        let number = header.u32("RIPC version")?;
        if number != offered.ripc_number() {
            return Err(HandshakeError::AckVersion { number, offered });
        }
        let mut body = Fields::new(message, usize::from(header_bytes.max(ACK_HEADER_BYTES)));
        let message_size_bytes = check_message_size(body.u16("maximum user message size")?)?;
        let session_flags = body.u8("session flags")?;
        let ping_timeout_s = body.u8("ping timeout")?;
        if ping_timeout_s == 0 {
            return Err(HandshakeError::AckPingTimeout);
        }
        let rwf_version = (body.u8("RWF major version")?, body.u8("RWF minor version")?);
        Ok(ConnectAck {
            version: offered,
            message_size_bytes,
            session_flags,
            ping_timeout_s,
            rwf_version,
            compression: compression_type(body.u16("compression type")?, forced)?,
            forced,
            compression_level: if offered.has_compression_level() {
                body.u8("compression level")?
            } else {
                0
            },
            key_exchange: if offered.has_key_exchange() {
                parse_key_exchange(&mut body)?
            } else {
                KeyExchange::Absent
            },
            component_version: if offered.has_component_version() {
                component_version(&body)
            } else {
                Text::default()
            },
        })
    }

    /// Appends the message to `out`. A component version of up to 200 bytes keeps it below 256 bytes.
    ///
    /// # Panics
    /// If the component version has more than 253 bytes.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let flags = flag::EXTENDED | if self.forced { flag::FORCED_COMPRESSION } else { 0 };
        out.extend_from_slice(&[0, 0, flags, extended_flag::ACK, ACK_HEADER_BYTES, 0]);
        out.extend_from_slice(&self.version.ripc_number().to_be_bytes());
        out.extend_from_slice(&self.message_size_bytes.to_be_bytes());
        out.extend_from_slice(&[
            self.session_flags,
            self.ping_timeout_s,
            self.rwf_version.0,
            self.rwf_version.1,
        ]);
        out.extend_from_slice(&self.compression.wire().to_be_bytes());
        if self.version.has_compression_level() {
            out.push(self.compression_level);
        }
        if let KeyExchange::Offered(offer) = self.key_exchange {
            out.extend_from_slice(&[FLAG_KEY_EXCHANGE, KEY_EXCHANGE_TYPE, KEY_EXCHANGE_BYTES]);
            for number in [offer.modulus.get(), offer.generator, offer.server_key] {
                out.extend_from_slice(&number.to_be_bytes());
            }
        }
        if self.version.has_component_version() {
            put_component(out, self.component_version);
        }
        set_length(out, start);
    }
}

fn check_message_size(bytes: u16) -> Result<u16, HandshakeError> {
    let (least_bytes, most_bytes) = (MESSAGE_SIZE_LEAST_BYTES, MESSAGE_SIZE_MOST_BYTES);
    if bytes < least_bytes || bytes > most_bytes {
        return Err(HandshakeError::AckMessageSize { bytes, least_bytes, most_bytes });
    }
    Ok(bytes)
}

/// A server that imposes compression without naming a type means zlib.
fn compression_type(number: u16, forced: bool) -> Result<CompressionType, HandshakeError> {
    match CompressionType::from_wire(number) {
        Some(CompressionType::None) if forced => Ok(CompressionType::Zlib),
        Some(known) => Ok(known),
        None => Err(HandshakeError::AckCompression { number }),
    }
}

/// The part starts with 0x08; any other byte there is already the component container.
fn parse_key_exchange(body: &mut Fields<'_>) -> Result<KeyExchange, HandshakeError> {
    if body.rest().first() != Some(&FLAG_KEY_EXCHANGE) {
        return Ok(KeyExchange::Absent);
    }
    body.u8("key exchange flag")?;
    let kind = body.u8("key exchange type")?;
    let bytes = body.u8("key data length")?;
    if kind != KEY_EXCHANGE_TYPE {
        body.bytes("key data", usize::from(bytes))?;
        return Ok(KeyExchange::UnknownType(kind));
    }
    if bytes != KEY_EXCHANGE_BYTES {
        let required_bytes = u16::from(KEY_EXCHANGE_BYTES);
        return Err(HandshakeError::KeyLength { bytes: u16::from(bytes), required_bytes });
    }
    let modulus = NonZeroU64::new(body.u64("P")?).ok_or(HandshakeError::KeyModulus)?;
    Ok(KeyExchange::Offered(KeyOffer {
        modulus,
        generator: body.u64("G")?,
        server_key: body.u64("server key")?,
    }))
}

/// The container length is not looked at: C and Java servers count differently. The text ends with the
/// message.
fn component_version<'a>(body: &Fields<'a>) -> Text<'a> {
    let Some((&[_, length], text)) = body.rest().split_first_chunk::<2>() else { return Text::default() };
    Text::new(&text[..text.len().min(usize::from(length))])
}

fn parse_nak<'a>(
    message: &'a [u8],
    mut header: Fields<'a>,
    header_bytes: u8,
) -> Result<Text<'a>, HandshakeError> {
    let length = usize::from(header.u16("text length")?);
    let text = message.get(usize::from(header_bytes.max(NAK_HEADER_BYTES))..).unwrap_or_default();
    let text = &text[..text.len().min(length)];
    let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
    Ok(Text::new(&text[..end]))
}

/// Appends a connect nak with [`REFUSAL_TEXT`] to `out`.
pub fn emit_nak(out: &mut Vec<u8>) {
    let start = out.len();
    let text_bytes = REFUSAL_TEXT.len() as u16 + 1;
    out.extend_from_slice(&[0, 0, flag::EXTENDED, extended_flag::NAK, NAK_HEADER_BYTES, 0]);
    out.extend_from_slice(&text_bytes.to_be_bytes());
    out.extend_from_slice(REFUSAL_TEXT);
    out.push(0);
    set_length(out, start);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(version: ConnectionVersion) -> ConnectAck<'static> {
        let modulus = NonZeroU64::new(0x1a17_b961_a8e1_a602).expect("not zero");
        let offer = KeyOffer { modulus, generator: 5, server_key: 0x089d_97b4_31a6_0977 };
        ConnectAck {
            version,
            message_size_bytes: 6144,
            session_flags: 3,
            ping_timeout_s: 30,
            rwf_version: (14, 1),
            compression: CompressionType::None,
            forced: false,
            compression_level: 0,
            key_exchange: if version.has_key_exchange() {
                KeyExchange::Offered(offer)
            } else {
                KeyExchange::Absent
            },
            component_version: if version.has_component_version() {
                Text::new(b"etaj3")
            } else {
                Text::default()
            },
        }
    }

    fn emitted(ack: &ConnectAck<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        ack.emit(&mut out);
        out
    }

    fn refused(message: &[u8], offered: ConnectionVersion) -> HandshakeError {
        Reply::parse(message, offered).expect_err("not an acceptable reply")
    }

    #[test]
    fn an_ack_has_the_recorded_layout() {
        let expected = [
            0, 53, 1, 1, 10, 0, 0, 0, 0, 9, 0x18, 0, 3, 30, 14, 1, 0, 0, 0, 8, 1, 24, 0x1a, 0x17, 0xb9, 0x61,
            0xa8, 0xe1, 0xa6, 2, 0, 0, 0, 0, 0, 0, 0, 5, 8, 0x9d, 0x97, 0xb4, 0x31, 0xa6, 9, 0x77, 6, 5,
            b'e', b't', b'a', b'j', b'3',
        ];
        assert_eq!(emitted(&ack(ConnectionVersion::V14)), expected);
    }

    #[test]
    fn every_version_is_read_back_as_written() {
        for (version, bytes) in ConnectionVersion::ALL.into_iter().zip([18, 19, 19, 26, 53]) {
            let ack = ack(version);
            let message = emitted(&ack);
            assert_eq!(message.len(), bytes, "{version}");
            assert_eq!(Reply::parse(&message, version), Ok(Reply::Ack(ack)));
        }
    }

    #[test]
    fn version_14_may_do_without_key_exchange() {
        let ack = ConnectAck { key_exchange: KeyExchange::Absent, ..ack(ConnectionVersion::V14) };
        assert_eq!(Reply::parse(&emitted(&ack), ConnectionVersion::V14), Ok(Reply::Ack(ack)));
    }

    #[test]
    fn the_longest_ack_we_write_stays_below_256_bytes() {
        let longest = "x".repeat(crate::config::COMPONENT_VERSION_MOST_BYTES);
        let ack =
            ConnectAck { component_version: Text::new(longest.as_bytes()), ..ack(ConnectionVersion::V14) };
        assert_eq!(emitted(&ack).len(), 248);
    }

    #[test]
    fn the_container_length_of_c_servers_is_accepted() {
        let mut message = emitted(&ack(ConnectionVersion::V14));
        message[46] += 1;
        assert_eq!(
            Reply::parse(&message, ConnectionVersion::V14),
            Ok(Reply::Ack(ack(ConnectionVersion::V14)))
        );
    }

    #[test]
    fn an_unknown_type_of_key_exchange_is_told() {
        let mut message = emitted(&ack(ConnectionVersion::V14));
        message[20] = 2;
        let Ok(Reply::Ack(ack)) = Reply::parse(&message, ConnectionVersion::V14) else {
            panic!("a good ack")
        };
        assert_eq!(ack.key_exchange, KeyExchange::UnknownType(2));
        assert_eq!(ack.component_version.as_bytes(), b"etaj3");
    }

    #[test]
    fn numbers_that_cannot_be_used_are_refused() {
        let v14 = ConnectionVersion::V14;
        let spoilt = |at: usize, value: u8| {
            let mut message = emitted(&ack(v14));
            message[at] = value;
            refused(&message, v14)
        };
        assert_eq!(spoilt(9, 8), HandshakeError::AckVersion { number: 8, offered: v14 });
        let size = HandshakeError::AckMessageSize { bytes: 0, least_bytes: 64, most_bytes: 65_532 };
        assert_eq!(spoilt(10, 0), size);
        assert_eq!(spoilt(13, 0), HandshakeError::AckPingTimeout);
        assert_eq!(spoilt(17, 3), HandshakeError::AckCompression { number: 3 });
        assert_eq!(spoilt(21, 23), HandshakeError::KeyLength { bytes: 23, required_bytes: 24 });
        assert_eq!(spoilt(2, 3), HandshakeError::Flags { message: "connect reply", flags: 3, extended: 1 });
        assert_eq!(spoilt(3, 4), HandshakeError::Flags { message: "connect reply", flags: 1, extended: 4 });
        let mut message = emitted(&ack(v14));
        message[22..30].fill(0);
        assert_eq!(refused(&message, v14), HandshakeError::KeyModulus);
    }

    #[test]
    fn forced_compression_without_a_type_is_zlib() {
        let mut message = emitted(&ack(ConnectionVersion::V14));
        message[2] |= 0x80;
        let Ok(Reply::Ack(ack)) = Reply::parse(&message, ConnectionVersion::V14) else {
            panic!("a good ack")
        };
        assert_eq!((ack.forced, ack.compression), (true, CompressionType::Zlib));
    }

    #[test]
    fn truncations_are_errors_up_to_the_component_version() {
        for version in ConnectionVersion::ALL {
            let message = emitted(&ack(version));
            let needed = if version.has_component_version() { message.len() - 7 } else { message.len() };
            // Up to the compression level it is the ack of a server that exchanges no keys.
            let without_keys = if version.has_key_exchange() { Some(19) } else { None };
            for length in 0..message.len() {
                let parsed = Reply::parse(&message[..length], version);
                let complete = length >= needed || Some(length) == without_keys;
                assert_eq!(parsed.is_ok(), complete, "{version}: {length} {parsed:?}");
            }
        }
    }

    #[test]
    fn the_nak_is_the_recorded_one_to_the_byte() {
        let mut out = Vec::new();
        emit_nak(&mut out);
        assert_eq!(out, b"\0\x1c\x01\x02\x08\0\0\x14Connection refused.\0");
        let parsed = Reply::parse(&out, ConnectionVersion::V14);
        assert_eq!(parsed, Ok(Reply::Nak(Text::new(b"Connection refused."))));
    }

    #[test]
    fn a_nak_text_ends_at_its_zero_its_length_or_the_message() {
        for (message, text) in [
            (&b"\0\x0d\x01\x02\x08\0\0\x05ab\0cd"[..], &b"ab"[..]),
            (b"\0\x0d\x01\x02\x08\0\0\x03abcde", b"abc"),
            (b"\0\x0d\x01\x02\x08\0\xff\xffabcde", b"abcde"),
            (b"\0\x08\x01\x02\x08\0\0\x05", b""),
        ] {
            assert_eq!(Reply::parse(message, ConnectionVersion::V11), Ok(Reply::Nak(Text::new(text))));
        }
    }
}
