use std::time::Duration;

use clap::Args;
use client::{Consumer, ConsumerConfig, ConsumerEvent, DictionaryMode, HostPort, ItemRequestSpec};

use super::tally::{self, Sink, Tally};
use crate::BenchError;
use crate::decode::{self, Decode, DecodeArgs};
use crate::end_to_end::{Items, SERVICE};
use crate::every::TimeEvery;
use crate::options::Cpu;
use crate::update::Profile;

#[derive(Debug, Args)]
pub(crate) struct ConsumerArgs {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    items: u32,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    time_every: TimeEvery,
    #[command(flatten)]
    cpu: Cpu,
}

/// A consumer by the client library that watches each item once.
struct Watcher {
    consumer: Consumer,
    decode: Decode,
    tally: Tally,
}

impl Sink for Watcher {
    fn turn(&mut self, timeout: Duration) -> Result<(), BenchError> {
        let (tally, decode) = (&mut self.tally, self.decode);
        self.consumer.dispatch(timeout, &mut |event| on_event(tally, decode, &event))?;
        Ok(())
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}

#[inline]
fn on_event(tally: &mut Tally, decode: Decode, event: &ConsumerEvent<'_>) {
    let ConsumerEvent::Item(event) = event else { return };
    let item = event.tag() as u32;
    if event.is_update() {
        if decode != Decode::None && !decode::is_read(decode, event) {
            tally.on_unreadable();
        }
        tally.on_update(item, event.payload().1, event.conflation().is_some());
    } else if event.is_complete() && event.is_ok() {
        tally.on_image(item, event.payload().1);
    } else if event.is_ok() {
        tally.on_trust(item);
    } else {
        tally.on_doubt(item);
    }
}

pub(crate) fn consumer(args: &ConsumerArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let config = ConsumerConfig {
        hosts: vec![HostPort::new("127.0.0.1", args.port)],
        dictionary: DictionaryMode::None,
        keep_images: args.decode.decode == Decode::Image,
        reconnect_delay_min_ms: 20,
        reconnect_delay_max_ms: 20,
        ..ConsumerConfig::default()
    };
    let mut consumer = Consumer::new(&config)?;
    if let Some(dictionary) = args.decode.dictionary(Profile::default())? {
        consumer = consumer.with_dictionary(dictionary);
    }
    for n in 0..args.items {
        let name = Items::own_name(0, n);
        consumer
            .subscribe_with(&ItemRequestSpec { tag: n.into(), ..ItemRequestSpec::new(SERVICE, &name) })?;
    }
    let tally = Tally::new(args.items).timing(args.time_every);
    tally::serve(Watcher { consumer, decode: args.decode.decode, tally })
}
