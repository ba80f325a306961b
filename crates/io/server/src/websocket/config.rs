use std::net::Ipv4Addr;
use std::time::Duration;

use config::Complaint;

use super::origin::Origin;
use crate::TlsConfig;

config::section! {
    /// A port on which the JSON protocol is spoken over WebSocket.
    pub struct WebSocketConfig {
        /// Address to listen on; 0.0.0.0 for all of the host.
        interface: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
        /// An encrypted port beside the plain one or instead of it.
        tls: Option<TlsConfig> = None;
        /// Most connections at a time; further ones are refused.
        connections_max: u32 = 10_000, range 1..=1_000_000;
        /// Most connections of one address at a time; further ones are closed unheard.
        connections_per_address_max: u32 = 1_000, range 1..=1_000_000;
        /// Pages that may log their user in by cookie beside those of the server's own host and port, as browsers
        /// name them: `https://app.example.com`. From other pages upgrades with a login cookie are refused;
        /// clients that name no origin are not concerned.
        allowed_origins: Vec<String> = [], length 0..=1_000;
        /// Longest message that is taken from a client, announced to it in the login refresh.
        message_max_bytes: u32 = 61_440, range 1_024..=1_073_741_824;
        /// Most bytes that wait for one connection's socket; at the limit the connection is closed as too
        /// slow.
        backlog_max_bytes: u64 = 67_108_864, range 65_536..=17_179_869_184;
        /// About the most bytes that the socket of a connection takes before they can be sent; 0 for as many as the
        /// system's send buffer holds, some MiB. What the socket has taken is neither counted nor conflated.
        unsent_max_bytes: u32 = 0, range 0..=1_073_741_824;
        /// Most bytes that wait for the sockets of all connections of the port together; beyond, those for which
        /// most waits are closed.
        backlogs_max_bytes: u64 = 2_147_483_648, range 1_048_576..=1_099_511_627_776;
        /// A client from which nothing has come for so long is given up; it is pinged each third of it.
        /// Announced in the login refresh.
        ping_timeout_s: u8 = 30, range 3..=255;
        /// From the TCP connection to the end of the upgrade.
        handshake_timeout_ms: u32 = 15_000, range 1..=3_600_000;
        /// From the end of the upgrade to the login.
        login_timeout_ms: u32 = 15_000, range 1..=3_600_000;
        /// Whether clients that offer permessage-deflate get it.
        compression: bool = true;
        /// How hard compression tries: 1 is fast, 9 small.
        compression_level: u8 = 3, range 1..=9;
        /// Shorter messages go uncompressed.
        compression_min_bytes: u32 = 100, range 0..=1_000_000;
    }
    check = WebSocketConfig::check;
}

impl WebSocketConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        let is_wrong = |(_, text): &(usize, &String)| Origin::parse(text).is_none();
        let wrong = self.allowed_origins.iter().enumerate().filter(is_wrong);
        let complaints: Vec<Complaint> = wrong
            .map(|(index, _)| {
                let message =
                    "an origin is http:// or https:// with a host, and a port if it is not the usual one";
                Complaint::new([format!("allowed_origins.{index}")], message)
            })
            .collect();
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }

    /// What the connections go by.
    #[must_use]
    pub fn params(&self) -> websocket::ServerConfig {
        websocket::ServerConfig {
            compression: self.compression,
            handshake_timeout: Duration::from_millis(self.handshake_timeout_ms.into()),
            ping_timeout: Duration::from_secs(self.ping_timeout_s.into()),
            limits: websocket::Limits {
                message_bytes_max: self.message_max_bytes as usize,
                backlog_bytes_max: self.backlog_max_bytes as usize,
                ..websocket::Limits::default()
            },
            ..websocket::ServerConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_that_no_browser_names_are_complained_of() {
        for (origin, is_good) in [
            ("https://app.example.com", true),
            ("http://10.1.2.3:8080", true),
            ("app.example.com", false),
            ("https://app.example.com/", false),
            ("https://*.example.com", false),
            ("null", false),
            ("*", false),
        ] {
            let file = format!("allowed_origins = [\"{origin}\"]");
            let loaded = config::Loader::new::<WebSocketConfig>().file("w.toml", file).load();
            assert_eq!(loaded.is_ok(), is_good, "{origin}");
        }
    }
}
