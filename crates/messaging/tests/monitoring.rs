//! What a context tells of its sources, sessions, peers and streams, by name.

mod common;

use common::{Party, Patience, config, meet, party, until};
use tickcast_messaging::{MessagingConfig, RepairStatistics, Source, Statistic, StreamId, Transport};

/// What was told, as far as these tests look at it.
#[derive(Debug, Default)]
struct Told {
    sources: Vec<(Source, String, String, u32, u64)>,
    sessions: Vec<(String, usize, usize)>,
    /// Session, NAKs and bytes that wait.
    peers: Vec<(String, u64, u64)>,
    incoming: Vec<(String, usize, u64, Option<RepairStatistics>)>,
    streams: Vec<(StreamId, String, String, u64, u64)>,
}

fn ask(party: &mut Party) -> Told {
    let mut told = Told::default();
    party.context.statistics(|one| match one {
        Statistic::Source { source, topic, transport, next, blocked } => {
            told.sources.push((source, topic.to_owned(), transport.to_string(), next.0, blocked));
        }
        Statistic::Session { transport, topics, peers, .. } => {
            told.sessions.push((transport.to_string(), topics, peers));
        }
        Statistic::Peer { transport, naks, waiting_bytes, .. } => {
            told.peers.push((transport.to_string(), naks, waiting_bytes));
        }
        Statistic::Incoming { transport, streams, lost, repair, .. } => {
            told.incoming.push((transport.to_string(), streams, lost, repair));
        }
        Statistic::Stream { stream, topic, transport, lost, losses, .. } => {
            told.streams.push((stream, topic.to_owned(), transport.to_string(), lost, losses));
        }
        _ => {}
    });
    told
}

#[test]
fn who_asks_again_and_what_was_repaired_is_told_for_each_session() {
    for (test, transport) in [Transport::LbtRm, Transport::LbtRu].into_iter().enumerate() {
        let config = MessagingConfig {
            transport,
            transport_lbtrm_receiver_socket_buffer_bytes: 65_536,
            ..config(1 + test as u8)
        };
        let (mut sender, mut receiver) = (party(&config), party(&config));
        let (source, quiet) = (sender.source("px"), sender.source("py"));
        receiver.receiver("px");
        meet(&mut sender, source, &mut receiver);
        // More than the socket of a receiver takes that does not look.
        let (mut sent, patience) = (0, Patience::new());
        while ask(&mut receiver).incoming[0].3.is_none_or(|repair| repair.recovered == 0) {
            assert!(patience.lasts(), "nothing was dropped");
            for _ in 0..500 {
                sent += u32::from(sender.context.send(source, &[&[7; 1_000]]).is_ok());
                sender.context.flush();
            }
            sender.turn();
            receiver.turn();
        }
        let told = ask(&mut sender);
        let name = sender.context.source_transport(source).expect("it is there").to_string();
        let [(first, topic, of, next, _), (second, .., none, _)] = &told.sources[..] else {
            panic!("{told:?}");
        };
        assert_eq!((*first, &**topic, of, *second, *none), (source, "px", &name, quiet, 0));
        assert!(*next >= sent, "those to meet came before");
        assert_eq!(told.sessions, [(name.clone(), 2, 1)]);
        assert!(matches!(&told.peers[..], [(of, naks, 0)] if *of == name && *naks > 0), "{told:?}");
        let told = ask(&mut receiver);
        let [(of, 1, lost, Some(repair))] = &told.incoming[..] else { panic!("{told:?}") };
        assert_eq!((of, *lost), (&name, u64::from(receiver.heard.lost)));
        assert!(repair.naks_sent >= repair.recovered && repair.datagrams > 0, "{repair:?}");
        let counted = match transport {
            Transport::LbtRm => &receiver.counters.receiver.naks_sent,
            _ => &receiver.counters.ru_receiver.session.naks_sent,
        };
        assert_eq!(repair.naks_sent, counted.get(), "the only session is all there is");
        assert!(
            matches!(&told.streams[..], [(_, topic, of, ..)] if topic == "px" && *of == name),
            "{told:?}"
        );
    }
}

#[test]
fn bytes_that_wait_and_lost_messages_are_told_of_the_receiver_that_is_slow() {
    let config = MessagingConfig { transport: Transport::Tcp, ..config(11) };
    let (mut sender, mut receiver) = (party(&config), party(&config));
    let source = sender.source("px");
    receiver.receiver("px");
    meet(&mut sender, source, &mut receiver);
    let patience = Patience::new();
    while sender.context.send(source, &[&[7; 10_000]]).is_ok() {
        assert!(patience.lasts(), "it takes everything");
        sender.turn();
    }
    let told = ask(&mut sender);
    assert!(matches!(&told.peers[..], [(_, 0, waiting)] if *waiting > 0), "{told:?}");
    assert_eq!(told.sources[0].4, 1, "one send was refused");
    until(&mut [&mut sender, &mut receiver], |all| ask(all[0]).peers[0].2 == 0);
    // A source-paced ring goes over a receiver that does not look.
    let config = MessagingConfig {
        transport: Transport::LbtIpc,
        transport_lbtipc_transmission_window_size_bytes: 2_097_152,
        ..config
    };
    let (mut sender, mut receiver) = (party(&config), party(&config));
    let source = sender.source("pz");
    receiver.receiver("pz");
    meet(&mut sender, source, &mut receiver);
    for _ in 0..1_000 {
        sender.context.send(source, &[&[7; 10_000]]).expect("it waits for nobody");
        sender.context.flush();
    }
    until(&mut [&mut sender, &mut receiver], |all| all[1].heard.lost > 0);
    let (told, lost) = (ask(&mut receiver), u64::from(receiver.heard.lost));
    assert!(matches!(&told.incoming[..], [(_, 1, of, None)] if *of == lost), "{told:?}");
    assert!(matches!(&told.streams[..], [(.., of, losses)] if *of == lost && *losses > 0), "{told:?}");
}
