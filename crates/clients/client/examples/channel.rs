//! A consumer in a thread of its own, whose events this one takes when it likes: `channel HOST:PORT SERVICE ITEM...`.

use std::error::Error;

use tickcast_client::{Consumer, ItemRequestSpec, OwnedEvent};

/// Events that may wait; at this number the thread reads no more until half of them are taken.
const QUEUE: usize = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(host), Some(service)) = (arguments.next(), arguments.next()) else {
        return Err("usage: channel HOST:PORT SERVICE ITEM...".into());
    };
    let channel = Consumer::connect(&host)?.into_channel(QUEUE)?;
    for item in arguments {
        // `None`: the thread has ended, and `close` says why.
        let Some(subscribed) = channel.subscribe(&ItemRequestSpec::new(&service, &item)) else { break };
        subscribed?;
    }
    for event in &channel {
        match event {
            OwnedEvent::Item(item) => println!(
                "{} {}: bid {}, ask {}",
                item.service,
                item.name,
                item.text("BID")?.unwrap_or_default(),
                item.text("ASK")?.unwrap_or_default(),
            ),
            other => eprintln!("{other}"),
        }
    }
    Ok(channel.close()?)
}
