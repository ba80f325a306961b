//! Every set of counters in the house, one file a part.
//!
//! Times are in nanoseconds, sizes in bytes. Names of the reliable multicast follow the field's
//! (`naks_rcved`, `rxs_sent`, `unrecovered_txw` ...).

mod client;
mod feed;
mod lbtrm;
mod listener;
mod market;
mod messaging;
mod rssl;
mod websocket;

pub use client::{ConsumerSession, InteractiveSession, Line, ProviderSession, WarmStandby};
pub use feed::Feed;
pub use lbtrm::{LbmDelivery, LbmrResolver, LbtrmReceiver, LbtrmSource};
pub use listener::{Listener, UserLists};
pub use market::{Distributor, PointToPoint};
pub use messaging::MessagingContext;
pub use rssl::RsslConnections;
pub use websocket::{JsonClients, WebSocketConnections};
