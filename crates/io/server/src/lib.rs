//! Ports on which clients and providers connect: RSSL, and the JSON protocol over WebSocket.
//!
//! | module | what is in it |
//! |---|---|
//! | `port`, handed on here | a [`Listener`] and its connections, whatever they speak: sockets, limits, the [`Outbox`] of a fan-out |
//! | [`rssl`] | RSSL as the [`Protocol`] of a port |
//! | [`websocket`] | the JSON protocol over WebSocket as that of a port, and RWF made into JSON and back |
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
//!
//! Ports as clients meet them are tested in `tests/ports`, connections that do not log in or do not read in
//! `tests/listener.rs`.

mod port;
pub mod rssl;
pub mod websocket;

pub use connection::{Backlog, LadderConfig, Step};
pub use port::{
    ClientCertificates, ConnectionId, ConnectionInfo, ConnectionToService, Endpoint, Entry, Limits, Listener,
    ListenerCounters, Outbox, PortEvent, Ports, Protocol, ReasonOf, Service, Staged, StepChange, TlsConfig,
    TlsPort, Traffic, WRITE_BYTES,
};
