//! What the engine costs, without sockets: messages from one source through datagrams to one receiver, in
//! one thread.
//!
//! ```text
//! cargo run --release -p tickcast-lbt --example engine_speed [SECONDS]
//! ```
//!
//! Each figure is the best of several rounds of equal work: what the code takes when the machine leaves it
//! alone.

use counters::table::{LbmDelivery, LbtrmReceiver, LbtrmSource};
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickcast_lbt::config::{ReceiverConfig, SourceConfig};
use tickcast_lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, Lost};
use tickcast_lbt::rm::{Receiver, SessionKey, Source, TopicId};
use tickcast_lbt::wire::lbmc;
use tickcast_lbt::wire::lbtrm::{FLAG_RETRANSMISSION, Packet, SessionHeader};
use units::Nanos;

const SESSION: SessionHeader = SessionHeader { ucast_port: 14391, session_id: 1 };
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const FROM: SocketAddrV4 = SocketAddrV4::new(ADDRESS, 40_000);
const ROUND_MESSAGES: u64 = 200_000;

/// Reads the first word of each message, as an application would at least.
#[derive(Default)]
struct Reader {
    messages: u64,
    lost: u64,
    sum: u64,
}

impl DeliverySink for Reader {
    #[inline]
    fn deliver(&mut self, message: Delivered<'_>) {
        self.messages += 1;
        let word = message.payload.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        self.sum = self.sum.wrapping_add(word);
    }
    fn lost(&mut self, lost: Lost) {
        self.lost += u64::from(lost.count);
    }
    fn begin_of_stream(&mut self, _: BeginOfStream) {}
    fn end_of_stream(&mut self, _: EndOfStream) {}
}

struct Pair {
    source: Source,
    receiver: Receiver,
    topics: Vec<TopicId>,
    reader: Reader,
    now: Nanos,
    /// Every how many-th datagram is lost on the way and retransmitted; 0 for none.
    lose_every: u64,
    datagrams: u64,
}

impl Pair {
    fn new(datagram_max: u32, topics: u32, lose_every: u64) -> Pair {
        let config = SourceConfig {
            datagram_max_size: datagram_max,
            data_rate_limit: 0,
            retransmit_rate_limit: 1_000_000_000_000,
            transport_session_maximum_buffer: 1 << 20,
            ..SourceConfig::default()
        };
        let now = Nanos(1);
        let mut source =
            Source::new(&config, SESSION, now, Arc::new(LbtrmSource::default())).expect("allowed");
        source.prefault();
        let key = SessionKey { source: ADDRESS, session: SESSION };
        let counters = (Arc::new(LbtrmReceiver::default()), Arc::new(LbmDelivery::default()));
        let mut receiver =
            Receiver::new(&ReceiverConfig::default(), key, 1, now, counters.0, counters.1).expect("allowed");
        let topics = (0..topics)
            .map(|i| {
                receiver.subscribe(1_000 + i, u64::from(i)).expect("free");
                source.add_topic(now, 1_000 + i)
            })
            .collect();
        Pair { source, receiver, topics, reader: Reader::default(), now, lose_every, datagrams: 0 }
    }

    fn send(&mut self, count: u64, payload: &[u8]) {
        let mut topic = 0;
        for _ in 0..count {
            while self.source.send(self.now, self.topics[topic], &[payload]).is_err() {
                self.carry();
            }
            topic = if topic + 1 == self.topics.len() { 0 } else { topic + 1 };
        }
        self.source.flush();
        self.carry();
    }

    /// Brings what is ready to the receiver, and its NAKs back.
    fn carry(&mut self) {
        self.now.0 += 100_000;
        while let Some(run) = self.source.poll_transmit(self.now) {
            let count = run.count;
            for datagram in run.datagrams() {
                self.datagrams += 1;
                let original = datagram[16] & FLAG_RETRANSMISSION == 0;
                let unlucky = self.lose_every != 0 && self.datagrams.is_multiple_of(self.lose_every);
                if original && unlucky {
                    continue;
                }
                let result = self.receiver.on_datagram(self.now, FROM, datagram, &mut self.reader);
                result.expect("well-formed");
            }
            self.source.sent(self.now, count);
        }
        self.receiver.on_wakeup(self.now, &mut self.reader);
        while let Some(feedback) = self.receiver.poll_transmit(self.now) {
            self.source.on_datagram(self.now, FROM, feedback.datagram).expect("a NAK");
        }
    }
}

/// Nanoseconds per unit: the best of many rounds within `budget`.
fn best(budget: Duration, units: u64, mut round: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let mut best = f64::MAX;
    round();
    while begin.elapsed() < budget {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed().as_nanos() as f64 / units as f64);
    }
    best
}

fn both_ends(budget: Duration, datagram_max: u32, payload: usize, topics: u32, lose_every: u64) {
    let mut pair = Pair::new(datagram_max, topics, lose_every);
    let payload = vec![7u8; payload];
    let ns = best(budget, ROUND_MESSAGES, || pair.send(ROUND_MESSAGES, &payload));
    for _ in 0..100 {
        pair.carry();
    }
    assert_eq!(pair.reader.lost, 0, "everything is recovered");
    assert!(pair.reader.messages > 0 && pair.reader.sum != 0);
    println!(
        "both ends  {:>5} B datagrams  {:>4} B messages  {:>4} topics  1 in {:<4} lost  \
         {ns:>7.2} ns/message  {:>6.2} M/s",
        datagram_max,
        payload.len(),
        topics,
        lose_every,
        1_000.0 / ns
    );
}

/// Source and receiver apart: datagrams are made once and taken again and again by fresh receivers.
fn each_end(budget: Duration, datagram_max: u32) {
    let payload = [7u8; 64];
    let mut pair = Pair::new(datagram_max, 1, 0);
    let sending = best(budget, ROUND_MESSAGES, || {
        for _ in 0..ROUND_MESSAGES {
            while pair.source.send(pair.now, pair.topics[0], &[&payload]).is_err() {
                discard(&mut pair.source, pair.now);
            }
        }
        discard(&mut pair.source, pair.now);
    });
    println!("send       {datagram_max:>5} B datagrams    64 B messages  {sending:>7.2} ns/message");

    let mut pair = Pair::new(datagram_max, 1, 0);
    let claiming = best(budget, ROUND_MESSAGES, || {
        for _ in 0..ROUND_MESSAGES {
            loop {
                if let Ok(mut claim) = pair.source.claim(pair.now, pair.topics[0], 64) {
                    claim.payload()[..8].copy_from_slice(&payload[..8]);
                    black_box(claim.commit());
                    break;
                }
                discard(&mut pair.source, pair.now);
            }
        }
        discard(&mut pair.source, pair.now);
    });
    println!("claim      {datagram_max:>5} B datagrams    64 B messages  {claiming:>7.2} ns/message");
    receiving(budget, datagram_max, &payload);
}

fn receiving(budget: Duration, datagram_max: u32, payload: &[u8]) {
    let mut pair = Pair::new(datagram_max, 1, 0);
    let mut datagrams: Vec<Vec<u8>> = Vec::new();
    let mut messages = 0;
    while messages < ROUND_MESSAGES {
        while pair.source.send(pair.now, pair.topics[0], &[payload]).is_ok() {
            messages += 1;
        }
        while let Some(run) = pair.source.poll_transmit(pair.now) {
            let count = run.count;
            datagrams.extend(run.datagrams().map(<[u8]>::to_vec));
            pair.source.sent(pair.now, count);
        }
    }
    let taking = best(budget, messages, || {
        let mut fresh = Pair::new_receiver();
        for datagram in &datagrams {
            let result = fresh.0.on_datagram(Nanos(1), FROM, datagram, &mut fresh.1);
            result.expect("well-formed");
        }
        black_box(fresh.1.sum);
    });
    println!("receive    {datagram_max:>5} B datagrams    64 B messages  {taking:>7.2} ns/message");
    let checking = best(budget / 4, messages, || {
        for datagram in &datagrams {
            if let Ok(Packet::Data(data)) = Packet::parse(datagram) {
                black_box(lbmc::check(data.messages).is_ok());
            }
        }
    });
    println!("  of it, checking the datagram               {checking:>7.2} ns/message");
}

impl Pair {
    fn new_receiver() -> (Receiver, Reader) {
        let key = SessionKey { source: ADDRESS, session: SESSION };
        let counters = (Arc::new(LbtrmReceiver::default()), Arc::new(LbmDelivery::default()));
        let config = ReceiverConfig::default();
        let mut receiver = Receiver::new(&config, key, 1, Nanos(1), counters.0, counters.1).expect("allowed");
        receiver.subscribe(1_000, 0).expect("free");
        (receiver, Reader::default())
    }
}

/// One message a datagram, as at low rates: what a call costs when nothing is shared.
fn per_datagram(budget: Duration) {
    const ROUND: u64 = 20_000;
    let payload = [7u8; 64];
    let mut pair = Pair::new(1_472, 1, 0);
    let sending = best(budget, ROUND, || {
        for _ in 0..ROUND {
            pair.now.0 += 1_000;
            pair.source.send(pair.now, pair.topics[0], &[&payload]).expect("room");
            discard(&mut pair.source, pair.now);
        }
    });
    println!("send, flush, poll_transmit, sent              {sending:>7.2} ns/datagram of one 64 B message");
    let mut datagrams: Vec<Vec<u8>> = Vec::new();
    for _ in 0..ROUND {
        pair.source.send(pair.now, pair.topics[0], &[&payload]).expect("room");
        pair.source.flush();
        let run = pair.source.poll_transmit(pair.now).expect("flushed");
        datagrams.push(run.bytes.to_vec());
        pair.source.sent(pair.now, 1);
    }
    let taking = best(budget, ROUND, || {
        let mut fresh = Pair::new_receiver();
        for datagram in &datagrams {
            fresh.0.on_datagram(Nanos(1), FROM, datagram, &mut fresh.1).expect("well-formed");
        }
        black_box(fresh.1.sum);
    });
    println!("on_datagram                                   {taking:>7.2} ns/datagram of one 64 B message");
    let (receiver, _) = Pair::new_receiver();
    let asking = best(budget / 4, ROUND, || {
        for _ in 0..ROUND {
            black_box(black_box(&pair.source).next_wakeup());
            black_box(black_box(&receiver).next_wakeup());
        }
    });
    println!("next_wakeup of both ends                      {asking:>7.2} ns");
}

fn discard(source: &mut Source, now: Nanos) {
    source.flush();
    while let Some(run) = source.poll_transmit(now) {
        let count = run.count;
        black_box(run.bytes);
        source.sent(now, count);
    }
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1.0);
    let budget = Duration::from_secs_f64(seconds);
    for datagram_max in [1_472, 8_972] {
        both_ends(budget, datagram_max, 64, 1, 0);
    }
    for topics in [16, 1_024] {
        both_ends(budget, 1_472, 64, topics, 0);
    }
    for payload in [16, 256, 1_024] {
        both_ends(budget, 1_472, payload, 1, 0);
    }
    for lose_every in [1_000, 100, 20] {
        both_ends(budget, 1_472, 64, 1, lose_every);
    }
    for datagram_max in [1_472, 8_972] {
        each_end(budget, datagram_max);
    }
    per_datagram(budget);
}
