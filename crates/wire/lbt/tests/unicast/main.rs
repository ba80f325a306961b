//! LBT-RU by its public interface: who gets into a session and how, what goes to whom, what ends it.

mod authentication;
mod bench;
#[path = "../support/ciphers.rs"]
mod ciphers;
mod encryption;
#[path = "../support/keys.rs"]
mod keys;
mod narrow;
#[path = "../support/pcap.rs"]
mod pcap;
#[path = "../support/mod.rs"]
mod support;
mod weeks;

use bench::{Bench, ID, MS, SOURCE, TOPIC, address, data_numbers, request};
use std::time::Duration;
use support::Event;
use tickcast_lbt::config::LbtruSourceConfig;
use tickcast_lbt::delivery::EndReason;
use tickcast_lbt::ru::{ClientEvent, RESET_INTERVALS, SYN_ANSWERS_MAX};
use tickcast_lbt::wire::lbtru::{Body, FLAG_SYN, NcfReason, Options, Packet};
use units::{Nanos, Sqn};

const CONNECT: Duration = Duration::from_millis(100);

fn payloads(events: &[Event]) -> Vec<u32> {
    let of = |e: &Event| match e {
        Event::Message { payload, .. } => payload.first_chunk().map(|b| u32::from_be_bytes(*b)),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[test]
fn a_receiver_asks_is_answered_acknowledges_and_hears_everything_from_then_on() {
    let mut b = Bench::new(|_| {});
    b.publish_many(3);
    let at = b.add_receiver(|_| {});
    b.pass(|_, _| true);
    let Some((to, answer)) = b.sent.first().cloned() else { panic!("an answer") };
    let answer = Packet::parse(&answer).expect("well-formed");
    assert_eq!(to, address(at));
    let body = Body::SessionMessage { sm_sqn: 0, lead_sqn: Sqn(2), trail_sqn: Sqn(0) };
    let options = Options { session_id: Some(ID), client_id: Some(1) };
    assert_eq!((answer.body, answer.flags, answer.options), (body, FLAG_SYN, options));
    assert_eq!(b.source.poll_event(), Some(ClientEvent::Connected(address(at))));
    b.publish_many(5);
    b.pass(|_, _| true);
    assert_eq!(payloads(&b.ends[at].log.events), [0, 1, 2, 3, 4], "what was sent before it came is not");
    let client = *b.source.clients().next().expect("one");
    assert_eq!((client.address, client.acked), (address(at), Sqn(2)));
    b.run(MS * 600, |_, _| true);
    assert_eq!(b.source.clients().next().map(|c| c.acked), Some(Sqn(7)), "as a sign of life says later");
    let c = &b.counters.clients;
    assert_eq!((c.creqs_rcved.get(), c.syns_sent.get(), c.clients_connected.get()), (1, 1, 1));
    assert_eq!((c.unheard.get(), c.num_clients.get()), (3, 1));
    assert!(c.acks_rcved.get() >= 2);
}

#[test]
fn a_late_start_gets_what_the_source_still_has() {
    let mut b = Bench::new(|_| {});
    b.publish_many(20);
    b.pass(|_, _| true);
    let at = b.add_receiver(|c| c.session.late_start = true);
    b.run(MS * 100, |_, _| true);
    assert_eq!(payloads(&b.ends[at].log.events), (0..20).collect::<Vec<_>>());
}

#[test]
fn the_session_goes_on_if_any_packet_of_the_connection_is_lost() {
    for lost in 0..4 {
        let mut b = Bench::new(|_| {});
        let at = b.add_receiver(|_| {});
        let mut count = 0;
        // answers are the first things the source sends
        b.run(MS * 450, |_, _| {
            count += 1;
            count > lost
        });
        b.publish_many(3);
        b.run(MS * 100, |_, _| true);
        assert_eq!(payloads(&b.ends[at].log.events), [0, 1, 2], "{lost} answers lost");
    }
}

#[test]
fn a_session_that_has_sent_nothing_keeps_its_clients_and_their_first_message_is_not_lost_in_silence() {
    let mut b = Bench::connected(1);
    b.run(MS * 60_000, |_, _| true);
    assert!(!b.ends[0].receiver.has_ended());
    // The first datagram is lost; the next one shows it.
    b.publish_many(1);
    b.pass(|_, _| false);
    b.publish_many(1);
    b.run(MS * 100, |_, _| true);
    assert_eq!(payloads(&b.ends[0].log.events), [0, 0]);
}

#[test]
fn an_acknowledgement_that_is_lost_is_repeated_within_a_connect_interval() {
    let mut b = Bench::new(|_| {});
    let at = b.add_receiver(|_| {});
    let feedback = b.ends[at].receiver.poll_transmit(b.now).expect("a request").datagram.to_vec();
    b.source.on_datagram(b.now, address(at), &feedback).expect("well-formed");
    let answer = b.drained().remove(0).1;
    b.ends[at].hear(b.now, &answer);
    while b.ends[at].receiver.poll_transmit(b.now).is_some() {}
    assert_eq!(b.source.clients().count(), 0, "the acknowledgement did not arrive");
    b.publish(&7u32.to_be_bytes());
    b.run(CONNECT * 2, |_, _| true);
    assert_eq!(payloads(&b.ends[at].log.events), [7], "with what was sent meanwhile");
}

#[test]
fn a_source_that_does_not_answer_is_asked_so_often_and_no_more() {
    let mut b = Bench::new(|_| {});
    let at = b.add_receiver(|c| c.connect_maximum = 20);
    b.run(MS * 1_950, |_, _| false);
    assert_eq!(b.ends[at].counters.connection.creqs_sent.get(), 20);
    assert!(!b.ends[at].receiver.has_ended());
    b.run(MS * 100, |_, _| false);
    assert!(b.ends[at].receiver.has_ended());
    assert_eq!(b.ends[at].counters.connection.creqs_sent.get(), 20);
}

#[test]
fn an_address_that_answers_for_another_session_is_given_up_within_a_second() {
    let mut b = Bench::new(|_| {});
    let at = b.add_receiver(|_| {});
    let answer = |client_id, session_id| {
        let mut datagram = Vec::new();
        let options = Options { session_id: Some(session_id), client_id: Some(client_id) };
        let body = Body::SessionMessage { sm_sqn: 0, lead_sqn: Sqn(u32::MAX), trail_sqn: Sqn(0) };
        Packet { flags: FLAG_SYN, ..Packet::new(body, options) }.emit(&mut datagram);
        datagram
    };
    let hear = |b: &mut Bench, client_id, session_id| {
        let end = &mut b.ends[at];
        end.receiver.on_datagram(b.now, SOURCE, &answer(client_id, session_id), &mut end.log).is_ok()
    };
    // Who does not know what this receiver has asked proves nothing.
    assert!(!hear(&mut b, 9, ID + 1));
    b.run(CONNECT * (RESET_INTERVALS + 1), |_, _| false);
    // Nor does an answer that was late.
    assert!(!hear(&mut b, 1, ID + 1));
    assert!(hear(&mut b, 1, ID));
    b.run(CONNECT * (RESET_INTERVALS + 1), |_, _| false);
    assert!(!b.ends[at].receiver.has_ended());
    let at = b.add_receiver(|_| {});
    let end = &mut b.ends[at];
    assert!(end.receiver.on_datagram(b.now, SOURCE, &answer(2, ID + 1), &mut end.log).is_err());
    b.run(CONNECT * (RESET_INTERVALS + 1), |_, _| false);
    assert_eq!(b.ends[at].receiver.end_reason(), Some(EndReason::Reset));
}

#[test]
fn who_asks_for_a_session_that_is_gone_learns_it_from_the_one_in_its_place_also_while_that_ends() {
    let mut b = Bench::connected(1);
    let at = b.add_receiver_of(ID - 1, |_| {});
    // To the source it is the client that it has, which shares the socket: its requests are not refused.
    b.ends[at].address = b.ends[0].address;
    b.source.end(b.now);
    b.run(CONNECT * (RESET_INTERVALS + 1), |_, _| true);
    assert_eq!(b.ends[at].receiver.end_reason(), Some(EndReason::Reset));
    assert_eq!(b.ends[0].receiver.end_reason(), Some(EndReason::Ended));
    assert_eq!(b.ends[0].counters.connection.rsts_rcved.get(), 0);
}

#[test]
fn requests_in_a_strangers_name_cost_the_stranger_a_few_short_packets_and_the_source_nothing() {
    let mut b = Bench::connected(1);
    let memory = b.source.memory_bytes();
    for id in 0..10_000 {
        b.arrive(address(9), &request(id));
        b.pass(|_, _| true);
        b.publish(b"data");
    }
    let to_stranger: Vec<_> = b.sent.iter().filter(|(to, _)| *to == address(9)).collect();
    assert_eq!(to_stranger.len(), usize::from(SYN_ANSWERS_MAX));
    assert!(to_stranger.iter().all(|(_, datagram)| datagram.len() == 32));
    assert_eq!(b.counters.clients.creqs_ignored.get(), 10_000 - u64::from(SYN_ANSWERS_MAX));
    b.pass(|_, _| true);
    for n in 0..60_000u32 {
        let stranger = std::net::SocketAddrV4::new(n.wrapping_mul(77_777).into(), 14_360);
        b.arrive(stranger, &request(n));
    }
    assert!(b.counters.clients.replies_dropped.get() > 50_000, "what waits to be said is bounded");
    b.drained();
    assert_eq!(b.source.clients().count(), 1);
    assert_eq!(b.source.memory_bytes(), memory);
    b.publish(b"last");
    b.pass(|_, _| true);
    assert!(
        matches!(b.ends[0].log.events.last(), Some(Event::Message { payload, .. }) if payload == b"last")
    );
}

#[test]
fn an_acknowledgement_makes_a_client_only_with_the_sessions_id_and_a_number_of_its_window() {
    let mut b = Bench::connected(1);
    b.publish_many(10);
    b.pass(|_, _| true);
    b.sent.clear();
    for (session_id, sqn) in [(ID + 1, 9), (ID, 10), (ID, 1 << 30), (ID, u32::MAX - 1)] {
        b.ack(address(5), session_id, sqn);
        b.pass(|_, _| true);
        assert_eq!(b.source.clients().count(), 1, "{session_id:#x} {sqn}");
    }
    assert!(b.sent.iter().all(|(to, datagram)| *to == address(5) && datagram.len() == 4), "resets");
    assert_eq!((b.counters.clients.dgrams_dropped_sid.get(), b.counters.clients.acks_dropped.get()), (1, 3));
    assert_eq!(b.counters.clients.rsts_sent.get(), 4);
    b.ack(address(5), ID, 9);
    assert_eq!(b.source.clients().count(), 2);
}

#[test]
fn more_clients_than_allowed_are_refused() {
    let mut b = Bench::new(|c| c.maximum_clients = 2);
    b.add_receivers(3);
    b.run(CONNECT * (RESET_INTERVALS + 1), |_, _| true);
    assert_eq!(b.source.clients().count(), 2);
    assert!(b.ends[2].receiver.has_ended() && !b.ends[0].receiver.has_ended());
    assert!(
        b.counters.clients.clients_refused.get() > 0 && b.ends[2].counters.connection.rsts_rcved.get() > 0
    );
    b.ack(address(7), ID, u32::MAX);
    assert_eq!(b.source.clients().count(), 2, "nor by an acknowledgement alone");
}

#[test]
fn a_silent_client_is_dropped_and_told_so() {
    let mut b = Bench::connected(2);
    assert!(matches!(b.source.poll_event(), Some(ClientEvent::Connected(_))));
    assert!(matches!(b.source.poll_event(), Some(ClientEvent::Connected(_))));
    let gone = b.ends.remove(1);
    b.run(Duration::from_secs(11), |_, _| true);
    assert_eq!(b.source.poll_event(), Some(ClientEvent::TimedOut(gone.address)));
    assert_eq!(b.source.poll_event(), None);
    assert_eq!(b.source.clients().map(|c| c.address).collect::<Vec<_>>(), [address(0)]);
    assert_eq!((b.counters.clients.clients_timed_out.get(), b.counters.clients.num_clients.get()), (1, 1));
    let last = b.sent.iter().rfind(|(to, _)| *to == gone.address).expect("it was sent something");
    assert_eq!(last.1, [7, 0, 0, 0], "a reset without options");
    b.publish(b"x");
    b.sent.clear();
    b.pass(|_, _| true);
    assert!(data_numbers(&b.sent, gone.address).is_empty());
}

#[test]
fn a_client_that_leaves_is_forgotten_at_once_and_one_of_whom_others_say_so_connects_again() {
    let mut b = Bench::connected(2);
    let leave = b.ends[0].receiver.leave().expect("it is connected").datagram.to_vec();
    assert!(b.ends[0].receiver.leave().is_none(), "once");
    for _ in 0..2 {
        b.source.on_datagram(b.now, address(0), &leave).expect("an ACK of the session");
    }
    assert_eq!(b.source.clients().map(|client| client.address).collect::<Vec<_>>(), [address(1)]);
    let clients = &b.counters.clients;
    let counted = (clients.clients_left.get(), clients.clients_timed_out.get(), clients.num_clients.get());
    assert_eq!(counted, (1, 0, 1));
    // The other has not said so itself.
    b.source.on_datagram(b.now, address(1), &leave).expect("an ACK of the session");
    assert_eq!(b.source.clients().count(), 0);
    b.publish(b"meanwhile");
    b.ends.swap_remove(0);
    b.run(MS * 1_000, |_, _| true);
    assert_eq!(b.source.clients().count(), 1, "it is back");
    assert_eq!(b.ends[0].log.events.iter().filter(|e| matches!(e, Event::Message { .. })).count(), 1);
    let mut unconnected = Bench::new(|_| {});
    unconnected.add_receivers(1);
    assert!(unconnected.ends[0].receiver.leave().is_none(), "nobody knows it");
}

#[test]
fn a_client_is_behind_until_it_has_heard_of_the_last_datagram() {
    let mut b = Bench::connected(2);
    assert_eq!(b.source.clients_behind(), 0);
    b.publish_many(3);
    b.source.end(b.now);
    b.pass(|to, _| to == address(0));
    assert!(b.source.has_ended());
    assert_eq!(b.source.clients_behind(), 2, "nobody has said so yet");
    assert!(b.ends[0].receiver.has_ended());
    let leave = b.ends[0].receiver.leave().expect("it was told everything").datagram.to_vec();
    b.source.on_datagram(b.now, address(0), &leave).expect("an ACK of the session");
    assert_eq!(b.source.clients_behind(), 1);
    // A receiver that does not say that it leaves says in time what it has heard of.
    let last = data_numbers(&b.sent, address(1)).into_iter().map(|(number, _)| number).max();
    b.ack(address(1), ID, last.expect("it was sent"));
    assert_eq!(b.source.clients_behind(), 0);
}

#[test]
fn a_client_that_was_dropped_connects_again_and_recovers_what_it_missed() {
    let mut b = Bench::new(|_| {});
    b.add_receiver(|c| c.session.activity_timeout = Duration::from_secs(60));
    b.pass(|_, _| true);
    b.publish_many(1);
    b.pass(|_, _| true);
    // it stands still while the source drops it, and finds the reset first when it goes on
    let mut end = b.ends.remove(0);
    b.publish_many(50);
    b.run(Duration::from_secs(9), |_, _| true);
    b.publish_many(50);
    b.run(Duration::from_millis(1_500), |_, _| true);
    assert_eq!(b.source.clients().count(), 0);
    b.publish_many(50);
    b.pass(|_, _| true);
    end.hear(b.now, &[7, 0, 0, 0]);
    b.ends.push(end);
    b.run(MS * 500, |_, _| true);
    assert_eq!(b.source.clients().count(), 1);
    let end = &b.ends[0];
    assert!(!end.receiver.has_ended() && end.counters.connection.rsts_outlived.get() == 1);
    let expected: Vec<_> = (0..1).chain(0..50).chain(0..50).chain(0..50).collect();
    assert_eq!(payloads(&end.log.events), expected);
}

#[test]
fn a_reset_that_is_not_the_sources_ends_nothing() {
    let mut b = Bench::connected(1);
    for _ in 0..100 {
        let now = b.now;
        b.ends[0].hear(now, &[7, 0, 0, 0]);
        b.run(MS * 37, |_, _| true);
    }
    let end = &b.ends[0];
    assert!(!end.receiver.has_ended());
    assert_eq!(end.counters.connection.rsts_rcved.get(), 100);
    assert!(end.counters.connection.creqs_sent.get() <= 1 + 100, "one request a connect interval");
    assert_eq!(b.source.clients().count(), 1);
}

#[test]
fn a_reset_of_the_source_ends_the_session() {
    let mut b = Bench::connected(1);
    b.publish_many(2);
    b.pass(|_, _| true);
    let end = &mut b.ends[0];
    end.hear(b.now, &[7, 0, 0, 0]);
    // nothing answers any more
    while end.receiver.next_wakeup() < Nanos::NEVER {
        b.now = end.receiver.next_wakeup();
        end.receiver.on_wakeup(b.now, &mut end.log);
        while end.receiver.poll_transmit(b.now).is_some() {}
    }
    assert!(b.now <= Nanos::ZERO + CONNECT * RESET_INTERVALS);
    let reason = |e: &Event| matches!(e, Event::End { reason: EndReason::Reset, next: 2, .. });
    assert!(end.log.events.last().is_some_and(reason), "{:?}", end.log.events);
}

#[test]
fn every_client_gets_every_datagram_once_and_in_order() {
    let mut b = Bench::connected(3);
    b.publish_many(100);
    b.pass(|_, _| true);
    for at in 0..3 {
        let numbers: Vec<_> = data_numbers(&b.sent, address(at)).into_iter().map(|(n, _)| n).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        assert_eq!(payloads(&b.ends[at].log.events), (0..100).collect::<Vec<_>>());
    }
    let c = &b.counters.session;
    assert_eq!((c.msgs_sent.get(), c.txw_msgs.get(), c.rctlr_data_msgs.get()), (300, 100, 0));
}

#[test]
fn the_same_run_is_handed_out_for_all_clients_at_once_and_may_be_sent_in_part() {
    let mut b = Bench::connected(4);
    b.publish_many(10);
    let transmit = b.source.poll_transmit(b.now).expect("data");
    assert_eq!((transmit.to.len(), transmit.run.count, transmit.count()), (4, 10, 40));
    assert_eq!(transmit.run.bytes.len(), 10 * transmit.run.segment_len);
    b.source.sent(b.now, 14);
    let transmit = b.source.poll_transmit(b.now).expect("the rest for the second client");
    assert_eq!((transmit.to, transmit.run.count), (&[address(1)][..], 6));
    b.source.sent(b.now, 6);
    let transmit = b.source.poll_transmit(b.now).expect("the others");
    assert_eq!((transmit.to, transmit.run.count), (&[address(2), address(3)][..], 10));
    b.source.sent(b.now, 20);
    assert!(b.source.poll_transmit(b.now).is_none());
    assert_eq!(b.counters.session.msgs_sent.get(), 40);
}

#[test]
fn a_retransmission_goes_to_the_client_that_asked_and_to_no_other() {
    let mut b = Bench::connected(3);
    b.publish_many(10);
    let lost = |to, datagram: &[u8]| {
        let p = Packet::parse(datagram).expect("well-formed");
        to == address(1) && !p.is_retransmission() && matches!(p.body, Body::Data { sqn: Sqn(4..=6), .. })
    };
    b.run(MS * 50, |to, datagram| !lost(to, datagram));
    let again = |at| data_numbers(&b.sent, address(at)).into_iter().filter(|(_, again)| *again).count();
    assert_eq!((again(0), again(1), again(2)), (0, 3, 0));
    assert_eq!(payloads(&b.ends[1].log.events), (0..10).collect::<Vec<_>>());
    let asked: Vec<_> = b.source.clients().map(|c| (c.naks_rcved, c.rxs_sent)).collect();
    assert_eq!(asked, [(0, 0), (3, 3), (0, 0)]);
    assert_eq!(b.counters.session.rxs_sent.get(), 3);
}

#[test]
fn what_one_client_was_just_sent_again_is_sent_again_to_another_that_lost_it_too() {
    let mut b = Bench::connected(2);
    b.publish_many(3);
    b.drained();
    b.nak(address(0), &[1]);
    b.nak(address(1), &[1]);
    let sent = b.drained();
    assert_eq!(data_numbers(&sent, address(0)), [(1, true)]);
    assert_eq!(data_numbers(&sent, address(1)), [(1, true)]);
    b.nak(address(1), &[1]);
    let sent = b.drained();
    let ncf = Packet::parse(&sent[0].1).expect("well-formed");
    assert_eq!((sent.len(), sent[0].0), (1, address(1)));
    assert!(matches!(ncf.body, Body::Ncf { reason: NcfReason::Ignored, .. }), "{ncf:?}");
    assert_eq!((b.counters.session.naks_ignored.get(), b.counters.session.ncfs_sent.get()), (1, 1));
}

#[test]
fn clients_take_turns_at_the_retransmission_rate() {
    let mut b = Bench::new(|c: &mut LbtruSourceConfig| {
        c.session.retransmit_rate_limit = 1_000_000;
        c.session.datagram_max_size = 500;
    });
    b.add_receivers(2);
    b.pass(|_, _| true);
    for _ in 0..400 {
        b.publish(&[7; 460]);
    }
    b.drained();
    b.nak(address(0), &(0..365).collect::<Vec<_>>());
    b.nak(address(1), &[399]);
    let mut sent = b.drained();
    for _ in 0..20 {
        b.now += MS * 4;
        sent.extend(b.drained());
    }
    assert_eq!(data_numbers(&sent, address(1)), [(399, true)], "it waited for its turn and no longer");
    let crybaby = data_numbers(&sent, address(0)).len();
    assert!((15..30).contains(&crybaby), "{crybaby} of 365 within the rate");
    let first = sent.iter().position(|(to, _)| *to == address(1)).expect("it came");
    assert!(first < 8, "among the first, at place {first}");
    assert!(b.counters.session.rctlr_rx_msgs.get() > 300);
}

#[test]
fn the_data_rate_counts_each_clients_copy() {
    let mut b = Bench::new(|c: &mut LbtruSourceConfig| {
        c.session.data_rate_limit = 80_000_000;
        c.session.retransmit_rate_limit = 8_000_000;
    });
    b.add_receivers(5);
    b.pass(|_, _| true);
    let mut bytes = 0;
    let end = b.now + MS * 100;
    while b.now < end {
        while b.source.send(b.now, b.topic, &[&[7; 1_000]]).is_ok() {
            b.source.flush();
        }
        bytes += b.drained().iter().map(|(_, d)| d.len()).sum::<usize>();
        b.now = b.source.next_wakeup().max(b.now + Duration::from_nanos(1));
    }
    assert!((970_000..=1_020_000).contains(&bytes), "{bytes} bytes in 100 ms at 10 MB/s");
}

#[test]
fn naks_from_an_address_that_is_no_client_are_refused() {
    let mut b = Bench::connected(1);
    b.publish_many(5);
    b.pass(|_, _| true);
    b.nak(address(8), &[1, 2, 3]);
    let sent = b.drained();
    assert_eq!(sent, [(address(8), vec![7, 0, 0, 0])]);
    assert_eq!(b.counters.clients.dgrams_dropped_client.get(), 1);
    assert_eq!(b.counters.session.naks_rcved.get(), 0);
}

#[test]
fn what_receivers_do_not_send_is_counted_and_dropped() {
    let mut b = Bench::connected(1);
    let session = Options::session(Some(ID));
    let data = Packet::new(Body::Data { sqn: Sqn(1), trail_sqn: Sqn(0) }, session);
    b.arrive(address(0), &data);
    b.arrive(address(0), &Packet::new(Body::Reset, session));
    b.arrive(address(0), &Packet { flags: 9, ..request(1) });
    assert!(b.source.on_datagram(b.now, address(0), &[1, 2]).is_err());
    assert_eq!(b.counters.session.nak_pckts_dropped.get(), 4);
    assert!(b.drained().is_empty());
}

#[test]
fn a_receiver_takes_nothing_of_another_session_address_or_client() {
    let mut b = Bench::new(|_| {});
    let at = b.add_receiver(|_| {});
    let end = &mut b.ends[at];
    let mut take = |from, flags, body, session_id, client_id| {
        let mut datagram = Vec::new();
        let packet = Packet::new(body, Options { session_id: Some(session_id), client_id });
        Packet { flags, ..packet }.emit(&mut datagram);
        end.receiver.on_datagram(b.now, from, &datagram, &mut end.log).is_ok()
    };
    let sm = Body::SessionMessage { sm_sqn: 0, lead_sqn: Sqn(5), trail_sqn: Sqn(0) };
    assert!(!take(address(3), FLAG_SYN, sm, ID, Some(1)), "from elsewhere");
    assert!(!take(SOURCE, FLAG_SYN, sm, ID + 1, Some(1)), "another session");
    assert!(!take(SOURCE, FLAG_SYN, sm, ID, Some(2)), "an answer to another receiver");
    assert!(take(SOURCE, 0, sm, ID, None), "before the answer: left alone");
    assert!(take(SOURCE, FLAG_SYN, sm, ID, Some(1)));
    assert!(!take(SOURCE, 0, Body::Ack { sqn: Sqn(0) }, ID, None), "sources do not acknowledge");
    let c = &end.counters;
    assert_eq!((c.connection.dgrams_dropped_sid.get(), c.connection.dgrams_dropped_early.get()), (2, 1));
    assert_eq!((c.session.dgrams_dropped_other.get(), c.session.dgrams_dropped_type.get()), (1, 1));
    assert_eq!((c.connection.syns_rcved.get(), c.session.sms_rcved.get()), (1, 1));
}

#[test]
fn a_silent_session_lives_by_its_session_messages_and_a_dead_source_is_noticed() {
    let mut b = Bench::connected(1);
    b.run(Duration::from_secs(30), |_, _| true);
    assert!(!b.ends[0].receiver.has_ended());
    assert!((30..40).contains(&b.counters.session.sms_sent.get()), "{}", b.counters.session.sms_sent.get());
    let acks = b.ends[0].counters.connection.acks_sent.get();
    assert!((60..70).contains(&acks), "{acks} signs of life in 30 s");
    b.run(Duration::from_secs(11), |_, _| false);
    assert!(b.ends[0].receiver.has_ended());
}

#[test]
fn the_end_of_a_session_reaches_its_clients_and_later_requests_are_refused() {
    let mut b = Bench::connected(2);
    b.publish_many(4);
    b.source.end(b.now);
    let mut count = 0;
    b.run(MS * 100, |to, _| {
        count += 1;
        // the first client loses what it is sent first: data, announcement and end
        to != address(0) || count > 12
    });
    for at in 0..2 {
        let end = Event::End { token: at as u64, reason: EndReason::Ended, next: 4, tail_unknown: false };
        assert_eq!(b.ends[at].log.events.last(), Some(&end), "{at}");
        assert_eq!(payloads(&b.ends[at].log.events), [0, 1, 2, 3]);
    }
    assert!(b.source.has_ended());
    let late = b.add_receiver(|_| {});
    b.run(CONNECT * (RESET_INTERVALS + 1), |_, _| true);
    assert!(b.ends[late].receiver.has_ended() && b.ends[late].log.events.is_empty());
}

#[test]
fn a_source_that_started_again_is_another_session_for_its_old_receivers() {
    let mut old = Bench::connected(1);
    old.publish_many(3);
    old.pass(|_, _| true);
    let mut b = Bench::new(|_| {});
    b.now = old.now;
    let mut end = old.ends.remove(0);
    // the new source has another id; this receiver wants the old one
    end.hear(b.now, &[7, 0, 0, 0]);
    let mut datagram = Vec::new();
    let options = Options { session_id: Some(ID + 1), client_id: Some(1) };
    let body = Body::SessionMessage { sm_sqn: 0, lead_sqn: Sqn(u32::MAX), trail_sqn: Sqn(0) };
    Packet { flags: FLAG_SYN, ..Packet::new(body, options) }.emit(&mut datagram);
    while !end.receiver.has_ended() {
        b.now = end.receiver.next_wakeup();
        assert!(end.receiver.on_datagram(b.now, SOURCE, &datagram, &mut end.log).is_err());
        end.receiver.on_wakeup(b.now, &mut end.log);
        while end.receiver.poll_transmit(b.now).is_some() {}
    }
    assert!(matches!(end.log.events.last(), Some(Event::End { reason: EndReason::Reset, .. })));
}

#[test]
fn clients_that_come_and_go_unasked_are_remembered_to_a_bound() {
    let mut b = Bench::new(|c| c.maximum_clients = 3);
    for n in 0..30 {
        b.ack(address(n), ID, u32::MAX);
        b.now += Duration::from_secs(11);
        b.source.on_wakeup(b.now);
        b.drained();
    }
    assert_eq!(std::iter::from_fn(|| b.source.poll_event()).count(), 6);
    assert_eq!(b.counters.clients.events_dropped.get(), 60 - 6);
}

#[test]
fn a_claim_is_written_in_place_behind_the_headers_of_this_transport() {
    let mut b = Bench::connected(1);
    let mut claim = b.source.claim(b.now, b.topic, 4).expect("room");
    claim.payload().copy_from_slice(&42u32.to_be_bytes());
    assert_eq!(claim.commit(), Sqn(0));
    b.source.flush();
    b.pass(|_, _| true);
    assert_eq!(payloads(&b.ends[0].log.events), [42]);
    let packet = Packet::parse(&b.sent[0].1).expect("well-formed");
    assert_eq!((packet.options, packet.rest.len()), (Options::session(Some(ID)), 16));
    assert_eq!(&packet.rest[4..8], TOPIC.to_be_bytes());
}
