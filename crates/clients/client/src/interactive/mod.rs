//! The interactive provider: clients that ask, items that are published to who wants them.

mod admin;
mod client;
mod core;
mod driver;
mod event;
mod items;
mod port_connection;
mod ports;
mod publish;
mod requests;
mod streams;
#[cfg(test)]
mod tests;

pub use driver::InteractiveProvider;
pub use event::{ClientId, ClientLogin, InteractiveEvent, OwnedMsg, PostTicket};
