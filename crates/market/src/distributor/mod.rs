//! The core of a source distributor: providers on one side, point-to-point servers on the other.
//!
//! Promises, each with the test that proves it (`tests` beside this file and the simulator's):
//!
//! - An update goes out once, in the bytes the provider made, numbered without holes, and only if somebody
//!   wants the item.
//! - An image sent to a peer says after which number it was taken, and the item's id is known to the peer
//!   before any later update.
//! - A provider that goes away leaves its items suspect, not silent; when it comes back and refreshes them
//!   they are good again.
//! - A message that cannot be read makes its item suspect until the next image, and costs no other item.
//! - Of several providers that publish a service each item comes from one; when that is lost, from another one
//!   that has it, and the service stays up.
//! - An item of a service that is asked for is asked for once, however many peers want it, at one of the
//!   providers of the service, and at another one when that is lost. When nobody wants it any more it is
//!   closed after a while, and nothing of it stays.
//! - Providers are held back before a point-to-point server loses messages, as long as it takes them faster than
//!   the floor; one that does not is left behind and named, and the others go on.
//! - A post that wants an acknowledgement has one answer: the provider's, or a refusal.
//!
//! One thread owns it. It reads no clock and opens no socket: time and messages come in, decisions go to a
//! [`DistributorSink`].

mod cleanups;
mod dialled;
mod dictionaries;
mod ending;
mod flow;
mod ids;
mod items;
mod many;
mod messages;
mod peers;
mod private;
mod providers;
mod requests;
mod services;
mod sink;
mod spoilt;
mod standby;
mod stream;
#[cfg(test)]
mod tests;
mod timers;
mod turns;
mod unknown;
mod users;
mod waiting;
mod withdrawal;

pub use dialled::{DialSpec, DialStage, DialledStatus};
pub use dictionaries::DictionaryDifference;
pub use flow::{FlowConfig, PeerNotice};
pub use peers::LinkError;
pub use providers::ProviderError;
pub use sink::{DistributorSink, PeerId, ProviderId, ProviderNotice, RefusedService};
pub use spoilt::SpoiltItem;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use counters::table::Distributor as Counters;
use rdm::ToVec;
use rdm::directory::{DirectoryRefresh, Filter};
use rwf::{DataState, DataType, Dictionary, State, StatusMsg, StreamState};
use slab::Slab;
use units::Nanos;

use self::cleanups::Cleanups;
use self::flow::Flow;
use self::items::Item;
use self::messages::Posts;
use self::peers::Peer;
use self::private::PrivateStream;
use self::providers::Provider;
use self::services::PublishedService;
use self::spoilt::Spoilt;
use self::timers::Timers;
use self::unknown::UnknownItems;
use self::waiting::Waits;
use crate::backbone::{Kind, StreamMsg};
use crate::cached::{CachedItem, Scratch};
use crate::encoding::Encoding;
use crate::image::FieldRules;
use crate::key::{ItemKey, OwnedKey};
use crate::ration::Ration;
use crate::users::Gate;

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
            posts_outstanding_max: 100_000,
            post_timeout: Duration::from_secs(15),
            private_streams_max: 100_000,
            cleanups_per_turn: 2_000,
            gap_numbers_per_turn: 1 << 20,
            link_requests_bytes_max: 64 << 20,
            flow: FlowConfig::default(),
        }
    }
}

/// The state of one run of a source distributor.
pub struct Distributor {
    instance: u64,
    config: DistributorConfig,
    dictionary: Arc<Dictionary>,
    rules: FieldRules,
    part_bytes: usize,
    services: BTreeMap<u16, PublishedService>,
    items: Slab<Item>,
    by_key: HashMap<Box<[u8]>, usize>,
    /// Items that peers want and no provider has published yet.
    unknown: UnknownItems,
    peers: BTreeMap<PeerId, Peer>,
    /// Links that wait for their turn to be served.
    row: VecDeque<PeerId>,
    flow: Flow,
    providers: BTreeMap<ProviderId, Provider>,
    posts: Posts,
    privates: Slab<PrivateStream>,
    timers: Timers<Timer>,
    /// Streams open or asked for at dialled providers.
    streams_count: usize,
    /// Items that wait for their turn.
    queued_count: usize,
    /// Tickets given out to items that wait for their turn.
    tickets: u64,
    gate: Gate,
    spoilt: Spoilt,
    /// What may be told of services that several providers publish.
    sharing_ration: Ration,
    directory_sequence: u64,
    directory_at: Nanos,
    /// So often it was published at that time.
    directories_at_once: u32,
    /// It has changed since it was published last.
    is_directory_due: bool,
    /// What was published last.
    directory_body: Vec<u8>,
    scratch: Scratch,
    encoding: Encoding,
    cleanups: Cleanups,
    waits: Waits,
    counters: Arc<Counters>,
}

/// More directories are not published at one time: each lists all services.
const DIRECTORIES_AT_ONCE: u32 = 4;

/// What is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
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

impl Distributor {
    /// A distributor without providers and peers. `instance` must differ at each start.
    #[must_use]
    pub fn new(
        instance: u64,
        config: DistributorConfig,
        dictionary: Arc<Dictionary>,
        counters: Arc<Counters>,
    ) -> Distributor {
        Distributor {
            instance,
            rules: FieldRules::of(&dictionary),
            dictionary,
            part_bytes: config.image_part_bytes,
            config,
            services: BTreeMap::new(),
            items: Slab::new(),
            by_key: HashMap::new(),
            unknown: UnknownItems::default(),
            peers: BTreeMap::new(),
            row: VecDeque::new(),
            flow: Flow::default(),
            providers: BTreeMap::new(),
            posts: Posts::default(),
            privates: Slab::new(),
            timers: Timers::default(),
            streams_count: 0,
            queued_count: 0,
            tickets: 0,
            directory_sequence: 0,
            directory_at: Nanos::ZERO,
            directories_at_once: 0,
            is_directory_due: true,
            directory_body: Vec::new(),
            scratch: Scratch::default(),
            gate: Gate::default(),
            spoilt: Spoilt::default(),
            sharing_ration: Ration::default(),
            encoding: Encoding::default(),
            cleanups: Cleanups::default(),
            waits: Waits::default(),
            counters,
        }
    }

    /// The number of this run.
    #[must_use]
    pub fn instance(&self) -> u64 {
        self.instance
    }

    /// What is due by now: heartbeats, and the answers to requests that waited for a provider.
    pub fn on_wakeup(&mut self, now: Nanos, sink: &mut impl DistributorSink) {
        let heartbeat = self.config.heartbeat_interval;
        for service in self.services.values_mut() {
            let before = Nanos(now.0.saturating_sub(heartbeat.as_nanos() as u64));
            service.stream.heartbeat(now, before, sink);
        }
        self.grant_cleanups(now);
        self.answer_unknown_if_due(now);
        self.clean_up(now, sink);
        self.end_waits(now, sink);
        for _ in 0..self.config.cleanups_per_turn {
            let Some(timer) = self.timers.pop(now) else { break };
            self.on_timer(now, timer, sink);
        }
        self.publish_directory_if_due(now, sink);
    }

    fn on_timer(&mut self, now: Nanos, timer: Timer, sink: &mut impl DistributorSink) {
        if let Timer::Request(index) | Timer::Retry(index) | Timer::Linger(index) = timer
            && self.cleanups.has_sweeps()
        {
            let before = self.items.get(index).map(|item| item.upstream);
            self.settle(now, index, sink);
            if self.items.get(index).map(|item| item.upstream) != before {
                return;
            }
        }
        match timer {
            Timer::Login(provider) => self.login_overdue(now, provider, sink),
            Timer::Request(index) => self.unanswered(now, index, sink),
            Timer::Retry(index) => self.rested(now, index, sink),
            Timer::Linger(index) => self.lingered(now, index, sink),
            Timer::Post(id) => self.post_overdue(id, sink),
            Timer::Private(place) => self.private_overdue(place, sink),
        }
    }

    /// When [`Distributor::on_wakeup`] is due next.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let repeat_at = self.directory_at + self.config.heartbeat_interval;
        let repeat_at = match self.is_directory_due {
            true if self.directories_at_once >= DIRECTORIES_AT_ONCE => {
                self.directory_at + Duration::from_nanos(1)
            }
            true => self.directory_at,
            false => repeat_at,
        };
        self.unknown
            .due_at
            .unwrap_or(Nanos::NEVER)
            .min(repeat_at)
            .min(self.timers.next())
            .min(self.next_cleanup())
            .min(self.next_flow_check())
    }

    /// Publishes the directory if it has changed since, or is to be repeated.
    /// However often it changes in one moment, so in one turn, it is published a few times then, and once more later.
    fn publish_directory_if_due(&mut self, now: Nanos, sink: &mut impl DistributorSink) {
        if now != self.directory_at {
            self.directories_at_once = 0;
        } else if self.directories_at_once >= DIRECTORIES_AT_ONCE {
            return;
        }
        if std::mem::take(&mut self.is_directory_due) {
            let services = self.services.values().map(|s| &s.definition);
            let refresh = DirectoryRefresh::publish(0, Filter::ALL, services).expect("ids are keys");
            self.directory_body = refresh.to_vec().expect("each service was tried when it was taken");
        } else if now < self.directory_at + self.config.heartbeat_interval {
            return;
        }
        self.directory_at = now;
        self.directories_at_once += 1;
        self.directory_sequence += 1;
        sink.publish_directory(&StreamMsg {
            kind: Kind::Directory,
            instance: self.instance,
            sequence: self.directory_sequence,
            item: 0,
            body: &self.directory_body,
        });
        self.counters.services.set(self.services.len() as u64);
    }

    fn find(&self, key: ItemKey<'_>) -> Option<usize> {
        key.with_bytes(|bytes| self.by_key.get(bytes).copied())
    }

    /// The published services: id, name, whether up, number of the last stream message.
    pub fn services(&self) -> impl Iterator<Item = (u16, &str, bool, u64)> + '_ {
        self.services.iter().map(|(id, s)| {
            let is_up = s.definition.state.up && !s.is_withdrawn();
            (*id, &*s.definition.info.name, is_up, s.stream.sequence())
        })
    }

    /// How many items are cached.
    #[must_use]
    pub fn item_count(&self) -> usize {
        self.items.len()
    }

    /// Every item with its cached state, for status pages and tests.
    pub fn items(&self) -> impl Iterator<Item = (&OwnedKey, &CachedItem)> + '_ {
        self.items.iter().map(|(_, item)| (&item.key, &item.cached))
    }
}

/// The stream is open, its data is not to be trusted.
const SUSPECT: State<'static> = State::new(StreamState::Open, DataState::Suspect);

/// A status message about an item, with stream id 0.
fn status_bytes(key: ItemKey<'_>, state: State<'_>) -> Vec<u8> {
    status_of(key, Some(state))
}

fn status_without_state(key: ItemKey<'_>) -> Vec<u8> {
    status_of(key, None)
}

fn status_of(key: ItemKey<'_>, state: Option<State<'_>>) -> Vec<u8> {
    let msg =
        StatusMsg { state, key: Some(key.to_key()), ..StatusMsg::new(key.domain, 0, DataType::NO_DATA) };
    rwf::encode_to_vec(|w| msg.encode(w)).expect("a key of limited length and a short text can be encoded")
}
