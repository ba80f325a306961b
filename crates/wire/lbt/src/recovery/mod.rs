//! Recovery beyond the transport: late join, and what the transport gave up, over TCP.
//!
//! A source [retains](Responder::retain) what it sends. A receiver asks it, over a connection to the source's
//! request port, which messages of a topic there are, then for message after message; each comes as it was
//! sent, fragments singly. The [`Requester`] stands between a transport session and the application: it
//! passes live messages on, and when one is missing before them, or was sent before the topic was joined, it
//! holds them until that has come or is lost for good.
//!
//! ```text
//!  receiver -> source   LJ info request 0x4E: a topic's retained numbers?
//!  source -> receiver   LJ info 0x1E: low, high
//!  receiver -> source   retransmission request 0x15: a number, many at a time
//!  source -> receiver   message of type 0xA with a source index, or LJ info: it is not retained
//! ```
//!
//! # What is promised, and which test proves it
//!
//! All in `tests/recovery`:
//!
//! - In topic order every number from the begin of the stream on is delivered once or reported lost once, in
//!   its place, whatever is lost, cut or dies, and a late joiner begins with the oldest message retained
//!   (`whatever_is_lost_cut_or_dies_each_number_is_delivered_or_reported_once_in_its_place`).
//! - While the source and the network live, a late joiner gets everything that is retained, and nothing is
//!   lost that is (`with_a_source_that_lives_nothing_retained_is_lost`).
//! - No more requests wait at once than configured, and memory stays within its bounds (the same).
//! - When nothing answers, waiting ends (`without_an_answer_a_late_joiner_begins_with_the_live_stream`,
//!   `what_nobody_answers_is_lost_after_the_generation_interval`).
//! - A source of datagrams gives to retention everything that it has closed, sent or not, signed or not
//!   (`every_closed_datagram_is_given_once_whether_sent_or_not_and_signed_or_not`).
//! - A connection that asks for too much, or sends something else, is counted and does no harm
//!   (`requests_beyond_the_bound_are_dropped_and_counted`).

mod held;
mod requester;
mod requests;
mod responder;
mod retention;
mod tap;
mod topic;

pub use requester::{RecoveryError, Requester};
pub use responder::{ClientId, Responder};
pub use tap::Tap;
