//! RSSL ports: the connections of crate `rssl` behind a [`Listener`](crate::Listener).

mod config;
mod protocol;

pub use config::{Compression, RsslConfig};
pub use protocol::{ListenerCounters, Rssl, RsslListener, listen, listen_seated, send, without_port};
