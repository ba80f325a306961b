//! How long it takes to make many topics known: sources in one context, receivers of all of them in another,
//! in two threads of one process: `topics 100000 [transport=tcp] [KEY=VALUE]...`.
//!
//! ```text
//! cargo run --release -p tickcast-messaging --example topics 100000
//! ```

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use tickcast_messaging::{
    Context, Handler, Message, MessagingConfig, Receiver, ReceiverOptions, SourceInfo, SourceOptions,
    StreamId,
};

#[derive(Default)]
struct Found(u64);

impl Handler for Found {
    fn on_message(&mut self, _: &Message<'_>) {}

    fn on_source(&mut self, _: Receiver, _: StreamId, _: &SourceInfo<'_>) {
        self.0 += 1;
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

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let count: u64 = words.next().ok_or("topics COUNT [KEY=VALUE]...")?.parse()?;
    let config = MessagingConfig::load(None, words)?;
    let (is_over, begin) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
    let sent = Arc::new(AtomicU64::new(0));
    let publisher = {
        let (config, is_over, begin, sent) = (config.clone(), is_over.clone(), begin.clone(), sent.clone());
        std::thread::spawn(move || -> Result<(), String> {
            let publish = || -> Result<(), Box<dyn Error>> {
                let mut context = Context::standalone(&config)?;
                begin.wait();
                let begun = Instant::now();
                let mut sources = Vec::new();
                for i in 0..count {
                    sources.push(context.create_source(&name(i), &SourceOptions::default())?);
                }
                each("create sources", begun, count);
                while !is_over.load(Ordering::Relaxed) {
                    context.wait(Some(Duration::from_millis(20)), &mut ())?;
                }
                let counters = context.counters().resolver.clone();
                sent.store(counters.tr_bytes_sent.get(), Ordering::Relaxed);
                let begun = Instant::now();
                sources.into_iter().for_each(|source| context.delete_source(source));
                each("delete sources", begun, count);
                Ok(())
            };
            publish().map_err(|error| error.to_string())
        })
    };
    let mut context = Context::standalone(&config)?;
    let mut found = Found::default();
    begin.wait();
    let all = Instant::now();
    let mut receivers = Vec::new();
    for i in 0..count {
        receivers.push(context.create_receiver(&name(i), &ReceiverOptions::default())?);
        if i % 256 == 0 {
            context.poll(&mut found)?;
        }
    }
    each("create receivers", all, count);
    while found.0 < count && !publisher.is_finished() {
        context.wait(Some(Duration::from_millis(20)), &mut found)?;
    }
    each("find all, from the begin", all, count);
    is_over.store(true, Ordering::Relaxed);
    publisher.join().map_err(|_| "the publisher's thread ended")??;
    let bytes = sent.load(Ordering::Relaxed) + context.counters().resolver.tr_bytes_sent.get();
    println!("topic resolution sent {bytes} bytes, {} of {count} found", found.0);
    let begun = Instant::now();
    receivers.into_iter().for_each(|receiver| context.delete_receiver(receiver));
    each("delete receivers", begun, count);
    Ok(())
}
