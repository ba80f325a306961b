//! Points in time, sequence numbers, seeded randomness and timer queues, for every other crate.
//!
//! ```
//! use std::time::Duration;
//! use tickcast_units::{Deadlines, Nanos, Rng, Sqn};
//!
//! // The caller says what time it is. A deadline is set, and taken when it is due.
//! let now = Nanos::ZERO;
//! let mut deadlines = Deadlines::default();
//! deadlines.set(7, now + Duration::from_millis(50));
//! assert_eq!(deadlines.pop_due(now), None);
//! assert_eq!(deadlines.pop_due(deadlines.next()), Some(7));
//!
//! // Sequence numbers are 32 bits wide and go on at 0.
//! let last = Sqn(u32::MAX);
//! assert_eq!(last.next(), Sqn(0));
//! assert!(last.precedes(last.next()));
//! assert_eq!(last.distance_to(Sqn(2)), 3);
//!
//! // The same seed gives the same numbers.
//! assert_eq!(Rng::new(42).next_u64(), Rng::new(42).next_u64());
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`Nanos`] | a point in time, in nanoseconds; the difference of two is a [`Duration`](std::time::Duration) |
//! | [`Deadlines`] | the times at which things with small numbers are due, the earliest at hand |
//! | [`Sqn`] | a sequence number that wraps, with the order of serial numbers (RFC 1982) |
//! | [`Rng`] | random numbers that follow from a seed; not for keys |
//! | [`Hashing`] | hashes that follow from a seed |
//! | [`RecentMap`] | a map that remembers what it found last |
//! | [`planted`] | rules that a test of a simulator leaves out; never in a program |
//! | [`reserve_for_push`] | how a large table grows without copying itself |
//!
//! Nothing here reads a clock or an environment. Times and seeds are arguments, so that every crate above can be
//! run under virtual time and repeated from its seed.

mod deadlines;
mod growth;
mod hashing;
mod nanos;
mod planted;
mod recent;
mod rng;
mod serial;

pub use deadlines::Deadlines;
pub use growth::{places_to_reserve, reserve_for_push};
pub use hashing::Hashing;
pub use nanos::Nanos;
#[cfg(feature = "planted-bugs")]
pub use planted::plant;
pub use planted::{Bug, CAN_BE_PLANTED, planted};
pub use recent::RecentMap;
pub use rng::Rng;
pub use serial::Sqn;
