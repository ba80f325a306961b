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
//!
//! One thread owns it. It reads no clock and opens no socket: time and messages come in, decisions go to a
//! [`DistributorSink`].

mod ids;
mod peers;
mod providers;
mod sink;
mod stream;
#[cfg(test)]
mod tests;

pub use peers::LinkError;
pub use providers::ProviderError;
pub use sink::{DistributorSink, PeerId, ProviderId};

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use counters::table::Distributor as Counters;
use rdm::ToVec;
use rdm::directory::{DirectoryRefresh, Filter, Service};
use rwf::{DataType, Dictionary, Key, State, StatusMsg};
use slab::Slab;
use units::Nanos;

use self::peers::Peer;
use self::providers::Provider;
use self::stream::Stream;
use crate::backbone::{Kind, StreamMsg};
use crate::cached::{CachedItem, Scratch};
use crate::encoding::Encoding;
use crate::image::FieldRules;
use crate::key::{ItemKey, OwnedKey};

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
    unknown: BTreeMap<Box<[u8]>, Unknown>,
    peers: BTreeMap<PeerId, Peer>,
    providers: BTreeMap<ProviderId, Provider>,
    directory_sequence: u64,
    directory_at: Nanos,
    is_directory_due: bool,
    scratch: Scratch,
    encoding: Encoding,
    counters: Arc<Counters>,
}

/// A service and its stream.
struct PublishedService {
    definition: Service,
    provider: Option<ProviderId>,
    stream: Stream,
    /// Requests for unknown items are answered from then on; never while the service is down.
    settled_at: Nanos,
}

impl PublishedService {
    fn is_settled(&self, now: Nanos) -> bool {
        now >= self.settled_at
    }
}

struct Item {
    key: OwnedKey,
    cached: CachedItem,
    /// Its id in the service's stream, once a peer has wanted it.
    id: Option<u32>,
    /// Peers that get its updates.
    peers: Vec<PeerId>,
    /// Peers that wait for its first whole image.
    waiting: Vec<PeerId>,
}

impl Item {
    fn forget(&mut self, peer: PeerId) {
        self.peers.retain(|p| *p != peer);
        self.waiting.retain(|p| *p != peer);
    }
}

struct Unknown {
    key: OwnedKey,
    peers: Vec<PeerId>,
}

impl Unknown {
    fn new(key: OwnedKey) -> Unknown {
        Unknown { key, peers: Vec::new() }
    }
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
            unknown: BTreeMap::new(),
            peers: BTreeMap::new(),
            providers: BTreeMap::new(),
            directory_sequence: 0,
            directory_at: Nanos::ZERO,
            is_directory_due: true,
            scratch: Scratch::default(),
            encoding: Encoding::default(),
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
        if now >= self.directory_at + heartbeat {
            self.is_directory_due = true;
        }
        for service in self.services.values_mut() {
            let before = Nanos(now.0.saturating_sub(heartbeat.as_nanos() as u64));
            service.stream.heartbeat(now, before, sink);
        }
        self.answer_unknown(now, sink);
        self.publish_directory_if_due(now, sink);
    }

    /// When [`Distributor::on_wakeup`] is due next.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let settled = self.unknown.values().filter_map(|u| self.services.get(&u.key.service));
        let settled_at = settled.map(|s| s.settled_at).min().unwrap_or(Nanos::NEVER);
        settled_at.min(self.directory_at + self.config.heartbeat_interval)
    }

    /// Tells peers that items they wait for do not exist, once their service has settled.
    fn answer_unknown(&mut self, now: Nanos, sink: &mut impl DistributorSink) {
        let services = &self.services;
        let counters = &self.counters;
        self.unknown.retain(|_, unknown| {
            if !services.get(&unknown.key.service).is_some_and(|s| s.is_settled(now)) {
                return true;
            }
            for &peer in &unknown.peers {
                counters.items_not_found.inc();
                peers::tell(peer, unknown.key.as_key(), peers::NOT_FOUND, sink);
            }
            false
        });
    }

    /// Publishes the directory if it has changed since, or is to be repeated.
    fn publish_directory_if_due(&mut self, now: Nanos, sink: &mut impl DistributorSink) {
        if !std::mem::take(&mut self.is_directory_due) {
            return;
        }
        self.directory_at = now;
        self.directory_sequence += 1;
        let services = self.services.values().map(|s| &s.definition);
        let refresh = DirectoryRefresh::publish(0, Filter::ALL, services);
        let body = refresh.expect("ids are keys").to_vec();
        let body = &*body.expect("each service was tried when it was taken");
        sink.publish_directory(&StreamMsg {
            kind: Kind::Directory,
            instance: self.instance,
            sequence: self.directory_sequence,
            item: 0,
            body,
        });
        self.counters.services.set(self.services.len() as u64);
    }

    fn find(&self, key: ItemKey<'_>) -> Option<usize> {
        key.with_bytes(|bytes| self.by_key.get(bytes).copied())
    }

    /// The published services: id, name, whether up, number of the last stream message.
    pub fn services(&self) -> impl Iterator<Item = (u16, &str, bool, u64)> + '_ {
        self.services
            .iter()
            .map(|(id, s)| (*id, &*s.definition.info.name, s.definition.state.up, s.stream.sequence()))
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

/// A status message about an item, with stream id 0.
fn status_bytes(key: ItemKey<'_>, state: State<'_>) -> Vec<u8> {
    let msg = StatusMsg {
        state: Some(state),
        key: Some(Key::item(key.service, key.name)),
        ..StatusMsg::new(key.domain, 0, DataType::NO_DATA)
    };
    rwf::encode_to_vec(|w| msg.encode(w))
        .expect("a name of at most 255 bytes and a short text can be encoded")
}
