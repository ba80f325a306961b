//! The two ends of the multicast workload, with the protocol and without it.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use clap::Args;
use counters::table::LbtrmReceiver;
use measure::Latencies;
use messaging::{
    Context, ContextCounters, Handler, LbtrmConfig, Message, MessagingConfig, ReceiverOptions, SendError,
    Source, SourceOptions, TopicResolutionConfig, Wait,
};
use net::clock;
use net::udp::{MulticastOptions, ReceiveBatch, Sent, UdpSocket};
use serde_json::json;
use units::Nanos;

use crate::BenchError;
use crate::chain::run_number;
use crate::end_to_end::Pacing;
use crate::options::Cpu;
use crate::own::Settings;
use crate::process::{self, START_LIMIT, answer};

/// Ports and sizes of a sender or receiver.
#[derive(Clone, Debug, Args)]
pub(crate) struct EndArgs {
    #[arg(long)]
    group_port: u16,
    #[arg(long)]
    resolver_port: u16,
    #[arg(long)]
    size: usize,
    #[arg(long)]
    datagram: u32,
    #[arg(long, default_value_t)]
    settings: Settings,
    #[command(flatten)]
    cpu: Cpu,
}

const TOPIC: &str = "bench";
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 10, 10, 78);
const BUFFER_BYTES: usize = 64 << 20;
/// One of so many messages is timed.
const SAMPLE: u64 = 64;

impl EndArgs {
    fn messaging(&self) -> Result<MessagingConfig, BenchError> {
        let config = self.settings.over(&[
            "lbtrm.data_rate_limit_bits_per_second=0".to_owned(),
            format!("lbtrm.receiver_socket_buffer_bytes={BUFFER_BYTES}"),
        ])?;
        Ok(MessagingConfig {
            interface: Ipv4Addr::LOCALHOST.into(),
            interface_b: None,
            source_static_session: Vec::new(),
            ttl: MessagingConfig::default().ttl,
            wait: Wait::Spin,
            // Nothing else runs beside what is measured.
            counters_directory: String::new(),
            lbtrm: LbtrmConfig {
                multicast_address: GROUP,
                multicast_address_low: None,
                multicast_address_high: None,
                destination_port: self.group_port,
                datagram_max_size_bytes: self.datagram,
                ..config.lbtrm
            },
            resolver: TopicResolutionConfig {
                multicast_port: self.resolver_port,
                ..TopicResolutionConfig::default()
            },
            ..config
        })
    }

    fn group(&self) -> SocketAddrV4 {
        SocketAddrV4::new(GROUP, self.group_port)
    }

    /// A message: when it was meant to be sent `u64`, the run that ends with it `u8`, filling.
    fn message(&self) -> Vec<u8> {
        vec![0; self.size]
    }
}

const MULTICAST: MulticastOptions =
    MulticastOptions { interface: Ipv4Addr::LOCALHOST, ttl: 0, buffer_bytes: BUFFER_BYTES };

pub(crate) fn sender(args: &EndArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let mut context = Context::standalone(&args.messaging()?)?;
    let topic = context.create_source(TOPIC, &SourceOptions::default())?;
    let mut sender = Sender { context, topic };
    // Until a receiver has found the topic and joined.
    sender.serve_for(Duration::from_millis(500))?;
    answer(&json!({ "ready": true }));
    let (commands, mut message) = (process::commands(), args.message());
    loop {
        match commands.try_recv() {
            Ok(command) => {
                let sent = Pacing::Spin.run(&command, |due| {
                    for intended in due {
                        message[..8].copy_from_slice(&intended.0.to_be_bytes());
                        sender.send(&message)?;
                    }
                    sender.serve()
                })?;
                message[..8].copy_from_slice(&sent.end.0.to_be_bytes());
                message[8] = run_number(&command);
                sender.send(&message)?;
                message[8] = 0;
                answer(&json!({ "sent": sent.count }));
            }
            Err(std::sync::mpsc::TryRecvError::Empty) => sender.serve_for(Duration::from_millis(1))?,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => return Ok(()),
        }
    }
}

struct Sender {
    context: Context,
    topic: Source,
}

impl Sender {
    fn send(&mut self, message: &[u8]) -> Result<(), BenchError> {
        loop {
            match self.context.send(self.topic, &[message]) {
                Ok(_) => return Ok(()),
                Err(SendError::WouldBlock) => self.serve()?,
                Err(error) => return Err(BenchError::new(error.to_string())),
            }
        }
    }

    /// Sends what is complete or waits, and answers NAKs.
    fn serve(&mut self) -> Result<(), BenchError> {
        self.context.poll(&mut ())?;
        Ok(())
    }

    fn serve_for(&mut self, span: Duration) -> Result<(), BenchError> {
        let end = clock::monotonic().after(span);
        while clock::monotonic() < end {
            self.serve()?;
        }
        Ok(())
    }
}

pub(crate) fn receiver(args: &EndArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let counters = ContextCounters::default();
    let mut context = Context::standalone_with(&args.messaging()?, counters.clone())?;
    let mut seen = Seen::default();
    context.create_receiver(TOPIC, &ReceiverOptions::default())?;
    answer(&json!({ "listening": true }));
    let mut repaired = 0;
    loop {
        context.poll(&mut seen)?;
        if seen.ended.is_some() {
            seen.tell(repairs(&counters.receiver, &mut repaired));
        }
    }
}

/// Datagrams repaired since the last time.
fn repairs(counters: &LbtrmReceiver, before: &mut u64) -> u64 {
    let now = counters.recovered.get();
    now - std::mem::replace(before, now)
}

/// What a receiver has seen of a run.
#[derive(Default)]
struct Seen {
    count: u64,
    latencies: Latencies,
    last_ns: u64,
    ended: Option<u8>,
    told: u8,
}

impl Seen {
    #[inline]
    fn on_message(&mut self, message: &[u8]) {
        if message.get(8).is_some_and(|run| *run != 0) {
            self.ended = Some(message[8]).filter(|run| *run != self.told);
            self.last_ns = age_ns(message);
            return;
        }
        self.count += 1;
        if self.count.is_multiple_of(SAMPLE) {
            self.latencies.record(age_ns(message));
        }
    }

    /// Says what the run came to, and begins anew.
    fn tell(&mut self, repaired: u64) {
        let Some(run) = self.ended.take() else { return };
        let s = self.latencies.summary();
        answer(&json!({
            "run": run, "count": self.count, "p50_ns": s.p50_ns, "p99_ns": s.p99_ns, "last_ns": self.last_ns,
            "repaired": repaired,
        }));
        *self = Seen { told: run, ..Seen::default() };
    }
}

fn age_ns(message: &[u8]) -> u64 {
    let intended = message.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    clock::monotonic().since(Nanos(intended)).as_nanos() as u64
}

impl Handler for Seen {
    #[inline]
    fn on_message(&mut self, message: &Message<'_>) {
        Seen::on_message(self, message.payload);
    }
}

/// The same messages in the same datagrams, without numbers and repair.
pub(crate) fn raw_sender(args: &EndArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let socket = UdpSocket::multicast_sender(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), MULTICAST)?;
    let segment = args.datagram as usize / args.size * args.size;
    answer(&json!({ "ready": true }));
    let (mut message, mut run) = (args.message(), Vec::new());
    for command in process::commands() {
        let sent = Pacing::Spin.run(&command, |due| {
            run.clear();
            for intended in due {
                message[..8].copy_from_slice(&intended.0.to_be_bytes());
                run.extend_from_slice(&message);
            }
            send_raw(&socket, args, &run, segment)
        })?;
        // Nothing repairs the last message: it is sent again until one has arrived, most probably.
        message[8] = run_number(&command);
        message[..8].copy_from_slice(&sent.end.0.to_be_bytes());
        for _ in 0..20 {
            send_raw(&socket, args, &message, segment)?;
            clock::sleep_until(clock::monotonic().after(Duration::from_millis(5)));
        }
        message[8] = 0;
        answer(&json!({ "sent": sent.count }));
    }
    Ok(())
}

fn send_raw(socket: &UdpSocket, args: &EndArgs, run: &[u8], segment: usize) -> Result<(), BenchError> {
    let mut rest = run;
    let deadline = clock::monotonic().after(START_LIMIT);
    while !rest.is_empty() {
        match socket.send_run(args.group(), rest, segment)? {
            Sent::Datagrams(count) => rest = &rest[(count * segment).min(rest.len())..],
            Sent::WouldBlock if clock::monotonic() > deadline => {
                return Err(BenchError::new("the socket stays full"));
            }
            Sent::WouldBlock => {}
        }
    }
    Ok(())
}

pub(crate) fn raw_receiver(args: &EndArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let socket = UdpSocket::multicast_receiver(args.group(), MULTICAST)?;
    answer(&json!({ "listening": true }));
    let (mut batch, mut seen) = (ReceiveBatch::new(16), Seen::default());
    loop {
        for (_, datagram) in socket.receive(&mut batch)?.datagrams() {
            datagram.chunks(args.size).for_each(|message| seen.on_message(message));
        }
        seen.tell(0);
    }
}
