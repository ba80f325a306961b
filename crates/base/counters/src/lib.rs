//! The one table of counters: name, unit and meaning of everything that is counted.
//!
//! ```
//! use std::sync::Arc;
//! use tickcast_counters::{CounterSet, Registry, table};
//!
//! // Whoever exports counters has the registry; the part that counts adds its set under labels.
//! let registry = Registry::default();
//! let feed = Arc::new(table::Feed::default());
//! registry.register(&[("service", "BINANCE")], feed.clone());
//!
//! // The one thread that owns the set counts.
//! feed.quotes.inc();
//! feed.position.set(1_500);
//!
//! // Any thread reads all sets, with the names and meanings of their counters.
//! for registered in registry.snapshot() {
//!     let mut values = Vec::new();
//!     registered.set.values(&mut values);
//!     let quotes = &registered.set.descriptors()[0];
//!     assert_eq!((quotes.name, quotes.unit, values[0]), ("feed_quotes_total", "frames", 1));
//! }
//! ```
//!
//! | module or type | what it is |
//! |---|---|
//! | [`table`] | every set that Tickcast has, a file for each part; start here to add a counter |
//! | [`counters!`] | declares a set together with its part of the table |
//! | [`Counter`], [`CounterSet`] | one counter; a set that exporters walk |
//! | [`Registry`] | all sets of a process |
//! | [`Roll`] | what there may be thousands of, such as sessions by name |
//! | [`snapshot`] | all counters at one time, as bytes for another process |
//!
//! A counter has one writer, the thread that owns the state it speaks of, and any number of readers. Counting
//! is a plain load and store without a locked instruction. Readers see each value whole, though not all
//! values of a set at one instant.

mod cell;
mod flow;
mod registry;
mod roll;
pub mod snapshot;
pub mod table;

pub use cell::{Counter, Kind};
pub use flow::Flow;
pub use registry::{CounterSet, Descriptor, Histogram, Registered, Registration, Registry, SETS_MAX};
pub use roll::{NamedColumn, NamedTable, Roll, Rows};
