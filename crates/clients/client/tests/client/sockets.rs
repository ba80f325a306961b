//! Consumer and provider over real sockets on the loopback.
//!
//! Nothing here sleeps: servers run in threads that wait for their sockets, and every wait has a limit far
//! beyond what is needed, so that a fault ends the test instead of hanging it.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use counters::table::RsslConnections;
use net::tcp::{self, Moved};
use net::{Interest, Poller, Token, clock};
use rdm::ToVec;
use rssl::{Handler, Outbound, ServerConfig, ServerConnection, Session, Stop};
use rwf::{Domain, Msg, Real, RefreshMsg, RequestMsg, Value, Writer};
use tickcast_client::{
    Consumer, ConsumerConfig, ConsumerEvent, DisconnectReason, HostPort, OwnedEvent, Provider,
    ProviderConfig, ProviderEvent, ProviderServiceConfig, PublishError, Published, RefreshSpec, UpdateSpec,
};

use crate::world::{Manners, fields, update};

/// Far beyond what anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
const READS: usize = 1 << 16;

/// A server in a thread of its own: answers by itself, sends updates on every item stream, counts what it
/// receives.
pub(crate) struct TestServer {
    port: u16,
    orders: Sender<Order>,
    heard: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<()>>,
    waker: net::Waker,
}

enum Order {
    /// Say this.
    Say(Vec<u8>),
    /// End the connection.
    Cut,
    /// Read nothing, or read again.
    Deaf(bool),
    /// End the thread.
    End,
}

impl TestServer {
    pub(crate) fn start() -> TestServer {
        TestServer::start_with(ServerConfig::default())
    }

    pub(crate) fn start_with(config: ServerConfig) -> TestServer {
        let listener = tcp::listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (orders, to_do) = mpsc::channel();
        let (tell, heard) = mpsc::channel();
        let (started, waker) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let poller = Poller::new().expect("descriptors");
            let waker = net::Waker::new(poller.registrar(), Token(2)).expect("descriptors");
            started.send(waker.clone()).expect("it is awaited");
            serve(&config, &listener, poller, &waker, (&to_do, &tell));
        });
        let waker = waker.recv().expect("the thread has started");
        TestServer { port, orders, heard, thread: Some(thread), waker }
    }

    fn order(&self, order: Order) {
        self.orders.send(order).expect("the server runs");
        self.waker.wake();
    }

    pub(crate) fn say(&self, message: &impl ToVec) {
        self.order(Order::Say(message.to_vec().expect("legal")));
    }

    pub(crate) fn hosts(&self) -> Vec<HostPort> {
        vec![HostPort::new("127.0.0.1", self.port)]
    }

    /// The next message that is about an item.
    pub(crate) fn hear(&self) -> Vec<u8> {
        loop {
            let bytes = self.heard.recv_timeout(LIMIT).expect("a message comes in time");
            if Msg::parse(&bytes).is_ok_and(|msg| rdm::item::has_items(msg.domain())) {
                return bytes;
            }
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::End);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Peer {
    stream: TcpStream,
    connection: ServerConnection,
}

struct Answering<'s> {
    manners: Manners,
    tell: &'s Sender<Vec<u8>>,
}

impl Handler for Answering<'_> {
    fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop> {
        for answer in self.manners.answers(&Msg::parse(message).expect("our own messages are legal")) {
            out.push(&answer).expect("room");
        }
        // A test that is over hears nothing more.
        let _ = self.tell.send(message.to_vec());
        ControlFlow::Continue(())
    }
}

fn serve(
    config: &ServerConfig,
    listener: &TcpListener,
    mut poller: Poller,
    waker: &net::Waker,
    (orders, tell): (&Receiver<Order>, &Sender<Vec<u8>>),
) {
    let params = Arc::new(config.clone().check().expect("good"));
    let mut handler = Answering { manners: Manners::default(), tell };
    let (mut peer, mut deaf, mut buffer): (Option<Peer>, bool, _) = (None, false, vec![0; READS]);
    poller.registrar().add(listener, Token(0), Interest::Read).expect("a descriptor");
    loop {
        // A deaf server has nothing to wait for but orders.
        let first = if deaf { orders.recv().ok() } else { None };
        for order in first.into_iter().chain(orders.try_iter()) {
            match order {
                Order::End => return,
                Order::Cut => peer = None,
                Order::Deaf(is_deaf) => deaf = is_deaf,
                Order::Say(bytes) => {
                    // A client may have gone meanwhile.
                    if let Some(peer) = peer.as_mut() {
                        peer.connection.outbound().push(&bytes).expect("room");
                    }
                }
            }
        }
        if let Some((stream, _)) = tcp::accept(listener).expect("descriptors") {
            poller.registrar().add(&stream, Token(1), Interest::Read).expect("a descriptor");
            let connection =
                ServerConnection::new(clock::monotonic(), &params, &Arc::new(RsslConnections::default()), 1);
            peer = Some(Peer { stream, connection });
        }
        if peer.as_mut().is_some_and(|peer| !peer.turn(deaf, &mut buffer, &mut handler)) {
            peer = None;
        }
        if !deaf {
            poller.wait(None).expect("a poller").for_each(drop);
            waker.acknowledge();
        }
    }
}

impl Peer {
    /// Reads all there is; returns whether the connection goes on.
    fn read(&mut self, buffer: &mut [u8], handler: &mut Answering<'_>) -> bool {
        loop {
            match tcp::read(&self.stream, buffer) {
                Ok(Moved::Bytes(count)) => {
                    if self.connection.on_bytes(clock::monotonic(), &buffer[..count], handler).is_err() {
                        return false;
                    }
                }
                Ok(Moved::WouldBlock) => return true,
                Ok(Moved::End) | Err(_) => return false,
            }
        }
    }

    /// Reads and writes; returns whether the connection goes on.
    fn turn(&mut self, deaf: bool, buffer: &mut [u8], handler: &mut Answering<'_>) -> bool {
        if !deaf && !self.read(buffer, handler) {
            return false;
        }
        loop {
            let pending = self.connection.outbound().flush();
            if pending.is_empty() {
                return true;
            }
            match tcp::write(&self.stream, pending) {
                Ok(Moved::Bytes(count)) => self.connection.outbound().consume(count),
                Ok(Moved::WouldBlock) => std::thread::yield_now(),
                Ok(Moved::End) | Err(_) => return false,
            }
        }
    }
}

pub(crate) fn config(server: &TestServer) -> ConsumerConfig {
    ConsumerConfig {
        hosts: server.hosts(),
        reconnect_delay_min_ms: 1,
        reconnect_delay_max_ms: 10,
        ..ConsumerConfig::default()
    }
}

/// Dispatches until `done` says so of an event.
fn until(consumer: &mut Consumer, mut done: impl FnMut(&ConsumerEvent<'_>) -> bool) {
    let (end, mut is_done) = (clock::monotonic().after(LIMIT), false);
    while !is_done {
        consumer.dispatch(LIMIT, &mut |event| is_done |= done(&event)).expect("a poller");
        assert!(clock::monotonic() < end, "the event does not come");
    }
}

fn is_item(event: &ConsumerEvent<'_>, refresh: bool) -> bool {
    matches!(event, ConsumerEvent::Item(event) if event.is_refresh() == refresh && event.is_ok())
}

#[test]
fn a_consumer_is_told_of_images_updates_losses_and_new_images() {
    let server = TestServer::start();
    let mut consumer = Consumer::new(&config(&server)).expect("resources");
    let handle = consumer.subscribe("S", "I").expect("new");
    until(&mut consumer, |event| is_item(event, true));
    let request = RequestMsg::parse(&server.hear()).map(|request| request.stream_id);
    assert_eq!(request, Ok(5));
    server.say(&update(5, &fields(7)));
    let bid = consumer.field_id("BID").expect("downloaded");
    until(&mut consumer, |event| {
        let ConsumerEvent::Item(event) = event else { return false };
        event.field(bid) == Ok(Some(Value::Real(Real::decimal(7, 2))))
    });
    server.order(Order::Cut);
    until(&mut consumer, |event| matches!(event, ConsumerEvent::Disconnected { retry_in: Some(_), .. }));
    until(&mut consumer, |event| is_item(event, true));
    assert_eq!(consumer.item_name(handle), Some(("S", "I")));
    assert_eq!(consumer.counters().disconnects.get(), 1);
    assert!(consumer.unsubscribe(handle));
    server.hear();
    consumer.dispatch(Duration::ZERO, &mut |_| ()).expect("a poller");
    assert!(matches!(Msg::parse(&server.hear()), Ok(Msg::Close(_))));
    consumer.close();
    let last = std::iter::from_fn(|| server.heard.recv_timeout(LIMIT).ok())
        .find(|bytes| matches!(Msg::parse(bytes), Ok(Msg::Close(close)) if close.domain == Domain::LOGIN));
    assert!(last.is_some(), "the logout arrives");
}

#[test]
fn a_server_that_is_not_there_is_tried_again_and_a_timeout_ends_the_wait() {
    let taken = tcp::listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = taken.local_addr().expect("bound").port();
    drop(taken);
    // A label of 64 letters is no name, which the resolver sees without asking anybody.
    let hosts = vec![HostPort::new("localhost", port), HostPort::new("x".repeat(64), 1)];
    let mut consumer =
        Consumer::new(&ConsumerConfig { hosts, ..ConsumerConfig::default() }).expect("resources");
    let mut reasons = Vec::new();
    while reasons.len() < 2 {
        let count = consumer.dispatch(LIMIT, &mut |event| {
            if let ConsumerEvent::Disconnected { reason, .. } = event {
                reasons.push(reason.to_string());
            }
        });
        assert!(count.is_ok_and(|count| count > 0));
    }
    assert!(
        reasons[0].contains("refused") && reasons[1].contains("host name cannot be resolved"),
        "{reasons:?}"
    );
    let count = consumer.dispatch(Duration::from_millis(1), &mut |_| ());
    assert_eq!(count.expect("a poller"), 0);
    assert!(consumer.next_wakeup() > clock::monotonic());
}

#[test]
fn a_consumer_lives_in_somebody_elses_loop() {
    let server = TestServer::start();
    let mut consumer = Consumer::new(&config(&server)).expect("resources");
    consumer.subscribe("S", "I").expect("new");
    let mut poller = Poller::new().expect("descriptors");
    let (mut refreshes, mut cut) = (0, false);
    let end = clock::monotonic().after(LIMIT);
    loop {
        consumer.work(&mut |event| refreshes += usize::from(is_item(&event, true)));
        if refreshes == 2 {
            return;
        }
        if refreshes == 1 && !cut {
            assert!(consumer.descriptor().is_some());
            server.order(Order::Cut);
            cut = true;
        }
        consumer.arm(poller.registrar(), Token(9)).expect("a descriptor");
        let now = clock::monotonic();
        assert!(now < end, "the events do not come");
        let wait = consumer.next_wakeup().min(end).since(now);
        for ready in poller.wait(Some(wait)).expect("a poller") {
            assert_eq!(ready.token, Token(9));
        }
    }
}

#[test]
fn a_channel_hands_events_over_and_does_what_it_is_asked_in_its_thread() {
    let server = TestServer::start();
    let channel = Consumer::new(&config(&server)).expect("resources").into_channel(100).expect("a thread");
    let spec = tickcast_client::ItemRequestSpec { tag: 5, ..tickcast_client::ItemRequestSpec::new("S", "I") };
    let handle = channel.subscribe(&spec).expect("it runs").expect("new");
    let refresh =
        (&channel).find_map(|event| if let OwnedEvent::Item(item) = event { Some(item) } else { None });
    let refresh = refresh.expect("it comes");
    assert_eq!((refresh.handle, refresh.tag, &*refresh.name), (handle, 5, "I"));
    assert_eq!(refresh.field("BID"), Ok(Some(Value::Real(Real::decimal(1, 2)))));
    assert_eq!(channel.call(|consumer| consumer.item_count()), Some(1));
    assert!(channel.try_recv().is_none() && channel.is_empty());
    assert!(channel.unsubscribe(handle) && !channel.unsubscribe(handle));
    assert!(channel.recv_timeout(Duration::from_millis(1)).is_none());
    channel.close().expect("it has worked");
}

#[test]
fn a_channel_whose_thread_has_died_says_so_and_blocks_nobody() {
    let server = TestServer::start();
    let channel = Consumer::new(&config(&server)).expect("resources").into_channel(10).expect("a thread");
    let nothing: Option<()> = channel.call(|_| panic!("a fault of the application"));
    assert_eq!(nothing, None);
    assert!(
        (&channel).all(|event| !matches!(event, OwnedEvent::Item(_))),
        "what there was, and then the end"
    );
    assert!(channel.close().is_err());
}

#[test]
fn a_channel_that_nobody_reads_stops_reading_and_loses_nothing() {
    const UPDATES: usize = 20_000;
    let server = TestServer::start();
    let config = ConsumerConfig { read_buffer_bytes: 4_096, ..config(&server) };
    let channel = Consumer::new(&config).expect("resources").into_channel(50).expect("a thread");
    channel.subscribe(&tickcast_client::ItemRequestSpec::new("S", "I")).expect("it runs").expect("new");
    server.hear();
    for n in 0..UPDATES {
        server.say(&update(5, &fields(n as i64)));
    }
    let (mut next, mut most) = (0, 0);
    while next < UPDATES {
        // What waits is bounded by the capacity and what one read completes; an update has more than 20
        // bytes.
        most = most.max(channel.len());
        let event = channel.recv_timeout(LIMIT).expect("everything comes");
        let OwnedEvent::Item(item) = event else { continue };
        if item.view(|view| view.is_update()) {
            assert_eq!(item.field("BID"), Ok(Some(Value::Real(Real::decimal(next as i64, 2)))));
            next += 1;
        }
    }
    assert!((50..50 + (4_096 + 6_147) / 20).contains(&most), "{most}");
    drop(channel);
}

/// A server takes a client for gone that is busy with what it has read and says nothing meanwhile.
#[test]
fn a_slow_application_is_interrupted_for_the_ping_though_more_is_there_to_be_read() {
    const UPDATES: usize = 4_000;
    let server = TestServer::start_with(ServerConfig { ping_timeout_min_s: 1, ..ServerConfig::default() });
    let config = ConsumerConfig { read_buffer_bytes: 4_096, ping_timeout_s: 1, ..config(&server) };
    let mut consumer = Consumer::new(&config).expect("resources");
    consumer.subscribe("S", "I").expect("new");
    until(&mut consumer, |event| is_item(event, true));
    for n in 0..UPDATES {
        server.say(&update(5, &fields(n as i64)));
    }
    let (mut all, mut most) = (0, 0);
    while all < UPDATES {
        let before = all;
        consumer.work(&mut |event| {
            all += usize::from(is_item(&event, false));
            std::thread::sleep(Duration::from_micros(300));
        });
        most = most.max(all - before);
    }
    // Pings are a third of a second apart; 16 reads hold more than 2,000 updates.
    assert!(most < 1_400, "{most} updates without a look at the time");
}

fn provider(server: &TestServer, change: impl FnOnce(&mut ProviderConfig)) -> Provider {
    let services =
        vec![ProviderServiceConfig { name: "P".into(), id: 3, ..ProviderServiceConfig::default() }];
    let mut config = ProviderConfig {
        hosts: server.hosts(),
        services,
        reconnect_delay_min_ms: 1,
        reconnect_delay_max_ms: 10,
        ..ProviderConfig::default()
    };
    change(&mut config);
    Provider::new(&config).expect("resources")
}

fn until_ready(provider: &mut Provider) -> u64 {
    let (end, mut images) = (clock::monotonic().after(LIMIT), None);
    while images.is_none() {
        let on_event = &mut |event: ProviderEvent<'_>| {
            if let ProviderEvent::Ready { images_count, .. } = event {
                images = Some(images_count);
            }
        };
        provider.dispatch(LIMIT, on_event).expect("a poller");
        assert!(clock::monotonic() < end, "the event does not come");
    }
    images.expect("it is there")
}

fn price(n: i64) -> impl FnMut(&mut Writer<'_>) {
    move |w| w.field_list(|f| f.put(22, Real::decimal(n, 0)))
}

#[test]
fn a_provider_publishes_comes_back_and_publishes_its_images_again() {
    let server = TestServer::start();
    let mut provider = provider(&server, |_| ());
    let item = provider.item(Domain::MARKET_PRICE, "P", "I").expect("new");
    assert_eq!(provider.refresh(item, &RefreshSpec::default(), price(1)), Ok(Published::Kept));
    assert_eq!(until_ready(&mut provider), 1);
    assert_eq!(provider.update(item, &UpdateSpec::quote(), price(2)), Ok(Published::Sent));
    assert!(provider.flush(), "the socket takes so little at once");
    assert!(matches!(Msg::parse(&server.hear()), Ok(Msg::Refresh(_))));
    assert!(matches!(Msg::parse(&server.hear()), Ok(Msg::Update(_))));
    server.order(Order::Cut);
    assert_eq!(until_ready(&mut provider), 1);
    let again = server.hear();
    let refresh = RefreshMsg::parse(&again).expect("the image");
    let expected = rwf::encode_to_vec(price(2)).expect("legal");
    assert_eq!((refresh.payload, refresh.complete), (&expected[..], true));
    let _ = provider.close_item(item, "over").expect("room");
    provider.close();
    assert!(matches!(Msg::parse(&server.hear()), Ok(Msg::Status(_))));
}

#[test]
fn a_provider_waits_for_room_at_a_server_that_reads_late() {
    let server = TestServer::start();
    let mut provider = provider(&server, |config| config.backlog_max_bytes = 65_536);
    let item = provider.item(Domain::MARKET_PRICE, "P", "I").expect("new");
    until_ready(&mut provider);
    let _ = provider.refresh(item, &RefreshSpec::default(), price(0)).expect("room");
    server.order(Order::Deaf(true));
    // The socket buffers of both ends fill first; the server may read on until it comes to the order.
    let (mut sent, end) = (0, clock::monotonic().after(LIMIT));
    loop {
        match provider.update(item, &UpdateSpec::quote(), |w| w.field_list(|f| f.encoded(3, &[7; 10_000]))) {
            Ok(published) => {
                assert_eq!(published, Published::Sent);
                sent += 1;
                provider.flush();
            }
            Err(error) => {
                assert!(matches!(error, PublishError::WouldBlock { .. }), "{error}");
                assert!(provider.backlog_bytes() > 32_768);
                if !provider.wait_for_room(Duration::from_millis(5), &mut |_| ()).expect("a poller") {
                    break;
                }
            }
        }
        assert!(clock::monotonic() < end, "somebody reads though nobody is to");
    }
    server.order(Order::Deaf(false));
    assert!(provider.wait_for_room(LIMIT, &mut |_| ()).expect("a poller"));
    assert_eq!(provider.update(item, &UpdateSpec::quote(), price(1)), Ok(Published::Sent));
    provider.close();
    let updates = std::iter::from_fn(|| server.heard.recv_timeout(LIMIT).ok())
        .take_while(|bytes| !matches!(Msg::parse(bytes), Ok(Msg::Close(_))))
        .filter(|bytes| matches!(Msg::parse(bytes), Ok(Msg::Update(_))));
    assert_eq!(updates.count(), sent + 1, "nothing that was taken is lost");
}

#[test]
fn a_connection_that_is_found_dead_while_writing_is_made_again() {
    let server = TestServer::start();
    let mut provider = provider(&server, |_| ());
    let item = provider.item(Domain::MARKET_PRICE, "P", "I").expect("new");
    let _ = provider.refresh(item, &RefreshSpec::default(), price(0)).expect("kept");
    until_ready(&mut provider);
    server.order(Order::Cut);
    // The first writes may still be taken by the socket; the answer to them is that nobody is there.
    let end = clock::monotonic().after(LIMIT);
    let mut n = 0;
    loop {
        n += 1;
        assert_eq!(provider.update(item, &UpdateSpec::quote(), price(n)), Ok(Published::Sent));
        if !provider.flush() {
            break;
        }
        assert!(clock::monotonic() < end, "the connection never dies");
    }
    assert_eq!(until_ready(&mut provider), 1);
    assert_eq!(provider.update(item, &UpdateSpec::quote(), price(n + 1)), Ok(Published::Sent));
    assert!(provider.flush());
}

#[test]
fn a_consumer_finds_out_that_the_preferred_server_is_back() {
    // A port that is closed now, and that nobody else gets as long as the listener below is not there.
    let reserved = tcp::listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = reserved.local_addr().expect("bound").port();
    drop(reserved);
    let other = TestServer::start();
    let hosts = vec![HostPort::new("127.0.0.1", port), other.hosts().remove(0)];
    let config = ConsumerConfig { hosts, preferred_host_check_s: 1, ..ConsumerConfig::default() };
    let mut consumer = Consumer::new(&config).expect("descriptors");
    let mut moved = false;
    let mut preferred = None;
    for _ in 0..2_000 {
        if moved {
            return;
        }
        consumer
            .dispatch(Duration::from_millis(50), &mut |event| {
                if let ConsumerEvent::Disconnected { reason, .. } = event {
                    moved |= reason == DisconnectReason::Preferred;
                }
            })
            .expect("it can wait");
        if preferred.is_none() && consumer.is_logged_in() {
            preferred = Some(tcp::listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).expect("it was free"));
        }
    }
    panic!("it stays where it is");
}
