//! Hot failover: several sources send the same messages, each with the number that the application gave it;
//! the first copy of each is delivered, in the order of the numbers.
//!
//! The number is 64 bits long and travels in a chain header 0x07, element 2
//! ([`failover_element`](crate::wire::lbmc::failover_element)). Each source sends its numbers ascending and
//! may leave some out. A number that one source has passed over is waited for as long as another may still
//! send it. Then it was either **not sent** - a source passed over it whose stream lacked nothing there -
//! or it is **lost**.
//!
//! # What is promised, and which test proves it
//!
//! All in `tests/failover.rs`:
//!
//! - Each number is delivered at most once, in ascending order; a number that a source has sent and that did
//!   not reach the receiver from any is reported, unless a source whose stream was whole passed over it
//!   (`whatever_sources_lose_skip_or_die_the_first_copies_come_in_order_and_loss_is_reported`).
//! - When a source dies the other carries on without a gap
//!   (`when_a_source_dies_the_other_carries_on_without_a_gap`).
//! - Waiting ends after the interval, and memory stays within its bounds
//!   (`a_number_is_waited_for_no_longer_than_the_interval`,
//!   `when_too_much_is_held_the_oldest_gap_is_given_up`).

mod hold;
mod merger;

pub use merger::{FailoverError, FailoverSink, HotFailover, SourceId};
