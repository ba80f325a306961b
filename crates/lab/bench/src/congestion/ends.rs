//! The two ends of a flow: over the messaging library, or bare datagrams.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::mpsc::{Receiver as Commands, TryRecvError};
use std::time::Duration;

use clap::{Args, ValueEnum};
use measure::Schedule;
use messaging::{
    CongestionControl, Context, ContextCounters, Handler, Interface, LbtrmConfig, Loss, Message,
    MessagingConfig, Receiver, ReceiverOptions, SendError, Source, SourceOptions, StreamId,
    TopicResolutionConfig, Wait,
};
use net::clock;
use net::udp::{MulticastOptions, ReceiveBatch, Sent, UdpSocket};
use net::{Interest, Poller, Token};
use serde_json::{Value, json};
use units::{Nanos, Sqn};

use crate::BenchError;
use crate::own::Settings;
use crate::process::{answer, commands};

/// With the library's headers it fills a datagram.
const PAYLOAD: [u8; MESSAGE_BYTES] = [7; MESSAGE_BYTES];
/// Bytes of a message, without any header.
pub(super) const MESSAGE_BYTES: usize = 1_440;
const DATAGRAM: [u8; 1_472] = [7; 1_472];
const BUFFER_BYTES: usize = 8 << 20;
const PORT: u16 = 14_400;
const TOPIC: &str = "flow";
/// A turn waits so long at most.
const TURN: Duration = Duration::from_millis(5);

/// What a flow goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Bare datagrams at a rate.
    Raw,
    /// LBT-RM at a fixed rate.
    Fixed,
    /// LBT-RM with congestion control.
    Adaptive,
}

/// One end of a flow.
#[derive(Debug, Args)]
pub(crate) struct EndArgs {
    /// Number of the flow: its group, and its topic.
    #[arg(long)]
    flow: u8,
    #[arg(long)]
    interface: Ipv4Addr,
    #[arg(long)]
    mode: Mode,
    /// Bits per second: of the raw or fixed rate, or the limit.
    #[arg(long, default_value_t = 0)]
    rate: u64,
    #[arg(long, default_value_t)]
    settings: Settings,
}

/// What the workload sets itself, for each mode of a flow.
pub(super) const OWN_KEYS: [&str; 3] = [
    "lbtrm.data_rate_limit_bits_per_second",
    "lbtrm.retransmit_rate_limit_bits_per_second",
    "lbtrm.congestion_control",
];

/// Where nothing else sets the key.
const STANDARD: [&str; 3] = [
    "lbtrm.congestion_control_minimum_rate_bits_per_second=500000",
    // Sources that begin lose some hundred datagrams before they know the link, and may repair with a fifth of what it then
    // leaves them.
    "lbtrm.nak_generation_interval_us=5000000",
    // What a sender that had to wait for a CPU may make up for: little against the queue of the link.
    "lbtrm.rate_interval_us=5000",
];

impl EndArgs {
    fn group(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(239, 78, 0, self.flow), PORT)
    }

    fn topic(&self) -> String {
        format!("{TOPIC}.{}", self.flow)
    }

    fn multicast(&self) -> MulticastOptions {
        MulticastOptions { interface: self.interface, ttl: 1, buffer_bytes: BUFFER_BYTES }
    }

    fn config(&self) -> Result<MessagingConfig, BenchError> {
        let adapts = self.mode == Mode::Adaptive;
        let config = self.settings.over(&STANDARD.map(str::to_owned))?;
        Ok(MessagingConfig {
            interface: Interface::Address(self.interface),
            interface_b: None,
            source_static_session: Vec::new(),
            ttl: MessagingConfig::default().ttl,
            resolver: TopicResolutionConfig::default(),
            wait: Wait::Block,
            lbtrm: LbtrmConfig {
                multicast_address: *self.group().ip(),
                multicast_address_low: None,
                multicast_address_high: None,
                destination_port: PORT,
                data_rate_limit_bits_per_second: self.rate.max(1),
                retransmit_rate_limit_bits_per_second: (self.rate / 5).max(1),
                congestion_control: if adapts {
                    CongestionControl::Adaptive
                } else {
                    CongestionControl::None
                },
                ..config.lbtrm
            },
            ..config
        })
    }

    fn context(&self) -> Result<(Context, ContextCounters), BenchError> {
        let counters = ContextCounters::default();
        Ok((Context::standalone_with(&self.config()?, counters.clone())?, counters))
    }
}

/// Sends for as many seconds as it is told, then serves NAKs until its input ends.
pub(crate) fn sender(args: &EndArgs) -> Result<(), BenchError> {
    let commands = commands();
    match args.mode {
        Mode::Raw => send_raw(args, &commands),
        Mode::Fixed | Mode::Adaptive => send(args, &commands),
    }
}

/// When a command of so many seconds that has come now is over.
fn end_of(command: &Value) -> Nanos {
    clock::monotonic().after(Duration::from_secs_f64(command["seconds"].as_f64().unwrap_or(0.0).max(0.0)))
}

fn send_raw(args: &EndArgs, commands: &Commands<Value>) -> Result<(), BenchError> {
    let socket = UdpSocket::multicast_sender(SocketAddrV4::new(args.interface, 0), args.multicast())?;
    answer(&json!({ "ready": true }));
    while let Ok(command) = commands.recv() {
        let end = end_of(&command);
        let mut schedule = Schedule::new(clock::monotonic(), args.rate as f64 / (8 * DATAGRAM.len()) as f64);
        let mut sent = 0_u64;
        while clock::monotonic() < end {
            while schedule.take_due(clock::monotonic()).is_some() {
                if let Sent::Datagrams(_) = socket.send_run(args.group(), &DATAGRAM, DATAGRAM.len())? {
                    sent += 1;
                }
            }
            clock::sleep_until(schedule.next());
        }
        answer(&json!({ "sent": sent, "retransmitted": 0 }));
    }
    Ok(())
}

fn send(args: &EndArgs, commands: &Commands<Value>) -> Result<(), BenchError> {
    let (mut context, counters) = args.context()?;
    let source = context.create_source(&args.topic(), &SourceOptions::default())?;
    answer(&json!({ "ready": true }));
    loop {
        match commands.try_recv() {
            Ok(command) => {
                let sent = fill(&mut context, source, end_of(&command))?;
                answer(&json!({ "sent": sent }));
            }
            Err(TryRecvError::Empty) => drop(context.wait(Some(TURN), &mut ())?),
            Err(TryRecvError::Disconnected) => break,
        }
    }
    let source = counters.source;
    answer(&json!({
        "retransmitted": source.rxs_sent.get(), "lowered": source.rate_lowered.get(),
        "reports": source.reports_rcved.get(), "bits_per_second": source.rate_bits_per_second.get(),
    }));
    context.end();
    Ok(())
}

/// Sends whatever the transport takes.
fn fill(context: &mut Context, source: Source, end: Nanos) -> Result<u64, BenchError> {
    let mut sent = 0;
    while clock::monotonic() < end {
        loop {
            match context.send(source, &[&PAYLOAD]) {
                Ok(_) => sent += 1,
                Err(SendError::WouldBlock) => break,
                Err(error) => return Err(BenchError::new(error.to_string())),
            }
        }
        context.wait(Some(TURN), &mut ())?;
    }
    Ok(sent)
}

/// Receives until it is told anything, and answers what came in each second of the system's clock.
pub(crate) fn receiver(args: &EndArgs) -> Result<(), BenchError> {
    let commands = commands();
    match args.mode {
        Mode::Raw => receive_raw(args, &commands),
        Mode::Fixed | Mode::Adaptive => receive(args, &commands),
    }
}

fn receive_raw(args: &EndArgs, commands: &Commands<Value>) -> Result<(), BenchError> {
    let socket = UdpSocket::multicast_receiver(args.group(), args.multicast())?;
    let (mut poller, mut batch) = (Poller::new()?, ReceiveBatch::new(16));
    poller.registrar().add(&socket, Token(0), Interest::Read)?;
    let mut tally = Tally::default();
    answer(&json!({ "ready": true }));
    while commands.try_recv() == Err(TryRecvError::Empty) {
        let count = socket.receive(&mut batch)?.datagrams().count();
        tally.count(clock::monotonic(), count as u64);
        poller.wait(Some(TURN))?.for_each(drop);
    }
    tally.tell(0);
    Ok(())
}

fn receive(args: &EndArgs, commands: &Commands<Value>) -> Result<(), BenchError> {
    let (mut context, counters) = args.context()?;
    context.create_receiver(&args.topic(), &ReceiverOptions::default())?;
    let mut tally = Tally::default();
    answer(&json!({ "ready": true }));
    while commands.try_recv() == Err(TryRecvError::Empty) {
        context.wait(Some(TURN), &mut tally)?;
    }
    tally.tell(counters.receiver.recovered.get());
    Ok(())
}

/// Messages of each second of the clock, from the first on.
#[derive(Default)]
struct Tally {
    first_second: u64,
    messages: Vec<u64>,
    first: u32,
    lost: u64,
}

impl Tally {
    fn count(&mut self, now: Nanos, count: u64) {
        if count == 0 {
            return;
        }
        let second = now.0 / 1_000_000_000;
        if self.messages.is_empty() {
            self.first_second = second;
        }
        let at = (second - self.first_second) as usize;
        if self.messages.len() <= at {
            self.messages.resize(at + 1, 0);
        }
        self.messages[at] += count;
    }

    fn tell(&self, recovered: u64) {
        let Tally { first_second, messages, first, lost } = self;
        answer(&json!({
            "first_second": first_second, "messages": messages, "first": first, "lost": lost,
            "recovered": recovered,
        }));
    }
}

impl Handler for Tally {
    fn on_begin(&mut self, _: Receiver, _: StreamId, first: Sqn) {
        self.first = first.0;
    }

    fn on_message(&mut self, _: &Message<'_>) {
        self.count(clock::monotonic(), 1);
    }

    fn on_loss(&mut self, _: Receiver, _: StreamId, loss: Loss) {
        self.lost += u64::from(loss.count);
    }
}
