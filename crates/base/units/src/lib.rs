//! Identifiers, nanoseconds, serial number arithmetic, seeded randomness, a map that remembers what was found last,
//! deadlines, how far tables grow, below every other crate.
//!
//! Nothing here reads a clock or an environment: time and seeds come in as arguments, so that every crate
//! above can be run under virtual time and repeated from its seed.

mod deadlines;
mod growth;
mod nanos;
mod recent;
mod rng;
mod serial;

pub use deadlines::Deadlines;
pub use growth::{places_to_reserve, reserve_for_push};
pub use nanos::Nanos;
pub use recent::RecentMap;
pub use rng::Rng;
pub use serial::Sqn;
