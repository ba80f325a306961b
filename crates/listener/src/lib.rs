//! A port and its connections, whatever protocol they speak: sockets, limits, and the outbox of a fan-out.
//!
//! One thread owns a [`Listener`]; what its connections speak is a [`Protocol`]. Input is read into one
//! buffer shared by all connections; output is made in two steps, so that one update for thousands of
//! connections costs little more than its bytes in each of them:
//!
//! 1. While input is handled, a message is put into the [`Outbox`] once, and each connection that gets it
//!    notes where it is and which stream id it is to carry there: twelve bytes.
//! 2. [`Listener::flush`] then serves connection after connection: the protocol copies the messages noted
//!    into frames in one scratch buffer that stays in the cache, the listener writes them with one system
//!    call per 64 KiB, and only what the socket did not take is kept.
//!
//! A connection that does not keep up has a bounded backlog: while it is large nothing is read from it, so
//! that answers pace requests; at its limit the connection is closed and counted.

mod closing;
mod config;
mod connection;
mod doors;
mod listener;
mod outbox;
mod places;
mod protocol;
mod status;

pub use crate::config::{ClientCertificates, TlsConfig};
pub use crate::listener::{Limits, Listener, ListenerCounters};
pub use connection::WRITE_BYTES;
pub use doors::{Ports, TlsPort};
pub use outbox::{Entry, Outbox, Staged};
pub use protocol::{Backlog, Bridge, Endpoint, PortEvent, Protocol, ReasonOf, Service};
pub use status::{ConnectionInfo, Traffic};
pub use units::Disconnect;

/// A connection, by its place in the listener's table. Numbers are used again after a connection has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);
