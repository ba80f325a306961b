//! The end of a session with no time left, from source to receiver: what was given up is told exactly.

mod support;

use std::sync::Arc;
use std::time::Duration;
use support::{Event, ReceiverBench, SESSION};
use tickcast_lbt::config::{ReceiverConfig, SourceConfig};
use tickcast_lbt::delivery::EndReason;
use tickcast_lbt::rm::{Source, TopicId};
use units::Nanos;

const MS: Duration = Duration::from_millis(1);

/// A source that may send two datagrams at once and then hardly anything, and its topics 7 and 9.
fn slow() -> (Source, [TopicId; 2]) {
    let config =
        SourceConfig { data_rate_limit: 10_000, retransmit_rate_limit: 1_000, ..SourceConfig::default() };
    let mut source = Source::new(&config, SESSION, Nanos::ZERO, Arc::default()).expect("allowed");
    let topics = [7, 9].map(|index| source.add_topic(Nanos::ZERO, index));
    (source, topics)
}

fn hearing() -> ReceiverBench {
    let mut b = ReceiverBench::new(&ReceiverConfig::default());
    b.receiver.subscribe(7, 70).expect("free");
    b.receiver.subscribe(9, 90).expect("free");
    b
}

/// Sends a message to each of the topics.
fn send(source: &mut Source, topics: [TopicId; 2], payload: &[u8]) {
    for topic in topics {
        source.send(Nanos::ZERO, topic, &[payload]).expect("there is room");
    }
}

/// The datagrams that may go out now.
fn drain(source: &mut Source, now: Nanos) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    while let Some(transmit) = source.poll_transmit(now) {
        let count = transmit.count;
        out.extend(transmit.datagrams().map(<[u8]>::to_vec));
        source.sent(now, count);
    }
    out
}

/// Delivered messages and those told lost of a stream that is over, each number once and in order.
fn account(events: &[Event], of: u64) -> (u32, u32) {
    let (mut delivered, mut lost, mut next) = (0, 0, 0);
    for event in events {
        let (first, count) = match *event {
            Event::Message { token, first, .. } if token == of => (first, 1),
            Event::Lost { token, first, count } if token == of => (first, count),
            Event::End { token, reason, next: end, tail_unknown } if token == of => {
                assert_eq!((reason, end, tail_unknown), (EndReason::Ended, next, false));
                return (delivered, lost);
            }
            _ => continue,
        };
        assert_eq!(first, next);
        next += count;
        if matches!(event, Event::Lost { .. }) { lost += count } else { delivered += 1 }
    }
    panic!("{of} has not ended: {events:?}");
}

#[test]
fn a_session_that_is_given_up_tells_the_numbers_of_what_it_has_not_sent() {
    // Which of the three sayings of the end arrives.
    for arrives in 0..3 {
        let ((mut source, topics), mut b) = (slow(), hearing());
        for _ in 0..50 {
            send(&mut source, topics, &[7; 1_000]);
        }
        source.flush();
        let sent = drain(&mut source, Nanos::ZERO);
        assert_eq!(sent.len(), 2, "the rate limit");
        sent.iter().for_each(|datagram| b.take(datagram));
        let now = Nanos::ZERO + MS;
        let waiting = source.unsent();
        assert_eq!((waiting.messages, waiting.bytes > 98_000), (98, true));
        source.abandon(now);
        for saying in 0..3 {
            let end = drain(&mut source, now);
            assert_eq!(end.len(), 1, "past the rate limit");
            if saying == arrives {
                end.iter().for_each(|datagram| b.take(datagram));
            }
            source.repeat_end();
        }
        assert!(!b.receiver.has_ended(), "one packet says so, and it may be forged");
        b.advance(1_250 * MS);
        assert!(b.receiver.has_ended(), "and nobody says otherwise");
        let (a, z) = (account(&b.log.events, 70), account(&b.log.events, 90));
        assert_eq!((a, z), ((1, 49), (1, 49)));
    }
}

#[test]
fn a_session_that_is_given_up_tells_the_numbers_of_topics_that_were_removed_before() {
    for is_announced in [false, true] {
        let ((mut source, topics), mut b) = (slow(), hearing());
        for _ in 0..50 {
            send(&mut source, topics, &[7; 1_000]);
        }
        topics.into_iter().for_each(|topic| source.remove_topic(topic));
        if is_announced {
            // It is said in a datagram that waits behind all others.
            source.on_wakeup(Nanos::ZERO);
        }
        source.flush();
        drain(&mut source, Nanos::ZERO).iter().for_each(|datagram| b.take(datagram));
        source.abandon(Nanos::ZERO + MS);
        drain(&mut source, Nanos::ZERO + MS).iter().for_each(|datagram| b.take(datagram));
        assert!(!b.receiver.has_ended(), "one packet says so, and it may be forged");
        b.advance(1_250 * MS);
        assert!(b.receiver.has_ended(), "and nobody says otherwise");
        let (a, z) = (account(&b.log.events, 70), account(&b.log.events, 90));
        assert_eq!((a, z), ((1, 49), (1, 49)), "announced before: {is_announced}");
    }
}

#[test]
fn the_end_tells_the_numbers_of_all_topics_that_were_removed_however_many() {
    let (config, now) = (SourceConfig::default(), Nanos::ZERO);
    let mut source = Source::new(&config, SESSION, now, Arc::default()).expect("allowed");
    let mut b = ReceiverBench::new(&ReceiverConfig::default());
    let topics: Vec<_> = (0..200).map(|index| source.add_topic(now, index)).collect();
    (0..200).for_each(|index| b.receiver.subscribe(index, 1_000 + u64::from(index)).expect("free"));
    for payload in [b"heard", b"lost!"] {
        for topic in &topics {
            source.send(now, *topic, &[payload]).expect("there is room");
        }
        source.flush();
        let sent = drain(&mut source, now);
        if payload == b"heard" {
            sent.iter().for_each(|datagram| b.take(datagram));
        }
    }
    topics.into_iter().for_each(|topic| source.remove_topic(topic));
    source.abandon(now);
    drain(&mut source, now).iter().for_each(|datagram| b.take(datagram));
    for token in 1_000..1_200 {
        assert_eq!(account(&b.log.events, token), (1, 1), "{token}");
    }
}

#[test]
fn what_is_on_its_way_when_a_session_is_given_up_is_lost_and_not_asked_for_again() {
    let ((mut source, topics), mut b) = (slow(), hearing());
    send(&mut source, topics, b"heard");
    source.flush();
    drain(&mut source, Nanos::ZERO).iter().for_each(|datagram| b.take(datagram));
    send(&mut source, topics, b"not heard");
    source.flush();
    assert_eq!(drain(&mut source, Nanos::ZERO).len(), 1);
    source.abandon(Nanos::ZERO);
    drain(&mut source, Nanos::ZERO).iter().for_each(|datagram| b.take(datagram));
    b.advance(1_250 * MS);
    assert!(b.receiver.has_ended());
    assert_eq!((account(&b.log.events, 70), account(&b.log.events, 90)), ((1, 1), (1, 1)));
    b.advance(100 * MS);
    assert_eq!(b.naks(), [[]; 0]);
}

#[test]
fn a_session_that_ends_says_its_last_number_often_and_one_that_sent_nothing_owes_nothing() {
    let ((mut source, _), now) = (slow(), Nanos::ZERO);
    source.end(now);
    assert!(!source.has_spoken(), "nobody lacks anything");
    let (mut source, topics) = slow();
    send(&mut source, topics, b"last");
    source.end(now);
    assert!(source.has_spoken());
    drain(&mut source, now);
    assert!(source.has_ended() && !source.owes_answers() && source.last_asked() == Nanos::ZERO);
    source.hurry(now, 5 * MS);
    let mut reminders = 0;
    for ms in 1..=100 {
        reminders += drain(&mut source, now + ms * MS).len();
    }
    assert_eq!(reminders, 20, "each 5 ms");
}
