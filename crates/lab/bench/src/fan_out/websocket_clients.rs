//! Many WebSocket clients in one process, which look for what they count and leave the rest unread.
//!
//! They read from any server alike; what they say to be sent updates is [`Start`].

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use net::tcp::Moved;
use net::{Transport, clock};
use serde_json::{Value, json};
use units::Nanos;
use websocket::{ClientConfig, ClientConnection, Handler, Limits, Message, Outbound, Session, Stop};

use super::peers::{Peer, Tally, Target, serve};
use crate::BenchError;
use crate::end_to_end::{Items, SERVICE};
use crate::every::{Every, TimeEvery};
use crate::options::Cpu;

#[derive(Debug, Args)]
pub(crate) struct WebSocketClientsArgs {
    #[command(flatten)]
    target: Target,
    #[arg(long)]
    items: u32,
    #[arg(long)]
    clients: u32,
    /// They offer permessage-deflate.
    #[arg(long)]
    compression: bool,
    /// The server is `nats-server`.
    #[arg(long)]
    nats: bool,
    #[command(flatten)]
    time_every: TimeEvery,
    #[command(flatten)]
    cpu: Cpu,
}

/// What a client does until it gets updates, and with what comes between them.
trait Start {
    /// The connection stands.
    fn begin(&mut self, out: &mut Outbound) -> ControlFlow<Stop>;
    /// A message before it is ready, or without an update.
    fn on_other(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop>;
    /// Called twice a second.
    fn on_wakeup(&mut self, _: &mut Outbound) -> ControlFlow<Stop> {
        ControlFlow::Continue(())
    }
    /// Nothing but updates is to come.
    fn is_ready(&self) -> bool;
}

/// One client.
struct Client<S> {
    transport: Transport,
    connection: ClientConnection,
    reader: Reader<S>,
}

struct Reader<S> {
    start: S,
    times: Every,
    tally: Tally,
}

/// The stream of the first item.
pub(super) const FIRST_ID: u32 = BATCH_ID + 1;
/// The stream of the batch request; the items have the ids behind it.
const BATCH_ID: u32 = 5;
/// One of so many updates is timed, unless another number is given.
pub(super) const TIME_EVERY: u32 = 16;
/// What every update begins with.
const OBJECT: &[u8] = b"{\"ID\":";
/// No update of this workload is shorter.
const OBJECT_BYTES_MIN: usize = 150;
/// When an update was meant to be sent.
const INTENDED: &[u8] = b"\"TIM_TRK_1\":";
/// The run that ends with an update.
const ENDS_RUN: &[u8] = b"\"TIM_TRK_2\":";

impl<S: Start> Handler for Reader<S> {
    fn on_connected(&mut self, _: &Session<'_>, out: &mut Outbound) -> ControlFlow<Stop> {
        self.start.begin(out)
    }

    fn on_message(&mut self, message: Message<'_>, out: &mut Outbound) -> ControlFlow<Stop> {
        let message = match message {
            Message::Text(text) => text.as_bytes(),
            Message::Binary(bytes) => bytes,
        };
        if !self.start.is_ready() || message.len() < OBJECT_BYTES_MIN {
            return self.start.on_other(message, out);
        }
        self.count(message);
        ControlFlow::Continue(())
    }
}

impl<S> Reader<S> {
    /// Counts the updates of a message.
    fn count(&mut self, message: &[u8]) {
        let (mut rest, mut last) = (message, &message[..0]);
        let seen = &mut self.tally.seen;
        while let Some(at) = find(rest, OBJECT) {
            last = &rest[at..];
            rest = last.get(OBJECT_BYTES_MIN..).unwrap_or_default();
            seen.updates += 1;
            if self.times.is_due() {
                seen.latencies.record(age_ns(last));
            }
        }
        if number(last, ENDS_RUN).is_some_and(|run| run != 0) {
            seen.updates -= 1;
            seen.last_ns = age_ns(last);
            seen.example = example(last);
            self.tally.has_ended = true;
        }
    }
}

/// The update at the beginning of a text, without the time that it was meant to be sent.
fn example(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut objects = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let is_whole = objects.next().is_some_and(|object| object.is_ok());
    let whole = if is_whole { &text[..objects.byte_offset()] } else { "" };
    let intended = number(whole.as_bytes(), INTENDED).unwrap_or_default().to_string();
    whole.replacen(&intended, "", 1)
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
    let intended = number(update, INTENDED).map_or(Nanos::ZERO, Nanos);
    clock::monotonic().since(intended).as_nanos() as u64
}

/// A client of the JSON protocol: logs in, and requests all items at once.
struct JsonStart {
    items: u32,
    images: u32,
    /// The service was not known yet: the request is to be repeated.
    is_early: bool,
}

impl Start for JsonStart {
    fn begin(&mut self, out: &mut Outbound) -> ControlFlow<Stop> {
        push(out, &json!({"ID": 1, "Domain": "Login", "Key": {"Name": "bench"}}))
    }

    fn on_other(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop> {
        let Ok(Value::Array(messages)) = serde_json::from_slice(message) else {
            return ControlFlow::Break(Stop::Application);
        };
        for message in messages {
            match (message["Type"].as_str(), message["Domain"].as_str()) {
                (Some("Refresh"), Some("Login")) => self.request(out)?,
                (Some("Refresh"), None) => self.images += 1,
                (Some("Status"), None) => self.is_early |= message["State"]["Code"] == "SourceUnknown",
                (Some("Ping"), _) => push(out, &json!({"Type": "Pong"}))?,
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn on_wakeup(&mut self, out: &mut Outbound) -> ControlFlow<Stop> {
        if self.is_early { self.request(out) } else { ControlFlow::Continue(()) }
    }

    fn is_ready(&self) -> bool {
        self.images >= self.items
    }
}

impl JsonStart {
    fn request(&mut self, out: &mut Outbound) -> ControlFlow<Stop> {
        self.is_early = false;
        let names: Vec<String> = (0..self.items).map(Items::common_name).collect();
        push(out, &json!({"ID": BATCH_ID, "Key": {"Name": names, "Service": SERVICE}}))
    }
}

fn push(out: &mut Outbound, message: &Value) -> ControlFlow<Stop> {
    push_message(out, Message::Text(&message.to_string()))
}

fn push_message(out: &mut Outbound, message: Message<'_>) -> ControlFlow<Stop> {
    match out.push(message) {
        Ok(()) => ControlFlow::Continue(()),
        Err(stop) => ControlFlow::Break(stop),
    }
}

/// A client of `nats-server`: subscribes to a subject for each item. The pong behind the subscriptions says
/// that they are in effect.
struct NatsStart {
    items: u32,
    is_ready: bool,
}

impl Start for NatsStart {
    fn begin(&mut self, out: &mut Outbound) -> ControlFlow<Stop> {
        let connect = "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n".to_owned();
        let subscribe = |n| format!("SUB {} {}\r\n", Items::common_name(n), FIRST_ID + n);
        let subscriptions = (0..self.items).map(subscribe);
        let lines: String =
            std::iter::once(connect).chain(subscriptions).chain(["PING\r\n".to_owned()]).collect();
        push_message(out, Message::Binary(lines.as_bytes()))
    }

    fn on_other(&mut self, message: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
        if message.starts_with(b"-ERR") {
            return ControlFlow::Break(Stop::Application);
        }
        self.is_ready |= message.ends_with(b"PONG\r\n");
        ControlFlow::Continue(())
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }
}

impl<S: Start> Peer for Client<S> {
    fn transport(&mut self) -> &mut Transport {
        &mut self.transport
    }

    fn on_bytes(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        let taken = self.connection.on_bytes(clock::monotonic(), bytes, &mut self.reader);
        taken.map_err(|reason| BenchError::new(format!("a client was lost: {reason}")))
    }

    fn write(&mut self) -> Result<(), BenchError> {
        while !self.connection.outbound().pending().is_empty() {
            match self.transport.write(self.connection.outbound().pending())? {
                Moved::Bytes(count) => self.connection.outbound().consume(count),
                Moved::WouldBlock | Moved::End => break,
            }
        }
        self.transport.flush()?;
        Ok(())
    }

    fn on_wakeup(&mut self) -> Result<(), BenchError> {
        let now = clock::monotonic();
        if self.connection.next_wakeup() <= now {
            let goes_on = self.connection.on_wakeup(now);
            goes_on.map_err(|reason| BenchError::new(format!("a client was lost: {reason}")))?;
        }
        if self.reader.start.on_wakeup(self.connection.outbound()).is_break() {
            return Err(BenchError::new("a client could not repeat its request"));
        }
        self.write()
    }

    fn is_ready(&self) -> bool {
        self.reader.start.is_ready()
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.reader.tally
    }
}

/// As long as a run may take and longer: `nats-server` does not know the ping of the JSON protocol.
const NO_PING: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn websocket_clients(args: &WebSocketClientsArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let items = args.items;
    let config = ClientConfig { compression: args.compression, ..ClientConfig::new("localhost") };
    if !args.nats {
        return run(args, config, || JsonStart { items, images: 0, is_early: false });
    }
    let config = ClientConfig {
        path: "/".to_owned(),
        protocols: Vec::new(),
        ping_timeout: NO_PING,
        // It puts all that waits for a client into one message.
        limits: Limits { message_bytes_max: 256 << 20, ..Limits::default() },
        ..config
    };
    run(args, config, || NatsStart { items, is_ready: false })
}

fn run<S: Start>(
    args: &WebSocketClientsArgs,
    config: ClientConfig,
    start: impl Fn() -> S,
) -> Result<(), BenchError> {
    let (config, times) = (Arc::new(config), Every::new(args.time_every.or(TIME_EVERY)));
    let client = |number: u32, transport| {
        let now = clock::monotonic();
        let connection = ClientConnection::new(now, &config, &Arc::default(), number.into());
        Client { transport, connection, reader: Reader { start: start(), times, tally: Tally::default() } }
    };
    serve(args.target.connect_all(0..args.clients, client)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(id: u32, ends_run: u32) -> String {
        let fields = format!(r#""TIM_TRK_1":{id}00,"TIM_TRK_2":{ends_run},"BID":{}"#, "1".repeat(120));
        format!(r#"{{"ID":{id},"Type":"Update","Fields":{{{fields}}}}}"#)
    }

    #[test]
    fn the_updates_of_a_message_are_counted_whatever_stands_between_them() {
        let mut reader = Reader { start: (), times: Every::new(TIME_EVERY), tally: Tally::default() };
        for (message, count) in [
            (format!("[{}]", update(1, 0)), 1),
            (format!("[{{\"Type\":\"Pong\"}},{},{},{}]", update(1, 0), update(2, 0), update(3, 0)), 4),
            (format!("MSG C0 6 200\r\n{}\r\nMSG C1 7 200\r\n{}\r\n", update(1, 0), update(2, 0)), 6),
        ] {
            reader.count(message.as_bytes());
            assert_eq!((reader.tally.seen.updates, reader.tally.has_ended), (count, false));
        }
    }

    #[test]
    fn what_ends_a_run_is_not_counted_and_shown_without_its_time() {
        for (before, behind) in [("[", "]"), ("MSG C0 6 200\r\n", "\r\n")] {
            let mut reader = Reader { start: (), times: Every::new(TIME_EVERY), tally: Tally::default() };
            reader.count(format!("{before}{}{behind}", update(1, 0)).as_bytes());
            reader.count(format!("{before}{}{behind}", update(3, 7)).as_bytes());
            assert!(reader.tally.has_ended);
            assert_eq!(reader.tally.seen.updates, 1);
            assert_eq!(reader.tally.seen.example, update(3, 7).replace("300", ""));
        }
    }
}
