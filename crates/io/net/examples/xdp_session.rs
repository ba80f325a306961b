//! One end of an LBT-RM session, over sockets or AF_XDP: the ends of a session need not have the same.
//!
//! ```text
//! xdp_session receive ADDRESS GROUP:PORT CARRIER
//! xdp_session send    ADDRESS GROUP:PORT CARRIER COUNT BYTES
//! ```
//!
//! ADDRESS is one of the interface; CARRIER is `socket`, `generic`, or `native` (AF_XDP in that mode). The
//! sender numbers its messages and fills them by a rule; the receiver checks both and prints a line of JSON
//! when the session has ended. Each prints `ready` when it has opened everything; the sender begins with the
//! first line on its standard input, and answers NAKs until that ends.

mod lbtrm;

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use lbt::config::SourceConfig;
use lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, Lost};
use lbtrm::{Carrier, End};
use tickcast_net::clock;
use tickcast_net::xdp::{XdpMode, XdpOptions};

/// Slow enough for a receiver that shares its CPU with others.
const RATE_BPS: u64 = 100_000_000;
const REPEAT_BPS: u64 = RATE_BPS / 5;
/// Messages that share a run.
const FLUSH_EVERY: u64 = 8;

/// Counts messages, and that each is the one after the one before.
#[derive(Default)]
struct Checker {
    first: Option<u64>,
    messages: u64,
    wrong: u64,
    lost: u64,
    recovered: u64,
    has_ended: bool,
}

impl DeliverySink for Checker {
    fn deliver(&mut self, message: Delivered<'_>) {
        let number = message.payload.first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes));
        let first = *self.first.get_or_insert(number);
        let is_right =
            number == first + self.messages && message.payload == content(number, message.payload.len());
        self.messages += 1;
        self.wrong += u64::from(!is_right);
        self.recovered += u64::from(message.recovered);
    }

    fn lost(&mut self, lost: Lost) {
        self.lost += u64::from(lost.count);
    }

    fn begin_of_stream(&mut self, _: BeginOfStream) {}

    fn end_of_stream(&mut self, _: EndOfStream) {
        self.has_ended = true;
    }
}

/// The message of a number.
fn content(number: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len as u64).map(|i| (number.wrapping_mul(31) + i) as u8).collect();
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["receive", address, group, carrier] => receive(open(address, group, carrier)?),
        ["send", address, group, carrier, count, bytes] => {
            send(open(address, group, carrier)?, parse(count)?, parse(bytes)?)
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "see the head of the source for the usage")),
    }
}

fn parse<T: std::str::FromStr>(word: &str) -> io::Result<T> {
    word.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("what is {word}?")))
}

fn open(address: &str, group: &str, carrier: &str) -> io::Result<End<Checker>> {
    let (interface, group): (Ipv4Addr, SocketAddrV4) = (parse(address)?, parse(group)?);
    let xdp = |mode| {
        let options = XdpOptions { mode, ttl: 1, ..XdpOptions::on(interface) };
        Carrier::xdp(&options, group, Arc::default())
    };
    let carrier = match carrier {
        "socket" => Carrier::sockets(interface, group)?,
        "generic" => xdp(XdpMode::Generic)?,
        "native" => xdp(XdpMode::Native)?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("what is {carrier}?"))),
    };
    let config = SourceConfig {
        data_rate_limit: RATE_BPS,
        retransmit_rate_limit: REPEAT_BPS,
        ..SourceConfig::default()
    };
    let end = End::new(carrier, group, &config, Checker::default())?;
    println!("ready");
    Ok(end)
}

fn receive(mut end: End<Checker>) -> io::Result<()> {
    while !end.sink.has_ended {
        pass_time();
        end.turn(clock::monotonic())?;
    }
    let (seen, counters) = (&end.sink, &end.receiver_counters);
    println!(
        "{{\"first\": {}, \"messages\": {}, \"wrong\": {}, \"lost\": {}, \"recovered\": {}, \"naks\": {}}}",
        seen.first.unwrap_or(0),
        seen.messages,
        seen.wrong,
        seen.lost,
        seen.recovered,
        counters.naks_sent.get(),
    );
    Ok(())
}

fn send(mut end: End<Checker>, count: u64, bytes: usize) -> io::Result<()> {
    let input = lines();
    while input.try_recv().is_err() {
        pass_time();
        end.turn(clock::monotonic())?;
    }
    for number in 0..count {
        let message = content(number, bytes.max(8));
        let is_last_of_run = number % FLUSH_EVERY == FLUSH_EVERY - 1;
        while !end.send(clock::monotonic(), &message, is_last_of_run)? {
            pass_time();
            end.turn(clock::monotonic())?;
        }
        if is_last_of_run {
            end.turn(clock::monotonic())?;
        }
    }
    end.end(clock::monotonic());
    while input.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
        pass_time();
        end.turn(clock::monotonic())?;
    }
    let counters = &end.source_counters;
    println!("{{\"datagrams\": {}, \"repeated\": {}}}", counters.msgs_sent.get(), counters.rxs_sent.get());
    Ok(())
}

/// Lets other processes have the CPU; what comes meanwhile waits.
fn pass_time() {
    clock::sleep_until(clock::monotonic().after(Duration::from_micros(20)));
}

/// The lines of the standard input, until it ends.
fn lines() -> mpsc::Receiver<()> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for _ in io::stdin().lines().map_while(Result::ok) {
            if tell.send(()).is_err() {
                return;
            }
        }
    });
    told
}
