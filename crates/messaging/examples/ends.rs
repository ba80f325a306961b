//! Two ends of a topic for tests on a real network: `ends send|receive INTERFACE TRANSPORT CARRIER COUNT
//! BYTES`.
//!
//! Each prints `ready`. The sender waits for a line on its input, sends COUNT numbered messages, prints what
//! it did as JSON and serves NAKs until its input ends. The receiver prints what it has heard once it has
//! heard the last message, or that the last one was lost.

use std::error::Error;
use std::io::BufRead;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use tickcast_messaging::{
    Carrier, Context, ContextCounters, Handler, Loss, Message, MessagingConfig, Receiver, ReceiverOptions,
    SendError, SourceOptions, StreamId, Transport,
};

#[derive(Default)]
struct Heard {
    first: Option<u32>,
    next: u32,
    messages: u32,
    lost: u32,
    wrong: u32,
    recovered: u32,
}

impl Handler for Heard {
    fn on_message(&mut self, message: &Message<'_>) {
        let number = message.payload.first_chunk().map_or(u32::MAX, |bytes| u32::from_be_bytes(*bytes));
        let is_whole = message.payload[4..].iter().all(|&byte| byte == number as u8);
        let is_next = self.first.is_none() || number == self.next;
        self.first.get_or_insert(number);
        self.wrong += u32::from(!is_whole || !is_next);
        self.recovered += u32::from(message.recovered);
        self.messages += 1;
        self.next = number + 1;
    }

    fn on_loss(&mut self, _: Receiver, _: StreamId, loss: Loss) {
        self.lost += loss.count;
        self.next += loss.count;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [verb, interface, transport, carrier, count, bytes] = &words[..] else {
        return Err("ends send|receive INTERFACE TRANSPORT CARRIER COUNT BYTES".into());
    };
    let (count, bytes): (u32, usize) = (count.parse()?, bytes.parse()?);
    let named = |name: &String| Transport::ALL.iter().find(|t| t.name() == name).copied();
    let config = MessagingConfig {
        interface: interface.parse()?,
        transport: named(transport).ok_or("no such transport")?,
        transport_lbtrm_carrier: if carrier == "af_xdp" { Carrier::AfXdp } else { Carrier::Socket },
        ..MessagingConfig::default()
    };
    let counters = ContextCounters::default();
    let context = Context::standalone_with(&config, counters.clone())?;
    match verb.as_str() {
        "send" => send(context, count, bytes),
        _ => receive(context, count),
    }
}

fn send(mut context: Context, count: u32, bytes: usize) -> Result<(), Box<dyn Error>> {
    let source = context.create_source("ends", &SourceOptions::default())?;
    println!("ready");
    let (lines, input) = channel();
    std::thread::spawn(move || std::io::stdin().lock().lines().try_for_each(|line| lines.send(line)));
    let mut sent = 0;
    let mut has_begun = false;
    loop {
        match input.try_recv() {
            Ok(_) => has_begun = true,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => break,
        }
        while has_begun && sent < count {
            let mut message = vec![sent as u8; bytes.max(4)];
            message[..4].copy_from_slice(&sent.to_be_bytes());
            match context.send(source, &[&message]) {
                Ok(_) => sent += 1,
                Err(SendError::WouldBlock) => break,
                Err(error) => return Err(error.into()),
            }
            if sent == count {
                println!("{{\"sent\": {sent}}}");
            }
        }
        context.wait(Some(Duration::from_millis(1)), &mut ())?;
    }
    context.end();
    Ok(())
}

fn receive(mut context: Context, count: u32) -> Result<(), Box<dyn Error>> {
    let mut heard = Heard::default();
    context.create_receiver("ends", &ReceiverOptions::default())?;
    println!("ready");
    while heard.next < count {
        context.wait(Some(Duration::from_millis(10)), &mut heard)?;
    }
    let Heard { first, messages, lost, wrong, recovered, .. } = heard;
    let first = first.unwrap_or(0);
    println!(
        "{{\"first\": {first}, \"messages\": {messages}, \"lost\": {lost}, \"wrong\": {wrong}, \
         \"recovered\": {recovered}}}"
    );
    Ok(())
}
