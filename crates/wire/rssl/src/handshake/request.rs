use super::RWF_VERSION;
use super::fields::{Fields, put_component, put_text, set_length, wire_u16};
use crate::{CompressionType, ConnectionVersion, HandshakeError, Text};

/// The protocol type of RWF.
pub const PROTOCOL_RWF: u8 = 0;

/// Below this length no version has room for its fields.
pub(crate) const REQUEST_LEAST_BYTES: u16 = 14;
/// A header of at most 255 bytes, a component container of at most 256, CR LF.
pub(crate) const REQUEST_MOST_BYTES: u16 = 255 + 256 + 2;

const FLAG_KEY_EXCHANGE: u8 = 0x08;
const HEADER_SIZE_AT: usize = 8;

/// What a client asks for, the first message of a connection.
///
/// Shape: `u16` length of all; `u8` RIPC flags 0; `u32` connection version; `u8` request flags; `u8` header
/// size (up to and including the IP address); `u8` size of the compression bitmap; bitmap; `u8` ping timeout,
/// s; `u8` session flags; `u8` protocol type (version 12 and up); `u8` RWF major; `u8` RWF minor; `u8`
/// length, host name; `u8` length, IP address as text; version 13 and up: `u8` length of the component
/// container; `u8` length, component version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectRequest<'a> {
    /// Version of the handshake.
    pub version: ConnectionVersion,
    /// Whether keys shall be exchanged (version 14).
    pub key_exchange: bool,
    /// Bitmap of the compression types the client knows: 0x01 zlib, 0x02 LZ4.
    pub compression: u8,
    /// Ping timeout the client proposes, seconds.
    pub ping_timeout_s: u8,
    /// 0 is RWF, as is everything below version 12.
    pub protocol_type: u8,
    /// RWF version of the client: major, minor.
    pub rwf_version: (u8, u8),
    /// Host name of the client.
    pub host: Text<'a>,
    /// IP address of the client as text; may be empty.
    pub ip: Text<'a>,
    /// What the client calls itself; empty below version 13.
    pub component_version: Text<'a>,
}

impl<'a> ConnectRequest<'a> {
    /// A request for RWF without compression, as our own clients send it.
    #[must_use]
    pub fn new(version: ConnectionVersion, ping_timeout_s: u8) -> ConnectRequest<'a> {
        ConnectRequest {
            version,
            key_exchange: version.has_key_exchange(),
            compression: CompressionType::None.request_bit(),
            ping_timeout_s,
            protocol_type: PROTOCOL_RWF,
            rwf_version: RWF_VERSION,
            host: Text::default(),
            ip: Text::default(),
            component_version: Text::default(),
        }
    }

    /// Parses a whole message, length field included.
    ///
    /// # Errors
    /// [`HandshakeError`]; the connection is then closed without an answer.
    pub fn parse(message: &'a [u8]) -> Result<ConnectRequest<'a>, HandshakeError> {
        let mut fixed = Fields::new(message, 2);
        let flags = fixed.u8("RIPC flags")?;
        if flags != 0 {
            return Err(HandshakeError::Flags { message: "connect request", flags, extended: 0 });
        }
        let number = fixed.u32("connection version")?;
        let version =
            ConnectionVersion::from_request(number).ok_or(HandshakeError::UnknownVersion { number })?;
        let request_flags = fixed.u8("request flags")?;
        let header_bytes = usize::from(fixed.u8("header size")?);
        let container = check_parts(message, header_bytes, version)?;
        let mut header = Fields::new(&message[..header_bytes], HEADER_SIZE_AT + 1);
        let bitmap_bytes = usize::from(header.u8("compression bitmap size")?);
        let bitmap = header.bytes("compression bitmap", bitmap_bytes)?;
        let ping_timeout_s = header.u8("ping timeout")?;
        header.u8("session flags")?;
        let protocol_type =
            if version.has_protocol_type() { header.u8("protocol type")? } else { PROTOCOL_RWF };
        Ok(ConnectRequest {
            version,
            key_exchange: version.has_key_exchange() && request_flags & FLAG_KEY_EXCHANGE != 0,
            compression: bitmap.first().copied().unwrap_or(0),
            ping_timeout_s,
            protocol_type,
            rwf_version: (header.u8("RWF major version")?, header.u8("RWF minor version")?),
            host: header.text("host name")?,
            ip: header.text("IP address")?,
            component_version: component_version(container, header_bytes)?,
        })
    }

    /// Appends the message to `out`.
    ///
    /// # Panics
    /// If host name and IP address have more than 238 bytes together, or the component version more than 253.
    /// A checked client configuration keeps that.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let request_flags =
            if self.key_exchange && self.version.has_key_exchange() { FLAG_KEY_EXCHANGE } else { 0 };
        out.extend_from_slice(&[0, 0, 0]);
        out.extend_from_slice(&self.version.request_number().to_be_bytes());
        out.extend_from_slice(&[request_flags, 0]);
        match self.compression {
            0 => out.push(0),
            bitmap => out.extend_from_slice(&[1, bitmap]),
        }
        out.extend_from_slice(&[self.ping_timeout_s, 0]);
        if self.version.has_protocol_type() {
            out.push(self.protocol_type);
        }
        out.extend_from_slice(&[self.rwf_version.0, self.rwf_version.1]);
        put_text(out, self.host);
        put_text(out, self.ip);
        let header_bytes =
            u8::try_from(out.len() - start).expect("host name and IP address have at most 238 bytes");
        out[start + HEADER_SIZE_AT] = header_bytes;
        if self.version.has_component_version() {
            put_component(out, self.component_version);
        }
        set_length(out, start);
    }
}

/// Checks that header and component container make up the whole message, and returns the container. CR LF may
/// follow.
fn check_parts(
    message: &[u8],
    header_bytes: usize,
    version: ConnectionVersion,
) -> Result<&[u8], HandshakeError> {
    let container_bytes = if version.has_component_version() {
        1 + message.get(header_bytes).copied().map_or(0, usize::from)
    } else {
        0
    };
    let parts = header_bytes + container_bytes;
    let whole = parts == message.len() || (parts + 2 == message.len() && message.ends_with(b"\r\n"));
    if !whole {
        let [bytes, parts_bytes] = [message.len(), parts].map(wire_u16);
        return Err(HandshakeError::Parts { bytes, parts_bytes });
    }
    Ok(&message[header_bytes..parts])
}

/// The version string in a component container; bytes that its inner length does not cover are skipped.
fn component_version(container: &[u8], at: usize) -> Result<Text<'_>, HandshakeError> {
    if container.len() < 2 {
        return Ok(Text::default());
    }
    Fields::new(container, 1).text("component version").map_err(|error| match error {
        HandshakeError::Field { field, end, limit } => {
            HandshakeError::Field { field, end: end + wire_u16(at), limit: limit + wire_u16(at) }
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "004b00000000170820001e00000e0107617070686f73740831302e312e322e332a296574616a332e392e312e4c\
                         312e616c6c2e7272677c656d616a332e392e312e4c312e616c6c2e727267";

    fn unhex(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("the vector is hexadecimal"))
            .collect()
    }

    fn request(version: ConnectionVersion) -> ConnectRequest<'static> {
        ConnectRequest {
            host: Text::new(b"apphost"),
            ip: Text::new(b"10.1.2.3"),
            component_version: if version.has_component_version() {
                Text::new(b"tickcast 1")
            } else {
                Text::default()
            },
            ..ConnectRequest::new(version, 30)
        }
    }

    fn emitted(request: &ConnectRequest<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        request.emit(&mut out);
        out
    }

    #[test]
    fn a_recorded_request_is_read_and_written_to_the_byte() {
        let bytes = unhex(PLAIN);
        let parsed = ConnectRequest::parse(&bytes).expect("a Java client wrote it");
        let expected = ConnectRequest {
            component_version: Text::new(b"etaj3.9.1.L1.all.rrg|emaj3.9.1.L1.all.rrg"),
            ..request(ConnectionVersion::V14)
        };
        assert_eq!(parsed, expected);
        assert_eq!(emitted(&parsed), bytes);
    }

    #[test]
    fn every_version_is_read_back_as_written() {
        for version in ConnectionVersion::ALL {
            for compression in [0, 1, 2] {
                let request = ConnectRequest { compression, ..request(version) };
                assert_eq!(ConnectRequest::parse(&emitted(&request)), Ok(request));
            }
        }
    }

    #[test]
    fn cr_lf_at_the_end_is_ignored() {
        for version in ConnectionVersion::ALL {
            let request = request(version);
            let mut bytes = emitted(&request);
            bytes.extend_from_slice(b"\r\n");
            set_length(&mut bytes, 0);
            assert_eq!(ConnectRequest::parse(&bytes), Ok(request));
            *bytes.last_mut().expect("not empty") = b' ';
            assert!(matches!(ConnectRequest::parse(&bytes), Err(HandshakeError::Parts { .. })));
        }
    }

    #[test]
    fn container_bytes_beyond_the_inner_length_are_skipped() {
        let request = request(ConnectionVersion::V14);
        let mut bytes = emitted(&request);
        bytes.extend_from_slice(b"more");
        bytes[32] += 4;
        set_length(&mut bytes, 0);
        assert_eq!(ConnectRequest::parse(&bytes), Ok(request));
    }

    #[test]
    fn an_empty_component_container_is_no_component_version() {
        let mut bytes = emitted(&request(ConnectionVersion::V14));
        bytes.truncate(33);
        bytes[32] = 0;
        set_length(&mut bytes, 0);
        let parsed = ConnectRequest::parse(&bytes).expect("the container may be empty");
        assert!(parsed.component_version.is_empty());
    }

    #[test]
    fn every_truncation_is_an_error() {
        for version in ConnectionVersion::ALL {
            let bytes = emitted(&request(version));
            for length in 0..bytes.len() {
                assert!(ConnectRequest::parse(&bytes[..length]).is_err(), "{version}: {length}");
            }
        }
    }

    #[test]
    fn a_text_beyond_its_part_is_an_error_with_its_name() {
        let mut bytes = emitted(&request(ConnectionVersion::V14));
        bytes[15] = 200;
        let error = ConnectRequest::parse(&bytes).expect_err("the host name ends at 216");
        assert_eq!(error, HandshakeError::Field { field: "host name", end: 216, limit: 32 });
        let mut bytes = emitted(&request(ConnectionVersion::V14));
        bytes[33] = 100;
        let error = ConnectRequest::parse(&bytes).expect_err("the component version ends at 134");
        assert_eq!(error, HandshakeError::Field { field: "component version", end: 134, limit: 44 });
    }

    #[test]
    fn keys_are_exchanged_from_version_14_on() {
        for version in ConnectionVersion::ALL {
            let mut bytes = emitted(&request(version));
            bytes[7] = FLAG_KEY_EXCHANGE | 0x40;
            let parsed = ConnectRequest::parse(&bytes).expect("bits of tunnelling are ignored");
            assert_eq!(parsed.key_exchange, version == ConnectionVersion::V14);
        }
    }

    #[test]
    fn unknown_versions_and_flags_are_errors() {
        let mut bytes = emitted(&request(ConnectionVersion::V14));
        bytes[6] = 0x18;
        assert_eq!(ConnectRequest::parse(&bytes), Err(HandshakeError::UnknownVersion { number: 0x18 }));
        bytes[2] = 1;
        let flags = HandshakeError::Flags { message: "connect request", flags: 1, extended: 0 };
        assert_eq!(ConnectRequest::parse(&bytes), Err(flags));
    }
}
