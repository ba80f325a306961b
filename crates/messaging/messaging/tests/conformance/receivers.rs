//! Waiting for receivers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use testkit::watchdog::WATCHDOG;
use tickcast_messaging::{
    ContextCounters, EmbeddedContext, ReceiverOptions, SourceEvent, SourceOptions, Transport,
};

use crate::party::{Event, Party, World, until};

/// Drives a context on a thread of its own until told to stop; returns what it has heard.
fn driven(mut party: Party, stop: &Arc<AtomicBool>) -> thread::JoinHandle<Party> {
    let stop = stop.clone();
    thread::spawn(move || {
        while !stop.load(Ordering::Acquire) {
            party.turn();
        }
        party
    })
}

pub(crate) fn first_message(world: &World) {
    let stop = Arc::new(AtomicBool::new(false));
    let mut a = world.party();
    let source = a.source("px");
    let receivers = ["px", "p", "py"].map(|topic| {
        let mut party = world.party();
        if topic == "p" {
            party.context.create_pattern_receiver("^p", &ReceiverOptions::default()).expect("a pattern");
        } else {
            party.receiver(topic);
        }
        // Two receivers of a topic are one context.
        party.receiver(topic);
        driven(party, &stop)
    });
    let found = a.context.wait_for_receivers(source, 2, WATCHDOG, &mut a.heard).expect("the poller works");
    assert_eq!(found, 2, "the third receives another topic");
    assert_eq!(a.context.receivers(source), None, "nobody asks any more");
    let asked = a.counters.context.receiver_queries_sent.get();
    assert!(asked > 0 && a.counters.context.receiver_answers_rcved.get() >= 2);
    assert!(a.heard.count(|e| *e == Event::Told(source, SourceEvent::ReceiversChanged(2))) > 0);
    for i in 0..10u8 {
        a.send(source, &[i]).expect("there is room");
        a.turn();
    }
    // What was sent arrives, or is asked for again.
    (0..300).for_each(|_| a.turn());
    stop.store(true, Ordering::Release);
    for (thread, is_meant) in receivers.into_iter().zip([true, true, false]) {
        let party = thread.join().expect("it works");
        let all: Vec<u8> = party.heard.payloads().iter().map(|bytes| bytes[0]).collect();
        let mut first: Vec<u8> = all.clone();
        first.dedup();
        let wanted: Vec<u8> = if is_meant { (0..10).collect() } else { Vec::new() };
        assert_eq!(first, wanted, "from the first message on");
    }
    assert_eq!(a.counters.context.receiver_queries_sent.get(), asked);
}

pub(crate) fn nobody(world: &World) {
    let mut a = world.party();
    let source = a.source("px");
    let wait = |a: &mut Party, count, span| {
        a.context.wait_for_receivers(source, count, span, &mut a.heard).expect("it is no error")
    };
    assert_eq!(wait(&mut a, 0, WATCHDOG), 0);
    assert_eq!(wait(&mut a, 1, Duration::ZERO), 0);
    assert_eq!(wait(&mut a, 1, Duration::from_millis(50)), 0);
    a.context.delete_source(source);
    let gone = a.context.wait_for_receivers(source, 1, WATCHDOG, &mut a.heard);
    assert_eq!(gone.map_err(|error| error.kind()), Err(std::io::ErrorKind::NotFound));
}

pub(crate) fn come_and_go(world: &World) {
    let (mut a, mut b, mut c) = (world.party(), world.party(), world.party());
    let source = a.source("px");
    let other = a.source("py");
    b.receiver("px");
    let receiver = c.receiver("px");
    c.receiver("py");
    a.context.watch_receivers(source, true).expect("it is there");
    a.context.watch_receivers(other, true).expect("it is there");
    let counts =
        |a: &Party, x, y| (a.context.receivers(source), a.context.receivers(other)) == (Some(x), Some(y));
    until([&mut a, &mut b, &mut c], |[a, ..]| counts(a, 2, 1));
    c.context.delete_receiver(receiver);
    until([&mut a, &mut b, &mut c], |[a, ..]| counts(a, 1, 1));
    drop(c);
    until([&mut a, &mut b], |[a, _]| counts(a, 1, 0));
    let mut d = world.party();
    d.receiver("px");
    until([&mut a, &mut b, &mut d], |[a, ..]| counts(a, 2, 0));
    let told: Vec<&Event> = a.heard.events.iter().filter(|e| is_count(e)).collect();
    assert!(told.contains(&&Event::Told(source, SourceEvent::ReceiversChanged(2))), "{told:?}");
    assert!(told.contains(&&Event::Told(other, SourceEvent::ReceiversChanged(0))), "{told:?}");
    a.context.watch_receivers(source, false).expect("it is there");
    assert_eq!((a.context.receivers(source), a.context.receivers(other)), (None, Some(0)));
    let answered = [&b, &d].map(|party| answers(world, party));
    assert!(answered.iter().all(|count| *count > 0), "{answered:?}");
}

fn is_count(event: &Event) -> bool {
    matches!(event, Event::Told(_, SourceEvent::ReceiversChanged(_)))
}

/// Queries that a context has answered.
fn answers(world: &World, party: &Party) -> u64 {
    let counters = &party.counters;
    match world.transport {
        Transport::LbtRm => counters.receiver.queries_answered.get(),
        Transport::LbtRu => counters.ru_receiver.session.queries_answered.get(),
        Transport::Tcp => counters.tcp_receiver.queries_answered.get(),
        Transport::LbtIpc => counters.context.ipc_queries_answered.get(),
    }
}

pub(crate) fn embedded(world: &World) {
    let start = |counters| EmbeddedContext::start(&world.config(), counters, ()).expect("it starts");
    let (a, b) = (start(ContextCounters::default()), start(ContextCounters::default()));
    let mut source = a.create_source("px", &SourceOptions::default()).expect("a port is free");
    let handle = source.handle();
    let wait = |span| a.wait_for_receivers(handle, 1, span).expect("it runs").expect("it is there");
    assert_eq!(wait(Duration::ZERO), 0);
    b.call(|context| context.create_receiver("px", &ReceiverOptions::default()).map(drop))
        .expect("it runs")
        .expect("a legal name");
    assert_eq!(wait(WATCHDOG), 1);
    assert_eq!(a.receivers(handle), Ok(None));
    source.send(&[b"first"]).expect("there is room");
    source.flush();
}
