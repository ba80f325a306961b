//! Warm standby: one consumer, several servers for the same data.
//!
//! Each server has a session of its own, a whole [`ConsumerCore`](super::ConsumerCore), which asks for every
//! item and keeps its image. One server is the active one (of each service, if that is configured): what
//! comes from it goes to the application. The others are there to take over.

mod calls;
mod core;
mod driver;
mod failover;
mod replay;
mod roles;
mod state;

pub use self::core::StandbyCore;
pub use driver::StandbyConsumer;
pub(crate) use roles::Roles;
