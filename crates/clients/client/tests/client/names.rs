//! Servers that are named: names that are resolved late, wrongly, to several addresses, or not at all.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use counters::table::DialledConnection as Counters;
use net::{Poller, Resolver, Token, clock, tcp};
use tickcast_client::{
    ConnectFailure, Consumer, ConsumerConfig, ConsumerEvent, DialledConfig, DialledConnection, DialledEvent,
    DisconnectReason, HostPort, Identity, Provider, ProviderConfig, ProviderEvent, ProviderServiceConfig,
};

use crate::dialled::{drive, is_connected};
use crate::sockets::{LIMIT, TestServer};

fn addresses(last: &[u8]) -> Vec<SocketAddr> {
    last.iter().map(|last| SocketAddr::from(([127, 0, 0, *last], 0))).collect()
}

/// Names stand for these.
fn known(last: &[u8]) -> Resolver {
    let addresses = addresses(last);
    Resolver::new(1, move |_| addresses.clone())
}

/// Names are resolved as often as the sender says to what, and hang until then.
fn hanging() -> (Resolver, Sender<Vec<SocketAddr>>) {
    let (answers, told) = mpsc::channel::<Vec<SocketAddr>>();
    let told = Mutex::new(told);
    let resolver =
        Resolver::new(1, move |_| told.lock().expect("no test panics with it").recv().unwrap_or_default());
    (resolver, answers)
}

fn named(server: &TestServer) -> HostPort {
    HostPort::new("provider.test", server.hosts()[0].port())
}

fn dial(host: HostPort, resolver: Resolver, config: &DialledConfig) -> (DialledConnection, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let connection = DialledConnection::new(config, &[host], &Identity::default(), 1, Arc::clone(&counters))
        .expect("good");
    (connection.with_resolver(resolver), counters)
}

#[test]
fn a_thread_goes_on_with_its_other_connections_while_a_name_is_looked_up() {
    let (slow, quick) = (TestServer::start(), TestServer::start());
    let (resolver, answers) = hanging();
    let (mut waiting, counters) = dial(named(&slow), resolver, &DialledConfig::default());
    let (mut other, _) = dial(quick.hosts().remove(0), known(&[]), &DialledConfig::default());
    let mut poller = Poller::new().expect("descriptors");
    let mut connected = [false; 2];
    let mut answers = Some(answers);
    let end = clock::monotonic().after(LIMIT);
    loop {
        for (place, connection) in [&mut waiting, &mut other].into_iter().enumerate() {
            connection.work(&mut |event| connected[place] |= is_connected(event));
            connection.flush(clock::monotonic());
            connection.arm(poller.registrar(), Token(place as u64)).expect("a poller");
        }
        if connected == [true; 2] {
            break;
        }
        if connected == [false, true]
            && let Some(answers) = answers.take()
        {
            assert_eq!(counters.connect_attempts.get(), 1, "the look-up is under way");
            answers.send(addresses(&[1])).expect("it is waited for");
        }
        let now = clock::monotonic();
        assert!(now < end, "what is waited for never comes");
        let due = waiting.next_wakeup().min(other.next_wakeup()).min(end);
        poller.wait(Some(due.since(now))).expect("a poller").for_each(drop);
    }
    assert_eq!((counters.connect_attempts.get(), counters.connect_failures.get()), (1, 0));
}

#[test]
fn addresses_of_a_name_are_tried_in_turn_within_one_attempt() {
    let server = TestServer::start();
    // Nobody listens at the first, and the second does not answer.
    let silent = Silent::at(named(&server).port());
    let config = DialledConfig { connect_timeout_ms: 1_500, ..DialledConfig::default() };
    let (mut connection, counters) = dial(named(&server), known(&[2, 3, 1]), &config);
    drive(&mut connection, &mut Poller::new().expect("descriptors"), is_connected);
    assert_eq!((counters.connect_attempts.get(), counters.connect_failures.get()), (1, 0));
    drop(silent);
}

/// A listener whose queue is full: the system drops whatever comes.
struct Silent {
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl Silent {
    fn at(port: u16) -> Silent {
        let address = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 3), port);
        let listener = tcp::listen_with(address, 0).expect("nobody is at that address");
        let queued = (0..8).map(|_| tcp::connect(address.into()).expect("it begins")).collect();
        Silent { _listener: listener, _queued: queued }
    }
}

#[test]
fn the_next_attempt_begins_with_the_next_address() {
    let server = TestServer::start();
    // What is at the first address takes connections and says nothing.
    let address = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2), named(&server).port());
    let mute = tcp::listen(address).expect("nobody is at that address");
    let config =
        DialledConfig { connect_timeout_ms: 50, reconnect_delay_min_ms: 1, ..DialledConfig::default() };
    let (mut connection, counters) = dial(named(&server), known(&[2, 1]), &config);
    drive(&mut connection, &mut Poller::new().expect("descriptors"), is_connected);
    assert!(counters.connect_failures.get() >= 1);
    assert!(tcp::accept(&mute).expect("descriptors").is_some());
}

/// Drives a connection through its next failure.
fn failure(connection: &mut DialledConnection, poller: &mut Poller) -> DisconnectReason {
    let mut failure = None;
    drive(connection, poller, |event| match event {
        DialledEvent::Disconnected { reason, .. } => {
            failure = Some(reason);
            true
        }
        _ => false,
    });
    failure.expect("the connection was driven up to it")
}

#[test]
fn a_name_that_is_not_resolved_is_an_attempt_that_failed_with_its_reason() {
    let nobody = HostPort::new("nobody.test", 1);
    let config = DialledConfig { reconnect_delay_min_ms: 1, ..DialledConfig::default() };
    let (mut connection, counters) = dial(nobody, known(&[]), &config);
    let mut poller = Poller::new().expect("descriptors");
    for count in 1..=2 {
        let reason = failure(&mut connection, &mut poller);
        assert_eq!(reason, DisconnectReason::Connect(ConnectFailure::UnknownHost));
        assert_eq!((counters.connect_failures.get(), counters.lookup_failures.get()), (count, count));
    }
}

#[test]
fn a_look_up_that_hangs_ends_with_its_attempt_and_its_late_answer_serves_the_next() {
    let server = TestServer::start();
    let (resolver, answers) = hanging();
    let config =
        DialledConfig { connect_timeout_ms: 20, reconnect_delay_min_ms: 1, ..DialledConfig::default() };
    let (mut connection, counters) = dial(named(&server), resolver, &config);
    let mut poller = Poller::new().expect("descriptors");
    for _ in 0..3 {
        let reason = failure(&mut connection, &mut poller);
        let late = DisconnectReason::Connect(ConnectFailure::LookupTimeout { limit_ms: 20 });
        assert_eq!(reason, late);
    }
    assert_eq!((counters.connect_failures.get(), counters.lookup_failures.get()), (3, 3));
    // The one thread is still at the first look-up. If nobody waits when it ends, there is one more.
    for _ in 0..2 {
        answers.send(addresses(&[1])).expect("it is waited for");
    }
    drive(&mut connection, &mut poller, is_connected);
}

#[test]
fn consumers_and_providers_resolve_names_in_the_same_way() {
    let server = TestServer::start();
    let config = ConsumerConfig { hosts: vec![named(&server)], ..ConsumerConfig::default() };
    let (resolver, answers) = hanging();
    let mut consumer = Consumer::new(&config).expect("descriptors").with_resolver(resolver);
    let mut is_up = false;
    assert_eq!(consumer.dispatch(Duration::ZERO, &mut |_| ()).expect("it can wait"), 0);
    answers.send(addresses(&[1])).expect("it is waited for");
    while !is_up {
        let count = consumer.dispatch(LIMIT, &mut |event| {
            is_up |= matches!(event, ConsumerEvent::LoggedIn(_));
        });
        assert!(count.expect("it can wait") > 0, "what is waited for never comes");
    }
    let services = vec![ProviderServiceConfig { name: "S".into(), ..ProviderServiceConfig::default() }];
    let hosts = vec![HostPort::new("nobody.test", 1)];
    let config = ProviderConfig { hosts, services, ..ProviderConfig::default() };
    let mut provider = Provider::new(&config).expect("descriptors").with_resolver(known(&[]));
    let mut failed = false;
    provider
        .dispatch(LIMIT, &mut |event| {
            let unknown = DisconnectReason::Connect(ConnectFailure::UnknownHost);
            failed |= matches!(event, ProviderEvent::Disconnected { reason, .. } if reason == unknown);
        })
        .expect("it can wait");
    assert!(failed);
    assert_eq!(provider.counters().lookup_failures.get(), 1);
}
