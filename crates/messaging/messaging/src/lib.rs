//! Publish and subscribe by topic: contexts, sources, receivers, without a broker.
//!
//! ```
//! use std::time::Duration;
//! use tickcast_messaging::{Context, Handler, Message, MessagingConfig, ReceiverOptions, SourceOptions};
//!
//! #[derive(Default)]
//! struct Printed(Vec<String>);
//!
//! impl Handler for Printed {
//!     fn on_message(&mut self, message: &Message<'_>) {
//!         self.0.push(String::from_utf8_lossy(message.payload).into_owned());
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let port = 20_000 + std::process::id() % 10_000;
//! # let apart = [
//! #     format!("resolver.multicast_port={port}"), format!("lbtrm.destination_port={port}"),
//! #     "lbtrm.source_port_low=30000".into(), "lbtrm.source_port_high=45000".into(), "counters_directory=".into(),
//! # ];
//! # let settings = || apart.iter().cloned().chain(["interface=127.0.0.1".to_owned()]);
//! # #[cfg(any())]
//! let settings = || ["interface=127.0.0.1".to_owned()];
//! let config = MessagingConfig::load(None, settings())?;
//!
//! // Whoever receives: usually another process on another host.
//! let receiving = config.clone();
//! let receiver = std::thread::spawn(move || {
//!     let (mut context, mut printed) = (Context::standalone(&receiving).expect("sockets"), Printed::default());
//!     context.create_receiver("px.eq", &ReceiverOptions::default()).expect("a topic");
//! #   let patience = testkit::watchdog::Patience::new();
//!     while printed.0.is_empty() {
//! #       assert!(patience.lasts(), "the message does not arrive");
//!         context.wait(Some(Duration::from_millis(100)), &mut printed).expect("a poller");
//!     }
//!     printed.0
//! });
//!
//! let mut context = Context::standalone(&config)?;
//! let source = context.create_source("px.eq", &SourceOptions::default())?;
//! // What is sent before a receiver has found the source does not reach it.
//! assert_eq!(context.wait_for_receivers(source, 1, Duration::from_secs(60), &mut ())?, 1);
//! context.send(source, &[b"40.07"])?;
//! while !receiver.is_finished() {                      // what got lost is repaired as long as the source is driven
//!     context.wait(Some(Duration::from_millis(10)), &mut ())?;
//! }
//! context.end();
//! assert_eq!(receiver.join().expect("it ends"), ["40.07"]);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Context`] owns the sockets of one thread. A [`Source`] publishes a topic on a transport session, a
//! [`Receiver`] finds all sources of its topic, or of all topics that a pattern names, and hears them:
//! messages in order, and in its place what could not be repaired. Beside it, processes reach each other
//! directly over TCP at the *request port* that advertisements carry: messages of any size, in order, both
//! ways.
//!
//! # Who drives it
//!
//! Nothing runs by itself. A context is driven in one of three ways:
//!
//! - by whoever uses it: [`Context::standalone`], and then [`Context::poll`] again and again (or
//!   [`Context::wait`], which waits as configured);
//! - with other work of a thread: [`Context::new`] with the thread's [`net::Poller`], and then
//!   [`Context::on_ready`], [`Context::on_wakeup`] and, when there is nothing more to send,
//!   [`Context::flush`];
//! - by a thread of its own: [`EmbeddedContext`], reached through bounded rings.
//!
//! Events go to a [`Handler`] of the application, whose calls are inlined into the way of a message.
//!
//! # Transports
//!
//! The configuration says which transport a topic has (`transport`, `source_transport`), [`SourceOptions`]
//! may say otherwise; a receiver follows what the source advertises. All give the same events.
//!
//! | transport | a session is | a slow receiver | loss |
//! |---|---|---|---|
//! | `lbtrm` | a multicast group; sent by sockets or by AF_XDP (`lbtrm.carrier`) | does not notice others | repaired by NAK, else told |
//! | `lbtru` | datagrams to each receiver | does not notice others | repaired by NAK, else told |
//! | `tcp` | a connection to each receiver, encrypted if certificates are configured | holds up all, or is passed over (`tcp.multiple_receiver_behavior`) | told where it was passed over |
//! | `lbtipc` | a ring in memory that the processes of a host share | holds up all, or is lapped (`ipc.behavior`) | told where it was lapped |
//!
//! # Late join and recovery beyond the transport
//!
//! A source with `late_join` (of the configuration or [`SourceOptions`]) retains what it sends, whatever its
//! transport, within bounds of bytes, number and age, and its context answers at the request port, which is
//! opened for it. A receiver in topic order asks there for what was sent before it joined
//! (`use_late_join`) and for what the transport gave up or passed it over with (`use_otr`), over a connection that it opens when it
//! is needed; live messages wait meanwhile. [`Message::via`] says by which way a message came. What cannot be
//! had is told as loss, in its place. A stream ends when nothing of it is asked for any more. A receiver that
//! joins a stream which another receiver of its context hears already begins with the next message.
//!
//! # What is promised, and which test proves it
//!
//! Each of these holds over every transport (`tests/conformance`, a test `TRANSPORT::NAME`):
//!
//! - Messages of a topic arrive in order, whole and once
//!   (`messages_of_any_size_arrive_in_order_whole_and_once`), up to `maximum_message_size_bytes`: 8 MiB, or as
//!   configured up to 64 MiB (`a_message_of_64_mib_arrives_whole`); a longer one is refused with the limit
//!   (`a_message_above_the_limit_is_refused_with_the_limit`).
//! - A receiver that comes later begins with the next message
//!   (`a_late_receiver_begins_with_the_next_message`); every receiving context gets everything
//!   (`every_receiving_context_gets_everything`), and so does every receiver of one context
//!   (`receivers_of_one_topic_in_one_context_are_each_told_everything`).
//! - Who waits for receivers loses no message to them (`who_waits_for_receivers_loses_no_message_to_them`,
//!   `a_thread_waits_for_receivers_of_a_context_that_another_drives`), hears of those that come and go
//!   (`receivers_that_come_and_go_are_counted`), and waits for nobody for ever
//!   (`waiting_for_receivers_that_do_not_come_is_no_error`).
//! - Two sources of a topic are two streams (`two_sources_of_a_topic_are_two_streams_each_in_order`); the
//!   end of one is told, and its successor found (`the_end_of_a_source_is_told_and_a_new_one_is_found`); where
//!   it was not heard, that is told (`a_source_that_dies_leaves_its_streams_with_a_tail_that_nobody_knows`).
//! - A send never waits: it is refused, and the source is woken when there is room
//!   (`a_full_session_refuses_loses_nothing_and_wakes_the_source`).
//! - What is written in place is sent from there, or leaves nothing behind
//!   (`a_claim_is_a_message_when_committed_and_nothing_when_dropped`).
//! - Prefixes and patterns (`a_prefix_receiver_hears_every_topic_that_begins_so`,
//!   `a_pattern_receiver_hears_every_topic_in_which_it_is_found`), thousands of topics
//!   (`thousands_of_topics_share_a_session`), receivers that stop
//!   (`a_deleted_receiver_hears_no_more_and_others_go_on`).
//! - Requests are answered directly, any number of times (`a_request_is_answered_any_number_of_times`), and
//!   end when they are cancelled or the one who answered is gone (`a_cancelled_request_is_answered_in_vain`,
//!   `a_request_ends_when_the_one_who_answered_is_gone`).
//!
//! - What was sent arrives, or is told lost, though the context is dropped
//!   (`what_was_sent_arrives_or_is_told_lost_when_the_context_is_dropped_at_once`), closed while it waits for the
//!   rate limit (`closing_sends_what_waits_for_the_rate_limit`), closed without linger
//!   (`what_a_context_that_is_closed_without_linger_gives_up_is_told_at_both_ends`), or its thread is stopped
//!   (`what_went_through_the_rings_arrives_when_the_thread_is_stopped_at_once`, and what was not flushed:
//!   `tests/embedded.rs`: `what_was_not_flushed_leaves_as_well_when_the_thread_is_stopped`), and when its source is
//!   deleted
//!   (`what_a_source_sent_before_it_was_deleted_arrives_or_is_told_lost`); `drain` waits for it
//!   (`draining_waits_until_everything_has_left`).
//!
//! Where a source retains messages (the same, tests `TRANSPORT_late_join::NAME`, `TRANSPORT_retained::NAME` and
//! `TRANSPORT_source_paced::NAME`):
//!
//! - A late joiner gets everything that is retained and then the live stream, each message once and in order
//!   (`a_late_joiner_gets_everything_retained_and_then_the_live_stream_once_in_order`), from the oldest
//!   message that is retained on (`a_late_joiner_begins_with_the_oldest_message_retained`), if it wants to
//!   (`who_wants_no_late_join_begins_with_the_next_message`).
//! - What the transport gave up comes from the source
//!   (`what_the_transport_gave_up_is_recovered_from_the_source`), and so does what a slow receiver was passed
//!   over with (`what_a_receiver_was_passed_over_with_is_recovered_from_the_source`).
//! - Waiting ends when the source dies, each number delivered or told lost
//!   (`when_the_source_dies_a_late_joiner_is_told_what_it_lost_and_of_the_end`).
//! - Connections last as long as they are of use (`a_connection_that_nothing_is_asked_over_is_closed`).
//!
//! With hot failover, over every transport (the same, a test `TRANSPORT::NAME`):
//!
//! - The first copy of each message is heard, in the order of the numbers
//!   (`of_two_sources_with_hot_failover_the_first_copy_of_each_message_is_heard`); a source that is killed
//!   leaves no gap (`a_source_killed_at_any_moment_leaves_no_gap_and_nothing_twice_to_hot_failover`), nor
//!   does one that comes late or ends (`a_source_that_comes_late_or_ends_does_not_disturb_hot_failover`).
//! - What no source can deliver is told once
//!   (`what_one_source_lost_comes_from_the_other_and_what_both_lost_is_told_once`).
//!
//! On two networks (`tests/networks.rs`, `interop/netns/test_networks.py`; the protocol by itself in
//! `crates/wire/lbt/tests/networks.rs`):
//!
//! - The session is one and each message heard once
//!   (`what_is_sent_on_two_networks_is_one_stream_and_each_message_is_heard_once`), also by who is on one of
//!   them (`who_is_on_one_network_hears_a_session_of_two_once`); a stranger's is not taken for it
//!   (`a_session_that_only_calls_itself_the_same_is_another_one`).
//! - Neither loss on both nor a network that is cut costs a message
//!   (`test_twenty_per_cent_loss_on_both_networks_costs_nothing_but_few_naks`,
//!   `test_a_cut_cable_is_counted_and_not_noticed`,
//!   `test_an_interface_that_is_down_does_not_hold_the_source_up`).
//!
//! - Late join, requests and answers go on when network A is cut, and are there for who has one network
//!   (`who_is_on_one_network_joins_late_and_answers_by_that`,
//!   `test_who_joins_late_when_network_a_is_cut_gets_everything_that_is_retained`,
//!   `test_requests_are_answered_while_network_a_is_cut`); answers that had not arrived are sent again
//!   (`answers_that_have_not_arrived_when_a_connection_breaks_are_sent_again_by_the_other_network`).
//! - Lines of the configuration may name both
//!   (`a_source_known_by_configuration_alone_is_heard_on_both_networks`).
//!
//! And beside that:
//!
//! - A message costs no allocation in either direction (`tests/allocation.rs`).
//! - What a receiver lost for good is told in its place, with its range, also where the source sets the pace
//!   (`tests/transports.rs`: `a_tcp_receiver_that_is_passed_over_is_told_what_it_lost`,
//!   `a_receiver_of_shared_memory_that_is_lapped_is_told_what_it_lost`).
//! - A source that dies ends its streams (`a_session_of_shared_memory_whose_source_dies_is_over`; one that ends is not taken for dead:
//!   `a_session_of_shared_memory_that_ends_in_order_is_heard_to_its_end_and_is_not_broken`), and so do
//!   bytes that are no messages (`bytes_that_are_no_messages_end_a_tcp_session`).
//! - A context joins only the groups of topics that it receives
//!   (`topics_of_a_range_of_groups_have_sessions_of_their_own`).
//! - A topic may be fixed by configuration at both ends, and then costs no packet of resolution, over each
//!   transport with packets (`tests/static_sources.rs`:
//!   `both_ends_of_a_multicast_topic_are_fixed_by_configuration_without_any_resolution` and its like); a
//!   source that starts later or comes back is found
//!   (`a_receiver_finds_a_fixed_source_that_starts_later_and_again_when_it_has_come_back`).
//! - A preset stands under everything that is set explicitly (`config::presets`:
//!   `what_a_file_or_a_setting_says_stands_over_the_preset_wherever_that_is_chosen`).
//! - Between threads nothing is lost and nothing grows: a full ring refuses
//!   (`tests/embedded.rs`: `a_full_ring_refuses_and_loses_nothing`), a full event queue makes the context
//!   wait (`a_queue_keeps_the_order_of_all_events_and_makes_the_context_wait_when_it_is_full`).
//! - No wait between an application's thread and the context's becomes a cycle (`tests/embedded_waits.rs`:
//!   `a_dispatched_event_may_call_the_context_though_the_queue_is_full`,
//!   `a_handler_on_the_contexts_own_thread_is_refused_what_would_wait_for_itself_and_may_stop_it`), and a context
//!   of which nobody takes events goes on sending
//!   (`a_context_whose_queue_is_full_or_gone_goes_on_sending_over_every_transport`).
//! - Hot failover goes through rings and queue as well (`hot_failover_passes_the_rings_and_the_queue`).
//! - An explicit batch is held until its end or a full datagram (`tests/conformance`:
//!   `an_explicit_batch_is_held_until_its_end_or_a_full_datagram`).
//! - What a context counts is there for `tickcast counters`, under its number, as long as it lives
//!   (`tests/statistics.rs`: `every_context_is_shown_under_its_number_as_long_as_it_lives`), and so are its sessions,
//!   their receivers, its streams and its sources by name
//!   (`the_file_names_the_same_sources_sessions_peers_and_streams_as_the_library`), up to a bound
//!   (`what_is_over_leaves_its_place_to_others_and_what_has_none_is_counted`).
//! - An error that no call returns is counted or told by the next one: sockets that are broken (`receiving`:
//!   `broken_sockets_of_sessions_are_counted_whoever_looks_at_them`), a poller that does not take one
//!   (`a_socket_that_the_poller_does_not_take_is_told_by_the_next_turn_and_nobody_sleeps`), answers that
//!   never left (`tests/transports.rs`: `answers_to_a_process_that_is_gone_are_counted`), a peer that takes
//!   nothing (`direct`: `a_peer_that_takes_nothing_is_given_up_when_too_much_waits_for_it`), a thread that
//!   has ended by itself (`tests/embedded.rs`:
//!   `a_thread_that_ends_by_itself_is_noticed_by_sources_and_by_the_queue`).
//! - Strangers cost bounded resources: who connects and says nothing or takes nothing, who advertises what is
//!   not there, and a process without descriptors (`tests/strangers`; `docs/hostile.md`).
//! - Both ends of a TCP session notice a peer whose machine has vanished (`interop/netns/test_messaging.py`:
//!   `test_both_ends_of_tcp_notice_that_the_other_machine_has_vanished`).
//! - At 5 % loss everything is repaired between two hosts, over each transport and carrier, and the packets
//!   are what tshark expects (`interop/netns/test_messaging.py`).
//! - At 0.1, 1, 5 and 20 % loss on both ways what was sent is delivered or reported lost, in order, and up to
//!   5 % all delivered (`interop/netns/test_loss.py`).
//! - Whole contexts that start, stop, are killed, paused, cut off and idle for days keep that too, and find each
//!   other again (`tests/world`: `what_was_sent_is_delivered_or_reported_lost_in_order_whatever_happens_to_contexts`,
//!   `an_outage_after_more_than_a_day_does_not_last_for_ever`).
//! - Direct messages are independent of all that and carry both ways (`tests/loopback.rs`:
//!   `direct_messages_go_both_ways`).

mod base;
mod closing;
mod config;
mod context;
mod context_counters;
mod departed;
mod direct;
mod drops;
mod embedded;
mod error;
mod event;
mod failover;
mod handle;
mod host;
mod incoming;
mod index;
mod interface;
mod keys;
mod options;
mod outgoing;
mod ports;
mod published;
mod publishing;
mod receiver;
mod receiving;
mod recovery;
mod request;
mod resolution;
mod retention;
mod security;
mod session;
mod source;
mod statistics;
mod stream;
mod tls;
mod xdp;

pub use crate::config::{
    AfXdpMode, AllowedGroups, Carrier, CongestionControl, IpcBehavior, IpcConfig, LbtrmConfig, LbtruConfig,
    MessageRecoveryConfig, MessagingConfig, OrderedDelivery, Preset, ReceiverBehavior, StaticSource,
    TcpConfig, TopicResolutionConfig, TopicTransport, Transport, Wait, check_peer_names,
};
pub use closing::{Left, SessionLeft};
pub use context::Context;
pub use context_counters::ContextCounters;
pub use embedded::{CallError, EmbeddedContext, EmbeddedSource, EventQueue, QueueError};
pub use error::{Closed, ContextError};
pub use event::{
    Asked, BatchEdge, End, FailoverLoss, Handler, Loss, Message, RequestEnd, SecurityEvent, SourceEvent,
    SourceInfo,
};
pub use handle::{ConnectionId, Receiver, RequestId, Source, StreamId};
pub use interface::Interface;
pub use keys::load_payload_keys;
pub use lbt::config::Order;
pub use lbt::delivery::{EndReason, Via};
pub use lbt::resolution::{ResolveError, TransportSession};
pub use lbt::rm::SendError;
pub use net::clock::ManualClock;
pub use net::fork::{Forked, Home};
pub use options::{ReceiverOptions, SendFlags, SourceOptions};
pub use outgoing::Claim;
pub use request::RequestError;
pub use statistics::{RepairStatistics, STATISTICS_MAX, SentStatistics, Statistic, StatisticsPosition};
pub use units::Sqn;
