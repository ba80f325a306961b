use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::ops::ControlFlow;
use std::time::Duration;

use connection::{Disconnect, LadderConfig, ROUND_INTERVAL_MIN, Step};
use net::Poller;

use super::super::admission::{REFUSALS_MAX, SHORTAGE_EVERY};
use super::super::exchange::Exchange;
use super::*;
use crate::{Backlog, ConnectionToService, Entry, PortEvent, Traffic};

/// More bytes than the sockets hold of a peer that reads nothing.
const MUCH: usize = 20_000_000;

/// A protocol whose connections say nothing, and are sent messages as they are.
struct Mute;

impl Protocol for Mute {
    type Endpoint = Idle;
    type Session<'a> = ();
    type Message<'a> = ();

    fn accept(&mut self, _: Nanos) -> Idle {
        Idle { depth_bytes: 0, waiting: Vec::new() }
    }

    fn on_bytes<S: Service<Mute>>(
        &mut self,
        _: Nanos,
        _: &mut Idle,
        _: &[u8],
        _: &mut ConnectionToService<'_, S>,
    ) -> Result<(), ()> {
        Ok(())
    }

    fn frame(&mut self, _: &mut Idle, log: &[u8], rest: &mut &[Entry], out: &mut Vec<u8>) -> Result<(), ()> {
        let entries = std::mem::take(rest);
        entries.iter().for_each(|entry| out.extend_from_slice(&log[entry.place()]));
        Ok(())
    }
}

struct Idle {
    /// Bytes that wait besides.
    depth_bytes: usize,
    waiting: Vec<u8>,
}

impl Endpoint for Idle {
    type Reason = ();

    fn pending(&mut self) -> &[u8] {
        &self.waiting
    }
    fn consume(&mut self, count_bytes: usize) {
        self.waiting.drain(..count_bytes);
    }
    fn keep(&mut self, frames: &[u8], written_bytes: usize) -> Result<(), ()> {
        self.waiting.extend_from_slice(&frames[written_bytes..]);
        Ok(())
    }
    fn backlog(&mut self) -> Backlog {
        let depth_bytes = self.depth_bytes + self.waiting.len();
        Backlog { depth_bytes, limit_bytes: 1 << 20, ..Backlog::default() }
    }
    fn traffic(&mut self) -> Traffic {
        Traffic::default()
    }
    fn memory_bytes(&self) -> usize {
        0
    }
    fn on_sign_of_life(&mut self, _: Nanos) {}
    fn on_wakeup(&mut self, _: Nanos) -> Result<(), ()> {
        Ok(())
    }
    fn next_wakeup(&self) -> Nanos {
        Nanos::NEVER
    }
    fn on_disconnected(&mut self, _: Disconnect) {}
    fn give_up(&mut self, waited_ms: u32) {
        assert!(waited_ms >= 9_000);
    }
    fn stop(&mut self) {}
}

struct Nobody;

impl Service<Mute> for Nobody {
    fn on_connected(&mut self, _: Nanos, _: ConnectionId, _: &(), _: SocketAddr, _: &mut Outbox) {}
    fn on_message(&mut self, _: Nanos, _: ConnectionId, _: (), _: &mut Outbox) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn on_closed(&mut self, _: Nanos, _: ConnectionId, _: &(), _: &mut Outbox) {}
    fn is_logged_in(&self, _: ConnectionId) -> bool {
        false
    }
}

/// What was told.
#[derive(Default)]
struct Told(Vec<String>);

impl Service<Mute> for Told {
    fn on_connected(&mut self, _: Nanos, _: ConnectionId, _: &(), _: SocketAddr, _: &mut Outbox) {}
    fn on_message(&mut self, _: Nanos, _: ConnectionId, _: (), _: &mut Outbox) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn on_closed(&mut self, _: Nanos, _: ConnectionId, _: &(), _: &mut Outbox) {}
    fn is_logged_in(&self, _: ConnectionId) -> bool {
        false
    }
    fn on_port_event(&mut self, event: PortEvent<'_>) {
        assert!(event.is_fault());
        self.0.push(event.to_string());
    }
}

fn listen(poller: &Poller, connections_max: usize) -> (Listener<Mute>, Arc<Counters>) {
    let counters = Arc::<Counters>::default();
    let ends = (1, Arc::clone(&counters));
    (listen_seated(poller, connections_max, ends, None), counters)
}

/// One of several threads' listeners, under the given space of tokens.
fn listen_seated(
    poller: &Poller,
    connections_max: usize,
    (token_space, counters): (u32, Arc<Counters>),
    seat: Option<Seat>,
) -> Listener<Mute> {
    let ports = Ports { interface: Ipv4Addr::LOCALHOST, port: 0, tls: None, unsent_bytes_max: 0 };
    let limits = Limits {
        connections_max,
        connections_per_address_max: 1000,
        login_timeout: Duration::from_secs(15),
        read_bytes: 4096,
        backlogs_bytes_max: 1 << 30,
    };
    let listener = Listener::seated(Mute, ports, limits, poller.registrar(), token_space, counters, seat);
    listener.expect("some port is free")
}

#[test]
fn without_a_port_nobody_connects_and_it_ends_at_once() {
    let poller = Poller::new().expect("descriptors are left");
    let (with_port, counters) = listen(&poller, 100);
    let limits = with_port.limits;
    let mut listener = Listener::without_port(Mute, limits, poller.registrar(), 2, counters);
    assert!(
        listener.local_address().is_err() && listener.tls_address().is_ok_and(|address| address.is_none())
    );
    assert_eq!((listener.next_wakeup(), listener.connection_count()), (Nanos::NEVER, 0));
    listener.end(Nanos(1));
    assert!(listener.has_ended());
}

/// Hands what is ready now to the listener; returns how much it was.
fn serve(poller: &mut Poller, listener: &mut Listener<Mute>, now: Nanos) -> usize {
    let ready: Vec<Ready> = poller.wait(Some(Duration::ZERO)).expect("sockets of this test").collect();
    ready.iter().for_each(|ready| listener.on_ready(now, *ready, &mut Nobody));
    ready.len()
}

#[test]
fn after_a_refusal_of_the_system_waiting_connections_rest_and_are_taken_later() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, counters) = listen(&poller, 100);
    let start = Nanos(1_000);
    assert_eq!(listener.next_wakeup(), Nanos::NEVER, "nothing to do without connections");
    let mut told = Told::default();
    listener.admission.rest(start, &io::Error::other("none left"), &mut told);
    listener.admission.rest(start, &io::Error::other("none left"), &mut told);
    assert_eq!(told.0, ["connections cannot be accepted, those that wait rest: none left"], "it is rationed");
    let address = listener.local_address().expect("it is bound");
    let _waiting = TcpStream::connect(address).expect("the queue has room");
    assert_eq!(serve(&mut poller, &mut listener, start), 0, "the thread may sleep");
    assert_eq!(listener.next_wakeup(), start + CHECK_INTERVAL);
    listener.on_wakeup(start + CHECK_INTERVAL / 2, &mut Nobody);
    assert_eq!(serve(&mut poller, &mut listener, start), 0, "not yet");
    listener.on_wakeup(start + CHECK_INTERVAL, &mut Nobody);
    assert_eq!(serve(&mut poller, &mut listener, start + CHECK_INTERVAL), 1);
    assert_eq!(listener.connection_count(), 1);
    assert!(listener.next_wakeup() > start + CHECK_INTERVAL, "the rest is over");
    assert_eq!(counters.accept_failures.get(), 2);
}

#[test]
fn connections_that_would_take_the_last_descriptors_are_closed_unheard_and_told_in_turn() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, counters) = listen(&poller, 100);
    listener.admission.acceptors.allow_descriptors_below(0);
    let address = listener.local_address().expect("it is bound");
    let mut told = Told::default();
    for (now, connections) in [(Nanos(1), 3), (Nanos(1) + SHORTAGE_EVERY, 1)] {
        let mut peers: Vec<TcpStream> =
            (0..connections).map(|_| TcpStream::connect(address).expect("the queue has room")).collect();
        let ready: Vec<Ready> = poller.wait(None).expect("sockets of this test").collect();
        ready.iter().for_each(|ready| listener.on_ready(now, *ready, &mut told));
        peers.iter_mut().for_each(|peer| assert_eq!(peer.read(&mut [0]).expect("no reset"), 0));
    }
    assert_eq!((listener.connection_count(), counters.descriptors_short.get()), (0, 4));
    let said = told.0.iter().map(|line| line.split(" closed unheard").next());
    assert_eq!(said.collect::<Vec<_>>(), [Some("1 connections were"), Some("3 connections were")]);
}

#[test]
fn a_connection_that_is_dismissed_is_closed_with_the_next_flush_and_no_other() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, _) = listen(&poller, 100);
    let address = listener.local_address().expect("it is bound");
    let _both = [(); 2].map(|()| TcpStream::connect(address).expect("there is room"));
    serve(&mut poller, &mut listener, Nanos(1));
    listener.dismiss(ConnectionId(1));
    listener.dismiss(ConnectionId(77));
    assert_eq!(listener.connection_count(), 2);
    listener.flush(Nanos(2), &mut Nobody);
    assert!(listener.connection_count() == 1 && listener.connection(ConnectionId(1)).is_none());
}

#[test]
fn a_connection_that_is_ended_is_drained_and_closed_when_the_peer_ends_or_its_time_is_over() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, _) = listen(&poller, 100);
    let address = listener.local_address().expect("it is bound");
    let [mut leaves, mut stays] = [(); 2].map(|()| TcpStream::connect(address).expect("there is room"));
    serve(&mut poller, &mut listener, Nanos(1));
    for peer in [&mut leaves, &mut stays] {
        peer.write_all(&[0; 100_000]).expect("buffers take it");
    }
    listener.dismiss(ConnectionId(0));
    listener.dismiss(ConnectionId(1));
    listener.flush(Nanos(2), &mut Nobody);
    assert!(listener.connection_count() == 0 && !listener.has_ended(), "both are being closed");
    for peer in [&mut leaves, &mut stays] {
        assert_eq!(peer.read(&mut [0]).expect("no reset"), 0, "the end of the stream");
    }
    drop(leaves);
    while listener.closing_count() > 1 {
        let ready: Vec<Ready> = poller.wait(None).expect("sockets of this test").collect();
        ready.iter().for_each(|ready| listener.on_ready(Nanos(3), *ready, &mut Nobody));
    }
    let due = listener.next_wakeup();
    assert!(due < Nanos(2) + Duration::from_secs(1), "it is looked after");
    listener.on_wakeup(due, &mut Nobody);
    assert!(!listener.has_ended(), "it has time");
    listener.on_wakeup(Nanos(2) + Duration::from_secs(2), &mut Nobody);
    assert!(listener.has_ended());
}

#[test]
fn a_port_that_is_shut_ends_who_waits_in_order_refuses_who_comes_and_can_be_opened_again() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, _) = listen(&poller, 100);
    let address = listener.local_address().expect("it is bound");
    let _stays = TcpStream::connect(address).expect("there is room");
    serve(&mut poller, &mut listener, Nanos(1));
    let mut waits = TcpStream::connect(address).expect("the queue has room");
    waits.write_all(b"unread").expect("buffers take it");
    listener.shut(Nanos(2), Duration::ZERO, &mut Nobody).expect("it is open");
    assert_eq!(listener.ids().collect::<Vec<_>>(), [ConnectionId(0)], "who waited is about to go");
    listener.flush(Nanos(2), &mut Nobody);
    assert_eq!(waits.read(&mut [0]).expect("no reset"), 0, "the end of the stream");
    let refused = TcpStream::connect(address).expect_err("it is shut");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    while serve(&mut poller, &mut listener, Nanos(3)) > 0 {}
    assert_eq!(listener.connection_count(), 1);
    listener.reopen().expect("nobody has taken the port");
    let _comes = TcpStream::connect(address).expect("it is open");
    serve(&mut poller, &mut listener, Nanos(4));
    assert_eq!(listener.connection_count(), 2);
}

#[test]
fn who_was_handed_to_a_thread_that_has_shut_is_ended_in_order_and_holds_no_place() {
    let mut poller = Poller::new().expect("descriptors are left");
    let exchange = Exchange::new(2, 100);
    let [mut accepts, mut takes] = [0, 1].map(|place| {
        let ends = (1 + place, Arc::default());
        listen_seated(&poller, 100, ends, Some(Seat::new(&exchange, place as usize)))
    });
    let address = accepts.local_address().expect("it is bound");
    let mut peers = [(); 2].map(|()| TcpStream::connect(address).expect("the queue has room"));
    serve(&mut poller, &mut accepts, Nanos(1));
    assert_eq!(accepts.connection_count(), 1, "the other one is under way");
    takes.shut(Nanos(2), Duration::ZERO, &mut Nobody).expect("it is open");
    serve(&mut poller, &mut takes, Nanos(2));
    assert_eq!((takes.connection_count(), takes.ids().count()), (1, 0), "it is about to go");
    takes.flush(Nanos(2), &mut Nobody);
    assert_eq!(peers[1].read(&mut [0]).expect("no reset"), 0, "the end of the stream");
    assert_eq!((takes.connection_count(), Seat::new(&exchange, 0).roll().connections()), (0, 1));
    peers[0].write_all(b"stays").expect("it is served");
    takes.reopen().expect("it has no socket of its own");
    let _third = TcpStream::connect(address).expect("there is room");
    while takes.connection_count() == 0 {
        let ready: Vec<Ready> = poller.wait(None).expect("sockets of this test").collect();
        for ready in ready {
            let listener = if ready.token.0 >> 32 == 1 { &mut accepts } else { &mut takes };
            listener.on_ready(Nanos(3), ready, &mut Nobody);
        }
    }
}

#[test]
fn who_is_moved_on_is_written_all_that_waits_within_its_time_however_many_there_are() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, _) = listen(&poller, 100);
    let address = listener.local_address().expect("it is bound");
    let mut slow = TcpStream::connect(address).expect("there is room");
    let _silent = TcpStream::connect(address).expect("there is room");
    serve(&mut poller, &mut listener, Nanos(1));
    for id in [ConnectionId(0), ConnectionId(1)] {
        let message = listener.outbox().stage(&vec![7; MUCH]);
        listener.outbox().deliver(id, message, 1);
    }
    listener.flush(Nanos(1), &mut Nobody);
    let patience = Duration::from_secs(5);
    listener.shut(Nanos(2), patience, &mut Nobody).expect("it is open");
    listener.ids().collect::<Vec<_>>().into_iter().for_each(|id| listener.dismiss(id));
    listener.flush(Nanos(2), &mut Nobody);
    assert_eq!((listener.connection_count(), listener.closing_count()), (0, 2));
    let reads = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        slow.read_to_end(&mut bytes).map(|_| bytes.len())
    });
    while listener.closing_count() > 1 {
        let ready: Vec<Ready> = poller.wait(None).expect("sockets of this test").collect();
        ready.iter().for_each(|ready| listener.on_ready(Nanos(3), *ready, &mut Nobody));
    }
    assert_eq!(reads.join().expect("it does not panic").expect("no reset"), MUCH);
    listener.on_wakeup(Nanos(1) + patience, &mut Nobody);
    assert!(!listener.has_ended(), "who does not read has its time");
    listener.on_wakeup(Nanos(2) + patience + CHECK_INTERVAL, &mut Nobody);
    assert!(listener.has_ended());
}

#[test]
fn a_peer_that_goes_on_to_send_is_not_heard_for_ever() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, _) = listen(&poller, 100);
    let mut peer = TcpStream::connect(listener.local_address().expect("it is bound")).expect("there is room");
    serve(&mut poller, &mut listener, Nanos(1));
    listener.end(Nanos::NEVER);
    listener.flush(Nanos(2), &mut Nobody);
    let sends = std::thread::spawn(move || while peer.write_all(&[0; 65_536]).is_ok() {});
    while !listener.has_ended() {
        let ready: Vec<Ready> = poller.wait(None).expect("sockets of this test").collect();
        ready.iter().for_each(|ready| listener.on_ready(Nanos(3), *ready, &mut Nobody));
    }
    sends.join().expect("it ends with the connection");
}

#[test]
fn connections_far_beyond_the_limit_are_closed_unheard() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, counters) = listen(&poller, 1);
    let address = listener.local_address().expect("it is bound");
    let all: Vec<TcpStream> =
        (0..REFUSALS_MAX + 3).map(|_| TcpStream::connect(address).expect("there is room")).collect();
    serve(&mut poller, &mut listener, Nanos(1));
    assert_eq!(listener.connection_count(), 1 + REFUSALS_MAX);
    assert_eq!(counters.turned_away.get(), (all.len() - 1 - REFUSALS_MAX) as u64);
}

/// Whoever empties it: its socket that takes more, or a flush of what came for it meanwhile.
#[test]
fn a_connection_with_which_the_service_is_busy_is_named_once_when_its_backlog_is_small_again() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, _) = listen(&poller, 100);
    let _peer = TcpStream::connect(listener.local_address().expect("it is bound")).expect("there is room");
    serve(&mut poller, &mut listener, Nanos(1));
    listener.connections[0].is_held = true;
    for (depth_bytes, roomy) in [(0, vec![]), (1 << 20, vec![]), (0, vec![ConnectionId(0)]), (0, vec![])] {
        listener.connections[0].endpoint.depth_bytes = depth_bytes;
        listener.update_interest(Nanos(2), 0, &mut Nobody);
        assert_eq!((listener.take_roomy(), listener.backlog_bytes), (roomy, depth_bytes));
    }
}

#[test]
fn a_connection_goes_down_the_ladder_and_up_and_is_given_up_in_the_end() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, _) = listen(&poller, 100);
    let _peers =
        [(); 2].map(|()| TcpStream::connect(listener.local_address().expect("bound")).expect("room"));
    serve(&mut poller, &mut listener, Nanos(1));
    let (id, other) = (ConnectionId(0), ConnectionId(1));
    let after = |seconds| Nanos(1) + Duration::from_secs(seconds);
    listener.set_ladder(LadderConfig {
        conflate_above_bytes: Some(1_000),
        conflate_above: Some(Duration::from_secs(3)),
        room_bytes: 100,
        tick_after: Duration::from_secs(2),
        disconnect_after: Some(Duration::from_secs(9)),
        ..LadderConfig::default()
    });
    let look = |listener: &mut Listener<Mute>, second, depth_bytes| {
        listener.connections[0].endpoint.depth_bytes = depth_bytes;
        listener.connections[1].endpoint.depth_bytes = 0;
        listener.on_wakeup(after(second), &mut Nobody);
        let told = (listener.has_news(), listener.take_steps());
        assert_eq!(told.0, !told.1.is_empty());
        told.1.iter().map(|change| (change.connection, change.step)).collect::<Vec<_>>()
    };
    assert_eq!(look(&mut listener, 1, 1_000), []);
    assert_eq!(look(&mut listener, 2, 1_001), [(id, Step::Conflated)], "by bytes");
    let is_conflated = |listener: &mut Listener<Mute>| {
        assert!(!listener.outbox.is_conflated(other));
        (listener.outbox.is_conflated(id), listener.outbox.lags(id))
    };
    assert_eq!(is_conflated(&mut listener), (true, true));
    listener.outbox.await_room(id);
    assert_eq!(look(&mut listener, 3, 101), []);
    assert_eq!(is_conflated(&mut listener), (true, true));
    assert!(listener.outbox.take_roomy().is_empty());
    listener.connections[0].endpoint.depth_bytes = 100;
    listener.on_wakeup(after(4), &mut Nobody);
    assert_eq!((listener.has_news(), listener.outbox.take_roomy()), (true, vec![id]));
    assert_eq!(is_conflated(&mut listener), (true, false), "it has room");
    assert_eq!(look(&mut listener, 5, 0), []);
    assert_eq!(look(&mut listener, 6, 0), []);
    assert_eq!(look(&mut listener, 7, 0), [(id, Step::Tick)]);
    assert_eq!(is_conflated(&mut listener), (false, false));
    assert_eq!(look(&mut listener, 8, 10), []);
    assert_eq!(look(&mut listener, 11, 10), [(id, Step::Conflated)], "by age");
    assert_eq!(look(&mut listener, 16, 10), []);
    listener.connections[0].endpoint.depth_bytes = 10;
    listener.on_wakeup(after(17), &mut Nobody);
    assert!(listener.connection(id).is_none() && listener.connection(other).is_some());
    assert!(listener.take_steps().is_empty() && !listener.outbox.is_conflated(id));
}

#[test]
fn a_connection_that_is_sent_rounds_begins_one_when_its_socket_is_empty_and_the_interval_is_over() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, _) = listen(&poller, 100);
    let mut peer = TcpStream::connect(listener.local_address().expect("bound")).expect("room");
    serve(&mut poller, &mut listener, Nanos(1));
    let id = ConnectionId(0);
    listener.set_ladder(LadderConfig {
        conflate_above: Some(Duration::from_secs(1)),
        interval_above: Some(Duration::from_secs(2)),
        tick_after: Duration::ZERO,
        ..LadderConfig::default()
    });
    let deliver = |listener: &mut Listener<Mute>, now: Nanos| {
        let staged = listener.outbox.stage(&vec![7; MUCH]);
        listener.outbox.deliver(id, staged, 1);
        listener.flush(now, &mut Nobody);
    };
    let mut now = Nanos(1_000_000_000);
    deliver(&mut listener, now);
    let pass = |listener: &mut Listener<Mute>, now: &mut Nanos, ms: u64| {
        *now += Duration::from_millis(ms);
        listener.on_wakeup(*now, &mut Nobody);
        listener.take_steps().iter().map(|change| change.step).collect::<Vec<Step>>()
    };
    assert_eq!(pass(&mut listener, &mut now, 1_000), [Step::Conflated]);
    assert_eq!(pass(&mut listener, &mut now, 1_000), [Step::Interval]);
    let interval =
        |listener: &mut Listener<Mute>| listener.connection(id).expect("it is there").round_interval;
    assert_eq!(interval(&mut listener), Some(ROUND_INTERVAL_MIN));
    listener.outbox.await_room(id);
    for _ in 0..20 {
        assert_eq!(pass(&mut listener, &mut now, 250), []);
        assert!(listener.next_wakeup() > now && listener.outbox.take_roomy().is_empty(), "old values wait");
        assert!(listener.outbox.awaits_round(id) && listener.outbox.is_conflated(id));
    }
    let (mut rest, mut read) = (vec![0; MUCH], 0);
    peer.set_nonblocking(true).expect("it is open");
    while listener.outbox.awaits_round(id) {
        read += peer.read(&mut rest[read..]).unwrap_or(0);
        serve(&mut poller, &mut listener, now);
        pass(&mut listener, &mut now, 250);
    }
    assert_eq!(listener.outbox.take_roomy(), [id]);
    peer.set_nonblocking(false).expect("it is open");
    peer.read_exact(&mut rest[read..]).expect("all of them have left");
    // While a round has not left the interval grows.
    listener.outbox.end_round(id);
    deliver(&mut listener, now);
    assert!(listener.outbox.awaits_round(id));
    for expected_us in [250_000, 312_500, 390_625] {
        now = listener.look_at;
        assert_eq!(pass(&mut listener, &mut now, 0), []);
        assert_eq!(interval(&mut listener), Some(Duration::from_micros(expected_us)));
    }
}

#[test]
fn a_connection_with_a_rate_is_sent_no_more_than_that_and_conflated_while_it_has_more() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, _) = listen(&poller, 100);
    let mut peers =
        [(); 2].map(|()| TcpStream::connect(listener.local_address().expect("bound")).expect("room"));
    serve(&mut poller, &mut listener, Nanos(1));
    let (rated, free) = (ConnectionId(0), ConnectionId(1));
    let at = |ms: u64| Nanos(1) + Duration::from_millis(ms);
    listener.outbox.set_rate(rated, 10_000);
    let deliver = |listener: &mut Listener<Mute>, now: Nanos, bytes: usize| {
        let staged = listener.outbox.stage(&vec![7; bytes]);
        listener.outbox.deliver(rated, staged, 1);
        listener.outbox.deliver(free, staged, 1);
        listener.flush(now, &mut Nobody);
    };
    let waiting = |listener: &Listener<Mute>| listener.connections[0].endpoint.waiting.len();
    deliver(&mut listener, at(0), 9_000);
    assert_eq!(waiting(&listener), 8_000, "a tenth of a second's bytes may go at once");
    assert_eq!(listener.connections[1].endpoint.waiting.len(), 0, "nobody else waits");
    let mut now = 0;
    while waiting(&listener) > 0 {
        assert_eq!(listener.rated_at, at(now + 25), "it is served when its rate lets more through");
        assert!(listener.next_wakeup() <= listener.rated_at);
        now += 25;
        listener.on_wakeup(at(now), &mut Nobody);
        assert_eq!(waiting(&listener), 8_000 - 250 * (now as usize / 25));
    }
    assert!(listener.take_steps().is_empty(), "less than a second's bytes waited");
    let mut came = vec![0; 9_000];
    peers[0].read_exact(&mut came).expect("all of them came");

    // More than its rate for long: it is conflated once, and every update is sent again when it has less.
    let mut steps = Vec::new();
    for _ in 0..100 {
        now += 100;
        let bytes = if listener.outbox.is_conflated(rated) { 900 } else { 3_000 };
        deliver(&mut listener, at(now), bytes + 200);
        listener.on_wakeup(at(now), &mut Nobody);
        steps.append(&mut listener.take_steps());
    }
    let told = |steps: &[StepChange]| steps.iter().map(|c| (c.connection, c.step)).collect::<Vec<_>>();
    assert_eq!(told(&steps), [(rated, Step::Conflated)]);
    assert_eq!(steps[0].bytes_per_second, Some(10_000));
    for _ in 0..400 {
        now += 25;
        listener.on_wakeup(at(now), &mut Nobody);
    }
    assert_eq!((waiting(&listener), told(&listener.take_steps())), (0, vec![(rated, Step::Tick)]));

    // Without a rate all goes at once, and who was conflated then comes up as well.
    deliver(&mut listener, at(now), 40_000);
    assert_eq!(told(&listener.take_steps()), [(rated, Step::Conflated)]);
    listener.outbox.set_rate(rated, 0);
    deliver(&mut listener, at(now), 1);
    assert_eq!(waiting(&listener), 0);
    listener.on_wakeup(at(now + 1_000), &mut Nobody);
    listener.on_wakeup(at(now + 4_000), &mut Nobody);
    assert_eq!(told(&listener.take_steps()), [(rated, Step::Tick)]);
}

#[test]
fn who_has_a_rate_is_given_up_for_what_it_does_not_take_and_not_for_what_it_is_not_given() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, _) = listen(&poller, 100);
    listener.set_ladder(LadderConfig {
        disconnect_after: Some(Duration::from_secs(9)),
        ..LadderConfig::default()
    });
    let _peer = TcpStream::connect(listener.local_address().expect("bound")).expect("room");
    serve(&mut poller, &mut listener, Nanos(1));
    let rated = ConnectionId(0);
    let at = |seconds: u64| Nanos(1) + Duration::from_secs(seconds);
    listener.outbox.set_rate(rated, 1_000_000);
    // More than the sockets hold of a peer that reads nothing.
    let staged = listener.outbox.stage(&vec![7; 40_000_000]);
    listener.outbox.deliver(rated, staged, 1);
    listener.flush(at(0), &mut Nobody);
    let (mut seconds, mut before) = (0, usize::MAX);
    loop {
        let waiting = listener.connections[0].endpoint.waiting.len();
        assert!(!listener.connections[0].lives_unheard(false), "it has said nothing");
        if waiting == before {
            break;
        }
        (before, seconds) = (waiting, seconds + 1);
        for part in 0..10 {
            listener.on_wakeup(at(seconds) + Duration::from_millis(100 * part), &mut Nobody);
        }
        assert!(listener.connection(rated).is_some(), "its socket took what it was given");
    }
    listener.on_wakeup(at(seconds + 7), &mut Nobody);
    assert!(listener.connection(rated).is_some());
    listener.on_wakeup(at(seconds + 20), &mut Nobody);
    assert!(listener.connection(rated).is_none(), "it has taken nothing for nine seconds");
}

#[test]
fn those_with_most_waiting_for_their_weight_are_closed_first_when_all_have_too_much() {
    let mut poller = Poller::new().expect("descriptors are left");
    let (mut listener, _) = listen(&poller, 100);
    listener.limits.backlogs_bytes_max = 8_000;
    let _peers =
        [(); 4].map(|()| TcpStream::connect(listener.local_address().expect("bound")).expect("room"));
    serve(&mut poller, &mut listener, Nanos(1));
    let [low, middle, high, idle] = [0, 1, 2, 3].map(ConnectionId);
    listener.outbox.set_weight(low, 1);
    listener.outbox.set_weight(high, 9);
    let mut relieve = |backlogs: [usize; 4]| {
        for (index, depth_bytes) in backlogs.into_iter().enumerate() {
            if let Some(connection) = listener.connections.get_mut(index) {
                connection.endpoint.depth_bytes = depth_bytes;
                listener.update_interest(Nanos(2), index, &mut Nobody);
            }
        }
        listener.flush(Nanos(2), &mut Nobody);
        [low, middle, high, idle].map(|id| listener.connection(id).is_some())
    };
    assert_eq!(relieve([1_000, 2_000, 4_000, 1_000]), [true; 4], "all have room");
    assert_eq!(relieve([2_000, 2_000, 4_000, 100]), [false, true, true, true], "of the same the lower one");
    assert_eq!(relieve([0, 3_000, 5_000, 100]), [false, false, true, true], "more waits for the higher one");
    assert_eq!(relieve([0, 0, 9_000, 100]), [false, false, false, true], "and in the end it is closed, too");
}
