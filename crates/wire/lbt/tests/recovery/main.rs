//! Late join and off-transport recovery under a seeded network and a virtual clock: live datagrams are lost,
//! connections are cut, sources die, receivers join at any time. A failing run prints the command that
//! repeats it alone.

#[path = "../support/ciphers.rs"]
mod ciphers;
mod oracle;
mod world;
mod written;

use counters::table::{LbmRecovery, LbmRetention};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use testkit::repeat::is_one_seed;
use tickcast_lbt::config::{RecoveryConfig, RetentionConfig};
use tickcast_lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, EndReason, Lost, Via};
use tickcast_lbt::recovery::{RecoveryError, Requester, Responder};
use tickcast_lbt::stream::StreamDecoder;
use tickcast_lbt::wire::lbmc::{self, Chain, Header, Headers, Kind, Message};
use units::{Nanos, Sqn};
use world::{Outcome, Weather, World};

#[test]
fn whatever_is_lost_cut_or_dies_each_number_is_delivered_or_reported_once_in_its_place() {
    let mut total = Outcome::default();
    testkit::for_each_seed!(0..80, |seed| total.add(&World::new(seed, Weather::Foul).run()));
    if !is_one_seed() {
        // the runs must have seen what they are meant to test
        assert!(total.late_join > 10_000 && total.otr > 5_000 && total.lost > 100, "{total:?}");
        assert!(total.cuts > 50 && total.deaths > 10 && total.unavailable > 100, "{total:?}");
        assert!(total.not_held > 100 && total.repeated > 20 && total.given_up > 10, "{total:?}");
        assert!(total.duplicates > 10 && total.fragments_lost > 0 && total.before_start > 0, "{total:?}");
    }
}

#[test]
fn with_a_source_that_lives_nothing_retained_is_lost() {
    let mut total = Outcome::default();
    testkit::for_each_seed!(0..40, |seed| {
        let outcome = World::new(seed, Weather::Rainy).run();
        assert_eq!((outcome.lost_within, outcome.late_begins), (0, 0), "{outcome:?}");
        total.add(&outcome);
    });
    assert!(is_one_seed() || (total.late_join > 5_000 && total.otr > 2_000), "{total:?}");
}

#[test]
fn a_run_repeats_exactly_from_its_seed() {
    let _repeat = testkit::repeat!();
    let run = |seed| format!("{:?}", World::new(seed, Weather::Foul).run());
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

// ---- single steps

const TOPIC: u32 = 0x0a11_ce01;
const TRANSPORT: u32 = 0x77;
const MS: Duration = Duration::from_millis(1);

fn at(ms: u32) -> Nanos {
    Nanos::ZERO + MS * ms
}

/// What the application hears, as text.
#[derive(Default)]
struct Heard(Vec<String>);

impl DeliverySink for Heard {
    fn deliver(&mut self, m: Delivered<'_>) {
        let way = match m.via {
            Via::Transport => "",
            Via::LateJoin => " late",
            Via::OffTransport => " otr",
        };
        self.0.push(format!("{} {}{way}", m.sqn, String::from_utf8_lossy(m.payload)));
    }
    fn lost(&mut self, lost: Lost) {
        self.0.push(format!("lost {}+{}", lost.first, lost.count));
    }
    fn begin_of_stream(&mut self, begin: BeginOfStream) {
        self.0.push(format!("begin {}", begin.first));
    }
    fn end_of_stream(&mut self, end: EndOfStream) {
        self.0.push(format!("end {}{}", end.next, if end.tail_unknown { "?" } else { "" }));
    }
    fn unheard(&mut self, end: EndOfStream, is_known: bool) {
        self.0.push(if is_known { format!("unheard {}", end.next) } else { "unheard".to_owned() });
    }
}

impl Heard {
    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0)
    }
}

struct Bench {
    requester: Requester,
    responder: Responder,
    asked: Arc<LbmRecovery>,
    kept: Arc<LbmRetention>,
    heard: Heard,
    /// When something comes live.
    now: Nanos,
}

impl Bench {
    fn new(change: impl FnOnce(&mut RecoveryConfig)) -> Bench {
        let mut config = RecoveryConfig::default();
        change(&mut config);
        let (asked, kept) = (Arc::new(LbmRecovery::default()), Arc::new(LbmRetention::default()));
        let own = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 21), 14393);
        let requester = Requester::new(&config, TRANSPORT, own, asked.clone()).expect("allowed");
        let mut responder = Responder::new(&retention(), Nanos::ZERO, kept.clone()).expect("allowed");
        responder.add_topic(TRANSPORT, TOPIC, &retention()).expect("allowed");
        Bench { requester, responder, asked, kept, heard: Heard::default(), now: at(1) }
    }

    fn add(&mut self) {
        self.requester.add_topic(Nanos::ZERO, TOPIC, 1, true).expect("free");
    }

    /// The source sends numbers of one topic; each is its own text.
    fn send(&mut self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            let mut out = Vec::new();
            let text = format!("m{number}");
            let topic = Some((TOPIC, Sqn(number)));
            lbmc::emit_message(&mut out, Kind::Message, topic, &Chain::default(), Some(text.as_bytes()));
            self.responder.retain(self.now, TRANSPORT, &out);
        }
    }

    fn begin(&mut self, first: u32) {
        let begin = BeginOfStream { token: 1, topic_index: TOPIC, first: Sqn(first) };
        self.requester.tap(self.now, &mut self.heard).begin_of_stream(begin);
    }

    fn live(&mut self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            let text = format!("m{number}");
            self.requester.tap(self.now, &mut self.heard).deliver(Delivered {
                token: 1,
                topic_index: TOPIC,
                first_sqn: Sqn(number),
                sqn: Sqn(number),
                payload: text.as_bytes(),
                headers: Headers::NONE,
                recovered: false,
                via: Via::Transport,
            });
        }
    }

    fn lost(&mut self, first: u32, count: u32) {
        let lost = Lost { token: 1, topic_index: TOPIC, first: Sqn(first), count };
        self.requester.tap(self.now, &mut self.heard).lost(lost);
    }

    /// Connects, and lets both sides talk until they have nothing more to say.
    fn talk(&mut self, now: Nanos) {
        self.requester.on_connected();
        let client = self.responder.open().expect("room");
        while let Some(asked) = self.requester.poll_transmit(now).map(<[u8]>::to_vec) {
            let mut answers = Vec::new();
            StreamDecoder::default()
                .push(&asked, |m| assert!(self.responder.on_message(client, &m)))
                .expect("well-formed");
            while self.responder.poll_transmit(now, client, 1 << 20, &mut answers) {}
            StreamDecoder::default()
                .push(&answers, |m| assert!(self.requester.on_message(now, &m, &mut self.heard)))
                .expect("well-formed");
        }
        self.responder.close(client);
    }
}

fn retention() -> RetentionConfig {
    RetentionConfig { retransmit_retention_size_limit: 1 << 16, ..RetentionConfig::default() }
}

#[test]
fn a_late_joiner_hears_what_is_retained_then_the_live_stream_each_once() {
    let mut b = Bench::new(|_| {});
    b.add();
    b.send(0..5);
    b.begin(3);
    b.live(3..5);
    assert!(b.heard.take().is_empty() && b.requester.wants_connection());
    b.talk(at(2));
    assert_eq!(b.heard.take(), ["begin 0", "0 m0 late", "1 m1 late", "2 m2 late", "3 m3", "4 m4"]);
    assert!(b.requester.is_idle());
    b.live(5..6);
    assert_eq!(b.heard.take(), ["5 m5"]);
    assert_eq!((b.asked.late_join_msgs.get(), b.asked.msgs_held.get(), b.asked.topics.get()), (3, 2, 1));
    assert_eq!((b.kept.rxs_sent.get(), b.kept.info_requests_rcved.get()), (3, 1));
    assert!(b.kept.rx_bytes_sent.get() > 3 * 24 && b.kept.requests_rcved.get() == 3);
}

/// The TCP payloads of the golden late join.
fn golden_conversation() -> Vec<Vec<u8>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/41-lbmc-late-join-over-tcp.json");
    let text = std::fs::read_to_string(file).expect("the vectors are part of the repository");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    let payloads = rows.iter().skip(1).map(|row| row["payload_hex"].as_str().unwrap_or_default());
    let byte =
        |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal");
    let bytes = payloads.map(|hex| hex.as_bytes().chunks(2).map(byte).collect::<Vec<u8>>());
    bytes.filter(|payload| !payload.is_empty()).collect()
}

#[test]
fn the_conversation_is_that_of_the_golden_capture_byte_for_byte() {
    let golden = golden_conversation();
    let mut b = Bench::new(|c| {
        c.retransmit_request_maximum = 1_000;
        c.retransmit_request_outstanding_maximum = 10;
    });
    b.add();
    for number in [899, 900] {
        let (mut out, text) = (Vec::new(), format!("old message {number}"));
        let topic = Some((TOPIC, Sqn(number)));
        lbmc::emit_message(&mut out, Kind::Message, topic, &Chain::default(), Some(text.as_bytes()));
        b.responder.retain(Nanos::ZERO, TRANSPORT, &out);
    }
    b.requester.on_connected();
    let client = b.responder.open().expect("room");
    let asked = b.requester.poll_transmit(at(1)).expect("a question").to_vec();
    assert_eq!(asked, golden[0], "which messages are retained?");
    StreamDecoder::default()
        .push(&golden[1], |m| assert!(b.requester.on_message(at(1), &m, &mut b.heard)))
        .expect("well-formed");
    let mut requests = Vec::new();
    while let Some(bytes) = b.requester.poll_transmit(at(1)) {
        requests.extend_from_slice(bytes);
    }
    // of the ten that are allowed at once the first is for 100; in the capture it is for 899
    assert_eq!(requests.len(), 10 * golden[2].len());
    let mut expected = golden[2].clone();
    expected[20..24].copy_from_slice(&100u32.to_be_bytes());
    assert_eq!(requests[..expected.len()], expected);
    let mut answers = Vec::new();
    StreamDecoder::default()
        .push(&golden[2], |m| assert!(b.responder.on_message(client, &m)))
        .expect("well-formed");
    assert!(b.responder.poll_transmit(at(1), client, 1 << 16, &mut answers));
    assert_eq!(answers, golden[3]);
}

#[test]
fn a_late_joiner_of_a_silent_topic_does_not_wait_for_live_messages() {
    let mut b = Bench::new(|c| c.retransmit_request_maximum = 2);
    b.add();
    b.send(0..5);
    b.talk(at(2));
    assert_eq!(b.heard.take(), ["begin 3", "3 m3 late", "4 m4 late"], "the newest two");
    b.send(5..8);
    b.begin(7);
    b.live(7..8);
    b.talk(at(3));
    assert_eq!(b.heard.take(), ["5 m5 late", "6 m6 late", "7 m7"]);
}

#[test]
fn the_end_of_a_session_that_brought_nothing_is_told_to_who_has_joined_late() {
    let over = |b: &mut Bench, next, is_known| {
        let reason = EndReason::Ended;
        let end = EndOfStream { token: 1, topic_index: TOPIC, reason, next: Sqn(next), tail_unknown: false };
        b.requester.tap(b.now, &mut b.heard).unheard(end, is_known);
    };
    // What was known live: nothing, all that has come late, more than that. Whether it was asked for in time.
    for (next, is_known, sent, said) in [
        (0, false, 0..3, "end 3"),
        (3, true, 0..3, "end 3"),
        (4, true, 0..4, "end 4"),
        (4, true, 0..3, "end 4"),
    ] {
        let mut b = Bench::new(|_| {});
        b.add();
        b.send(0..3);
        b.talk(at(2));
        assert_eq!(b.heard.take(), ["begin 0", "0 m0 late", "1 m1 late", "2 m2 late"]);
        b.send(3..sent.end);
        over(&mut b, next, is_known);
        b.talk(at(3));
        b.requester.on_refused(&mut b.heard);
        let heard = b.heard.take();
        assert_eq!(heard.last().map(String::as_str), Some(said), "{next} {is_known}: {heard:?}");
        let told = match (next, sent.end) {
            (4, 4) => Some("3 m3 late"),
            (4, _) => Some("lost 3+1"),
            _ => None,
        };
        assert_eq!(heard.first().map(String::as_str).filter(|_| heard.len() > 1), told, "{heard:?}");
        assert!(b.requester.is_idle());
    }
    let mut b = Bench::new(|_| {});
    b.add();
    b.send(0..2);
    over(&mut b, 0, false);
    assert_eq!(b.heard.take(), [""; 0], "its process may still answer");
    b.talk(at(3));
    assert_eq!(b.heard.take(), ["begin 0", "0 m0 late", "1 m1 late", "end 2"]);
    let mut b = Bench::new(|_| {});
    b.add();
    over(&mut b, 7, true);
    b.requester.on_refused(&mut b.heard);
    assert_eq!(b.heard.take(), ["unheard 7"]);
    assert!(b.requester.is_idle());
}

#[test]
fn what_the_transport_gave_up_is_asked_for_and_delivered_in_its_place() {
    let mut b = Bench::new(|c| c.use_late_join = false);
    b.add();
    b.send(0..10);
    b.begin(0);
    b.live(0..2);
    assert_eq!(b.heard.take(), ["begin 0", "0 m0", "1 m1"]);
    b.lost(2, 3);
    b.live(5..6);
    assert!(b.heard.take().is_empty());
    b.talk(at(2));
    assert_eq!(b.heard.take(), ["2 m2 otr", "3 m3 otr", "4 m4 otr", "5 m5"]);
    assert_eq!((b.asked.otr_msgs.get(), b.asked.requests_sent.get(), b.asked.rxs_rcved.get()), (3, 3, 3));
}

#[test]
fn the_first_request_waits_for_the_initial_delay() {
    let mut b = Bench::new(|c| {
        c.use_late_join = false;
        c.otr_request_initial_delay = MS * 100;
    });
    b.add();
    b.send(0..3);
    b.begin(0);
    b.lost(0, 3);
    b.requester.on_connected();
    assert_eq!(b.requester.poll_transmit(at(100)), None);
    assert_eq!(b.requester.next_wakeup(), at(101));
    b.talk(at(101));
    assert_eq!(b.heard.take(), ["begin 0", "0 m0 otr", "1 m1 otr", "2 m2 otr"]);
}

#[test]
fn without_off_transport_recovery_or_retention_loss_is_passed_on() {
    for retained in [true, false] {
        let mut b = Bench::new(|c| (c.use_late_join, c.use_otr) = (false, !retained));
        b.requester.add_topic(Nanos::ZERO, TOPIC, 1, retained).expect("free");
        b.begin(7);
        b.lost(7, 2);
        b.live(9..10);
        assert_eq!(b.heard.take(), ["begin 7", "lost 7+2", "9 m9"]);
        assert!(!b.requester.wants_connection());
        assert_eq!((b.asked.lost_events.get(), b.asked.msgs_lost.get()), (1, 2));
    }
}

#[test]
fn what_is_no_longer_retained_is_lost_in_its_place() {
    let mut b = Bench::new(|c| c.use_late_join = false);
    b.add();
    b.begin(0);
    b.live(0..1);
    b.lost(1, 4);
    b.live(5..6);
    b.send(3..6);
    b.talk(at(2));
    assert_eq!(b.heard.take(), ["begin 0", "0 m0", "lost 1+2", "3 m3 otr", "4 m4 otr", "5 m5"]);
    assert_eq!((b.asked.unavailable.get(), b.kept.requests_unavailable.get()), (2, 2));
}

#[test]
fn without_an_answer_a_late_joiner_begins_with_the_live_stream() {
    let mut b = Bench::new(|_| {});
    b.add();
    b.begin(3);
    b.live(3..5);
    b.requester.on_connected();
    assert!(b.requester.poll_transmit(at(5)).is_some());
    let due = b.requester.next_wakeup();
    assert_eq!(due, at(505), "asked again");
    assert!(b.requester.poll_transmit(due).is_some());
    assert_eq!(b.asked.info_requests_sent.get(), 2);
    b.requester.on_wakeup(at(10_004), &mut b.heard);
    assert!(b.heard.take().is_empty());
    b.requester.on_wakeup(at(10_005), &mut b.heard);
    assert_eq!(b.heard.take(), ["begin 3", "3 m3", "4 m4"]);
}

#[test]
fn a_topic_that_joins_without_room_for_its_question_waits_for_an_answer_instead_of_turning() {
    let mut b = Bench::new(|c| c.retransmit_request_outstanding_maximum = 1);
    b.add();
    b.send(0..1);
    b.requester.on_connected();
    let client = b.responder.open().expect("room");
    let exchange = |b: &mut Bench| {
        let asked = b.requester.poll_transmit(at(5)).expect("a question").to_vec();
        let mut answer = Vec::new();
        StreamDecoder::default()
            .push(&asked, |m| assert!(b.responder.on_message(client, &m)))
            .expect("well-formed");
        while b.responder.poll_transmit(at(5), client, 1 << 16, &mut answer) {}
        answer
    };
    let hear = |b: &mut Bench, answer: &[u8]| {
        StreamDecoder::default()
            .push(answer, |m| assert!(b.requester.on_message(at(5), &m, &mut b.heard)))
            .expect("well-formed");
    };
    let range = exchange(&mut b);
    b.begin(1);
    b.lost(1, 1);
    assert_eq!(b.requester.next_wakeup(), at(505), "what is missing waits for the range that is retained");
    hear(&mut b, &range);
    let message = exchange(&mut b);
    b.requester.add_topic(at(5), TOPIC + 1, 2, true).expect("free");
    assert_eq!((b.requester.outstanding(), b.requester.poll_transmit(at(5))), (1, None));
    assert_eq!(b.requester.next_wakeup(), at(505), "when the request that is out is asked again");
    hear(&mut b, &message);
    assert_eq!(b.requester.next_wakeup(), Nanos::ZERO, "there is room for the question");
    while b.requester.poll_transmit(at(5)).is_some() {}
    assert_eq!(b.asked.info_requests_sent.get(), 2);
    assert_eq!(b.requester.next_wakeup(), at(505), "nothing is left to be said now");
}

#[test]
fn what_nobody_answers_is_lost_after_the_generation_interval() {
    let mut b = Bench::new(|c| c.use_late_join = false);
    b.add();
    b.begin(0);
    b.lost(0, 2);
    b.live(2..3);
    b.requester.on_connected();
    assert!(b.requester.poll_transmit(at(5)).is_some());
    assert!(b.requester.poll_transmit(at(505)).is_some());
    assert_eq!((b.asked.requests_sent.get(), b.asked.requests_repeated.get()), (2, 2));
    b.requester.on_wakeup(at(10_005), &mut b.heard);
    assert_eq!(b.heard.take(), ["begin 0", "lost 0+2", "2 m2"]);
    assert_eq!((b.asked.given_up.get(), b.requester.next_wakeup()), (2, Nanos::NEVER));
}

#[test]
fn after_a_month_it_asks_is_answered_and_gives_up_as_at_the_begin() {
    let mut b = Bench::new(|c| c.use_late_join = false);
    b.add();
    b.begin(0);
    b.heard.take();
    for (day, next) in (0..30).zip((0..).step_by(10)) {
        b.now = Nanos::ZERO + Duration::from_secs(86_400) * day + MS;
        b.send(next..next + 4);
        b.live(next..next + 1);
        b.lost(next + 1, 2);
        b.live(next + 3..next + 4);
        b.talk(b.now + MS);
        let [first, second, third, last] = [0, 1, 2, 3].map(|n| next + n);
        let (second, third) = (format!("{second} m{second} otr"), format!("{third} m{third} otr"));
        let expected = [format!("{first} m{first}"), second, third, format!("{last} m{last}")];
        assert_eq!(b.heard.take(), expected, "day {day}");
        // Nobody has the others.
        b.lost(next + 4, 6);
        b.requester.on_connected();
        assert!(b.requester.poll_transmit(b.now).is_some());
        assert!(b.requester.poll_transmit(b.now + MS * 600).is_some(), "day {day}");
        b.requester.on_wakeup(b.now + MS * 11_000, &mut b.heard);
        assert_eq!(b.heard.take(), [format!("lost {}+6", next + 4)], "day {day}");
        assert_eq!(b.requester.next_wakeup(), Nanos::NEVER);
        b.requester.on_disconnected();
    }
}

#[test]
fn of_a_session_that_is_over_with_its_connection_nothing_is_waited_for() {
    let mut b = Bench::new(|c| c.use_late_join = false);
    b.add();
    b.begin(0);
    b.lost(0, 2);
    let end = EndOfStream {
        token: 1,
        topic_index: TOPIC,
        reason: EndReason::TimedOut,
        next: Sqn(2),
        tail_unknown: false,
    };
    b.requester.tap(at(1), &mut b.heard).end_of_stream(end);
    assert_eq!(b.heard.take(), ["begin 0"], "its process may still answer");
    b.requester.on_refused(&mut b.heard);
    assert_eq!(b.heard.take(), ["lost 0+2", "end 2"]);
    assert!(b.requester.is_idle());
}

#[test]
fn a_topic_that_is_removed_gives_back_what_it_held_and_says_nothing_more() {
    let mut b = Bench::new(|c| c.maximum_topics = 1);
    b.add();
    let twice = b.requester.add_topic(Nanos::ZERO, TOPIC, 1, true);
    assert_eq!(twice, Err(RecoveryError::AlreadyAdded { topic_index: TOPIC }));
    let more = b.requester.add_topic(Nanos::ZERO, TOPIC + 1, 1, true);
    assert_eq!(more, Err(RecoveryError::TooMany { max: 1 }));
    b.begin(3);
    b.live(3..5);
    assert_eq!((b.asked.hold_bytes.get(), b.asked.topics_recovering.get()), (4, 1));
    b.requester.remove_topic(TOPIC);
    assert_eq!((b.asked.hold_bytes.get(), b.asked.hold_bytes_max.get()), (0, 4));
    assert!(b.heard.take().is_empty() && b.requester.is_idle());
    b.live(5..6);
    assert_eq!(b.heard.take(), ["5 m5"], "what is not watched over is passed on");
}

#[test]
fn requests_beyond_the_bound_are_dropped_and_counted() {
    let config = RetentionConfig {
        retransmit_retention_clients_maximum: 1,
        retransmit_retention_requests_maximum: 2,
        retransmit_retention_rate_limit: 1_000_000,
        ..retention()
    };
    let kept = Arc::new(LbmRetention::default());
    let mut responder = Responder::new(&config, Nanos::ZERO, kept.clone()).expect("allowed");
    responder.add_topic(TRANSPORT, TOPIC, &config).expect("allowed");
    let client = responder.open().expect("room");
    assert_eq!((responder.open(), kept.clients.get(), kept.clients_refused.get()), (None, 1, 1));
    let mut asked = Vec::new();
    let mut chain = Chain::default();
    chain.push(&Header::LateJoinInfoRequest {
        flags: 0,
        request: 9,
        transport: TRANSPORT,
        topic: TOPIC + 1,
        ip: Ipv4Addr::LOCALHOST,
        port: 1,
        low: Sqn(0),
        request_max: 0,
        outstanding_max: 0,
    });
    for _ in 0..3 {
        lbmc::emit_message(&mut asked, Kind::Control, None, &chain, None);
    }
    lbmc::emit_message(&mut asked, Kind::Message, Some((1, Sqn(1))), &Chain::default(), Some(b"no request"));
    let mut taken = 0;
    StreamDecoder::default()
        .push(&asked, |m| taken += u32::from(responder.on_message(client, &m)))
        .expect("well-formed");
    assert_eq!((taken, kept.requests_refused.get(), kept.msgs_ignored.get()), (3, 1, 1));
    let mut out = Vec::new();
    assert_eq!(responder.ready_at(client), Nanos::ZERO);
    assert!(responder.poll_transmit(Nanos::ZERO, client, 1 << 20, &mut out));
    let message = Message::parse(&out, 0).expect("well-formed");
    let info = Header::LateJoinInfo { flags: 0, low: Sqn(0), high: Sqn(u32::MAX), request: 9 };
    assert_eq!(
        message.headers.iter().collect::<Vec<_>>(),
        [info],
        "of a topic that is not retained: nothing"
    );
    assert_eq!((out.len(), responder.ready_at(client)), (40, Nanos::NEVER));
    responder.close(client);
    assert_eq!((kept.clients.get(), responder.open().is_some()), (0, true));
}

#[test]
fn answers_nobody_asked_for_are_counted_and_change_nothing() {
    let mut b = Bench::new(|_| {});
    b.add();
    let mut bytes = Vec::new();
    let mut chain = Chain::default();
    chain.push(&Header::LateJoinInfo { flags: 0, low: Sqn(0), high: Sqn(9), request: 0xFFFF_FFFF });
    lbmc::emit_message(&mut bytes, Kind::Control, None, &chain, None);
    for topic in [TOPIC, TOPIC + 1] {
        let topic = Some((topic, Sqn(3)));
        lbmc::emit_message(&mut bytes, Kind::Retransmission, topic, &Chain::default(), Some(b"x"));
    }
    StreamDecoder::default()
        .push(&bytes, |m| assert!(b.requester.on_message(at(2), &m, &mut b.heard)))
        .expect("well-formed");
    assert!(b.heard.take().is_empty());
    assert_eq!((b.asked.rxs_unexpected.get(), b.asked.rxs_rcved.get()), (3, 0));
}
