//! Ids, configuration, and what is due when: what every part may use.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::service_names::ServiceNames;

/// When providers are held back.
#[derive(Clone, Copy, Debug)]
pub struct FlowConfig {
    /// The most bytes of stream messages that a server may lack before providers are held back; 0 if they never
    /// are.
    pub window_bytes: u64,
    /// In bytes a second: a server that takes less is not waited for.
    pub floor: u64,
    /// For so long a server's rate is measured, and so long it is waited for at least.
    pub patience: Duration,
}

impl Default for FlowConfig {
    fn default() -> Self {
        FlowConfig { window_bytes: 8 << 20, floor: 1_000_000, patience: Duration::from_secs(1) }
    }
}

/// A client's stream: the link it is behind, and its number there.
pub(super) type Conversation = (PeerId, u64);

/// How a distributor behaves.
#[derive(Clone, Debug)]
pub struct DistributorConfig {
    /// Ids of services by their names. A service that is not named here keeps the id that its provider gave
    /// it, if no other service has it.
    pub service_ids: BTreeMap<String, u16>,
    /// The directory is repeated, and the end of each silent stream said again, after this time.
    pub heartbeat_interval: Duration,
    /// For so long after a service came up, a request for an unknown item waits for the provider to publish
    /// it; later ones are answered with "not found" at once.
    pub settle_time: Duration,
    /// A provider of which nothing at all came while others have published items of its for so long loses these to them.
    pub provider_silence: Duration,
    /// How many sequence numbers of a stream gap queries can reach back; 4 bytes each.
    pub gap_memory: usize,
    /// About how many bytes a part of an image may have.
    pub image_part_bytes: usize,
    /// The most services, those whose provider is gone included; more are refused and counted.
    pub services_max: usize,
    /// The most items kept; a provider that publishes more is told so by its items' absence, and it is
    /// counted.
    pub items_max: usize,
    /// Which of several providers of a service is asked for an item.
    pub balance: Balance,
    /// An item that was asked for and that no peer wants any more is closed after this time.
    pub item_linger: Duration,
    /// Longest wait for the answer to a request of an item, and for each further part of it.
    pub request_timeout: Duration,
    /// The most requests that wait for an answer, for each service of each dialled provider.
    pub requests_outstanding_max: usize,
    /// An item that its provider has closed for now is asked for again after this time.
    pub item_retry: Duration,
    /// Longest wait until a dialled provider has answered login and directory request.
    pub login_timeout: Duration,
    /// What becomes of posts, by the name of the service; those not named have the default.
    pub posts: BTreeMap<String, PostRoute>,
    /// Names of the services whose fields do not ripple, whatever the dictionary says.
    pub unrippled: BTreeSet<String>,
    /// The services whose images stay at the providers, where these are asked for items one by one, and posts do not
    /// change images here.
    pub uncached: ServiceNames,
    /// The most posts that wait for the acknowledgement of a provider; more are refused.
    pub posts_outstanding_max: usize,
    /// A post that was not acknowledged in this time is refused.
    pub post_timeout: Duration,
    /// The most private streams; more are refused.
    pub private_streams_max: usize,
    /// Of clean-ups that concern many items, so many are done in one turn.
    pub cleanups_per_turn: usize,
    /// When questions of links about so many numbers of streams are answered in a turn, the others wait.
    pub gap_numbers_per_turn: u64,
    /// The most bytes of requests for images that are kept of a link until it has room, some for each included; a
    /// link that asks for more is cut. 64 MiB are about 600,000 requests.
    pub link_requests_bytes_max: usize,
    /// When providers are held back for point-to-point servers.
    pub flow: FlowConfig,
    /// So many bytes are added to each update on its way out: its hop stamps.
    pub stamp_bytes: usize,
}

/// Which of several providers of a service is asked for an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// The one that says it is least busy; among equals the one with the fewest items of this instance.
    #[default]
    Load,
    /// Each in its turn.
    RoundRobin,
}

/// What becomes of posts to a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostRoute {
    /// They go to the provider; where there is none that takes posts they are refused.
    #[default]
    Provider,
    /// They change the cached item, and go out as updates of it.
    Cache,
    /// They are refused.
    Refuse,
}

impl Default for DistributorConfig {
    fn default() -> Self {
        DistributorConfig {
            service_ids: BTreeMap::new(),
            heartbeat_interval: Duration::from_millis(250),
            settle_time: Duration::from_secs(5),
            provider_silence: Duration::from_millis(800),
            gap_memory: 1 << 20,
            image_part_bytes: 60_000,
            services_max: 1_000,
            items_max: 5_000_000,
            balance: Balance::default(),
            item_linger: Duration::from_secs(5),
            request_timeout: Duration::from_secs(15),
            requests_outstanding_max: 1_000,
            item_retry: Duration::from_secs(5),
            login_timeout: Duration::from_secs(15),
            posts: BTreeMap::new(),
            unrippled: BTreeSet::new(),
            uncached: ServiceNames::default(),
            posts_outstanding_max: 100_000,
            post_timeout: Duration::from_secs(15),
            private_streams_max: 100_000,
            cleanups_per_turn: 2_000,
            gap_numbers_per_turn: 1 << 20,
            link_requests_bytes_max: 64 << 20,
            flow: FlowConfig::default(),
            stamp_bytes: 0,
        }
    }
}

/// What is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// Login and directory of a dialled provider have to be answered.
    Login(ProviderId),
    /// The image of an item has to be there.
    Request(usize),
    /// An item is asked for again.
    Retry(usize),
    /// An item that nobody wants is closed.
    Linger(usize),
    /// A post has to be acknowledged.
    Post(u32),
    /// A private stream has to be answered.
    Private(usize),
}

/// A provider connection, as the front end numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProviderId(pub u32);

/// A link from a point-to-point server, as the carrier numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);
