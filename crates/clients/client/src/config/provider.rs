use std::collections::HashSet;

use config::Complaint;
use rdm::directory::{Info, Service, ServiceState};
use rwf::Domain;

use server::rssl::Compression;

use super::{ClientTlsConfig, HostPort, delays_in_order};

config::section! {
    /// A non-interactive provider: where it connects, who it says it is, which services it publishes.
    pub struct ProviderConfig {
        /// Distribution servers, tried in turn: the next one at once, and after the last a delay before the
        /// first again.
        hosts: Vec<HostPort> = [HostPort::new("localhost", 14003)], length 1..=64;
        /// Connections are encrypted; they are not if it is not set.
        tls: Option<ClientTlsConfig> = None;
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
        /// Wait before the first attempt to reconnect; each further wait is twice as long.
        reconnect_delay_min_ms: u32 = 1_000, range 1..=3_600_000;
        /// Longest wait between attempts to reconnect.
        reconnect_delay_max_ms: u32 = 5_000, range 1..=3_600_000;
        /// How often it is looked whether the first server takes connections again, while the session is at
        /// another one; the session then moves to it. 0: never.
        preferred_host_check_s: u32 = 0, range 0..=86_400;
        /// Ping timeout that is proposed; the server decides.
        ping_timeout_s: u8 = 30, range 1..=255;
        /// Whether images are kept: they are published again after a reconnect. If not, the application does
        /// it.
        keep_images: bool = true;
        /// About how many bytes a refresh message has; a larger image goes out in several, if it is a map.
        part_bytes: u32 = 61_440, range 512..=16_777_216;
        /// Most items published at a time.
        items_max: u32 = 1_000_000, range 1..=16_777_216;
        /// Most bytes that wait for the server to take them; what is published beyond it is refused.
        backlog_max_bytes: u32 = 8_388_608, range 65_536..=1_073_741_824;
        /// The services, `[[provider.service]]` each.
        #[key = "service"]
        services: Vec<ProviderServiceConfig>;
    }
    check = ProviderConfig::check;
}

config::section! {
    /// A service that a provider publishes.
    pub struct ProviderServiceConfig {
        /// Its name, by which consumers ask for it.
        name: String, required, length 1..=255;
        /// Its number in this provider's messages.
        id: u16 = 0, range 0..=65_535;
        /// Who the data comes from.
        vendor: Option<String> = None;
        /// Whether it is the source itself, not an aggregation.
        is_source: bool = true;
        /// Domains of its items, by number: 6 market price, 7 market by order, 8 market by price, 10 symbol
        /// list.
        domains: Vec<u8> = [6, 7, 8, 10], range 1..=255, length 1..=64;
        /// Dictionaries that a consumer needs.
        dictionaries_used: Vec<String> = ["RWFFld", "RWFEnum"], length 0..=16;
        /// Name of the symbol list that has all items.
        item_list: Option<String> = None;
        /// Whether it is up from the start.
        up: bool = true;
    }
}

impl ProviderConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        delays_in_order(self.reconnect_delay_min_ms, self.reconnect_delay_max_ms)?;
        let complaints = complaints_about(&self.services);
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }
}

/// What is wrong with services beside each other.
pub(super) fn complaints_about(services: &[ProviderServiceConfig]) -> Vec<Complaint> {
    let (mut names, mut ids, mut complaints) = (HashSet::new(), HashSet::new(), Vec::new());
    for (at, service) in services.iter().enumerate() {
        if !names.insert(&service.name) {
            let keys = [format!("service.{at}.name")];
            complaints.push(Complaint::new(keys, "each service has a name of its own"));
        }
        if !ids.insert(service.id) {
            let keys = [format!("service.{at}.id")];
            complaints.push(Complaint::new(keys, "each service has an id of its own"));
        }
    }
    complaints
}

impl ProviderServiceConfig {
    /// The service as the directory says it.
    #[must_use]
    pub fn service(&self) -> Service {
        Service {
            id: self.id,
            info: Info {
                name: self.name.clone(),
                vendor: self.vendor.clone(),
                is_source: self.is_source,
                capabilities: self.domains.iter().map(|domain| Domain(*domain)).collect(),
                dictionaries_used: self.dictionaries_used.clone(),
                item_list: self.item_list.clone(),
                ..Info::default()
            },
            state: ServiceState { up: self.up, accepting_requests: Some(self.up), status: None },
            ..Service::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        assert_eq!(config::audit::<ProviderConfig>(), Vec::<String>::new());
    }

    #[test]
    fn services_stand_in_tables_and_share_neither_name_nor_id() {
        let load = |file: &str| config::Loader::new::<ProviderConfig>().file("p.toml", file).load();
        let loaded = load("[[service]]\nname = \"A\"\nid = 7\n").expect("legal").value;
        let service = loaded.services[0].service();
        assert_eq!((service.id, service.info.name.as_str(), service.state.up), (7, "A", true));
        assert!(service.info.capabilities.contains(&Domain::MARKET_PRICE));
        let faults = load("[[service]]\nname = \"A\"\n[[service]]\nname = \"A\"\n").expect_err("twins");
        assert_eq!(faults.as_slice().len(), 2, "{faults}");
    }
}
