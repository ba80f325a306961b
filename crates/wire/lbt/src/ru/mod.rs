//! LBT-RU, reliable unicast: a [`session`](crate::session) whose datagrams go to each of several clients.
//!
//! The way into a session: a receiver asks ([`Receiver::poll_transmit`]) until the source answers with the
//! last number it has sent; with its acknowledgement of that number it is a client, and everything sent from
//! then on it gets or NAKs. Acknowledgements go on as signs of life; they pace nothing.
//!
//! A retransmission, and the confirmation why there is none, goes to the client that asked and to no other.
//! In the field it goes to all; on unicast that multiplies the cost of one client's loss by the number of
//! clients, and takes their share of the rate limit. Clients take turns, so that one that asks without end
//! waits for itself.
//!
//! # Promises, and which test proves them
//!
//! - A source keeps nothing for an address that never acknowledged, and sends it no more than
//!   [`SYN_ANSWERS_MAX`] short packets in a client activity timeout, however many requests bear its name
//!   (`requests_in_a_strangers_name_cost_the_stranger_a_few_short_packets_and_the_source_nothing`).
//!   The acknowledgement must name the session's id and a number of its window. Who hears the session's
//!   advertisements knows the id; who must not be believed is kept out by authentication.
//! - The number of clients has a bound; beyond it receivers are refused
//!   (`more_clients_than_allowed_are_refused`).
//! - A client that gives no sign of life is dropped (`a_silent_client_is_dropped_and_told_so`), and is a
//!   client again, with what it missed, as soon as it is back
//!   (`a_client_that_was_dropped_connects_again_and_recovers_what_it_missed`).
//! - A reset, which bears no session id and may be anybody's, ends a session only if the source does not
//!   prove that it is there within [`RESET_INTERVALS`] connect intervals
//!   (`a_reset_that_is_not_the_sources_ends_nothing`, `a_reset_of_the_source_ends_the_session`).
//! - What one client lost costs the others no datagram
//!   (`a_retransmission_goes_to_the_client_that_asked_and_to_no_other`), and a client that asks for
//!   everything does not take the others' turn (`clients_take_turns_at_the_retransmission_rate`).
//!
//! # Congestion control
//!
//! As on LBT-RM ([`congestion`](crate::congestion)): the pulse goes to every client, a client's report comes
//! behind the options of a NAK of no numbers. The rate is that of one copy of the stream; the data rate limit
//! is one for all copies together. The worst client governs, so a client on a narrow link slows the others
//! down to the floor: who does not want that gives it a session of its own
//! (`congestion_control_finds_the_rate_of_a_narrow_link`).
//!
//! # Keyed codes
//!
//! As on LBT-RM ([`authentication`](crate::authentication)), behind the options of every packet, behind a
//! reset too. With keys nobody without one is answered, and a reset is the source's
//! (`a_signed_session_connects_recovers_ends_and_is_what_the_dissectors_expect`,
//! `what_is_not_signed_has_no_effect_at_either_end`).
//!
//! # Defaults beside the field's
//!
//! What is not listed is as on LBT-RM ([the crate](crate)).
//!
//! | option | here | field | why |
//! |---|---|---|---|
//! | `connect_interval` | 100 ms | 100 ms | |
//! | `connect_maximum` | 600 | 600 | |
//! | `acknowledgement_interval` | 500 ms | 500 ms | |
//! | `client_activity_timeout` | 10 s | 10 s | |
//! | `maximum_clients` | 256 | none | memory and fan-out have a bound |
//! | `nak_initial_backoff_interval` | 200 us, exact | 0 | reordering costs no NAK; there is no group to spread NAKs over |
//! | `rate_interval` | 1 ms, token bucket | 100 ms, slots | as on LBT-RM |
//! | `activity_timeout` | 10 s | 60 s | ten session messages; a receiver that stands still for longer than the source's client timeout needs more, if it is to go on afterwards |

mod clients;
mod connection;
mod fan;
mod greeter;
mod receiver;
mod source;

pub use clients::{Client, ClientEvent};
pub use connection::{RESET_INTERVALS, SessionKey};
pub use greeter::SYN_ANSWERS_MAX;
pub use receiver::{Receiver, Subscriber};
pub use source::{Claim, Source, Transmit, Unicast};

pub use crate::session::{Feedback, SendError, TopicId};
