//! A port and its connections, whatever protocol they speak.

mod closing;
mod config;
mod connection;
mod doors;
mod endpoint;
mod expiry;
mod listener;
mod outbox;
mod places;
mod protocol;
mod status;

pub(crate) use config::port_settings;
pub use config::{ClientCertificates, TlsConfig};
pub use connection::WRITE_BYTES;
pub use doors::{Ports, TlsPort};
pub use listener::{Limits, Listener, ListenerCounters};
pub use outbox::{Entry, Outbox, Staged};
pub use protocol::{Bridge, Endpoint, PortEvent, Protocol, ReasonOf, Service};
pub use status::{ConnectionInfo, Traffic};

/// A connection, by its place in the listener's table. Numbers are used again after a connection has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);
