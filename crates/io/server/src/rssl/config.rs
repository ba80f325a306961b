use std::net::Ipv4Addr;
use std::time::Duration;

use crate::TlsConfig;

config::choice! {
    /// A compression of RSSL.
    pub enum Compression {
        /// Deflate, at about 320 KiB for each connection and much processor time.
        Zlib = "zlib",
        /// LZ4: less is saved, at a fraction of the cost.
        Lz4 = "lz4",
    }
}

config::section! {
    /// A port on which RSSL connections are taken.
    pub struct RsslConfig {
        /// Address to listen on; 0.0.0.0 for all of the host.
        interface: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
        /// An encrypted port beside the plain one or instead of it.
        tls: Option<TlsConfig> = None;
        /// Most connections at a time; further ones are refused.
        connections_max: u32 = 10_000, range 1..=1_000_000;
        /// Most connections of one address at a time; further ones are closed unheard.
        connections_per_address_max: u32 = 1_000, range 1..=1_000_000;
        /// Longest message that goes unfragmented, announced to the other side.
        message_size_bytes: u16 = 6144, range 64..=65532;
        /// Compressions that clients may ask for, the first first if a client names several.
        compression: Vec<Compression> = [Compression::Zlib, Compression::Lz4], length 0..=2;
        /// Compression for clients that ask for none, or for one that is not granted.
        compression_forced: Option<Compression> = None;
        /// Level of zlib in both directions: 0 stores, 9 is the slowest.
        zlib_level: u8 = 6, range 0..=9;
        /// Shortest payload that is compressed with zlib.
        zlib_threshold_bytes: u16 = 30, range 1..=65535;
        /// Shortest payload that is compressed with LZ4.
        lz4_threshold_bytes: u16 = 300, range 1..=65535;
        /// Longest message that is taken in fragments.
        message_max_bytes: u32 = 16_777_216, range 65_535..=1_073_741_824;
        /// Most bytes that wait for one connection's socket; at the limit the connection is closed as too
        /// slow.
        backlog_max_bytes: u64 = 67_108_864, range 65_536..=17_179_869_184;
        /// About the most bytes that the socket of a connection takes before they can be sent; 0 for as many as the
        /// system's send buffer holds, some MiB. What the socket has taken is neither counted nor conflated.
        unsent_max_bytes: u32 = 0, range 0..=1_073_741_824;
        /// Most bytes that wait for the sockets of all connections of the port together; beyond, those for which
        /// most waits are closed.
        backlogs_max_bytes: u64 = 2_147_483_648, range 1_048_576..=1_099_511_627_776;
        /// Least ping timeout granted.
        ping_timeout_min_s: u8 = 20, range 1..=255;
        /// Greatest ping timeout granted.
        ping_timeout_max_s: u8 = 60, range 1..=255;
        /// From the TCP connection to the end of the handshake.
        handshake_timeout_ms: u32 = 15_000, range 1..=3_600_000;
        /// From the end of the handshake to the login.
        login_timeout_ms: u32 = 15_000, range 1..=3_600_000;
    }
    check = RsslConfig::check;
}

impl Compression {
    /// As the connections know it.
    #[must_use]
    pub fn to_type(self) -> rssl::CompressionType {
        match self {
            Compression::Zlib => rssl::CompressionType::Zlib,
            Compression::Lz4 => rssl::CompressionType::Lz4,
        }
    }
}

impl RsslConfig {
    fn check(&self) -> Result<(), Vec<config::Complaint>> {
        if self.ping_timeout_min_s > self.ping_timeout_max_s {
            let keys = ["ping_timeout_min_s", "ping_timeout_max_s"];
            return Err(vec![config::Complaint::new(keys, "the least ping timeout is above the greatest")]);
        }
        Ok(())
    }

    /// What the connections go by.
    #[must_use]
    pub fn params(&self) -> rssl::ServerConfig {
        let held = u64::from(self.message_max_bytes) * 2;
        rssl::ServerConfig {
            message_size_bytes: self.message_size_bytes,
            ping_timeout_min_s: self.ping_timeout_min_s,
            ping_timeout_max_s: self.ping_timeout_max_s,
            handshake_timeout: Duration::from_millis(self.handshake_timeout_ms.into()),
            compression: self.compression.iter().map(|kind| kind.to_type()).collect(),
            compression_forced: self.compression_forced.map(Compression::to_type),
            zlib_level: self.zlib_level,
            thresholds: rssl::Thresholds {
                zlib_bytes: self.zlib_threshold_bytes,
                lz4_bytes: self.lz4_threshold_bytes,
            },
            limits: rssl::Limits {
                message_bytes_max: self.message_max_bytes,
                fragmented_bytes_max: held,
                backlog_bytes_max: self.backlog_max_bytes as usize,
                ..rssl::Limits::default()
            },
            ..rssl::ServerConfig::default()
        }
    }
}
