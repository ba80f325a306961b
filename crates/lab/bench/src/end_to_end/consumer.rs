use std::time::Duration;

use clap::Args;
use client::{Consumer, ConsumerConfig, ConsumerEvent, DictionaryMode, HostPort};
use measure::Latencies;
use net::clock;
use serde_json::json;

use super::publisher::{Items, SERVICE};
use crate::options::Cpu;
use crate::process::{START_LIMIT, answer};
use crate::{BenchError, update};

#[derive(Debug, Args)]
pub(crate) struct ConsumerArgs {
    #[arg(long)]
    pub(crate) port: u16,
    #[arg(long)]
    pub(crate) own: u32,
    #[command(flatten)]
    pub(crate) cpu: Cpu,
}

/// A consumer that notes how long each update took.
pub(crate) struct Observer {
    pub(crate) consumer: Consumer,
    seen: Seen,
}

#[derive(Default)]
struct Seen {
    images: u32,
    latencies: Latencies,
    /// The run that has ended.
    ended: Option<u8>,
}

impl Observer {
    /// Subscribes the items and waits for their images.
    pub(crate) fn connect(port: u16, own: u32) -> Result<Observer, BenchError> {
        let config = ConsumerConfig {
            hosts: vec![HostPort::new("127.0.0.1", port)],
            dictionary: DictionaryMode::None,
            reconnect_delay_min_ms: 20,
            reconnect_delay_max_ms: 20,
            ..ConsumerConfig::default()
        };
        let mut consumer = Consumer::new(&config)?;
        for n in 0..own {
            consumer.subscribe(SERVICE, &Items::own_name(0, n))?;
        }
        let mut observer = Observer { consumer, seen: Seen::default() };
        let deadline = clock::monotonic().after(START_LIMIT);
        while observer.seen.images < own {
            observer.dispatch(Duration::from_millis(100))?;
            if clock::monotonic() > deadline {
                return Err(BenchError::new(format!("{} of {own} images have come", observer.seen.images)));
            }
        }
        Ok(observer)
    }

    /// Takes what has come, waiting for at most `timeout`.
    pub(crate) fn dispatch(&mut self, timeout: Duration) -> Result<(), BenchError> {
        let seen = &mut self.seen;
        self.consumer.dispatch(timeout, &mut |event| seen.on_event(&event))?;
        Ok(())
    }

    /// The same without waiting.
    pub(crate) fn work(&mut self) {
        let seen = &mut self.seen;
        self.consumer.work(&mut |event| seen.on_event(&event));
    }

    /// Whether a run has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.seen.ended.is_some()
    }

    /// The run that has ended, and what it came to.
    pub(crate) fn take_run(&mut self) -> Option<(u8, Latencies)> {
        let run = self.seen.ended.take()?;
        Some((run, std::mem::take(&mut self.seen.latencies)))
    }
}

impl Seen {
    fn on_event(&mut self, event: &ConsumerEvent<'_>) {
        let ConsumerEvent::Item(event) = event else { return };
        if event.is_update() {
            match update::event_stamps(event) {
                Some((intended, 0)) => {
                    self.latencies.record(clock::monotonic().since(intended).as_nanos() as u64)
                }
                Some((_, run)) => self.ended = Some(run),
                None => {}
            }
        } else if event.is_complete() {
            self.images += 1;
        }
    }
}

pub(crate) fn consumer(args: &ConsumerArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let mut observer = Observer::connect(args.port, args.own)?;
    answer(&json!({ "ready": true }));
    loop {
        observer.dispatch(Duration::from_secs(1))?;
        if let Some((run, latencies)) = observer.take_run() {
            answer(&json!({ "run": run, "latencies": latencies.spread() }));
        }
    }
}
