//! The backbone over servers of NATS, where there is no multicast: a subject for each service, and links as numbered
//! packets between two inboxes. `docs/protocol/nats.md` has the formats.
//!
//! | part | what it does |
//! |---|---|
//! | `packet` | bytes of packets, names of subjects (pure) |
//! | `sources` | streams that are heard: who sends them, what is missing (pure) |
//! | `jetstream` | what is missing is fetched from a stream of JetStream, where there is one (pure) |
//! | `link` | one end of a link: order, window, time-outs (pure) |
//! | `choice`, `repeats` | which server is next, and what is said of errors that stay (pure) |
//! | `socket` | the thread of NATS, and the rings to it |
//! | `outlet`, `inlet` | the two sides of the backbone over these |
//!
//! NATS delivers at most once. A packet that is missing shows by its number. It is fetched from JetStream, or the hole
//! in the sequence of the messages leads to new images; a link on which one is missing breaks at both ends. So nothing
//! is lost silently, whatever a server drops, and whichever of a cluster dies.

mod choice;
mod config;
mod inlet;
mod jetstream;
mod link;
mod outlet;
mod packet;
mod repeats;
mod socket;
mod sources;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::counters::Registry;
use ::counters::table::{NatsCarrier, NatsConnection};
use tokio::time::timeout;

pub use self::config::{JetStreamConfig, NatsConfig, NatsExposure};
pub use inlet::NatsInlet;
pub use outlet::NatsOutlet;

/// What the carrier counts: each set is written by one of its two threads.
#[derive(Clone, Default)]
pub struct NatsCounters {
    /// Of streams and links.
    pub carrier: Arc<NatsCarrier>,
    /// Of the connection to the servers.
    pub connection: Arc<NatsConnection>,
}

impl NatsCounters {
    /// Counters that `registry` shows under these labels.
    #[must_use]
    pub fn registered(registry: &Registry, labels: &[(&str, &str)]) -> NatsCounters {
        let counters = NatsCounters::default();
        registry.register(labels, counters.carrier.clone());
        registry.register(labels, counters.connection.clone());
        counters
    }
}

/// Whether a server of NATS answers at an address without a secret, within a time.
///
/// # Errors
/// None does, or it refuses; the error says why.
pub fn look_for(server: &str, within: Duration) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match timeout(within, async_nats::connect(server)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(io::Error::other(socket::in_full(&error))),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
        }
    })
}

/// How often what is silent or stuck is looked for, as a part of the keep-alive interval.
const TICKS_IN_KEEP_ALIVE: u32 = 2;
/// Most packets taken from the ring before others have a turn, and what they led to is sent.
const TURN_PACKETS: usize = 4_096;
