//! Datagrams in a source's name: what one of them, or a burst, can do to who has no keys.

mod support;

use std::time::Duration;
use support::{Event, ReceiverBench, data, data_of, data_with, fragment, sm, tsni};
use tickcast_lbt::config::{NakLaw, Order, ReceiverConfig};
use tickcast_lbt::delivery::EndReason;
use tickcast_lbt::wire::lbmc::{self, Chain, Kind};
use tickcast_lbt::wire::lbtrm::FLAG_RETRANSMISSION;
use units::{Nanos, Sqn};

const MS: Duration = Duration::from_millis(1);
/// What the source of the benches has sent first.
const SENT: u32 = 10;

/// A receiver that has heard datagrams and messages up to [`SENT`] of a source that sends a message in each.
fn bench(order: Order) -> ReceiverBench {
    let mut config = ReceiverConfig { nak_law: NakLaw::Fixed, ..ReceiverConfig::default() };
    config.delivery.ordered_delivery = order;
    let mut b = ReceiverBench::new(&config);
    b.receiver.subscribe(7, 70).expect("free");
    (0..SENT).for_each(|t| b.take(&genuine(t)));
    b.log.take();
    b
}

fn genuine(t: u32) -> Vec<u8> {
    data(t, &[(7, t, "good")])
}

fn again(t: u32) -> Vec<u8> {
    data_with(t, 0, true, &[(7, t, "good")])
}

/// The numbers of the source's messages that were delivered, and how many messages were told lost.
fn heard(b: &mut ReceiverBench) -> (Vec<u32>, u32) {
    let (mut numbers, mut lost) = (Vec::new(), 0);
    for event in b.log.take() {
        match event {
            Event::Message { sqn, payload, .. } if payload == b"good" => numbers.push(sqn),
            Event::Lost { count, .. } => lost += count,
            _ => {}
        }
    }
    (numbers, lost)
}

/// The source sends up to `end`; what is asked for it sends again, if it has sent it, and it was its own.
fn go_on(b: &mut ReceiverBench, from: u32, end: u32) {
    for t in from..end {
        b.advance(MS);
        b.take(&genuine(t));
        answer(b, t);
    }
}

/// What the source has sent up to `last` it sends again to who asks.
fn answer(b: &mut ReceiverBench, last: u32) {
    for asked in b.naks().concat() {
        if asked <= last {
            b.take(&again(asked));
        }
    }
}

#[test]
fn a_topics_number_far_ahead_in_one_datagram_a_little_ahead_costs_nothing() {
    for order in [Order::Topic, Order::Arrival] {
        for ahead in [0, 1, 50, 1_000] {
            for forged in [
                data(SENT + ahead, &[(7, SENT + 50_000, "forged")]),
                tsni(SENT + ahead, &[(7, SENT + 50_000)]),
            ] {
                let mut b = bench(order);
                b.take(&forged);
                go_on(&mut b, SENT, SENT + 1_100);
                // the last NAK is answered
                b.advance(MS * 20);
                answer(&mut b, SENT + 1_100);
                let (mut numbers, lost) = heard(&mut b);
                assert_eq!((lost, b.receiver.missing()), (0, 0), "{order:?} {ahead}");
                if order == Order::Topic {
                    assert!(numbers.is_sorted());
                }
                numbers.sort_unstable();
                numbers.dedup();
                assert_eq!(numbers.len(), 1_100, "{order:?} {ahead}: none twice");
            }
        }
    }
}

#[test]
fn a_source_that_left_numbers_out_bears_it_out_when_it_is_asked() {
    for order in [Order::Topic, Order::Arrival] {
        let mut b = bench(order);
        b.take(&data(SENT, &[(7, SENT + 5, "good")]));
        let before = heard(&mut b);
        assert_eq!(before, (vec![], 0), "{order:?}");
        b.advance(MS);
        assert_eq!(b.naks(), [[SENT]]);
        b.take(&data_with(SENT, 0, true, &[(7, SENT + 5, "good")]));
        assert_eq!(heard(&mut b), (vec![SENT + 5], 5), "{order:?}");
        b.take(&data(SENT + 1, &[(7, SENT + 6, "good")]));
        assert_eq!(heard(&mut b), (vec![SENT + 6], 0), "{order:?}");
    }
}

#[test]
fn a_copy_of_what_was_forged_does_not_bear_it_out_and_who_is_not_answered_goes_on() {
    let mut b = bench(Order::Topic);
    let forged = data(SENT, &[(7, SENT + 5_000, "forged")]);
    (0..5).for_each(|_| b.take(&forged));
    b.take(&genuine(SENT + 1));
    b.advance_heard(MS * 1_000);
    // Of what was not sent again nothing is known: it is lost, and no more.
    assert_eq!(heard(&mut b), (vec![SENT + 1], 1));
    b.take(&genuine(SENT + 2));
    assert_eq!(heard(&mut b), (vec![SENT + 2], 0));
    assert!(b.delivery.msgs_out_of_reach.get() >= 5);
}

/// A datagram of the topic comes under a number farther on, forged or damaged, and one of the source's own is lost for good.
#[test]
fn a_topic_whose_last_number_came_too_early_is_not_doubted_for_ever_nor_believed_without_a_loss() {
    for order in [Order::Topic, Order::Arrival] {
        let mut b = bench(order);
        b.take(&data(SENT + 20, &[(7, SENT, "good")]));
        b.take(&data(SENT, &[(7, SENT + 5_000, "forged")]));
        // The source's own comes in its place; it was delivered already.
        b.advance(MS);
        answer(&mut b, SENT);
        assert_eq!(
            heard(&mut b),
            (vec![SENT], 0),
            "{order:?}: nothing was given up that can have held 5,000"
        );
        // The next is lost for good, and nobody answers any more.
        b.take(&genuine(SENT + 2));
        b.take(&data(SENT + 3, &[]));
        let early = if order == Order::Arrival { vec![SENT + 2] } else { vec![] };
        assert_eq!(heard(&mut b), (early, 0), "{order:?}");
        b.advance_heard(MS * 1_000);
        let late = if order == Order::Arrival { vec![] } else { vec![SENT + 2] };
        assert_eq!(
            (heard(&mut b), b.receiver.missing()),
            ((late, 1), 16),
            "{order:?}: that one is told lost"
        );
        b.take(&data(SENT + 4, &[(7, SENT + 3, "good")]));
        assert_eq!(heard(&mut b), (vec![SENT + 3], 0), "{order:?}");
    }
}

/// One datagram a little ahead, that says as well that what lies between is gone for good.
#[test]
fn what_one_packet_alone_has_given_up_does_not_account_for_a_topics_number_in_it() {
    for order in [Order::Topic, Order::Arrival] {
        for (ahead, trail) in [(16, SENT + 16), (16, 0), (3, SENT + 3)] {
            for is_lossy in [false, true] {
                let mut b = bench(order);
                if is_lossy {
                    // Some are missing, and on their way.
                    b.take(&genuine(SENT + 2));
                    b.take(&genuine(SENT + 3));
                }
                let t = SENT + 4 + ahead;
                b.take(&data_with(t, trail, false, &[(7, SENT + 10_000, "forged")]));
                b.advance(MS * 9);
                let last = if is_lossy { SENT + 3 } else { SENT - 1 };
                answer(&mut b, last);
                go_on(&mut b, last + 1, SENT + 100);
                b.advance(MS * 20);
                answer(&mut b, SENT + 99);
                let (mut numbers, lost) = heard(&mut b);
                numbers.sort_unstable();
                assert_eq!((numbers, lost), ((SENT..SENT + 100).collect(), 0), "{order:?} {ahead} {trail}");
                // A session that is silent for so long that all of that is given up.
                let mut b = bench(order);
                b.take(&data_with(t, trail, false, &[(7, SENT + 10_000, "forged")]));
                for _ in 0..3 {
                    b.advance(MS * 500);
                }
                let (_, lost) = heard(&mut b);
                assert!(lost <= 64, "{order:?} {ahead} {trail}: {lost}");
            }
        }
    }
}

/// In order of arrival fragments are put in their place as they come.
#[test]
fn a_fragment_that_is_not_believed_leaves_its_place_to_the_sources_own_and_is_never_told_lost() {
    let forged = data_of(SENT + 1, 0, false, &fragment(7, SENT + 6_000, SENT + 6_000, 0, 8, b"evil"));
    let whole = |b: &mut ReceiverBench| {
        let is_whole =
            |event: &Event| matches!(event, Event::Message { payload, .. } if payload == b"goodgood");
        let events = b.log.take();
        let lost = events.iter().any(|event| matches!(event, Event::Lost { .. }));
        (events.iter().filter(|event| is_whole(event)).count(), lost)
    };
    for goes_on in [false, true] {
        let mut b = bench(Order::Arrival);
        b.take(&forged);
        go_on(&mut b, SENT, SENT + 2);
        b.advance(MS * 20);
        answer(&mut b, SENT + 2);
        assert_eq!(heard(&mut b), (vec![SENT, SENT + 1], 0));
        if goes_on {
            // The source's own message of that number, many messages later, and in two datagrams.
            let messages: Vec<_> = (SENT + 2..SENT + 6_000).map(|number| (7, number, "")).collect();
            b.take(&data(SENT + 2, &messages));
            b.take(&data_of(SENT + 3, 0, false, &fragment(7, SENT + 6_000, SENT + 6_000, 0, 8, b"good")));
            b.take(&data_of(SENT + 4, 0, false, &fragment(7, SENT + 6_001, SENT + 6_000, 4, 8, b"good")));
            b.take(&data(SENT + 5, &[(7, SENT + 6_002, "good")]));
            assert_eq!(whole(&mut b), (1, false));
        }
        b.close();
        assert_eq!(whole(&mut b), (0, false));
        assert_eq!(b.delivery.order_map_entries.get(), 0);
    }
}

#[test]
fn what_is_not_believed_when_a_session_ends_is_not_told_lost_and_the_end_is_unknown() {
    let forged = [
        data_of(SENT + 1, 0, false, &fragment(7, SENT + 6_000, SENT + 6_000, 0, 8, b"evil")),
        data(SENT + 1, &[(7, SENT + 6_000, "forged")]),
        tsni(SENT + 1, &[(7, SENT + 6_000)]),
    ];
    for (order, forged) in
        [Order::Topic, Order::Arrival].iter().flat_map(|o| forged.iter().map(move |f| (*o, f)))
    {
        // Before the end it is asked for, or waits for what is missing before it.
        for is_asked in [false, true] {
            let mut b = bench(order);
            b.take(forged);
            if is_asked {
                b.take(&data(SENT, &[]));
            }
            b.close();
            let events = b.log.take();
            assert!(!events.iter().any(|event| matches!(event, Event::Lost { .. })), "{order:?}: {events:?}");
            let end = Event::End { token: 70, reason: EndReason::Closed, next: SENT, tail_unknown: true };
            assert_eq!(events.last(), Some(&end), "{order:?}");
            assert_eq!(b.delivery.order_map_entries.get(), 0, "{order:?}");
        }
    }
}

/// A datagram as a source sends one that gives up: what it lacks is gone, so many messages were sent, it ends.
fn forged_end(t: u32, trail: u32, number: u32) -> Vec<u8> {
    let mut messages = Vec::new();
    lbmc::emit_tsni(&mut messages, &[(7, Sqn(number))]);
    lbmc::emit_message(&mut messages, Kind::EndOfTransport, None, &Chain::default(), None);
    data_of(t, trail, false, &messages)
}

#[test]
fn an_end_ahead_of_what_is_missing_is_not_believed_while_the_session_goes_on() {
    for order in [Order::Topic, Order::Arrival] {
        for ahead in [0, 1, 16, 1_000] {
            let mut b = bench(order);
            let t = SENT + ahead;
            for _ in 0..3 {
                b.take(&forged_end(t, t, SENT + 900_000));
            }
            go_on(&mut b, SENT, SENT + 1_100);
            b.advance(MS * 20);
            answer(&mut b, SENT + 1_100);
            let (mut numbers, lost) = heard(&mut b);
            numbers.sort_unstable();
            assert_eq!((numbers, lost), ((SENT..SENT + 1_100).collect(), 0), "{order:?} {ahead}");
            assert!(!b.receiver.has_ended() && b.receiver.missing() == 0);
        }
    }
}

#[test]
fn an_end_in_the_place_of_a_missing_datagram_is_not_believed_while_farther_ones_are_here() {
    let mut b = bench(Order::Topic);
    b.take(&genuine(SENT + 1));
    b.take(&forged_end(SENT, SENT, SENT + 900_000));
    assert!(!b.receiver.has_ended());
    go_on(&mut b, SENT + 2, SENT + 20);
    assert_eq!(heard(&mut b), ((SENT..SENT + 20).collect(), 0));
}

#[test]
fn an_end_after_which_nothing_comes_is_believed_and_tells_what_was_lost() {
    let end = |t: u32| forged_end(t, t, t - 1);
    let ended = |b: &mut ReceiverBench| {
        let events = b.log.take();
        let reason = EndReason::Ended;
        let all = [
            Event::Lost { token: 70, first: SENT, count: 20 },
            Event::End { token: 70, reason, next: SENT + 20, tail_unknown: false },
        ];
        assert_eq!(events, all);
    };
    // Nobody answers any more.
    let mut b = bench(Order::Topic);
    b.take(&end(SENT + 20));
    b.advance(MS * 1_249);
    assert_eq!(b.log.take(), []);
    assert!(b.receiver.next_wakeup() <= b.now + MS);
    b.advance(MS);
    ended(&mut b);
    // A session message bears it out.
    let mut b = bench(Order::Topic);
    b.take(&end(SENT + 20));
    b.advance(MS * 10);
    b.take(&sm(SENT + 20, SENT + 20));
    ended(&mut b);
    // The source is asked, and says it again.
    let mut b = bench(Order::Topic);
    b.take(&end(SENT + 20));
    b.advance(MS);
    assert!(b.naks().concat().contains(&(SENT + 20)));
    let mut again = end(SENT + 20);
    again[16] |= FLAG_RETRANSMISSION;
    b.take(&again);
    ended(&mut b);
}

#[test]
fn one_number_ahead_has_nothing_given_up_of_a_slow_session() {
    for forged in [
        data(SENT + 1_000, &[(7, SENT + 1_000, "forged")]),
        data_with(SENT + 1_000, SENT + 1_000, false, &[(7, SENT + 1_000, "forged")]),
        sm(SENT + 1_000, SENT + 1_000),
    ] {
        let mut b = bench(Order::Topic);
        b.take(&forged);
        for t in SENT..SENT + 900 {
            for wait in [250, 250] {
                b.advance(MS * wait);
                b.naks();
                b.take(&sm(t - 1, 0));
            }
            b.take(&genuine(t));
        }
        let (numbers, lost) = heard(&mut b);
        assert_eq!((numbers, lost), ((SENT..SENT + 900).collect(), 0));
        assert!(!b.receiver.has_ended());
        assert!(b.counters.naks_sent.get() <= 1_000 * 110, "asked for within one generation interval");
    }
}

#[test]
fn a_trailing_edge_that_one_packet_tells_has_no_numbers_given_up() {
    for forged in [data_with(SENT + 100, SENT + 100, false, &[]), sm(SENT + 100, SENT + 100)] {
        let mut b = bench(Order::Topic);
        // 90 are missing, and asked for.
        (SENT + 90..SENT + 100).for_each(|t| b.take(&genuine(t)));
        b.take(&forged);
        b.take(&forged);
        assert!(b.receiver.missing() >= 90);
        b.advance(MS);
        answer(&mut b, SENT + 99);
        assert_eq!(heard(&mut b), ((SENT..SENT + 100).collect(), 0));
    }
}

#[test]
fn a_refusal_of_what_was_not_asked_for_is_none() {
    use tickcast_lbt::wire::lbtrm::{Ncf, NcfReason};
    let mut b = bench(Order::Topic);
    b.take(&genuine(SENT + 3));
    let mut ncf = Vec::new();
    let numbers = [Sqn(SENT), Sqn(SENT + 1), Sqn(SENT + 2)];
    Ncf::emit(support::SESSION, Sqn(0), NcfReason::DoNotRetry, &numbers, &mut ncf);
    b.take(&ncf);
    assert_eq!((b.receiver.missing(), heard(&mut b)), (3, (vec![], 0)));
    b.advance(MS);
    answer(&mut b, SENT + 3);
    assert_eq!(heard(&mut b), ((SENT..SENT + 4).collect(), 0));
}

#[test]
fn however_many_come_far_ahead_between_two_datagrams_are_not_believed() {
    let mut b = bench(Order::Topic);
    for t in SENT..SENT + 20 {
        for i in 0..500 {
            assert!(b.try_take(&data(t + 20_000 + i, &[(7, t + 20_000 + i, "forged")])).is_err());
        }
        go_on(&mut b, t, t + 1);
    }
    assert_eq!(heard(&mut b), ((SENT..SENT + 20).collect(), 0));
}

/// Numbers far ahead for as long as they are believed; then the source goes on, for as long as that is.
#[test]
fn a_session_that_was_taken_to_be_farther_goes_on_where_it_was_and_nothing_is_delivered_twice() {
    for trail in [0, SENT + 20_000] {
        let mut b = bench(Order::Topic);
        for i in 0..120 {
            b.advance(MS);
            let t = SENT + 20_000 + i;
            let _ = b.try_take(&data_with(t, trail, false, &[(7, t, "forged")]));
        }
        b.advance_heard(MS * 1_500);
        b.naks();
        let mut t = SENT;
        while !b.receiver.has_ended() {
            b.advance(MS * 10);
            b.take(&genuine(t));
            t += 1;
        }
        let events = b.log.take();
        let end = Event::End { token: 70, reason: EndReason::Restarted, next: SENT, tail_unknown: true };
        let is_end =
            |event: &&Event| matches!(event, Event::End { reason: EndReason::Restarted, next: SENT, .. });
        assert!(events.last().filter(is_end).is_some(), "{:?} is not {end:?}", events.last());
        assert_eq!(b.receiver.goes_on(), Some(Sqn(SENT)));
        // Its successor asks for what was not believed.
        let (now, before) = (b.now, b);
        let mut b =
            ReceiverBench::new(&ReceiverConfig { nak_law: NakLaw::Fixed, ..ReceiverConfig::default() });
        b.now = now;
        b.receiver.succeed(&before.receiver);
        b.receiver.subscribe(7, 70).expect("free");
        b.receiver.resume_topic(7, Sqn(SENT));
        go_on(&mut b, t, t + 100);
        assert_eq!(heard(&mut b), ((SENT..t + 100).collect(), 0));
    }
}

#[test]
fn another_run_of_the_source_does_not_go_on() {
    let mut b = bench(Order::Topic);
    // Some are lost for good.
    b.take(&data_of(SENT + 20, SENT + 20, false, &[]));
    b.advance(MS * 1_000);
    for t in SENT + 21..200 {
        b.take(&data(t, &[]));
    }
    for t in 0..5 {
        b.advance(MS * 500);
        if !b.receiver.has_ended() {
            b.take(&genuine(t));
        }
    }
    assert_eq!((b.receiver.end_reason(), b.receiver.goes_on()), (Some(EndReason::Restarted), None));
    assert!(b.now > Nanos::ZERO + MS * 2_250);
}
