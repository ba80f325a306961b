//! What all daemons have alike: how their threads wait, how they describe themselves.
//!
//! ```
//! use serde_json::json;
//! use tickcast_daemon::{Describer, Facts, Parameter, StatusError};
//! use units::Nanos;
//!
//! // A daemon on its thread, and somebody on another thread who wants to see the connections that lag.
//! let connections = [("alice", 0), ("bob", 5_000)];
//! let mut describer = Describer::new(&[Parameter::User, Parameter::BacklogMin]);
//! let status = describer.status();
//! # let patience = testkit::watchdog::Patience::new();
//! let operator = std::thread::spawn(move || loop {
//! #   assert!(patience.lasts(), "nobody answers");
//!     match status.ask("backlog_min=1000") {
//!         Err(StatusError::Busy) => {}                 // the daemon has not come round to it
//!         answer => break answer,
//!     }
//! });
//!
//! let mut now = Nanos::ZERO;
//! while !operator.is_finished() {                      // the turns of the daemon
//!     describer.describe(now, |query| {
//!         let known = connections.iter().zip(1..).map(|(&(user, backlog_bytes), id)| {
//!             (id, Facts { user, backlog_bytes, ..Facts::default() }, user)
//!         });
//!         json!({ "connections": query.page(known).listed })
//!     });
//!     now = describer.next_wakeup();
//! #   std::thread::yield_now();
//! }
//! assert_eq!(operator.join().expect("it does not panic")?, json!({ "connections": ["bob"] }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`ThreadConfig`], [`WaitConfig`] | a daemon's thread: its CPU, how it waits |
//! | [`Status`], [`Describer`], [`Described`] | how a daemon's threads describe themselves without waiting for whoever asks |
//! | [`Order`], [`WaitingOrder`] | what an operator wants done ([`Wish`]): a client disconnected, or all of them moved on |
//! | [`Query`], [`Page`] | what of a long list a status page shows |
//! | [`Pauses`] | whether the own thread has not run for so long that others seem silent |
//! | [`Stamps`], [`HopLatencies`] | when updates pass a daemon, and how long they took from hop to hop |
//! | [`UserList`] | the file of the users that may log in, read again when it changes |

mod hops;
mod pauses;
mod query;
mod status;
mod thread;
mod users;

pub use hops::{Hop, HopLatencies, Stamps};
pub use pauses::Pauses;
pub use query::{Facts, LISTED_MAX, LOOKED_AT_MAX, Page, Parameter, Query, QueryError, Subject};
pub use status::{
    DaemonThread, Described, Describer, Order, OrderError, Status, StatusError, WaitingOrder, Wish,
};
pub use thread::{ThreadConfig, WaitConfig};
pub use users::{UserList, UsersError, describe_users};
