//! What topic resolution costs with many topics, without sockets: microseconds an operation.
//!
//! ```text
//! cargo run --release -p tickcast-lbt --example resolution_speed [TOPICS]...
//! ```
//!
//! Each figure is the mean over all topics of one run. All topics are of one session, but where a row says other.

use counters::table::LbmrResolver;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickcast_lbt::config::ResolverConfig;
use tickcast_lbt::resolution::{QueryId, Resolver, ResolverSink, SourceRecord, TransportSession};
use tickcast_lbt::wire::lbmr::{Kind, Packet, ResolutionRequest};
use units::Nanos;

#[derive(Default)]
struct Count(u64);

impl ResolverSink for Count {
    fn source_found(&mut self, _: QueryId, _: &str, _: &SourceRecord) {
        self.0 += 1;
    }
}

fn record(session: u32, topic_index: u32) -> SourceRecord {
    let address = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 1), 14_371);
    let session = TransportSession::Tcp { address, session_id: Some(session) };
    SourceRecord { topic_index, session, request: None, late_join: None, origin: None }
}

/// As contexts of the messaging library have it.
fn resolver() -> (Resolver, Arc<LbmrResolver>) {
    let config = ResolverConfig {
        resolver_initial_advertisements_per_second: 25_000,
        resolver_initial_advertisement_bps: 20_000_000,
        resolver_sustain_advertisement_bps: 5_000_000,
        resolver_initial_queries_per_second: 25_000,
        resolver_initial_query_bps: 10_000_000,
        resolver_cache_maximum: 4 << 20,
        resolver_query_quiescent_interval: Duration::from_secs(10),
        resolver_advertisement_quiescent_interval: Duration::from_secs(10),
        ..ResolverConfig::default()
    };
    let counters = Arc::new(LbmrResolver::default());
    (Resolver::new(&config, Nanos::ZERO, counters.clone()).expect("allowed"), counters)
}

struct Table {
    rows: Vec<(&'static str, Vec<f64>)>,
}

impl Table {
    fn put(&mut self, row: &'static str, begun: Instant, operations: usize) {
        let micros = begun.elapsed().as_secs_f64() * 1e6 / operations.max(1) as f64;
        match self.rows.iter_mut().find(|(name, _)| *name == row) {
            Some((_, figures)) => figures.push(micros),
            None => self.rows.push((row, vec![micros])),
        }
    }
}

fn drain(resolver: &mut Resolver, now: Nanos) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| resolver.poll_transmit(now).map(<[u8]>::to_vec)).collect()
}

fn measure(table: &mut Table, topics: usize) {
    let names: Vec<String> = (0..topics).map(|i| format!("px.eq.instrument.{i:07}")).collect();
    let (mut now, mut sink) = (Nanos::ZERO, Count::default());
    let (mut source, sent) = resolver();
    let begun = Instant::now();
    let advertised: Vec<_> = (0..topics)
        .map(|i| source.advertise(now, &names[i], record(1, i as u32)).expect("a good name"))
        .collect();
    table.put("create a source", begun, topics);
    // All are said once before any is said again.
    let mut datagrams = Vec::new();
    while sent.advertisements_sent.get() < topics as u64 {
        datagrams.extend(drain(&mut source, now));
        now = now.max(source.next_wakeup());
    }

    let (mut receiver, _) = resolver();
    let begun = Instant::now();
    datagrams.iter().for_each(|d| receiver.on_datagram(now, d, &mut sink).expect("well-formed"));
    table.put("hear of a source that nobody wants", begun, topics);
    let begun = Instant::now();
    datagrams.iter().for_each(|d| receiver.on_datagram(now, d, &mut sink).expect("well-formed"));
    table.put("hear of one again", begun, topics);
    let begun = Instant::now();
    let queries: Vec<_> =
        names.iter().map(|name| receiver.query(now, name, &mut sink).expect("a good name")).collect();
    table.put("create a receiver", begun, topics);
    let begun = Instant::now();
    for _ in 0..1_000_000 {
        black_box(black_box(&receiver).next_wakeup());
    }
    table.put("ask when something is due", begun, 1_000_000);
    let begun = Instant::now();
    receiver.lose_session(now, &record(1, 0).session);
    table.put("lose a session, each of its topics", begun, topics);
    let begun = Instant::now();
    datagrams.iter().for_each(|d| receiver.on_datagram(now, d, &mut sink).expect("well-formed"));
    table.put("find a source that is wanted", begun, topics);
    let begun = Instant::now();
    for i in 0..10_000 {
        receiver.end_session(now, &record(2 + i, 0).session);
    }
    table.put("end a session of another one's topics", begun, 10_000);
    let begun = Instant::now();
    queries.into_iter().for_each(|query| receiver.stop_query(query));
    table.put("delete a receiver", begun, topics);

    let mut request = Vec::new();
    Packet::of(Kind::ResolutionRequest(ResolutionRequest::ADVERTISEMENTS)).emit(&mut request);
    now += Duration::from_secs(1);
    let begun = Instant::now();
    for ms in 0..1_000 {
        let at = now + Duration::from_millis(ms);
        source.on_datagram(at, &request, &mut sink).expect("well-formed");
        while let Some(datagram) = source.poll_transmit(at) {
            black_box(datagram);
        }
    }
    table.put("a millisecond's turn, with a resolution request", begun, 1_000);
    let begun = Instant::now();
    advertised.into_iter().for_each(|id| source.withdraw(id));
    table.put("delete a source", begun, topics);
    black_box(sink.0);
}

fn main() {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let topics = if given.is_empty() { vec![1_000, 10_000, 100_000, 1_000_000] } else { given };
    let mut table = Table { rows: Vec::new() };
    let rounds = 5;
    for &count in &topics {
        // The least of several rounds.
        let mut least: Option<Table> = None;
        for _ in 0..rounds {
            let mut one = Table { rows: Vec::new() };
            measure(&mut one, count);
            least = Some(match least {
                None => one,
                Some(mut least) => {
                    let pairs = least.rows.iter_mut().zip(one.rows);
                    pairs.for_each(|(a, b)| a.1[0] = a.1[0].min(b.1[0]));
                    least
                }
            });
        }
        for (row, figures) in least.expect("there are rounds").rows {
            match table.rows.iter_mut().find(|(name, _)| *name == row) {
                Some((_, all)) => all.extend(figures),
                None => table.rows.push((row, figures)),
            }
        }
    }
    println!(
        "| microseconds, with so many topics | {} |",
        topics.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
    );
    println!("|---|{}", "---:|".repeat(topics.len()));
    for (row, figures) in &table.rows {
        let figures: Vec<String> = figures.iter().map(|figure| format!("{figure:.3}")).collect();
        println!("| {row} | {} |", figures.join(" | "));
    }
}
