//! RSSL connections as state machines: handshake, framing, packing, fragmentation, compression, pings.
//! Sans-IO.
//!
//! A [`ServerConnection`] or [`ClientConnection`] takes the bytes that a socket had to read, the time, and
//! the end of the TCP connection; it gives messages to a [`Handler`], bytes for the socket through its
//! [`Outbound`], and the time of its next wake-up. It opens nothing, sleeps never, and knows nothing of what
//! is in a message.
//!
//! # Driving a connection
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//! use tickcast_rssl::{Disconnect, Handler, Outbound, ServerConfig, ServerConnection, Session, Stop};
//! # use std::io::{Read, Write};
//! # use units::Nanos;
//!
//! struct Echo;
//! impl Handler for Echo {
//!     fn on_connected(&mut self, session: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
//!         println!("{} ({}) connected", session.host, session.component_version);
//!         ControlFlow::Continue(())
//!     }
//!     fn on_message(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop> {
//!         match out.push(message) {
//!             Ok(_copy) => ControlFlow::Continue(()),
//!             Err(error) => ControlFlow::Break(error.into()),
//!         }
//!     }
//! }
//!
//! /// One turn of a driver: `read_buffer` is shared by all its connections.
//! fn on_readable(
//!     connection: &mut ServerConnection,
//!     socket: &mut (impl Read + Write),
//!     read_buffer: &mut [u8],
//!     now: Nanos,
//! ) -> std::io::Result<bool> {
//!     let result = match socket.read(read_buffer)? {
//!         0 => Err(connection.on_disconnected(Disconnect::EndOfStream)),
//!         bytes => connection.on_bytes(now, &read_buffer[..bytes], &mut Echo),
//!     };
//!     let written = socket.write(connection.outbound().flush())?;
//!     connection.outbound().consume(written);
//!     // On `Err` the socket is closed; else the timer is set to `connection.next_wakeup()`.
//!     Ok(result.is_ok())
//! }
//!
//! let params = Arc::new(ServerConfig::default().check()?);
//! let counters = Arc::new(counters::table::RsslConnections::default());
//! let mut connection = ServerConnection::new(Nanos::ZERO, &params, &counters, 42);
//! # let mut socket = std::io::Cursor::new(b"GET / HTTP/1.1\r\n".to_vec());
//! let goes_on = on_readable(&mut connection, &mut socket, &mut [0; 4096], Nanos::ZERO)?;
//! # assert!(!goes_on);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promise
//!
//! Each sentence is proved by the test named behind it (those of `tests/rssl` with their module).
//!
//! - What the libraries in the field send is understood, in any cut of the byte stream
//!   (`recorded::a_server_reads_what_recorded_clients_sent`,
//!   `recorded::a_client_reads_what_recorded_servers_sent`), and what we send is what they send, to the byte
//!   (`recorded::our_client_writes_the_recorded_requests_to_the_byte`,
//!   `recorded::our_server_writes_the_recorded_acks_but_for_the_numbers_it_draws`,
//!   `recorded::the_packer_writes_the_recorded_frames_to_the_byte`).
//! - Versions 14 to 10 are spoken (`handshake::both_ends_agree_in_every_version`); a client whose offer is
//!   not answered is told the next lower version
//!   (`handshake::a_client_falls_back_through_the_versions_on_new_connections`).
//! - What is pushed arrives, whole and in order (`both_ends::what_is_pushed_arrives`,
//!   `both_ends::messages_of_every_awkward_length_arrive_in_every_version`,
//!   `mutation::any_order_of_operations_on_good_ends_keeps_the_messages_in_order`).
//! - A malformed peer costs its own connection, with an error that names the fault
//!   (`hostile::every_illegal_frame_has_its_error`, `mutation::spoilt_streams_cost_at_most_the_connection`),
//!   and every end is counted once (`counters_move::every_connection_ends_with_exactly_one_count`).
//! - Memory has a ceiling, whatever a peer does, [`Limits::memory_bytes_max`]
//!   (`hostile::the_memory_of_a_hostile_connection_stays_within_the_stated_bound`), and an idle connection
//!   uses less than 1 KiB (`hostile::ten_thousand_idle_connections_use_less_than_a_kibibyte_each`).
//! - A slow peer is an ordinary result, not a surprise: its backlog is bounded and a write beyond it fails
//!   whole (`output::at_the_limit_a_push_fails_whole_and_succeeds_when_there_is_room`).
//! - Peers are pinged each third of the ping timeout and given up at its end, but never for time that this
//!   side slept (`timers::idle_ends_ping_each_other_for_hours_and_stay`,
//!   `timers::a_silent_peer_is_dropped_after_its_timeout`,
//!   `timers::a_server_that_slept_does_not_blame_its_clients`).
//! - A steady stream runs in the buffers it has (`output::a_steady_stream_needs_no_memory_of_its_own`).
//!
//! - Compressed payloads are read in any cut, and what would be more than was agreed is refused before it is
//!   made (`compression::a_payload_that_holds_more_than_agreed_is_refused`,
//!   `compression::what_is_pushed_arrives_compressed`).

mod active;
mod assembly;
mod carry;
mod client;
mod compression;
mod config;
mod error;
pub mod frame;
pub mod handshake;
mod incoming;
mod link;
mod outbound;
mod packer;
mod scout;
mod server;
mod session;
mod text;
mod version;

pub use counters::Flow;

pub use client::ClientConnection;
pub use compression::{CompressionType, Thresholds};
pub use config::{
    COMPONENT_VERSION_MOST_BYTES, ClientConfig, ClientParams, ConfigError, Limits,
    MESSAGE_SIZE_DEFAULT_BYTES, MESSAGE_SIZE_LEAST_BYTES, MESSAGE_SIZE_MOST_BYTES, ServerConfig,
    ServerParams,
};
pub use connection::Disconnect;
pub use error::{ApiMisuse, CloseReason, FrameError, HandshakeError, PeerError, Refusal, SendError, Stop};
pub use link::Connection;
pub use outbound::{Batch, Outbound};
pub use packer::{Packer, Written};
pub use server::ServerConnection;
pub use session::{Admission, Handler, Negotiated, Session};
pub use text::Text;
pub use version::ConnectionVersion;
