//! A consumer in a thread of its own, whose events this one takes when it likes: `channel HOST:PORT SERVICE ITEM...`. If
//! it takes less than comes, it gets the newest values, and is told for how many updates they stand.

use std::error::Error;

use tickcast_client::{Consumer, ItemRequestSpec, OwnedEvent, QueueConfig, WhenFull};

/// Events that may wait; from this number on updates are merged.
const EVENTS_MAX: u32 = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(host), Some(service)) = (arguments.next(), arguments.next()) else {
        return Err("usage: channel HOST:PORT SERVICE ITEM...".into());
    };
    let queue =
        QueueConfig { when_full: WhenFull::Conflate, events_max: EVENTS_MAX, ..QueueConfig::default() };
    let channel = Consumer::connect(&host)?.into_channel_with(&queue)?;
    for item in arguments {
        // `None`: the thread has ended, and `close` says why.
        let Some(subscribed) = channel.subscribe(&ItemRequestSpec::new(&service, &item)) else { break };
        subscribed?;
    }
    for event in &channel {
        match event {
            OwnedEvent::Item(item) => println!(
                "{} {}: bid {}, ask {}{}",
                item.service,
                item.name,
                item.text("BID")?.unwrap_or_default(),
                item.text("ASK")?.unwrap_or_default(),
                item.merged.map_or(String::new(), |merged| format!(" ({} updates)", merged.updates)),
            ),
            other => eprintln!("{other}"),
        }
    }
    Ok(channel.close()?)
}
