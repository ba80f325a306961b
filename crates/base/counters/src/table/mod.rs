//! Every set of counters in the house, one file a part.
//!
//! Times are in nanoseconds, sizes in bytes. Names of the reliable multicast follow the field's
//! (`naks_rcved`, `rxs_sent`, `unrecovered_txw` ...).

mod client;
mod connection;
mod feed;
mod hops;
mod lbm;
mod lbtipc;
mod lbtrm;
mod lbtru;
mod lbttcp;
mod listener;
mod log;
mod market;
mod messaging;
mod nats;
mod recovery;
mod relay;
mod reliable;
mod rssl;
pub mod sessions;
mod thread;
mod websocket;
mod xdp;

pub use client::{ConsumerSession, DialledConnection, InteractiveSession, ProviderSession, WarmStandby};
pub use connection::ConnectionCounters;
pub use feed::Feed;
pub use hops::HopLatency;
pub use lbm::{LbmDelivery, LbmSource, LbmrResolver};
pub use lbtipc::{LbtIpcReceiver, LbtIpcSource};
pub use lbtrm::{LbtrmNetworks, LbtrmReceiver, LbtrmSource};
pub use lbtru::{LbtruClients, LbtruConnection, LbtruReceiver, LbtruSource};
pub use lbttcp::{LbttcpReceiver, LbttcpSource};
pub use listener::{Listener, UserLists};
pub use log::Log;
pub use market::{Distributor, PointToPoint, SavedImages};
pub use messaging::{EventQueue, MessagingContext};
pub use nats::{NatsCarrier, NatsConnection};
pub use recovery::{HotFailover, LbmRecovery, LbmRetention};
pub use relay::{LbmrRelay, ResolverSocket};
pub use reliable::{ReliableReceiver, ReliableSource};
pub use rssl::RsslConnections;
pub use thread::Thread;
pub use websocket::{JsonClients, WebSocketConnections};
pub use xdp::XdpSocket;
