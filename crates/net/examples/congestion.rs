//! One end of a flow through a narrow link: LBT-RM with or without congestion control, or bare datagrams.
//!
//! ```text
//! congestion send INTERFACE GROUP:PORT raw|fixed|adaptive BITS_PER_SECOND SECONDS
//! congestion receive INTERFACE GROUP:PORT raw|lbtrm SECONDS
//! ```
//!
//! The sender sends messages of 1,440 bytes, each alone in a datagram of 1,472, as fast as it may; raw, at
//! the rate that is given. At the end each prints one JSON object: the receiver the messages of each second
//! of the system's monotonic clock, and what was lost and repaired.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use counters::table::{LbmDelivery, LbtrmReceiver, LbtrmSource};
use lbt::config::{CongestionControl, ReceiverConfig, SourceConfig};
use lbt::delivery::{BeginOfStream, Delivered, EndOfStream, Lost, Sink};
use lbt::rate::TokenBucket;
use lbt::rm::{Receiver, SessionKey, Source};
use lbt::wire::lbtrm::SessionHeader;
use tickcast_net::clock;
use tickcast_net::udp::{MulticastOptions, ReceiveBatch, Sent, UdpSocket};
use tickcast_net::{Interest, Poller, Token};
use units::Nanos;

const TOPIC_INDEX: u32 = 1;
const PAYLOAD: [u8; 1_440] = [7; 1_440];
const DATAGRAM: [u8; 1_472] = [7; 1_472];
const MINIMUM_RATE: u64 = 500_000;
const MAXIMUM_ROUND_TRIP: Duration = Duration::from_millis(30);
const BUFFER_BYTES: usize = 8 << 20;
/// A source goes on answering NAKs for so long after its last message.
const LINGER: Duration = Duration::from_secs(3);
/// What a sender that had to wait for a CPU may make up for: little against the queue of the link.
const DEPTH: Duration = Duration::from_millis(5);
const RAW_DEPTH: Duration = Duration::from_millis(50);
const TICK: Duration = Duration::from_millis(1);

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let wrong = || io::Error::other("wrong arguments; they are described at the head of the program");
    let parse = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    match words[..] {
        ["send", interface, group, mode, rate, seconds] => {
            let ends = Ends::parse(interface, group).ok_or_else(wrong)?;
            let span = Duration::from_secs(parse(seconds)?);
            match mode {
                "raw" => send_raw(&ends, parse(rate)?, span),
                "fixed" => send(&ends, parse(rate)?, CongestionControl::None, span),
                "adaptive" => {
                    let (minimum_rate, maximum_round_trip) = (MINIMUM_RATE, MAXIMUM_ROUND_TRIP);
                    let control = CongestionControl::Adaptive { minimum_rate, maximum_round_trip };
                    send(&ends, parse(rate)?, control, span)
                }
                _ => Err(wrong()),
            }
        }
        ["receive", interface, group, mode, seconds] => {
            let ends = Ends::parse(interface, group).ok_or_else(wrong)?;
            receive(&ends, mode == "raw", Duration::from_secs(parse(seconds)?))
        }
        _ => Err(wrong()),
    }
}

struct Ends {
    group: SocketAddrV4,
    options: MulticastOptions,
}

impl Ends {
    fn parse(interface: &str, group: &str) -> Option<Ends> {
        let interface: Ipv4Addr = interface.parse().ok()?;
        let options = MulticastOptions { interface, ttl: 1, buffer_bytes: BUFFER_BYTES };
        Some(Ends { group: group.parse().ok()?, options })
    }

    fn sender(&self) -> io::Result<UdpSocket> {
        UdpSocket::multicast_sender(SocketAddrV4::new(self.options.interface, 0), self.options)
    }
}

fn send_raw(ends: &Ends, rate: u64, span: Duration) -> io::Result<()> {
    let socket = ends.sender()?;
    let begin = clock::monotonic();
    let mut limit = TokenBucket::new(rate, RAW_DEPTH, 3_000, begin);
    let (end, mut sent) = (begin + span, 0u64);
    loop {
        let now = clock::monotonic();
        if now >= end {
            break;
        }
        while limit.available(now) >= DATAGRAM.len() as u64 {
            if let Sent::Datagrams(_) = socket.send_run(ends.group, &DATAGRAM, DATAGRAM.len())? {
                sent += 1;
            }
            limit.take(DATAGRAM.len() as u64);
        }
        clock::sleep_until(limit.ready_at(DATAGRAM.len() as u64).max(now + TICK / 10));
    }
    println!("{{\"sent\": {sent}}}");
    Ok(())
}

fn send(ends: &Ends, rate: u64, control: CongestionControl, span: Duration) -> io::Result<()> {
    let config = SourceConfig {
        transport_lbtrm_data_rate_limit: rate,
        transport_lbtrm_retransmit_rate_limit: rate / 5,
        transport_lbtrm_congestion_control: control,
        transport_lbtrm_rate_interval: DEPTH,
        ..SourceConfig::default()
    };
    let socket = ends.sender()?;
    let mut poller = Poller::new()?;
    poller.registrar().add(&socket, Token(0), Interest::Read)?;
    let begin = clock::monotonic();
    let session =
        SessionHeader { ucast_port: socket.local_address()?.port(), session_id: clock::seed() as u32 | 1 };
    let counters = Arc::<LbtrmSource>::default();
    let mut source = Source::new(&config, session, begin, counters.clone()).map_err(io::Error::other)?;
    let topic = source.add_topic(begin, TOPIC_INDEX);
    let (mut batch, mut sent) = (ReceiveBatch::new(16), 0u64);
    let (end, stop) = (begin + span, begin + span + LINGER);
    loop {
        let now = clock::monotonic();
        if now >= stop {
            break;
        }
        while now < end && source.send(now, topic, &[&PAYLOAD]).is_ok() {
            sent += 1;
        }
        source.flush();
        source.on_wakeup(now);
        for (from, datagram) in socket.receive(&mut batch)?.datagrams() {
            // What is no NAK or report of this session is counted there.
            let _ = source.on_datagram(now, from, datagram);
        }
        while let Some(run) = source.poll_transmit(now) {
            let Sent::Datagrams(count) = socket.send_run(ends.group, run.bytes, run.segment_len)? else {
                break;
            };
            source.sent(now, count as u32);
        }
        let wait = source.next_wakeup().since(clock::monotonic()).min(TICK);
        poller.wait(Some(wait))?.for_each(drop);
    }
    println!(
        "{{\"sent\": {sent}, \"retransmitted\": {}, \"lowered\": {}, \"reports\": {}, \"rate\": {}}}",
        counters.rxs_sent.get(),
        counters.rate_lowered.get(),
        counters.reports_rcved.get(),
        counters.rate_bits_per_second.get()
    );
    Ok(())
}

/// Messages of each second of the clock, from the first on.
#[derive(Default)]
struct Tally {
    first_second: u64,
    messages: Vec<u64>,
    lost: u64,
    now: Nanos,
}

impl Tally {
    fn count(&mut self) {
        let second = self.now.0 / 1_000_000_000;
        if self.messages.is_empty() {
            self.first_second = second;
        }
        let at = (second - self.first_second) as usize;
        if self.messages.len() <= at {
            self.messages.resize(at + 1, 0);
        }
        self.messages[at] += 1;
    }
}

impl Sink for Tally {
    fn deliver(&mut self, _: Delivered<'_>) {
        self.count();
    }
    fn lost(&mut self, lost: Lost) {
        self.lost += u64::from(lost.count);
    }
    fn begin_of_stream(&mut self, _: BeginOfStream) {}
    fn end_of_stream(&mut self, _: EndOfStream) {}
}

fn receive(ends: &Ends, raw: bool, span: Duration) -> io::Result<()> {
    let (data, feedback) = (UdpSocket::multicast_receiver(ends.group, ends.options)?, ends.sender()?);
    let mut poller = Poller::new()?;
    poller.registrar().add(&data, Token(0), Interest::Read)?;
    let counters = Arc::<LbtrmReceiver>::default();
    let (mut tally, mut receiver, mut batch) = (Tally::default(), None::<Receiver>, ReceiveBatch::new(16));
    let end = clock::monotonic() + span;
    println!("{{\"listening\": true}}");
    loop {
        let now = clock::monotonic();
        if now >= end {
            break;
        }
        tally.now = now;
        for (from, datagram) in data.receive(&mut batch)?.datagrams() {
            if raw {
                tally.count();
                continue;
            }
            if receiver.is_none() {
                receiver = new_receiver(from, datagram, now, counters.clone())?;
            }
            if let Some(receiver) = &mut receiver {
                // What is malformed is counted there.
                let _ = receiver.on_datagram(now, from, datagram, &mut tally);
            }
        }
        let mut wait = TICK;
        if let Some(receiver) = &mut receiver {
            receiver.on_wakeup(now, &mut tally);
            while let Some(one) = receiver.poll_transmit(now) {
                let _ = feedback.send_run(one.to, one.datagram, one.datagram.len())?;
            }
            wait = receiver.next_wakeup().since(now).min(TICK);
        }
        poller.wait(Some(wait))?.for_each(drop);
    }
    println!(
        "{{\"first_second\": {}, \"messages\": {:?}, \"lost\": {}, \"found_missing\": {}, \"recovered\": {}, \
         \"duplicates\": {}, \"missing\": {}}}",
        tally.first_second,
        tally.messages,
        tally.lost,
        counters.lost.get(),
        counters.recovered.get(),
        counters.duplicate_data.get(),
        counters.missing.get()
    );
    Ok(())
}

fn new_receiver(
    from: SocketAddrV4,
    datagram: &[u8],
    now: Nanos,
    counters: Arc<LbtrmReceiver>,
) -> io::Result<Option<Receiver>> {
    let Some(key) = SessionKey::of(*from.ip(), datagram) else { return Ok(None) };
    let delivery = Arc::<LbmDelivery>::default();
    let config = ReceiverConfig::default();
    let receiver = Receiver::new(&config, key, clock::seed(), now, counters, delivery);
    let mut receiver = receiver.map_err(io::Error::other)?;
    receiver.subscribe(TOPIC_INDEX, 0).map_err(|e| io::Error::other(format!("{e:?}")))?;
    Ok(Some(receiver))
}
