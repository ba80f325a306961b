//! Observers, histograms, reports, and the two ends of a measurement.
//!
//! Latency counts from the moment a message was *meant* to be sent ([`Schedule`]), so a sender that falls
//! behind shows in the figures instead of hiding in them. Values are kept in memory while a run lasts and
//! written afterwards. Every message is observed, none sampled ([`Observer`]). A figure is a median over
//! several runs ([`Runs`]) and stands beside the machine it was made on ([`Machine`]), where its CPUs lay
//! ([`Placement`]) and what the machine does to a thread that only spins ([`Jitter`]). Our programs and those of
//! others are driven by the same loops ([`ends`]).

pub mod ends;
mod jitter;
mod latency;
mod machine;
mod observer;
mod placement;
mod runs;
mod schedule;
mod table;

pub use jitter::Jitter;
pub use latency::{Latencies, Summary};
pub use machine::Machine;
pub use observer::{Observed, Observer, STAMP_BYTES, stamp};
pub use placement::Placement;
pub use runs::Runs;
pub use schedule::Schedule;
pub use table::Table;
