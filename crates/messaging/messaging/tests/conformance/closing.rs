//! What was sent arrives, or is told lost, though the context is closed at once.

use std::thread::JoinHandle;
use std::time::Duration;

use tickcast_messaging::{
    Context, ContextCounters, EmbeddedContext, End, EndReason, Left, MessagingConfig, QueueError, SendError,
    SendFlags, SourceOptions, Transport,
};

use crate::common::Patience;
use crate::party::{Event, Party, World, meet, until};
use testkit::watchdog::joined;

/// Messages that are sent before the end.
const COUNT: u32 = 5_000;

/// Default settings, but that a session whose end is not heard is over soon.
fn settings(config: &mut MessagingConfig) {
    let standard = MessagingConfig::default();
    config.ipc.behavior = standard.ipc.behavior;
    config.lbtrm.activity_timeout_us = 5_000_000;
    config.lbtru.activity_timeout_us = 5_000_000;
}

/// A rate at which most of the messages wait when the context is closed.
fn slow(config: &mut MessagingConfig) {
    settings(config);
    config.lbtrm.data_rate_limit_bits_per_second = 2_000_000;
    config.lbtrm.retransmit_rate_limit_bits_per_second = 1_000_000;
    config.lbtru.data_rate_limit_bits_per_second = 2_000_000;
    config.lbtru.retransmit_rate_limit_bits_per_second = 1_000_000;
}

/// Drives a receiver on a thread of its own until its stream has ended.
fn hear_to_the_end(mut party: Party) -> JoinHandle<Party> {
    std::thread::spawn(move || {
        until([&mut party], |[party]| party.heard.count(|event| matches!(event, Event::End(..))) > 0);
        party
    })
}

/// The same, of a receiver that takes nothing for a second: it is busy, or was stopped.
fn hear_later(party: Party) -> JoinHandle<Party> {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        joined(hear_to_the_end(party))
    })
}

/// Checks that numbers from 0 on were heard or told lost, each once and in order, and returns how many of them
/// were delivered, how many lost, and the end.
fn account(party: &Party) -> (u32, u32, End) {
    let (mut delivered, mut lost, mut next) = (0, 0, None);
    for event in &party.heard.events {
        let (first, count) = match event {
            Event::Message(_, _, sqn, bytes) => {
                let number = u32::from_be_bytes(*bytes.first_chunk().expect("a number"));
                assert_eq!(number, delivered + lost, "in order");
                delivered += 1;
                (sqn.0, 1)
            }
            Event::Loss(_, _, loss) => {
                lost += loss.count;
                (loss.first.0, loss.count)
            }
            Event::End(_, _, end) => return (delivered, lost, *end),
            _ => continue,
        };
        assert!(next.is_none_or(|next| next == first), "{first} follows {next:?}");
        next = Some(first + count);
    }
    panic!("no end was told");
}

fn pair(world: &World, change: fn(&mut MessagingConfig)) -> (Party, tickcast_messaging::Source, Party) {
    let (mut a, mut b) = (world.party_with(change), world.party_with(change));
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, [&mut b]);
    (a, source, b)
}

/// Sends all messages, or as many as are taken while nobody drives the context.
fn pour(context: &mut Context, source: tickcast_messaging::Source, waits: bool) -> u32 {
    let mut sent = 0_u32;
    while sent < COUNT {
        match context.send(source, &[&sent.to_be_bytes(), &[7; 60]]) {
            Ok(_) => sent += 1,
            Err(SendError::WouldBlock) if waits => {
                context.poll(&mut ()).expect("the poller works");
            }
            Err(SendError::WouldBlock) => return sent,
            Err(other) => panic!("{other}"),
        }
    }
    sent
}

pub(crate) fn dropped(world: &World) {
    let (mut a, source, b) = pair(world, settings);
    let heard = hear_to_the_end(b);
    let sent = pour(&mut a.context, source, true);
    drop(a);
    let (delivered, lost, end) = account(&joined(heard));
    assert_eq!((delivered + lost, end.reason), (sent, EndReason::Ended), "{lost} are lost");
}

pub(crate) fn busy(world: &World) {
    let narrow = |config: &mut MessagingConfig| {
        settings(config);
        // What is sent is more than the socket of a receiver holds that does not read it.
        config.lbtrm.receiver_socket_buffer_bytes = 65_536;
    };
    let (mut a, source, b) = pair(world, narrow);
    let heard = hear_later(b);
    let sent = pour(&mut a.context, source, true);
    let left = a.context.close(Duration::from_secs(60));
    let (delivered, lost, end) = account(&joined(heard));
    if world.transport == Transport::LbtRm {
        // Multicast does not know its receivers: what one has not asked for in time is lost, and told.
        let is_told =
            if end.reason == EndReason::Ended { delivered + lost == sent } else { end.tail_unknown };
        assert!(is_told, "{delivered} + {lost} of {sent}, {end:?}");
        return;
    }
    assert_eq!((delivered, lost, end.reason, end.tail_unknown), (sent, 0, EndReason::Ended, false));
    assert!(left.is_empty(), "{left}");
}

pub(crate) fn backlog(world: &World) {
    let (mut a, source, b) = pair(world, slow);
    let heard = hear_to_the_end(b);
    // As many as it takes at once; most of them wait for the rate limit.
    let sent = pour(&mut a.context, source, false);
    assert!(sent > 1_000, "{sent}");
    let left = a.context.close(Duration::from_secs(60));
    assert_eq!(left, Left::default());
    assert_eq!(a.context.send(source, &[b"late"]), Err(SendError::Ended));
    let (delivered, lost, end) = account(&joined(heard));
    assert_eq!((delivered + lost, end.reason), (sent, EndReason::Ended));
}

pub(crate) fn without_linger(world: &World) {
    give_up(world, false);
}

pub(crate) fn deleted_without_linger(world: &World) {
    give_up(world, true);
}

/// Closes a context without linger, after its source was deleted or not.
fn give_up(world: &World, is_deleted: bool) {
    let (mut a, source, b) = pair(world, slow);
    let heard = hear_to_the_end(b);
    let sent = pour(&mut a.context, source, false);
    if is_deleted {
        a.context.delete_source(source);
    }
    let left = a.context.close(Duration::ZERO);
    let is_limited = matches!(world.transport, Transport::LbtRm | Transport::LbtRu);
    assert_eq!(left.messages() > 0, is_limited, "{left}");
    drop(a);
    let (delivered, lost, end) = account(&joined(heard));
    // The rest of a stream that breaks is not known; datagrams that say the end may be lost.
    assert!(delivered + lost == sent || end.tail_unknown, "{delivered} + {lost} of {sent}, {end:?}");
    if end.reason == EndReason::Ended {
        assert_eq!((delivered + lost, end.tail_unknown), (sent, false), "{end:?}");
        assert!(u64::from(lost) >= left.messages(), "{lost} lost, {left}");
    }
}

pub(crate) fn deleted(world: &World) {
    let (mut a, source, b) = pair(world, slow);
    let heard = hear_to_the_end(b);
    let sent = pour(&mut a.context, source, false);
    a.context.delete_source(source);
    drop(a);
    let (delivered, lost, end) = account(&joined(heard));
    assert_eq!((delivered + lost, end.reason), (sent, EndReason::Ended));
}

pub(crate) fn drained(world: &World) {
    let (mut a, source, b) = pair(world, slow);
    let heard = hear_to_the_end(b);
    let sent = pour(&mut a.context, source, false);
    let is_limited = matches!(world.transport, Transport::LbtRm | Transport::LbtRu);
    let left = a.context.drain(Duration::ZERO, &mut ()).expect("the poller works");
    assert!(!is_limited || left.messages() > 0, "{left}");
    let left = a.context.drain(Duration::from_secs(60), &mut ()).expect("the poller works");
    assert!(left.is_empty(), "{left}");
    a.context.send(source, &[&sent.to_be_bytes()]).expect("it goes on");
    drop(a);
    let (delivered, lost, _) = account(&joined(heard));
    assert_eq!(delivered + lost, sent + 1);
}

/// Sends through the ring of a context with a thread of its own, and stops that at once.
pub(crate) fn stopped(world: &World) {
    let mut config = world.config();
    settings(&mut config);
    let mut b = Party::new(&config);
    b.receiver("px");
    let sending = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let mut source = sending.create_source("px", &SourceOptions::default()).expect("a port is free");
    let patience = Patience::new();
    while b.heard.messages().next().is_none() {
        assert!(patience.lasts(), "they do not meet");
        source.send(&[b"hello"]).expect("there is room");
        source.flush();
        b.turn();
        std::thread::sleep(Duration::from_millis(1));
    }
    source.send(&[b"begin"]).expect("there is room");
    source.flush();
    until([&mut b], |[b]| b.heard.messages().any(|(.., bytes)| bytes == b"begin"));
    b.heard = Default::default();
    let heard = hear_to_the_end(b);
    for i in 0..COUNT {
        while let Err(error) = source.send(&[&i.to_be_bytes(), &[7; 60]]) {
            assert_eq!(error, QueueError::WouldBlock);
            std::thread::yield_now();
        }
    }
    source.flush();
    let left = sending.stop().expect("nothing failed");
    assert!(left.is_empty(), "{left}");
    assert_eq!((source.send(&[b"late"]), source.queued_bytes()), (Err(QueueError::Stopped), 0));
    let (delivered, lost, end) = account(&joined(heard));
    assert_eq!((delivered + lost, end.reason), (COUNT, EndReason::Ended));
}

pub(crate) fn waiting(world: &World) {
    // Receiver-paced rings and a small backlog fill; the others wait for the rate limit.
    let narrow = |config: &mut MessagingConfig| {
        slow(config);
        config.ipc.behavior = tickcast_messaging::IpcBehavior::ReceiverPaced;
        config.ipc.transmission_window_size_bytes = 2 << 20;
        config.tcp.session_maximum_buffer_bytes = 65_536;
        config.lbtrm.data_rate_limit_bits_per_second = 40_000_000;
        config.lbtru.data_rate_limit_bits_per_second = 40_000_000;
    };
    let (mut a, source, mut b) = pair(world, narrow);
    let message = |number: u32| [&number.to_be_bytes()[..], &[7; 1_296]].concat();
    let mut sent = 0;
    // Nobody receives.
    let mut send = |a: &mut Party, timeout| {
        let flags = SendFlags::default();
        let result = a.context.send_wait(source, flags, &[&message(sent)], timeout, &mut a.heard);
        let result = result.expect("the poller works");
        sent += u32::from(result.is_ok());
        result
    };
    let mut is_full = false;
    for _ in 0..30_000 {
        is_full |= !is_full && send(&mut a, Duration::ZERO).is_err();
    }
    assert!(is_full, "there is always room");
    b.heard = Default::default();
    let heard = hear_to_the_end(b);
    for _ in 0..20 {
        assert!(send(&mut a, Duration::from_secs(60)).is_ok());
    }
    drop(a);
    let (delivered, lost, end) = account(&joined(heard));
    assert_eq!((delivered + lost, end.reason), (sent, EndReason::Ended));
}
