//! What a source of datagrams gives to those who retain it.

use crate::ciphers::{SALT, payload_keys};
use counters::table::LbtrmSource;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tickcast_lbt::authentication::{CODE_LEN, Key, Keys, Mac};
use tickcast_lbt::config::SourceConfig;
use tickcast_lbt::rm::Source;
use tickcast_lbt::wire::lbmc::{Kind, Messages};
use tickcast_lbt::wire::lbtrm::SessionHeader;
use units::{Nanos, Sqn};

const SESSION: SessionHeader = SessionHeader { ucast_port: 14391, session_id: 7 };

/// Nobody checks these codes.
struct Sevens;

impl Mac for Sevens {
    fn code(&self, _: &[&[u8]]) -> [u8; CODE_LEN] {
        [7; CODE_LEN]
    }
}

fn source(config: &SourceConfig) -> Source {
    Source::new(config, SESSION, Nanos::ZERO, Arc::new(LbtrmSource::default())).expect("allowed")
}

/// The topic numbers of the messages written since `from`.
fn written(source: &mut Source, from: &mut Sqn) -> Vec<u32> {
    let mut numbers = Vec::new();
    source.written(from, |messages| {
        for message in Messages::new(messages) {
            let message = message.expect("nothing but messages, with or without keys");
            assert_eq!(message.kind, Kind::Message);
            numbers.push(message.sqn.0);
        }
    });
    numbers
}

#[test]
fn every_closed_datagram_is_given_once_in_clear_whether_sent_or_not_signed_and_encrypted_or_not() {
    for (is_signed, is_encrypted) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut source = source(&SourceConfig::default());
        if is_signed {
            let signing = Key { id: 1, mac: Arc::new(Sevens) };
            source.authenticate(Keys { signing, accepted: None }, Ipv4Addr::LOCALHOST);
        }
        if is_encrypted {
            source.encrypt(&payload_keys(1, None), Ipv4Addr::LOCALHOST, SALT);
        }
        let topic = source.add_topic(Nanos::ZERO, 3);
        let mut from = source.next_datagram();
        source.send(Nanos::ZERO, topic, &[b"a"]).expect("there is room");
        assert!(written(&mut source, &mut from).is_empty(), "its datagram is open");
        source.flush();
        assert_eq!(written(&mut source, &mut from), [0]);
        assert_eq!((written(&mut source, &mut from), from), (vec![], source.next_datagram()));
        for _ in 0..3 {
            source.send(Nanos::ZERO, topic, &[&[1; 1_000]]).expect("there is room");
        }
        source.flush();
        let count = source.poll_transmit(Nanos::ZERO).map_or(0, |run| run.count);
        source.sent(Nanos::ZERO, count);
        assert_eq!(written(&mut source, &mut from), [1, 2, 3]);
    }
}

#[test]
fn what_has_left_the_window_is_passed_over() {
    let config = SourceConfig {
        transmission_window_size: 65_536,
        transport_session_maximum_buffer: 32_768,
        maximum_message_size: 8_000,
        data_rate_limit: 0,
        ..SourceConfig::default()
    };
    let mut source = source(&config);
    let topic = source.add_topic(Nanos::ZERO, 3);
    let mut from = source.next_datagram();
    for _ in 0..200 {
        source.send(Nanos::ZERO, topic, &[&[1; 1_000]]).expect("there is room");
        source.flush();
        while let Some(count) = source.poll_transmit(Nanos::ZERO).map(|run| run.count) {
            source.sent(Nanos::ZERO, count);
        }
    }
    let numbers = written(&mut source, &mut from);
    let newest: Vec<u32> = (200 - numbers.len() as u32..200).collect();
    assert!(!numbers.is_empty() && numbers.len() < 70, "{} of them fit the window", numbers.len());
    assert_eq!(numbers, newest);
}
