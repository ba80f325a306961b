use std::time::Duration;

/// Ceilings on what one connection may hold in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest head of an upgrade. Default 16 KiB.
    pub head_bytes_max: usize,
    /// Longest message that is taken, as it comes and decompressed. Default 16 MiB.
    pub message_bytes_max: usize,
    /// Most bytes waiting for the socket. Default 8 MiB. At the limit writes fail with
    /// [`Stop::SlowConsumer`](crate::Stop). The allocation may be twice as large.
    pub backlog_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { head_bytes_max: 16 << 10, message_bytes_max: 16 << 20, backlog_bytes_max: 8 << 20 }
    }
}

/// How a server treats its connections.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Sub-protocols spoken. Default: the two names of the JSON protocol.
    pub protocols: Vec<&'static str>,
    /// A path is served if it has this in it, in any case. Written in lower case. Default `websocket`.
    pub path_word: &'static str,
    /// Whether offers of permessage-deflate are accepted. Default true.
    pub compression: bool,
    /// From the TCP connection to the end of the upgrade. Default 15 s.
    pub handshake_timeout: Duration,
    /// The text that asks a peer for a sign of life. Default the ping of the JSON protocol in an array.
    pub ping: &'static str,
    /// A peer from which nothing has come for so long is given up; it is pinged each third of it in which
    /// nothing came or nothing went. Default 30 s.
    pub ping_timeout: Duration,
    /// Ceilings of each connection.
    pub limits: Limits,
}

/// The ping of the JSON protocol as a server sends it.
pub const JSON_PING: &str = r#"[{"Type":"Ping"}]"#;

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            protocols: vec!["tr_json2", "rssl.json.v2"],
            path_word: "websocket",
            compression: true,
            handshake_timeout: Duration::from_secs(15),
            ping: JSON_PING,
            ping_timeout: Duration::from_secs(30),
            limits: Limits::default(),
        }
    }
}

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// What the `Host` header says: host and port of the server.
    pub host: String,
    /// The path. Default `/WebSocket`.
    pub path: String,
    /// Sub-protocols, the preferred first; none: the server must not choose one. Default `tr_json2`.
    pub protocols: Vec<String>,
    /// Whether permessage-deflate is offered. Default false.
    pub compression: bool,
    /// From the TCP connection to the end of the upgrade. Default 15 s.
    pub handshake_timeout: Duration,
    /// The text that asks a peer for a sign of life. Default the ping of the JSON protocol.
    pub ping: &'static str,
    /// As of [`ServerConfig`], until the server has told another.
    pub ping_timeout: Duration,
    /// Ceilings of the connection.
    pub limits: Limits,
}

impl ClientConfig {
    /// The defaults, for a server.
    #[must_use]
    pub fn new(host: impl Into<String>) -> ClientConfig {
        ClientConfig {
            host: host.into(),
            path: "/WebSocket".to_owned(),
            protocols: vec!["tr_json2".to_owned()],
            compression: false,
            handshake_timeout: Duration::from_secs(15),
            ping: JSON_PING,
            ping_timeout: Duration::from_secs(30),
            limits: Limits::default(),
        }
    }
}
