//! The one table of counters: name, unit and meaning of everything that is counted.
//!
//! A counter has one writer, the thread that owns the state it speaks of, and any number of readers. Counting
//! is a plain load and store without a locked instruction; readers see each value whole, though not all
//! values of a set at one instant. The sets stand in [`table`], one file a part; exporters walk them through
//! [`CounterSet`]. [`snapshot`] is all of them at one time as bytes.

mod cell;
mod flow;
mod registry;
pub mod snapshot;
pub mod table;

pub use cell::{Counter, Kind};
pub use flow::Flow;
pub use registry::{CounterSet, Descriptor, Registered, Registration, Registry, SETS_MAX};
