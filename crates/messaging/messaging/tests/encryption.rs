//! Messages of LBT-RM and LBT-RU encrypted: who has no key, another one, or a new one; what is retained. That encrypted
//! sessions do what others do is the suite's to show (`conformance`, `lbtrm_encrypted`, `lbtru_encrypted`).

mod common;

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use common::scratch::Scratch;
use common::{Party, certified, config, group_port, meet, party, until};
use net::udp::{MulticastOptions, ReceiveBatch, UdpSocket};
use tickcast_messaging::{
    Context, ContextError, Interface, LbtrmConfig, LbtruConfig, MessagingConfig, SecurityEvent, Source,
    SourceOptions, Transport,
};

const OLD: &str = "1 000102030405060708090a0b0c0d0e0f\n";
const NEW: &str = "2 f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff\n";
const TRANSPORTS: [Transport; 2] = [Transport::LbtRm, Transport::LbtRu];

fn encrypting(test: u8, transport: Transport, file: &Option<String>) -> MessagingConfig {
    let base = config(test);
    MessagingConfig {
        transport,
        security_reload_interval_us: 0,
        lbtrm: LbtrmConfig { encryption_key_file: file.clone(), ..base.lbtrm },
        lbtru: LbtruConfig { encryption_key_file: file.clone(), ..base.lbtru },
        ..base
    }
}

/// What a receiver of either transport has dropped, or passed over: undeciphered, not encrypted, without a key.
fn dropped(party: &Party) -> [u64; 3] {
    let c = &party.counters;
    let of = |c: &counters::table::ReliableReceiver| {
        [c.dgrams_undeciphered.get(), c.dgrams_not_encrypted.get(), c.dgrams_no_payload_key.get()]
    };
    let (rm, ru) = (of(&c.receiver), of(&c.ru_receiver.session));
    [0, 1, 2].map(|at| rm[at] + ru[at])
}

fn send(a: &mut Party, source: Source) {
    a.context.send(source, &[b"secret"]).expect("there is room");
    a.context.flush();
}

/// Sends `count` messages, and hears all of them.
fn exchange(a: &mut Party, source: Source, b: &mut Party, count: usize) {
    b.heard.payloads.clear();
    (0..count).for_each(|_| send(a, source));
    until(&mut [a, b], |p| p[1].heard.payloads.len() >= count);
    assert_eq!(b.heard.lost, 0);
}

#[test]
fn payload_keys_are_replaced_in_sessions_that_stand() {
    for (test, transport) in [1, 2].into_iter().zip(TRANSPORTS) {
        let scratch = Scratch::new();
        let files = ["a", "b"].map(|name| scratch.put(name, OLD));
        let [mut a, mut b] = files.map(|file| party(&encrypting(test, transport, &file)));
        let source = a.source("px");
        b.receiver("px");
        meet(&mut a, source, &mut b);
        // All accept the new one, all encrypt with it, the old one goes: one end after the other, at any time.
        for step in [format!("{OLD}{NEW}"), format!("{NEW}{OLD}"), NEW.to_owned()] {
            for end in ["a", "b"] {
                scratch.put(end, &step);
                let party = if end == "a" { &mut a } else { &mut b };
                party.context.reload_security().expect("the file is good");
                exchange(&mut a, source, &mut b, 20);
            }
        }
        assert!(b.heard.ends.is_empty(), "it is the same session");
        assert_eq!(dropped(&b), [0; 3], "{transport:?}");
        assert_eq!(a.counters.context.security_reloads.get(), 2 * 3, "LBT-RM's keys and LBT-RU's");
        // Who comes now reads the first datagram it hears.
        let late = scratch.put("late", NEW);
        let mut late = party(&encrypting(test, transport, &late));
        late.receiver("px");
        meet(&mut a, source, &mut late);
        assert_eq!(dropped(&late), [0; 3], "{transport:?}");
    }
}

#[test]
fn a_key_file_that_becomes_nonsense_changes_nothing_in_a_session_that_stands() {
    for (test, transport) in [14, 15].into_iter().zip(TRANSPORTS) {
        let scratch = Scratch::new();
        let files = ["a", "b"].map(|name| scratch.put(name, OLD));
        let [mut a, mut b] = files.clone().map(|file| party(&encrypting(test, transport, &file)));
        let source = a.source("px");
        b.receiver("px");
        meet(&mut a, source, &mut b);
        let paths = files.map(|file| PathBuf::from(file.expect("named")));
        type Spoil = fn(&Path);
        let spoils: [(Spoil, &str); 6] = [
            (|path| fs::write(path, "").expect("writable"), "0 keys"),
            (|path| fs::write(path, [0xff; 1_000]).expect("writable"), "no text"),
            (|path| fs::write(path, "1 no secret").expect("writable"), "line 1"),
            // Of a gigabyte.
            (|path| File::create(path).and_then(|file| file.set_len(1 << 30)).expect("sparse"), "65536"),
            (|path| fs::remove_file(path).expect("it is there"), "No such file"),
            (|path| fs::create_dir(path).expect("nothing is there"), "no regular file"),
        ];
        for (spoil, reason) in spoils {
            for (party, path) in [(&mut a, &paths[0]), (&mut b, &paths[1])] {
                spoil(path);
                let error = party.context.reload_security().expect_err("it cannot be used").to_string();
                assert!(error.contains(reason), "{reason}: {error}");
            }
            exchange(&mut a, source, &mut b, 20);
        }
        for (party, path) in [(&mut a, &paths[0]), (&mut b, &paths[1])] {
            fs::remove_dir(path).expect("made above");
            // The same number with another secret is another key.
            fs::write(path, NEW.replacen('2', "1", 1)).expect("writable");
            party.context.reload_security().expect("the file is good");
        }
        exchange(&mut a, source, &mut b, 20);
        assert_eq!(dropped(&b), [0; 3], "{transport:?}");
        assert!(b.heard.ends.is_empty() && b.heard.security.is_empty());
    }
}

#[test]
fn who_has_no_key_or_another_one_delivers_nothing_and_says_so_once() {
    for (test, transport) in [3, 4].into_iter().zip(TRANSPORTS) {
        let scratch = Scratch::new();
        let own = scratch.put("own", OLD);
        let config = encrypting(test, transport, &own);
        let (mut a, mut b) = (party(&config), party(&config));
        let mut bare = party(&encrypting(test, transport, &None));
        let mut strange = party(&encrypting(test, transport, &scratch.put("strange", NEW)));
        let source = a.source("px");
        for party in [&mut b, &mut bare, &mut strange] {
            party.receiver("px");
        }
        meet(&mut a, source, &mut b);
        until(&mut [&mut a, &mut b, &mut bare, &mut strange], |p| {
            send(p[0], source);
            dropped(p[2])[2] > 20 && dropped(p[3])[0] > 20
        });
        for (party, reason) in [(&bare, "there is no key"), (&strange, "key 1 is not known")] {
            assert!(party.heard.payloads.is_empty(), "{transport:?}");
            let [(what, text)] = &party.heard.security[..] else { panic!("{:?}", party.heard.security) };
            assert_eq!(*what, SecurityEvent::Unreadable);
            assert!(text.contains(reason) && text.contains("127.0.0.1"), "{text}");
        }
        assert_eq!(dropped(&b), [0; 3]);
        assert!(b.heard.security.is_empty());
    }
}

#[test]
fn what_is_not_encrypted_is_not_taken_by_who_has_keys() {
    for (test, transport) in [5, 6].into_iter().zip(TRANSPORTS) {
        let scratch = Scratch::new();
        let mut a = party(&encrypting(test, transport, &None));
        let mut b = party(&encrypting(test, transport, &scratch.put("keys", OLD)));
        let source = a.source("px");
        b.receiver("px");
        until(&mut [&mut a, &mut b], |p| {
            send(p[0], source);
            dropped(p[1])[1] > 20
        });
        assert!(b.heard.payloads.is_empty(), "{transport:?}");
        let [(SecurityEvent::Unreadable, text)] = &b.heard.security[..] else {
            panic!("{:?}", b.heard.security)
        };
        assert!(text.contains("the datagram is not encrypted"), "{text}");
    }
}

#[test]
fn no_message_is_to_be_read_on_the_wire() {
    let scratch = Scratch::new();
    let config = encrypting(7, Transport::LbtRm, &scratch.put("keys", OLD));
    let group = SocketAddrV4::new(config.lbtrm.multicast_address, group_port());
    let options = MulticastOptions { interface: Ipv4Addr::LOCALHOST, ttl: 1, buffer_bytes: 1 << 20 };
    let tap = UdpSocket::multicast_receiver(group, options).expect("the loopback interface has multicast");
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, &mut b);
    exchange(&mut a, source, &mut b, 10);
    let (mut batch, mut datagrams) = (ReceiveBatch::new(64), 0);
    while let Ok(received) = tap.receive(&mut batch)
        && !received.is_empty()
    {
        for (_, datagram) in received.datagrams() {
            datagrams += 1;
            assert!(!datagram.windows(6).any(|part| part == b"secret"));
            assert!(!datagram.windows(5).any(|part| part == b"hello"));
        }
    }
    assert!(datagrams > 10);
}

#[test]
fn what_is_encrypted_is_not_retained_for_who_asks_in_clear() {
    let scratch = Scratch::new();
    let keys = scratch.put("keys", OLD);
    for transport in TRANSPORTS {
        let retaining = SourceOptions { late_join: Some(true), ..SourceOptions::default() };
        let mut plain = Context::standalone(&encrypting(8, transport, &keys)).expect("ports are free");
        let refused = plain.create_source("px", &retaining);
        assert!(matches!(refused, Err(ContextError::PlainRetention)), "{refused:?}");
        assert!(refused.is_err_and(|error| error.to_string().contains("request_tcp_tls")));
        plain.create_source("px", &SourceOptions::default()).expect("without it it is well");
        let tls = certified(encrypting(9, transport, &keys));
        let mut tls = Context::standalone(&tls).expect("ports are free");
        tls.create_source("px", &retaining).expect("with TLS it is well");
    }
}

/// Whoever advertises a source could give his own messages as its retained ones.
#[test]
fn who_has_payload_keys_asks_nobody_for_retained_messages_in_clear() {
    for (test, transport) in [12, 13].into_iter().zip(TRANSPORTS) {
        let scratch = Scratch::new();
        let mut a = party(&encrypting(test, transport, &None));
        let mut b = party(&encrypting(test, transport, &scratch.put("keys", OLD)));
        let mut bare = party(&encrypting(test, transport, &None));
        let retaining = SourceOptions { late_join: Some(true), ..SourceOptions::default() };
        let source = a.context.create_source("px", &retaining).expect("a port is free");
        (0..10).for_each(|_| send(&mut a, source));
        b.receiver("px");
        bare.receiver("px");
        until(&mut [&mut a, &mut b, &mut bare], |p| {
            send(p[0], source);
            dropped(p[1])[1] > 20 && p[2].heard.payloads.len() > 20
        });
        assert_eq!(a.heard.accepted.len(), 1, "who has no keys asks, and only he: {transport:?}");
        assert!(b.heard.payloads.is_empty());
    }
}

#[test]
fn a_session_on_two_networks_is_encrypted_under_its_name_on_the_first() {
    let scratch = Scratch::new();
    let second = Interface::Address(Ipv4Addr::new(127, 0, 0, 2));
    let config = MessagingConfig {
        interface_b: Some(second),
        ..encrypting(10, Transport::LbtRm, &scratch.put("keys", OLD))
    };
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, &mut b);
    exchange(&mut a, source, &mut b, 50);
    until(&mut [&mut a, &mut b], |p| {
        send(p[0], source);
        p[1].counters.networks.b_dgrams_rcved.get() > 20
    });
    assert_eq!(dropped(&b), [0; 3]);
    assert_eq!(b.heard.lost, 0);
}

#[test]
fn a_bad_file_of_payload_keys_is_named() {
    let scratch = Scratch::new();
    for file in [scratch.put("bad", "1 no secret"), Some("/no/such/file".to_owned())] {
        let name = file.clone().expect("named");
        let refused = Context::standalone(&encrypting(11, Transport::LbtRm, &file)).map(drop);
        assert!(refused.is_err_and(|error| error.to_string().contains(&name)));
    }
}
