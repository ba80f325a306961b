use std::time::Duration;

use clap::Args;
use client::{Consumer, ConsumerConfig, ConsumerEvent, DictionaryMode, HostPort, ItemRequestSpec};

use super::tally::{self, Sink, Tally};
use crate::BenchError;
use crate::end_to_end::{Items, SERVICE};
use crate::options::Cpu;

#[derive(Debug, Args)]
pub(crate) struct ConsumerArgs {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    items: u32,
    #[command(flatten)]
    cpu: Cpu,
}

/// A consumer by the client library that watches each item once.
struct Watcher {
    consumer: Consumer,
    tally: Tally,
}

impl Sink for Watcher {
    fn turn(&mut self, timeout: Duration) -> Result<(), BenchError> {
        let tally = &mut self.tally;
        self.consumer.dispatch(timeout, &mut |event| on_event(tally, &event))?;
        Ok(())
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}

#[inline]
fn on_event(tally: &mut Tally, event: &ConsumerEvent<'_>) {
    let ConsumerEvent::Item(event) = event else { return };
    let item = event.tag() as u32;
    if event.is_update() {
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
        reconnect_delay_min_ms: 20,
        reconnect_delay_max_ms: 20,
        ..ConsumerConfig::default()
    };
    let mut consumer = Consumer::new(&config)?;
    for n in 0..args.items {
        let name = Items::own_name(0, n);
        consumer
            .subscribe_with(&ItemRequestSpec { tag: n.into(), ..ItemRequestSpec::new(SERVICE, &name) })?;
    }
    tally::serve(Watcher { consumer, tally: Tally::new(args.items) })
}
