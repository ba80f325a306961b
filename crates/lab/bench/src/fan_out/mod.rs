//! One point-to-point server and many clients: how many updates a second leave one thread, and at what cost.
//!
//! Over RSSL the workload is producer-50-50 ([`run`]); over WebSocket all clients watch the same items
//! ([`run_websocket`]). What is compared takes turns at each rate: encodings and encryption of the same
//! server, bare sockets below it, another broker beside it.

mod bare;
mod contender;
mod figures;
mod mounts;
mod nats;
mod nats_publisher;
mod peers;
mod rssl;
mod seen;
mod slow;
mod tls;
mod websocket;
mod websocket_clients;

pub(crate) use bare::{BareMountsArgs, BareServerArgs, bare_mounts, bare_server};
pub(crate) use mounts::{Mount, MountsArgs, Watchlist, mounts};
pub(crate) use nats_publisher::{NatsPublisherArgs, nats_publisher};
pub(crate) use peers::{Peer, read};
pub(crate) use rssl::{FanOutArgs, run};
pub(crate) use slow::{SlowMountsArgs, slow_mounts};
pub(crate) use tls::TlsDirectory;
pub(crate) use websocket::{WebSocketFanOutArgs, run as run_websocket};
pub(crate) use websocket_clients::{WebSocketClientsArgs, websocket_clients};

/// Items of each kind that a client watches.
const EACH: u32 = 100;
/// The server has one CPU, everything else the other.
const SERVER_CPU: usize = 1;
const OTHERS_CPU: usize = 0;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
