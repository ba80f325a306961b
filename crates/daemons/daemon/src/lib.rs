//! What all daemons have alike: how their threads wait, how they describe themselves.

mod status;
mod thread;
mod users;

pub use status::{Describer, Status};
pub use thread::{ThreadConfig, WaitConfig};
pub use users::{UserList, UsersError, describe_users};
