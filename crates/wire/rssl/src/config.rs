use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::assembly::{SLOT_BYTES, SLOT_KEEPS_BYTES};
use crate::compression::{COMPRESSION_STATE_BYTES, ZLIB_LEVEL_MAX};
use crate::frame::HEADER_BYTES;
use crate::{CompressionType, ConnectionVersion, Thresholds};

/// Smallest maximum user message size: a first fragment must hold the fixed part of an RWF message.
pub const MESSAGE_SIZE_LEAST_BYTES: u16 = 64;
/// Greatest maximum user message size: with its header a frame still has a 16-bit length.
pub const MESSAGE_SIZE_MOST_BYTES: u16 = u16::MAX - HEADER_BYTES as u16;
/// The maximum user message size of every RSSL server in the field.
pub const MESSAGE_SIZE_DEFAULT_BYTES: u16 = 6144;
/// Longest component version: keeps a connect ack below 256 bytes, which Java clients need.
pub const COMPONENT_VERSION_MOST_BYTES: usize = 200;

/// What a connection uses itself, with the least allocations of its buffers.
const FIXED_BYTES: u64 = 2048;

/// Header size of a connect request without compression bitmap, host name and IP address, and what its one byte can say.
const REQUEST_FIXED_BYTES: usize = 17;
const REQUEST_HEADER_MOST_BYTES: usize = 255;

/// Ceilings on what one connection may hold in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest message that is accepted in fragments. 65,535 bytes to 4 GiB - 1. Default 16 MiB: the largest
    /// images and dictionaries in use are well below.
    pub message_bytes_max: u32,
    /// Most fragmented messages open at once, 1 to 256. Default 16; writers have three priorities, hence
    /// three.
    pub fragmented_open_max: u16,
    /// Most bytes that the fragmented messages open at once may announce together; at least
    /// `message_bytes_max`. Default 32 MiB. Announced bytes count at once, the memory is taken as they
    /// arrive.
    pub fragmented_bytes_max: u64,
    /// Most bytes waiting for the socket, 64 KiB or more. Default 8 MiB: a tenth of a second of a million
    /// updates. No longer message can be sent. At the limit writes fail with
    /// [`SendError::SlowConsumer`](crate::SendError). The allocation may be twice as large. At most 1 TiB.
    pub backlog_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            message_bytes_max: 16 << 20,
            fragmented_open_max: 16,
            fragmented_bytes_max: 32 << 20,
            backlog_bytes_max: 8 << 20,
        }
    }
}

impl Limits {
    /// Most memory a connection with these limits can use (`memory_bytes` of a connection never exceeds it):
    /// one frame, the fragmented messages with 128 KiB for each that may be open, twice the backlog, and 2
    /// KiB for the rest.
    #[must_use]
    pub fn memory_bytes_max(&self, message_size_bytes: u16) -> u64 {
        let frame = u64::from(message_size_bytes) + HEADER_BYTES as u64;
        let open = u64::from(self.fragmented_open_max) * (SLOT_KEEPS_BYTES + SLOT_BYTES) as u64;
        let backlog = 2 * self.backlog_bytes_max as u64;
        self.fragmented_bytes_max.saturating_add(frame + open + backlog + FIXED_BYTES)
    }

    /// What a connection with compression can use beyond that: the state of zlib in both directions and
    /// buffers for payloads. While a fragmented message is compressed, its length comes on top.
    #[must_use]
    pub fn compression_bytes_max(message_size_bytes: u16) -> u64 {
        let frame = u64::from(message_size_bytes) + HEADER_BYTES as u64;
        COMPRESSION_STATE_BYTES + 6 * frame
    }

    fn check(&self) -> Result<(), ConfigError> {
        in_range("message_bytes_max", self.message_bytes_max, 0xffff, u32::MAX)?;
        in_range("fragmented_open_max", self.fragmented_open_max, 1, 256)?;
        in_range(
            "fragmented_bytes_max",
            self.fragmented_bytes_max,
            u64::from(self.message_bytes_max),
            u64::MAX,
        )?;
        in_range("backlog_bytes_max", self.backlog_bytes_max as u64, 64 << 10, 1 << 40)
    }
}

impl Thresholds {
    fn check(&self) -> Result<(), ConfigError> {
        in_range("zlib_bytes", self.zlib_bytes, 1, u16::MAX)?;
        in_range("lz4_bytes", self.lz4_bytes, 1, u16::MAX)
    }
}

/// What a server answers to connect requests and how it treats its connections.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Maximum user message size announced to clients: decides the largest frame of both directions. 64 to
    /// 65,532 bytes, default 6144 as everywhere in the field.
    pub message_size_bytes: u16,
    /// Least ping timeout granted, seconds, 1 or more. Default 20.
    pub ping_timeout_min_s: u8,
    /// Greatest ping timeout granted, seconds; at least the least. Default 60.
    pub ping_timeout_max_s: u8,
    /// From the TCP connection to the end of the handshake, 1 ms to 1 h. Default 15 s. The providers in the
    /// field allow 60 s; but their clients give up after 5 s, so that a connection still silent after 15 s is
    /// of no use to anyone, and a flood of half-open ones is gone four times sooner.
    pub handshake_timeout: Duration,
    /// What this server calls itself, at most 200 bytes. Default `tickcast <version>`.
    pub component_version: String,
    /// Compression types granted to clients that ask, the first first if a client names several. Default zlib
    /// and LZ4.
    pub compression: Vec<CompressionType>,
    /// Compression of connections that are not granted what they ask for, or ask for none. Default none.
    pub compression_forced: Option<CompressionType>,
    /// Level of zlib in both directions: 0 (no compression) to 9 (slowest). Default 6.
    pub zlib_level: u8,
    /// Shortest payloads that are compressed.
    pub thresholds: Thresholds,
    /// Ceilings of each connection.
    pub limits: Limits,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            message_size_bytes: MESSAGE_SIZE_DEFAULT_BYTES,
            ping_timeout_min_s: 20,
            ping_timeout_max_s: 60,
            handshake_timeout: Duration::from_secs(15),
            component_version: component_version(),
            compression: vec![CompressionType::Zlib, CompressionType::Lz4],
            compression_forced: None,
            zlib_level: 6,
            thresholds: Thresholds::default(),
            limits: Limits::default(),
        }
    }
}

impl ServerConfig {
    /// Turns the configuration into the parameters of connections.
    ///
    /// # Errors
    /// [`ConfigError`] for the first value out of its range.
    pub fn check(self) -> Result<ServerParams, ConfigError> {
        in_range(
            "message_size_bytes",
            self.message_size_bytes,
            MESSAGE_SIZE_LEAST_BYTES,
            MESSAGE_SIZE_MOST_BYTES,
        )?;
        in_range("ping_timeout_min_s", self.ping_timeout_min_s, 1, u8::MAX)?;
        in_range("ping_timeout_max_s", self.ping_timeout_max_s, self.ping_timeout_min_s, u8::MAX)?;
        in_range("handshake_timeout", millis(self.handshake_timeout), 1, 3_600_000)?;
        in_range("component_version", self.component_version.len(), 0, COMPONENT_VERSION_MOST_BYTES)?;
        in_range("zlib_level", self.zlib_level, 0, ZLIB_LEVEL_MAX)?;
        self.thresholds.check()?;
        self.limits.check()?;
        Ok(ServerParams { config: self })
    }
}

/// A checked [`ServerConfig`], shared by the connections of a listener.
#[derive(Debug)]
pub struct ServerParams {
    config: ServerConfig,
}

impl ServerParams {
    /// The values in effect.
    #[must_use]
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }
}

/// What a client says in its connect request and how it treats its connection.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Version offered first. Default 14.
    pub version_max: ConnectionVersion,
    /// Last version offered when higher ones are not answered. Default 11, as the Java clients.
    pub version_min: ConnectionVersion,
    /// Ping timeout proposed, seconds, 1 or more; the server decides. Default 30.
    pub ping_timeout_s: u8,
    /// From the TCP connection to the connect ack, 1 ms to 1 h. Default 5 s, as the clients in the field.
    pub handshake_timeout: Duration,
    /// Name of this host. With `ip_address` at most 238 bytes, with compression 237.
    pub host_name: String,
    /// Address of this host as text; may be empty.
    pub ip_address: String,
    /// What this client calls itself, at most 200 bytes. Default `tickcast <version>`.
    pub component_version: String,
    /// Compression asked for; the server decides. Default none.
    pub compression: CompressionType,
    /// Shortest payloads that are compressed.
    pub thresholds: Thresholds,
    /// Ceilings of the connection.
    pub limits: Limits,
}

impl Default for ClientConfig {
    fn default() -> ClientConfig {
        ClientConfig {
            version_max: ConnectionVersion::V14,
            version_min: ConnectionVersion::V11,
            ping_timeout_s: 30,
            handshake_timeout: Duration::from_secs(5),
            host_name: String::new(),
            ip_address: String::new(),
            component_version: component_version(),
            compression: CompressionType::None,
            thresholds: Thresholds::default(),
            limits: Limits::default(),
        }
    }
}

impl ClientConfig {
    /// Turns the configuration into the parameters of connections.
    ///
    /// # Errors
    /// [`ConfigError`] for the first value out of its range.
    pub fn check(self) -> Result<ClientParams, ConfigError> {
        in_range("version_max", self.version_max.number(), self.version_min.number(), 14)?;
        in_range("ping_timeout_s", self.ping_timeout_s, 1, u8::MAX)?;
        in_range("handshake_timeout", millis(self.handshake_timeout), 1, 3_600_000)?;
        in_range("component_version", self.component_version.len(), 0, COMPONENT_VERSION_MOST_BYTES)?;
        let bitmap_bytes = usize::from(self.compression != CompressionType::None);
        let names_most = REQUEST_HEADER_MOST_BYTES - REQUEST_FIXED_BYTES - bitmap_bytes;
        in_range("host_name", self.host_name.len(), 0, names_most)?;
        in_range("ip_address", self.ip_address.len(), 0, names_most - self.host_name.len())?;
        self.thresholds.check()?;
        self.limits.check()?;
        Ok(ClientParams { config: self })
    }
}

/// A checked [`ClientConfig`].
#[derive(Debug)]
pub struct ClientParams {
    config: ClientConfig,
}

impl ClientParams {
    /// The values in effect.
    #[must_use]
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// What to offer after `version` was not answered.
    #[must_use]
    pub fn version_after(&self, version: ConnectionVersion) -> Option<ConnectionVersion> {
        version.lower().filter(|&lower| lower >= self.config.version_min)
    }
}

/// A value of a configuration that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number, or the length of a text in bytes, out of its range.
    OutOfRange {
        /// Name of the value.
        name: &'static str,
        /// The value, or its length.
        value: u64,
        /// Least allowed.
        least: u64,
        /// Greatest allowed.
        most: u64,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutOfRange { name, value, least, most } => {
                write!(f, "{name} is {value}, {least} to {most} allowed")
            }
        }
    }
}

impl Error for ConfigError {}

pub(crate) fn in_range<N>(name: &'static str, value: N, least: N, most: N) -> Result<(), ConfigError>
where
    N: Copy + PartialOrd + TryInto<u64>,
{
    if least <= value && value <= most {
        return Ok(());
    }
    let [value, least, most] = [value, least, most].map(|n| n.try_into().unwrap_or(u64::MAX));
    Err(ConfigError::OutOfRange { name, value, least, most })
}

/// Whole milliseconds of a span, as many as a `u32` can say.
pub(crate) fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

fn component_version() -> String {
    concat!("tickcast ", env!("CARGO_PKG_VERSION")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T>(result: Result<T, ConfigError>) -> ConfigError {
        result.err().expect("a value is out of its range")
    }

    fn name_of(error: ConfigError) -> &'static str {
        match error {
            ConfigError::OutOfRange { name, .. } => name,
        }
    }

    #[test]
    fn the_defaults_hold() {
        let server = ServerConfig::default().check().expect("defaults are within their ranges");
        assert_eq!(server.config().component_version, concat!("tickcast ", env!("CARGO_PKG_VERSION")));
        ClientConfig::default().check().expect("defaults are within their ranges");
    }

    #[test]
    fn each_server_value_out_of_range_is_named() {
        type Spoil = fn(&mut ServerConfig);
        let cases: [(&str, Spoil); 14] = [
            ("message_size_bytes", |c| c.message_size_bytes = 63),
            ("message_size_bytes", |c| c.message_size_bytes = 65_533),
            ("ping_timeout_min_s", |c| c.ping_timeout_min_s = 0),
            ("ping_timeout_max_s", |c| c.ping_timeout_max_s = 19),
            ("handshake_timeout", |c| c.handshake_timeout = Duration::ZERO),
            ("component_version", |c| c.component_version = "x".repeat(201)),
            ("zlib_level", |c| c.zlib_level = 10),
            ("zlib_bytes", |c| c.thresholds.zlib_bytes = 0),
            ("lz4_bytes", |c| c.thresholds.lz4_bytes = 0),
            ("message_bytes_max", |c| c.limits.message_bytes_max = 65_534),
            ("fragmented_open_max", |c| c.limits.fragmented_open_max = 0),
            ("fragmented_open_max", |c| c.limits.fragmented_open_max = 257),
            ("fragmented_bytes_max", |c| c.limits.fragmented_bytes_max = (16 << 20) - 1),
            ("backlog_bytes_max", |c| c.limits.backlog_bytes_max = 65_535),
        ];
        for (name, spoil) in cases {
            let mut config = ServerConfig::default();
            spoil(&mut config);
            assert_eq!(name_of(refused(config.check())), name);
        }
    }

    #[test]
    fn each_client_value_out_of_range_is_named() {
        type Spoil = fn(&mut ClientConfig);
        let cases: [(&str, Spoil); 6] = [
            ("version_max", |c| c.version_max = ConnectionVersion::V10),
            ("ping_timeout_s", |c| c.ping_timeout_s = 0),
            ("handshake_timeout", |c| c.handshake_timeout = Duration::from_secs(3601)),
            ("component_version", |c| c.component_version = "x".repeat(201)),
            ("host_name", |c| c.host_name = "x".repeat(239)),
            ("ip_address", |c| (c.host_name, c.ip_address) = ("x".repeat(230), "y".repeat(9))),
        ];
        for (name, spoil) in cases {
            let mut config = ClientConfig::default();
            spoil(&mut config);
            assert_eq!(name_of(refused(config.check())), name);
        }
    }

    #[test]
    fn an_error_says_value_and_range() {
        let config = ServerConfig { message_size_bytes: 10, ..ServerConfig::default() };
        assert_eq!(refused(config.check()).to_string(), "message_size_bytes is 10, 64 to 65532 allowed");
    }

    #[test]
    fn versions_are_offered_down_to_the_least() {
        let params = ClientConfig::default().check().expect("defaults are within their ranges");
        assert_eq!(params.version_after(ConnectionVersion::V14), Some(ConnectionVersion::V13));
        assert_eq!(params.version_after(ConnectionVersion::V11), None);
    }
}
