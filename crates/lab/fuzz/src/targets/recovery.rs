use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use lbt::config::{RecoveryConfig, RetentionConfig};
use lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, EndReason, Lost, Via};
use lbt::recovery::{ClientId, Requester, Responder};
use lbt::stream::{StreamDecoder, StreamMessage};
use lbt::wire::lbmc::{self, Chain, Header, Headers, Kind};
use units::{Nanos, Sqn};

use crate::Outcome;
use crate::input::Input;

const TOPIC: u32 = 7;
const TRANSPORT: u32 = 0x77;
/// Longest fragment of a message.
const FRAGMENT_BYTES: usize = 40;
const HOLD_BYTES: usize = 2_000;
const OUTSTANDING: u32 = 8;

/// Input: operations on a source with retention and a receiver that asks it, and bytes that either may get
/// from a peer gone mad. What the receiver delivers and reports has no hole and no overlap.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let mut world = World::new(input.u8());
    let mut refused = None;
    while !input.is_empty() {
        match input.u8() % 8 {
            0 => world.send(input.u8(), true),
            1 => world.send(input.u8(), false),
            2 => world.connect(),
            3 => world.disconnect(),
            4 => world.talk(input.u8()),
            5 => refused = world.answer(input.chunk()).err().or(refused),
            6 => refused = world.ask(input.chunk()).err().or(refused),
            _ => world.wait(input.u8()),
        }
        world.check();
    }
    world.end();
    match refused {
        Some(error) => Outcome::refused(error),
        None => Outcome::accepted(world.feature()),
    }
}

struct World {
    now: Nanos,
    requester: Requester,
    responder: Responder,
    client: Option<ClientId>,
    heard: Heard,
    counters: Arc<counters::table::LbmRecovery>,
    next: u32,
    begun: bool,
    /// Live messages not told of yet were lost from here on.
    lost_from: Option<u32>,
    answers: VecDeque<u8>,
}

impl World {
    fn new(choice: u8) -> World {
        let retention = RetentionConfig {
            retransmit_retention_size_limit: 1 << 16,
            retransmit_retention_message_maximum: if choice & 1 == 0 { 20 } else { 1_000 },
            retransmit_retention_requests_maximum: 5,
            ..RetentionConfig::default()
        };
        let config = RecoveryConfig {
            use_late_join: choice & 2 == 0,
            use_otr: choice & 4 == 0,
            retransmit_request_outstanding_maximum: OUTSTANDING,
            retransmit_request_interval: Duration::from_millis(10),
            retransmit_request_generation_interval: Duration::from_millis(50),
            retransmit_message_caching_proximity: 10,
            hold_maximum_bytes: HOLD_BYTES as u64,
            maximum_message_size: 4_096,
            ..RecoveryConfig::default()
        };
        let counters = Arc::new(counters::table::LbmRecovery::default());
        let own = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 14_393);
        let mut requester = Requester::new(&config, TRANSPORT, own, counters.clone()).expect("allowed");
        requester.add_topic(Nanos(1), TOPIC, 1, choice & 8 == 0).expect("free");
        let mut responder = Responder::new(&retention, Nanos(1), Arc::default()).expect("allowed");
        responder.add_topic(TRANSPORT, TOPIC, &retention).expect("allowed");
        World {
            now: Nanos(1),
            requester,
            responder,
            client: None,
            heard: Heard::default(),
            counters,
            next: 0,
            begun: false,
            lost_from: None,
            answers: VecDeque::new(),
        }
    }

    /// The source sends a message, in fragments if it is longer than one; it arrives live or is lost.
    fn send(&mut self, len: u8, arrives: bool) {
        let (payload, first) = (vec![first_byte(self.next); usize::from(len)], self.next);
        let whole = payload.len() <= FRAGMENT_BYTES;
        let mut out = Vec::new();
        for (at, piece) in payload.chunks(FRAGMENT_BYTES).enumerate() {
            let mut chain = Chain::default();
            let (offset, length) = ((at * FRAGMENT_BYTES) as u32, payload.len() as u32);
            if !whole {
                chain.push(&Header::Frag { flags: 0, first_sqn: Sqn(first), offset, length });
            }
            lbmc::emit_message(&mut out, Kind::Message, Some((TOPIC, Sqn(self.next))), &chain, Some(piece));
            self.next += 1;
        }
        if payload.is_empty() {
            lbmc::emit_message(
                &mut out,
                Kind::Message,
                Some((TOPIC, Sqn(first))),
                &Chain::default(),
                Some(&[]),
            );
            self.next += 1;
        }
        self.responder.retain(self.now, TRANSPORT, &out);
        if !arrives {
            self.lost_from.get_or_insert(first);
            return;
        }
        let mut tap = self.requester.tap(self.now, &mut self.heard);
        let lost = self.lost_from.take().filter(|_| self.begun);
        if !self.begun {
            self.begun = true;
            tap.begin_of_stream(BeginOfStream { token: 1, topic_index: TOPIC, first: Sqn(first) });
        }
        if let Some(lost) = lost {
            tap.lost(Lost { token: 1, topic_index: TOPIC, first: Sqn(lost), count: first - lost });
        }
        tap.deliver(Delivered {
            token: 1,
            topic_index: TOPIC,
            first_sqn: Sqn(first),
            sqn: Sqn(self.next - 1),
            payload: &payload,
            headers: Headers::NONE,
            recovered: false,
            via: Via::Transport,
        });
    }

    fn connect(&mut self) {
        if self.client.is_none() {
            self.client = self.responder.open();
            self.requester.on_connected();
        }
    }

    fn disconnect(&mut self) {
        match self.client.take() {
            Some(client) => {
                self.responder.close(client);
                self.answers.clear();
                self.requester.on_disconnected();
            }
            None => self.requester.on_refused(&mut self.heard),
        }
    }

    /// Both sides of the connection say what they have to say; up to so many messages.
    fn talk(&mut self, count: u8) {
        let Some(client) = self.client else { return };
        self.requester.on_wakeup(self.now, &mut self.heard);
        for _ in 0..=count % 16 {
            let Some(asked) = self.requester.poll_transmit(self.now).map(<[u8]>::to_vec) else {
                assert!(self.requester.next_wakeup() > self.now, "who was served has time");
                return;
            };
            let taken = decode(&asked, |m| assert!(self.responder.on_message(client, m)));
            taken.expect("what it asks is well-formed");
            let mut out = Vec::new();
            while self.responder.poll_transmit(self.now, client, 1 << 16, &mut out) {}
            let (now, heard) = (self.now, &mut self.heard);
            decode(&out, |m| assert!(self.requester.on_message(now, m, heard))).expect("well-formed");
        }
    }

    /// Bytes that a source sends which is none.
    fn answer(&mut self, bytes: &[u8]) -> Result<(), lbt::stream::StreamError> {
        let (now, heard) = (self.now, &mut self.heard);
        heard.content_is_known = false;
        decode(bytes, |m| {
            self.requester.on_message(now, m, heard);
        })
    }

    /// Bytes that a receiver sends which is none.
    fn ask(&mut self, bytes: &[u8]) -> Result<(), lbt::stream::StreamError> {
        let Some(client) = self.client else { return Ok(()) };
        let taken = decode(bytes, |m| {
            self.responder.on_message(client, m);
        });
        let mut out = Vec::new();
        while self.responder.poll_transmit(self.now, client, 1 << 16, &mut out) {}
        taken
    }

    fn wait(&mut self, ms: u8) {
        self.now += Duration::from_millis(ms.into());
        self.requester.on_wakeup(self.now, &mut self.heard);
    }

    fn check(&self) {
        assert!(self.requester.outstanding() <= OUTSTANDING as usize);
        assert!(self.counters.hold_bytes.get() <= HOLD_BYTES as u64 || !self.requester.wants_connection());
        assert!(self.requester.memory_bytes() < 1 << 20);
    }

    /// After the end and the generation interval nothing waits.
    fn end(&mut self) {
        if self.begun {
            let next = Sqn(self.next);
            let end = EndOfStream {
                token: 1,
                topic_index: TOPIC,
                reason: EndReason::Ended,
                next,
                tail_unknown: true,
            };
            self.requester.tap(self.now, &mut self.heard).end_of_stream(end);
        }
        self.wait(250);
        assert!(self.requester.is_idle() && self.requester.next_wakeup() == Nanos::NEVER);
        assert_eq!(self.heard.is_over, self.begun);
    }

    fn feature(&self) -> (u64, u64, u64, bool) {
        let c = &self.counters;
        (
            c.late_join_msgs.get().min(2),
            c.otr_msgs.get().min(2),
            c.lost_events.get().min(2),
            self.heard.is_over,
        )
    }
}

fn decode(bytes: &[u8], mut take: impl FnMut(&StreamMessage<'_>)) -> Result<(), lbt::stream::StreamError> {
    StreamDecoder::new(4_096).push(bytes, |message| take(&message))
}

fn first_byte(number: u32) -> u8 {
    (number * 7 + 1) as u8
}

struct Heard {
    expected: Option<u32>,
    is_over: bool,
    /// Nobody has made answers up.
    content_is_known: bool,
}

impl Default for Heard {
    fn default() -> Heard {
        Heard { expected: None, is_over: false, content_is_known: true }
    }
}

impl Heard {
    fn advance(&mut self, first: Sqn, count: u32) {
        assert!(!self.is_over, "nothing comes after the end");
        assert_eq!(self.expected, Some(first.0), "no hole, no overlap");
        self.expected = Some(first.0.wrapping_add(count));
    }
}

impl DeliverySink for Heard {
    fn deliver(&mut self, m: Delivered<'_>) {
        self.advance(m.first_sqn, m.sqn.0.wrapping_sub(m.first_sqn.0) + 1);
        let expected = first_byte(m.first_sqn.0);
        assert!(!self.content_is_known || m.payload.iter().all(|&byte| byte == expected), "content");
    }
    fn lost(&mut self, lost: Lost) {
        assert!(lost.count > 0);
        self.advance(lost.first, lost.count);
    }
    fn begin_of_stream(&mut self, begin: BeginOfStream) {
        assert!(self.expected.is_none(), "it begins once");
        self.expected = Some(begin.first.0);
    }
    fn end_of_stream(&mut self, end: EndOfStream) {
        assert_eq!(self.expected, Some(end.next.0));
        self.is_over = true;
    }
}
