//! WebSocket connections (RFC 6455, RFC 7692) as state machines. Sans-IO.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//! use tickcast_websocket::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
//! use tickcast_websocket::{Handler, Message, Outbound, Session, Stop};
//! use units::Nanos;
//!
//! /// Writes down the texts that it hears.
//! #[derive(Default)]
//! struct Texts(Vec<String>);
//! impl Handler for Texts {
//!     fn on_connected(&mut self, _: &Session<'_>, out: &mut Outbound) -> ControlFlow<Stop> {
//!         match out.push(Message::Text("hello")) {
//!             Ok(()) => ControlFlow::Continue(()),
//!             Err(stop) => ControlFlow::Break(stop),
//!         }
//!     }
//!     fn on_message(&mut self, message: Message<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
//!         if let Message::Text(text) = message {
//!             self.0.push(text.to_owned());
//!         }
//!         ControlFlow::Continue(())
//!     }
//! }
//!
//! let (now, counters) = (Nanos::ZERO, Arc::default());
//! let client_config = Arc::new(ClientConfig::new("localhost:15000"));
//! let mut client = ClientConnection::new(now, &client_config, &counters, 42);
//! let mut server = ServerConnection::new(now, &Arc::new(ServerConfig::default()), &counters);
//! let (mut at_client, mut at_server) = (Texts::default(), Texts::default());
//!
//! // What waits at one end for its socket, the other end reads: the upgrade first, then texts.
//! for _ in 0..2 {
//!     server.on_bytes(now, client.outbound().pending(), &mut at_server)?;
//!     let taken = client.backlog().depth_bytes;
//!     client.outbound().consume(taken);
//!     client.on_bytes(now, server.outbound().pending(), &mut at_client)?;
//!     let taken = server.backlog().depth_bytes;
//!     server.outbound().consume(taken);
//! }
//! assert_eq!((at_server.0, at_client.0), (vec!["hello".to_owned()], vec!["hello".to_owned()]));
//! # Ok::<(), tickcast_websocket::CloseReason>(())
//! ```
//!
//! A [`ServerConnection`] or [`ClientConnection`] takes the bytes that a socket had to read, the time, and
//! the end of the TCP connection; it gives messages to a [`Handler`], bytes for the socket through its
//! [`Outbound`], and the time of its next wake-up. It opens nothing, sleeps never, and knows nothing of what
//! is in a message but for the ping of the protocol above, which it sends to peers that are silent.
//!
//! | module or type | what it is |
//! |---|---|
//! | [`ServerConnection`], [`ClientConnection`] | the two ends; their inputs are those of every `connection::Machine` |
//! | [`upgrade`] | the HTTP request and answer by which a connection begins |
//! | [`frame`], [`close_code`] | frames as bytes |
//! | [`deflate`] | permessage-deflate, and text that is compressed once for many connections |
//!
//! # Promise
//!
//! Each sentence is proved by the tests named behind it (`tests/websocket`).
//!
//! - What is pushed arrives whole and in order, in any cut of the byte stream, fragmented or not, compressed
//!   or not (`both_ends::*`, `reading::*`).
//! - What recorded clients asked for is accepted (`recorded::*`).
//! - A malformed peer costs its own connection, with an error that names the fault, and the close code of the
//!   RFC (`hostile::*`); every end is counted once (`counters_move::*`).
//! - Memory has a ceiling whatever a peer does: one head or one message as it comes and decompressed, and the
//!   backlog (`hostile::*`).
//! - Peers are pinged when nothing comes or nothing goes, never before the first message to them, and given
//!   up at the end of the ping timeout (`timers::*`).

mod client;
pub mod close_code;
mod config;
pub mod deflate;
mod error;
pub mod frame;
mod link;
mod outbound;
mod reader;
mod server;
mod session;
pub mod upgrade;

pub use client::ClientConnection;
pub use config::{ClientConfig, JSON_PING, Limits, ServerConfig};
pub use connection::Disconnect;
pub use error::{CloseReason, FrameError, PeerError, Stop, UpgradeError};
pub use link::Connection;
pub use outbound::Outbound;
pub use server::ServerConnection;
pub use session::{Admission, Handler, Message, Session};
