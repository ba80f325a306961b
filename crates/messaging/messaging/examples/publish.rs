//! Publishes ten messages a second: `publish px.eq 100 interface=10.29.4.0/24`.

use std::error::Error;
use std::time::{Duration, Instant};

use tickcast_messaging::{Context, MessagingConfig, SourceOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let topic = words.next().ok_or("publish TOPIC COUNT [KEY=VALUE]...")?;
    let count: u32 = words.next().ok_or("publish TOPIC COUNT [KEY=VALUE]...")?.parse()?;
    let mut context = Context::standalone(&MessagingConfig::load(None, words)?)?;
    let source = context.create_source(&topic, &SourceOptions::default())?;
    // What is sent before a receiver has found the source does not reach it.
    if context.wait_for_receivers(source, 1, Duration::from_secs(5), &mut ())? == 0 {
        eprintln!("nobody receives {topic} yet");
    }
    for number in 0..count {
        let next = Instant::now() + Duration::from_millis(100);
        context.send(source, &[format!("message {number}").as_bytes()])?;
        while Instant::now() < next {
            context.wait(Some(next - Instant::now()), &mut ())?;
        }
    }
    context.end();
    Ok(())
}
