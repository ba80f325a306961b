use config::Complaint;

use server::rssl::Compression;

use super::{ClientTlsConfig, HostPort, WebSocketConfig, delays_in_order};

config::section! {
    /// A consumer: where it connects, who it says it is, how long it waits, what it keeps.
    pub struct ConsumerConfig {
        /// Servers, tried in turn: the next one at once, and after the last a delay before the first again.
        hosts: Vec<HostPort> = [HostPort::new("localhost", 14002)], length 1..=64;
        /// Connections are encrypted; they are not if it is not set.
        tls: Option<ClientTlsConfig> = None;
        /// JSON over WebSocket is spoken; RSSL is if it is not set.
        websocket: Option<WebSocketConfig> = None;
        /// Compression that is asked for; the server decides. None is if it is not set.
        compression: Option<Compression> = None;
        /// Name of the user that logs in; the name of the user that runs the process if it is empty.
        user: String = "", length 0..=255;
        /// File whose first line is the password to log in with; none is sent if it is not set.
        password_file: Option<String> = None;
        /// Id of the application in the permission system.
        application_id: String = "256", length 1..=255;
        /// Name of the application.
        application_name: String = "tickcast", length 0..=255;
        /// Where the user sits, as address/host or address/net; address and name of this host if it is empty.
        position: String = "", length 0..=255;
        /// What this end calls itself in the connection handshake.
        component: String = "tickcast", length 0..=200;
        /// For the host's name, the TCP connection and the TLS session; and once more for the RSSL handshake.
        connect_timeout_ms: u32 = 5_000, range 1..=3_600_000;
        /// Wait for the answer to the login.
        login_timeout_ms: u32 = 45_000, range 1..=3_600_000;
        /// Wait for the source directory.
        directory_timeout_ms: u32 = 45_000, range 1..=3_600_000;
        /// Wait for the dictionary; after it the next service that has one is asked, or all of them again.
        dictionary_timeout_ms: u32 = 45_000, range 1..=3_600_000;
        /// Wait for the answer to an item request; after it the item is asked for again.
        item_timeout_ms: u32 = 15_000, range 1..=3_600_000;
        /// Wait for the ack of a post.
        post_timeout_ms: u32 = 15_000, range 1..=3_600_000;
        /// Most posts that wait for acks at a time; further ones are refused.
        posts_max: u32 = 10_000, range 1..=16_777_216;
        /// Wait before an item is asked for again that the server has closed for now.
        item_retry_delay_ms: u32 = 1_000, range 0..=3_600_000;
        /// Wait before the first attempt to reconnect; each further wait is twice as long.
        reconnect_delay_min_ms: u32 = 1_000, range 1..=3_600_000;
        /// Longest wait between attempts to reconnect.
        reconnect_delay_max_ms: u32 = 5_000, range 1..=3_600_000;
        /// How often it is looked whether the first server takes connections again, while the session is at
        /// another one; the session then moves to it. 0: never.
        preferred_host_check_s: u32 = 0, range 0..=86_400;
        /// Ping timeout that is proposed; the server decides.
        ping_timeout_s: u8 = 30, range 1..=255;
        /// Whether items are recovered here: after a loss they are suspect and asked for again. If not, a
        /// loss ends them, and the application asks again.
        single_open: bool = true;
        /// Whether the server is told that it may measure the round trip over the login stream.
        round_trip_measurement: bool = false;
        /// Where the data dictionary comes from.
        dictionary: DictionaryMode = DictionaryMode::Required;
        /// Whether the image of each item is kept, with all updates merged into it.
        keep_images: bool = false;
        /// Most items subscribed at a time.
        items_max: u32 = 1_000_000, range 1..=16_777_216;
        /// Longest message that is accepted, in fragments.
        message_max_bytes: u32 = 16_777_216, range 65_535..=1_073_741_824;
        /// Longest of the two parts of a dictionary that is accepted.
        dictionary_max_bytes: u32 = 16_777_216, range 65_535..=1_073_741_824;
        /// Most bytes that wait for the server to take them; item requests beyond it wait in the queue of
        /// their items.
        backlog_max_bytes: u32 = 8_388_608, range 65_536..=1_073_741_824;
        /// Most bytes read from the socket at once.
        read_buffer_bytes: u32 = 262_144, range 4_096..=16_777_216;
    }
    check = ConsumerConfig::check;
}

config::choice! {
    /// Where a consumer's data dictionary comes from.
    pub enum DictionaryMode {
        /// Downloaded from a service; items are asked for when it is there.
        Required = "required",
        /// Downloaded from a service; items do without it if no service has it or all downloads fail.
        Optional = "optional",
        /// Never downloaded: fields have numbers and bytes, unless the application gives a dictionary.
        None = "none",
    }
}

impl ConsumerConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        delays_in_order(self.reconnect_delay_min_ms, self.reconnect_delay_max_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        assert_eq!(config::audit::<ConsumerConfig>(), Vec::<String>::new());
    }

    #[test]
    fn a_file_says_hosts_and_modes_by_their_names() {
        let file = "hosts = [\"a:1\", \"[::1]:2\"]\ndictionary = \"none\"\n";
        let loaded =
            config::Loader::new::<ConsumerConfig>().file("c.toml", file).load().expect("legal").value;
        assert_eq!(loaded.hosts, [HostPort::new("a", 1), HostPort::new("::1", 2)]);
        assert_eq!(loaded.dictionary, DictionaryMode::None);
    }

    #[test]
    fn delays_out_of_order_and_hosts_without_port_are_refused() {
        let load = |file: &str| config::Loader::new::<ConsumerConfig>().file("c.toml", file).load();
        let faults = load("reconnect_delay_min_ms = 6_000\n").expect_err("above the longest");
        assert!(faults.to_string().contains("reconnect_delay_max_ms"), "{faults}");
        let faults = load("hosts = [\"a\"]\n").expect_err("no port");
        assert!(faults.to_string().contains("a port must follow"), "{faults}");
        assert!(load("hosts = []\n").is_err());
    }
}
