//! Messages that come from what a source retains: late join, and recovery off the transport.

use std::time::{Duration, Instant};

use tickcast_messaging::{EndReason, IpcBehavior, MessagingConfig, ReceiverBehavior, SendError, Source, Via};

use crate::party::{Event, Party, World, meet, until};

fn retains(config: &mut MessagingConfig) {
    config.recovery.late_join = true;
    config.recovery.retransmit_request_interval_us = 100_000;
}

/// Some fit a datagram with others, some need several datagrams.
fn message(i: u32) -> Vec<u8> {
    let mut bytes = i.to_be_bytes().to_vec();
    bytes.resize([4, 60, 1_400, 5_000, 40_000][i as usize % 5], i as u8);
    bytes
}

/// Sends the messages from `first` to before `end`.
fn send(from: &mut Party, source: Source, first: u32, end: u32) {
    let mut next = first;
    until([from], |[from]| {
        while next < end {
            match from.send(source, &message(next)) {
                Ok(_) => next += 1,
                Err(SendError::WouldBlock) => return false,
                Err(other) => panic!("{other}"),
            }
        }
        true
    });
    from.context.flush();
}

/// What was heard are the messages from `first` to before `end`, each once and in order.
fn assert_is(heard: &Party, first: u32, end: u32) {
    let payloads = heard.heard.payloads();
    assert_eq!(payloads.len(), (end - first) as usize);
    for (i, payload) in (first..end).zip(payloads) {
        assert!(payload == message(i), "message {i}");
    }
    assert_eq!(heard.heard.losses(), 0);
}

pub(crate) fn everything(world: &World) {
    let (mut a, mut b) = (world.party_with(retains), world.party());
    let source = a.source("px");
    send(&mut a, source, 0, 500);
    b.receiver("px");
    let mut sent = 500;
    until([&mut a, &mut b], |[a, b]| {
        if sent < 800 {
            send(a, source, sent, sent + 10);
            sent += 10;
        }
        b.heard.messages().count() == 800
    });
    assert_is(&b, 0, 800);
    let late = b.heard.ways.iter().filter(|way| **way == Via::LateJoin).count();
    assert_eq!(b.heard.ways.first(), Some(&Via::LateJoin));
    assert_eq!(b.counters.recovery.late_join_msgs.get(), late as u64);
    send(&mut a, source, 800, 801);
    until([&mut a, &mut b], |[_, b]| b.heard.messages().count() == 801);
    assert_eq!(b.heard.ways.last(), Some(&Via::Transport), "the live stream goes on");
}

pub(crate) fn bound(world: &World) {
    let limited = |config: &mut MessagingConfig| {
        retains(config);
        config.recovery.retransmit_retention_message_maximum = 100;
    };
    let (mut a, mut b) = (world.party_with(limited), world.party());
    let source = a.source("px");
    // Each is one LBMC message.
    for _ in 0..50 {
        for i in 0..10_u32 {
            a.send(source, &i.to_be_bytes()).expect("there is room");
        }
        a.turn();
    }
    assert_eq!(a.counters.retention.retained_msgs.get(), 100);
    assert_eq!(a.counters.retention.dropped_count.get(), 400);
    b.receiver("px");
    until([&mut a, &mut b], |[_, b]| b.heard.messages().count() == 100);
    let numbers: Vec<u32> = b.heard.messages().map(|(_, _, sqn, _)| sqn.0).collect();
    assert_eq!(numbers, (400..500).collect::<Vec<_>>());
    assert_eq!(b.heard.losses(), 0, "what came before is not lost, it was not joined");
}

pub(crate) fn unwanted(world: &World) {
    let mut b = world.party_with(|config| {
        config.recovery.use_late_join = false;
        config.recovery.use_otr = false;
    });
    let mut a = world.party_with(retains);
    let source = a.source("px");
    send(&mut a, source, 0, 100);
    b.receiver("px");
    until([&mut a], |[a]| a.send(source, b"there is room again").is_ok());
    meet(&mut a, source, [&mut b]);
    assert_eq!(a.counters.retention.info_requests_rcved.get(), 0);
    assert!(a.counters.retention.msgs_retained.get() >= 100);
    let first = a.context.send(source, &[b"live"]).expect("there is room");
    until([&mut a, &mut b], |[_, b]| b.heard.messages().count() == 1);
    assert_eq!(b.heard.messages().next().map(|(_, _, sqn, _)| sqn), Some(first));
}

pub(crate) fn beyond_the_transport(world: &World) {
    let retains = |config: &mut MessagingConfig| {
        retains(config);
        config.lbtrm.retransmit_rate_limit_bits_per_second = 0;
        config.lbtru.retransmit_rate_limit_bits_per_second = 0;
    };
    let narrow = |config: &mut MessagingConfig| {
        config.lbtrm.receiver_socket_buffer_bytes = 65_536;
        config.lbtrm.nak_generation_interval_us = 100_000;
        config.lbtrm.send_naks = false;
    };
    let (mut a, mut b) = (world.party_with(retains), world.party_with(narrow));
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, [&mut b]);
    // The receiver does not look meanwhile, and its socket has not the room.
    send(&mut a, source, 0, 300);
    let begun = Instant::now();
    until([&mut a], |_| begun.elapsed() > Duration::from_millis(200));
    let mut sent = 300;
    until([&mut a, &mut b], |[a, b]| {
        if sent < 320 {
            send(a, source, sent, sent + 1);
            sent += 1;
        }
        b.heard.messages().count() == 320
    });
    assert_is(&b, 0, 320);
    let recovered = b.heard.ways.iter().filter(|way| **way == Via::OffTransport).count();
    assert!(recovered > 0, "more was sent than the socket holds");
    assert_eq!(b.counters.recovery.otr_msgs.get(), recovered as u64);
}

pub(crate) fn passed_over(world: &World) {
    let retains = |config: &mut MessagingConfig| {
        retains(config);
        config.tcp.multiple_receiver_behavior = ReceiverBehavior::SourcePaced;
        config.tcp.session_maximum_buffer_bytes = 65_536;
        config.ipc.behavior = IpcBehavior::SourcePaced;
        config.ipc.transmission_window_size_bytes = 2_097_152;
    };
    let (mut a, mut b) = (world.party_with(retains), world.party());
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, [&mut b]);
    // The receiver does not look meanwhile; neither the ring nor the kernel's buffers have the room.
    let message = |i: u32| i.to_be_bytes().repeat(8_000);
    let mut sent = 0;
    until([&mut a], |[a]| {
        while sent < 600 && a.send(source, &message(sent)).is_ok() {
            sent += 1;
        }
        sent == 600
    });
    until([&mut a, &mut b], |[a, b]| {
        if sent < 620 && a.send(source, &message(sent)).is_ok() {
            sent += 1;
        }
        b.heard.messages().count() == 620
    });
    for (i, payload) in (0..).zip(b.heard.payloads()) {
        assert!(payload == message(i), "message {i}");
    }
    assert_eq!(b.heard.losses(), 0);
    let recovered = b.heard.ways.iter().filter(|way| **way == Via::OffTransport).count();
    assert!(recovered > 0, "it was passed over");
    assert_eq!(b.heard.ways.last(), Some(&Via::Transport), "the live stream goes on");
}

pub(crate) fn source_dies(world: &World) {
    let slow = |config: &mut MessagingConfig| {
        retains(config);
        config.recovery.retransmit_retention_rate_limit_bits_per_second = 2_000_000;
    };
    let hasty = |config: &mut MessagingConfig| {
        config.lbtrm.activity_timeout_us = 3_000_000;
        config.lbtru.activity_timeout_us = 3_000_000;
        config.recovery.retransmit_request_interval_us = 50_000;
        config.recovery.retransmit_request_generation_interval_us = 1_000_000;
    };
    let (mut a, mut b) = (world.party_with(slow), world.party_with(hasty));
    let source = a.source("px");
    // Each is one LBMC message.
    let mut sent = 0;
    until([&mut a], |[a]| {
        sent += usize::from(a.send(source, &[7; 1_000]).is_ok());
        sent == 500
    });
    b.receiver("px");
    until([&mut a, &mut b], |[a, b]| {
        a.send(source, &[7; 1_000]).expect("there is room");
        b.heard.messages().count() > 10
    });
    a.context.abandon();
    // On a machine that stood still for seconds a session may have ended before, and been found again.
    let ends = |b: &Party| b.heard.count(|event| matches!(event, Event::End(..)));
    let before = ends(&b);
    until([&mut b], |[b]| ends(b) > before);
    assert!(matches!(b.heard.events.last(), Some(Event::End(..))), "the end is told last");
    let mut expected = None;
    for event in &b.heard.events {
        let (first, next) = match event {
            Event::Begin(_, _, first) => {
                expected = Some(first.0);
                continue;
            }
            Event::Message(_, _, sqn, _) => (sqn.0, sqn.0 + 1),
            Event::Loss(_, _, loss) => (loss.first.0, loss.first.0 + loss.count),
            _ => continue,
        };
        assert_eq!(Some(first), expected, "each number is delivered or told lost, once and in order");
        expected = Some(next);
    }
    assert!(b.heard.losses() > 0, "the source died before it had answered everything");
}

pub(crate) fn idle(world: &World) {
    let (mut a, mut b) = (
        world.party_with(retains),
        world.party_with(|config| config.response_tcp_deletion_timeout_us = 50_000),
    );
    let source = a.source("px");
    send(&mut a, source, 0, 50);
    b.receiver("px");
    until([&mut a, &mut b], |[_, b]| b.heard.messages().count() == 50);
    until([&mut a, &mut b], |[a, _]| a.counters.retention.clients.get() == 0);
    assert!(a.counters.retention.info_requests_rcved.get() > 0, "there was a connection");
    assert_is(&b, 0, 50);
}

/// The transport itself has brought nothing of the topic when the session ends.
pub(crate) fn ends_silent(world: &World) {
    let (mut a, mut b) = (world.party_with(retains), world.party());
    let source = a.source("px");
    send(&mut a, source, 0, 50);
    b.receiver("px");
    until([&mut a, &mut b], |[_, b]| b.heard.messages().count() == 50);
    a.context.end();
    let ended = |event: &Event| matches!(event, Event::End(_, _, end) if end.reason == EndReason::Ended);
    until([&mut a, &mut b], |[_, b]| b.heard.events.iter().any(ended));
    assert_is(&b, 0, 50);
    let last = b.heard.events.iter().rev().find_map(|event| match event {
        Event::Message(_, _, sqn, _) => Some(sqn.next()),
        _ => None,
    });
    let Some(Event::End(_, _, end)) = b.heard.events.last() else { panic!("{:?}", b.heard.events.last()) };
    assert_eq!((end.next, end.tail_unknown), (last, false), "{end:?}");
}
