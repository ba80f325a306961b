//! What of a machine's settings costs latency: findings with their measured cost, and changes that can be undone.
//!
//! ```
//! use tickcast_tune::{Facts, Level, Tree, apply, judge, plan, undo};
//!
//! // A machine: a tree of files here, `Tree::at("/")` for this one.
//! let folder = testkit::Folder::new();
//! for (path, text) in [
//!     ("proc/sys/kernel/random/boot_id", "a-start"),
//!     ("proc/sys/kernel/nmi_watchdog", "1"),
//! ] {
//!     let path = folder.join(path);
//!     std::fs::create_dir_all(path.parent().expect("it has one"))?;
//!     std::fs::write(path, text)?;
//! }
//! let tree = Tree::at(&folder);
//!
//! // Facts are read, and judged: what cannot be read is unknown.
//! let findings = judge(&Facts::read(&tree));
//! let of = |name: &str| findings.iter().find(|finding| finding.name == name).expect("it was looked at");
//! assert_eq!((of("nmi-watchdog").level, of("governor").level), (Level::Advice, Level::Unknown));
//!
//! // What is changed is recorded first, and put back later.
//! let state = folder.join("tune.json");
//! let steps = plan(&tree, &findings, &[])?;
//! apply(&tree, &state, &steps)?;
//! assert_eq!(tree.text("/proc/sys/kernel/nmi_watchdog")?, "0");
//! undo(&tree, &state, false)?;
//! assert_eq!(tree.text("/proc/sys/kernel/nmi_watchdog")?, "1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Facts`] are read from a [`Tree`]; [`judge`] makes [`Finding`]s of them, which say what to change; [`plan`],
//! [`apply`] and [`undo`] change it. [`measure_costs`] measures what some of it costs here. Only `tree.rs` and `change/`
//! touch the machine, and only [`measure_costs`] spends time.
//!
//! - What cannot be read says why, and is never invented (`tests/check.rs`).
//! - The first value survives a second `apply`, a crash in the middle, and a change by somebody else (`tests/change.rs`).

mod change;
mod cost;
mod cpus;
mod facts;
mod finding;
mod text;
mod topics;
mod tree;

pub use change::{Done, Outcome, STATE_FILE, Setting, Step, apply, plan, undo};
pub use cost::{Costs, measure_costs};
pub use cpus::Cpus;
pub use facts::{
    ClockFacts, CpuFacts, Daemon, DaemonThread, Facts, IdleState, Interface, Limits, MemoryFacts,
    NetworkFacts, ProcessFacts,
};
pub use finding::{Change, Cost, Finding, Level};
pub use text::{explain, json, list, report};
pub use topics::{Topic, all as topics, find as topic, judge};
pub use tree::{Cards, Told, Tree};
