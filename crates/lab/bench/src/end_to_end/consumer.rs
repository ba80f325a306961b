use std::time::Duration;

use clap::Args;
use client::{Consumer, ConsumerConfig, ConsumerEvent, DictionaryMode, HostPort, ItemEvent};
use measure::Latencies;
use net::clock;
use serde_json::{Value, json};

use super::publisher::{Items, SERVICE};
use crate::BenchError;
use crate::decode::{self, Decode, DecodeArgs};
use crate::options::Cpu;
use crate::process::{START_LIMIT, answer};
use crate::update::{self, Profile};

#[derive(Debug, Args)]
pub(crate) struct ConsumerArgs {
    #[arg(long)]
    pub(crate) port: u16,
    #[arg(long)]
    pub(crate) own: u32,
    #[command(flatten)]
    pub(crate) decode: DecodeArgs,
    #[command(flatten)]
    pub(crate) profile: Profile,
    #[command(flatten)]
    pub(crate) cpu: Cpu,
}

/// A consumer that notes how long each update took.
pub(crate) struct Observer {
    pub(crate) consumer: Consumer,
    seen: Seen,
}

/// What has come.
struct Seen {
    decode: Decode,
    images: u32,
    latencies: Latencies,
    /// The same from when each update was sent, in place of when it was meant to be.
    naive: Latencies,
    unreadable: u64,
    /// The run that has ended.
    ended: Option<u8>,
}

/// What a run came to.
pub(crate) struct Observed {
    pub(crate) run: u8,
    latencies: Latencies,
    naive: Latencies,
}

impl Observed {
    /// As a part answers it, into `answer`.
    pub(crate) fn put(&self, answer: &mut Value) {
        answer["run"] = json!(self.run);
        answer["latencies"] = json!(self.latencies.spread());
        answer["naive"] = json!(self.naive.summary());
    }
}

impl Observer {
    /// Subscribes the items and waits for their images.
    pub(crate) fn connect(
        port: u16,
        own: u32,
        decode: DecodeArgs,
        profile: Profile,
    ) -> Result<Observer, BenchError> {
        let config = ConsumerConfig {
            hosts: vec![HostPort::new("127.0.0.1", port)],
            dictionary: DictionaryMode::None,
            keep_images: decode.decode == Decode::Image,
            reconnect_delay_min_ms: 20,
            reconnect_delay_max_ms: 20,
            ..ConsumerConfig::default()
        };
        let mut consumer = Consumer::new(&config)?;
        if let Some(dictionary) = decode.dictionary(profile)? {
            consumer = consumer.with_dictionary(dictionary);
        }
        for n in 0..own {
            consumer.subscribe(SERVICE, &Items::own_name(0, n))?;
        }
        let mut observer = Observer { consumer, seen: Seen::new(decode.decode) };
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
    ///
    /// # Errors
    /// An update could not be decoded.
    pub(crate) fn take_run(&mut self) -> Result<Option<Observed>, BenchError> {
        let seen = &mut self.seen;
        let Some(run) = seen.ended.take() else { return Ok(None) };
        decode::check(seen.unreadable)?;
        let (latencies, naive) = (std::mem::take(&mut seen.latencies), std::mem::take(&mut seen.naive));
        Ok(Some(Observed { run, latencies, naive }))
    }
}

impl Seen {
    fn new(decode: Decode) -> Seen {
        let (latencies, naive) = (Latencies::default(), Latencies::default());
        Seen { decode, images: 0, latencies, naive, unreadable: 0, ended: None }
    }

    fn on_event(&mut self, event: &ConsumerEvent<'_>) {
        let ConsumerEvent::Item(event) = event else { return };
        if event.is_update() {
            self.on_update(event);
        } else if event.is_complete() {
            self.images += 1;
        }
    }

    #[inline]
    fn on_update(&mut self, event: &ItemEvent<'_>) {
        let payload = event.payload().1;
        if self.decode != Decode::None && !decode::is_read(self.decode, event) {
            self.unreadable += 1;
        }
        match update::stamps(payload) {
            Some((intended, 0)) => {
                let now = clock::monotonic();
                self.latencies.record(now.since(intended).as_nanos() as u64);
                if let Some(sent) = update::sent(payload) {
                    self.naive.record(now.since(sent).as_nanos() as u64);
                }
            }
            Some((_, run)) => self.ended = Some(run),
            None => self.unreadable += 1,
        }
    }
}

pub(crate) fn consumer(args: &ConsumerArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let mut observer = Observer::connect(args.port, args.own, args.decode, args.profile)?;
    answer(&json!({ "ready": true }));
    loop {
        observer.dispatch(Duration::from_secs(1))?;
        if let Some(observed) = observer.take_run()? {
            let mut said = json!({});
            observed.put(&mut said);
            answer(&said);
        }
    }
}
