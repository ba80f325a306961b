//! Answers requests on a topic with their own text until one says "stop":
//! `respond TOPIC interface=10.29.4.0/24`.

use std::error::Error;
use std::time::Duration;

use tickcast_messaging::{Asked, Context, Handler, Message, MessagingConfig, ReceiverOptions};

/// A handler does not have the context: what is to be answered waits until the turn is over.
#[derive(Default)]
struct Requests(Vec<(Asked, Vec<u8>)>);

impl Handler for Requests {
    fn on_message(&mut self, message: &Message<'_>) {
        self.0.extend(message.request().map(|asked| (asked, message.payload.to_vec())));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let topic = words.next().ok_or("respond TOPIC [KEY=VALUE]...")?;
    let mut context = Context::standalone(&MessagingConfig::load(None, words)?)?;
    context.create_receiver(&topic, &ReceiverOptions::default())?;
    let (mut requests, mut is_over) = (Requests::default(), false);
    while !is_over {
        context.wait(None, &mut requests)?;
        for (asked, text) in requests.0.drain(..) {
            context.respond(asked, &text)?;
            is_over |= text == b"stop";
        }
    }
    for _ in 0..10 {
        context.wait(Some(Duration::from_millis(10)), &mut requests)?;
    }
    context.end();
    Ok(())
}
