//! Two ends of a topic for tests on a real network: `ends send|receive|hear INTERFACE TRANSPORT CARRIER COUNT
//! BYTES [SECOND_INTERFACE|- [RATE]]`; RATE is messages a second.
//!
//! Each prints `ready`, and who hears in place of receiving prints `found` when it has found the source. The
//! sender prints `joined` when a receiver has connected (over TCP and LBT-RU), waits for a line on its input,
//! sends COUNT numbered messages, prints what it did as JSON and serves NAKs until its input ends. The receiver prints what it has heard once it has
//! heard the last message, or that the last one was lost.

use std::error::Error;
use std::io::BufRead;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::{Duration, Instant};

use tickcast_messaging::{
    Carrier, Context, ContextCounters, Handler, LbtrmConfig, Loss, Message, MessagingConfig, Receiver,
    ReceiverOptions, SendError, SourceInfo, SourceOptions, StreamId, Transport,
};

#[derive(Default)]
struct Heard {
    /// Prints when a source is found.
    says_found: bool,
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

    fn on_source(&mut self, _: Receiver, _: StreamId, _: &SourceInfo<'_>) {
        if self.says_found {
            println!("found");
        }
    }

    fn on_loss(&mut self, _: Receiver, _: StreamId, loss: Loss) {
        // Fragments there are none: topic numbers are those of the messages.
        self.wrong += u32::from(self.first.is_some() && loss.first.0 != self.next);
        self.first.get_or_insert(loss.first.0);
        self.lost += loss.count;
        self.next = loss.first.0 + loss.count;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [verb, interface, transport, carrier, count, bytes, more @ ..] = &words[..] else {
        return Err("ends send|receive|hear INTERFACE TRANSPORT CARRIER COUNT BYTES [SECOND|- [RATE]]".into());
    };
    let (count, bytes): (u32, usize) = (count.parse()?, bytes.parse()?);
    let second = more.first().filter(|second| *second != "-").map(|second| second.parse()).transpose()?;
    let rate: Option<f64> = more.get(1).map(|rate| rate.parse()).transpose()?;
    let named = |name: &String| Transport::ALL.iter().find(|t| t.name() == name).copied();
    let mut config = MessagingConfig {
        interface: interface.parse()?,
        interface_b: second,
        transport: named(transport).ok_or("no such transport")?,
        lbtrm: LbtrmConfig {
            carrier: if carrier == "af_xdp" { Carrier::AfXdp } else { Carrier::Socket },
            ..LbtrmConfig::default()
        },
        ..MessagingConfig::default()
    };
    if config.interface_b.is_some() {
        config.lbtrm.network_silence_timeout_us = 500_000;
        config.lbtrm.sm_maximum_interval_us = 100_000;
    }
    let counters = ContextCounters::default();
    let context = Context::standalone_with(&config, counters.clone())?;
    match verb.as_str() {
        "send" => send(context, count, bytes, rate),
        verb => receive(context, count, verb == "hear"),
    }
}

fn send(mut context: Context, count: u32, bytes: usize, rate: Option<f64>) -> Result<(), Box<dyn Error>> {
    let source = context.create_source("ends", &SourceOptions::default())?;
    println!("ready");
    let (lines, input) = channel();
    std::thread::spawn(move || std::io::stdin().lock().lines().try_for_each(|line| lines.send(line)));
    let mut sent = 0;
    let (mut has_begun, mut begun) = (false, Instant::now());
    let mut is_joined = false;
    loop {
        let ContextCounters { tcp_source, ru_source, .. } = context.counters();
        let receivers = tcp_source.num_clients.get() + ru_source.clients.num_clients.get();
        if receivers > 0 && !is_joined {
            println!("joined");
            is_joined = true;
        }
        match input.try_recv() {
            Ok(_) => (has_begun, begun) = (true, Instant::now()),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => break,
        }
        let due = rate.map_or(count, |rate| (begun.elapsed().as_secs_f64() * rate) as u32);
        while has_begun && sent < count.min(due) {
            let mut message = vec![sent as u8; bytes.max(4)];
            message[..4].copy_from_slice(&sent.to_be_bytes());
            match context.send(source, &[&message]) {
                Ok(_) => sent += 1,
                Err(SendError::WouldBlock) => break,
                Err(error) => return Err(error.into()),
            }
            if sent == count {
                let networks = &context.counters().networks;
                let dropped = [networks.a_copies_dropped.get(), networks.b_copies_dropped.get()];
                println!("{{\"sent\": {sent}, \"copies_dropped\": {dropped:?}}}");
            }
        }
        context.wait(Some(Duration::from_millis(1)), &mut ())?;
    }
    context.end();
    Ok(())
}

fn receive(mut context: Context, count: u32, says_found: bool) -> Result<(), Box<dyn Error>> {
    let mut heard = Heard { says_found, ..Heard::default() };
    context.create_receiver("ends", &ReceiverOptions::default())?;
    println!("ready");
    while heard.next < count {
        context.wait(Some(Duration::from_millis(10)), &mut heard)?;
    }
    let Heard { first, messages, lost, wrong, recovered, .. } = heard;
    let first = first.unwrap_or(0);
    let ContextCounters { receiver, networks: n, .. } = context.counters();
    let (naks, repaired) = (receiver.naks_sent.get(), receiver.recovered.get());
    let arrived = [n.a_dgrams_rcved.get(), n.b_dgrams_rcved.get()];
    let filled = [n.a_gaps_filled.get(), n.b_gaps_filled.get()];
    let (silences, silent) = ([n.a_silences.get(), n.b_silences.get()], [n.a_silent.get(), n.b_silent.get()]);
    println!(
        "{{\"first\": {first}, \"messages\": {messages}, \"lost\": {lost}, \"wrong\": {wrong}, \
         \"recovered\": {recovered}, \"naks\": {naks}, \"repaired\": {repaired}, \"arrived\": {arrived:?}, \
         \"filled\": {filled:?}, \"silences\": {silences:?}, \"silent\": {silent:?}}}"
    );
    Ok(())
}
