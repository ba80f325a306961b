//! Subscribes items and prints what comes, in callbacks, which is the fastest way: `consumer HOST:PORT SERVICE
//! ITEM...`.

use std::error::Error;
use std::time::Duration;

use tickcast_client::{Consumer, ConsumerConfig, ConsumerEvent};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(host), Some(service)) = (arguments.next(), arguments.next()) else {
        return Err("usage: consumer HOST:PORT SERVICE ITEM...".into());
    };
    let config = ConsumerConfig { hosts: vec![host.parse()?], ..ConsumerConfig::default() };
    let mut consumer = Consumer::new(&config)?;
    for item in arguments {
        consumer.subscribe(&service, &item)?;
    }
    while !consumer.is_stopped() {
        consumer.dispatch(Duration::from_secs(60), &mut |event| print(&event))?;
    }
    Ok(())
}

fn print(event: &ConsumerEvent<'_>) {
    match event {
        ConsumerEvent::Item(event) => {
            println!("{} {} {}", event.service(), event.name(), event.state());
            for field in event.fields().into_iter().flatten().flatten() {
                println!("    {} {}", field.name(), field.value);
            }
        }
        // Why there is no connection, say.
        other => println!("{other}"),
    }
}
