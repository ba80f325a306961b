//! LBT-RM, reliable multicast: a [`session`](crate::session) whose datagrams go to a group.
//!
//! NAKs go to the source's unicast port ([`Receiver::poll_transmit`]). [`Source::on_datagram`] decides on
//! each number once for the whole group: the retransmission, or the confirmation why there is none, reaches
//! everybody, and silences those who lost the same.
//!
//! # Two networks
//!
//! A driver may send everything of a session on two networks, as it is: each carries a plain session, with
//! another address of the source. A receiver that is told both addresses ([`Receiver::add_network`]) takes
//! the first copy of each datagram. What one network has lost and the other brings is no loss: the gap
//! waits for the initial back-off before it is NAKed, which is to be longer than the networks are apart (an
//! eighth of it is the shortest wait). NAKs go out on the networks in turn, so that one which is dead in
//! that direction alone delays them and no more; on one that is silent none go. `tests/networks.rs` has the
//! proofs.

mod crybaby;
mod networks;
mod receiver;
mod source;

pub use crate::session::{Feedback, SendError, TopicId, Transmit};
pub use crybaby::{AskedBy, SourceEvent};
pub use receiver::{Listener, Receiver, SessionKey};
pub use source::{Claim, Multicast, Source};
