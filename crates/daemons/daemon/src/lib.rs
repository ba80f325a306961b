//! What all daemons have alike: how their threads wait, how they describe themselves.

mod query;
mod status;
mod thread;
mod users;

pub use query::{Facts, LISTED_MAX, LOOKED_AT_MAX, Page, Parameter, Query, QueryError};
pub use status::{Describer, Status, StatusError};
pub use thread::{ThreadConfig, WaitConfig};
pub use users::{UserList, UsersError, describe_users};
