//! LBT-RM, reliable multicast: one struct for each side of a transport session.

mod announce;
mod backoff;
mod fill;
mod loss;
mod receiver;
mod retransmit;
mod silence;
mod source;
mod tally;
mod topics;
mod transmit;
mod window;

pub use fill::Claim;
pub use receiver::{Feedback, Receiver, SessionKey};
pub use source::{SendError, Source};
pub use topics::TopicId;
pub use transmit::Transmit;
