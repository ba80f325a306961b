//! Observers, histograms, reports, and the two ends of a measurement.
//!
//! ```
//! use tickcast_measure::{Latencies, Runs, Schedule};
//! use units::Nanos;
//!
//! // A thousand messages a second. One is sent 5 ms late, and the wait counts.
//! let mut schedule = Schedule::new(Nanos(0), 1_000.0);
//! let mut latencies = Latencies::default();
//! let arrived = Nanos(5_000_000);
//! while let Some(intended) = schedule.take_due(arrived) {
//!     latencies.record(arrived.since(intended).as_nanos() as u64);
//! }
//! assert_eq!((schedule.sent(), latencies.count()), (6, 6));
//! assert!(latencies.summary().max_ns >= 5_000_000);
//!
//! // A figure is a median over runs, with the range beside it.
//! let mut runs = Runs::default();
//! [3.0, 1.0, 2.0].map(|figure| runs.add(figure));
//! assert_eq!((runs.median(), runs.range()), (2.0, (1.0, 3.0)));
//! ```
//!
//! Latency counts from the moment a message was *meant* to be sent ([`Schedule`]), so a sender that falls
//! behind shows in the figures instead of hiding in them. Values are kept in memory while a run lasts and
//! written afterwards. Every message is observed, none sampled ([`Observer`]). A figure is a median over
//! several runs ([`Runs`]), the longest latency that of all of them ([`Summaries`]). It stands beside the machine
//! it was made on ([`Machine`]), where its CPUs lay
//! ([`Placement`]) and what the machine does to a thread that only spins ([`Jitter`]). Our programs and those of
//! others are driven by the same loops ([`ends`]).
//!
//! Programs of any kind take down what they observe with a [`Recorder`](observation::Recorder); [`analysis`] pairs the files
//! of two points. [`Clocks`] says what the times are worth.

pub mod analysis;
mod bootstrap;
mod clocks;
pub mod ends;
mod jitter;
mod latency;
mod machine;
mod observer;
mod placement;
pub mod run;
mod runs;
mod schedule;
mod several;
mod table;

pub use bootstrap::{COMPARED_MIN, Comparison};
pub use clocks::Clocks;
pub use jitter::Jitter;
pub use latency::{Latencies, Summary};
pub use machine::Machine;
pub use observer::{Observed, Observer, SENT_STAMP_BYTES, STAMP_BYTES, stamp, stamp_sent};
pub use placement::Placement;
pub use runs::Runs;
pub use schedule::Schedule;
pub use several::{PERCENTILES, Summaries};
pub use table::Table;
