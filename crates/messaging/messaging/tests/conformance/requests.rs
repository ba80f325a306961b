//! Requests and their answers.

use tickcast_messaging::RequestEnd;

use crate::party::{Event, World, meet, until};

pub(crate) fn answered(world: &World) {
    let (mut a, mut b, mut c) = (world.party(), world.party(), world.party());
    let source = a.source("orders");
    b.receiver("orders");
    c.receiver("orders");
    meet(&mut a, source, [&mut b, &mut c]);
    let first = a.context.request(source, &[b"first"]).expect("there is room");
    let second = a.context.request(source, &[b"second"]).expect("there is room");
    until([&mut a, &mut b, &mut c], |[_, b, c]| b.heard.asked.len() == 2 && c.heard.asked.len() == 2);
    assert_eq!(b.heard.payloads(), [&b"first"[..], b"second"]);
    b.context.respond(b.heard.asked[1], b"b to second").expect("it is near");
    b.context.respond(b.heard.asked[1], b"b again").expect("it is near");
    let large = vec![9; 300_000];
    c.context.respond(c.heard.asked[0], &large).expect("it is near");
    until([&mut a, &mut b, &mut c], |[a, ..]| a.heard.of_requests() == 3);
    let of = |request| {
        let events = a.heard.events.iter().filter_map(move |event| match event {
            Event::Response(of, payload) if *of == request => Some(payload.clone()),
            _ => None,
        });
        events.collect::<Vec<_>>()
    };
    assert_eq!(of(second), [b"b to second".to_vec(), b"b again".to_vec()]);
    assert_eq!(of(first), [large]);
    assert_eq!(a.counters.context.requests_open.get(), 2);
}

pub(crate) fn cancelled(world: &World) {
    let (mut a, mut b) = (world.party(), world.party());
    let source = a.source("orders");
    b.receiver("orders");
    meet(&mut a, source, [&mut b]);
    let request = a.context.request(source, &[b"never mind"]).expect("there is room");
    until([&mut a, &mut b], |[_, b]| b.heard.asked.len() == 1);
    a.context.cancel_request(request);
    b.context.respond(b.heard.asked[0], b"too late").expect("it is near");
    until([&mut a, &mut b], |[a, _]| a.counters.context.responses_unknown.get() == 1);
    assert_eq!(a.heard.of_requests(), 0);
    assert_eq!(a.counters.context.requests_open.get(), 0);
}

pub(crate) fn peer_gone(world: &World) {
    let (mut a, mut b) = (world.party(), world.party());
    let source = a.source("orders");
    b.receiver("orders");
    meet(&mut a, source, [&mut b]);
    let request = a.context.request(source, &[b"stay"]).expect("there is room");
    until([&mut a, &mut b], |[_, b]| b.heard.asked.len() == 1);
    b.context.respond(b.heard.asked[0], b"bye").expect("it is near");
    let answer = Event::Response(request, b"bye".to_vec());
    until([&mut a, &mut b], |[a, _]| a.heard.events.contains(&answer));
    drop(b);
    let end = Event::RequestEnd(request, RequestEnd::PeerGone);
    until([&mut a], |[a]| a.heard.events.contains(&end));
    assert_eq!(a.counters.context.requests_open.get(), 0);
}
