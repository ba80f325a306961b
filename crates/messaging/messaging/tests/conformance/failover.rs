//! Hot failover: several contexts send the same numbered messages, one hears the first copy of each.

use tickcast_messaging::{
    EndReason, FailoverLoss, IpcBehavior, MessagingConfig, ReceiverBehavior, ReceiverOptions, SendError,
    SendFlags, Source, StreamId,
};

use crate::party::{Event, Party, World, until};

/// A machine that has much else to do waits for nothing but what is lost.
fn patient(config: &mut MessagingConfig) {
    config.hot_failover_gap_interval_us = 100_000_000;
    config.hot_failover_hold_maximum_bytes = 256 << 20;
}

const FAILOVER: ReceiverOptions = ReceiverOptions { order: None, hot_failover: true };

/// Some fit a datagram with others, some need several datagrams.
fn message(number: u64) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize([8, 60, 1_400, 5_000][number as usize % 4], number as u8);
    bytes
}

/// Sends the next number; it goes out with the next turn, or when a datagram is full.
fn send(from: &mut Party, source: Source, number: u64) -> bool {
    match from.context.send_hot_failover(source, number, SendFlags::default(), &[&message(number)]) {
        Ok(_) => true,
        Err(SendError::WouldBlock) => false,
        Err(other) => panic!("{other}"),
    }
}

/// Sends numbers from `next` on with all sources, until the receiver has heard `fresh` streams begin; returns
/// the number that comes next. Forgets what was heard.
fn meet<const N: usize>(
    mut from: [(&mut Party, Source); N],
    to: &mut Party,
    fresh: usize,
    mut next: u64,
) -> u64 {
    to.heard = Default::default();
    let begun = |to: &Party| to.heard.count(|e| matches!(e, Event::Begin(..))) == fresh;
    let (mut parties, sources): (Vec<&mut Party>, Vec<Source>) =
        from.iter_mut().map(|(party, source)| (&mut **party, *source)).unzip();
    until([to], |[to]| {
        if begun(to) {
            parties.iter_mut().for_each(|party| party.turn());
            return to.heard.numbers.last() == Some(&(next - 1));
        }
        for (party, source) in parties.iter_mut().zip(&sources) {
            assert!(send(party, *source, next), "there is room");
            party.turn();
        }
        next += 1;
        false
    });
    let first = to.heard.numbers[0];
    assert!(to.heard.numbers.iter().copied().eq(first..next), "each once and in order");
    to.heard = Default::default();
    next
}

/// What was heard are the numbers from `first` to before `end`, each once, in order and whole.
fn assert_is(party: &Party, first: u64, end: u64) {
    assert!(party.heard.numbers.iter().copied().eq(first..end), "{:?}", party.heard.numbers);
    for (number, payload) in (first..end).zip(party.heard.payloads()) {
        assert!(payload == message(number), "message {number}");
    }
    let is_loss = |e: &Event| matches!(e, Event::Loss(..) | Event::FailoverLoss(..));
    assert_eq!(party.heard.count(is_loss), 0);
}

fn receiver(party: &mut Party, topic: &str) {
    party.context.create_receiver(topic, &FAILOVER).expect("a legal name");
}

pub(crate) fn first_copies(world: &World) {
    let (mut a, mut b, mut c) = (world.party(), world.party(), world.party_with(patient));
    let sources = [a.source("px"), b.source("px")];
    receiver(&mut c, "px");
    let begin = meet([(&mut a, sources[0]), (&mut b, sources[1])], &mut c, 2, 1 << 40);
    let (end, counters) = (begin + 600, c.counters.clone());
    let duplicates = counters.failover.duplicates.get();
    let mut next = [begin; 2];
    let mut turns = 0_u64;
    until([&mut a, &mut b, &mut c], |[a, b, c]| {
        // Now one is ahead, now the other.
        turns += 1;
        let ahead = (turns / 8 % 2) as usize;
        for (i, party) in [a, b].into_iter().enumerate() {
            let count = if i == ahead { 20 } else { 7 };
            (0..count).for_each(|_| {
                next[i] += u64::from(next[i] < end && send(party, sources[i], next[i]));
            });
        }
        c.heard.numbers.len() == 600 && c.counters.failover.duplicates.get() >= duplicates + 600
    });
    assert_is(&c, begin, end);
    assert_eq!((counters.failover.sources.get(), counters.failover.held_now.get()), (2, 0));
    let streams: Vec<StreamId> = c.heard.messages().map(|(_, stream, ..)| stream).collect();
    assert!(streams.iter().any(|s| *s != streams[0]), "the first copies came from both");
    // Others of the context hear what they always do.
    let plain = c.receiver("px");
    c.heard = Default::default();
    until([&mut a, &mut b, &mut c], |[a, b, c]| {
        (a.heard, b.heard) = (Default::default(), Default::default());
        let both = c.heard.messages().filter(|(receiver, ..)| *receiver == plain).count() == 20;
        for (i, party) in [a, b].into_iter().enumerate() {
            next[i] += u64::from(next[i] < end + 10 && send(party, sources[i], next[i]));
        }
        both && c.heard.messages().count() == 30
    });
}

pub(crate) fn killed(world: &World) {
    let (mut b, mut c) = (
        world.party(),
        world.party_with(|config| {
            patient(config);
            config.lbtrm.activity_timeout_us = 2_000_000;
            config.lbtru.activity_timeout_us = 2_000_000;
        }),
    );
    let steady = b.source("px");
    receiver(&mut c, "px");
    let mut next = meet([(&mut b, steady)], &mut c, 1, 0);
    for moment in [0, 7, 40, 121] {
        let mut a = world.party();
        let source = a.source("px");
        let begin = meet([(&mut a, source), (&mut b, steady)], &mut c, 1, next);
        // The victim is ahead, and is gone with what it has not sent yet: it neither flushes nor says so.
        let (mut ahead, mut behind, end) = (begin, begin, begin + 200);
        until([&mut a, &mut c], |[a, c]| {
            (0..9).for_each(|_| ahead += u64::from(ahead < begin + moment && send(a, source, ahead)));
            c.heard.numbers.len() as u64 + 9 >= moment
        });
        (0..3).for_each(|i| assert!(send(&mut a, source, ahead + i)));
        a.context.abandon();
        until([&mut b, &mut c], |[b, c]| {
            (0..9).for_each(|_| behind += u64::from(behind < end && send(b, steady, behind)));
            c.heard.numbers.last() == Some(&(end - 1))
        });
        assert_is(&c, begin, end);
        // An advertisement of the victim that is read after its end is tried once more.
        until([&mut b, &mut c], |[_, c]| {
            let ends = c.heard.count(|e| matches!(e, Event::End(..)));
            ends > 0 && c.counters.failover.sources.get() == 1
        });
        next = end;
    }
}

pub(crate) fn lossy(world: &World) {
    // What a receiver has no room for is lost, on every transport.
    let lossy = |config: &mut MessagingConfig| {
        patient(config);
        config.lbtrm.retransmit_rate_limit_bits_per_second = 0;
        config.lbtru.retransmit_rate_limit_bits_per_second = 0;
        config.tcp.multiple_receiver_behavior = ReceiverBehavior::SourcePaced;
        config.ipc.behavior = IpcBehavior::SourcePaced;
        config.ipc.transmission_window_size_bytes = 2 << 20;
    };
    let narrow = |config: &mut MessagingConfig| {
        lossy(config);
        config.lbtrm.receiver_socket_buffer_bytes = 65_536;
        config.lbtrm.nak_generation_interval_us = 100_000;
        config.lbtrm.send_naks = false;
    };
    let large = |number: u64| [&number.to_be_bytes()[..], &vec![number as u8; 30_000]].concat();
    let send = |party: &mut Party, source: Source, number: u64| {
        let sent =
            party.context.send_hot_failover(source, number, SendFlags::FLUSH, &[&large(number)]).is_ok();
        party.turn();
        sent
    };
    let (mut a, mut b, mut c) = (world.party_with(lossy), world.party_with(lossy), world.party_with(narrow));
    let sources = [a.source("px"), b.source("px")];
    receiver(&mut c, "px");
    let begin = meet([(&mut a, sources[0]), (&mut b, sources[1])], &mut c, 2, 0);
    const BURST: u64 = 600;
    // Now one sends faster than the receiver looks, now the other; the other sends what it can take.
    for round in 0..2 {
        let first = begin + round * BURST;
        let (hasty, steady) = if round == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
        let (fast, slow) = (sources[round as usize], sources[1 - round as usize]);
        let mut next = first;
        until([&mut *hasty], |[hasty]| {
            next += u64::from(send(hasty, fast, next));
            next == first + BURST
        });
        (0..20).for_each(|_| c.turn());
        let mut next = first;
        until([hasty, steady, &mut c], |[_, steady, c]| {
            next += u64::from(next < first + BURST && send(steady, slow, next));
            c.turn();
            c.heard.numbers.last() == Some(&(first + BURST - 1))
        });
    }
    let end = begin + 2 * BURST;
    assert!(c.heard.numbers.iter().copied().eq(begin..end), "{:?}", c.heard.numbers);
    assert!(c.heard.payloads().into_iter().zip(begin..).all(|(payload, number)| payload == large(number)));
    let is_loss = |e: &Event| matches!(e, Event::Loss(..) | Event::FailoverLoss(..));
    assert_eq!(c.heard.count(is_loss), 0);
    let transport_lost = c.counters.delivery.msgs_lost.get();
    assert!(transport_lost > 0, "nothing was lost on the way: the test shows nothing");
    // What both lose is lost, each number once.
    c.heard = Default::default();
    for (party, source) in [(&mut a, sources[0]), (&mut b, sources[1])] {
        let mut next = end;
        until([party], |[party]| {
            next += u64::from(send(party, source, next));
            next == end + BURST
        });
    }
    let mut last = end + BURST;
    until([&mut a, &mut b, &mut c], |[a, b, c]| {
        if last < end + BURST + 200 && send(a, sources[0], last) && send(b, sources[1], last) {
            last += 1;
        }
        c.turn();
        c.heard.numbers.last() == Some(&(end + BURST + 199))
    });
    let mut told = Vec::new();
    let mut numbers = c.heard.numbers.iter();
    for event in &c.heard.events {
        match event {
            Event::Message(..) => told.extend(numbers.next()),
            Event::FailoverLoss(_, topic, FailoverLoss { first, count }) => {
                assert_eq!(topic, "px");
                told.extend(*first..first + count);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(told.into_iter().eq(end..end + BURST + 200), "each number delivered or lost, once and in order");
    assert_eq!(c.counters.failover.gaps_timed_out.get(), 0);
}

pub(crate) fn late(world: &World) {
    let (mut a, mut b, mut c) = (world.party(), world.party(), world.party_with(patient));
    let first = a.source("px.1");
    let other_topic = a.source("px.2");
    let prefix = c.context.create_prefix_receiver("px.", &FAILOVER).expect("a legal name");
    let next = meet([(&mut a, first)], &mut c, 1, 500);
    // Another topic has numbers of its own.
    meet([(&mut a, other_topic)], &mut c, 1, 3);
    let second = b.source("px.1");
    let end = meet([(&mut a, first), (&mut b, second)], &mut c, 1, next);
    assert_eq!(c.counters.failover.sources.get(), 3);
    // The first one ends, and says so; the late one goes on.
    a.context.end();
    until([&mut a, &mut b, &mut c], |[_, _, c]| c.heard.count(|e| matches!(e, Event::End(..))) >= 2);
    let reasons = c.heard.events.iter().filter_map(|e| match e {
        Event::End(_, _, end) => Some(end.reason),
        _ => None,
    });
    assert!(reasons.into_iter().all(|reason| reason == EndReason::Ended));
    c.heard = Default::default();
    let last = meet_again(&mut b, second, &mut c, end);
    // Numbers that begin anew are old until the receiver is told.
    assert!(send(&mut b, second, 5));
    let duplicates = c.counters.failover.duplicates.get();
    until([&mut b, &mut c], |[_, c]| c.counters.failover.duplicates.get() == duplicates + 1);
    assert_eq!(c.heard.numbers.last(), Some(&(last - 1)));
    c.context.restart_hot_failover(prefix, &mut c.heard);
    assert!(send(&mut b, second, 6));
    until([&mut b, &mut c], |[_, c]| c.heard.numbers.last() == Some(&6));
}

/// Sends twenty more numbers, which must all arrive.
fn meet_again(from: &mut Party, source: Source, to: &mut Party, next: u64) -> u64 {
    let end = next + 20;
    assert!((next..end).all(|number| send(from, source, number)));
    until([from, to], |[_, to]| to.heard.numbers.last() == Some(&(end - 1)));
    assert_is(to, next, end);
    end
}

pub(crate) fn bound(world: &World) {
    let one = |config: &mut MessagingConfig| config.hot_failover_maximum_sources = 1;
    let (mut a, mut b, mut c) = (world.party(), world.party(), world.party_with(one));
    let first = a.source("px");
    receiver(&mut c, "px");
    let next = meet([(&mut a, first)], &mut c, 1, 0);
    let second = b.source("px");
    until([&mut a, &mut b, &mut c], |[_, _, c]| c.counters.failover.sources_refused.get() > 0);
    assert_eq!(c.heard.events, [], "a source that is not heard is not told");
    // The one that is heard makes room.
    a.context.end();
    until([&mut a, &mut b, &mut c], |[_, _, c]| c.heard.count(|e| matches!(e, Event::End(..))) >= 1);
    meet([(&mut b, second)], &mut c, 1, next);
    assert_eq!(c.counters.failover.sources.get(), 1);
}
