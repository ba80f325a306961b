//! A configuration with a key of every type, for the tests of this crate.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use config::{Complaint, Ipv4Cidr};
use tickcast_config as config;

config::section! {
    /// Everything.
    pub struct RootConfig {
        /// Name of this process in logs.
        instance: String = "tickcast", length 1..=32;
        /// The point-to-point server.
        p2ps: P2psConfig;
        /// Status pages over HTTP.
        admin: Option<AdminConfig> = None;
        /// A service that is offered.
        #[key = "service"]
        services: Vec<ServiceConfig>;
    }
    check = RootConfig::check;
}

config::section! {
    /// The point-to-point server: takes each update once and gives it to every watcher.
    pub struct P2psConfig {
        /// Port on which RSSL consumers connect.
        port: u16 = 14002, range 1..=65535;
        /// How long an item stays subscribed upstream after its last watcher has left.
        item_linger_ms: u64 = 5_000, range 0..=3_600_000;
        /// How the thread waits for work.
        wait: WaitStrategy = WaitStrategy::Block;
        /// Interfaces to listen on; all if there are none.
        interfaces: Vec<String> = [];
        /// Port of a second listener.
        ///
        /// For consumers that may use TLS | nothing else.
        tls_port: Option<u16> = None, range 1..=65535;
        /// Whether slow consumers get conflated updates.
        conflate: bool = true;
        /// Share of the link that recovery may take.
        recovery_share: f64 = 0.25, range 0.0..=1.0;
        /// Cores that the threads run on.
        cpus: Vec<u16> = [0, 1], range 0..=1023, length 1..=8;
        /// Correction of the clock.
        clock_offset_ns: i32 = -5, range -1000..=1000;
        /// Send rate.
        rate_bits_per_second: u64 = 1_000_000_000, range 1_000..;
        /// Multicast group of the backbone.
        group: Ipv4Addr = Ipv4Addr::new(239, 192, 0, 1);
        /// Where the resolver is.
        resolver: Option<SocketAddrV4> = None;
        /// Networks that consumers may come from.
        allowed: Vec<Ipv4Cidr> = [];
        /// How the consumers' kinds are named.
        r#type: String = "a \"quoted\" \\ name";
        /// The carrier underneath.
        messaging: MessagingConfig;
    }
    check = P2psConfig::check;
}

config::section! {
    /// Reliable multicast.
    pub struct MessagingConfig {
        /// Longest wait before the first NAK.
        nak_initial_ms: u32 = 50, range 1..=10_000;
        /// Wait between NAKs for one gap.
        nak_retry_ms: u32 = 500, range 1..=60_000;
        /// Reorder window.
        window_bytes: usize = 4_194_304, range 65_536..=1_073_741_824;
    }
    check = MessagingConfig::check;
}

config::section! {
    /// HTTP for people and for Prometheus.
    pub struct AdminConfig {
        /// Where to listen.
        listen: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));
        /// Where requests may come from; everywhere if it is not set.
        client: Option<IpAddr> = None;
    }
}

config::section! {
    /// One service.
    pub struct ServiceConfig {
        /// Name by which items are requested.
        name: String, required, length 1..=32;
        /// Number in RSSL messages.
        id: u16, required, range 1..;
        /// How each provider's updates are weighed.
        weights: Vec<f64> = [1.0, 0.5], range 0.0..=1e6;
        /// What is kept.
        cache: CacheConfig;
        /// A provider to connect to.
        #[key = "provider"]
        providers: Vec<ProviderConfig>;
    }
}

config::section! {
    /// The image cache.
    pub struct CacheConfig {
        /// Most items.
        items_max: u32 = 100_000;
    }
}

config::section! {
    /// One provider.
    pub struct ProviderConfig {
        /// Address and port.
        address: SocketAddrV4, required;
        /// What it may be used for.
        role: Role = Role::Primary;
    }
}

config::choice! {
    /// How a thread waits for work.
    pub enum WaitStrategy {
        /// Polls without pause: least latency, one core each.
        BusySpin = "busy-spin",
        /// Gives the core to others between polls.
        Yield = "yield",
        /// Sleeps in the system until there is work.
        Block = "block",
    }
}

config::choice! {
    /// When a provider is used.
    pub enum Role {
        /// Always.
        Primary = "primary",
        /// When the primary is down.
        Standby = "standby",
    }
}

impl RootConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        let twins = (1..self.services.len())
            .filter(|&b| self.services[..b].iter().any(|s| s.id == self.services[b].id));
        let complaints: Vec<Complaint> = twins
            .map(|index| {
                Complaint::new([format!("service.{index}.id")], "each service needs an id of its own")
            })
            .collect();
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }
}

impl P2psConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        if self.tls_port != Some(self.port) {
            return Ok(());
        }
        Err(vec![Complaint::new(["tls_port", "port"], "tls_port and port must differ")])
    }
}

impl MessagingConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        if self.nak_retry_ms >= 2 * self.nak_initial_ms {
            return Ok(());
        }
        let keys = ["nak_retry_ms", "nak_initial_ms"];
        Err(vec![Complaint::new(keys, "nak_retry_ms must be at least twice nak_initial_ms")])
    }
}
