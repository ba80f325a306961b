//! Observers, histograms and reports.
//!
//! Latency counts from the moment a message was *meant* to be sent ([`Schedule`]), so a sender that falls
//! behind shows in the figures instead of hiding in them. Values are kept in memory while a run lasts and
//! written afterwards. A figure is a median over several runs ([`Runs`]) and stands beside the machine it was
//! made on ([`Machine`]).

mod latency;
mod machine;
mod runs;
mod schedule;
mod table;

pub use latency::{Latencies, Summary};
pub use machine::Machine;
pub use runs::Runs;
pub use schedule::Schedule;
pub use table::Table;
