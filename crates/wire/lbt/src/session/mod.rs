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
mod loss;
mod pace;
mod packer;
mod receiver;
mod retransmit;
mod runs;
mod send_error;
mod silence;
mod source;
mod tally;
mod topics;
mod transmit;
mod transmitter;
mod transport;
mod window;

pub(crate) use announce::TSNI_LEN_MAX;
pub use closing::Unsent;
pub use fill::Claim;
pub(crate) use fill::{Fragment, Gather, Writer, gathered_len};
pub use packer::Packer;
pub(crate) use receiver::{Arrived, NAK_NUMBERS_MAX, Standing, later};
pub use receiver::{Feedback, Phase, Receiver, ReceiverTransport, Repair};
pub(crate) use retransmit::{Retransmitter, Share};
pub use runs::RunId;
pub use send_error::SendError;
pub use source::Source;
pub use topics::TopicId;
pub(crate) use topics::Topics;
pub use transmit::Transmit;
pub use transmitter::{SentTotals, Transmitter};
pub use transport::SourceTransport;
pub(crate) use window::Run;

use crate::config::SourceConfig;

/// How many datagrams the window of a source has numbers for.
pub(crate) fn window_slots(config: &SourceConfig) -> usize {
    window::slots(config.transport_lbtrm_transmission_window_size as usize)
}
