//! What all daemons have alike: how their threads wait, how they describe themselves.
//!
//! ```
//! use tickcast_daemon::{Parameter, Query};
//!
//! // What a status page is asked for: parameters that it knows, with values that make sense.
//! let query = Query::parse("user=desk-*&limit=50&after=700", Parameter::ALL)?;
//! assert_eq!(query.after(), Some(700));
//! let error = Query::parse("usr=desk-1", Parameter::ALL).expect_err("there is no such parameter");
//! assert!(error.to_string().contains("usr"));
//! # Ok::<(), tickcast_daemon::QueryError>(())
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`ThreadConfig`], [`WaitConfig`] | a daemon's thread: its CPU, its priority, how it waits |
//! | [`Status`], [`Describer`] | how a daemon's thread describes itself without waiting for whoever asks |
//! | [`Query`], [`Page`] | what of a long list a status page shows |
//! | [`UserList`] | the file of the users that may log in, read again when it changes |

mod query;
mod status;
mod thread;
mod users;

pub use query::{Facts, LISTED_MAX, LOOKED_AT_MAX, Page, Parameter, Query, QueryError};
pub use status::{Describer, Status, StatusError};
pub use thread::{ThreadConfig, WaitConfig};
pub use users::{UserList, UsersError, describe_users};
