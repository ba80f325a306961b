//! A port and its connections, whatever protocol they speak.

mod acceptors;
mod admission;
mod closing;
mod config;
mod connection;
mod connection_table;
mod endpoint;
mod exchange;
mod expiry;
mod limits;
mod listener;
mod outbox;
mod protocol;
mod status;

pub use acceptors::{Ports, TlsPort};
pub(crate) use config::port_settings;
pub use config::{ClientCertificates, TlsConfig};
pub use connection::WRITE_BYTES;
pub use exchange::{Exchange, Seat};
pub use limits::{Limits, ListenerCounters};
pub use listener::{Listener, StepChange};
pub use outbox::{Entry, Outbox, Staged, WEIGHT_DEFAULT};
pub use protocol::{ConnectionToService, Endpoint, PortEvent, Protocol, ReasonOf, Service};
pub use status::{ConnectionInfo, Traffic};

/// A connection, by its place in the listener's table. Numbers are used again after a connection has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);
