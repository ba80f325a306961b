//! How many messages a second the backbone carries over NATS, beside the client of NATS alone in the same run.
//!
//!     nats-server -p 4222 &
//!     cargo run --release -p tickcast-backbone --example nats_rate -- nats://127.0.0.1:4222
//!
//! One publisher and one subscriber, each with a thread of data and one of NATS (the baseline has one of NATS each). The
//! publisher is at most 8 MiB ahead, as a source distributor is; nothing is lost, or the run fails. The two take turns,
//! three times for each size. If the server has JetStream (`nats-server -js -sd DIRECTORY`), the backbone carries them two
//! times more: while a stream stores them in memory, and in files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use futures_util::StreamExt;
use market::p2ps::{SourceId, Topic};
use net::{Poller, Token, clock};
use tickcast_backbone::nats::{NatsConfig, NatsCounters, NatsInlet, NatsOutlet};
use tickcast_backbone::{Inlet, InletCommand, InletEvents, Outlet};
use units::Nanos;

const WINDOW_BYTES: u64 = 8 << 20;
const SIZES: [usize; 3] = [64, 200, 1_000];
const RUNS: usize = 3;
/// Messages that a source distributor makes of one reading, about.
const TURN: u64 = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::args().nth(1).unwrap_or_else(|| "nats://127.0.0.1:4222".to_owned());
    let stores = STORAGES.iter().all(|storage| Store::new(&server, storage).is_ok());
    let storages: &[&str] = if stores { &STORAGES } else { &[] };
    println!("{:>6} {:>16} {:>16} {:>7}", "bytes", "async-nats, 1/s", "backbone, 1/s", "ratio");
    for size in SIZES {
        let count = 100_000_000 / (size as u64 + 60);
        let (mut raw, mut ours, mut stored) = (Vec::new(), Vec::new(), vec![Vec::new(); storages.len()]);
        for _ in 0..RUNS {
            raw.push(of_client(&server, size, count)?);
            ours.push(of_backbone(&server, "rate", size, count)?);
            eprintln!("{size:>6} {:>16.0} {:>16.0}", raw[raw.len() - 1], ours[ours.len() - 1]);
            for (storage, rates) in storages.iter().zip(&mut stored) {
                let store = Store::new(&server, storage)?;
                let rate = of_backbone(&server, &store.prefix, size, count)?;
                eprintln!("{size:>6} stored ({storage}): {rate:.0}; {}", store.state()?);
                rates.push(rate);
            }
        }
        let (raw, ours) = (median(&mut raw), median(&mut ours));
        println!("{size:>6} {raw:>16.0} {ours:>16.0} {:>7.2}", ours / raw);
        for (storage, rates) in storages.iter().zip(&mut stored) {
            let rate = median(rates);
            println!("{size:>6} stored ({storage}): {rate:.0}, {:.2} of that without", rate / ours);
        }
    }
    Ok(())
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// What a stream of JetStream may store in.
const STORAGES: [&str; 2] = ["memory", "file"];

/// A stream of JetStream that stores what is published under a prefix of its own.
struct Store {
    server: String,
    prefix: String,
}

impl Store {
    fn new(server: &str, storage: &str) -> Result<Store, Box<dyn std::error::Error>> {
        let store = Store { server: server.to_owned(), prefix: format!("rate-{storage}") };
        let body = format!(
            r#"{{"name":"{0}","subjects":["{0}.directory","{0}.service.*"],"storage":"{storage}","retention":"limits","discard":"old","max_bytes":268435456,"num_replicas":1,"no_ack":true,"allow_direct":true}}"#,
            store.prefix
        );
        let answer = store.ask("CREATE", body)?;
        if answer.contains("did_create") { Ok(store) } else { Err(answer.into()) }
    }

    fn ask(&self, what: &str, body: String) -> Result<String, Box<dyn std::error::Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = async_nats::connect(&self.server).await?;
            let subject = format!("$JS.API.STREAM.{what}.{}", self.prefix);
            let answer = client.request(subject, body.into()).await?;
            Ok(String::from_utf8_lossy(&answer.payload).into_owned())
        })
    }

    /// How many packets it has, in how many bytes.
    fn state(&self) -> Result<String, Box<dyn std::error::Error>> {
        let answer = self.ask("INFO", String::new())?;
        let (_, state) = answer.split_once("\"state\":{").ok_or("no state")?;
        Ok(state.split(',').take(2).collect::<Vec<_>>().join(", "))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Err(error) = self.ask("DELETE", String::new()) {
            eprintln!("{} is not deleted: {error}", self.prefix);
        }
    }
}

/// Messages of the baseline: each is one of NATS.
fn of_client(server: &str, size: usize, count: u64) -> Result<f64, Box<dyn std::error::Error>> {
    let (taken, is_there) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let subscriber = {
        let (server, taken, is_there) = (server.to_owned(), taken.clone(), is_there.clone());
        let runtime = runtime()?;
        std::thread::spawn(move || {
            runtime.block_on(async {
                let options = async_nats::ConnectOptions::new().subscription_capacity(1 << 20);
                let client = options.connect(server).await.expect("the server is there");
                let mut subscriber = client.subscribe("rate.raw").await.expect("subscribed");
                client.flush().await.expect("flushed");
                is_there.store(true, Relaxed);
                while taken.load(Relaxed) < count {
                    let message = subscriber.next().await.expect("the server is there");
                    assert_eq!(message.payload.len(), size);
                    taken.fetch_add(1, Relaxed);
                }
            });
        })
    };
    while !is_there.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let seconds = runtime()?.block_on(async {
        let client = async_nats::connect(server).await.expect("the server is there");
        assert_eq!(client.connection_state(), State::Connected);
        let (payload, start) = (vec![7u8; size], Instant::now());
        for sent in 0..count {
            while (sent - taken.load(Relaxed)) * size as u64 > WINDOW_BYTES {
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
            client.publish("rate.raw", payload.clone().into()).await.expect("published");
        }
        client.flush().await.expect("flushed");
        while taken.load(Relaxed) < count {
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        start.elapsed().as_secs_f64()
    });
    subscriber.join().expect("it counts");
    Ok(count as f64 / seconds)
}

/// Counts what the inlet delivers.
struct Counter {
    size: usize,
    is_found: bool,
    taken: u64,
}

impl InletEvents for Counter {
    fn on_source(&mut self, _: Nanos, _: SourceId, topic: Topic<'_>, _: u64) {
        self.is_found |= matches!(topic, Topic::Service(_));
    }
    fn on_stream_message(&mut self, _: Nanos, _: SourceId, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.size);
        self.taken += 1;
    }
    fn on_source_ended(&mut self, _: Nanos, _: SourceId) {}
    fn on_link_up(&mut self, _: Nanos, _: u64) {}
    fn on_link_down(&mut self, _: Nanos, _: u64) {}
    fn on_link_message(&mut self, _: Nanos, _: u64, _: &[u8]) {}
}

fn of_backbone(
    server: &str,
    prefix: &str,
    size: usize,
    count: u64,
) -> Result<f64, Box<dyn std::error::Error>> {
    let config = NatsConfig {
        servers: vec![server.to_owned()],
        prefix: prefix.to_owned(),
        timeout_ms: 60_000,
        ..NatsConfig::default()
    };
    let (taken, is_there) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let subscriber = {
        let (config, taken, is_there) = (config.clone(), taken.clone(), is_there.clone());
        std::thread::spawn(move || {
            let mut poller = Poller::new().expect("a descriptor is free");
            let at = (poller.registrar(), Token(1));
            let mut inlet = NatsInlet::new(&config, at, false, clock::seed(), NatsCounters::default())
                .expect("it starts");
            let mut counter = Counter { size, is_found: false, taken: 0 };
            inlet.execute(clock::monotonic(), InletCommand::Subscribe("RATE".to_owned()), &mut counter);
            while counter.taken < count {
                inlet.on_wakeup(clock::monotonic(), &mut counter);
                inlet.flush(clock::monotonic());
                taken.store(counter.taken, Relaxed);
                is_there.store(counter.is_found, Relaxed);
                let timeout = inlet.next_wakeup().since(clock::monotonic());
                let ready: Vec<_> = poller.wait(Some(timeout)).expect("it works").collect();
                for one in ready {
                    inlet.on_ready(clock::monotonic(), one, &mut counter);
                }
            }
            taken.store(counter.taken, Relaxed);
        })
    };
    let mut poller = Poller::new()?;
    let at = (poller.registrar(), Token(1));
    let mut outlet = NatsOutlet::new(&config, at, false, clock::seed(), NatsCounters::default())?;
    outlet.open_stream(clock::monotonic(), 1, "RATE")?;
    let (mut events, payload) = (Vec::new(), vec![7u8; size - 24]);
    let mut turn = |outlet: &mut NatsOutlet, timeout: Duration| {
        outlet.on_wakeup(clock::monotonic(), &mut events);
        outlet.flush(clock::monotonic());
        let ready: Vec<_> = poller.wait(Some(timeout)).expect("it works").collect();
        for one in ready {
            outlet.on_ready(clock::monotonic(), one, &mut events);
        }
    };
    while !is_there.load(Relaxed) {
        turn(&mut outlet, Duration::from_millis(1));
    }
    let (mut sent, start) = (0, Instant::now());
    while taken.load(Relaxed) < count {
        let is_ahead = (sent - taken.load(Relaxed)) * size as u64 > WINDOW_BYTES;
        if sent == count || is_ahead || outlet.is_blocked() {
            turn(&mut outlet, Duration::from_micros(100));
            continue;
        }
        for _ in 0..TURN.min(count - sent) {
            outlet.publish(clock::monotonic(), 1, &[0; 24], &payload);
            sent += 1;
        }
        turn(&mut outlet, Duration::ZERO);
    }
    let seconds = start.elapsed().as_secs_f64();
    subscriber.join().expect("it counts");
    Ok(count as f64 / seconds)
}
