//! Keys and certificates are replaced without a restart, and without a message lost; what cannot be used is reported and
//! changes nothing.

mod common;

use net::clock;
use tickcast_messaging::{
    LbtrmConfig, LbtruConfig, MessagingConfig, SecurityEvent, Source, TcpConfig, TopicResolutionConfig,
    Transport,
};

use common::scratch::Scratch;
use common::{Party, certified, config, meet, party, until};

const OLD: &str = "1 000102030405060708090a0b0c0d0e0f\n";
const NEW: &str = "2 f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff\n";

fn signing(test: u8, transport: Transport, file: &Option<String>) -> MessagingConfig {
    let base = config(test);
    MessagingConfig {
        transport,
        security_reload_interval_us: 0,
        lbtrm: LbtrmConfig { authentication_key_file: file.clone(), ..base.lbtrm },
        lbtru: LbtruConfig { authentication_key_file: file.clone(), ..base.lbtru },
        ..base
    }
}

/// Sends `count` messages, and hears all of them.
fn exchange(a: &mut Party, source: Source, b: &mut Party, count: usize) {
    b.heard.payloads.clear();
    for _ in 0..count {
        a.context.send(source, &[b"signed"]).expect("there is room");
        a.context.flush();
    }
    until(&mut [a, b], |p| p[1].heard.payloads.len() >= count);
    assert_eq!(b.heard.lost, 0);
}

#[test]
fn keys_are_replaced_in_sessions_that_stand_and_the_old_one_is_of_no_use_afterwards() {
    for (test, transport) in [(1, Transport::LbtRm), (2, Transport::LbtRu)] {
        let scratch = Scratch::new();
        let files = ["a", "b", "old"].map(|name| scratch.put(name, OLD));
        let [mut a, mut b, mut old] = files.map(|file| party(&signing(test, transport, &file)));
        let source = a.source("px");
        b.receiver("px");
        meet(&mut a, source, &mut b);
        // All accept the new one, all sign with it, the old one goes: one end after the other, at any time.
        for step in [format!("{OLD}{NEW}"), format!("{NEW}{OLD}"), NEW.to_owned()] {
            for end in ["a", "b"] {
                scratch.put(end, &step);
                let party = if end == "a" { &mut a } else { &mut b };
                party.context.reload_security().expect("the file is good");
                exchange(&mut a, source, &mut b, 20);
            }
        }
        assert!(b.heard.ends.is_empty(), "it is the same session");
        let refused = |p: &Party| {
            let c = &p.counters;
            c.receiver.dgrams_unauthentic.get()
                + c.ru_receiver.session.dgrams_unauthentic.get()
                + c.source.nak_pckts_unauthentic.get()
                + c.ru_source.session.nak_pckts_unauthentic.get()
        };
        assert_eq!((refused(&a), refused(&b)), (0, 0), "{transport:?}");
        assert_eq!(a.counters.context.security_reloads.get(), 2 * 3, "LBT-RM's keys and LBT-RU's");
        old.receiver("px");
        until(&mut [&mut a, &mut b, &mut old], |p| {
            p[0].context.send(source, &[b"signed"]).expect("there is room");
            refused(p[0]) + refused(p[2]) > 0
        });
        assert!(old.heard.payloads.is_empty());
    }
}

#[test]
fn changed_files_are_found_and_a_bad_one_is_reported_and_changes_nothing() {
    let scratch = Scratch::new();
    let file = scratch.put("keys", OLD);
    let config =
        MessagingConfig { security_reload_interval_us: 10_000, ..signing(3, Transport::LbtRm, &file) };
    let config =
        MessagingConfig { lbtru: LbtruConfig { authentication_key_file: None, ..config.lbtru }, ..config };
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, &mut b);
    assert!(a.heard.security.is_empty(), "nothing has changed");

    scratch.put("keys", "2 no secret");
    until(&mut [&mut a, &mut b], |p| {
        p.iter()
            .all(|p| p.counters.context.security_reload_failures.get() == 1 && !p.heard.security.is_empty())
    });
    let (what, text) = &a.heard.security[0];
    assert_eq!(*what, SecurityEvent::ReloadFailed);
    assert!(text.contains(file.as_deref().expect("named")) && text.contains("line 1"), "{text}");
    exchange(&mut a, source, &mut b, 20);
    let error = a.context.reload_security().expect_err("it is still no good").to_string();
    assert!(error.contains("line 1"), "{error}");

    scratch.put("keys", format!("{NEW}{OLD}"));
    until(&mut [&mut a, &mut b], |p| {
        p.iter().all(|p| p.heard.security.last().is_some_and(|(what, _)| *what == SecurityEvent::Reloaded))
    });
    exchange(&mut a, source, &mut b, 20);
    assert_eq!(a.counters.context.security_reloads.get(), 1);
    // Once each, however often they were looked at since.
    assert_eq!(b.heard.security.len(), 2, "{:?}", b.heard.security);
}

#[test]
fn topic_resolution_with_keys_believes_nobody_without_and_its_keys_are_replaced() {
    let scratch = Scratch::new();
    let resolving = |file: &Option<String>| {
        let base = config(6);
        MessagingConfig {
            transport: Transport::Tcp,
            security_reload_interval_us: 0,
            resolver: TopicResolutionConfig { authentication_key_file: file.clone(), ..base.resolver },
            ..base
        }
    };
    let files = ["a", "b"].map(|name| scratch.put(name, OLD));
    let [mut a, mut b] = files.map(|file| party(&resolving(&file)));
    let (mut forger, mut hearer) = (party(&resolving(&None)), party(&resolving(&None)));
    let source = a.source("px");
    forger.source("px");
    b.receiver("px");
    hearer.receiver("px");
    meet(&mut a, source, &mut b);
    let unauthentic = |p: &Party| p.counters.resolver.tr_dgrams_unauthentic.get();
    until(&mut [&mut a, &mut b, &mut forger, &mut hearer], |p| {
        // Who has no key hears both: signed packets are packets like others.
        p[3].heard.sources.len() == 2 && unauthentic(p[1]) > 0
    });
    assert_eq!(b.heard.sources.len(), 1, "the forged source is not believed: {:?}", b.heard.sources);

    // One that knows only the new key, and is found when the others sign with it.
    let mut late = party(&resolving(&scratch.put("late", NEW)));
    late.receiver("px");
    until(&mut [&mut a, &mut late], |p| unauthentic(p[1]) > 0);
    assert!(late.heard.sources.is_empty());
    scratch.put("a", format!("{NEW}{OLD}"));
    a.context.reload_security().expect("the file is good");
    until(&mut [&mut a, &mut late], |p| !p[1].heard.sources.is_empty());
    assert_eq!(a.counters.resolver.tr_dgrams_stale.get(), 0);
}

#[test]
fn a_file_that_changes_from_look_to_look_is_being_written_and_not_read() {
    let scratch = Scratch::new();
    let file = scratch.put("keys", OLD);
    let config =
        MessagingConfig { security_reload_interval_us: 3_000_000_000, ..signing(4, Transport::LbtRm, &file) };
    let mut a = party(&config);
    let mut later = clock::monotonic();
    let mut look = |a: &mut Party| {
        later += std::time::Duration::from_secs(3_000);
        a.context.on_wakeup(later, &mut a.heard);
    };
    look(&mut a);
    for bytes in 1..5 {
        scratch.put("keys", &NEW[..bytes]);
        look(&mut a);
    }
    assert!(a.heard.security.is_empty());
    scratch.put("keys", NEW);
    (0..3).for_each(|_| look(&mut a));
    let told: Vec<SecurityEvent> = a.heard.security.iter().map(|(what, _)| *what).collect();
    // Of the two transports whose keys it has.
    assert_eq!(told, [SecurityEvent::Reloaded; 2]);
}

#[test]
fn certificates_are_replaced_for_new_connections_and_those_that_stand_stay() {
    let scratch = Scratch::new();
    let base = certified(common::config(5));
    let config = MessagingConfig {
        security_reload_interval_us: 0,
        tcp: TcpConfig {
            tls_certificate_file: scratch.copy("cert", "server.pem"),
            tls_key_file: scratch.copy("key", "server.key"),
            tls_client_ca_file: scratch.copy("authority", "ca.pem"),
            ..base.tcp
        },
        ..base
    };
    let (mut server, mut client) = (party(&config), party(&certified(common::config(5))));
    let port = server.context.listen().expect("a port is free");
    let mut connect = |server: &mut Party, is_good: bool| {
        let (connected, closed) = (client.heard.connected.len(), client.heard.closed.len());
        let (accepted, id) = (server.heard.accepted.len(), client.context.connect(port).expect("it is near"));
        until(&mut [server, &mut client], |p| match is_good {
            true => p[0].heard.accepted.len() > accepted && p[1].heard.connected.len() > connected,
            false => p[1].heard.closed.len() > closed,
        });
        assert_eq!(server.heard.accepted.len() > accepted, is_good);
        id
    };
    connect(&mut server, true);
    // One file of two: they do not belong together.
    scratch.copy("cert", "renewed.pem");
    let error = server.context.reload_security().expect_err("the key is the old one's").to_string();
    assert!(error.contains("key"), "{error}");
    connect(&mut server, true);
    scratch.copy("key", "renewed.key");
    server.context.reload_security().expect("they belong together");
    connect(&mut server, true);
    // Clients of this authority are not wanted any more.
    scratch.copy("authority", "other-ca.pem");
    server.context.reload_security().expect("it is an authority");
    connect(&mut server, false);
    assert!(server.heard.closed.is_empty(), "connections that stand stay: {:?}", server.heard.closed);
}
