//! The one table of counters: name, unit and meaning of everything that is counted.
//!
//! A counter has one writer, the thread that owns the state it speaks of, and any number of readers. Counting
//! is a plain load and store without a locked instruction; readers see each value whole, though not all
//! values of a set at one instant. The sets stand in [`table`], one file a part; exporters walk them through
//! [`CounterSet`]. What there may be thousands of, such as sessions by name, stands in a [`Roll`]. [`snapshot`] is all of them at one time as bytes.

mod cell;
mod flow;
mod registry;
mod roll;
pub mod snapshot;
pub mod table;

pub use cell::{Counter, Kind};
pub use flow::Flow;
pub use registry::{CounterSet, Descriptor, Registered, Registration, Registry, SETS_MAX};
pub use roll::{NamedColumn, NamedTable, Roll, Rows};
