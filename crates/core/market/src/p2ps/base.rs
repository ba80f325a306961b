//! Ids and configuration: what every part may use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::composed::ComposedService;
use crate::service_names::ServiceNames;

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
    /// The services whose images stay at the source distributor, but for the time that they are needed here.
    pub uncached: ServiceNames,
    /// The services that are taken from two instances at a time, by the provider's numbers.
    pub hot: ServiceNames,
    /// So long a message of such a service waits that has left out numbers which the other instance may have.
    pub hot_wait: Duration,
    /// Of clean-ups that concern many streams or items, so many are done in one turn.
    pub cleanups_per_turn: usize,
    /// Intervals in milliseconds of conflated data that clients may ask for, of services that have every update.
    pub conflated_intervals_ms: Vec<u16>,
    /// The least time in milliseconds between two updates of a stream, of the services that have one, by name.
    pub service_intervals_ms: BTreeMap<String, u16>,
    /// Classes of users.
    pub classes: ClientClasses,
    /// Images stay at the instances that items come from, as those of a shard's at its relay; so many are kept here
    /// besides while no stream needs them. Without it all are kept here.
    pub kept_images_max: Option<usize>,
    /// Services that are made of others. Their names differ from each other and from those of their members.
    pub composed: Vec<ComposedService>,
}

/// The highest priority of a class.
pub const PRIORITY_MAX: u8 = 9;
/// The priority of clients of no class.
pub const PRIORITY_DEFAULT: u8 = 5;

/// What the clients of some users may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientClass {
    /// What logs and status pages call it.
    pub name: String,
    /// Names of users; one that ends with `*` stands for all that begin so.
    pub users: Vec<String>,
    /// The least time in milliseconds between two updates of a stream; 0 for every update.
    pub interval_ms: u16,
    /// What one of its clients is sent at most, in bytes a second; 0 for what it takes.
    pub bytes_per_second: u64,
    /// How much its clients get of what a turn allows, and may have waiting, compared with others: 1 to
    /// [`PRIORITY_MAX`].
    pub priority: u8,
    /// The most item streams that one of its clients may have open.
    pub streams_max: usize,
    /// The most of its clients that may be logged in at a time.
    pub connections_max: usize,
}

/// Classes of users, in their order. A user is of the first that names it, or of none. Copies count their clients
/// together: several servers of one process share the limits.
#[derive(Clone, Debug, Default)]
pub struct ClientClasses {
    all: Vec<ClientClass>,
    /// The first class that has a name as it is.
    by_name: HashMap<String, usize>,
    /// What names begin with, and the class, in the order of the classes.
    by_prefix: Vec<(String, usize)>,
    /// How many clients of each are logged in, at all servers that have these classes.
    logged_in: Arc<[AtomicUsize]>,
}

impl ClientClasses {
    /// These classes in this order.
    #[must_use]
    pub fn new(all: Vec<ClientClass>) -> ClientClasses {
        let (mut by_name, mut by_prefix) = (HashMap::new(), Vec::new());
        for (at, class) in all.iter().enumerate() {
            for name in &class.users {
                match name.strip_suffix('*') {
                    Some(prefix) => by_prefix.push((prefix.to_owned(), at)),
                    None => _ = by_name.entry(name.clone()).or_insert(at),
                }
            }
        }
        let logged_in = all.iter().map(|_| AtomicUsize::new(0)).collect();
        ClientClasses { all, by_name, by_prefix, logged_in }
    }

    /// One more client of a class logs in, if there are fewer than there may be; tells whether it does.
    pub(super) fn enter(&self, at: usize) -> bool {
        let most = self.all[at].connections_max;
        let more = |count: usize| (count < most).then_some(count + 1);
        self.logged_in[at].fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// One of them is gone.
    pub(super) fn leave(&self, at: usize) {
        self.logged_in[at].fetch_sub(1, Ordering::Relaxed);
    }

    /// The class at a place.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&ClientClass> {
        self.all.get(at)
    }

    /// The place of a user's class.
    #[must_use]
    pub fn of(&self, user: &str) -> Option<usize> {
        let by_name = self.by_name.get(user).copied();
        let prefix = self.by_prefix.iter().find(|(prefix, _)| user.starts_with(prefix.as_str()));
        by_name.into_iter().chain(prefix.map(|(_, at)| *at)).min()
    }
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
            silence_timeout: Duration::from_millis(800),
            client_streams_max: 500_000,
            round_trip_interval: Duration::from_secs(10),
            post_timeout: Duration::from_secs(10),
            progress_interval: Duration::from_millis(20),
            posts_outstanding_max: 100_000,
            unrippled: BTreeSet::new(),
            uncached: ServiceNames::default(),
            hot: ServiceNames::default(),
            hot_wait: Duration::from_millis(100),
            cleanups_per_turn: 2_000,
            conflated_intervals_ms: Vec::new(),
            service_intervals_ms: BTreeMap::new(),
            classes: ClientClasses::default(),
            kept_images_max: None,
            composed: Vec::new(),
        }
    }
}

/// What clients get of items that messages were lost of.
pub(super) const LOST: &str = "messages were lost on the backbone";

/// A client connection, as the front end numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u32);

/// One source of one topic, as the carrier numbers them: a topic published by one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// One open item stream of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Watcher {
    /// The connection.
    pub client: ClientId,
    /// The stream id that the client chose.
    pub stream_id: i32,
}

/// What a source is a source of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic<'a> {
    /// `tickcast.directory`.
    Directory,
    /// `tickcast.service.NAME`.
    Service(&'a str),
}
