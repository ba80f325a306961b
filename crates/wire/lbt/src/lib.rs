//! LBM-family packets and the reliability state machines: windows, NAKs, reassembly, topic resolution.
//! Sans-IO.
//!
//! ```
//! # use std::net::{Ipv4Addr, SocketAddrV4};
//! # use std::time::Duration;
//! # use tickcast_lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, Lost};
//! use tickcast_lbt::config::{ReceiverConfig, SourceConfig};
//! use tickcast_lbt::rm::{Receiver, SessionKey, Source};
//! use tickcast_lbt::wire::lbtrm::SessionHeader;
//! use units::Nanos;
//! # /// Writes down what it hears.
//! # #[derive(Default)]
//! # struct Heard(Vec<Vec<u8>>);
//! # impl DeliverySink for Heard {
//! #     fn deliver(&mut self, message: Delivered<'_>) { self.0.push(message.payload.to_vec()) }
//! #     fn lost(&mut self, lost: Lost) { panic!("{lost:?}") }
//! #     fn begin_of_stream(&mut self, _: BeginOfStream) {}
//! #     fn end_of_stream(&mut self, _: EndOfStream) {}
//! # }
//!
//! /// What a source has to send now, datagram by datagram.
//! fn sent(source: &mut Source, now: Nanos) -> Vec<Vec<u8>> {
//!     let mut datagrams = Vec::new();
//!     while let Some(transmit) = source.poll_transmit(now) {
//!         datagrams.extend(transmit.datagrams().map(<[u8]>::to_vec));
//!         let count = transmit.count;
//!         source.sent(now, count);
//!     }
//!     datagrams
//! }
//!
//! # let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 14391);
//! # let receiver_address = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 40_000);
//! # let session = SessionHeader { ucast_port: address.port(), session_id: 7 };
//! # let key = SessionKey { source: *address.ip(), session };
//! # let (source_counters, receiver_counters, delivery_counters) = Default::default();
//! # let (mut now, mut heard) = (Nanos::ZERO, Heard::default());
//! let mut source = Source::new(&SourceConfig::default(), session, now, source_counters)?;
//! let topic = source.add_topic(now, 1);
//! let (config, seed) = (ReceiverConfig::default(), 42);
//! let mut receiver = Receiver::new(&config, key, seed, now, receiver_counters, delivery_counters)?;
//! receiver.subscribe(1, 0)?;
//!
//! // Three messages, a datagram each. The network loses the second one.
//! for (number, text) in ["one", "two", "three"].iter().enumerate() {
//!     source.send(now, topic, &[text.as_bytes()])?;
//!     source.flush();
//!     for datagram in sent(&mut source, now) {
//!         if number != 1 {
//!             receiver.on_datagram(now, address, &datagram, &mut heard)?;
//!         }
//!     }
//! }
//! assert_eq!(heard.0, [b"one"], "the third waits for the second");
//!
//! // The receiver sends a NAK when it is due, and the source repeats the datagram.
//! while receiver.missing() > 0 {
//!     now = receiver.next_wakeup();
//!     receiver.on_wakeup(now, &mut heard);
//!     while let Some(nak) = receiver.poll_transmit(now) {
//!         source.on_datagram(now, receiver_address, nak.datagram)?;
//!     }
//!     for datagram in sent(&mut source, now) {
//!         receiver.on_datagram(now, address, &datagram, &mut heard)?;
//!     }
//! }
//! assert_eq!(heard.0, [&b"one"[..], b"two", b"three"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here opens a socket, reads a clock, sleeps or draws randomness of its own: bytes, the time and
//! seeds come in as arguments; what to send, what to deliver and when to be called again goes out. The same
//! code runs under the daemons and under the simulator.
//!
//! | module | what it is |
//! |---|---|
//! | [`wire`] | packets as bytes: LBT-RM, LBT-RU, LBMC, LBMR; checked views and their emitters |
//! | [`session`] | what the reliable transports share: window, NAKs, retransmission, loss, topics, silence |
//! | [`rm`] | LBT-RM: [`rm::Source`] and [`rm::Receiver`], the two sides of a multicast session |
//! | [`ru`] | LBT-RU: [`ru::Source`] with its clients, and [`ru::Receiver`] |
//! | [`delivery`] | what a receiver's application hears: order, reassembly, loss ([`delivery::DeliverySink`]) |
//! | [`resolution`] | [`resolution::Resolver`]: who sends what where |
//! | [`failover`] | one stream of several sources, the first copy of each message: [`failover::HotFailover`] |
//! | [`recovery`] | late join and recovery beyond the transport: [`recovery::Responder`], [`recovery::Requester`] |
//! | [`ordered`] | sessions of transports that keep the order themselves: TCP, shared memory |
//! | [`stream`] | LBMC over TCP: requests, answers, unicast immediate messages |
//! | [`config`] | options under the field's names, their ranges and relations |
//! | [`authentication`] | packets with a keyed code |
//! | [`encryption`] | encrypted payloads |
//! | [`congestion`] | reports of receivers, and the rate that follows from them |
//! | [`presence`] | who receives a topic, for sources that wait for receivers |
//! | [`rate`] | token buckets |
//!
//! # What is promised, and which test proves it
//!
//! - A topic in order gets each number exactly once, as part of one message or of one loss, in ascending
//!   order without a hole, whatever the network does: `tests/sim`
//!   (`under_any_weather_order_and_content_hold_and_every_hole_is_reported_once_in_its_place`) and whatever
//!   the source does: `tests/fuzz.rs` (`random_conduct_of_a_source_keeps_the_promises_of_a_receiver`).
//! - Loss is an event in the place where data is missing, as soon as the transport numbers settle it,
//!   without a second timer: `tests/receiver.rs`
//!   (`after_the_generation_interval_a_number_is_loss_in_its_place`,
//!   `a_tail_that_is_lost_for_good_is_reported_when_the_topic_is_announced`). What no announcement could
//!   settle is flagged at the end of the stream (`silence_ends_the_session_with_everything_told_in_order`).
//! - At 5 % loss in both directions nothing is lost to the application, for at most 1.5 NAKs a missing
//!   datagram and no more retransmissions than NAKs
//!   (`at_five_per_cent_loss_everything_is_recovered_with_few_naks_and_retransmissions`); without faults
//!   nobody asks for anything (`without_faults_nobody_asks_for_anything`).
//! - All this holds for both transports, under loss to 30 %, bursts, duplication, reordering, damaged
//!   packets, partitions one way and both, sequence wrap, ends that stand still or die (`tests/sim`). What
//!   is peculiar to LBT-RU is promised in [`ru`].
//! - What came before a stream's first number is not reported: a session begins with the first datagram
//!   heard, a topic with the first message after it was subscribed
//!   (`the_first_message_sets_the_start_and_what_came_before_is_not_reported`). If the session was heard
//!   from its datagram number 0 on, topics begin at 0 and loss at their head is reported
//!   (`a_session_heard_from_its_first_datagram_reports_loss_at_the_head_of_a_topic`). Session messages run
//!   from a session's begin; who heard one before the first datagram is owed that
//!   (`who_knew_a_session_before_its_first_datagram_gets_message_0_or_is_told_that_it_is_lost`).
//! - A few datagrams in a source's name do not silence its session: numbers elsewhere are believed when packets go
//!   on from there and the session does not go on where it was
//!   (`a_few_numbers_far_ahead_are_not_believed_and_the_session_goes_on`). By the same rule a source that was started
//!   again in the same session is noticed
//!   (`a_source_that_was_started_again_in_the_same_session_ends_the_streams_of_its_last_run`).
//! - A late joiner does not wait for what was missing before it came
//!   (`a_topic_subscribed_later_does_not_wait_for_what_was_missing_before`).
//! - A malformed datagram delivers nothing, is counted, and stays missing
//!   (`a_malformed_datagram_delivers_nothing_and_stays_missing`); no input panics
//!   (`mutated_packets_panic_nowhere_and_leave_every_promise_intact`).
//! - Memory has a ceiling; at the ceiling the oldest gaps are given up, what was received is kept
//!   (`when_what_may_be_held_is_full_the_oldest_gap_is_given_up`,
//!   `more_missing_numbers_than_the_bound_are_one_loss_and_what_was_received_is_kept`).
//! - A receiver that asks for everything again and again takes no more than the retransmission rate
//!   (`beyond_the_retransmission_rate_naks_are_delayed_and_beyond_the_queue_shed`,
//!   `within_the_ignore_interval_the_first_nak_is_confirmed_and_the_rest_are_dropped`).
//! - What lies beyond the transport is promised where it is: [`recovery`], [`failover`], [`resolution`].
//! - Packets are what unmodified tshark expects, byte for byte those of the golden captures
//!   (`every_packet_reads_as_tshark_reads_it_and_is_built_again_byte_for_byte`,
//!   `a_source_sends_the_golden_datagrams_byte_for_byte`, `a_lossy_session_is_what_the_dissectors_expect`,
//!   `a_lossy_unicast_session_is_what_the_dissectors_expect`,
//!   `with_packet_options_the_datagrams_are_those_of_um_6_byte_for_byte`).
//! - Every timer works after a month at rest as it did at the begin (`tests/weeks.rs`, `tests/deafness.rs`,
//!   `tests/unicast/weeks.rs`, `after_a_month_it_asks_is_answered_and_gives_up_as_at_the_begin`).
//! - A run follows from its seed (`a_run_repeats_exactly_from_its_seed`).
//!
//! # Defaults beside the field's
//!
//! The field's defaults are made for slow networks of many hosts; ours for a LAN on which recovery is a
//! matter of milliseconds. Every value can be set back. What LBT-RM and LBT-RU share stands without the
//! field's `transport_lbtrm_` and `transport_lbtru_`.
//!
//! | option | here | field | why |
//! |---|---|---|---|
//! | `datagram_max_size` | 1,472 | 8,192 | no IP fragments, of which one lost loses all |
//! | `implicit_batching_minimum_length` | 65,507 (fill) | 2,048 | batch by nature: whoever drives flushes when there is nothing more to send |
//! | `implicit_batching_interval` | none | 200 ms | the same; no message waits for a timer |
//! | `data_rate_limit` | 1 Gbit/s | 10 Mbit/s | a real feed passes |
//! | `retransmit_rate_limit` | 200 Mbit/s | 5 Mbit/s | a fifth of the data rate, so that new data keeps four |
//! | `rate_interval` | 1 ms, token bucket | 10 ms, slots | the burst at a slot's start is what overflows switch ports |
//! | `transmission_window_size` | 32 MiB | 24 MiB | a quarter of a second at the data rate; recovery takes a hundredth |
//! | `transport_session_maximum_buffer` | 256 KiB | 64 KiB (TCP) | 2 ms at the data rate, four runs for the kernel |
//! | `ignore_interval` | 5 ms | 500 ms | half the NAK back-off, else the NAK for a lost retransmission is always ignored |
//! | `sm_minimum_interval` / `maximum` | 10 ms / 1 s | 200 ms / 10 s | the lost datagram before a pause is found in 10 ms; liveness in a second |
//! | `transport_topic_sequence_number_info_interval` | 1 s | 5 s | a lost tail is reported sooner; 8 bytes a topic and second |
//! | `nak_initial_backoff_interval` | 1 ms, weighted | 50 ms, even | reordering on a LAN is over in far less; late moments are likelier, which costs a group a third of the NAKs |
//! | `nak_backoff_interval` | 10 ms | 200 ms | ten times the longest LAN round trip |
//! | `nak_suppress_interval` | 20 ms | 1 s | the time in which a delayed retransmission comes |
//! | `nak_generation_interval` | 1 s | 10 s | older market data is not worth waiting for; about a hundred NAKs |
//! | `activity_timeout` | 10 s | 60 s | ten session messages |
//! | `delivery_control_maximum_total_map_entries` | 200,000 | 200,000 | |
//! | `delivery_control_maximum_burst_loss` | `maximum_missing` 65,536 | 1,024 | received messages are kept, the loss is one range |
//! | `delivery_control_loss_check_interval` | not needed | off | a gap is final when the transport settles it |
//! | `resolver_datagram_max_size` | 1,472 | 8,192 | no IP fragments |
//! | other `resolver_` intervals and limits | | the same | [`resolution`] can go on for ever, which the field does not |
//! | `retransmit_retention_size_limit` | 24 MiB a topic | the same | and at most 65,536 messages, so that their table is bounded too |
//! | `retransmit_request_outstanding_maximum` | 256 | 10 | ten at a time are ten a round trip |
//! | `retransmit_request_interval` | 500 ms, once answers stop | 500 ms | TCP loses nothing: who repeats while answers come makes a slow source slower |
//! | `retransmit_request_generation_interval` | 10 s without any answer | 10 s a message | a long history takes longer than that |
//! | `use_otr` | on, where messages are retained | with a store only | it costs nothing until the transport gives up |
//! | `otr_request_initial_delay` | 0 | 2 s | it begins when the transport has given up, not beside it |

pub mod authentication;
pub mod config;
pub mod congestion;
pub mod delivery;
pub mod encryption;
/// What is wrong with bytes from a peer.
pub mod error;
pub mod failover;
pub mod ordered;
pub mod presence;
pub mod rate;
pub mod recovery;
pub mod resolution;
pub mod rm;
pub mod ru;
pub mod session;
pub mod stream;
pub mod wire;
