//! Contexts with threads of their own.

mod common;

use std::sync::mpsc::{Receiver as Inbox, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use common::{Patience, config};
use net::affinity;
use testkit::watchdog::WATCHDOG;
use tickcast_messaging::{
    Asked, CallError, ConnectionId, Context, ContextCounters, EmbeddedContext, EmbeddedSource, EventQueue,
    FailoverLoss, Handler, Message, MessagingConfig, QueueError, Receiver, ReceiverOptions, RequestId,
    SourceInfo, SourceOptions, StreamId, Wait,
};

/// Tells another thread what it hears.
struct Teller(Sender<Vec<u8>>);

impl Handler for Teller {
    fn on_message(&mut self, message: &Message<'_>) {
        // The test may be over.
        let _ = self.0.send(message.payload.to_vec());
    }
}

fn receiving(config: &MessagingConfig) -> (EmbeddedContext, Inbox<Vec<u8>>) {
    let (teller, told) = channel();
    let context =
        EmbeddedContext::start(config, ContextCounters::default(), Teller(teller)).expect("it starts");
    receive(&context, "px");
    (context, told)
}

fn receive(context: &EmbeddedContext, topic: &'static str) -> Receiver {
    let created = context.call(move |context| context.create_receiver(topic, &ReceiverOptions::default()));
    created.expect("it runs").expect("a legal name")
}

fn source(context: &EmbeddedContext) -> EmbeddedSource {
    context.create_source("px", &SourceOptions::default()).expect("a port is free")
}

/// Sends until the other side hears it.
fn meet(source: &mut EmbeddedSource, told: &Inbox<Vec<u8>>) {
    let patience = Patience::new();
    loop {
        assert!(patience.lasts(), "they do not meet");
        source.send(&[b"hello"]).expect("there is room");
        source.flush();
        match told.recv_timeout(Duration::from_millis(20)) {
            Ok(_) => break,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("the receiving thread has died"),
        }
    }
    source.send(&[b"begin"]).expect("there is room");
    source.flush();
    while told.recv_timeout(WATCHDOG).expect("it arrives") != b"begin" {}
}

#[test]
fn messages_go_from_thread_to_thread_by_every_wait_strategy() {
    for (test, wait) in Wait::ALL.iter().enumerate() {
        let config = MessagingConfig { wait: *wait, ..config(1 + test as u8) };
        let (_receiving, told) = receiving(&config);
        let sending = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
        let mut source = source(&sending);
        meet(&mut source, &told);
        for i in 0..200u32 {
            // Each of them finds the thread asleep, if it ever sleeps.
            source.send(&[&i.to_be_bytes()[..2], &i.to_be_bytes()[2..]]).expect("there is room");
            source.flush();
            assert_eq!(told.recv_timeout(WATCHDOG).expect("it arrives"), i.to_be_bytes());
        }
    }
}

#[test]
fn a_full_ring_refuses_and_loses_nothing() {
    let mut config = config(11);
    config.source_queue_bytes = 65_536;
    config.lbtrm.data_rate_limit_bits_per_second = 400_000_000;
    let (_receiving, told) = receiving(&config);
    let sending = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let mut source = source(&sending);
    meet(&mut source, &told);
    assert!(matches!(source.send(&[&[0; 65_536]]), Err(QueueError::TooLong { .. })));
    let (mut refusals, message) = (0, |i: u32| [&i.to_be_bytes()[..], &[7; 996]].concat());
    for i in 0..3_000 {
        while let Err(error) = source.send(&[&message(i)]) {
            assert_eq!(error, QueueError::WouldBlock);
            refusals += 1;
            std::thread::yield_now();
        }
    }
    source.flush();
    for i in 0..3_000 {
        assert!(told.recv_timeout(WATCHDOG).expect("it arrives") == message(i), "message {i}");
    }
    assert!(refusals > 0);
}

#[test]
fn stopping_sends_what_was_sent_before_and_ends_the_handles() {
    let config = config(12);
    let (_receiving, told) = receiving(&config);
    let sending = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let mut source = source(&sending);
    meet(&mut source, &told);
    source.send(&[b"last"]).expect("there is room");
    source.flush();
    sending.stop().expect("nothing failed");
    assert_eq!(told.recv_timeout(WATCHDOG).expect("it arrives"), b"last");
    while source.send(&[&[0; 1_000]]).is_ok() {}
    assert_eq!(source.send(&[&[0; 1_000]]), Err(QueueError::Stopped));
}

#[test]
fn what_was_not_flushed_leaves_as_well_when_the_thread_is_stopped() {
    let config = config(28);
    let (_receiving, told) = receiving(&config);
    let sending = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let mut source = source(&sending);
    meet(&mut source, &told);
    for number in 0..1_000u32 {
        source.send(&[&number.to_be_bytes()]).expect("there is room");
    }
    assert!(sending.stop().expect("nothing failed").is_empty());
    for number in 0..1_000u32 {
        assert_eq!(told.recv_timeout(WATCHDOG).expect("it arrives"), number.to_be_bytes());
    }
}

#[test]
fn a_thread_that_ends_by_itself_is_noticed_by_sources_and_by_the_queue() {
    let (context, mut queue) =
        EmbeddedContext::start_queued(&config(19), ContextCounters::default()).expect("it starts");
    let mut source = source(&context);
    assert!(!queue.is_over());
    let panicked = context.call(|_| panic!("as a bug would"));
    assert_eq!(panicked, Err(CallError::Stopped));
    let patience = Patience::new();
    while source.send(&[&[0; 1_000]]) != Err(QueueError::Stopped) {
        assert!(patience.lasts(), "sends never say that nobody takes them");
    }
    while !queue.is_over() {
        assert!(patience.lasts(), "the queue never says that nothing follows");
        queue.dispatch(usize::MAX, &mut ());
    }
    assert!(context.stop().is_err_and(|error| error.to_string().contains("panicked")));
}

#[test]
fn a_topic_ends_with_its_handle() {
    let config = config(13);
    let sending = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let source = source(&sending);
    let handle = source.handle();
    let exists = move |context: &mut Context| context.source_transport(handle).is_some();
    assert!(sending.call(exists).expect("it runs"));
    drop(source);
    let patience = Patience::new();
    while sending.call(exists).expect("it runs") {
        assert!(patience.lasts(), "the topic does not end");
    }
}

/// What came out of an event queue.
#[derive(Default)]
struct Heard {
    topics: Vec<String>,
    begins: usize,
    messages: Vec<Vec<u8>>,
    /// Numbers for hot failover, and those that were lost.
    numbers: Vec<u64>,
    lost: Vec<(String, u64, u64)>,
    asked: Vec<Asked>,
    responses: Vec<(RequestId, Vec<u8>)>,
    direct_bytes: usize,
}

impl Handler for Heard {
    fn on_message(&mut self, message: &Message<'_>) {
        self.asked.extend(message.request());
        self.numbers.extend(message.failover_number());
        self.messages.push(message.payload.to_vec());
    }
    fn on_source(&mut self, _: Receiver, _: StreamId, info: &SourceInfo<'_>) {
        self.topics.push(info.topic.to_owned());
    }
    fn on_begin(&mut self, _: Receiver, _: StreamId, _: tickcast_messaging::Sqn) {
        self.begins += 1;
    }
    fn on_failover_loss(&mut self, _: Receiver, topic: &str, loss: FailoverLoss) {
        self.lost.push((topic.to_owned(), loss.first, loss.count));
    }
    fn on_response(&mut self, request: RequestId, payload: &[u8]) {
        self.responses.push((request, payload.to_vec()));
    }
    fn on_direct(&mut self, _: ConnectionId, payload: &[u8]) {
        self.direct_bytes += payload.len();
    }
}

fn dispatch_until(queue: &mut EventQueue, heard: &mut Heard, done: impl Fn(&Heard) -> bool) {
    let patience = Patience::new();
    while !done(heard) {
        assert!(patience.lasts(), "hangs with {} messages", heard.messages.len());
        if queue.dispatch(100, heard) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_queue_keeps_the_order_of_all_events_and_makes_the_context_wait_when_it_is_full() {
    let mut config = config(14);
    config.event_queue_bytes = 65_536;
    let counters = ContextCounters::default();
    let (receiving, mut queue) = EmbeddedContext::start_queued(&config, counters.clone()).expect("it starts");
    receive(&receiving, "px");
    let sending = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let mut source = source(&sending);
    let mut heard = Heard::default();
    dispatch_until(&mut queue, &mut heard, |heard| !heard.topics.is_empty());
    assert_eq!((heard.topics.join(","), heard.begins), ("px".to_owned(), 0));
    // More than the queue holds, and one message that is longer than it.
    let message = |i: u32| vec![i as u8; if i == 50 { 200_000 } else { 1_000 }];
    let mut sent = 0;
    while counters.events.waits_for_room.get() == 0 {
        match source.send(&[&message(sent)]) {
            Ok(()) => sent += 1,
            Err(QueueError::WouldBlock | QueueError::TooLong { .. }) => std::thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
        assert!(sent < 1_000_000, "the queue never fills");
        source.flush();
    }
    dispatch_until(&mut queue, &mut heard, |heard| heard.messages.len() == sent as usize);
    assert_eq!(heard.begins, 1);
    for (i, payload) in heard.messages.iter().enumerate() {
        assert!(*payload == message(i as u32), "message {i}");
    }
    assert!(counters.events.depth_bytes_max.get() > 30_000 && counters.events.events.get() > u64::from(sent));
    assert!(queue.is_empty());
}

#[test]
fn a_context_whose_queue_nobody_empties_stops_all_the_same_and_counts_what_it_dropped() {
    let mut config = config(15);
    config.event_queue_bytes = 65_536;
    let counters = ContextCounters::default();
    let (receiving, queue) = EmbeddedContext::start_queued(&config, counters.clone()).expect("it starts");
    receive(&receiving, "px");
    let sending = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let mut source = source(&sending);
    let patience = Patience::new();
    while counters.events.waits_for_room.get() == 0 {
        assert!(patience.lasts(), "the queue never fills");
        let _ = source.send(&[&[0; 1_000]]);
        source.flush();
    }
    receiving.stop().expect("nothing failed");
    assert!(counters.events.events_dropped.get() > 0);
    drop(queue);
}

#[test]
fn direct_messages_that_nobody_takes_wait_with_their_peer_and_not_in_the_queue() {
    let config = MessagingConfig { event_queue_bytes: 65_536, ..config(29) };
    let counters = ContextCounters::default();
    let (receiving, mut queue) = EmbeddedContext::start_queued(&config, counters.clone()).expect("it starts");
    let port = receiving.call(Context::listen).expect("it runs").expect("a port is free");
    let mut peer = Context::standalone(&config).expect("it starts");
    let connection = peer.connect(port).expect("it is near");
    let payload = [7; 1_000_000];
    (0..64).for_each(|_| assert!(peer.send_direct(connection, &payload)));
    let patience = Patience::new();
    let mut turns = 0;
    // Once nothing more is received, nothing more leaves the peer than the kernel holds.
    while turns < 200 {
        assert!(patience.lasts(), "the queue never fills");
        peer.wait(Some(Duration::from_millis(1)), &mut ()).expect("it turns");
        turns += u32::from(counters.events.waits_for_room.get() > 0);
    }
    let left = peer.drain(Duration::ZERO, &mut ()).expect("it turns");
    assert!(left.direct_bytes > 0, "all 64 MB were taken");
    let mut heard = Heard::default();
    while heard.direct_bytes < 64 * payload.len() {
        assert!(patience.lasts(), "{} bytes came", heard.direct_bytes);
        peer.wait(Some(Duration::from_millis(1)), &mut ()).expect("it turns");
        queue.dispatch(usize::MAX, &mut heard);
    }
    // What is left behind does not hold anything up.
    (0..64).for_each(|_| assert!(peer.send_direct(connection, &payload)));
    drop(queue);
    assert!(peer.drain(WATCHDOG, &mut ()).expect("it turns").is_empty());
    receiving.stop().expect("nothing failed");
}

#[test]
fn requests_and_answers_pass_the_queue_with_what_they_carry() {
    let config = config(16);
    let start = || EmbeddedContext::start_queued(&config, ContextCounters::default()).expect("it starts");
    let ((asking, mut answers), (answering, mut questions)) = (start(), start());
    receive(&answering, "px");
    let source = source(&asking);
    let handle = source.handle();
    let mut heard = Heard::default();
    dispatch_until(&mut questions, &mut heard, |heard| !heard.topics.is_empty());
    let request = asking.call(move |context| context.request(handle, &[b"what?"]));
    let request = request.expect("it runs").expect("there is room");
    dispatch_until(&mut questions, &mut heard, |heard| !heard.asked.is_empty());
    let asked = heard.asked[0];
    answering.call(move |context| context.respond(asked, b"this")).expect("it runs").expect("it is near");
    let mut told = Heard::default();
    dispatch_until(&mut answers, &mut told, |told| !told.responses.is_empty());
    assert_eq!(told.responses, [(request, b"this".to_vec())]);
}

#[test]
fn a_cpu_that_does_not_exist_is_told_when_starting() {
    let config = MessagingConfig { thread_cpu: Some(100_000), ..config(17) };
    let refused = EmbeddedContext::start(&config, ContextCounters::default(), ()).err();
    assert!(refused.expect("there is none").to_string().contains("100000"));
}

#[test]
fn the_thread_has_the_real_time_priority_that_is_configured_and_the_applications_none() {
    let config = MessagingConfig { thread_realtime_priority: Some(3), ..config(31) };
    let context = match EmbeddedContext::start(&config, ContextCounters::default(), ()) {
        Err(error) => {
            let told = error.to_string();
            assert!(told.contains("real-time priority 3"), "{told}");
            return eprintln!("SKIPPED: this process may not take a real-time priority: {told}");
        }
        Ok(context) => context,
    };
    let there = context.call(|_| affinity::realtime_priority()).expect("it runs").expect("it is told");
    assert_eq!((there, affinity::realtime_priority().expect("it is told")), (Some(3), None));
    context.stop().expect("nothing failed");
}

#[test]
fn a_message_that_no_transport_could_take_is_dropped_and_counted_and_the_next_one_goes() {
    let config = MessagingConfig { maximum_message_size_bytes: Some(65_536), ..config(30) };
    let (_receiving, told) = receiving(&config);
    let counters = ContextCounters::default();
    let sending = EmbeddedContext::start(&config, counters.clone(), ()).expect("it starts");
    let mut source = source(&sending);
    meet(&mut source, &told);
    source.send(&[&[7; 65_537]]).expect("the ring has room");
    source.send(&[b"the next"]).expect("the ring has room");
    source.flush();
    assert_eq!(told.recv_timeout(WATCHDOG).expect("it arrives"), b"the next");
    assert_eq!(counters.context.sends_dropped.get(), 1);
}

#[test]
fn hot_failover_passes_the_rings_and_the_queue() {
    let mut config = config(18);
    config.source_queue_bytes = 65_536;
    config.lbtrm.data_rate_limit_bits_per_second = 400_000_000;
    config.hot_failover_gap_interval_us = 100_000_000;
    config.hot_failover_hold_maximum_bytes = 256 << 20;
    let counters = ContextCounters::default();
    let (receiving, mut queue) = EmbeddedContext::start_queued(&config, counters.clone()).expect("it starts");
    let options = ReceiverOptions { hot_failover: true, ..ReceiverOptions::default() };
    let created = receiving.call(move |context| context.create_receiver("px", &options));
    let receiver = created.expect("it runs").expect("a legal name");
    let start = || EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let sending = [start(), start()];
    let mut sources = [source(&sending[0]), source(&sending[1])];
    let mut heard = Heard::default();
    dispatch_until(&mut queue, &mut heard, |heard| heard.topics.len() == 2);
    let payload = |number: u64| [&number.to_be_bytes()[..], &[number as u8; 900]].concat();
    assert!(matches!(sources[0].send_hot_failover(0, &[&[0; 65_536]]), Err(QueueError::TooLong { .. })));
    let (mut refusals, first, last) = (0, 1 << 40, (1 << 40) + 3_000);
    for number in first..last {
        for (at, source) in sources.iter_mut().enumerate() {
            // The last two come from one source each: who has heard them has all copies of the others, which are
            // not to come when the numbers begin anew.
            if last - number <= 2 && (last - number) as usize != at + 1 {
                continue;
            }
            let bytes = payload(number);
            while let Err(error) = source.send_hot_failover(number, &[&bytes[..8], &bytes[8..]]) {
                assert_eq!(error, QueueError::WouldBlock);
                refusals += 1;
                queue.dispatch(100, &mut heard);
            }
            source.flush();
        }
    }
    dispatch_until(&mut queue, &mut heard, |heard| heard.numbers.last() == Some(&(last - 1)));
    assert!(refusals > 0 && counters.failover.duplicates.get() > 0);
    let heard_first = heard.numbers[0];
    assert!(heard.numbers.iter().copied().eq(heard_first..last), "each once and in order");
    for (number, bytes) in (heard_first..last).zip(&heard.messages) {
        assert!(*bytes == payload(number), "message {number}");
    }
    // Nobody knows whether a source that has just begun has passed over numbers, and the receiver waits for the
    // others; then the numbers begin anew.
    let mut late = source(&sending[1]);
    dispatch_until(&mut queue, &mut heard, |heard| heard.topics.len() == 3);
    late.send_hot_failover(last + 10, &[b"held"]).expect("there is room");
    late.flush();
    dispatch_until(&mut queue, &mut heard, |_| counters.failover.held_now.get() == 1);
    assert!(heard.lost.is_empty());
    receiving.restart_hot_failover(receiver).expect("it runs");
    dispatch_until(&mut queue, &mut heard, |heard| heard.numbers.last() == Some(&(last + 10)));
    assert_eq!(heard.lost, [("px".to_owned(), last, 10)]);
    sources[0].send_hot_failover(3, &[b"anew"]).expect("there is room");
    sources[0].flush();
    dispatch_until(&mut queue, &mut heard, |heard| heard.numbers.last() == Some(&3));
}
