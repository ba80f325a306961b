//! Listeners for RSSL: sockets and output around the connections of room `rssl`.
//!
//! One thread owns a [`Listener`]. Input is read into one buffer shared by all connections; output is made in
//! two steps, so that one update for thousands of connections costs little more than its bytes in each of
//! them:
//!
//! 1. While input is handled, a message is put into the [`Outbox`] once, and each connection that gets it
//!    notes where it is and which stream id it is to carry there: twelve bytes.
//! 2. [`Listener::flush`] then serves connection after connection: it copies the messages noted into packed
//!    frames in one scratch buffer that stays in the cache, writes them with one system call per 64 KiB, and
//!    keeps only what the socket did not take.
//!
//! A connection that does not keep up has a bounded backlog: while it is large nothing is read from it, so
//! that answers pace requests; at its limit the connection is closed and counted.

mod config;
mod connection;
mod listener;
mod outbox;

pub use crate::config::RsslConfig;
pub use listener::{ConnectionInfo, Listener, ListenerCounters, Service};
pub use outbox::{Outbox, Staged};

/// A connection, by its place in the listener's table. Numbers are used again after a connection has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);
