//! Which topics a receiver hears.

use std::collections::BTreeMap;

use tickcast_messaging::{ReceiverOptions, SendError};

use crate::party::{Event, World, meet, until};

pub(crate) fn prefix(world: &World) {
    let (mut a, mut b) = (world.party(), world.party());
    let early = a.source("px.early");
    let other = a.source("other");
    let receiver =
        b.context.create_prefix_receiver("px.", &ReceiverOptions::default()).expect("a legal name");
    meet(&mut a, early, [&mut b]);
    let late = a.source("px.late");
    meet(&mut a, late, [&mut b]);
    a.send(other, b"unheard").expect("there is room");
    a.send(early, b"1").expect("there is room");
    a.send(late, b"2").expect("there is room");
    until([&mut a, &mut b], |[_, b]| b.heard.payloads() == [b"1", b"2"]);
    assert!(b.heard.messages().all(|(whose, ..)| whose == receiver));
}

pub(crate) fn pattern(world: &World) {
    let (mut a, mut b) = (world.party(), world.party());
    let [x, y, z] = ["px.eq.A", "px.fx.B", "px.eq.Z"].map(|topic| a.source(topic));
    let options = ReceiverOptions::default();
    assert!(b.context.create_pattern_receiver("px.(", &options).is_err(), "it is not understood");
    let receiver = b.context.create_pattern_receiver(r"^px\.eq\.[A-Y]$|fx", &options).expect("understood");
    meet(&mut a, x, [&mut b]);
    meet(&mut a, y, [&mut b]);
    for (source, payload) in [(z, b"z"), (x, b"x"), (y, b"y")] {
        a.send(source, payload).expect("there is room");
    }
    until([&mut a, &mut b], |[_, b]| b.heard.payloads() == [b"x", b"y"]);
    assert!(b.heard.messages().all(|(whose, ..)| whose == receiver));
}

const TOPICS: usize = 3_000;

pub(crate) fn thousands(world: &World) {
    let fast = |config: &mut tickcast_messaging::MessagingConfig| {
        config.lbtrm.datagram_max_size_bytes = 8_192;
    };
    let (mut a, mut b) = (world.party_with(fast), world.party_with(fast));
    let name = |i: usize| format!("px.{i}");
    let sources: Vec<_> = (0..TOPICS).map(|i| a.source(&name(i))).collect();
    let wildcard =
        b.context.create_prefix_receiver("px.", &ReceiverOptions::default()).expect("a legal name");
    until([&mut a, &mut b], |[_, b]| b.heard.topics().len() == TOPICS);
    meet(&mut a, sources[0], [&mut b]);
    let mut next = 0;
    until([&mut a, &mut b], |[a, b]| {
        while next < 3 * TOPICS {
            match a.send(sources[next % TOPICS], &(next as u32).to_be_bytes()) {
                Ok(_) => next += 1,
                Err(SendError::WouldBlock) => break,
                Err(other) => panic!("{other}"),
            }
        }
        b.heard.messages().count() >= 3 * TOPICS
    });
    let mut by_stream: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for (receiver, stream, _, bytes) in b.heard.messages() {
        assert_eq!(receiver, wildcard);
        let number = u32::from_be_bytes(bytes.try_into().expect("four bytes"));
        by_stream.entry(stream).or_default().push(number);
    }
    assert_eq!(by_stream.len(), TOPICS);
    for numbers in by_stream.values() {
        let first = numbers[0];
        assert_eq!(*numbers, [first, first + TOPICS as u32, first + 2 * TOPICS as u32]);
    }
    assert_eq!(b.heard.losses(), 0);
}

pub(crate) fn unsubscribe(world: &World) {
    let (mut a, mut b) = (world.party(), world.party());
    let (x, y) = (a.source("x"), a.source("y"));
    let receiver = b.receiver("x");
    let second = b.receiver("x");
    b.receiver("y");
    meet(&mut a, x, [&mut b]);
    meet(&mut a, y, [&mut b]);
    b.context.delete_receiver(receiver);
    a.send(x, b"x1").expect("there is room");
    a.send(y, b"y1").expect("there is room");
    until([&mut a, &mut b], |[_, b]| b.heard.messages().count() == 2);
    assert!(b.heard.messages().all(|(whose, ..)| whose != receiver));
    b.context.delete_receiver(second);
    b.context.delete_receiver(second);
    a.send(x, b"x2").expect("there is room");
    a.send(y, b"y2").expect("there is room");
    until([&mut a, &mut b], |[_, b]| b.heard.payloads().contains(&&b"y2"[..]));
    assert!(!b.heard.payloads().contains(&&b"x2"[..]));
    assert_eq!(b.heard.count(|e| matches!(e, Event::End(..))), 0, "who stops listening is told nothing");
    let again = b.receiver("x");
    until([&mut a, &mut b], |[a, b]| {
        a.send(x, b"x3").expect("there is room");
        b.heard.messages().any(|(whose, ..)| whose == again)
    });
}

pub(crate) fn uninteresting(world: &World) {
    let (mut a, mut b) = (world.party(), world.party());
    let (wanted, unwanted) = (a.source("wanted"), a.source("unwanted"));
    b.receiver("wanted");
    meet(&mut a, wanted, [&mut b]);
    let before = b.counters.delivery.lbm_msgs_no_topic_rcved.get();
    a.send(unwanted, b"noise").expect("there is room");
    a.send(wanted, b"news").expect("there is room");
    until([&mut a, &mut b], |[_, b]| b.heard.payloads() == [b"news"]);
    assert_eq!(b.counters.delivery.lbm_msgs_no_topic_rcved.get(), before + 1);
}
