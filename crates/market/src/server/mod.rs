//! The core of a point-to-point server: source distributors on one side, clients on the other.
//!
//! Promises, each with the test that proves it (`tests` beside this file and the simulator's):
//!
//! - However many clients watch an item, it is asked for once upstream.
//! - Each watcher sees, in the view that it wants, a refresh, then updates in order without duplicates; after "suspect" it sees a refresh
//!   before it sees "ok".
//! - A stream that was paused, or sees other fields than before, gets a refresh before it goes on.
//! - A post that wants an acknowledgement gets one, if only a refusal for want of an answer.
//! - A gap that the carrier cannot close makes exactly the items concerned suspect, and their images are
//!   fetched again.
//! - Clients see one id of a service, whatever ids the instances give it.
//! - Starting late, restarting, or outliving a source distributor ends with right images by itself.
//!
//! One thread owns it. It reads no clock and opens no socket: time and messages come in, decisions go to a
//! [`ServerSink`].

mod audience;
mod cleanups;
mod clients;
mod conversations;
mod directory;
mod due;
mod ending;
mod errands;
mod fanout;
mod front;
mod gaps;
mod ids;
mod item;
mod life;
mod login;
mod posts;
mod progress;
mod recovery;
mod requests;
mod services;
mod sink;
mod stream;
#[cfg(test)]
mod tests;
mod upstream;
mod users;

pub use clients::{ClientError, ClientInfo, ClientProfile};
pub use sink::{ClientId, ServerNotice, ServerSink, SourceId, Watcher};
pub use upstream::{Topic, UpstreamError};

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use counters::table::PointToPoint as Counters;
use rwf::Dictionary;
use slab::Slab;
use units::Nanos;

use self::audience::FormRoom;
use self::cleanups::Cleanups;
use self::clients::Client;
use self::conversations::Conversations;
use self::errands::Prepared;
use self::ids::ServiceIds;
use self::item::Item;
use self::life::Phase;
use self::services::Service;
use self::stream::Incoming;
use self::upstream::Instance;
use crate::cached::Scratch;
use crate::encoding::Encoding;
use crate::image::FieldRules;
use crate::key::ItemKey;
use crate::ration::Ration;
use crate::users::Gate;
use crate::view::Views;

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The name it gives itself towards source distributors.
    pub name: String,
    /// An item stays subscribed upstream for so long after its last watcher has left.
    pub item_linger: Duration,
    /// The most images that are asked for at one time.
    pub images_outstanding_max: usize,
    /// An image that was asked for and has not come by then is asked for again.
    pub image_timeout: Duration,
    /// The most bytes of updates held back for one item while its image is on its way.
    pub held_bytes_max: usize,
    /// The most bytes of a service's messages that wait behind a gap until it is known which items it
    /// concerns.
    pub gap_held_bytes_max: usize,
    /// A link that broke is opened again after this time.
    pub link_retry: Duration,
    /// An instance that has published nothing for so long is taken for gone, link or no link.
    pub silence_timeout: Duration,
    /// The most item streams one client may have open.
    pub client_streams_max: usize,
    /// The round trip to clients that offer it is measured at this interval; zero for never.
    pub round_trip_interval: Duration,
    /// A post that is not acknowledged by then is refused.
    pub post_timeout: Duration,
    /// How far the streams are taken is reported to source distributors at this interval at most.
    pub progress_interval: Duration,
    /// The most posts of all clients that may wait for their acknowledgement.
    pub posts_outstanding_max: usize,
    /// Names of the services whose fields do not ripple, whatever the dictionary says.
    pub unrippled: BTreeSet<String>,
    /// Of clean-ups that concern many streams or items, so many are done in one turn.
    pub cleanups_per_turn: usize,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            name: "p2ps".to_owned(),
            item_linger: Duration::from_secs(5),
            images_outstanding_max: 500,
            image_timeout: Duration::from_secs(5),
            held_bytes_max: 256 << 10,
            gap_held_bytes_max: 64 << 20,
            link_retry: Duration::from_millis(200),
            silence_timeout: Duration::from_secs(2),
            client_streams_max: 500_000,
            round_trip_interval: Duration::from_secs(10),
            post_timeout: Duration::from_secs(10),
            progress_interval: Duration::from_millis(20),
            posts_outstanding_max: 100_000,
            unrippled: BTreeSet::new(),
            cleanups_per_turn: 2_000,
        }
    }
}

/// The state of a point-to-point server.
pub struct PointToPoint {
    /// A random number, new at each start.
    peer: u64,
    config: ServerConfig,
    dictionary: Arc<Dictionary>,
    rules: FieldRules,
    /// By id.
    services: BTreeMap<u16, Service>,
    service_ids: ServiceIds,
    /// Changes with what [`PointToPoint::services`] tells.
    services_version: u64,
    /// Nothing is due for any service before: so that not all of them are asked at each turn.
    services_due_at: Nanos,
    instances: BTreeMap<u64, Instance>,
    /// The instance behind each transport session, as its directory told.
    sessions: BTreeMap<u64, u64>,
    sources: Vec<Option<Source>>,
    items: Slab<Item>,
    by_key: HashMap<Box<[u8]>, usize>,
    next_serial: u64,
    recovery: recovery::Requests,
    progress: progress::Progress,
    lingering: VecDeque<(Nanos, usize, u64)>,
    clients: BTreeMap<ClientId, Client>,
    gate: Gate,
    views: Views,
    conversations: Conversations,
    /// When each client's next measurement begins, in order.
    round_trips: VecDeque<(Nanos, ClientId)>,
    form_room: FormRoom,
    scratch: Scratch,
    encoding: Encoding,
    /// What may be told of messages that cannot be used.
    ration: Ration,
    /// Dictionaries as they were downloaded before.
    prepared: Prepared,
    cleanups: Cleanups,
    release: gaps::Release,
    /// Clients for which images have begun to be due.
    due_clients: Vec<ClientId>,
    counters: Arc<Counters>,
}

/// One source of one topic.
enum Source {
    Directory { session: u64 },
    Service { session: u64, stream: Incoming },
}

impl PointToPoint {
    /// A server without clients that knows no source distributor yet. `peer` must differ at each start.
    #[must_use]
    pub fn new(
        peer: u64,
        config: ServerConfig,
        dictionary: Arc<Dictionary>,
        counters: Arc<Counters>,
    ) -> Self {
        PointToPoint {
            peer,
            recovery: recovery::Requests::default(),
            progress: progress::Progress::default(),
            config,
            rules: FieldRules::of(&dictionary),
            dictionary,
            services: BTreeMap::new(),
            service_ids: ServiceIds::default(),
            services_version: 0,
            services_due_at: Nanos::NEVER,
            instances: BTreeMap::new(),
            sessions: BTreeMap::new(),
            sources: Vec::new(),
            items: Slab::new(),
            by_key: HashMap::new(),
            next_serial: 0,
            lingering: VecDeque::new(),
            clients: BTreeMap::new(),
            gate: Gate::default(),
            views: Views::default(),
            conversations: Conversations::default(),
            round_trips: VecDeque::new(),
            form_room: FormRoom::default(),
            scratch: Scratch::default(),
            encoding: Encoding::default(),
            ration: Ration::default(),
            prepared: Prepared::default(),
            cleanups: Cleanups::default(),
            release: gaps::Release::default(),
            due_clients: Vec::new(),
            counters,
        }
    }

    /// What is due by now: links to open again, images to ask for again, items to give up.
    pub fn on_wakeup(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        self.grant_cleanups(now);
        self.clean_up(now, sink);
        self.release(now, sink);
        self.check_instances(now, sink);
        if now >= self.services_due_at {
            self.recheck_services(now, sink);
            self.check_gaps(now, sink);
            self.services_due_at = self.next_recheck().min(self.next_gap_check());
        }
        self.check_requests(now, sink);
        self.check_lingering(now, sink);
        self.measure_round_trips(now, sink);
        self.check_posts(now, sink);
    }

    /// When [`PointToPoint::on_wakeup`] is due next.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let instances = self.instances.values().map(|i| i.next_check(&self.config));
        let linger = self.lingering.front().map_or(Nanos::NEVER, |(at, ..)| *at);
        instances
            .chain([linger, self.next_round_trip(), self.conversations.posts.next_deadline()])
            .chain([self.next_request_check(), self.services_due_at, self.next_cleanup()])
            .chain([self.next_release()])
            .min()
            .unwrap_or(Nanos::NEVER)
    }

    /// The services that clients see: id, name, whether up, the instance it comes from.
    pub fn services(&self) -> impl Iterator<Item = (u16, &str, bool, Option<u64>)> + '_ {
        self.services.iter().map(|(id, s)| {
            (*id, &*s.definition.info.name, s.definition.state.up, s.active.map(|a| a.instance))
        })
    }

    /// Differs when [`PointToPoint::services`] tells something else than before.
    #[inline]
    #[must_use]
    pub fn services_version(&self) -> u64 {
        self.services_version
    }

    /// How many items are watched, or linger.
    #[must_use]
    pub fn item_count(&self) -> usize {
        self.items.len()
    }

    fn find(&self, key: ItemKey<'_>) -> Option<usize> {
        key.with_bytes(|bytes| self.by_key.get(bytes).copied())
    }

    /// The item of a key, made if nobody has watched it so far.
    fn find_or_make(&mut self, key: ItemKey<'_>) -> usize {
        if let Some(index) = self.find(key) {
            return index;
        }
        self.next_serial += 1;
        let service = self.services.get(&key.service).map(|service| service.definition.info.name.as_str());
        let ripples = !service.is_some_and(|name| self.config.unrippled.contains(name));
        let swept = self.cleanups.last_sweep();
        let index = self.items.insert(Item::new(key.to_owned(), (self.next_serial, swept), ripples));
        key.with_bytes(|bytes| self.by_key.insert(bytes.into(), index));
        if let Some(service) = self.services.get_mut(&key.service) {
            service.items.insert(index);
        }
        self.counters.items.set(self.items.len() as u64);
        self.count_suspect(index);
        index
    }

    /// Removes an item for which nobody is registered any more.
    fn remove(&mut self, index: usize) -> Item {
        let item = self.items.remove(index);
        item.key.as_key().with_bytes(|bytes| self.by_key.remove(bytes));
        self.recovery.count(item.life.phase(), Phase::Idle);
        if let Some(service) = self.services.get_mut(&item.key.service) {
            service.items.remove(&index);
            if let (Some(id), Some(source)) = (item.id, service.active_source())
                && let Some(Some(Source::Service { stream, .. })) = self.sources.get_mut(source.0 as usize)
            {
                stream.unbind(id);
            }
        }
        self.counters.items.set(self.items.len() as u64);
        if item.is_counted_suspect {
            self.counters.items_suspect.set(self.counters.items_suspect.get().saturating_sub(1));
        }
        item
    }
}
