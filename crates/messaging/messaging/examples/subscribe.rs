//! Prints the messages of a topic until all its sources have ended: `subscribe px.eq interface=10.29.4.0/24`.

use std::error::Error;

use tickcast_messaging::{
    Context, End, Handler, Loss, Message, MessagingConfig, Receiver, ReceiverOptions, StreamId,
};

struct Print {
    ended: bool,
}

impl Handler for Print {
    fn on_message(&mut self, message: &Message<'_>) {
        println!("{} {}", message.sqn, String::from_utf8_lossy(message.payload));
    }
    fn on_loss(&mut self, _: Receiver, _: StreamId, loss: Loss) {
        println!("{} messages are lost, from {}", loss.count, loss.first);
    }
    fn on_end(&mut self, _: Receiver, _: StreamId, _: &End) {
        self.ended = true;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let topic = words.next().ok_or("subscribe TOPIC [KEY=VALUE]...")?;
    let mut context = Context::standalone(&MessagingConfig::load(None, words)?)?;
    context.create_receiver(&topic, &ReceiverOptions::default())?;
    let mut print = Print { ended: false };
    while !print.ended {
        context.wait(None, &mut print)?;
    }
    Ok(())
}
