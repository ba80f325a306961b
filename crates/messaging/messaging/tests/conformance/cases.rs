//! Messages, streams and their ends.

use tickcast_messaging::{
    BatchEdge, EndReason, Order, ReceiverOptions, SendError, SendFlags, Source, SourceEvent, Transport,
};

use crate::party::{Event, Party, World, meet, until};

/// Sends what there is room for.
fn pour(from: &mut Party, source: Source, sent: &mut u32, end: u32, message: impl Fn(u32) -> Vec<u8>) {
    while *sent < end {
        match from.send(source, &message(*sent)) {
            Ok(_) => *sent += 1,
            Err(SendError::WouldBlock) => return,
            Err(other) => panic!("{other}"),
        }
    }
}

pub(crate) fn sizes(world: &World) {
    let (mut a, mut b) = (world.party(), world.party());
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, [&mut b]);
    let message = |i: u32| {
        let len = [0, 1, 3, 60, 64, 1_400, 1_441, 5_000, 65_500, 65_536, 200_000][i as usize % 11];
        vec![i as u8; len]
    };
    let mut sent = 0;
    until([&mut a, &mut b], |[a, b]| {
        pour(a, source, &mut sent, 550, message);
        b.heard.messages().count() == 550
    });
    for (i, payload) in b.heard.payloads().into_iter().enumerate() {
        assert!(payload == message(i as u32), "message {i}");
    }
    let numbers: Vec<u32> = b.heard.messages().map(|(_, _, sqn, _)| sqn.0).collect();
    assert!(numbers.is_sorted_by(|x, y| x < y));
    assert_eq!(b.heard.events.len(), 550, "nothing but messages");
}

pub(crate) fn huge(world: &World) {
    let large = |config: &mut tickcast_messaging::MessagingConfig| {
        config.maximum_message_size_bytes = Some(64 << 20);
        config.lbtrm.transmission_window_size_bytes = 256 << 20;
        config.lbtrm.datagram_max_size_bytes = 65_507;
        config.lbtru.datagram_max_size_bytes = 65_507;
        config.lbtru.transmission_window_size_bytes = 256 << 20;
        config.lbtru.data_rate_limit_bits_per_second = 4_000_000_000;
        config.lbtru.retransmit_rate_limit_bits_per_second = 2_000_000_000;
        config.ipc.transmission_window_size_bytes = 256 << 20;
        config.lbtrm.data_rate_limit_bits_per_second = 4_000_000_000;
        config.lbtrm.retransmit_rate_limit_bits_per_second = 2_000_000_000;
    };
    let (mut a, mut b) = (world.party_with(large), world.party_with(large));
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, [&mut b]);
    let mut message = vec![0; 64 << 20];
    message.chunks_mut(4).enumerate().for_each(|(i, four)| four.copy_from_slice(&(i as u32).to_be_bytes()));
    until([&mut a], |[a]| a.send(source, &message).is_ok());
    a.context.flush();
    until([&mut a, &mut b], |[_, b]| !b.heard.events.is_empty());
    assert!(b.heard.payloads() == [&message[..]]);
}

pub(crate) fn too_long(world: &World) {
    let mut a = world.party_with(|c| c.maximum_message_size_bytes = Some(100_000));
    let source = a.source("px");
    let refused = a.send(source, &[0; 100_001]);
    assert_eq!(refused, Err(SendError::TooLong { bytes: 100_001, max: 100_000 }));
    assert!(a.send(source, &[0; 100_000]).is_ok());
}

pub(crate) fn late(world: &World) {
    let (mut a, mut b, mut late) = (world.party(), world.party(), world.party());
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, [&mut b]);
    let receiver = late.receiver("px");
    until([&mut a, &mut late], |[_, late]| late.heard.topics() == ["px"]);
    // Connections, where there are some, are made after that.
    meet(&mut a, source, [&mut late]);
    let next = a.send(source, b"next").expect("there is room");
    until([&mut a, &mut b, &mut late], |[_, b, late]| {
        b.heard.payloads().last() == Some(&&b"next"[..]) && late.heard.payloads() == [b"next"]
    });
    let stream = late.heard.messages().next().expect("it was heard").1;
    assert_eq!(late.heard.events, [Event::Message(receiver, stream, next, b"next".to_vec())]);
    assert_eq!(b.heard.losses(), 0);
}

pub(crate) fn two_sources(world: &World) {
    let (mut a, mut b, mut c) = (world.party(), world.party(), world.party());
    let sources = [a.source("px"), b.source("px")];
    c.receiver("px");
    meet(&mut a, sources[0], [&mut c]);
    meet(&mut b, sources[1], [&mut c]);
    for i in 0..100u8 {
        a.send(sources[0], &[0, i]).expect("there is room");
        b.send(sources[1], &[1, i]).expect("there is room");
    }
    until([&mut a, &mut b, &mut c], |[_, _, c]| c.heard.messages().count() >= 200);
    for which in 0..2 {
        let of = c.heard.messages().filter(|(.., bytes)| bytes[0] == which);
        let (streams, numbers): (Vec<_>, Vec<_>) = of.map(|(_, stream, _, bytes)| (stream, bytes[1])).unzip();
        assert!(numbers.into_iter().eq(0..100));
        assert!(streams.windows(2).all(|pair| pair[0] == pair[1]), "one stream");
    }
    assert_eq!(c.heard.losses(), 0);
}

pub(crate) fn several_contexts(world: &World) {
    let (mut a, mut b, mut c) = (world.party(), world.party(), world.party());
    let source = a.source("px");
    b.receiver("px");
    c.receiver("px");
    meet(&mut a, source, [&mut b, &mut c]);
    let mut sent = 0;
    until([&mut a, &mut b, &mut c], |[a, b, c]| {
        pour(a, source, &mut sent, 3_000, |i| i.to_be_bytes().to_vec());
        [b, c].iter().all(|p| p.heard.messages().count() == 3_000)
    });
    for party in [&b, &c] {
        assert!(party.heard.payloads().into_iter().eq((0..3_000u32).map(u32::to_be_bytes)));
    }
}

pub(crate) fn several_receivers(world: &World) {
    let (mut a, mut b) = (world.party(), world.party());
    let source = a.source("px.eq");
    let first = b.receiver("px.eq");
    meet(&mut a, source, [&mut b]);
    let second = b.receiver("px.eq");
    let prefix = b.context.create_prefix_receiver("px.", &ReceiverOptions::default()).expect("a legal name");
    until([&mut a, &mut b], |[_, b]| b.heard.topics().len() == 2);
    let sqn = a.send(source, b"to all").expect("there is room");
    until([&mut a, &mut b], |[_, b]| b.heard.messages().count() == 3);
    let stream = b.heard.messages().next().expect("there are three").1;
    let message = |receiver| Event::Message(receiver, stream, sqn, b"to all".to_vec());
    for receiver in [second, prefix] {
        let own: Vec<&Event> = b.heard.events.iter().filter(|e| **e == message(receiver)).collect();
        assert_eq!(own.len(), 1);
        assert!(b.heard.events.contains(&Event::Source(receiver, stream, "px.eq".to_owned())));
        assert!(b.heard.events.contains(&Event::Begin(receiver, stream, sqn)));
    }
    assert!(b.heard.events.contains(&message(first)));
    assert_eq!(b.heard.count(|e| matches!(e, Event::Begin(..))), 2, "the first was told before");
}

pub(crate) fn ends(world: &World) {
    let (mut a, mut b) = (world.party(), world.party());
    let source = a.source("px");
    let receiver = b.receiver("px");
    meet(&mut a, source, [&mut b]);
    let last = a.send(source, b"last").expect("there is room");
    a.context.end();
    assert_eq!(a.send(source, b"more"), Err(SendError::Ended));
    until([&mut a, &mut b], |[_, b]| b.heard.count(|e| matches!(e, Event::End(..))) == 1);
    drop(a);
    assert_eq!(b.heard.payloads(), [b"last"]);
    let Some(Event::End(whose, _, end)) = b.heard.events.last() else { panic!("{:?}", b.heard.events) };
    assert_eq!(
        (*whose, end.reason, end.next, end.tail_unknown),
        (receiver, EndReason::Ended, Some(last.next()), false)
    );
    let mut again = world.party();
    let source = again.source("px");
    meet(&mut again, source, [&mut b]);
}

pub(crate) fn dies(world: &World) {
    let hasty = |config: &mut tickcast_messaging::MessagingConfig| {
        config.lbtrm.activity_timeout_us = 3_000_000;
        config.lbtru.activity_timeout_us = 3_000_000;
    };
    let (mut a, mut b) = (world.party(), world.party_with(hasty));
    // One stream of which something is heard and one of which nothing is, on one session.
    let (source, _silent) = (a.source("px"), a.source("silent"));
    b.receiver("px");
    meet(&mut a, source, [&mut b]);
    b.receiver("silent");
    until([&mut a, &mut b], |[_, b]| b.heard.topics() == ["silent"]);
    a.context.abandon();
    until([&mut b], |[b]| b.heard.count(|e| matches!(e, Event::End(..))) == 2);
    for event in &b.heard.events {
        let Event::End(.., end) = event else { continue };
        // A ring that a living process drops says the end of its session.
        let is_told = world.transport == Transport::LbtIpc && end.reason == EndReason::Ended;
        assert!(is_told || end.reason != EndReason::Ended && end.tail_unknown, "{end:?}");
    }
}

pub(crate) fn blocks(world: &World) {
    let limited = |config: &mut tickcast_messaging::MessagingConfig| {
        config.lbtrm.data_rate_limit_bits_per_second = 400_000_000;
        config.lbtru.data_rate_limit_bits_per_second = 400_000_000;
    };
    let (mut a, mut b) = (world.party_with(limited), world.party());
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, [&mut b]);
    let message = |i: u32| [&i.to_be_bytes()[..], &[7; 1_000]].concat();
    let mut sent = 0;
    // Nobody reads until there is no more room.
    while a.send(source, &message(sent)).is_ok() {
        sent += 1;
        assert!(sent < 1_000_000, "it never blocks");
    }
    assert!(a.counters.context.sends_blocked.get() > 0);
    until([&mut a, &mut b], |[a, _]| a.heard.events.contains(&Event::Told(source, SourceEvent::WakeUp)));
    let end = sent + 100;
    until([&mut a, &mut b], |[a, b]| {
        pour(a, source, &mut sent, end, message);
        b.heard.messages().count() as u32 == end
    });
    assert!(b.heard.payloads().into_iter().enumerate().all(|(i, bytes)| bytes == message(i as u32)));
    assert_eq!(b.heard.losses(), 0);
}

pub(crate) fn claims(world: &World) {
    let (mut a, mut b) = (world.party(), world.party());
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, [&mut b]);
    let max = a.context.claim_max(source);
    let _ = a.context.claim(source, max).expect("there is room").payload();
    assert_eq!(a.context.claim(source, max + 1).err(), Some(SendError::TooLong { bytes: max + 1, max }));
    for i in 0..50u8 {
        let mut claim = a.context.claim(source, usize::from(i)).expect("there is room");
        claim.payload().fill(i);
        if i.is_multiple_of(2) {
            claim.commit();
        }
    }
    until([&mut a, &mut b], |[_, b]| b.heard.messages().count() == 25);
    let expected: Vec<Vec<u8>> = (0..50u8).step_by(2).map(|i| vec![i; usize::from(i)]).collect();
    assert_eq!(b.heard.payloads(), expected);
    assert_eq!(b.heard.losses(), 0, "what was dropped has no number");
}

pub(crate) fn batches(world: &World) {
    let (mut a, mut b) = (world.party(), world.party());
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, [&mut b]);
    let flags = [SendFlags::BATCH_START, SendFlags::default(), SendFlags::BATCH_END, SendFlags::FLUSH];
    for (i, flags) in flags.into_iter().enumerate() {
        a.context.send_flagged(source, flags, &[&[i as u8]]).expect("there is room");
    }
    // What a flag flushes needs no other turn of the sender.
    until([&mut b], |[b]| b.heard.messages().count() == 4);
    assert_eq!(b.heard.payloads(), [[0], [1], [2], [3]]);
    assert_eq!(b.heard.batches, [(vec![0], BatchEdge::Start), (vec![2], BatchEdge::End)]);
}

/// Neither turns nor timers nor the minimum length end a batch; a datagram (a segment, in shared memory) that
/// is full goes out.
pub(crate) fn held(world: &World) {
    let mut a = world.party_with(|c| {
        c.implicit_batching_minimum_length_bytes = 1;
        c.implicit_batching_interval_us = 100;
        c.ipc.transmission_window_size_bytes = 2 << 20;
    });
    let mut b = world.party();
    let (source, other) = (a.source("px"), a.source("other"));
    b.receiver("px");
    meet(&mut a, source, [&mut b]);
    let send = |a: &mut Party, flags, payload: &[u8]| {
        a.context.send_flagged(source, flags, &[payload]).expect("there is room");
    };
    send(&mut a, SendFlags::BATCH_START, b"first");
    send(&mut a, SendFlags::default(), b"second");
    a.context.send(other, &[b"of another source of the session"]).expect("there is room");
    for _ in 0..30 {
        a.turn();
        b.turn();
    }
    assert_eq!(b.heard.messages().count(), 0);
    send(&mut a, SendFlags::BATCH_END, b"third");
    until([&mut b], |[b]| b.heard.messages().count() == 3);
    let explicit = SendFlags { flush: true, ..SendFlags::BATCH_START };
    send(&mut a, explicit, b"flushed");
    until([&mut b], |[b]| b.heard.messages().count() == 4);
    for _ in 0..400 {
        while a.send(source, &[7; 1_000]) == Err(SendError::WouldBlock) {
            a.turn();
            b.turn();
        }
    }
    until([&mut a, &mut b], |[_, b]| b.heard.messages().count() > 4);
    for _ in 0..30 {
        a.turn();
        b.turn();
    }
    assert!(b.heard.messages().count() < 404, "the last datagram is not full");
    a.context.delete_source(source);
    until([&mut a, &mut b], |[_, b]| b.heard.messages().count() == 404);
    assert_eq!(b.heard.losses(), 0);
}

pub(crate) fn arrival(world: &World) {
    let (mut a, mut b) = (world.party(), world.party());
    let source = a.source("px");
    let options = ReceiverOptions { order: Some(Order::Arrival), ..ReceiverOptions::default() };
    b.context.create_receiver("px", &options).expect("a legal name");
    meet(&mut a, source, [&mut b]);
    let mut sent = 0;
    until([&mut a, &mut b], |[a, b]| {
        pour(a, source, &mut sent, 500, |i| vec![i as u8; (i * 7) as usize]);
        b.heard.messages().count() == 500
    });
    let mut lens: Vec<usize> = b.heard.payloads().into_iter().map(<[u8]>::len).collect();
    lens.sort_unstable();
    assert!(lens.into_iter().eq((0..500).map(|i| i * 7)));
}

pub(crate) fn deleted_source(world: &World) {
    let (mut a, mut b) = (world.party(), world.party());
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, [&mut b]);
    a.send(source, b"last").expect("there is room");
    a.context.delete_source(source);
    assert_eq!(a.send(source, b"more"), Err(SendError::UnknownTopic));
    assert_eq!(a.context.claim(source, 1).err(), Some(SendError::UnknownTopic));
    until([&mut a, &mut b], |[_, b]| b.heard.payloads() == [b"last"]);
    let other = a.source("py");
    assert_ne!(source, other, "a handle is not used again");
    let expected = match world.transport {
        Transport::LbtRm => "LBTRM:127.0.0.1:",
        Transport::Tcp => "TCP:127.0.0.1:",
        Transport::LbtIpc => "LBT-IPC:",
        Transport::LbtRu => "LBT-RU:127.0.0.1:",
    };
    let transport = a.context.source_transport(other).expect("it exists").to_string();
    assert!(transport.starts_with(expected), "{transport}");
    assert!(a.context.source_transport(source).is_none());
}
