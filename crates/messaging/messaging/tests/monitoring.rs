//! What a context tells of its sources, sessions, peers and streams, by name.

mod common;

use common::{Party, Patience, config, meet, party, until};
use tickcast_messaging::{
    IpcConfig, LbtrmConfig, MessagingConfig, RepairStatistics, STATISTICS_MAX, SentStatistics, Source,
    Statistic, StatisticsPosition, StreamId, Transport,
};

/// What was told, as far as these tests look at it.
#[derive(Debug, Default)]
struct Told {
    sources: Vec<(Source, String, String, u32, u64)>,
    sessions: Vec<(String, usize, usize)>,
    /// Session, NAKs and bytes that wait.
    peers: Vec<(String, u64, u64)>,
    incoming: Vec<(String, usize, u64, Option<RepairStatistics>)>,
    streams: Vec<(StreamId, String, String, u64, u64)>,
    /// Bytes of each session that is published on, and what else it has sent.
    sent: Vec<(u64, Option<SentStatistics>)>,
    /// Bytes of each session that is received, and messages delivered of each stream.
    received: Vec<u64>,
    delivered: Vec<u64>,
    /// Bytes that the socket of each peer has taken.
    taken: Vec<Option<u64>>,
}

fn ask(party: &mut Party) -> Told {
    let mut told = Told::default();
    let rest = party.context.statistics(|one| match one {
        Statistic::Source { source, topic, transport, next, blocked } => {
            told.sources.push((source, topic.to_owned(), transport.to_string(), next.0, blocked));
        }
        Statistic::Session { transport, topics, peers, bytes, sent, .. } => {
            told.sent.push((bytes, sent));
            told.sessions.push((transport.to_string(), topics, peers));
        }
        Statistic::Peer { transport, naks, waiting_bytes, bytes, .. } => {
            told.taken.push(bytes);
            told.peers.push((transport.to_string(), naks, waiting_bytes));
        }
        Statistic::Incoming { transport, streams, lost, bytes, repair, .. } => {
            told.received.push(bytes);
            told.incoming.push((transport.to_string(), streams, lost, repair));
        }
        Statistic::Stream { stream, topic, transport, delivered, lost, losses, .. } => {
            told.delivered.push(delivered);
            told.streams.push((stream, topic.to_owned(), transport.to_string(), lost, losses));
        }
        _ => {}
    });
    assert_eq!(rest, None);
    told
}

#[test]
fn who_asks_again_and_what_was_repaired_is_told_for_each_session() {
    for (test, transport) in [Transport::LbtRm, Transport::LbtRu].into_iter().enumerate() {
        let base = config(1 + test as u8);
        let config = MessagingConfig {
            transport,
            lbtrm: LbtrmConfig { receiver_socket_buffer_bytes: 65_536, ..base.lbtrm },
            ..base
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
        ipc: IpcConfig { transmission_window_size_bytes: 2_097_152, ..config.ipc },
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

#[test]
fn bytes_datagrams_retransmissions_and_messages_of_a_session_are_those_of_its_context_if_it_is_the_only_one()
{
    for (test, transport) in
        [Transport::LbtRm, Transport::LbtRu, Transport::Tcp, Transport::LbtIpc].into_iter().enumerate()
    {
        let base = config(20 + test as u8);
        let config = MessagingConfig {
            transport,
            lbtrm: LbtrmConfig { receiver_socket_buffer_bytes: 65_536, ..base.lbtrm },
            ..base
        };
        let (mut sender, mut receiver) = (party(&config), party(&config));
        let source = sender.source("px");
        receiver.receiver("px");
        meet(&mut sender, source, &mut receiver);
        let patience = Patience::new();
        let is_reliable = matches!(transport, Transport::LbtRm | Transport::LbtRu);
        // Until something was repaired, where that happens.
        while receiver.heard.payloads.len() < 2_000
            || is_reliable && ask(&mut sender).sent[0].1.is_none_or(|sent| sent.retransmissions == 0)
        {
            assert!(patience.lasts(), "nothing was dropped");
            for _ in 0..200 {
                let _ = sender.context.send(source, &[&[7; 1_000]]);
                sender.context.flush();
            }
            sender.turn();
            receiver.turn();
        }
        let settled = |all: &mut [&mut Party]| {
            let (at_source, at_receiver) = (ask(all[0]), ask(all[1]));
            // What announces the last number may be under way.
            let is_there = transport != Transport::Tcp || at_source.taken == [Some(at_receiver.received[0])];
            all[1].heard.next().0 == at_source.sources[0].3 && is_there
        };
        until(&mut [&mut sender, &mut receiver], settled);
        let (at_source, at_receiver) = (ask(&mut sender), ask(&mut receiver));
        let (bytes, sent) = at_source.sent[0];
        let counters = (&sender.counters, &receiver.counters);
        let reliable = match transport {
            Transport::LbtRm => Some((&counters.0.source.session, &counters.1.receiver.session)),
            Transport::LbtRu => Some((&counters.0.ru_source.session, &counters.1.ru_receiver.session)),
            _ => None,
        };
        match (reliable, sent) {
            (Some((source, receiver)), Some(sent)) => {
                assert_eq!((bytes, sent.datagrams), (source.bytes_sent.get(), source.msgs_sent.get()));
                let again = (sent.retransmissions, sent.retransmitted_bytes);
                assert_eq!(again, (source.rxs_sent.get(), source.rx_bytes_sent.get()));
                assert_eq!(at_receiver.received, [receiver.bytes_rcved.get()]);
            }
            (None, None) if transport == Transport::Tcp => {
                assert_eq!(at_receiver.received, [counters.1.tcp_receiver.bytes_rcved.get()]);
                assert_eq!(at_source.taken, [Some(at_receiver.received[0])]);
                assert!(bytes >= at_receiver.received[0], "what was sent before it came");
            }
            // The bytes of a ring, with what it takes besides.
            (None, None) => {
                let heard = receiver.heard.payloads.iter().map(|payload| payload.len() as u64).sum();
                assert!(bytes >= at_receiver.received[0] && at_receiver.received[0] > heard);
            }
            other => panic!("{transport:?}: {other:?}"),
        }
        let heard = receiver.heard.payloads.len() as u64;
        assert_eq!(at_receiver.delivered, [heard], "{transport:?}: lost {}", receiver.heard.lost);
    }
}

fn all_rows(party: &mut Party, page: usize) -> Vec<String> {
    let (mut rows, mut at) = (Vec::new(), StatisticsPosition::default());
    loop {
        let mut told = 0;
        let rest = party.context.statistics_from(at, page, |one| {
            told += 1;
            let mut numbers = Vec::new();
            one.numbers(|name, value| numbers.push((name, if name == "silent_ns" { 0 } else { value })));
            rows.push(format!("{} {:?} {} {numbers:?}", one.kind(), one.topic(), one.transport()));
        });
        assert!(told <= page);
        let Some(rest) = rest else { return rows };
        at = StatisticsPosition::from_bits(rest.to_bits());
        assert_eq!(at, rest);
    }
}

#[test]
fn pages_of_any_length_tell_the_same_as_all_at_once() {
    let config = MessagingConfig { transport: Transport::Tcp, ..config(30) };
    let (mut sender, mut receiver, mut other) = (party(&config), party(&config), party(&config));
    let topics: Vec<String> = (0..9).map(|n| format!("px-{n}")).collect();
    let sources: Vec<_> = topics.iter().map(|topic| sender.source(topic)).collect();
    topics.iter().for_each(|topic| {
        receiver.receiver(topic);
        other.receiver(topic);
    });
    until(&mut [&mut sender, &mut receiver, &mut other], |all| {
        all[1].heard.sources.len() == 9 && all[2].heard.sources.len() == 9 && ask(all[0]).peers.len() == 2
    });
    // Vacant places are passed over.
    sources.iter().step_by(2).for_each(|source| sender.context.delete_source(*source));
    for party in [&mut sender, &mut receiver] {
        let whole = all_rows(party, usize::MAX);
        assert_eq!(whole.len(), party.context.statistics_count());
        for page in [1, 2, 3, 7, whole.len()] {
            assert_eq!(all_rows(party, page), whole, "pages of {page}");
        }
    }
    let mut told = 0;
    let nowhere = StatisticsPosition::from_bits(u64::MAX);
    assert_eq!(sender.context.statistics_from(nowhere, 1, |_| told += 1), None);
    assert_eq!(told, 0);
}

#[test]
fn more_than_the_bound_is_told_on_request() {
    let mut party: Party = party(&config(31));
    for n in 0..STATISTICS_MAX + 5 {
        party.source(&format!("topic-{n}"));
    }
    let (mut first, mut more, mut kinds) = (0, 0, Vec::new());
    let rest = party.context.statistics(|one| {
        first += 1;
        kinds.push(one.kind());
    });
    assert_eq!((first, kinds[0], kinds[1]), (STATISTICS_MAX, "session", "source"));
    let end = party.context.statistics_from(rest.expect("there is more"), usize::MAX, |_| more += 1);
    assert_eq!((more, end), (6, None));
}
