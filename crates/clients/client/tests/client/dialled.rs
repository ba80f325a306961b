//! Dialled connections over real sockets on the loopback.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use net::{Interest, Poller, Token, clock, tcp};
use rdm::ToVec;
use rwf::{Domain, Msg};
use tickcast_client::{DialledConfig, DialledConnection, DialledEvent, DisconnectReason, HostPort, Identity};

use crate::sockets::{LIMIT, TestServer};

/// Drives a connection until `done` has found what it looks for.
pub(crate) fn drive(
    connection: &mut DialledConnection,
    poller: &mut Poller,
    mut done: impl FnMut(DialledEvent<'_>) -> bool,
) {
    let end = clock::monotonic().after(LIMIT);
    let mut is_done = false;
    loop {
        connection.work(&mut |event: DialledEvent<'_>| is_done |= done(event));
        connection.flush(clock::monotonic());
        if is_done {
            return;
        }
        connection.arm(poller.registrar(), Token(0)).expect("a poller");
        let now = clock::monotonic();
        assert!(now < end, "what is waited for never comes");
        let until = connection.next_wakeup().min(end);
        poller.wait(Some(until.since(now))).expect("a poller").for_each(drop);
    }
}

pub(crate) fn is_connected(event: DialledEvent<'_>) -> bool {
    matches!(event, DialledEvent::Connected { .. })
}

#[test]
fn a_line_goes_to_the_next_server_and_begins_again_when_its_owner_has_had_enough() {
    let server = TestServer::start();
    let closed = tcp::listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let nobody = HostPort::new("127.0.0.1", closed.local_addr().expect("bound").port());
    drop(closed);
    let hosts = [nobody.clone(), server.hosts().remove(0)];
    let config = DialledConfig { reconnect_delay_min_ms: 1, ..DialledConfig::default() };
    let counters = Arc::new(counters::table::DialledConnection::default());
    let mut connection =
        DialledConnection::new(&config, &hosts, &Identity::default(), 1, Arc::clone(&counters))
            .expect("good");
    let mut poller = Poller::new().expect("descriptors");
    drive(&mut connection, &mut poller, is_connected);
    assert_eq!((connection.host(), connection.is_connected()), (&hosts[1], true));
    assert_eq!((counters.connect_attempts.get(), counters.connect_failures.get()), (2, 1));
    connection.send(&rdm::login::LoginRequest::consumer(b"me").to_vec().expect("short")).expect("room");
    let is_login = |event: DialledEvent<'_>| match event {
        DialledEvent::Message(bytes) => Msg::parse(bytes).is_ok_and(|msg| msg.domain() == Domain::LOGIN),
        _ => false,
    };
    drive(&mut connection, &mut poller, is_login);
    connection.accept();
    connection.hang_up();
    drive(&mut connection, &mut poller, |event| match event {
        DialledEvent::Disconnected { reason, retry_in, .. } => {
            assert_eq!((reason, retry_in), (DisconnectReason::Stopped, Some(Duration::ZERO)));
            true
        }
        _ => false,
    });
    assert_eq!((counters.disconnects.get(), counters.connect_failures.get()), (1, 1));
    drive(&mut connection, &mut poller, is_connected);
    assert_eq!((counters.connect_attempts.get(), counters.messages_in.get()), (4, 1));
    connection.stop();
    assert!(!connection.is_connected());
}

#[test]
fn a_server_that_answers_no_version_is_offered_lower_ones_before_the_attempt_has_failed() {
    let door = tcp::listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let hosts = [HostPort::new("127.0.0.1", door.local_addr().expect("bound").port())];
    let counters = Arc::new(counters::table::DialledConnection::default());
    let config = DialledConfig::default();
    let mut connection =
        DialledConnection::new(&config, &hosts, &Identity::default(), 1, Arc::clone(&counters))
            .expect("good");
    let mut poller = Poller::new().expect("descriptors");
    poller.registrar().add(&door, Token(1), Interest::Read).expect("a descriptor");
    let end = clock::monotonic().after(LIMIT);
    while counters.connect_failures.get() == 0 {
        connection.work(&mut |_| ());
        connection.arm(poller.registrar(), Token(0)).expect("a poller");
        // Whoever comes is sent away.
        while tcp::accept(&door).expect("descriptors").is_some() {}
        let now = clock::monotonic();
        assert!(now < end, "what is waited for never comes");
        poller.wait(Some(connection.next_wakeup().min(end).since(now))).expect("a poller").for_each(drop);
    }
    assert_eq!((counters.version_fallbacks.get(), counters.connect_attempts.get()), (3, 4), "14 to 11");
}

#[test]
fn an_owner_that_looks_ahead_is_shown_messages_before_their_turn_and_no_other_is() {
    let server = TestServer::start();
    for ahead in [0, 2] {
        let config = DialledConfig::default();
        let counters = Arc::new(counters::table::DialledConnection::default());
        let mut connection =
            DialledConnection::new(&config, &server.hosts(), &Identity::default(), 1, counters)
                .expect("good");
        connection.look_ahead(ahead);
        let mut poller = Poller::new().expect("descriptors");
        drive(&mut connection, &mut poller, is_connected);
        connection.send(&rdm::login::LoginRequest::consumer(b"me").to_vec().expect("short")).expect("room");
        let (mut shown, mut got) = (Vec::new(), Vec::new());
        drive(&mut connection, &mut poller, |event| match event {
            DialledEvent::Coming(bytes) => {
                assert!(got.is_empty(), "the message was here before it was shown");
                shown.push(bytes.to_vec());
                false
            }
            DialledEvent::Message(bytes) => {
                got.push(bytes.to_vec());
                true
            }
            _ => false,
        });
        assert_eq!(shown, if ahead > 0 { got } else { Vec::new() });
    }
}
