//! What the reliable transports share: the two sides of a transport session, whatever its packets look like.
//!
//! The way of a message: [`Source::send`] appends it to the open datagram, `fill` closes the datagram into
//! the `window`, the transport hands runs of datagrams out under the rate limit. At the other end
//! [`Receiver`] takes the number out of the `loss` map, or enters what it shows to be missing, and hands the
//! messages to [`delivery`](crate::delivery).
//!
//! The way of a NAK: missing numbers wait (`backoff`), are asked for together, and are decided on one by one
//! at the source (`retransmit`): again, or a confirmation why not, or nothing because that was said a moment
//! ago. A number is over when it arrives, leaves the source's window, is refused, or is older than the
//! generation interval.
//!
//! Silence: session messages name the last datagram after a short pause (`silence`), announcements the last
//! message of each topic after a longer one (`topics`), and the end of the session both.
//!
//! A transport adds the packets and whom they go to: [`rm`](crate::rm) a group, [`ru`](crate::ru) clients.

mod announce;
mod answers;
pub(crate) mod backoff;
mod closing;
mod ending;
mod fill;
mod framing;
mod inquiry;
mod loss;
mod pace;
mod receiver;
mod retransmit;
mod runs;
mod silence;
mod source;
pub(crate) mod tally;
mod topics;
mod transmit;
mod window;

pub use closing::Unsent;
pub(crate) use ending::DatagramEnd;
pub use fill::Claim;
pub(crate) use fill::{Fragment, Gather, Writer, gathered_len};
pub use framing::Framing;
pub use inquiry::Inquiry;
pub(crate) use receiver::{Arrived, NAK_NUMBERS_MAX, Phase, Standing, later};
pub use receiver::{Feedback, Receiver, Repair};
pub(crate) use retransmit::{Retransmitter, Share};
pub use runs::RunId;
pub(crate) use source::{Ending, TSNI_LEN_MAX};
pub use source::{SendError, SentTotals, Source};
pub use topics::TopicId;
pub(crate) use topics::Topics;
pub use transmit::Transmit;
pub(crate) use window::Run;

use crate::config::SourceConfig;

/// How many datagrams the window of a source has numbers for.
pub(crate) fn window_slots(config: &SourceConfig) -> usize {
    window::slots(config.transmission_window_size as usize)
}
