//! What becomes of connections that do not log in, or do not take what they are sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use net::{Poller, Ready};
use rssl::{CloseReason, Handler, Outbound, Session, Stop};

use tickcast_server::rssl::{ListenerCounters, Rssl, RsslConfig, RsslListener, listen, send};
use tickcast_server::{Backlog, ConnectionId, Outbox, Service};
use units::Nanos;

struct Nobody;

impl Service<Rssl> for Nobody {
    fn on_connected(&mut self, _: Nanos, _: ConnectionId, _: &Session<'_>, _: SocketAddr, _: &mut Outbox) {}
    fn on_message(&mut self, _: Nanos, _: ConnectionId, _: &[u8], _: &mut Outbox) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn on_closed(&mut self, _: Nanos, _: ConnectionId, _: &CloseReason, _: &mut Outbox) {}
    fn is_logged_in(&self, _: ConnectionId) -> bool {
        false
    }
}

/// A client that connects and says nothing more.
struct Mute;

impl Handler for Mute {
    fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        ControlFlow::Continue(())
    }
    fn on_message(&mut self, _: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
        ControlFlow::Continue(())
    }
}

/// Connects, and completes the handshake.
fn connect(
    poller: &mut Poller,
    listener: &mut RsslListener,
    counters: &ListenerCounters,
    now: Nanos,
) -> TcpStream {
    let address = listener.local_address().expect("it is bound");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nonblocking(true).expect("a socket");
    let params = Arc::new(rssl::ClientConfig::default().check().expect("the defaults are good"));
    let version = params.config().version_max;
    let mut client = rssl::ClientConnection::new(now, &params, &Arc::default(), version, 3);
    while counters.connections.accepted.get() == 0 {
        let written = stream.write(client.outbound().flush()).expect("the socket has room");
        client.outbound().consume(written);
        serve(poller, listener, now);
        let mut answer = [0; 1024];
        if let Ok(count) = stream.read(&mut answer) {
            client.on_bytes(now, &answer[..count], &mut Mute).expect("the server lets it in");
        }
    }
    stream
}

/// Hands what is ready now to the listener; returns how much it was.
fn serve(poller: &mut Poller, listener: &mut RsslListener, now: Nanos) -> usize {
    let ready: Vec<Ready> = poller.wait(Some(Duration::ZERO)).expect("sockets of this test").collect();
    ready.iter().for_each(|ready| listener.on_ready(now, *ready, &mut Nobody));
    ready.len()
}

/// What waits for the only connection.
fn waiting(listener: &mut RsslListener) -> Backlog {
    listener.connections().next().expect("it is open").backlog
}

#[test]
fn who_does_not_log_in_in_time_is_closed_and_counted() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (registrar, counters) = (poller.registrar().clone(), ListenerCounters::default());
    let config = RsslConfig::default();
    let mut listener =
        listen(&config, 0, &registrar, 1, 7, 4096, counters.clone()).expect("some port is free");
    let start = Nanos(1_000);
    let _stream = connect(&mut poller, &mut listener, &counters, start);
    let limit = Duration::from_millis(config.login_timeout_ms.into());
    listener.on_wakeup(start + limit / 2, &mut Nobody);
    assert_eq!((listener.connection_count(), counters.listener.logins_overdue.get()), (1, 0));
    listener.on_wakeup(start + limit + Duration::from_secs(1), &mut Nobody);
    assert_eq!((listener.connection_count(), counters.listener.logins_overdue.get()), (0, 1));
    assert_eq!(counters.connections.closed_application.get(), 1);
}

#[test]
fn a_slow_peer_that_still_takes_what_is_sent_is_not_silent_though_its_pings_do_not_come() {
    // So much waits that nothing is read from it; and so little that it is read from, but its ping comes late, because
    // it answers one that waits behind the rest.
    takes_what_waits(|backlog| backlog.limit_bytes / 8);
    takes_what_waits(|_| 100_000);
}

fn takes_what_waits(enough: impl Fn(&Backlog) -> usize) {
    let mut poller = Poller::new().expect("descriptors are left");
    let (registrar, counters) = (poller.registrar().clone(), ListenerCounters::default());
    let config = RsslConfig { login_timeout_ms: 600_000, ..RsslConfig::default() };
    let mut listener =
        listen(&config, 0, &registrar, 1, 7, 4096, counters.clone()).expect("some port is free");
    let mut now = Nanos(1_000);
    let mut stream = connect(&mut poller, &mut listener, &counters, now);
    let id = ConnectionId(0);
    let is_short = |listener: &mut RsslListener| {
        let backlog = waiting(listener);
        backlog.depth_bytes < enough(&backlog)
    };
    while is_short(&mut listener) {
        send(listener.outbox(), id, &[0; 60_000]);
        listener.flush(now, &mut Nobody);
    }
    let mut taken = vec![0; 4 << 20];
    for _ in 0..20 {
        now += Duration::from_secs(10);
        // The kernel may hand over late what there is, and say late that it has room.
        while !is_short(&mut listener) {
            while stream.read(&mut taken).is_ok() {}
            serve(&mut poller, &mut listener, now);
        }
        while is_short(&mut listener) {
            send(listener.outbox(), id, &[0; 60_000]);
            listener.flush(now, &mut Nobody);
        }
        listener.on_wakeup(now, &mut Nobody);
        assert_eq!(listener.connection_count(), 1);
    }
    for _ in 0..10 {
        now += Duration::from_secs(10);
        listener.on_wakeup(now, &mut Nobody);
    }
    assert_eq!(listener.connection_count(), 0, "it takes nothing any more");
    assert_eq!(counters.connections.closed_silent.get(), 1);
}

#[test]
fn a_peer_that_says_nothing_is_silent_though_its_system_takes_what_it_is_sent() {
    // Updates leave at once, and so do pings where there are none, whether or not anybody reads them.
    for has_updates in [false, true] {
        let mut poller = Poller::new().expect("descriptors are left");
        let (registrar, counters) = (poller.registrar().clone(), ListenerCounters::default());
        let config = RsslConfig { login_timeout_ms: 600_000, ..RsslConfig::default() };
        let mut listener =
            listen(&config, 0, &registrar, 1, 7, 4096, counters.clone()).expect("some port is free");
        let mut now = Nanos(1_000);
        let mut stream = connect(&mut poller, &mut listener, &counters, now);
        for _ in 0..20 {
            now += Duration::from_secs(10);
            if has_updates {
                send(listener.outbox(), ConnectionId(0), &[0; 100]);
            }
            listener.flush(now, &mut Nobody);
            serve(&mut poller, &mut listener, now);
            listener.on_wakeup(now, &mut Nobody);
            let _ = stream.read(&mut [0; 4096]);
        }
        assert_eq!((listener.connection_count(), counters.connections.closed_silent.get()), (0, 1));
    }
}
