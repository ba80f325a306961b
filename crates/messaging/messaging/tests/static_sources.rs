//! Both ends of a topic that is fixed by configuration.

mod common;

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

use common::{Party, Patience, config_with, group, group_port, party};
use tickcast_messaging::{ReceiverOptions, SourceOptions};

fn resolution_datagrams(party: &Party) -> u64 {
    party.counters.resolver.tr_dgrams_sent.get() + party.counters.resolver.tr_dgrams_rcved.get()
}

/// A port that was free a moment ago, and is none of those that the kernel gives to whoever connects.
fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: &u16| {
        let place = (Ipv4Addr::LOCALHOST, *port);
        UdpSocket::bind(place).is_ok() && TcpListener::bind(place).is_ok()
    };
    let ports = std::iter::repeat_with(|| {
        let asked = ASKED.fetch_add(1, Ordering::Relaxed);
        10_000 + (std::process::id().wrapping_mul(97).wrapping_add(asked) % 20_000) as u16
    });
    ports.take(20_000).find(is_free).expect("a port is free")
}

/// Source strings of one transport for topics `px` and `py` of one session.
fn places(transport: &str, test: u8) -> [String; 2] {
    let (port, group) = (free_port(), group(248, test));
    let session = match transport {
        "LBTRM" => {
            format!("LBTRM:127.0.0.1:{port}:5eed1234:{group}:{}", group_port())
        }
        other => format!("{other}:127.0.0.1:{port}:5eed1234"),
    };
    [7, 4_000_000_000_u32].map(|index| format!("{session}[{index}]"))
}

fn lines(key: &str, places: &[String; 2]) -> String {
    format!("[messaging]\n{key} = [\"px = {}\", \"py = {}\"]\n", places[0], places[1])
}

fn both_ends(transport: &str, test: u8) {
    let places = places(transport, test);
    let mut a = party(&config_with(test, &lines("source_static_session", &places)));
    let mut b = party(&config_with(test, &lines("resolver.static_source", &places)));
    let (options, receiver_options) = (SourceOptions::default(), ReceiverOptions::default());
    let px = a.context.create_source("px", &options).expect("the port is free");
    let py = a.context.create_source("py", &options).expect("it shares the session");
    for (source, place) in [px, py].into_iter().zip(&places) {
        let transport = a.context.source_transport(source).expect("it exists").to_string();
        assert!(place.starts_with(&format!("{transport}[")), "{transport} is not {place}");
    }
    b.context.create_receiver("px", &receiver_options).expect("a legal name");
    b.context.create_receiver("py", &receiver_options).expect("a legal name");
    let patience = Patience::new();
    let has = |b: &Party, text: &[u8]| b.heard.payloads.iter().any(|p| p == text);
    while !(has(&b, b"to x") && has(&b, b"to y")) {
        assert!(patience.lasts(), "{transport}: they do not meet");
        a.context.send(px, &[b"to x"]).expect("there is room");
        a.context.send(py, &[b"to y"]).expect("there is room");
        a.turn();
        b.turn();
    }
    assert_eq!(b.heard.sources.len(), 2);
    assert_eq!((resolution_datagrams(&a), resolution_datagrams(&b)), (0, 0), "{transport}");
    let error = a.context.create_source("px", &options).expect_err("its place is taken").to_string();
    assert!(error.contains("source_static_session") && error.contains("px"), "{error}");
    a.context.delete_source(px);
    a.context.create_source("px", &options).expect("its place is free again");
}

#[test]
fn both_ends_of_a_multicast_topic_are_fixed_by_configuration_without_any_resolution() {
    both_ends("LBTRM", 1);
}

#[test]
fn both_ends_of_a_tcp_topic_are_fixed_by_configuration_without_any_resolution() {
    both_ends("TCP", 2);
}

#[test]
fn both_ends_of_a_unicast_topic_are_fixed_by_configuration_without_any_resolution() {
    both_ends("LBT-RU", 3);
}

#[test]
fn a_receiver_finds_a_fixed_source_that_starts_later_and_again_when_it_has_come_back() {
    let places = places("TCP", 4);
    let mut b = party(&config_with(4, &lines("resolver.static_source", &places)));
    b.context.create_receiver("px", &ReceiverOptions::default()).expect("a legal name");
    let patience = Patience::new();
    while b.heard.ends.is_empty() {
        assert!(patience.lasts(), "nobody listens there");
        b.turn();
    }
    for _ in 0..2 {
        let mut a = party(&config_with(4, &lines("source_static_session", &places)));
        let px = a.context.create_source("px", &SourceOptions::default()).expect("the port is free");
        b.heard.payloads.clear();
        while b.heard.payloads.is_empty() {
            assert!(patience.lasts(), "it is not tried again");
            a.context.send(px, &[b"hello"]).expect("there is room");
            a.turn();
            b.turn();
        }
    }
    assert_eq!(resolution_datagrams(&b), 0);
}

#[test]
fn a_fixed_topic_that_is_created_again_in_its_session_goes_on_with_its_numbers() {
    for (transport, test) in [("LBTRM", 6), ("TCP", 7), ("LBT-RU", 8)] {
        let places = places(transport, test);
        let mut a = party(&config_with(test, &lines("source_static_session", &places)));
        let mut b = party(&config_with(test, &lines("resolver.static_source", &places)));
        let options = SourceOptions::default();
        let mut px = a.context.create_source("px", &options).expect("the port is free");
        // It keeps the session.
        a.context.create_source("py", &options).expect("it shares the session");
        b.context.create_receiver("px", &ReceiverOptions::default()).expect("a legal name");
        common::meet(&mut a, px, &mut b);
        for round in 0..3_u32 {
            a.context.flush();
            a.context.delete_source(px);
            px = a.context.create_source("px", &options).expect("its place is free again");
            let patience = Patience::new();
            let text = format!("round {round}").into_bytes();
            a.context.send(px, &[&text]).expect("there is room");
            while b.heard.payloads.last() != Some(&text) {
                assert!(patience.lasts(), "{transport}: it is not heard");
                a.turn();
                b.turn();
            }
        }
        assert_eq!((b.heard.lost, b.heard.sources.len()), (0, 1), "{transport}");
    }
}

#[test]
fn a_place_that_is_not_this_host_s_is_refused_with_both_addresses() {
    let toml = "[messaging]\nsource_static_session = [\"px = TCP:127.9.9.9:14371[1]\"]\n";
    let mut a = party(&config_with(5, toml));
    let error = a.context.create_source("px", &SourceOptions::default()).expect_err("not here").to_string();
    for part in ["source_static_session", "127.9.9.9", "127.0.0.1"] {
        assert!(error.contains(part), "{error}");
    }
}
