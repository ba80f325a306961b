//! Deterministic simulator: the pure crates under virtual time, loss, reordering and crashes.
//!
//! ```
//! use std::time::Duration;
//! use tickcast_sim::{Faults, World};
//!
//! // Five items and two consumers, a hundredth of the backbone's messages lost; a run is its seed.
//! let mut world = World::new(42, 5, 2, Faults { loss: 0.01, ..Faults::NONE });
//! world.run(Duration::from_secs(10));
//! world.converges();
//! assert!(world.server_counters().updates_out.get() > 0);
//! ```
//!
//! A [`World`] holds providers, source distributors, point-to-point servers and consumers, joined by channels
//! that delay, lose and break. The cores of distributor and server are the ones the daemons drive; providers
//! and consumers are models. A run is its seed and its [`Faults`]: the same two give the same run on every
//! machine.
//!
//! What is checked while it runs (a violation panics with the seed):
//!
//! - a consumer sees a refresh first, then updates whose numbers only grow; none twice, none late;
//! - no update comes behind a hole while the item is good: "suspect" is told first;
//! - after "suspect" it sees a refresh before it trusts the item again;
//! - a number that is skipped is made good by a refresh.
//!
//! - a dialled provider is never asked for an item that it has open.
//!
//! And when the faults have stopped, after a while: every consumer that is connected has the provider's image
//! of every item, with good state ([`World::converges`]); and when all have left, nothing is open at dialled
//! providers ([`World::everybody_leaves`]).

//!
//! [`World::sharded`] has a server of several shards behind a relay, with memory between them; which thread runs when is
//! chance.
//!
//! [`Pair`] has two source distributors that one provider is connected to, and a server that takes its services from both.
//!
//! [`Overload`] is a smaller world of several servers, some of which are slower than what is published.

mod channel;
mod consumer;
mod out;
mod overload;
mod pair;
mod provider;
mod queue;
mod server;
mod world;

/// Parts for simulators of more than these cores.
pub mod parts {
    pub use crate::consumer::numbers;
    pub use crate::out::{DistributorOut, FromDistributor, FromServer, STAMP_BYTES, ServerOut};
    pub use crate::queue::Queue;
    pub use crate::server::Server;
}

pub use overload::{Overload, SlowServer};
pub use pair::{Pair, PairFaults, Side};
pub use world::{Faults, World};
