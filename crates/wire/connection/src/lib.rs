//! The life of a connection, whatever it speaks. Sans-IO.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use counters::table::RsslConnections;
//! use tickcast_connection::{Beat, Heartbeat, SendBuffer};
//! use units::Nanos;
//!
//! // What is written waits for the socket, within a bound.
//! let mut output = SendBuffer::new(8, Arc::new(RsslConnections::default()));
//! output.append(b"update")?;
//! assert!(output.append(b"another update").is_err(), "refused whole, and counted");
//! assert_eq!(output.pending(), b"update");
//! output.consume(6);
//!
//! // A peer is pinged each third of its time-out, and given up when it was silent for all of it.
//! let mut heartbeat = Heartbeat::new(Nanos::ZERO, Duration::from_secs(30), true, true);
//! heartbeat.heard(Nanos(1_000_000_000));
//! let mut pings = 0;
//! while let (Beat::Tick { ping: true }, _) = heartbeat.on_wakeup(heartbeat.wake_at()) {
//!     pings += 1;
//! }
//! assert_eq!((pings, heartbeat.wake_at()), (3, Nanos(31_000_000_000)));
//! # Ok::<(), tickcast_connection::BacklogFull>(())
//! ```
//!
//! These are parts of a connection. `rssl` and `websocket` are the two protocols on top of it, and their heads show
//! whole connections.
//!
//! RSSL and WebSocket differ in their handshakes and frames. The rest is one [`Machine`]:
//!
//! ```text
//!             on_bytes: the handshake is complete        on_wakeup: silent for the ping timeout
//!                                                        on_bytes: a fault, the peer's close, a handler's wish
//!  Handshake ------------------------------------> Open ---------------------------------------------+
//!      |                                                 on_disconnected, stop                        |
//!      |  on_wakeup: the handshake timeout is over                                                    v
//!      +------------------------------------------------------------------------------------------> Closed
//!         on_bytes: a fault, a refusal; on_disconnected, stop                                     one reason
//! ```
//!
//! - A connection has one end, with one reason, which is counted once. Every later input gets that reason again.
//!   One that is dropped before has an end too: `closed_dropped`.
//! - What was written before the end stays pending, and the protocol's last words behind it: a refusal, a close frame.
//! - The handshake has a deadline, which nothing that arrives moves.
//! - Peers are pinged each third of the ping timeout and given up at its end ([`Heartbeat`]), never for time that this
//!   side slept.
//! - What waits for the socket is bounded and counted ([`SendBuffer`]).
//! - A peer that does not keep up is served less, or given up ([`Ladder`], [`Rounds`]).
//!
//! A protocol is a [`Wire`], and a [`Reads`] for each handler of what arrives. Tests: `machine::tests` has the table of
//! every state and input; `send_buffer::tests` and `heartbeat::tests` the parts.

mod byte_rate;
mod disconnect;
mod heartbeat;
mod ladder;
mod machine;
mod rounds;
mod send_buffer;
mod wire;

pub use byte_rate::{ByteRate, RATE_GRAIN};
pub use disconnect::Disconnect;
pub use heartbeat::{Beat, Heartbeat};
pub use ladder::{Ladder, LadderConfig, QueueAge, Step};
pub use machine::Machine;
pub use rounds::{ROUND_INTERVAL_MIN, Rounds, RoundsState};
pub use send_buffer::{Backlog, BacklogFull, SendBuffer};
pub use wire::{Memory, Opened, Output, Reads, Tick, TimedOut, Wire};
