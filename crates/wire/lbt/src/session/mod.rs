//! What the reliable transports share: the two sides of a transport session, whatever its packets look like.
//!
//! The way of a message: [`Source::send`] gives it the next number of its topic and writes it (`fill`) into the datagram
//! that the `packer` keeps open at the end of the `window`. The packer closes the datagram, and the transport hands
//! runs of them out as the `transmitter` allows. At the other end [`Receiver`] takes the number out of its `gaps`, or
//! enters what it shows to be missing, and hands the messages to [`delivery`](crate::delivery).
//!
//! | part of a source | owns |
//! |---|---|
//! | `topics` | the numbers of messages, and when they were last said |
//! | `packer` | the window, the open datagram, encryption, the end of each datagram |
//! | `announce` | what is said of topics that are silent, and at the end |
//! | `transmitter` | rate limits, congestion control, the schedule of session messages, what was sent |
//!
//! | part of a receiver | owns |
//! |---|---|
//! | `receiver/gaps` | what is missing, its NAKs, what became of it |
//! | `receiver/evidence` | how far numbers and the trailing edge are borne out by more than one packet |
//! | `receiver/doubt` | numbers that do not follow on those of the session |
//! | `receiver/liveness` | when the source was heard |
//!
//! The way of a NAK: missing numbers wait (`backoff`), are asked for together, and are decided on one by one
//! at the source (`retransmit`): again, or a confirmation why not, or nothing because that was said a moment
//! ago. A number is over when it arrives, leaves the source's window, is refused, or is older than the
//! generation interval.
//!
//! Silence: session messages name the last datagram after a short pause (`silence`), announcements the last
//! message of each topic after a longer one (`topics`), and the end of the session both.
//!
//! A transport adds the packets and whom they go to ([`SourceTransport`], [`ReceiverTransport`]):
//! [`rm`](crate::rm) a group, [`ru`](crate::ru) clients.

mod announce;
mod answers;
pub(crate) mod backoff;
mod closing;
mod ending;
mod fill;
mod inquiry;
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
pub use inquiry::Inquiry;
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
    window::slots(config.transmission_window_size as usize)
}
