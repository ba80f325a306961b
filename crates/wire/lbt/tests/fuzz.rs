//! Hostile input with fixed seeds: mutated packets, and random operations on both ends.
//!
//! Nothing may panic, memory stays within its bounds, and a topic in order still gets every number at most
//! once and in order, however the numbers jump.

mod support;

use counters::table::{LbmrResolver, LbtrmSource};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::{FROM, ReceiverBench, SESSION, data_of};
use testkit::repeat::is_one_seed;
use tickcast_lbt::config::{Order, ReceiverConfig, ResolverConfig, SourceConfig};
use tickcast_lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, Lost};
use tickcast_lbt::resolution::{QueryId, Resolver, ResolverSink, SourceRecord};
use tickcast_lbt::rm::{Source, TopicId};
use tickcast_lbt::stream::StreamDecoder;
use tickcast_lbt::wire::lbmc::{self, Chain, Header, Kind, Messages};
use tickcast_lbt::wire::lbmr;
use tickcast_lbt::wire::lbtrm::{Nak, Ncf, NcfReason, Packet, SessionMessage};
use units::{Nanos, Rng, Sqn};

/// The payloads of all golden packets, good and bad.
fn corpus() -> Vec<Vec<u8>> {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut payloads = Vec::new();
    for dir in [vectors.clone(), vectors.join("bad")] {
        let entries = std::fs::read_dir(dir).expect("part of the repository");
        let mut files: Vec<_> = entries.map(|e| e.expect("readable").path()).collect();
        files.sort();
        for file in files.iter().filter(|f| f.extension().is_some_and(|x| x == "json")) {
            let text = std::fs::read_to_string(file).expect("readable");
            let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
            payloads.extend(rows.iter().filter_map(|r| r["payload_hex"].as_str()).map(unhex));
        }
    }
    payloads.retain(|p| !p.is_empty());
    payloads
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).expect("hexadecimal") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Up to four changes to a packet; what names the session is left alone now and then.
fn mutated(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let pick = |rng: &mut Rng| corpus[rng.below(corpus.len() as u64) as usize].clone();
    let mut packet = pick(rng);
    let spared = if rng.chance(0.8) { 8 } else { 0 };
    let changes = if rng.chance(0.3) { 0 } else { 1 + rng.below(4) };
    for _ in 0..changes {
        let len = packet.len() as u64;
        if len <= spared {
            break;
        }
        let at = (spared + rng.below(len - spared)) as usize;
        match rng.below(7) {
            0 => packet[at] ^= 1 << rng.below(8),
            1 => packet[at] = [0, 1, 0x7f, 0x80, 0xfe, 0xff][rng.below(6) as usize],
            2 => packet.truncate(at),
            3 => packet.extend((0..rng.below(40)).map(|_| rng.next_u32() as u8).collect::<Vec<_>>()),
            4 => packet.truncate(at.max(1)),
            5 => {
                let other = pick(rng);
                let from = rng.below(other.len() as u64) as usize;
                packet.truncate(at);
                packet.extend_from_slice(&other[from..]);
            }
            _ => {
                let value = rng.next_u32().to_be_bytes();
                let end = (at + 4).min(packet.len());
                packet[at..end].copy_from_slice(&value[..end - at]);
            }
        }
    }
    packet
}

/// Checks the promise of topics in order: each number once, ascending, nothing left out.
#[derive(Default)]
struct Cover {
    next: BTreeMap<u64, u32>,
    arrival: bool,
    messages: u64,
    lost: u64,
}

impl Cover {
    fn take(&mut self, token: u64, first: Sqn, count: u32) {
        let next = self.next.get_mut(&token).expect("a stream begins before it goes on");
        if !self.arrival {
            assert_eq!(*next, first.0, "in order, once, without a hole");
            *next = first.0.wrapping_add(count);
        }
    }
}

impl DeliverySink for Cover {
    fn deliver(&mut self, m: Delivered<'_>) {
        assert!(m.headers.iter().count() < 70_000);
        self.messages += 1;
        self.take(m.token, m.first_sqn, m.sqn.0.wrapping_sub(m.first_sqn.0).wrapping_add(1));
    }
    fn lost(&mut self, lost: Lost) {
        self.lost += u64::from(lost.count);
        self.take(lost.token, lost.first, lost.count);
    }
    fn begin_of_stream(&mut self, begin: BeginOfStream) {
        assert_eq!(self.next.insert(begin.token, begin.first.0), None, "a stream begins once");
    }
    fn end_of_stream(&mut self, end: EndOfStream) {
        let next = self.next.remove(&end.token);
        assert!(self.arrival || next == Some(end.next.0));
    }
}

struct Nobody;

impl ResolverSink for Nobody {
    fn source_found(&mut self, _: QueryId, _: &str, _: &SourceRecord) {}
}

fn small_receiver(order: Order) -> ReceiverConfig {
    let mut config = ReceiverConfig { maximum_gaps: 50, maximum_missing: 1_000, ..ReceiverConfig::default() };
    config.delivery.hold_maximum_bytes = 256 << 10;
    config.delivery.delivery_control_maximum_total_map_entries = 8_192;
    config.delivery.maximum_message_size = 100_000;
    config.delivery.reassembly_maximum_bytes = 200_000;
    config.delivery.ordered_delivery = order;
    config
}

/// What [`small_receiver`] may hold: the ring, entries, gaps, buffers.
const RECEIVER_BYTES_MAX: usize = (256 << 10) + 2 * 8_192 * 40 + 3 * 200_000 + 200_000;

#[test]
fn mutated_packets_panic_nowhere_and_leave_every_promise_intact() {
    let _repeat = testkit::repeat!();
    let corpus = corpus();
    assert!(corpus.len() > 150);
    for (seed, order) in [(1, Order::Topic), (2, Order::Arrival), (3, Order::Topic)] {
        let mut rng = Rng::new(seed);
        let mut b = ReceiverBench::new(&small_receiver(order));
        let mut cover = Cover { arrival: order == Order::Arrival, ..Cover::default() };
        let mut source = source_with_traffic();
        let counters = Arc::new(LbmrResolver::default());
        let config = ResolverConfig { resolver_cache_maximum: 100, ..ResolverConfig::default() };
        let mut resolver = Resolver::new(&config, b.now, counters.clone()).expect("allowed");
        resolver.query_prefix(b.now, "p", &mut Nobody).expect("a good name");
        for step in 0..60_000u64 {
            if step % 400 == 0 {
                // a fresh session, since one hostile packet may move the old one beyond reach
                let now = b.now;
                b.receiver.close(&mut cover);
                b = ReceiverBench::new(&small_receiver(order));
                b.now = now;
                for (token, topic) in [0x0a11_ce01u32, 0x0b0b_0002].into_iter().enumerate() {
                    b.receiver.subscribe(topic, token as u64).expect("free");
                }
            }
            let packet = mutated(&mut rng, &corpus);
            b.now.0 += rng.below(3_000_000);
            read_everything(&packet);
            let _ = StreamDecoder::new(100_000).push(&packet, |m| assert!(m.payload.len() <= 100_000));
            let _ = b.receiver.on_datagram(b.now, FROM, &packet, &mut cover);
            b.receiver.on_wakeup(b.now, &mut cover);
            while b.receiver.poll_transmit(b.now).is_some() {}
            assert!(b.receiver.memory_bytes() < RECEIVER_BYTES_MAX, "{}", b.receiver.memory_bytes());
            let _ = source.on_datagram(b.now, FROM, &packet);
            let _ = resolver.on_datagram(b.now, &packet, &mut Nobody);
            while resolver.poll_transmit(b.now).is_some() {}
        }
        assert!(cover.messages > 150, "{} messages got through", cover.messages);
        assert!(counters.records_rcved.get() > 100 && counters.tr_dgrams_dropped_malformed.get() > 100);
    }
}

/// Walks through all views of a packet.
fn read_everything(packet: &[u8]) {
    if let Ok(Packet::Data(data)) = Packet::parse(packet) {
        let checked = lbmc::check(data.messages);
        let mut count = 0;
        for message in Messages::new(data.messages).map_while(Result::ok) {
            count += 1;
            assert!(message.data().len() <= packet.len());
            message.headers.iter().for_each(drop);
        }
        assert!(checked.is_err() || checked == Ok(count));
    }
    if let Ok(lbmr) = lbmr::Packet::parse(packet) {
        assert_eq!(lbmr.queries.iter().count(), lbmr.queries.len());
        assert_eq!(lbmr.records.iter().count(), lbmr.records.len());
        let options = lbmr.records.iter().filter_map(|r| r.options);
        assert!(options.map(|o| o.iter().count()).sum::<usize>() < packet.len());
    }
}

fn source_with_traffic() -> Source {
    let counters = Arc::new(LbtrmSource::default());
    let mut source = Source::new(&SourceConfig::default(), SESSION, Nanos::ZERO, counters).expect("allowed");
    let topic = source.add_topic(Nanos::ZERO, 1);
    for i in 0..100u32 {
        source.send(Nanos::ZERO, topic, &[&i.to_be_bytes()]).expect("room");
        source.flush();
    }
    while let Some(run) = source.poll_transmit(Nanos::ZERO) {
        let count = run.count;
        source.sent(Nanos::ZERO, count);
    }
    source
}

#[test]
fn random_operations_on_a_source_give_whole_datagrams_in_order_within_its_memory() {
    let mut datagrams = 0;
    testkit::for_each_seed!(0..40, |seed| {
        let mut rng = Rng::new(seed);
        let config = SourceConfig {
            datagram_max_size: 500 + rng.below(2_000) as u32,
            transmission_window_size: 64 << 10,
            transport_session_maximum_buffer: 16 << 10,
            maximum_message_size: 20 << 10,
            implicit_batching_minimum_length: 1 + rng.below(3_000) as u32,
            retransmit_queue_maximum: 64,
            ..SourceConfig::default()
        };
        let counters = Arc::new(LbtrmSource::default());
        let mut source = Source::new(&config, SESSION, Nanos::ZERO, counters.clone()).expect("allowed");
        let mut walk = SourceWalk { topics: Vec::new(), now: Nanos::ZERO, next: 0, next_index: 0 };
        let memory = source.memory_bytes();
        for _ in 0..3_000 {
            walk.step(&mut rng, &mut source);
            assert!(source.memory_bytes() < memory + 200_000);
            assert!(counters.txw_bytes.get() <= 64 << 10);
        }
        datagrams += walk.next;
    });
    assert!(datagrams > 3_000 || is_one_seed(), "{datagrams} datagrams");
}

struct SourceWalk {
    topics: Vec<TopicId>,
    now: Nanos,
    /// The number of the next datagram that is sent for the first time.
    next: u32,
    next_index: u32,
}

impl SourceWalk {
    fn step(&mut self, rng: &mut Rng, source: &mut Source) {
        let topic = self.topics.get(rng.below(self.topics.len().max(1) as u64) as usize).copied();
        match (rng.below(12), topic) {
            (0, _) if self.topics.len() < 20 => {
                self.topics.push(source.add_topic(self.now, self.next_index));
                self.next_index += 1;
            }
            (1, Some(topic)) if rng.chance(0.1) => {
                source.remove_topic(topic);
                self.topics.retain(|&t| t != topic);
            }
            (2..=4, Some(topic)) => {
                let limit = if rng.chance(0.1) { 22_000 } else { 400 };
                let payload = vec![rng.next_u32() as u8; rng.below(limit) as usize];
                let _ = source.send(self.now, topic, &[&payload, b"tail"]);
            }
            (5, Some(topic)) => {
                if let Ok(mut claim) = source.claim(self.now, topic, rng.below(400) as usize) {
                    claim.payload().fill(7);
                    if rng.chance(0.7) {
                        claim.commit();
                    }
                }
            }
            (6, _) => source.flush(),
            (7, _) => self.now += Duration::from_micros(rng.below(20_000)),
            (8, _) => source.on_wakeup(self.now),
            (9, _) => {
                let near =
                    |rng: &mut Rng| Sqn(self.next.wrapping_sub(rng.below(120) as u32).wrapping_add(20));
                let numbers: Vec<_> = (0..rng.below(200)).map(|_| near(rng)).collect();
                let mut nak = Vec::new();
                Nak::emit(SESSION, &numbers, &mut nak);
                source.on_datagram(self.now, FROM, &nak).expect("well-formed");
            }
            _ => (0..rng.below(20)).for_each(|_| self.transmit(rng, source)),
        }
    }

    fn transmit(&mut self, rng: &mut Rng, source: &mut Source) {
        let Some(run) = source.poll_transmit(self.now) else { return };
        let count = rng.below(u64::from(run.count) + 1) as u32;
        for datagram in run.datagrams().take(count as usize) {
            let Ok(Packet::Data(data)) = Packet::parse(datagram) else { continue };
            lbmc::check(data.messages).expect("whole messages");
            if !data.is_retransmission() {
                assert_eq!(data.sqn, Sqn(self.next), "new datagrams go out in order");
                self.next += 1;
            }
        }
        source.sent(self.now, count);
    }
}

#[test]
fn random_conduct_of_a_source_keeps_the_promises_of_a_receiver() {
    let mut delivered = 0;
    testkit::for_each_seed!(0..400, |seed| {
        let order = if seed % 4 == 3 { Order::Arrival } else { Order::Topic };
        let mut rng = Rng::new(seed);
        let mut b =
            ReceiverBench::new(&ReceiverConfig { late_start: seed % 5 == 0, ..small_receiver(order) });
        let mut cover = Cover { arrival: order == Order::Arrival, ..Cover::default() };
        let (mut lead, mut numbers, mut tokens) = (rng.next_u32(), [rng.next_u32(); 3], 0u64);
        for _ in 0..1_500 {
            match rng.below(20) {
                0 => {
                    // tokens are not used twice: an unsubscribed stream has no end
                    let _ = b.receiver.subscribe(rng.below(3) as u32, tokens);
                    tokens += 1;
                }
                1 if rng.chance(0.1) => b.receiver.unsubscribe(rng.below(3) as u32),
                2 => b.now += Duration::from_millis(rng.below(300)),
                3 => {
                    let (sm_lead, trail) = (near(&mut rng, lead, 30), near(&mut rng, lead, 60));
                    let mut sm = Vec::new();
                    SessionMessage::new(SESSION, 0, sm_lead, trail).emit(&mut sm);
                    let _ = b.receiver.on_datagram(b.now, FROM, &sm, &mut cover);
                }
                4 => {
                    let list: Vec<_> = (0..rng.below(20)).map(|_| near(&mut rng, lead, 40)).collect();
                    let reason = [NcfReason::DoNotRetry, NcfReason::Shed, NcfReason::Unknown(7)]
                        [rng.below(3) as usize];
                    let mut ncf = Vec::new();
                    Ncf::emit(SESSION, near(&mut rng, lead, 90), reason, &list, &mut ncf);
                    let _ = b.receiver.on_datagram(b.now, FROM, &ncf, &mut cover);
                }
                _ => {
                    lead = if rng.chance(0.7) { lead.wrapping_add(1) } else { near(&mut rng, lead, 20).0 };
                    let messages = random_messages(&mut rng, &mut numbers);
                    let trail = lead.wrapping_sub(rng.below(100) as u32);
                    let datagram = data_of(lead, trail, rng.chance(0.2), &messages);
                    let _ = b.receiver.on_datagram(b.now, FROM, &datagram, &mut cover);
                }
            }
            b.receiver.on_wakeup(b.now, &mut cover);
            while b.receiver.poll_transmit(b.now).is_some() {}
            assert!(b.receiver.memory_bytes() < RECEIVER_BYTES_MAX, "{}", b.receiver.memory_bytes());
            if b.receiver.has_ended() {
                break;
            }
        }
        b.receiver.close(&mut cover);
        assert_eq!(b.delivery.order_map_entries.get(), 0, "seed {seed}");
        delivered += cover.messages;
    });
    // what jumps without a loss is asked for again, and left out
    assert!(delivered > 40_000 || is_one_seed(), "{delivered} messages got through");
}

fn near(rng: &mut Rng, center: u32, span: u32) -> Sqn {
    Sqn(center.wrapping_sub(span).wrapping_add(rng.below(u64::from(2 * span)) as u32))
}

/// A few messages that mostly follow each other, with fragments, announcements and jumps among them.
fn random_messages(rng: &mut Rng, numbers: &mut [u32; 3]) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..rng.below(5) {
        let topic = rng.below(3) as u32;
        let number = &mut numbers[topic as usize];
        *number = match rng.below(10) {
            0 => near(rng, *number, 20).0,
            1 if rng.chance(0.05) => rng.next_u32(),
            _ => number.wrapping_add(1),
        };
        let mut chain = Chain::default();
        match rng.below(8) {
            0 => {
                let first_sqn = Sqn(number.wrapping_sub(rng.below(3) as u32));
                let (offset, length) = (rng.below(3) as u32 * 10, 10 + rng.below(3) as u32 * 10);
                chain.push(&Header::Frag { flags: 0, first_sqn, offset, length });
            }
            1 => {
                let last = near(rng, *number, 5);
                lbmc::emit_tsni(&mut out, &[(topic, last), (99, Sqn(0))]);
                continue;
            }
            _ => {}
        }
        lbmc::emit_message(&mut out, Kind::Message, Some((topic, Sqn(*number))), &chain, Some(b"0123456789"));
    }
    if rng.chance(0.001) {
        lbmc::emit_message(&mut out, Kind::EndOfTransport, None, &Chain::default(), None);
    }
    out
}
