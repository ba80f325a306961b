//! How long it takes to make many topics known, and what they cost then: sources in one context, receivers of all of them
//! in another, in two threads of one process: `topics 100000 [transport=tcp] [KEY=VALUE]...`. The longest turn or call is CPU
//! time of the thread, so that others which run in its place do not count.
//!
//! ```text
//! cargo run --release -p tickcast-messaging --example topics 100000
//! ```

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use net::clock;
use tickcast_messaging::{
    Context, Handler, Message, MessagingConfig, Receiver, ReceiverOptions, SourceInfo, SourceOptions,
    StreamId,
};

#[derive(Default)]
struct Found {
    sources: u64,
    messages: u64,
}

impl Handler for Found {
    fn on_message(&mut self, _: &Message<'_>) {
        self.messages += 1;
    }

    fn on_source(&mut self, _: Receiver, _: StreamId, _: &SourceInfo<'_>) {
        self.sources += 1;
    }
}

/// The turns of a context, or calls of one kind.
#[derive(Default)]
struct Turns {
    longest: Duration,
    above_1_ms: u64,
    count: u64,
    spent: Duration,
}

impl Turns {
    fn wait(&mut self, context: &mut Context, found: &mut Found) -> Result<bool, Box<dyn Error>> {
        Ok(self.time(|| context.wait(Some(Duration::from_millis(20)), found))?)
    }

    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let begun = clock::thread_cpu();
        let result = call();
        let spent = clock::thread_cpu().since(begun);
        self.longest = self.longest.max(spent);
        self.above_1_ms += u64::from(spent > Duration::from_millis(1));
        self.count += 1;
        self.spent += spent;
        result
    }

    fn print(&self, whose: &str) {
        let Turns { longest, above_1_ms, count, spent } = self;
        let longest = longest.as_micros();
        println!(
            "{whose}: {count}, the longest {longest} us, {above_1_ms} above 1 ms, {spent:.2?} CPU in all"
        );
    }
}

fn each(what: &str, begun: Instant, count: u64) {
    let spent = begun.elapsed();
    let micros = spent.as_secs_f64() * 1e6 / count.max(1) as f64;
    println!("{what}: {:.3} s, {micros:.2} us each", spent.as_secs_f64());
}

fn name(i: u64) -> String {
    format!("px.eq.instrument.{i:07}")
}

fn resident_mb() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4_096 / 1_000_000
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let count: u64 = words.next().ok_or("topics COUNT [KEY=VALUE]...")?.parse()?;
    let config = MessagingConfig::load(None, words)?;
    let (is_over, begin) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
    let (are_found, sends) = (Arc::new(AtomicBool::new(false)), count.min(200_000));
    let sent = Arc::new(AtomicU64::new(0));
    let publisher = {
        let (config, is_over, begin, sent) = (config.clone(), is_over.clone(), begin.clone(), sent.clone());
        let are_found = are_found.clone();
        std::thread::spawn(move || -> Result<(), String> {
            let publish = || -> Result<(), Box<dyn Error>> {
                let mut context = Context::standalone(&config)?;
                begin.wait();
                let begun = Instant::now();
                let (mut sources, mut calls) = (Vec::with_capacity(count as usize), Turns::default());
                for i in 0..count {
                    sources.push(calls.time(|| context.create_source(&name(i), &SourceOptions::default()))?);
                }
                each("create sources", begun, count);
                calls.print("calls of create_source");
                let mut turns = Turns::default();
                let mut others = Found::default();
                while !are_found.load(Ordering::Relaxed) {
                    turns.wait(&mut context, &mut others)?;
                }
                turns.print("turns of the sources' context");
                let counters = context.counters().resolver.clone();
                sent.store(counters.tr_bytes_sent.get(), Ordering::Relaxed);
                let mut next = 0;
                while !is_over.load(Ordering::Relaxed) {
                    // Each from another topic, and few at a time, so that both threads have their turns.
                    for _ in 0..32 {
                        // Primes keep neighbours in time apart in memory.
                        let source = sources[(next * 7_919 % count) as usize];
                        if next == sends || context.send(source, &[&[7; 64]]).is_err() {
                            break;
                        }
                        next += 1;
                    }
                    context.wait(Some(Duration::from_micros(50)), &mut ())?;
                }
                let begun = Instant::now();
                let mut calls = Turns::default();
                sources.into_iter().for_each(|source| calls.time(|| context.delete_source(source)));
                each("delete sources", begun, count);
                calls.print("calls of delete_source");
                Ok(())
            };
            publish().map_err(|error| error.to_string())
        })
    };
    let mut context = Context::standalone(&config)?;
    let mut found = Found::default();
    begin.wait();
    let all = Instant::now();
    let (mut receivers, mut calls) = (Vec::with_capacity(count as usize), Turns::default());
    let mut turns = Turns::default();
    for i in 0..count {
        receivers.push(calls.time(|| context.create_receiver(&name(i), &ReceiverOptions::default()))?);
        if i % 256 == 0 {
            turns.time(|| context.poll(&mut found))?;
        }
    }
    each("create receivers", all, count);
    calls.print("calls of create_receiver");
    while found.sources < count && !publisher.is_finished() {
        turns.wait(&mut context, &mut found)?;
    }
    each("find all, from the begin", all, count);
    turns.print("turns of the receivers' context");
    println!("resident memory of both: {} MB", resident_mb());
    are_found.store(true, Ordering::Relaxed);
    let mut turns = Turns::default();
    while found.messages < sends && !publisher.is_finished() {
        turns.wait(&mut context, &mut found)?;
    }
    let nanos = turns.spent.as_nanos() as f64 / sends as f64;
    println!("receive {sends} messages of as many topics: {nanos:.0} ns of CPU each");
    turns.print("turns meanwhile");
    is_over.store(true, Ordering::Relaxed);
    publisher.join().map_err(|_| "the publisher's thread ended")??;
    let bytes = sent.load(Ordering::Relaxed) + context.counters().resolver.tr_bytes_sent.get();
    println!("topic resolution sent {bytes} bytes, {} of {count} found", found.sources);
    let begun = Instant::now();
    let mut calls = Turns::default();
    receivers.into_iter().for_each(|receiver| calls.time(|| context.delete_receiver(receiver)));
    each("delete receivers", begun, count);
    calls.print("calls of delete_receiver");
    Ok(())
}
