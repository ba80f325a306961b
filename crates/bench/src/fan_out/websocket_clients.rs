//! Many WebSocket clients in one process, which look for what they count and leave the rest unread.

use std::net::TcpStream;
use std::ops::ControlFlow;
use std::sync::Arc;

use clap::Args;
use net::tcp::Moved;
use net::{clock, tcp};
use serde_json::{Value, json};
use units::Nanos;
use websocket::{ClientConfig, ClientConnection, Handler, Message, Outbound, Session, Stop};

use super::peers::{Peer, Tally, connect, serve};
use crate::BenchError;
use crate::end_to_end::{Items, SERVICE};
use crate::role::Cpu;

#[derive(Debug, Args)]
pub(crate) struct WebSocketClientsArgs {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    items: u32,
    #[arg(long)]
    clients: u32,
    #[arg(long)]
    compression: bool,
    #[command(flatten)]
    cpu: Cpu,
}

/// One client.
struct Client {
    stream: TcpStream,
    connection: ClientConnection,
    reader: Reader,
}

struct Reader {
    items: u32,
    images: u32,
    /// The service was not known yet: the request is to be repeated.
    is_early: bool,
    tally: Tally,
}

/// The stream of the batch request; the items have the ids behind it.
const BATCH_ID: u32 = 5;
/// One of so many frames is looked into.
const SAMPLE: u64 = 16;
/// What every message begins with.
const OBJECT: &[u8] = b"{\"ID\":";
/// No update of this workload is shorter.
const OBJECT_BYTES_MIN: usize = 150;

impl Handler for Reader {
    fn on_connected(&mut self, _: &Session<'_>, out: &mut Outbound) -> ControlFlow<Stop> {
        push(out, &json!({"ID": 1, "Domain": "Login", "Key": {"Name": "bench"}}))
    }

    fn on_message(&mut self, message: Message<'_>, out: &mut Outbound) -> ControlFlow<Stop> {
        let Message::Text(text) = message else { return ControlFlow::Break(Stop::Application) };
        if self.images < self.items {
            return self.on_start(text, out);
        }
        let last = self.count(text.as_bytes());
        let ends_run = number(last, b"\"TIM_TRK_2\":").is_some_and(|run| run != 0);
        if ends_run {
            self.tally.updates -= 1;
            self.tally.has_ended = true;
            self.tally.last_ns = age_ns(last);
        } else if self.tally.updates.is_multiple_of(SAMPLE) {
            self.tally.latencies.record(age_ns(last));
        }
        ControlFlow::Continue(())
    }
}

impl Reader {
    /// Counts the messages of a frame of updates; the last of them.
    fn count<'t>(&mut self, text: &'t [u8]) -> &'t [u8] {
        let mut last = text;
        while let Some(at) = find(last.get(OBJECT_BYTES_MIN..).unwrap_or_default(), OBJECT) {
            self.tally.updates += 1;
            last = &last[OBJECT_BYTES_MIN + at..];
        }
        self.tally.updates += 1;
        last
    }

    /// Frames before all images are there.
    fn on_start(&mut self, text: &str, out: &mut Outbound) -> ControlFlow<Stop> {
        let Ok(Value::Array(messages)) = serde_json::from_str(text) else {
            return ControlFlow::Break(Stop::Application);
        };
        for message in messages {
            match (message["Type"].as_str(), message["Domain"].as_str()) {
                (Some("Refresh"), Some("Login")) => self.request(out)?,
                (Some("Refresh"), None) => self.images += 1,
                (Some("Status"), None) => self.is_early |= message["State"]["Code"] == "SourceUnknown",
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn request(&mut self, out: &mut Outbound) -> ControlFlow<Stop> {
        self.is_early = false;
        let names: Vec<String> = (0..self.items).map(Items::common_name).collect();
        push(out, &json!({"ID": BATCH_ID, "Key": {"Name": names, "Service": SERVICE}}))
    }
}

fn push(out: &mut Outbound, message: &Value) -> ControlFlow<Stop> {
    match out.push(Message::Text(&message.to_string())) {
        Ok(()) => ControlFlow::Continue(()),
        Err(stop) => ControlFlow::Break(stop),
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    let first = what.first()?;
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.iter().position(|byte| byte == first)?;
        if text[at..].starts_with(what) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// The number behind a name.
fn number(text: &[u8], name: &[u8]) -> Option<u64> {
    let digits = &text[find(text, name)? + name.len()..];
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

fn age_ns(update: &[u8]) -> u64 {
    let intended = number(update, b"\"TIM_TRK_1\":").map_or(Nanos::ZERO, Nanos);
    clock::monotonic().since(intended).as_nanos() as u64
}

impl Client {
    fn connect(args: &WebSocketClientsArgs, number: u32) -> Result<Client, BenchError> {
        let stream = connect(args.port)?;
        let config = ClientConfig { compression: args.compression, ..ClientConfig::new("localhost") };
        let now = clock::monotonic();
        let connection = ClientConnection::new(now, &Arc::new(config), &Arc::default(), number.into());
        let reader = Reader { items: args.items, images: 0, is_early: false, tally: Tally::default() };
        Ok(Client { stream, connection, reader })
    }
}

impl Peer for Client {
    fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn on_bytes(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        let taken = self.connection.on_bytes(clock::monotonic(), bytes, &mut self.reader);
        taken.map_err(|reason| BenchError::new(format!("a client was lost: {reason}")))
    }

    fn write(&mut self) -> Result<(), BenchError> {
        while !self.connection.outbound().pending().is_empty() {
            match tcp::write(&self.stream, self.connection.outbound().pending())? {
                Moved::Bytes(count) => self.connection.outbound().consume(count),
                Moved::WouldBlock | Moved::End => break,
            }
        }
        Ok(())
    }

    fn on_wakeup(&mut self) -> Result<(), BenchError> {
        let now = clock::monotonic();
        if self.connection.next_wakeup() <= now {
            let goes_on = self.connection.on_wakeup(now);
            goes_on.map_err(|reason| BenchError::new(format!("a client was lost: {reason}")))?;
        }
        if self.reader.is_early && self.reader.request(self.connection.outbound()).is_break() {
            return Err(BenchError::new("a client could not repeat its request"));
        }
        self.write()
    }

    fn is_ready(&self) -> bool {
        self.reader.images >= self.reader.items
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.reader.tally
    }
}

pub(crate) fn websocket_clients(args: &WebSocketClientsArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let clients = (0..args.clients).map(|number| Client::connect(args, number));
    serve(clients.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_of_a_frame_are_counted_and_the_last_is_told() {
        let update = |id| {
            let fields = format!(r#""TIM_TRK_1":{id}00,"TIM_TRK_2":{id},"BID":{}"#, "1".repeat(120));
            format!(r#"{{"ID":{id},"Type":"Update","Key":{{"Name":"C0"}},"Fields":{{{fields}}}}}"#)
        };
        let mut reader = Reader { items: 0, images: 0, is_early: false, tally: Tally::default() };
        for (frame, count, last) in [
            (format!("[{}]", update(1)), 1, 1),
            (format!("[{},{},{}]", update(1), update(2), update(3)), 4, 3),
        ] {
            let text = reader.count(frame.as_bytes());
            assert_eq!((reader.tally.updates, number(text, b"\"TIM_TRK_2\":")), (count, Some(last)));
            assert_eq!(number(text, b"\"TIM_TRK_1\":"), Some(last * 100));
        }
    }
}
