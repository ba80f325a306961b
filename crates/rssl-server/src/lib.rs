//! Listeners for RSSL: the connections of room `rssl` behind a port of room `listener`.

mod config;
mod protocol;

pub use crate::config::{Compression, RsslConfig};
pub use listener::{
    ClientCertificates, ConnectionId, ConnectionInfo, Outbox, PortEvent, Service, Staged, TlsConfig,
};
pub use protocol::{ListenerCounters, Rssl, RsslListener, listen, send};
