//! LBT-RM, reliable multicast: a [`session`](crate::session) whose datagrams go to a group.
//!
//! NAKs go to the source's unicast port ([`Receiver::poll_transmit`]). [`Source::on_datagram`] decides on each
//! number once for the whole group: the retransmission, or the confirmation why there is none, reaches
//! everybody, and silences those who lost the same.

mod crybaby;
mod receiver;
mod source;

pub use crate::session::{Feedback, SendError, TopicId, Transmit};
pub use crybaby::SourceEvent;
pub use receiver::{Listener, Receiver, SessionKey};
pub use source::{Claim, Multicast, Source};
