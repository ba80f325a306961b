//! Who connects to the request port.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;

use lbt::stream::StreamEncoder;
use tickcast_messaging::MessagingConfig;

use crate::common::{Party, config};
use crate::tcp_sources::assert_closed;
use crate::{clock, idle, on_clock, until_at_once};

/// A direct message as it is sent.
fn message(len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    StreamEncoder::default().message(&mut bytes, 0, &[], &vec![7; len]).expect("it is not too long");
    bytes
}

/// Connects, and waits until the connection is taken.
fn connect(a: &mut Party, address: SocketAddrV4) -> TcpStream {
    let stranger = TcpStream::connect(address).expect("it listens");
    idle(&mut [a]);
    stranger
}

/// Writes all, while the other side reads.
fn write(a: &mut Party, stranger: &mut TcpStream, mut bytes: &[u8]) {
    stranger.set_nonblocking(true).expect("a socket");
    until_at_once(&mut [a], |_| {
        match stranger.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        bytes.is_empty()
    });
    stranger.set_nonblocking(false).expect("a socket");
    idle(&mut [a]);
}

fn assert_open(stranger: &TcpStream) {
    stranger.set_nonblocking(true).expect("a socket");
    assert_eq!(stranger.peek(&mut [0]).expect_err("nothing comes").kind(), ErrorKind::WouldBlock);
}

fn after(clock: &net::clock::ManualClock, us: u64) {
    clock.set(clock.now() + Duration::from_micros(us));
}

#[test]
fn a_connection_that_says_nothing_is_closed_in_time_and_one_that_was_used_when_it_is_idle() {
    let (config, clock) = (config(61), clock());
    let mut a = on_clock(&config, &clock, 1);
    let address = a.context.listen().expect("a port is free");
    let counters = a.counters.context.clone();
    let (mut silent, mut used) = (connect(&mut a, address), connect(&mut a, address));
    write(&mut a, &mut used, &message(10));
    after(&clock, config.request_tcp_first_message_timeout_us);
    until_at_once(&mut [&mut a], |_| counters.request_connections_silent.get() == 1);
    assert_closed(&mut silent);
    assert_open(&used);
    after(&clock, config.request_tcp_idle_timeout_us / 2);
    used.set_nonblocking(false).expect("a socket");
    write(&mut a, &mut used, &message(10));
    after(&clock, config.request_tcp_idle_timeout_us - 1_000);
    idle(&mut [&mut a]);
    assert_open(&used);
    after(&clock, 1_000);
    until_at_once(&mut [&mut a], |_| counters.request_connections_idle.get() == 1);
    used.set_nonblocking(false).expect("a socket");
    assert_closed(&mut used);
    assert_eq!(a.heard.closed.len(), 2, "the application is told");
}

#[test]
fn a_message_that_comes_a_byte_at_a_time_is_given_up_and_a_long_one_that_goes_on_is_not() {
    let (config, clock) = (config(62), clock());
    let mut a = on_clock(&config, &clock, 1);
    let address = a.context.listen().expect("a port is free");
    let counters = a.counters.context.clone();
    let (mut slow, mut drips) = (connect(&mut a, address), connect(&mut a, address));
    let (whole, step) = (message(1_000_000), config.request_tcp_message_timeout_us / 2 + 1);
    for stranger in [&mut slow, &mut drips] {
        write(&mut a, stranger, &message(10));
    }
    for part in whole.chunks(100_000) {
        write(&mut a, &mut slow, part);
        if counters.request_messages_overdue.get() == 0 {
            write(&mut a, &mut drips, &whole[..1]);
        }
        after(&clock, step);
        idle(&mut [&mut a]);
    }
    assert_eq!(counters.request_messages_overdue.get(), 1);
    assert_closed(&mut drips);
    assert_open(&slow);
}

#[test]
fn connections_are_limited_in_all_and_who_has_said_nothing_makes_room() {
    let config = MessagingConfig { request_tcp_maximum_connections: 2, ..config(63) };
    let clock = clock();
    let mut a = on_clock(&config, &clock, 1);
    let address = a.context.listen().expect("a port is free");
    let counters = a.counters.context.clone();
    let mut silent = connect(&mut a, address);
    after(&clock, 1);
    let mut second = connect(&mut a, address);
    let mut third = connect(&mut a, address);
    assert_eq!(counters.request_connections_displaced.get(), 1);
    assert_closed(&mut silent);
    for stranger in [&mut second, &mut third] {
        write(&mut a, stranger, &message(10));
    }
    let mut fourth = connect(&mut a, address);
    assert_eq!(
        (counters.request_connections_refused.get(), counters.request_connections_displaced.get()),
        (1, 1)
    );
    assert_closed(&mut fourth);
    assert_open(&second);
    drop(third);
    idle(&mut [&mut a]);
    assert_open(&connect(&mut a, address));
}

#[test]
fn connections_are_limited_for_each_address_and_to_the_networks_that_are_allowed() {
    let config = MessagingConfig { request_tcp_maximum_connections_per_address: 1, ..config(64) };
    let clock = clock();
    let mut a = on_clock(&config, &clock, 1);
    let address = a.context.listen().expect("a port is free");
    let first = connect(&mut a, address);
    let mut second = connect(&mut a, address);
    assert_eq!(a.counters.context.request_connections_refused.get(), 1);
    assert_closed(&mut second);
    assert_open(&first);
    drop(first);
    idle(&mut [&mut a]);
    assert_open(&connect(&mut a, address));

    let narrow = "10.29.0.0/16".parse().expect("a network");
    let config = MessagingConfig { request_tcp_allowed_networks: vec![narrow], ..config };
    let mut a = on_clock(&config, &clock, 1);
    let address = a.context.listen().expect("a port is free");
    let mut stranger = connect(&mut a, address);
    assert_eq!(a.counters.context.request_connections_not_allowed.get(), 1);
    assert_closed(&mut stranger);
}

#[test]
fn messages_that_are_not_whole_take_bounded_memory_in_all_and_too_long_ones_none() {
    let config = MessagingConfig {
        request_tcp_receive_buffer_maximum_bytes: 9 << 19,
        request_tcp_maximum_message_size_bytes: 3 << 20,
        ..config(65)
    };
    let clock = clock();
    let mut a = on_clock(&config, &clock, 1);
    let address = a.context.listen().expect("a port is free");
    let counters = a.counters.context.clone();
    let whole = message(3 << 20);
    let (mut small, mut large) = (connect(&mut a, address), connect(&mut a, address));
    write(&mut a, &mut large, &whole[..(5 << 20) / 2]);
    write(&mut a, &mut small, &whole[..1 << 20]);
    assert_eq!(counters.request_buffers_exceeded.get(), 0);
    let mut third = connect(&mut a, address);
    write(&mut a, &mut third, &whole[..1 << 20]);
    assert_eq!(counters.request_buffers_exceeded.get(), 1, "the one that holds most");
    assert_closed(&mut large);
    write(&mut a, &mut third, &whole[1 << 20..]);
    write(&mut a, &mut small, &whole[1 << 20..]);
    assert_eq!(counters.request_buffers_exceeded.get(), 1);
    assert_open(&third);
    assert_open(&small);
    let (mut liar, closed) = (connect(&mut a, address), a.heard.closed.len());
    liar.write_all(&message((3 << 20) + 1)[..65_536]).expect("it is open");
    until_at_once(&mut [&mut a], |p| p[0].heard.closed.len() == closed + 1);
}

#[test]
fn what_waits_for_peers_that_do_not_read_is_bounded_for_all_together() {
    let config = MessagingConfig { request_tcp_send_buffer_total_maximum_bytes: 1 << 20, ..config(66) };
    let clock = clock();
    let mut a = on_clock(&config, &clock, 1);
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port is free"));
    let connections = listeners.each_ref().map(|listener| {
        let SocketAddr::V4(address) = listener.local_addr().expect("bound") else { unreachable!("IPv4") };
        a.context.connect(address).expect("it is near")
    });
    until_at_once(&mut [&mut a], |p| p[0].heard.connected.len() == 2);
    until_at_once(&mut [&mut a], |p| {
        p[0].context.send_direct(connections[0], &[7; 50_000]);
        p[0].context.send_direct(connections[1], &[7; 100_000]);
        !p[0].heard.closed.is_empty()
    });
    assert_eq!(a.counters.context.request_connections_unread.get(), 1);
}
