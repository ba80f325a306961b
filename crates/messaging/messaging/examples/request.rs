//! Asks, again until somebody answers, and prints the answer: `request TOPIC TEXT interface=10.29.4.0/24`.

use std::error::Error;
use std::time::{Duration, Instant};

use tickcast_messaging::{Context, Handler, Message, MessagingConfig, RequestId, SourceOptions};

struct Answers(u32);

impl Handler for Answers {
    fn on_message(&mut self, _: &Message<'_>) {}
    fn on_response(&mut self, _: RequestId, payload: &[u8]) {
        println!("{}", String::from_utf8_lossy(payload));
        self.0 += 1;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let topic = words.next().ok_or("request TOPIC TEXT [KEY=VALUE]...")?;
    let text = words.next().ok_or("request TOPIC TEXT [KEY=VALUE]...")?;
    let mut context = Context::standalone(&MessagingConfig::load(None, words)?)?;
    let source = context.create_source(&topic, &SourceOptions::default())?;
    let mut answers = Answers(0);
    while answers.0 == 0 {
        let request = context.request(source, &[text.as_bytes()])?;
        let until = Instant::now() + Duration::from_millis(500);
        while answers.0 == 0 && Instant::now() < until {
            context.wait(Some(Duration::from_millis(50)), &mut answers)?;
        }
        context.cancel_request(request);
    }
    context.end();
    Ok(())
}
