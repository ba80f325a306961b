//! Contexts with threads of their own: nobody waits for somebody who waits for him, and what does not leave is
//! told.

mod common;

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use common::{Patience, config};
use testkit::watchdog::WATCHDOG;
use testkit::watchdog::joined;
use tickcast_messaging::{
    CallError, ContextCounters, EmbeddedContext, EmbeddedSource, EventQueue, Handler, Left, Message,
    MessagingConfig, QueueError, Receiver, ReceiverOptions, SourceEvent, SourceInfo, SourceOptions, StreamId,
    Transport,
};

fn source(context: &EmbeddedContext, topic: &str) -> EmbeddedSource {
    context.create_source(topic, &SourceOptions::default()).expect("a port is free")
}

fn receive(context: &EmbeddedContext, topic: &'static str) {
    let created = context.call(move |context| context.create_receiver(topic, &ReceiverOptions::default()));
    created.expect("it runs").expect("a legal name");
}

/// Sends until the queue of whoever receives is full; returns how many messages that were.
fn fill(source: &mut EmbeddedSource, counters: &ContextCounters) -> u32 {
    let (patience, mut sent) = (Patience::new(), 0_u32);
    while counters.events.waits_for_room.get() == 0 {
        assert!(patience.lasts(), "the queue never fills");
        match source.send(&[&sent.to_be_bytes(), &[7; 996]]) {
            Ok(()) => sent += 1,
            Err(QueueError::WouldBlock) => std::thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
        source.flush();
    }
    sent
}

/// Calls its own context from every event, and creates a source in the first.
struct Caller {
    context: Arc<EmbeddedContext>,
    made: Option<EmbeddedSource>,
    numbers: Vec<u32>,
}

impl Handler for Caller {
    fn on_message(&mut self, message: &Message<'_>) {
        self.context.call(|context| context.flush()).expect("the thread answers");
        let context = &self.context;
        self.made.get_or_insert_with(|| source(context, "made in an event"));
        self.numbers.push(u32::from_be_bytes(*message.payload.first_chunk().expect("a number")));
    }
}

fn queued(config: &MessagingConfig) -> (Arc<EmbeddedContext>, EventQueue, ContextCounters) {
    let counters = ContextCounters::default();
    let (context, queue) = EmbeddedContext::start_queued(config, counters.clone()).expect("it starts");
    receive(&context, "px");
    (Arc::new(context), queue, counters)
}

#[test]
fn a_dispatched_event_may_call_the_context_though_the_queue_is_full() {
    let config = MessagingConfig { event_queue_bytes: 65_536, ..config(1) };
    let (context, mut queue, counters) = queued(&config);
    let sending = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let mut source = source(&sending, "px");
    await_source(&mut queue);
    let sent = fill(&mut source, &counters);
    let mut caller = Caller { context, made: None, numbers: Vec::new() };
    let patience = Patience::new();
    while caller.numbers.len() < sent as usize {
        assert!(patience.lasts(), "hangs after {} of {sent}", caller.numbers.len());
        queue.dispatch(10, &mut caller);
    }
    assert!(caller.numbers.into_iter().eq(0..sent), "what was held keeps its place");
    assert_eq!(counters.events.events_dropped.get(), 0);
}

/// Dispatches until a source is found.
fn await_source(queue: &mut EventQueue) {
    struct Found(bool);
    impl Handler for Found {
        fn on_message(&mut self, _: &Message<'_>) {}
        fn on_source(&mut self, _: Receiver, _: StreamId, _: &SourceInfo<'_>) {
            self.0 = true;
        }
    }
    let (mut found, patience) = (Found(false), Patience::new());
    while !found.0 {
        assert!(patience.lasts(), "no source is found");
        queue.dispatch(1, &mut found);
    }
}

/// Tells what it hears to another thread.
struct Teller(Sender<Vec<u8>>);

impl Handler for Teller {
    fn on_message(&mut self, message: &Message<'_>) {
        // The test may be over.
        let _ = self.0.send(message.payload.to_vec());
    }
}

#[test]
fn a_context_whose_queue_is_full_or_gone_goes_on_sending_over_every_transport() {
    for (test, transport) in
        (2..).zip([Transport::LbtRm, Transport::LbtRu, Transport::Tcp, Transport::LbtIpc])
    {
        let config = MessagingConfig { event_queue_bytes: 65_536, transport, ..config(test) };
        let (stuck, queue, counters) = queued(&config);
        let mut own = source(&stuck, "own");
        let sending = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
        let mut filler = source(&sending, "px");
        fill(&mut filler, &counters);
        // Who comes now finds the source that nobody hears events of, and hears it.
        let (teller, told) = channel();
        let other = EmbeddedContext::start(&config, ContextCounters::default(), Teller(teller));
        let other = other.expect("it starts");
        receive(&other, "own");
        hear(&mut own, &told, b"the queue is full");
        drop(queue);
        hear(&mut own, &told, b"the queue is gone");
        let stuck = Arc::into_inner(stuck).expect("nobody else has it");
        stuck.stop().expect("nothing failed");
        assert!(counters.events.events_dropped.get() > 0);
    }
}

/// Sends something until it is heard.
fn hear(source: &mut EmbeddedSource, told: &mpsc::Receiver<Vec<u8>>, what: &[u8]) {
    let patience = Patience::new();
    loop {
        assert!(patience.lasts(), "nothing is heard of it");
        source.send(&[what]).expect("there is room");
        source.flush();
        if told.recv_timeout(Duration::from_millis(20)).is_ok_and(|heard| heard == what) {
            return;
        }
    }
}

/// Asks its own context for something in the first event of a source, and stops it.
struct StopsItself {
    context: Arc<OnceLock<EmbeddedContext>>,
    told: Sender<(CallError, std::io::ErrorKind)>,
}

impl Handler for StopsItself {
    fn on_message(&mut self, _: &Message<'_>) {}
    fn on_source_event(&mut self, _: tickcast_messaging::Source, _: SourceEvent) {
        let Some(context) = Arc::get_mut(&mut self.context).and_then(OnceLock::take) else { return };
        let refused = context.call(|_| ()).expect_err("it would wait for itself");
        let created = context.create_source("no", &SourceOptions::default());
        assert!(created.is_err_and(|error| error.to_string().contains("own thread")));
        let stopped = context.stop().expect_err("it cannot be waited for");
        // The test may be over.
        let _ = self.told.send((refused, stopped.kind()));
    }
}

#[test]
fn a_handler_on_the_contexts_own_thread_is_refused_what_would_wait_for_itself_and_may_stop_it() {
    let config = MessagingConfig { transport: Transport::Tcp, ..config(6) };
    let (told, outcome) = channel();
    let cell = Arc::new(OnceLock::new());
    let handler = StopsItself { context: cell.clone(), told };
    let context = EmbeddedContext::start(&config, ContextCounters::default(), handler).expect("it starts");
    let mut source = source(&context, "px");
    assert!(cell.set(context).is_ok());
    drop(cell);
    let other = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    receive(&other, "px");
    let outcome = outcome.recv_timeout(WATCHDOG).expect("the source is told of its receiver");
    assert_eq!(outcome, (CallError::OwnThread, std::io::ErrorKind::Deadlock));
    let patience = Patience::new();
    while source.send(&[b"late"]) != Err(QueueError::Stopped) {
        assert!(patience.lasts(), "the thread does not end");
    }
}

#[test]
fn a_thread_that_is_stopped_without_linger_says_what_did_not_leave() {
    let mut config = MessagingConfig { source_queue_bytes: 65_536, ..config(7) };
    // What the ring holds takes 5 s, however the threads are paused.
    config.lbtrm.data_rate_limit_bits_per_second = 100_000;
    config.lbtrm.retransmit_rate_limit_bits_per_second = 50_000;
    let context = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let mut source = source(&context, "px");
    let mut sent = 0;
    let patience = Patience::new();
    loop {
        while source.send(&[&[7; 1_000]]).is_ok() {
            sent += 1;
        }
        source.flush();
        // The ring is full, with some 60 messages, once the backlog behind it is.
        let waiting = context.drain(Duration::from_millis(1)).expect("it runs");
        if waiting.queued_messages > 30 && !waiting.sessions.is_empty() && sent > 100 {
            break;
        }
        assert!(patience.lasts(), "{waiting} of {sent}");
    }
    let left = context.close(Duration::ZERO).expect("nothing failed");
    assert!(left.queued_messages > 0 && left.sessions[0].messages > 0, "{left}");
    assert!(left.messages() < sent && left.messages() > 50, "{left} of {sent}");
    assert_eq!((source.queued_bytes(), left == Left::default()), (0, false));
}

#[test]
fn draining_a_thread_waits_for_its_rings() {
    let config = config(8);
    let context = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let mut source = source(&context, "px");
    for _ in 0..3_000 {
        source.send_wait(&[&[7; 1_000]], WATCHDOG).expect("room comes");
    }
    source.flush();
    let left = context.drain(WATCHDOG).expect("it runs");
    assert!(left.is_empty(), "{left}");
    assert_eq!(source.queued_bytes(), 0);
}

#[test]
fn what_is_accepted_while_a_thread_is_stopped_has_left_or_is_counted() {
    // Nobody receives, so that shared memory takes everything that the thread takes.
    let config = MessagingConfig { transport: Transport::LbtIpc, source_queue_bytes: 65_536, ..config(9) };
    for round in 0..40 {
        let counters = ContextCounters::default();
        let context = EmbeddedContext::start(&config, counters.clone(), ()).expect("it starts");
        let sending = (0..4).map(|number| {
            let mut source = source(&context, &format!("px{number}"));
            std::thread::spawn(move || {
                let mut accepted = 0_u64;
                loop {
                    match source.send(&[&[7; 100]]) {
                        Ok(()) => accepted += 1,
                        Err(QueueError::WouldBlock) => std::thread::yield_now(),
                        Err(refused) => {
                            assert_eq!(refused, QueueError::Stopped);
                            return accepted;
                        }
                    }
                    if accepted.is_multiple_of(3) {
                        source.flush();
                    }
                }
            })
        });
        let sending: Vec<_> = sending.collect();
        let patience = Patience::new();
        while counters.lbm_source.lbm_msgs_sent.get() < 100 * round {
            assert!(patience.lasts(), "nothing is sent");
            std::thread::yield_now();
        }
        let left = context.close(Duration::ZERO).expect("nothing failed");
        let accepted: u64 = sending.into_iter().map(joined).sum();
        assert_eq!(accepted, counters.lbm_source.lbm_msgs_sent.get() + left.queued_messages, "{left}");
    }
}

/// Answers each message with one that is to wait for room, and tells what came of it.
struct Waiter {
    own: Arc<Mutex<Option<EmbeddedSource>>>,
    told: Sender<Result<(), QueueError>>,
}

impl Handler for Waiter {
    fn on_message(&mut self, _: &Message<'_>) {
        let mut own = self.own.lock().expect("nothing panics with it");
        let Some(own) = own.as_mut() else { return };
        // The test may be over.
        let _ = self.told.send(own.send_wait(&[b"answer"], Duration::MAX));
        let _ = self.told.send(own.send(&[b"answer"]));
    }
}

#[test]
fn a_handler_on_the_library_s_thread_does_not_wait_for_room_that_this_thread_makes() {
    let config = config(7);
    let (own, (told, heard)) = (Arc::default(), channel());
    let handler = Waiter { own: Arc::clone(&own), told };
    let context = EmbeddedContext::start(&config, ContextCounters::default(), handler).expect("it starts");
    receive(&context, "px");
    *own.lock().expect("nothing panics with it") = Some(source(&context, "answers"));
    let sending = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let mut px = source(&sending, "px");
    let patience = Patience::new();
    let first = loop {
        assert!(patience.lasts(), "nothing is heard");
        px.send_wait(&[b"hello"], WATCHDOG).expect("another thread may wait");
        px.flush();
        if let Ok(result) = heard.recv_timeout(Duration::from_millis(10)) {
            break result;
        }
    };
    assert_eq!((first, heard.recv_timeout(WATCHDOG)), (Err(QueueError::OwnThread), Ok(Ok(()))));
    drop(own.lock().expect("nothing panics with it").take());
}
