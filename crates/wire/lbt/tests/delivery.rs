//! Delivery above the transport: messages in fragments, extension headers, bounds.

mod support;

use counters::table::{LbmDelivery, LbtrmReceiver};
use std::sync::Arc;
use support::{Event, FROM, ReceiverBench, SESSION, SOURCE, data, data_of, data_with, eot, fragment};
use tickcast_lbt::config::{Order, ReceiverConfig};
use tickcast_lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, EndReason, Lost};
use tickcast_lbt::rm::{Receiver, SessionKey};
use tickcast_lbt::wire::lbmc::{self, Chain, Header, Kind};
use units::{Nanos, Sqn};

const WHOLE: &[u8] = b"0123456789abcdefghij";

fn bench(order: Order) -> ReceiverBench {
    bench_with(order, |_| {})
}

fn bench_with(order: Order, change: impl FnOnce(&mut ReceiverConfig)) -> ReceiverBench {
    let mut config = ReceiverConfig::default();
    config.delivery.ordered_delivery = order;
    change(&mut config);
    let mut b = ReceiverBench::new(&config);
    b.receiver.subscribe(7, 70).expect("free");
    b
}

/// Piece `i` of three of the message whose first number is `first`, each in its own datagram.
fn piece(first: u32, i: u32) -> Vec<u8> {
    let (from, to) = [(0, 8), (8, 16), (16, 20)][i as usize];
    fragment(7, first + i, first, from as u32, WHOLE.len() as u32, &WHOLE[from..to])
}

fn take_piece(b: &mut ReceiverBench, t: u32, first: u32, i: u32) {
    b.take(&data_of(t, 0, false, &piece(first, i)));
}

fn whole(first: u32, sqn: u32) -> Event {
    Event::Message { token: 70, first, sqn, payload: WHOLE.to_vec(), recovered: false }
}

fn plain(sqn: u32, text: &str) -> Event {
    Event::Message { token: 70, first: sqn, sqn, payload: text.as_bytes().to_vec(), recovered: false }
}

fn lost(first: u32, count: u32) -> Event {
    Event::Lost { token: 70, first, count }
}

fn sent_again(sqn: u32, text: &str) -> Event {
    Event::Message { token: 70, first: sqn, sqn, payload: text.as_bytes().to_vec(), recovered: true }
}

/// A NAK goes out, for datagram `t` among others.
fn ask(b: &mut ReceiverBench, t: u32) {
    b.advance(std::time::Duration::from_millis(2));
    assert!(b.naks().concat().contains(&t));
}

const BEGIN: Event = Event::Begin { token: 70, first: 0 };

#[test]
fn fragments_are_put_together_and_the_message_has_the_last_ones_number() {
    let mut b = bench(Order::Topic);
    for i in 0..3 {
        take_piece(&mut b, i, 0, i);
    }
    b.take(&data(3, &[(7, 3, "next")]));
    assert_eq!(b.log.take(), [BEGIN, whole(0, 2), plain(3, "next")]);
    assert_eq!((b.delivery.msgs_delivered.get(), b.delivery.lbm_msgs_rcved.get()), (2, 4));
}

#[test]
fn fragments_that_arrive_in_any_order_are_put_together_in_both_orders_of_delivery() {
    for order in [Order::Topic, Order::Arrival] {
        let mut b = bench(order);
        b.take(&data(0, &[(7, 0, "a")]));
        for (t, i) in [(3, 2), (1, 0), (2, 1)] {
            take_piece(&mut b, t, 1, i);
        }
        b.take(&data(4, &[(7, 4, "next")]));
        assert_eq!(b.log.take(), [BEGIN, plain(0, "a"), whole(1, 3), plain(4, "next")], "{order:?}");
    }
}

#[test]
fn a_message_that_lacks_a_fragment_is_lost_with_all_its_numbers_and_the_next_is_not() {
    for missing in 0..3 {
        let mut b = bench(Order::Topic);
        b.take(&data(0, &[]));
        for i in (0..3).filter(|&i| i != missing) {
            take_piece(&mut b, 1 + i, 0, i);
        }
        b.take(&data(4, &[(7, 3, "next")]));
        b.advance_heard(std::time::Duration::from_secs(1));
        let events = b.log.take();
        let mut covered = Vec::new();
        for event in &events {
            if let Event::Lost { first, count, .. } = event {
                covered.extend(*first..first + count);
            }
        }
        assert_eq!(covered, [0, 1, 2], "{missing}: each number once, in order: {events:?}");
        assert_eq!(events.last(), Some(&plain(3, "next")));
        assert_eq!(b.delivery.fragments_unrecoverably_lost.get(), 2);
    }
}

#[test]
fn in_order_of_arrival_a_message_that_lacks_a_fragment_is_lost_with_all_its_numbers() {
    let mut b = bench(Order::Arrival);
    b.take(&data(0, &[]));
    take_piece(&mut b, 1, 0, 0);
    take_piece(&mut b, 3, 0, 2);
    b.take(&data(4, &[(7, 3, "next")]));
    assert_eq!(b.log.take(), [BEGIN, plain(3, "next")]);
    b.advance_heard(std::time::Duration::from_secs(1));
    assert_eq!(b.log.take(), [lost(0, 1), lost(2, 1), lost(1, 1)]);
    b.take(&data(5, &[(7, 4, "more")]));
    assert_eq!(b.log.take(), [plain(4, "more")]);
}

/// A bit that turns in the number of a datagram puts its messages where they do not belong. They are there all
/// the same, and a gap that becomes final around them leaves them out.
#[test]
fn what_a_damaged_number_put_too_late_is_delivered_and_not_lost() {
    for (order, before) in [(Order::Arrival, true), (Order::Topic, false)] {
        let mut b = bench(order);
        b.take(&data(0, &[(7, 0, "a")]));
        b.take(&data(9, &[(7, 2, "c")]));
        let held: Vec<Event> = if before { vec![plain(2, "c")] } else { vec![] };
        assert_eq!(b.log.take(), [vec![BEGIN, plain(0, "a")], held].concat(), "{order:?}");
        // everything before this one is settled, but not before the damaged one
        for t in 1..4 {
            b.take(&data(t, &[]));
        }
        b.take(&data(4, &[(7, 4, "e")]));
        assert_eq!(b.log.take(), [], "{order:?}: nothing that was not received can have held the others");
        ask(&mut b, 4);
        b.take(&data_with(4, 0, true, &[(7, 4, "e")]));
        let rest = if before { vec![] } else { vec![plain(2, "c")] };
        assert_eq!(
            b.log.take(),
            [vec![lost(1, 1)], rest, vec![lost(3, 1), sent_again(4, "e")]].concat(),
            "{order:?}"
        );
    }
}

#[test]
fn what_came_under_a_damaged_number_first_is_not_delivered_again() {
    for order in [Order::Arrival, Order::Topic] {
        let mut b = bench(order);
        b.take(&data(0, &[(7, 0, "a")]));
        b.take(&data(9, &[(7, 2, "c")]));
        b.take(&data(1, &[]));
        b.take(&data(2, &[(7, 2, "c")]));
        ask(&mut b, 2);
        b.take(&data_with(2, 0, true, &[(7, 2, "c")]));
        let (begun, c) = ([BEGIN, plain(0, "a")], [plain(2, "c")]);
        let expected = match order {
            Order::Arrival => [&begun[..], &c, &[lost(1, 1)]].concat(),
            Order::Topic => [&begun[..], &[lost(1, 1)], &c].concat(),
        };
        assert_eq!(b.log.take(), expected, "{order:?}");
    }
}

#[test]
fn an_unfinished_message_at_the_end_of_the_session_is_lost() {
    for order in [Order::Topic, Order::Arrival] {
        let mut b = bench(order);
        take_piece(&mut b, 0, 0, 0);
        take_piece(&mut b, 1, 0, 1);
        b.take(&eot(2));
        let end = Event::End { token: 70, reason: EndReason::Ended, next: 2, tail_unknown: false };
        assert_eq!(b.log.take(), [BEGIN, lost(0, 2), end], "{order:?}");
    }
}

#[test]
fn a_message_above_the_bound_is_lost_and_takes_no_memory() {
    let mut b = bench_with(Order::Topic, |c| c.delivery.maximum_message_size = 1_000);
    let before = b.receiver.memory_bytes();
    let data = fragment(7, 0, 0, 0, 1_001, &[1; 600]);
    b.take(&data_of(0, 0, false, &data));
    b.take(&data_of(1, 0, false, &fragment(7, 1, 0, 600, 1_001, &[1; 401])));
    assert_eq!(b.log.take(), [BEGIN, lost(0, 1), lost(1, 1)]);
    assert_eq!(b.receiver.memory_bytes(), before);
}

#[test]
fn the_bound_on_all_unfinished_messages_makes_the_one_that_would_grow_a_loss() {
    let mut b = bench_with(Order::Topic, |c| {
        c.delivery.maximum_message_size = 1_000;
        c.delivery.reassembly_maximum_bytes = 1_500;
    });
    b.receiver.subscribe(8, 80).expect("free");
    b.take(&data_of(0, 0, false, &fragment(7, 0, 0, 0, 1_000, &[1; 900])));
    b.take(&data_of(1, 0, false, &fragment(8, 0, 0, 0, 1_000, &[2; 900])));
    b.take(&data_of(2, 0, false, &fragment(7, 1, 0, 900, 1_000, &[1; 100])));
    let events = b.log.take();
    assert!(events.contains(&Event::Lost { token: 80, first: 0, count: 1 }), "{events:?}");
    let done = events.iter().filter(|e| matches!(e, Event::Message { token: 70, .. })).count();
    assert_eq!(done, 1);
}

#[test]
fn fragments_that_contradict_their_message_are_loss_and_never_a_panic() {
    let table: &[(u32, u32, u32, &[u8])] = &[
        (0, 0, 5, b"longer than said"),
        (u32::MAX, 0, 5, b"x"),
        (0, 9, 5, b"x"),
        (3, 0, 5, b"x"),
        (0, 0, 0, b""),
        (0, 0, u32::MAX, b"x"),
    ];
    for order in [Order::Topic, Order::Arrival] {
        for &(first, offset, length, bytes) in table {
            let mut b = bench(order);
            b.take(&data_of(0, 0, false, &fragment(7, 0, first, offset, length, bytes)));
            b.take(&data(1, &[(7, 1, "next")]));
            let events = b.log.take();
            assert_eq!(events.last(), Some(&plain(1, "next")), "{first} {offset} {length}");
            assert_eq!(b.delivery.msgs_delivered.get(), 1);
        }
    }
}

#[test]
fn a_fragment_of_another_message_in_between_is_loss_of_the_unfinished_one() {
    let mut b = bench(Order::Topic);
    take_piece(&mut b, 0, 0, 0);
    b.take(&data(1, &[(7, 1, "in between")]));
    assert_eq!(b.log.take(), [BEGIN, lost(0, 1), plain(1, "in between")]);
    take_piece(&mut b, 2, 2, 0);
    b.take(&data_of(3, 0, false, &fragment(7, 3, 2, 8, 21, &WHOLE[8..16])));
    assert_eq!(b.log.take(), [lost(2, 2)], "the length differs");
}

/// Notes the extension headers of what is delivered.
#[derive(Default)]
struct HeaderLog(Vec<(u32, Vec<u8>, Option<u32>)>);

impl DeliverySink for HeaderLog {
    fn deliver(&mut self, m: Delivered<'_>) {
        let index = m.headers.iter().find_map(|h| match h {
            Header::Request { index, .. } => Some(index),
            _ => None,
        });
        self.0.push((m.sqn.0, m.payload.to_vec(), index));
    }
    fn lost(&mut self, _: Lost) {}
    fn begin_of_stream(&mut self, _: BeginOfStream) {}
    fn end_of_stream(&mut self, _: EndOfStream) {}
}

#[test]
fn headers_come_with_the_message_also_when_it_was_held_or_put_together() {
    let counters = (Arc::new(LbtrmReceiver::default()), Arc::new(LbmDelivery::default()));
    let key = SessionKey { source: SOURCE, session: SESSION };
    let (a, d) = (counters.0.clone(), counters.1.clone());
    let mut receiver = Receiver::new(&ReceiverConfig::default(), key, 1, Nanos::ZERO, a, d).expect("allowed");
    receiver.subscribe(7, 70).expect("free");
    let request = |index| Header::Request { flags: 0, transport: 0, index, port: 1, ip: SOURCE };
    let mut chain = Chain::default();
    chain.push(&request(1));
    let mut one = Vec::new();
    lbmc::emit_message(&mut one, Kind::Message, Some((7, Sqn(1))), &chain, Some(b"held"));
    let mut chain = Chain::default();
    chain.push(&Header::Frag { flags: 0, first_sqn: Sqn(2), offset: 0, length: 4 });
    chain.push(&request(2));
    let mut two = Vec::new();
    lbmc::emit_message(&mut two, Kind::Message, Some((7, Sqn(2))), &chain, Some(b"to"));
    let three = fragment(7, 3, 2, 2, 4, b"ge");
    let mut log = HeaderLog::default();
    for (t, messages) in [(1, &one), (2, &two), (3, &three), (0, &Vec::new())] {
        let datagram = data_of(t, 0, false, messages);
        receiver.on_datagram(Nanos::ZERO, FROM, &datagram, &mut log).expect("well-formed");
    }
    assert!(log.0.is_empty() || log.0.len() == 2);
    assert_eq!(log.0, [(1, b"held".to_vec(), Some(1)), (3, b"toge".to_vec(), Some(2))]);
    assert_eq!(counters.1.lbm_reqs_rcved.get(), 2);
}

#[test]
fn when_too_many_messages_are_held_the_oldest_gap_is_given_up() {
    let mut b = bench_with(Order::Topic, |c| {
        c.delivery.delivery_control_maximum_total_map_entries = 8_192;
    });
    b.take(&data(0, &[(7, 0, "a")]));
    let mut number = 2;
    for t in 2..200 {
        let messages: Vec<_> = (0..100).map(|i| (7, number + i, "x")).collect();
        number += 100;
        b.take(&data(t, &messages));
        assert!(b.delivery.order_map_entries.get() <= 8_192);
    }
    assert_eq!(b.counters.unrecovered_bound.get(), 1);
    assert_eq!(b.log.take().len(), 3 + 198 * 100, "begin, the first, the loss, and all the rest");
    assert_eq!(b.delivery.order_map_entries_max.get(), 8_100);
}

#[test]
fn the_memory_of_a_burst_of_loss_is_bounded_and_used_again() {
    let mut b = bench(Order::Topic);
    b.take(&data(0, &[(7, 0, "first")]));
    let (mut peak, mut t) = (0, 1);
    for round in 0..20 {
        // one missing datagram in front of a hundred
        let gap = t;
        for next in gap + 1..gap + 100 {
            b.take(&data(next, &[(7, next, "payload")]));
        }
        b.take(&data(gap, &[(7, gap, "late")]));
        t = gap + 100;
        if round == 0 {
            peak = b.receiver.memory_bytes();
        }
    }
    assert_eq!(b.delivery.order_map_entries.get(), 0);
    assert_eq!(b.receiver.memory_bytes(), peak, "the first round took all that is ever needed");
    assert_eq!(b.delivery.msgs_delivered.get(), 2_001);
}

#[test]
fn a_datagram_may_hold_a_message_release_it_and_hold_another() {
    let mut b = bench(Order::Topic);
    b.receiver.subscribe(8, 80).expect("free");
    b.take(&data(0, &[(7, 0, "a"), (8, 0, "x")]));
    // 1 is missing; the numbers of the topics jump back and forth as no orderly source would send them
    b.take(&data(2, &[(7, 2, "c"), (7, 1, "b"), (8, 2, "z"), (7, 4, "e")]));
    assert_eq!(b.log.take().len(), 6);
    assert_eq!(b.delivery.order_map_entries.get(), 2);
    b.take(&data(1, &[(8, 1, "y"), (7, 3, "d")]));
    let tail = [plain(3, "d"), plain(4, "e")];
    assert_eq!(b.log.take()[2..], tail);
    assert_eq!((b.delivery.order_map_entries.get(), b.delivery.hold_bytes.get()), (0, 0));
}
