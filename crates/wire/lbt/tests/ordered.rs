//! Sessions of transports that keep the order themselves, both sides against each other.

use counters::table::{LbmDelivery, LbmSource};
use std::sync::Arc;
use std::time::Duration;
use tickcast_lbt::config::DeliveryConfig;
use tickcast_lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, EndReason, Lost};
use tickcast_lbt::ordered::{Backlog, Cursor, OrderedConfig, Receiver, Source};
use tickcast_lbt::session::{SendError, TopicId};
use tickcast_lbt::wire::lbmc::{Chain, Header};
use units::{Nanos, Rng, Sqn};

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Begin(u64, u32),
    Message(u64, u32, Vec<u8>),
    Lost(u64, u32, u32),
    End(u64, EndReason, u32, bool),
}

#[derive(Default)]
struct Events(Vec<Event>);

impl DeliverySink for Events {
    fn deliver(&mut self, m: Delivered<'_>) {
        self.0.push(Event::Message(m.token, m.sqn.0, m.payload.to_vec()));
    }
    fn lost(&mut self, l: Lost) {
        self.0.push(Event::Lost(l.token, l.first.0, l.count));
    }
    fn begin_of_stream(&mut self, b: BeginOfStream) {
        self.0.push(Event::Begin(b.token, b.first.0));
    }
    fn end_of_stream(&mut self, e: EndOfStream) {
        self.0.push(Event::End(e.token, e.reason, e.next.0, e.tail_unknown));
    }
}

struct Pair {
    source: Source,
    backlog: Backlog,
    cursor: Cursor,
    sent: Arc<LbmSource>,
    receiver: Receiver,
    events: Events,
    /// What has arrived and is not a whole message.
    partial: Vec<u8>,
    now: Nanos,
}

impl Pair {
    fn new(config: &OrderedConfig) -> Pair {
        let sent = Arc::new(LbmSource::default());
        let source = Source::new(config, sent.clone()).expect("allowed");
        let delivery = DeliveryConfig { maximum_message_size: 64 << 20, ..DeliveryConfig::default() };
        let mut receiver = Receiver::new(&delivery, 1, Arc::new(LbmDelivery::default())).expect("allowed");
        receiver.subscribe(7, 70, None).expect("the first");
        receiver.subscribe(8, 80, None).expect("the second");
        let backlog = Backlog::new(100_000, config.maximum_message_size as usize);
        let cursor = backlog.cursor();
        let (partial, now) = (Vec::new(), Nanos::ZERO);
        Pair { source, backlog, cursor, sent, receiver, events: Events::default(), partial, now }
    }

    fn topics(&mut self) -> (TopicId, TopicId) {
        (self.source.add_topic(self.now, 7), self.source.add_topic(self.now, 8))
    }

    fn send(&mut self, topic: TopicId, payload: &[u8]) -> Result<Sqn, SendError> {
        let (front, back) = payload.split_at(payload.len() / 3);
        self.source.send(self.now, topic, &[front, back], &mut self.backlog)
    }

    /// Moves up to `most` bytes to the receiver.
    fn carry(&mut self, most: usize) -> usize {
        let next = self.backlog.next_bytes(&self.cursor);
        let count = next.len().min(most);
        self.partial.extend_from_slice(&next[..count]);
        self.backlog.taken(&mut self.cursor, count);
        self.backlog.release([&self.cursor].into_iter());
        let taken = self.receiver.on_bytes(&self.partial, &mut self.events).expect("well-formed");
        self.partial.drain(..taken);
        count
    }

    fn carry_all(&mut self) {
        while self.carry(usize::MAX) > 0 {}
    }

    fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events.0)
    }
}

fn small() -> OrderedConfig {
    OrderedConfig { datagram_max_size: 500, maximum_message_size: 100_000, ..OrderedConfig::default() }
}

#[test]
fn messages_survive_any_cut_of_the_stream() {
    testkit::for_each_seed!(0..20, |seed| {
        let mut rng = Rng::new(seed);
        let mut pair = Pair::new(&small());
        let topics = pair.topics();
        let mut expected = Vec::new();
        for i in 0..2_000u32 {
            let topic = if rng.chance(0.5) { topics.0 } else { topics.1 };
            let len = if rng.chance(0.02) { rng.below(50_000) } else { rng.below(600) };
            let payload = vec![i as u8; len as usize];
            match pair.send(topic, &payload) {
                Ok(sqn) => expected.push((u64::from(topic.index()) * 10, sqn.0, payload)),
                Err(SendError::WouldBlock) => {}
                Err(other) => panic!("{other}"),
            }
            pair.carry(rng.below(5_000) as usize);
        }
        pair.carry_all();
        let got: Vec<_> = pair
            .events()
            .into_iter()
            .filter_map(|event| match event {
                Event::Message(token, sqn, payload) => Some((token, sqn, payload)),
                Event::Begin(..) => None,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(got.len(), expected.len());
        assert!(got == expected, "seed {seed}");
        assert!(pair.sent.fragments_sent.get() > 0 && pair.sent.lbm_msgs_sent.get() > got.len() as u64);
    });
}

#[test]
fn what_is_passed_over_is_loss_in_its_place() {
    let mut pair = Pair::new(&small());
    let (a, b) = pair.topics();
    pair.send(a, b"a0").expect("room");
    pair.send(b, b"b0").expect("room");
    pair.carry_all();
    for _ in 0..3 {
        pair.send(a, b"missed").expect("room");
        pair.send(b, b"missed").expect("room");
    }
    assert_eq!(pair.backlog.pass_over(&mut pair.cursor), 6);
    pair.receiver.on_passed_over();
    pair.send(a, b"a4").expect("room");
    pair.carry_all();
    let message = |token, sqn, text: &str| Event::Message(token, sqn, text.as_bytes().to_vec());
    assert_eq!(
        pair.events(),
        [
            Event::Begin(70, 0),
            message(70, 0, "a0"),
            Event::Begin(80, 0),
            message(80, 0, "b0"),
            Event::Lost(70, 1, 3),
            message(70, 4, "a4"),
        ]
    );
    pair.source.end(&mut pair.backlog);
    pair.carry_all();
    assert_eq!(
        pair.events(),
        [
            Event::Lost(80, 1, 3),
            Event::End(70, EndReason::Ended, 5, false),
            Event::End(80, EndReason::Ended, 4, false),
        ]
    );
    assert!(pair.receiver.has_ended());
    assert_eq!(pair.send(a, b"late"), Err(SendError::Ended));
}

#[test]
fn a_tail_that_was_passed_over_is_told_by_the_announcement_of_the_silent_topic() {
    let mut pair = Pair::new(&small());
    let (a, _) = pair.topics();
    pair.send(a, b"a0").expect("room");
    pair.carry_all();
    pair.send(a, b"missed").expect("room");
    pair.backlog.pass_over(&mut pair.cursor);
    pair.receiver.on_passed_over();
    pair.events();
    pair.now += Duration::from_secs(1);
    assert!(pair.source.next_wakeup() <= pair.now);
    pair.source.on_wakeup(pair.now, &mut pair.backlog);
    pair.carry_all();
    assert_eq!(pair.events(), [Event::Lost(70, 1, 1)]);
    assert_eq!(pair.sent.tsni_sent.get(), 1);
}

#[test]
fn a_broken_connection_says_of_what_was_passed_over_that_the_tail_is_not_known() {
    let mut pair = Pair::new(&small());
    let (a, b) = pair.topics();
    pair.send(a, b"a0").expect("room");
    pair.send(b, b"b0").expect("room");
    pair.carry_all();
    pair.receiver.on_passed_over();
    pair.send(b, b"b1").expect("room");
    pair.carry_all();
    pair.events();
    pair.receiver.end(EndReason::Broken, &mut pair.events);
    let ends = [Event::End(70, EndReason::Broken, 1, true), Event::End(80, EndReason::Broken, 2, false)];
    assert_eq!(pair.events(), ends);
}

#[test]
fn a_claim_becomes_a_message_when_committed_and_nothing_when_dropped() {
    let mut pair = Pair::new(&small());
    let (a, _) = pair.topics();
    let max = pair.source.claim_max();
    let refused = pair.source.claim(pair.now, a, max + 1, &mut pair.backlog).err();
    assert_eq!(refused, Some(SendError::TooLong { bytes: max + 1, max }));
    let _ = pair.source.claim(pair.now, a, 10, &mut pair.backlog).expect("room").payload();
    let mut claim = pair.source.claim(pair.now, a, 3, &mut pair.backlog).expect("room");
    claim.payload().copy_from_slice(b"abc");
    assert_eq!(claim.commit(), Sqn(0));
    pair.carry_all();
    assert_eq!(pair.events(), [Event::Begin(70, 0), Event::Message(70, 0, b"abc".to_vec())]);
}

#[test]
fn what_cannot_be_taken_is_refused_whole_and_counted() {
    let mut pair = Pair::new(&small());
    let (a, b) = pair.topics();
    let too_long = vec![0; 100_001];
    assert_eq!(pair.send(a, &too_long), Err(SendError::TooLong { bytes: 100_001, max: 100_000 }));
    let mut count = 0;
    while pair.send(a, &[1; 480]).is_ok() {
        count += 1;
    }
    assert_eq!(pair.send(a, &[1; 50_000]), Err(SendError::WouldBlock));
    assert_eq!(pair.sent.send_would_block.get(), 2);
    pair.carry_all();
    assert_eq!(pair.events().len(), 1 + count, "a begin and what was taken");
    pair.send(a, &[2; 100_000]).expect("there is room again");
    pair.source.remove_topic(b);
    assert_eq!(pair.send(b, b"x"), Err(SendError::UnknownTopic));
    let mut chain = Chain::default();
    chain.push(&Header::Batch { flags: 2 });
    pair.carry_all();
    pair.source.send_with(pair.now, a, &chain, &[b"last"], &mut pair.backlog).expect("room");
    pair.carry_all();
    let expected = u32::try_from(count).expect("few") + 100_000u32.div_ceil(500 - 28);
    assert_eq!(pair.events().last(), Some(&Event::Message(70, expected, b"last".to_vec())));
}

#[test]
fn bytes_that_are_no_messages_break_the_stream_and_deliver_nothing() {
    let mut pair = Pair::new(&small());
    for bad in [&[0x10, 0, 0, 12][..], &[0x05, 0, 0, 12], &[0, 0, 0, 3]] {
        assert!(pair.receiver.on_bytes(bad, &mut pair.events).is_err());
    }
    assert_eq!(pair.receiver.on_bytes(&[0, 0, 0], &mut pair.events), Ok(0));
    assert!(pair.events().is_empty());
}
