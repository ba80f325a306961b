use config::Complaint;
use server::rssl::RsslConfig;
use server::websocket::WebSocketConfig;

use super::ProviderServiceConfig;
use super::provider::complaints_about;

config::section! {
    /// An interactive provider: where it listens, what it says it is, which services it has.
    pub struct InteractiveConfig {
        /// Port on which clients connect; 0 for any free one.
        port: u16 = 14002, range 0..=65_535;
        /// RSSL connections.
        rssl: RsslConfig;
        /// Port on which clients connect by WebSocket; 0 for any free one. Without it none do.
        websocket_port: Option<u16> = None, range 0..=65_535;
        /// WebSocket connections.
        websocket: WebSocketConfig;
        /// The service that a WebSocket request means if it names none. Without this it is the only service that
        /// there is.
        default_service: Option<String> = None, length 1..=255;
        /// What this end calls itself in its answer to a login.
        application_name: String = "tickcast", length 0..=255;
        /// Whether a login waits until the application accepts or rejects it; else all are accepted.
        asks_for_logins: bool = false;
        /// Whether posts are taken, that is, handed to the application. If not, they are refused.
        takes_posts: bool = true;
        /// Whether the messages of items that clients ask for are numbered, from 1.
        seq_nums: bool = false;
        /// About how many bytes a refresh message has; a larger image goes out in several, if it is a map.
        part_bytes: u32 = 61_440, range 512..=16_777_216;
        /// Most items at a time, published or asked for.
        items_max: u32 = 1_000_000, range 1..=16_777_216;
        /// Most item streams one client may have open.
        client_streams_max: u32 = 500_000, range 1..=10_000_000;
        /// The services, `[[interactive.service]]` each.
        #[key = "service"]
        services: Vec<ProviderServiceConfig>;
    }
    check = InteractiveConfig::check;
}

impl InteractiveConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        let complaints = complaints_about(&self.services);
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        assert_eq!(config::audit::<InteractiveConfig>(), Vec::<String>::new());
    }

    #[test]
    fn services_share_neither_name_nor_id() {
        let load = |file: &str| config::Loader::new::<InteractiveConfig>().file("p.toml", file).load();
        let loaded = load("port = 1\n[[service]]\nname = \"A\"\nid = 7\n").expect("legal").value;
        assert_eq!((loaded.services[0].id, loaded.takes_posts, loaded.asks_for_logins), (7, true, false));
        assert!(load("[[service]]\nname = \"A\"\n[[service]]\nname = \"A\"\n").is_err());
    }
}
