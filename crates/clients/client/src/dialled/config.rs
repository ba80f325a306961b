use config::Complaint;
use server::rssl::Compression;

use crate::ClientTlsConfig;
use crate::config::delays_in_order;

config::section! {
    /// A connection that is kept up.
    pub struct DialledConfig {
        /// Connections are encrypted; they are not if it is not set.
        tls: Option<ClientTlsConfig> = None;
        /// Compression that is asked for; the server decides. None is if it is not set.
        compression: Option<Compression> = None;
        /// What this end calls itself in the connection handshake.
        component: String = "tickcast", length 0..=200;
        /// For the host's name, the TCP connection and the TLS session; and once more for the RSSL handshake.
        connect_timeout_ms: u32 = 5_000, range 1..=3_600_000;
        /// Wait before the first attempt to reconnect; each further wait is twice as long.
        reconnect_delay_min_ms: u32 = 1_000, range 1..=3_600_000;
        /// Longest wait between attempts to reconnect.
        reconnect_delay_max_ms: u32 = 5_000, range 1..=3_600_000;
        /// Ping timeout that is proposed; the server decides.
        ping_timeout_s: u8 = 30, range 1..=255;
        /// Longest message that is accepted, in fragments.
        message_max_bytes: u32 = 16_777_216, range 65_535..=1_073_741_824;
        /// Most bytes that wait for the server to take them; with more the connection is closed.
        backlog_max_bytes: u32 = 8_388_608, range 65_536..=1_073_741_824;
        /// Most bytes read from the socket at once.
        read_buffer_bytes: u32 = 262_144, range 4_096..=16_777_216;
    }
    check = DialledConfig::check;
}

impl DialledConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        delays_in_order(self.reconnect_delay_min_ms, self.reconnect_delay_max_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound_and_delays_are_in_order() {
        assert_eq!(config::audit::<DialledConfig>(), Vec::<String>::new());
        let load = |file: &str| config::Loader::new::<DialledConfig>().file("l.toml", file).load();
        assert_eq!(load("").expect("legal").value.ping_timeout_s, 30);
        let wrong = "reconnect_delay_min_ms = 9\nreconnect_delay_max_ms = 8";
        assert_eq!(load(wrong).expect_err("the wrong way round").as_slice().len(), 1);
    }
}
