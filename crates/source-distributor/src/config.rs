use std::collections::BTreeMap;
use std::time::Duration;

use daemon::ThreadConfig;
use market::distributor::DistributorConfig;
use rssl_server::RsslConfig;

config::section! {
    /// A service and its id in the whole system.
    pub struct ServiceConfig {
        /// Name, as providers and consumers have it.
        name: String, required, length 1..=255;
        /// Number by which message keys name it.
        id: u16, required;
    }
}

config::section! {
    /// The source distributor: providers connect here, the backbone starts here.
    pub struct SourceDistributorConfig {
        /// Port on which non-interactive providers connect.
        provider_port: u16 = 14003;
        /// How provider connections are treated.
        provider: RsslConfig;
        /// Ids of services. A service that is not listed keeps the id its provider gives it, if that is free.
        services: Vec<ServiceConfig>;
        /// The directory, and the end of each silent stream, are said again after this time.
        heartbeat_interval_ms: u64 = 250, range 10..=10_000;
        /// For so long after a service came up, requests for items that are not published yet wait; later
        /// they are refused at once.
        settle_time_ms: u64 = 5_000, range 0..=600_000;
        /// How many messages of a stream are remembered, to tell which items a lost range concerned; 4 bytes
        /// each.
        gap_memory_count: u32 = 1_048_576, range 16..=268_435_456;
        /// Most services, those whose provider is gone included.
        services_max: u32 = 1_000, range 1..=65_000;
        /// Most items in the cache.
        items_max: u64 = 5_000_000, range 1..=60_000_000;
        /// The thread.
        thread: ThreadConfig;
    }
}

impl SourceDistributorConfig {
    /// What the core goes by.
    #[must_use]
    pub fn core(&self) -> DistributorConfig {
        let service_ids: BTreeMap<String, u16> =
            self.services.iter().map(|s| (s.name.clone(), s.id)).collect();
        DistributorConfig {
            service_ids,
            heartbeat_interval: Duration::from_millis(self.heartbeat_interval_ms),
            settle_time: Duration::from_millis(self.settle_time_ms),
            gap_memory: self.gap_memory_count as usize,
            services_max: self.services_max as usize,
            items_max: self.items_max as usize,
            ..DistributorConfig::default()
        }
    }
}
