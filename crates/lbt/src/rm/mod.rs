//! LBT-RM, reliable multicast: one struct for each side of a transport session.
//!
//! The way of a message: [`Source::send`] appends it to the open datagram, `fill` closes the datagram into
//! the `window`, [`Source::poll_transmit`] hands runs of datagrams out under the rate limit. At the other end
//! [`Receiver::on_datagram`] takes the number out of the `loss` map, or enters what it shows to be missing,
//! and hands the messages to [`delivery`](crate::delivery).
//!
//! The way of a NAK: missing numbers wait (`backoff`), come out of [`Receiver::poll_transmit`] together, and
//! go to the source's unicast port. [`Source::on_datagram`] decides on each (`retransmit`): again to the
//! whole group, or a confirmation why not, or nothing because that was said a moment ago. A number is over
//! when it arrives, leaves the source's window, is refused, or is older than the generation interval.
//!
//! Silence: session messages name the last datagram after a short pause (`silence`), announcements the last
//! message of each topic after a longer one (`topics`), and the end of the session both.

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
