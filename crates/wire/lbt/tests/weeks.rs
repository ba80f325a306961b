//! A month of virtual time for the timers of sessions of LBT-RM and of hot failover: session messages, NAKs,
//! announcements, reports of congestion control, gaps that are waited for. Whatever was at rest for hours or days
//! works as it did at the begin. LBT-RU: `tests/unicast` (`weeks`); topic resolution: `tests/deafness.rs`.

#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use counters::table::{HotFailover as FailoverCounters, LbmDelivery, LbtrmReceiver, LbtrmSource};
use support::{Event, FROM, Log, SESSION};
use tickcast_lbt::config::{CongestionControl, FailoverConfig, ReceiverConfig, SourceConfig};
use tickcast_lbt::delivery::{Delivered, EndReason, Via};
use tickcast_lbt::failover::{FailoverSink, HotFailover, SourceId};
use tickcast_lbt::rm::{Receiver, SessionKey, Source, TopicId};
use tickcast_lbt::wire::lbmc::{
    Chain, FAILOVER_NUMBER_LEN, Header, Kind, Message, emit_message, failover_element,
};
use units::{Nanos, Sqn};

const INDEX: u32 = 7;
const DAYS: u64 = 30;

/// When something happens: the first seconds, around whole minutes, hours and days, and now and then.
fn moments() -> Vec<Nanos> {
    let second = |s: u64| Nanos(s * 1_000_000_000);
    let mut all: Vec<Nanos> = [0, 1, 9, 10, 11, 59, 60, 61, 70, 3_599, 3_600, 3_601].map(second).to_vec();
    all.extend(
        (1..DAYS).flat_map(|day| [86_400 * day - 1, 86_400 * day + 1, 86_400 * day + 50_003].map(second)),
    );
    all
}

struct Session {
    source: Source,
    topic: TopicId,
    receiver: Receiver,
    log: Log,
    counters: (Arc<LbtrmSource>, Arc<LbtrmReceiver>),
    now: Nanos,
    /// Of the datagrams that follow, so many are lost.
    lose: u32,
}

impl Session {
    fn new(control: CongestionControl) -> Session {
        let now = Nanos::ZERO;
        let counters = (Arc::new(LbtrmSource::default()), Arc::new(LbtrmReceiver::default()));
        // The field's intervals.
        let config = SourceConfig {
            sm_maximum_interval: Duration::from_secs(10),
            congestion_control: control,
            transmission_window_size: 1 << 20,
            maximum_message_size: 1 << 19,
            ..SourceConfig::default()
        };
        let mut source = Source::new(&config, SESSION, now, counters.0.clone()).expect("allowed");
        let config =
            ReceiverConfig { activity_timeout: Duration::from_secs(60), ..ReceiverConfig::default() };
        let key = SessionKey { source: *FROM.ip(), session: SESSION };
        let delivery = Arc::new(LbmDelivery::default());
        let receiver = Receiver::new(&config, key, 1, now, counters.1.clone(), delivery);
        let mut receiver = receiver.expect("allowed");
        receiver.subscribe(INDEX, 1).expect("free");
        let topic = source.add_topic(now, INDEX);
        Session { source, topic, receiver, log: Log::default(), counters, now, lose: 0 }
    }

    /// Everything that is due at this moment, to and fro.
    fn pass(&mut self) {
        loop {
            let mut quiet = true;
            self.source.on_wakeup(self.now);
            while let Some(run) = self.source.poll_transmit(self.now) {
                quiet = false;
                let datagram = run.datagrams().next().expect("at least one").to_vec();
                self.source.sent(self.now, 1);
                if self.lose > 0 {
                    self.lose -= 1;
                    continue;
                }
                let taken = self.receiver.on_datagram(self.now, FROM, &datagram, &mut self.log);
                taken.expect("well-formed");
            }
            self.receiver.on_wakeup(self.now, &mut self.log);
            while let Some(feedback) = self.receiver.poll_transmit(self.now) {
                quiet = false;
                self.source.on_datagram(self.now, FROM, feedback.datagram).expect("well-formed");
            }
            if quiet {
                return;
            }
        }
    }

    fn run(&mut self, until: Nanos) {
        loop {
            self.pass();
            let next = self.source.next_wakeup().min(self.receiver.next_wakeup());
            assert!(next > self.now, "nothing is left to do at {:?}", self.now);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
        }
    }

    fn publish(&mut self, text: &str) {
        self.source.send(self.now, self.topic, &[text.as_bytes()]).expect("room");
        self.source.flush();
    }

    /// The payloads that were delivered, and what else was told.
    fn heard(&mut self) -> (Vec<String>, Vec<Event>) {
        let (mut texts, mut others) = (Vec::new(), Vec::new());
        for event in self.log.take() {
            match event {
                Event::Message { payload, .. } => texts.push(String::from_utf8_lossy(&payload).into_owned()),
                other => others.push(other),
            }
        }
        (texts, others)
    }
}

#[test]
fn a_session_that_says_little_for_a_month_loses_nothing_and_repairs_in_time() {
    let adaptive = CongestionControl::Adaptive {
        minimum_rate: 1_000_000,
        maximum_round_trip: Duration::from_millis(30),
    };
    for control in [CongestionControl::None, adaptive] {
        let mut session = Session::new(control);
        for (round, moment) in moments().into_iter().enumerate() {
            session.run(moment);
            let (texts, others) = session.heard();
            assert!(
                texts.is_empty() && others.iter().all(|e| matches!(e, Event::Begin { .. })),
                "{others:?}"
            );
            // The last of a run is lost, all of it, or its middle.
            let expected: Vec<String> = (0..5).map(|n| format!("{round}.{n}")).collect();
            for (n, text) in expected.iter().enumerate() {
                let is_lost = match round % 3 {
                    0 => n == 4,
                    1 => true,
                    _ => n == 2,
                };
                // The very first datagram tells where the stream begins.
                session.lose = u32::from(is_lost && round > 0);
                session.publish(text);
                session.pass();
            }
            session.lose = 0;
            session.run(session.now + Duration::from_millis(900));
            let (texts, others) = session.heard();
            assert_eq!(texts, expected, "at {moment:?}: {others:?}");
        }
        session.run(Nanos(DAYS * 86_400_000_000_000));
        let silent = session.heard();
        assert!(silent.0.is_empty() && silent.1.is_empty(), "{silent:?}");
        assert!(session.counters.0.sms_sent.get() > DAYS * 8_000, "session messages go on for ever");
        // And it is over in time when nothing more comes.
        session.lose = u32::MAX;
        session.run(session.now + Duration::from_secs(61));
        let (_, others) = session.heard();
        let is_end = |e: &Event| matches!(e, Event::End { reason: EndReason::TimedOut, .. });
        assert!(others.iter().any(is_end), "{others:?}");
    }
}

#[derive(Default)]
struct Heard(Vec<String>);

impl FailoverSink for Heard {
    fn deliver(&mut self, number: u64, _: Delivered<'_>) {
        self.0.push(number.to_string());
    }
    fn lost(&mut self, first: u64, count: u64) {
        self.0.push(format!("lost {first}+{count}"));
    }
}

fn send(merger: &mut HotFailover, now: Nanos, source: SourceId, number: u64, heard: &mut Heard) {
    let (mut room, mut chain, mut bytes) = ([0; FAILOVER_NUMBER_LEN], Chain::default(), Vec::new());
    chain.push(&Header::Chain { elements: failover_element(number, &mut room) });
    emit_message(&mut bytes, Kind::Message, Some((1, Sqn(2))), &chain, Some(b"x"));
    let message = Message::parse(&bytes, 0).expect("well-formed");
    let (payload, headers, via) = (message.data(), message.headers, Via::Transport);
    let (first_sqn, sqn) = (Sqn(2), Sqn(2));
    let message =
        Delivered { token: 1, topic_index: 1, first_sqn, sqn, payload, headers, recovered: false, via };
    merger.on_message(now, source, &message, heard);
}

#[test]
fn hot_failover_waits_for_a_gap_as_long_after_a_month_as_at_the_begin() {
    let counters = Arc::new(FailoverCounters::default());
    let mut merger = HotFailover::new(&FailoverConfig::default(), counters).expect("allowed");
    let (one, other) = (merger.add_source().expect("room"), merger.add_source().expect("room"));
    let mut heard = Heard::default();
    send(&mut merger, Nanos::ZERO, one, 0, &mut heard);
    send(&mut merger, Nanos::ZERO, other, 0, &mut heard);
    heard.0.clear();
    for (round, moment) in (1..).step_by(4).zip(moments()) {
        merger.on_wakeup(moment, &mut heard);
        // One passes over a number; the other is late with it.
        merger.on_lost(one);
        send(&mut merger, moment, one, round + 1, &mut heard);
        assert!(heard.0.is_empty(), "{moment:?}: {:?}", heard.0);
        send(&mut merger, moment + Duration::from_millis(900), other, round, &mut heard);
        assert_eq!(heard.0, [round.to_string(), (round + 1).to_string()]);
        // Or has stopped, and is not waited for longer than configured.
        merger.on_lost(one);
        let then = moment + Duration::from_millis(950);
        send(&mut merger, then, one, round + 3, &mut heard);
        assert_eq!(merger.next_wakeup(), then + Duration::from_secs(1));
        merger.on_wakeup(merger.next_wakeup(), &mut heard);
        assert_eq!(heard.0[2..], [format!("lost {}+1", round + 2), (round + 3).to_string()]);
        assert_eq!(merger.next_wakeup(), Nanos::NEVER);
        // It goes on.
        send(&mut merger, then + Duration::from_secs(2), other, round + 3, &mut heard);
        heard.0.clear();
    }
}
