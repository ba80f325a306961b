//! The receiving side, by its public interface: what it delivers, when it asks, what it gives up.

mod support;

use std::time::Duration;
use support::{Event, ReceiverBench, data, data_of, data_with, eot, fragment, sm, tsni};
use tickcast_lbt::config::{NakLaw, Order, ReceiverConfig};
use tickcast_lbt::delivery::{EndReason, SubscribeError};
use tickcast_lbt::error::WireError;
use tickcast_lbt::rm::SessionKey;
use tickcast_lbt::wire::lbtrm::{FLAG_RETRANSMISSION, Nak, Ncf, NcfReason, Packet, SessionHeader};
use units::{Nanos, Sqn};

const MS: Duration = Duration::from_millis(1);

/// Fixed waits: the first NAK after 1 ms, further ones every 10 ms.
fn bench() -> ReceiverBench {
    bench_with(|_| {})
}

fn bench_with(change: impl FnOnce(&mut ReceiverConfig)) -> ReceiverBench {
    let mut config = ReceiverConfig { nak_law: NakLaw::Fixed, ..ReceiverConfig::default() };
    change(&mut config);
    let mut b = ReceiverBench::new(&config);
    b.receiver.subscribe(7, 70).expect("free");
    b
}

fn begin(first: u32) -> Event {
    Event::Begin { token: 70, first }
}

fn got(sqn: u32, text: &str) -> Event {
    Event::Message { token: 70, first: sqn, sqn, payload: text.as_bytes().to_vec(), recovered: false }
}

fn recovered(sqn: u32, text: &str) -> Event {
    Event::Message { token: 70, first: sqn, sqn, payload: text.as_bytes().to_vec(), recovered: true }
}

fn lost(first: u32, count: u32) -> Event {
    Event::Lost { token: 70, first, count }
}

#[test]
fn messages_in_order_are_delivered_as_they_arrive() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a"), (9, 0, "not ours"), (7, 1, "b")]));
    b.take(&data(1, &[(7, 2, "c")]));
    assert_eq!(b.log.take(), [begin(0), got(0, "a"), got(1, "b"), got(2, "c")]);
    assert_eq!((b.counters.msgs_rcved.get(), b.delivery.msgs_delivered.get()), (2, 3));
    assert_eq!(b.delivery.lbm_msgs_no_topic_rcved.get(), 1);
    assert_eq!(b.delivery.bytes_delivered.get(), 3);
    assert_eq!(b.naks(), [[]; 0]);
}

#[test]
fn what_follows_a_gap_waits_until_the_gap_is_closed_by_a_retransmission() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(2, &[(7, 2, "c")]));
    b.take(&data(3, &[(7, 3, "d")]));
    assert_eq!(b.log.take(), [begin(0), got(0, "a")]);
    assert_eq!((b.delivery.order_map_entries.get(), b.delivery.msgs_held.get()), (2, 2));
    b.take(&data_with(1, 0, true, &[(7, 1, "b")]));
    assert_eq!(b.log.take(), [recovered(1, "b"), got(2, "c"), got(3, "d")]);
    assert_eq!((b.counters.lost.get(), b.counters.recovered.get(), b.receiver.missing()), (1, 1, 0));
    assert_eq!((b.delivery.order_map_entries.get(), b.delivery.hold_bytes.get()), (0, 0));
    assert_eq!(b.delivery.order_map_entries_max.get(), 2);
}

#[test]
fn a_recovered_batch_is_delivered_whole_before_what_waited_for_it() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(2, &[(7, 4, "e"), (7, 5, "f")]));
    b.take(&data_with(1, 0, true, &[(7, 1, "b"), (7, 2, "c"), (7, 3, "d")]));
    let batch = [recovered(1, "b"), recovered(2, "c"), recovered(3, "d")];
    assert_eq!(b.log.take(), [&[begin(0), got(0, "a")][..], &batch, &[got(4, "e"), got(5, "f")]].concat());
    assert_eq!(b.delivery.lost_events.get(), 0);
}

#[test]
fn a_topic_without_a_gap_is_not_held_up_by_another_topics_gap() {
    let mut b = bench();
    b.receiver.subscribe(9, 90).expect("free");
    b.take(&data(0, &[(7, 0, "a"), (9, 0, "x")]));
    b.take(&data(2, &[(7, 2, "c"), (9, 1, "y")]));
    let y = Event::Message { token: 90, first: 1, sqn: 1, payload: b"y".to_vec(), recovered: false };
    assert_eq!(b.log.take().last(), Some(&y));
    b.take(&data_with(1, 0, true, &[(7, 1, "b")]));
    assert_eq!(b.log.take(), [recovered(1, "b"), got(2, "c")]);
}

#[test]
fn a_topics_gap_that_closes_is_delivered_though_an_older_datagram_is_still_missing() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(3, &[(7, 2, "c")]));
    b.take(&data_with(2, 0, true, &[(7, 1, "b")]));
    assert_eq!(b.log.take(), [begin(0), got(0, "a"), recovered(1, "b"), got(2, "c")]);
    assert_eq!(b.receiver.missing(), 1, "1 is somebody else's");
}

#[test]
fn reordered_datagrams_are_put_in_order_without_a_nak() {
    let mut b = bench();
    for t in [0, 2, 1, 4, 3] {
        b.take(&data(t, &[(7, t, "x")]));
    }
    let order: Vec<_> = b.log.take().into_iter().skip(1).collect();
    assert_eq!(order, [got(0, "x"), got(1, "x"), got(2, "x"), got(3, "x"), got(4, "x")]);
    b.advance(MS * 100);
    assert_eq!(b.naks(), [[]; 0]);
    assert_eq!((b.counters.out_of_order.get(), b.counters.naks_sent.get()), (2, 0));
}

#[test]
fn duplicates_are_dropped_and_counted() {
    let mut b = bench();
    for t in [0, 0, 1, 0, 1] {
        b.take(&data(t, &[(7, t, "x")]));
    }
    assert_eq!(b.log.take(), [begin(0), got(0, "x"), got(1, "x")]);
    assert_eq!((b.counters.duplicate_data.get(), b.counters.msgs_rcved.get()), (3, 2));
    assert_eq!(b.counters.bytes_rcved.get(), 2 * 33, "duplicates are in neither");
}

#[test]
fn naks_wait_the_initial_backoff_and_numbers_found_meanwhile_join() {
    let mut b = bench();
    b.take(&data(0, &[]));
    b.take(&data(3, &[]));
    b.advance(MS / 2);
    b.take(&data(5, &[]));
    assert_eq!(b.naks(), [[]; 0]);
    assert_eq!(b.receiver.next_wakeup(), Nanos::ZERO + MS);
    b.advance(MS / 2);
    assert_eq!(b.naks(), [vec![1, 2, 4]]);
    b.advance(MS * 9);
    assert_eq!(b.naks(), [[0; 0]; 0], "not before the back-off");
    b.take(&data_with(2, 0, true, &[]));
    b.advance(MS);
    assert_eq!(b.naks(), [vec![1, 4]]);
    assert_eq!((b.counters.nak_pckts_sent.get(), b.counters.naks_sent.get()), (2, 5));
    let c = &b.counters;
    assert_eq!((c.nak_tx_min.get(), c.nak_tx_mean_thousandths.get(), c.nak_tx_max.get()), (1, 1_000, 1));
    assert_eq!(c.nak_stm_min.get(), 10_000_000);
    b.take(&data_with(4, 0, true, &[]));
    let c = &b.counters;
    // the second repair took 10.5 ms and two NAKs; an eighth of it goes into the mean
    assert_eq!((c.nak_stm_min.get(), c.nak_stm_max.get()), (10_000_000, 10_500_000));
    assert_eq!((c.nak_stm_mean.get(), c.nak_tx_mean_thousandths.get()), (10_062_500, 1_125));
    assert_eq!((c.nak_tx_min.get(), c.nak_tx_max.get()), (1, 2));
}

#[test]
fn naks_go_to_the_sources_unicast_port_with_its_session() {
    let mut b = bench();
    b.take(&data(0, &[]));
    b.take(&data(2, &[]));
    b.advance(MS);
    let feedback = b.receiver.poll_transmit(b.now).expect("due");
    assert_eq!(feedback.to, "10.29.3.1:14391".parse().expect("address"));
    let Ok(Packet::Nak(nak)) = Packet::parse(feedback.datagram) else { panic!("not a NAK") };
    assert_eq!((nak.session, nak.format), (support::SESSION, 0));
}

#[test]
fn a_long_gap_takes_several_naks_of_bounded_size_and_a_bounded_burst() {
    let mut b = bench();
    [0, 1_000, 2_000, 3_000].iter().for_each(|t| b.take(&data(*t, &[])));
    b.advance(MS);
    let naks = b.naks();
    assert!(naks.iter().all(|n| n.len() <= 365));
    assert_eq!(naks.iter().map(Vec::len).sum::<usize>(), 2_048);
    b.advance(MS);
    assert_eq!(b.naks().iter().map(Vec::len).sum::<usize>(), 2_997 - 2_048, "the rest");
}

#[test]
fn a_confirmation_puts_the_next_nak_off_and_do_not_retry_is_loss_at_once() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(4, &[(7, 4, "e")]));
    b.advance(MS);
    assert_eq!(b.naks(), [vec![1, 2, 3]]);
    b.take(&ncf(NcfReason::RetransmitDelay, &[1]));
    b.take(&ncf(NcfReason::Shed, &[2]));
    b.take(&ncf(NcfReason::Ignored, &[2]));
    b.take(&ncf(NcfReason::Unknown(9), &[3]));
    b.advance(MS * 10);
    assert_eq!(b.naks(), [[]; 0], "each waits 20 ms longer, the second 40");
    b.advance(MS * 20);
    assert_eq!(b.naks(), [vec![1, 3]]);
    b.log.take();
    b.take(&ncf(NcfReason::DoNotRetry, &[1, 3]));
    assert_eq!(b.log.take(), [], "2 may still come");
    b.take(&ncf(NcfReason::DoNotRetry, &[2]));
    assert_eq!(b.log.take(), [lost(1, 3), got(4, "e")]);
    let c = &b.counters;
    assert_eq!((c.ncfs_rx_delay.get(), c.ncfs_shed.get(), c.ncfs_ignored.get()), (1, 1, 1));
    assert_eq!((c.ncfs_unknown.get(), c.ncfs_do_not_retry.get(), c.unrecovered_ncf.get()), (1, 3, 3));
}

fn ncf(reason: NcfReason, numbers: &[u32]) -> Vec<u8> {
    let numbers: Vec<_> = numbers.iter().map(|&n| Sqn(n)).collect();
    let mut out = Vec::new();
    Ncf::emit(support::SESSION, Sqn(0), reason, &numbers, &mut out);
    out
}

#[test]
fn after_the_generation_interval_a_number_is_loss_in_its_place() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(3, &[(7, 4, "e")]));
    b.advance_heard(MS * 500);
    b.take(&data(5, &[(7, 6, "g")]));
    b.log.take();
    b.advance_heard(MS * 499);
    assert_eq!(b.log.take(), []);
    b.advance_heard(MS);
    assert_eq!(b.log.take(), [lost(1, 3), got(4, "e")]);
    assert_eq!((b.counters.unrecovered_tmo.get(), b.receiver.missing()), (2, 1));
    b.advance_heard(MS * 500);
    assert_eq!(b.log.take(), [lost(5, 1), got(6, "g")]);
    b.take(&data_with(1, 0, true, &[(7, 1, "late")]));
    assert_eq!(b.log.take(), [], "what was reported lost stays lost");
    assert_eq!(b.delivery.msgs_lost.get(), 4);
}

#[test]
fn what_is_missing_while_the_source_is_stopped_has_time_until_it_goes_on_and_not_for_ever() {
    let stopped = |by: Duration| {
        let mut b = bench();
        b.take(&data(0, &[(7, 0, "a")]));
        b.take(&data(2, &[(7, 2, "c")]));
        b.log.take();
        b.advance(by);
        b
    };
    // It goes on, and answers what it was asked meanwhile.
    let mut b = stopped(MS * 3_999);
    b.take(&data(3, &[(7, 3, "d")]));
    b.advance(MS * 200);
    b.take(&data_with(1, 0, true, &[(7, 1, "b")]));
    assert_eq!(b.log.take(), [recovered(1, "b"), got(2, "c"), got(3, "d")]);
    assert_eq!(b.counters.unrecovered_tmo.get(), 0);
    // It goes on and does not answer.
    let mut b = stopped(MS * 2_000);
    b.take(&data(3, &[(7, 3, "d")]));
    b.advance_heard(MS * 499);
    assert_eq!(b.log.take(), []);
    b.advance_heard(MS);
    assert_eq!(b.log.take(), [lost(1, 1), got(2, "c"), got(3, "d")]);
    assert_eq!(stopped(MS * 4_000).log.take(), [lost(1, 1), got(2, "c")]);
    // It is heard now and then: its silence is believed once.
    let mut b = stopped(MS * 400);
    for sent in 3..6 {
        b.take(&data(sent, &[(7, sent, "more")]));
        b.advance(MS * 400);
    }
    assert_eq!(b.log.take()[0], lost(1, 1));
}

#[test]
fn after_a_pause_what_is_missing_gets_half_of_its_time_anew_and_who_is_always_late_no_more() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(2, &[(7, 2, "c")]));
    b.log.take();
    b.now += MS * 5_000;
    b.receiver.after_pause(b.now);
    b.advance(MS * 499);
    assert_eq!(b.log.take(), []);
    b.receiver.after_pause(b.now);
    b.advance(MS);
    assert_eq!(b.log.take(), [lost(1, 1), got(2, "c")]);
}

#[test]
fn numbers_below_the_trailing_edge_are_loss_at_once_and_never_asked_for() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data_with(5, 3, false, &[(7, 5, "f")]));
    assert_eq!(b.counters.unrecovered_txw.get(), 0, "one packet says so, and it may be forged");
    b.take(&data_with(6, 3, false, &[(7, 6, "g")]));
    b.advance(MS);
    assert_eq!(b.naks(), [vec![3, 4]]);
    assert_eq!(b.counters.unrecovered_txw.get(), 2);
    b.log.take();
    b.take(&sm(6, 5));
    b.take(&data_with(7, 5, false, &[]));
    assert_eq!(b.log.take(), [lost(1, 4), got(5, "f"), got(6, "g")]);
    assert_eq!(b.counters.unrecovered_txw.get(), 4);
}

#[test]
fn a_trailing_edge_is_believed_when_two_session_messages_tell_it_and_a_copy_is_not_another() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(5, &[(7, 5, "f")]));
    b.take(&sm(6, 4));
    b.take(&sm(6, 4));
    assert_eq!((b.counters.unrecovered_txw.get(), b.receiver.missing()), (0, 5));
    b.take(&sm(7, 4));
    assert_eq!((b.counters.unrecovered_txw.get(), b.receiver.missing()), (3, 3));
}

#[test]
fn the_span_of_a_topic_is_from_its_first_number_to_the_next_one() {
    let mut b = bench();
    assert_eq!(b.receiver.span(7, Sqn(u32::MAX)), None, "it has not begun");
    b.take(&data(0, &[(7, u32::MAX, "a"), (7, 0, "b"), (7, 1, "c")]));
    assert_eq!(b.receiver.span(7, Sqn(u32::MAX)), Some(3));
    assert_eq!(b.receiver.span(8, Sqn(0)), None, "nobody has subscribed to it");
}

#[test]
fn loss_of_datagrams_without_messages_of_the_topic_is_no_loss_to_it() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data_with(5, 5, false, &[(7, 1, "b")]));
    b.take(&sm(5, 5));
    assert_eq!(b.log.take(), [begin(0), got(0, "a"), got(1, "b")]);
    assert_eq!((b.counters.unrecovered_txw.get(), b.delivery.lost_events.get()), (4, 0));
}

#[test]
fn a_lost_tail_is_found_by_a_session_message_and_recovered() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&sm(2, 0));
    b.advance(MS);
    assert_eq!(b.naks(), [vec![1, 2]]);
    b.log.take();
    b.take(&data_with(2, 0, true, &[(7, 2, "c")]));
    b.take(&data_with(1, 0, true, &[(7, 1, "b")]));
    assert_eq!(b.log.take(), [recovered(1, "b"), recovered(2, "c")]);
    assert_eq!(b.counters.sms_rcved.get(), 1);
}

#[test]
fn a_tail_that_is_lost_for_good_is_reported_when_the_topic_is_announced() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&sm(1, 0));
    b.advance_heard(MS * 1000);
    b.log.take();
    b.take(&tsni(2, &[(7, 2), (9, 5)]));
    assert_eq!(b.log.take(), [lost(1, 2)]);
    b.take(&data(3, &[(7, 3, "d")]));
    assert_eq!(b.log.take(), [got(3, "d")]);
}

#[test]
fn an_announcement_before_which_a_datagram_is_missing_waits_for_it() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&tsni(2, &[(7, 2)]));
    b.take(&data(3, &[(7, 3, "d")]));
    b.log.take();
    b.take(&data_with(1, 0, true, &[(7, 1, "b")]));
    assert_eq!(b.log.take(), [recovered(1, "b")], "nothing is missing that it can have been in");
    b.advance(MS);
    assert_eq!(b.naks(), [[2]]);
    b.take(&again(tsni(2, &[(7, 2)])));
    assert_eq!(b.log.take(), [lost(2, 1), got(3, "d")]);
    assert_eq!(b.delivery.duplicates.get(), 0);
}

/// The same datagram as a retransmission.
fn again(mut datagram: Vec<u8>) -> Vec<u8> {
    datagram[16] |= FLAG_RETRANSMISSION;
    datagram
}

#[test]
fn the_first_message_sets_the_start_and_what_came_before_is_not_reported() {
    let mut b = bench();
    b.take(&data_with(100, 40, false, &[(7, 50, "x")]));
    b.take(&data_with(99, 40, false, &[(7, 49, "early")]));
    b.take(&data_with(60, 40, true, &[(7, 30, "for another")]));
    assert_eq!(b.log.take(), [begin(50), got(50, "x")]);
    b.advance(MS * 5);
    assert_eq!(b.naks(), [[]; 0]);
    assert_eq!(b.counters.before_start.get(), 2);
}

#[test]
fn a_retransmission_for_somebody_else_does_not_set_the_start() {
    let mut b = bench();
    b.take(&data_with(60, 40, true, &[(7, 30, "for another")]));
    b.take(&data_with(100, 40, false, &[(7, 50, "x")]));
    assert_eq!(b.log.take(), [begin(50), got(50, "x")]);
    assert_eq!(b.receiver.missing(), 0);
}

#[test]
fn a_topic_subscribed_later_does_not_wait_for_what_was_missing_before() {
    let mut b = bench();
    b.take(&data(10, &[]));
    b.take(&data(12, &[]));
    b.receiver.subscribe(9, 90).expect("free");
    b.take(&data(13, &[(9, 500, "now")]));
    let now = Event::Message { token: 90, first: 500, sqn: 500, payload: b"now".to_vec(), recovered: false };
    assert_eq!(b.log.take(), [Event::Begin { token: 90, first: 500 }, now]);
}

#[test]
fn the_first_message_of_a_topic_waits_for_what_is_missing_since_it_was_subscribed() {
    let mut b = bench();
    b.take(&data(10, &[]));
    b.take(&data(12, &[(7, 3, "d")]));
    assert_eq!(b.log.take(), []);
    b.take(&data_with(11, 0, true, &[(7, 2, "c")]));
    assert_eq!(b.log.take(), [begin(2), recovered(2, "c"), got(3, "d")]);
}

#[test]
fn a_session_heard_from_its_first_datagram_reports_loss_at_the_head_of_a_topic() {
    let mut b = bench();
    b.take(&data(0, &[]));
    b.take(&data_with(2, 2, false, &[(7, 3, "d")]));
    b.take(&sm(2, 2));
    assert_eq!(b.log.take(), [begin(0), lost(0, 3), got(3, "d")]);
}

/// A receiver of a session that was lost: datagram 5 and message 3 of its topic would have come next.
fn bench_again(change: impl FnOnce(&mut ReceiverConfig)) -> ReceiverBench {
    let mut b = bench_with(change);
    b.receiver.resume(Sqn(5));
    b.receiver.resume_topic(7, Sqn(3));
    b
}

#[test]
fn a_session_that_is_heard_again_asks_for_what_was_sent_meanwhile() {
    let mut b = bench_again(|_| {});
    b.take(&data(7, &[(7, 5, "f")]));
    assert_eq!(b.log.take(), []);
    b.advance(MS);
    assert_eq!(b.naks(), [[5, 6]]);
    b.take(&data_with(5, 0, true, &[(7, 3, "d")]));
    b.take(&data_with(6, 0, true, &[(7, 4, "e")]));
    assert_eq!(b.log.take(), [begin(3), recovered(3, "d"), recovered(4, "e"), got(5, "f")]);
}

#[test]
fn what_the_source_has_no_more_when_its_session_is_heard_again_is_lost_before_the_first_message() {
    let mut b = bench_again(|_| {});
    b.take(&data_with(900, 900, false, &[(7, 500, "x")]));
    assert_eq!(b.log.take(), [begin(3), lost(3, 497), got(500, "x")]);
    let mut b = bench_again(|c| c.maximum_missing = 100);
    b.take(&data(2_000_000, &[(7, 500, "x")]));
    assert_eq!(b.receiver.missing(), 100, "no more than is allowed");
    // An announcement tells it as well.
    let mut b = bench_again(|_| {});
    b.take(&tsni(5, &[(7, 9)]));
    assert_eq!(b.log.take(), [begin(3), lost(3, 7)]);
}

#[test]
fn a_session_that_is_heard_again_with_numbers_that_were_heard_is_of_another_run() {
    let mut b = bench_again(|_| {});
    b.take(&data(4, &[(7, 40, "x")]));
    assert_eq!(b.log.take(), [begin(40), got(40, "x")]);
    let mut b = bench_again(|_| {});
    b.take(&data(5, &[(7, 1, "x")]));
    assert_eq!(b.log.take(), [begin(1), got(1, "x")]);
}

#[test]
fn a_session_of_one_run_that_is_heard_again_goes_on_whatever_old_numbers_come_first() {
    let mut b = bench_again(|_| {});
    b.receiver.expect_one_run();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(4, &[(7, 2, "c")]));
    assert_eq!(b.log.take(), [], "a stranger has repeated them, or they are late");
    b.take(&data(5, &[(7, 3, "d")]));
    assert_eq!(b.log.take(), [begin(3), got(3, "d")]);
}

#[test]
fn a_session_that_is_lost_again_before_it_was_heard_is_owed_the_same() {
    let mut b = bench_again(|_| {});
    assert_eq!(b.receiver.next_number(), Some(Sqn(5)));
    b.advance(MS * 10_000);
    assert_eq!(b.log.take(), [Event::Unheard { token: 70, next: 3 }]);
    // One that is known from its begin is owed its first message.
    let mut b = bench();
    b.take(&sm(NONE_YET, 0));
    b.advance(MS * 10_000);
    assert_eq!(
        (b.log.take(), b.receiver.next_number()),
        (vec![Event::Unheard { token: 70, next: 0 }], Some(Sqn(0)))
    );
}

/// The number of the last datagram of a session that has sent none.
const NONE_YET: u32 = u32::MAX;

#[test]
fn who_knew_a_session_before_its_first_datagram_gets_message_0_or_is_told_that_it_is_lost() {
    for recovers in [true, false] {
        let mut b = bench();
        b.take(&sm(NONE_YET, 0));
        // A topic that is subscribed once the session is known is heard from its begin just so.
        b.receiver.subscribe(9, 90).expect("free");
        b.take(&data(1, &[(7, 1, "b"), (9, 1, "y")]));
        assert_eq!(b.log.take(), []);
        let begin_of_other = Event::Begin { token: 90, first: 0 };
        if recovers {
            b.take(&data_with(0, 0, true, &[(7, 0, "a"), (9, 0, "x")]));
            assert_eq!(b.log.events.len(), 6);
            assert!(b.log.events.contains(&recovered(0, "a")) && b.log.events.contains(&begin_of_other));
        } else {
            b.take(&sm(1, 1));
            b.take(&data_with(2, 1, false, &[]));
            assert_eq!(b.log.events[..3], [begin(0), lost(0, 1), got(1, "b")]);
            let other = Event::Lost { token: 90, first: 0, count: 1 };
            assert_eq!(b.log.events[3..5], [begin_of_other, other]);
        }
    }
}

#[test]
fn a_session_that_has_sent_nothing_is_heard_as_long_as_it_says_so() {
    let mut b = bench();
    for _ in 0..100 {
        b.advance(MS * 1_000);
        b.take(&sm(NONE_YET, 0));
    }
    assert!(!b.receiver.has_ended() && b.log.events.is_empty());
    b.take(&data(0, &[(7, 0, "a")]));
    assert_eq!(b.log.take(), [begin(0), got(0, "a")]);
}

#[test]
fn a_late_start_recovers_the_sources_window_in_order() {
    let mut b = bench_with(|c| c.late_start = true);
    b.take(&data_with(100, 98, false, &[(7, 50, "c")]));
    assert_eq!(b.log.take(), []);
    b.advance(MS);
    assert_eq!(b.naks(), [vec![98, 99]]);
    b.take(&data_with(99, 98, true, &[(7, 49, "b")]));
    b.take(&data_with(98, 98, true, &[(7, 48, "a")]));
    let all = [begin(48), recovered(48, "a"), recovered(49, "b"), got(50, "c")];
    assert_eq!(b.log.take(), all);
}

#[test]
fn arrival_order_delivers_at_once_and_reports_loss_when_it_is_final() {
    let mut b = bench();
    b.receiver.unsubscribe(7);
    b.receiver.subscribe_ordered(7, 70, Some(Order::Arrival)).expect("free");
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(3, &[(7, 3, "d")]));
    assert_eq!(b.log.take(), [begin(0), got(0, "a"), got(3, "d")]);
    b.take(&data_with(2, 0, true, &[(7, 2, "c")]));
    assert_eq!(b.log.take(), [recovered(2, "c")]);
    b.take(&ncf(NcfReason::DoNotRetry, &[1]));
    assert_eq!(b.log.take(), [], "that was not asked for");
    b.advance(MS);
    assert_eq!(b.naks(), [[1]]);
    b.take(&ncf(NcfReason::DoNotRetry, &[1]));
    assert_eq!(b.log.take(), [lost(1, 1)]);
    b.take(&data(4, &[(7, 4, "e")]));
    assert_eq!(b.log.take(), [got(4, "e")]);
    assert_eq!(b.delivery.hold_bytes_max.get(), 0, "nothing is copied");
}

#[test]
fn a_topic_in_order_of_arrival_is_put_in_order_from_a_number_on() {
    let mut b = bench_with(|c| c.delivery.ordered_delivery = Order::Arrival);
    b.take(&data(0, &[(7, 0, "a")]));
    // A fragment of a message that came early is put together with its other one.
    b.take(&data_of(2, 0, false, &fragment(7, 2, 1, 2, 4, b"cd")));
    b.take(&data(3, &[(7, 3, "e")]));
    assert_eq!(b.receiver.put_in_order(7), Some(Sqn(4)), "3 was delivered before its turn");
    assert_eq!(b.log.take(), [begin(0), got(0, "a"), got(3, "e")]);
    b.take(&data(5, &[(7, 5, "g")]));
    b.take(&data(6, &[(7, 6, "h")]));
    assert_eq!(b.log.take(), [], "they wait for their turn");
    b.take(&data_of(1, 0, true, &fragment(7, 1, 1, 0, 4, b"ab")));
    let whole = Event::Message { token: 70, first: 1, sqn: 2, payload: b"abcd".to_vec(), recovered: true };
    assert_eq!(b.log.take(), [whole]);
    b.take(&data_with(4, 0, true, &[(7, 4, "f")]));
    assert_eq!(b.log.take(), [recovered(4, "f"), got(5, "g"), got(6, "h")]);
    assert_eq!(b.receiver.put_in_order(7), Some(Sqn(7)));
    assert_eq!(b.receiver.put_in_order(9), None, "nobody hears it");
}

#[test]
fn numbers_pass_the_wrap_with_loss_on_both_sides_of_it() {
    let mut b = bench();
    let max = u32::MAX;
    b.take(&data_with(max - 1, max - 5, false, &[(7, max - 1, "a")]));
    b.take(&data_with(2, max - 5, false, &[(7, 2, "e")]));
    b.advance(MS);
    assert_eq!(b.naks(), [vec![max, 0, 1]]);
    b.take(&data_with(0, max - 5, true, &[(7, 0, "c")]));
    b.take(&data_with(max, max - 5, true, &[(7, max, "b")]));
    b.take(&data_with(3, 2, false, &[(7, 3, "f")]));
    b.take(&sm(3, 2));
    let all = [begin(max - 1), got(max - 1, "a"), recovered(max, "b"), recovered(0, "c"), lost(1, 1)];
    let seen = b.log.take();
    assert_eq!(seen[..5], all);
    assert_eq!(seen[5..], [got(2, "e"), got(3, "f")]);
}

#[test]
fn a_malformed_datagram_delivers_nothing_and_stays_missing() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    let whole = data(1, &[(7, 1, "b"), (7, 2, "c")]);
    for cut in 1..whole.len() {
        // at the end of a message the rest is a well-formed datagram
        if cut == 20 || cut == 33 {
            continue;
        }
        assert!(b.try_take(&whole[..cut]).is_err(), "{cut}");
    }
    assert_eq!(b.log.take(), [begin(0), got(0, "a")]);
    assert_eq!((b.counters.dgrams_dropped_size.get(), b.counters.dgrams_dropped_hdr.get()), (19, 24));
    b.take(&whole);
    assert_eq!(b.log.take(), [got(1, "b"), got(2, "c")]);
}

#[test]
fn what_is_not_this_sessions_is_refused_and_counted_by_its_kind() {
    let mut b = bench();
    let mut nak = Vec::new();
    Nak::emit(support::SESSION, &[Sqn(1)], &mut nak);
    assert!(b.try_take(&nak).is_err());
    assert_eq!(b.counters.dgrams_dropped_type.get(), 1);
    let mut version = data(0, &[]);
    version[0] = 0x10;
    assert!(b.try_take(&version).is_err());
    assert_eq!(b.counters.dgrams_dropped_version.get(), 1);
    let mut session = data(0, &[]);
    session[7] ^= 1;
    assert!(matches!(b.try_take(&session), Err(WireError::Inconsistent { .. })));
    assert_eq!(b.counters.dgrams_dropped_other.get(), 1);
    let key = SessionKey::of("10.29.3.1".parse().expect("address"), &session).expect("long enough");
    assert_ne!(key, b.receiver.key());
    assert_eq!(
        key.session,
        SessionHeader { session_id: support::SESSION.session_id ^ 1, ..support::SESSION }
    );
}

/// Forged datagrams far ahead, as many as `count`, a millisecond apart, while the session is silent.
fn forge_ahead(b: &mut ReceiverBench, first: u32, count: u32) {
    for i in 0..count {
        b.now += MS;
        let _ = b.try_take(&data_with(first + i, first, false, &[(7, first + i, "forged")]));
    }
}

#[test]
fn a_few_numbers_far_ahead_are_not_believed_and_the_session_goes_on() {
    for ahead in [5_000, 1_000_000, 0x4000_0000] {
        let mut b = bench();
        b.take(&data(0, &[(7, 0, "a")]));
        for number in 1..100 {
            forge_ahead(&mut b, ahead, 10);
            assert!(b.try_take(&sm(ahead + 20, ahead)).is_err());
            b.take(&data(number, &[(7, number, "b")]));
        }
        assert_eq!((b.receiver.missing(), b.counters.dgrams_dropped_other.get()), (0, 99 * 11));
        assert_eq!(b.log.events.len(), 101, "nothing but what the source sent");
        // While the source is idle its session messages refute them.
        for _ in 0..20 {
            forge_ahead(&mut b, ahead, 10);
            b.now += MS * 990;
            b.take(&sm(99, 0));
        }
        // One number is asked for, and not lost by that word alone.
        assert!(b.receiver.missing() <= 1, "{}", b.receiver.missing());
        b.take(&data(100, &[(7, 100, "b")]));
        assert_eq!((b.receiver.missing(), b.log.events.len()), (0, 102));
    }
}

#[test]
fn a_source_that_leaves_is_asked_for_a_long_tail_by_what_it_says_a_few_times() {
    for tail in [1_025, 5_000, 60_000] {
        let mut b = bench();
        b.take(&data(0, &[(7, 0, "a")]));
        // As often as one that closes says its last number, or as long as it is asked.
        for _ in 0..5 {
            b.now += MS * 50;
            let _ = b.try_take(&sm(tail, 0));
            b.advance(MS * 60);
            for t in b.naks().concat() {
                b.take(&data_with(t, 0, true, &[(7, t, "b")]));
            }
            // More than one NAK may be due.
            while b.receiver.missing() > 0 {
                b.advance(MS * 10);
                for t in b.naks().concat() {
                    b.take(&data_with(t, 0, true, &[(7, t, "b")]));
                }
            }
        }
        assert_eq!(b.log.events.len(), tail as usize + 2, "begin, and all");
        assert_eq!(b.counters.unrecovered_txw.get(), 0);
    }
}

#[test]
fn a_jump_is_believed_when_data_go_on_from_there_and_what_said_so_is_asked_for() {
    for (ahead, packets) in [(5_000, 16), (1_000_000, 256)] {
        let mut b = bench();
        b.take(&data(0, &[(7, 0, "a")]));
        for t in ahead..ahead + packets - 1 {
            assert!(b.try_take(&data_with(t, ahead, false, &[(7, t, "x")])).is_err());
        }
        let last = ahead + packets - 1;
        b.now += MS * 100;
        b.take(&data_with(last, ahead, false, &[(7, last, "x")]));
        b.take(&data_with(last + 1, ahead, false, &[(7, last + 1, "x")]));
        assert_eq!(b.receiver.missing(), u64::from(packets) - 1, "the others are past the trailing edge");
        b.advance(MS);
        assert_eq!(b.naks().concat(), (ahead..last).collect::<Vec<_>>());
    }
    // A tail of a silent source is told by session messages alone.
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    for wait in [0, 20, 40, 80, 160, 320] {
        b.now += MS * wait;
        assert!(b.try_take(&sm(5_000, 0)).is_err());
    }
    b.now += MS * 1_000;
    b.take(&sm(5_000, 0));
    assert_eq!(b.receiver.missing(), 5_000);
}

#[test]
fn a_jump_beyond_what_a_source_can_send_is_no_loss_but_another_run() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.log.take();
    forge_ahead(&mut b, 0x4000_0000, 256);
    let end = Event::End { token: 70, reason: EndReason::Restarted, next: 1, tail_unknown: false };
    assert_eq!(b.log.take(), [end]);
}

#[test]
fn a_source_that_was_started_again_in_the_same_session_ends_the_streams_of_its_last_run() {
    let mut b = bench();
    for t in 0..4_400 {
        b.take(&data(t, &[(7, t, "a")]));
    }
    b.log.take();
    // A forged datagram, or a few, and the session goes on: nothing.
    for t in 0..20 {
        b.now += MS * 500;
        b.take(&data(t, &[(7, t, "forged")]));
        b.take(&sm(30, 0));
        b.take(&sm(4_399, 0));
    }
    assert_eq!(b.log.take(), []);
    // The new run is idle, busy, or both.
    let mut wait = MS * 10;
    b.take(&sm(NONE_YET, 0));
    for t in 0..200 {
        if b.receiver.has_ended() {
            break;
        }
        b.now += MS * 10;
        b.take(&data(t, &[(7, t, "b")]));
        wait += MS * 10;
    }
    assert_eq!(wait.as_millis() / 100, 12, "in a second and a quarter");
    let end = Event::End { token: 70, reason: EndReason::Restarted, next: 4_400, tail_unknown: false };
    assert_eq!((b.log.take(), b.receiver.end_reason()), (vec![end], Some(EndReason::Restarted)));
}

/// A forged datagram with the very number that is due takes the place of the source's; the topic does not follow it.
#[test]
fn a_topics_number_that_the_datagrams_in_between_cannot_have_reached_is_left_out() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(1, &[(7, 0x4000_0000, "forged")]));
    b.take(&tsni(2, &[(7, 0x3000_0000)]));
    b.take(&data(3, &[(7, 3, "d")]));
    assert_eq!(b.log.take(), [begin(0), got(0, "a")]);
    assert_eq!(b.delivery.msgs_out_of_reach.get(), 2);
    // The source's own come in their place, or they are lost.
    b.advance_heard(MS * 1_000);
    assert_eq!(b.log.take(), [lost(1, 2), got(3, "d")]);
    // The same in order of arrival, and at the head of a session that is heard from its begin.
    let mut b = bench_with(|c| c.delivery.ordered_delivery = Order::Arrival);
    b.take(&data(0, &[(7, 0x4000_0000, "forged")]));
    b.take(&data(1, &[(7, 1, "b")]));
    b.take(&data(0, &[(7, 0, "a")]));
    assert_eq!(b.log.take(), [begin(0), got(1, "b"), got(0, "a")]);
    // Full datagrams of small messages are lost for good: that many can be.
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data_with(11, 11, false, &[(7, 50_001, "z")]));
    b.advance(MS * 10);
    b.take(&sm(11, 11));
    assert_eq!(b.log.take(), [begin(0), got(0, "a"), lost(1, 50_000), got(50_001, "z")]);
}

/// A duplicated burst before a pause looks like the beginning of a run, and the session messages after it say that
/// it is none.
#[test]
fn copies_of_a_whole_session_are_not_another_run() {
    let mut b = bench();
    for again in 0..3 {
        for t in 0..1_000 {
            b.take(&data(t, &[(7, t, "a")]));
        }
        b.advance(MS * 700);
        b.take(&sm(999, 0));
        assert!(!b.receiver.has_ended(), "{again}");
    }
    assert_eq!(b.log.events.len(), 1_001);
}

#[test]
fn more_missing_numbers_than_the_bound_are_one_loss_and_what_was_received_is_kept() {
    let mut b = bench_with(|c| c.maximum_missing = 100);
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(81, &[(7, 81, "b")]));
    b.take(&data(182, &[(7, 182, "c")]));
    assert_eq!(b.receiver.missing(), 100);
    assert_eq!(b.counters.unrecovered_bound.get(), 80);
    assert_eq!(b.log.take(), [begin(0), got(0, "a"), lost(1, 80), got(81, "b")]);
    (82..182).for_each(|t| b.take(&data_with(t, 0, true, &[(7, t, "r")])));
    let events = b.log.take();
    assert_eq!((events.len(), events.last()), (101, Some(&got(182, "c"))));
}

#[test]
fn when_what_may_be_held_is_full_the_oldest_gap_is_given_up() {
    let mut b = bench_with(|c| c.delivery.hold_maximum_bytes = 256 << 10);
    let text = "x".repeat(10_000);
    b.take(&data(0, &[(7, 0, "a")]));
    let mut next = 1;
    // datagram 1 is missing, and later 20
    for t in (2..20).chain(21..45) {
        b.take(&data(t, &[(7, t, &text)]));
        assert!(b.delivery.hold_bytes.get() <= 256 << 10);
        for event in b.log.take() {
            match event {
                Event::Message { sqn, .. } => next = sqn + 1,
                Event::Lost { first, count, .. } => assert_eq!((first, count), (1, 1)),
                _ => {}
            }
        }
    }
    assert_eq!(b.counters.unrecovered_bound.get(), 1, "the second gap is kept");
    assert_eq!(next, 20);
    assert!(b.receiver.memory_bytes() < (256 << 10) + 100_000, "{}", b.receiver.memory_bytes());
}

#[test]
fn a_receiver_that_sends_no_naks_profits_from_others_and_gives_up_in_time() {
    let mut b = bench_with(|c| c.send_naks = false);
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(3, &[(7, 3, "d")]));
    b.advance_heard(MS * 500);
    assert_eq!(b.naks(), [[]; 0]);
    b.take(&data_with(1, 0, true, &[(7, 1, "b")]));
    b.advance_heard(MS * 500);
    assert_eq!(b.log.take(), [begin(0), got(0, "a"), recovered(1, "b"), lost(2, 1), got(3, "d")]);
}

#[test]
fn silence_ends_the_session_with_everything_told_in_order() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(2, &[(7, 2, "c")]));
    b.advance(MS * 9_000);
    b.take(&sm(3, 0));
    b.log.take();
    b.now = Nanos::ZERO + MS * 18_999;
    b.advance(Duration::ZERO);
    assert!(!b.receiver.has_ended());
    b.advance(MS);
    let end = Event::End { token: 70, reason: EndReason::TimedOut, next: 3, tail_unknown: true };
    assert_eq!(b.log.take(), [end], "datagram 3 was lost and may have held more of the topic");
    assert!(b.receiver.has_ended());
    assert_eq!(b.receiver.next_wakeup(), Nanos::NEVER);
    assert!(b.try_take(&data(4, &[(7, 4, "e")])).is_err());
}

#[test]
fn a_session_that_never_speaks_ends_after_the_preactivity_timeout() {
    let mut b = bench_with(|c| c.preactivity_timeout = MS * 3);
    assert_eq!(b.receiver.next_wakeup(), Nanos::ZERO + MS * 3);
    b.advance(MS * 3);
    assert!(b.receiver.has_ended());
    assert_eq!(b.log.take(), [], "no stream had begun");
}

#[test]
fn the_sources_end_waits_for_what_is_missing_before_it() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&eot(2));
    b.log.take();
    assert!(!b.receiver.has_ended());
    b.take(&data_with(1, 0, true, &[(7, 1, "b")]));
    assert_eq!(b.log.take(), [recovered(1, "b")]);
    // It is asked for as well, as it came out of its turn.
    b.advance(MS);
    assert_eq!(b.naks(), [[2]]);
    b.take(&again(eot(2)));
    let end = Event::End { token: 70, reason: EndReason::Ended, next: 2, tail_unknown: false };
    assert_eq!(b.log.take(), [end]);
    assert!(b.receiver.has_ended());
}

#[test]
fn closing_reports_what_is_missing_and_ends_every_stream_once() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(2, &[(7, 2, "c")]));
    b.log.take();
    b.close();
    b.close();
    let end = Event::End { token: 70, reason: EndReason::Closed, next: 3, tail_unknown: false };
    assert_eq!(b.log.take(), [lost(1, 1), got(2, "c"), end]);
    assert_eq!(b.counters.unrecovered_end.get(), 1);
}

#[test]
fn an_unsubscribed_topic_is_silent_and_its_held_messages_are_given_back() {
    let mut b = bench();
    b.take(&data(0, &[(7, 0, "a")]));
    b.take(&data(2, &[(7, 2, "c")]));
    b.log.take();
    b.receiver.unsubscribe(7);
    assert_eq!((b.delivery.order_map_entries.get(), b.delivery.hold_bytes.get()), (0, 0));
    b.take(&data_with(1, 0, true, &[(7, 1, "b")]));
    assert_eq!(b.log.take(), []);
    b.receiver.subscribe(7, 71).expect("free again");
    b.take(&data(3, &[(7, 3, "d")]));
    let fresh = Event::Message { token: 71, first: 3, sqn: 3, payload: b"d".to_vec(), recovered: false };
    assert_eq!(b.log.take(), [Event::Begin { token: 71, first: 3 }, fresh]);
    b.receiver.unsubscribe(7);
    b.close();
    assert_eq!(b.log.take(), [], "a stream nobody hears has no end either");
}

#[test]
fn a_topic_is_subscribed_once_and_topics_are_bounded() {
    let mut b = bench_with(|c| c.delivery.maximum_topics = 2);
    assert_eq!(b.receiver.subscribe(7, 1), Err(SubscribeError::AlreadySubscribed { topic_index: 7 }));
    b.receiver.subscribe(8, 1).expect("the second");
    assert_eq!(b.receiver.subscribe(9, 1), Err(SubscribeError::TooMany { max: 2 }));
    assert_eq!(b.delivery.topics.get(), 2);
}
