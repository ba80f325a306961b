//! Topic resolution: who sends what where, without a server.
//!
//! Sources advertise, receivers query, everybody caches what is heard. Both do so often at first, then once
//! a second for a while, then seldom for ever, or not at all, as configured; a query wakes a quiescent
//! source. Records are packed into datagrams and limited in rate. In networks without multicast the same packets go through a [`Relay`]. The
//! records name the transport session of the topic, where its source takes requests by TCP, and whether it
//! retains messages.
//!
//! # What is promised, and which test proves it
//!
//! - Advertisements and queries follow the documented phases, within the rate limits (`tests/resolution.rs`:
//!   `a_source_is_advertised_often_then_now_and_then_then_not_at_all`,
//!   `a_query_is_asked_in_its_phases_and_ends_when_enough_sources_are_known`,
//!   `records_are_packed_and_the_initial_rate_is_kept`).
//! - A query wakes a quiescent source, and what lost queries left deaf a resolution request wakes
//!   (`a_receiver_whose_query_was_lost_at_a_quiescent_source_hears_it_by_a_later_one`,
//!   `two_that_fell_silent_deaf_to_each_other_are_woken_by_a_resolution_request`).
//! - Whatever passed or did not pass for however long, sources and receivers find each other once it passes
//!   again (`tests/deafness.rs`).
//! - What a small datagram asks for is done in bounded steps and goes out at the sustaining rate: patterns
//!   (`a_flood_of_patterns_is_shed_and_honest_ones_are_answered_again_after_it`), repetitions
//!   (`tests/resolution_bounds.rs`: `resolution_requests_cost_a_bounded_step_each_and_repeat_everything_once`).
//! - What is remembered is bounded, in all and by topic, and what somebody here asks for is not crowded out by
//!   what nobody does (`tests/resolution_bounds.rs`).
//! - A relay sends nothing but keep-alives to who is no client, and neither a client gone wild nor a forged
//!   address makes it flood (`tests/relay.rs`: `who_is_no_client_is_not_relayed_and_not_answered`,
//!   `neither_a_wild_client_nor_many_make_the_relay_flood`); of two relays either will do
//!   (`two_contexts_find_each_other_through_either_of_two_resolvers`).
//! - What was advertised of a session before it ended does not have it found again
//!   (`what_was_under_way_when_a_session_ended_does_not_have_it_found_again`).
//! - With keys nothing is believed that is not signed: [`Resolver::authenticate`], `signature.rs`.
//! - A source by configuration needs no traffic and is not forgotten
//!   (`a_configured_source_is_reported_without_any_traffic_and_never_forgotten`).

mod ages;
mod asked;
mod cache;
mod ended;
mod hear;
mod keepalive;
mod limit;
mod pattern;
mod phase;
mod record;
mod relay;
mod resolver;
mod signature;
mod slots;
mod source_string;
mod step;
mod transmit;

pub use pattern::PatternError;
pub use record::{Origin, SourceRecord, TransportSession};
pub use relay::{Relay, RelayClient};
pub use resolver::{AdvertisementId, QueryId, ResolveError, Resolver, ResolverSink};
pub use source_string::SourceStringError;
