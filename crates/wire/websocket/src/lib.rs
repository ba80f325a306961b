//! WebSocket connections (RFC 6455, RFC 7692) as state machines. Sans-IO.
//!
//! ```
//! use tickcast_websocket::frame::{Head, OpenFrame, Opcode};
//!
//! // A server's text frame is written behind what is in the buffer, and its head read back.
//! let mut bytes = Vec::new();
//! let frame = OpenFrame::begin(&mut bytes);
//! bytes.extend_from_slice(br#"[{"Type":"Ping"}]"#);
//! frame.end(&mut bytes, Opcode::Text, false);
//! let head = Head::parse(&bytes)?;
//! assert_eq!((head.opcode, head.payload_bytes, head.mask), (Opcode::Text, 17, None));
//! # Ok::<(), tickcast_websocket::FrameError>(())
//! ```
//!
//! A [`ServerConnection`] or [`ClientConnection`] takes the bytes that a socket had to read, the time, and
//! the end of the TCP connection; it gives messages to a [`Handler`], bytes for the socket through its
//! [`Outbound`], and the time of its next wake-up. It opens nothing, sleeps never, and knows nothing of what
//! is in a message but for the ping of the protocol above, which it sends to peers that are silent.
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
