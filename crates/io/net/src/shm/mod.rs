//! Shared memory between processes of a host: one source, many receivers, over a file that all of them map.
//!
//! A [`Source`] makes a ring in a file `LBTIPC_<session id>_<transport id>`; each [`Receiver`] opens it by
//! that name. A message is claimed in the ring, filled, committed, and shown to all receivers by the next
//! publication; several commits may share one. `docs/protocol/ipc.md` has the layout of the file.
//!
//! # Pacing
//! With [`Pacing::Receiver`] nothing is overwritten before the slowest receiver has read it: a claim says
//! [`ClaimError::Full`] instead, and receivers read in place. With [`Pacing::Source`] the source never waits;
//! a receiver copies each message and then looks whether it was overwritten meanwhile, so a torn one is never
//! delivered, and one that was lapped is told how many bytes and messages it has missed.
//!
//! # What holds
//! - Messages come whole and in order, each once (`every_length_survives_every_wrap`, the models in `model`).
//! - Nothing torn is delivered to a receiver that is lapped or dropped
//!   (`a_lapped_receiver_is_told_what_it_missed`, `a_dropped_receiver_keeps_what_it_is_reading`,
//!   `no_interleaving_delivers_a_torn_message`).
//! - A source killed at any instruction ends the stream: receivers get what it had published, then the end,
//!   and the file goes away (`crates/io/net/tests/shm_kill.rs`).
//! - A receiver that is killed, or stopped for longer than [`Pacing::Receiver`] allows, does not hold the
//!   source up (`a_dead_receiver_gives_its_room_back`, `a_stopped_receiver_is_dropped_after_its_time`).
//! - A file that is too short, of another version or filled with nonsense is refused or ends the stream; it
//!   never makes a receiver read outside the ring (`nonsense_in_the_ring_is_an_error`,
//!   `files_that_are_no_rings_are_refused`).
//! - A receiver that sleeps is woken by the next publication; one that does not sleep costs the source no
//!   system call and no fence (`a_sleeping_receiver_is_woken`,
//!   `no_interleaving_sleeps_through_a_publication`).
//!
//! # Segments
//! The ring has 16 segments, and a message lies within one. Everything that is not on the path of a message
//! happens when a segment is entered: the source looks for room there, and a receiver says where it is in a
//! way that the source cannot miss. A receiver that reads in place has borrowed from one segment at most, so
//! when it is dropped in the middle of a message the source leaves that segment alone until the receiver has
//! noticed or died, and goes around it.

mod answers;
mod bytes;
mod layout;
#[cfg(all(test, loom))]
mod model;
mod producer;
mod reader;
mod region;
mod sleep;
mod slots;
mod sync;

#[cfg(not(loom))]
mod bare;
#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod receiver;
#[cfg(not(loom))]
mod source;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(not(loom))]
mod wake;
#[cfg(not(loom))]
mod watch;

pub use answers::Answer;
pub use layout::LayoutError;
pub use producer::{Claim, ClaimError};
pub use reader::{Frame, Missed, ReadError};
pub use sleep::Wait;

#[cfg(not(loom))]
pub use bare::{BareReceiver, BareRing};
#[cfg(not(loom))]
pub use file::{SessionName, clean};
#[cfg(not(loom))]
pub use receiver::{OpenError, Receiver};
#[cfg(not(loom))]
pub use source::{Pacing, ReaderInfo, Source, SourceOptions};
#[cfg(not(loom))]
pub use watch::ReaderChanges;
