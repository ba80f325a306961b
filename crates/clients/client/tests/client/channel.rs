//! A consumer in a thread of its own, whose application takes less than comes.

use rssl::ServerConfig;
use rwf::{Real, Value};
use tickcast_client::{
    Consumer, ConsumerChannel, ConsumerConfig, ItemRequestSpec, OwnedEvent, OwnedItemEvent, QueueBound,
    QueueConfig, QueueOverrun, WhenFull,
};

use crate::sockets::{LIMIT, TestServer, config};
use crate::world::{fields, image, update};

const UPDATES: usize = 20_000;

/// The channel of a consumer with an item, whose image waits.
fn channel(server: &TestServer, config: &ConsumerConfig, queue: &QueueConfig) -> ConsumerChannel {
    let channel = Consumer::new(config).expect("resources").into_channel_with(queue).expect("a thread");
    channel.subscribe(&ItemRequestSpec::new("S", "I")).expect("it runs").expect("new");
    server.hear();
    channel
}

fn say_updates(server: &TestServer) {
    (0..UPDATES).for_each(|n| server.say(&update(5, &fields(n as i64))));
}

fn next_item(channel: &ConsumerChannel) -> OwnedItemEvent {
    loop {
        match channel.recv_timeout(LIMIT).expect("everything comes") {
            OwnedEvent::Item(item) => return item,
            OwnedEvent::Disconnected { reason, .. } => panic!("{reason}"),
            _ => {}
        }
    }
}

/// Waits for what another thread does.
fn wait_until(mut done: impl FnMut() -> bool) {
    let end = net::clock::monotonic().after(LIMIT);
    while !done() {
        assert!(net::clock::monotonic() < end, "it does not come");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_channel_that_conflates_reads_on_and_gives_the_newest_values() {
    let server = TestServer::start();
    let queue = QueueConfig { when_full: WhenFull::Conflate, events_max: 50, ..QueueConfig::default() };
    let channel = channel(&server, &config(&server), &queue);
    say_updates(&server);
    // Nobody takes anything, and still all is read.
    wait_until(|| channel.stats().updates_in == UPDATES as u64);
    let stats = channel.stats();
    assert!(stats.is_conflating && stats.updates_merged > UPDATES as u64 - 50, "{stats:?}");
    assert_eq!((stats.items_waiting, stats.blocks, stats.events_waiting_max), (1, 0, 50), "{stats:?}");
    let (mut stood_for, mut last) = (0, None);
    while stood_for < UPDATES as u64 {
        let item = next_item(&channel);
        if item.is_update() {
            stood_for += item.merged.map_or(1, |merged| merged.updates);
            last = item.price("BID").expect("it can be read");
        }
    }
    assert_eq!((stood_for, last), (UPDATES as u64, Some(Real::decimal(UPDATES as i64 - 1, 2))));
    let stats = channel.stats();
    assert_eq!((stats.events_waiting, stats.merged_events, stats.is_conflating), (0, 1, false), "{stats:?}");
    channel.close().expect("it has worked");
}

/// What the server says waits in the socket for longer than its ping timeout, and an answer for longer than the item's.
#[test]
fn a_channel_that_blocks_keeps_its_connection_and_takes_no_answer_for_late() {
    for when_full in [WhenFull::Block, WhenFull::Conflate] {
        let server =
            TestServer::start_with(ServerConfig { ping_timeout_min_s: 1, ..ServerConfig::default() });
        let config = ConsumerConfig {
            read_buffer_bytes: 4_096,
            ping_timeout_s: 1,
            item_timeout_ms: 500,
            ..config(&server)
        };
        let queue = QueueConfig { when_full, events_max: 50, bytes_max: 4_096 };
        let channel = channel(&server, &config, &queue);
        // Images cannot be merged: both stop reading.
        let payload = fields(0);
        let image = rwf::RefreshMsg { payload: &payload, ..image(5, 1) };
        (0..UPDATES).for_each(|_| server.say(&image));
        wait_until(|| channel.stats().blocks == 1);
        channel.subscribe(&ItemRequestSpec::new("S", "J")).expect("it runs").expect("new");
        let pings =
            || channel.call(|consumer| consumer.connection_counters().pings_out.get()).expect("it runs");
        // Three in a ping timeout.
        let before = pings();
        wait_until(|| pings() >= before + 7);
        let (mut images, mut is_answered) = (0, false);
        while images < UPDATES || !is_answered {
            let item = next_item(&channel);
            assert!(item.is_refresh() && item.is_ok(), "{item}");
            images += usize::from(&*item.name == "I");
            is_answered |= &*item.name == "J";
        }
        assert_eq!(channel.stats().events_waiting, 0);
        drop(channel);
    }
}

#[test]
fn a_channel_that_fails_gives_what_came_and_names_the_bound() {
    let server = TestServer::start();
    let queue = QueueConfig { when_full: WhenFull::Fail, events_max: 50, ..QueueConfig::default() };
    let channel = channel(&server, &config(&server), &queue);
    say_updates(&server);
    // The thread has ended before anything is taken.
    wait_until(|| channel.call(|_| ()).is_none());
    let events: Vec<OwnedEvent> = channel.into_iter().collect();
    assert_eq!(events.len(), 51);
    let bound = QueueBound::Events { max: 50 };
    assert!(
        matches!(events.last(), Some(OwnedEvent::QueueFull(QueueOverrun { events: 50, bound: of, .. })) if *of == bound)
    );
    let mut next = 0;
    for item in
        events.iter().filter_map(|event| if let OwnedEvent::Item(item) = event { Some(item) } else { None })
    {
        if item.is_update() {
            assert_eq!(item.field("BID"), Ok(Some(Value::Real(Real::decimal(next, 2)))));
            next += 1;
        }
    }
    assert!(next > 10, "{next}");
    let why = channel.close().expect_err("it says why").to_string();
    assert!(why.contains("50 events") && why.contains("events_max = 50"), "{why}");
}

#[test]
fn bounds_out_of_range_are_refused_with_their_name_and_range() {
    let server = TestServer::start();
    for (queue, words) in [
        (QueueConfig { events_max: 0, ..QueueConfig::default() }, "events_max = 0, but 1 to 16777216"),
        (QueueConfig { bytes_max: 1, ..QueueConfig::default() }, "bytes_max = 1, but 4096 to 1073741824"),
    ] {
        let refused = Consumer::new(&config(&server)).expect("resources").into_channel_with(&queue);
        let error = refused.err().expect("out of range").to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// Images are kept as long as their items, however those end.
#[test]
fn what_is_unsubscribed_is_not_merged_any_more() {
    let server = TestServer::start();
    let queue = QueueConfig { when_full: WhenFull::Conflate, events_max: 20, ..QueueConfig::default() };
    let channel =
        Consumer::new(&config(&server)).expect("resources").into_channel_with(&queue).expect("a thread");
    let handle = channel.subscribe(&ItemRequestSpec::new("S", "I")).expect("it runs").expect("new");
    server.hear();
    (0..100).for_each(|n| server.say(&update(5, &fields(n))));
    wait_until(|| channel.stats().updates_in == 100);
    assert_eq!(channel.stats().items_waiting, 1);
    assert!(channel.unsubscribe(handle));
    wait_until(|| channel.stats().items_waiting == 0);
    while let Some(event) = channel.try_recv() {
        assert!(!matches!(event, OwnedEvent::Item(item) if item.merged.is_some()));
    }
    channel.close().expect("it has worked");
}
