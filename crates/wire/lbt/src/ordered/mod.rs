//! Sessions of transports that keep the order themselves: TCP and shared memory.
//!
//! The stream is LBMC messages back to back, as inside LBT-RM datagrams; topics are numbered, fragmented and
//! announced in the same way, so that receivers get the same events whatever the transport. [`Source`] writes
//! messages into a [`Room`] that the transport has; [`Receiver`] takes the bytes that arrive. [`Backlog`] is
//! the room of a session that is written to several connections.
//!
//! There are no transport numbers, and nothing is asked for again. What a receiver misses, because it was
//! lapped or passed over, shows as a jump of its topics' numbers in the next message or announcement, and is
//! loss in that place. A source that retains messages has its room [`Kept`].
//!
//! Promises:
//!
//! - What was sent arrives as the same messages, however the bytes are cut
//!   (`tests/ordered.rs`: `messages_survive_any_cut_of_the_stream`).
//! - What was passed over is one loss with its range, in its place; at the end of the stream it is told from
//!   the announcement (`what_is_passed_over_is_loss_in_its_place`).
//! - A connection that is passed over goes on at a message's begin, and no other connection notices
//!   (`backlog.rs`: `a_laggard_that_is_passed_over_goes_on_with_a_whole_message`).

mod backlog;
mod kept;
mod receiver;
mod source;

pub use backlog::{Backlog, BacklogSlot, Cursor};
pub use kept::{Kept, KeptSlot};
pub use receiver::Receiver;
pub use source::{Claim, OrderedConfig, Room, Slot, Source, ask_receivers};
