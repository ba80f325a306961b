//! Contexts that are not driven for a while, as those of a process that is stopped, in virtual time.

mod common;

use std::time::Duration;

use common::{Heard, Party, Patience, config};
use net::{Poller, clock, clock::ManualClock};
use tickcast_messaging::{
    Context, ContextCounters, MessagingConfig, Receiver, ReceiverOptions, Source, SourceOptions, Transport,
};
use units::Nanos;

const STEP: Duration = Duration::from_millis(10);
/// Longer than any time-out of a session.
const PAUSE: Duration = Duration::from_secs(14);
const TRANSPORTS: [Transport; 4] = [Transport::LbtRm, Transport::LbtRu, Transport::Tcp, Transport::LbtIpc];

/// Two contexts in one virtual time: one sends, one receives.
struct Pair {
    clock: ManualClock,
    a: Party,
    b: Party,
    source: Source,
    sent: u32,
    patience: Patience,
}

fn manual(config: &MessagingConfig, clock: &ManualClock, seed: u64) -> Party {
    let counters = ContextCounters::default();
    let context = Context::manual(config, clock, seed, counters.clone()).expect("loopback is there");
    Party { context, heard: Heard::default(), counters }
}

impl Pair {
    /// They have met.
    fn new(config: &MessagingConfig, late_join: bool) -> Pair {
        let clock = ManualClock::new(Nanos(1_000_000_000));
        let (mut a, mut b) = (manual(config, &clock, 1), manual(config, &clock, 2));
        let options = SourceOptions { late_join: Some(late_join), ..SourceOptions::default() };
        let source = a.context.create_source("px", &options).expect("a port is free");
        b.receiver("px");
        let mut pair = Pair { clock, a, b, source, sent: 0, patience: Patience::new() };
        while pair.b.heard.payloads.is_empty() {
            pair.send();
            pair.step();
        }
        pair
    }

    fn send(&mut self) {
        let number = self.sent.to_be_bytes();
        if self.a.context.send(self.source, &[&number]).is_ok() {
            self.sent += 1;
        }
    }

    fn pass(&self, span: Duration) {
        self.clock.set(self.clock.now() + span);
    }

    /// Both are driven, for a moment.
    fn step(&mut self) {
        assert!(self.patience.lasts(), "hangs");
        self.pass(STEP);
        for _ in 0..4 {
            self.a.turn();
            self.b.turn();
        }
    }

    /// Drives both until the last message has come, or is known to be lost.
    fn settle(&mut self) {
        while self.b.heard.next().0 != self.sent {
            self.step();
        }
    }

    /// Everything since the first message that was heard is delivered or told as lost, once and in order, which
    /// `Heard` looks at.
    fn assert_complete(&self, what: &str) {
        let heard = &self.b.heard;
        let first = heard.begun.expect("it began").0;
        assert_eq!(heard.payloads.len() as u32 + heard.lost, self.sent - first, "{what}");
        assert!(heard.ends.is_empty(), "{what}: {:?}", heard.ends);
        assert_eq!(heard.sources.len(), 1, "{what}: it is found once");
    }
}

fn over(transport: Transport, test: u8) -> MessagingConfig {
    MessagingConfig { transport, ..config(test) }
}

#[test]
fn a_receiver_that_was_stopped_goes_on_where_it_was() {
    for (transport, test) in TRANSPORTS.into_iter().zip(70..) {
        for late_join in [false, true] {
            let mut pair = Pair::new(&over(transport, test), late_join);
            let end = pair.clock.now() + PAUSE;
            while pair.clock.now() < end {
                pair.pass(STEP);
                pair.send();
                pair.a.turn();
            }
            // The wait that was cut short by SIGCONT tells of no socket.
            pair.b.context.on_wakeup(pair.clock.now(), &mut pair.b.heard);
            pair.settle();
            pair.assert_complete(&format!("{transport:?}, late join {late_join}"));
        }
    }
}

#[test]
fn a_machine_that_stood_still_ends_no_session() {
    for (transport, test) in TRANSPORTS.into_iter().zip(74..) {
        for receiver_first in [false, true] {
            let mut pair = Pair::new(&over(transport, test), false);
            pair.settle();
            pair.pass(PAUSE);
            for _ in 0..10 {
                if receiver_first { pair.b.turn() } else { pair.a.turn() }
            }
            (0..3).for_each(|_| pair.step());
            pair.send();
            pair.settle();
            pair.assert_complete(&format!("{transport:?}"));
            assert_eq!(pair.b.heard.lost, 0);
        }
    }
}

#[test]
fn a_source_that_is_gone_times_out_though_the_receiver_is_driven_seldom() {
    let mut pair = Pair::new(&over(Transport::LbtRm, 78), false);
    let gone = pair.clock.now();
    while pair.b.heard.ends.is_empty() {
        pair.pass(Duration::from_secs(3));
        pair.b.turn();
    }
    assert!(pair.clock.now().since(gone) < Duration::from_secs(20));
}

/// A thread with a poller of its own may look at the timers first, or at the sockets.
#[test]
fn a_foreign_poller_that_wakes_late_ends_no_session_whatever_it_looks_at_first() {
    for (timers_first, test) in [(true, 79), (false, 80)] {
        let config = over(Transport::LbtRm, test);
        let mut poller = Poller::new().expect("there are descriptors");
        // The context asks the machine's clock where it is not told the time; it never goes back.
        let mut now = clock::monotonic();
        let counters = ContextCounters::default();
        let late_turns = counters.context.clone();
        let mut b =
            Context::new(&config, poller.registrar(), 0, 2, now, counters).expect("loopback is there");
        let clock = ManualClock::new(now);
        let mut a = manual(&config, &clock, 1);
        let source = a.source("px");
        let _: Receiver = b.create_receiver("px", &ReceiverOptions::default()).expect("a legal name");
        let mut heard = Heard::default();
        let mut turn = |now: Nanos, heard: &mut Heard, timers_first: bool| {
            if timers_first {
                b.on_wakeup(now, heard);
            }
            for ready in poller.wait(Some(Duration::ZERO)).expect("the poller works").collect::<Vec<_>>() {
                b.on_ready(now, ready, heard);
            }
            b.on_wakeup(now, heard);
        };
        let patience = Patience::new();
        let mut sent = 0;
        let mut send = |now: Nanos| {
            clock.set(now);
            a.context.send(source, &[b"x"]).expect("there is room");
            sent += 1;
            a.turn();
            sent
        };
        while heard.payloads.is_empty() {
            assert!(patience.lasts(), "they do not meet");
            now += STEP;
            send(now);
            turn(now, &mut heard, false);
        }
        for _ in 0..140 {
            now += STEP * 10;
            send(now);
        }
        turn(now, &mut heard, timers_first);
        assert!(late_turns.late_turns.get() > 0 || !timers_first);
        loop {
            assert!(patience.lasts(), "hangs");
            now += STEP;
            let sent = send(now);
            turn(now, &mut heard, false);
            if heard.next().0 == sent {
                break;
            }
        }
        assert!(heard.ends.is_empty() && heard.sources.len() == 1);
    }
}
