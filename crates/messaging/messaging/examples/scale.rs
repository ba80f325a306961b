//! How the cost of an operation grows with the number of sessions and topics of one context.
//!
//! `scale --help` says what is measured. Everything runs in this process on loopback: an own resolver advertises
//! sources of any number, and their datagrams are written by hand, so that no second context is measured along.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use lbt::config::{ResolverConfig, SourceConfig};
use lbt::ordered::Source as OrderedSource;
use lbt::resolution::{QueryId, Resolver, ResolverSink, SourceRecord, TransportSession};
use lbt::rm::{SessionKey, Source as RmSource};
use lbt::wire::lbtrm::SessionHeader;
use net::udp::{MulticastOptions, UdpSocket};
use net::{Poller, clock};
use tickcast_messaging::{
    Context, ContextCounters, End, Handler, Interface, LbtrmConfig, Message, MessagingConfig, Receiver,
    ReceiverOptions, SourceOptions, StreamId, TopicResolutionConfig, Transport, Wait,
};
use units::Nanos;

const HELP: &str = "scale WHAT COUNT...

Prints what an operation costs in one context, for each COUNT:
  topics    create_receiver, delete_receiver, create_source, delete_source, with COUNT topics
  datagram  taking one LBT-RM datagram, with COUNT sessions that are received; and an idle turn
  end       COUNT TCP sessions of 50 topics that end together
  silence   COUNT LBT-RM sessions of 1 topic that time out together
  sending   one message alone, and an idle turn, with COUNT LBT-RM sessions that are sent; memory of each
  requests  turns of a context with COUNT sources while others ask for all advertisements and by patterns
  memory    resident memory of COUNT received sessions: LBT-RM, TCP, LBT-RU
Times of topics, sending, requests and idle turns are CPU time of the thread, so that others which run in its place do not count.
Memory is true for the first COUNT of a process only. The file limit (ulimit -n) has to allow 2 descriptors a session for `end` and 2 for `sending`.";

const LOCAL: Ipv4Addr = Ipv4Addr::LOCALHOST;
const TOPICS_PER_SESSION: u32 = 50;

#[derive(Default)]
struct Heard {
    sources: usize,
    messages: usize,
    ends: usize,
}

impl Handler for Heard {
    fn on_source(&mut self, _: Receiver, _: StreamId, _: &tickcast_messaging::SourceInfo<'_>) {
        self.sources += 1;
    }

    fn on_message(&mut self, message: &Message<'_>) {
        black_box(message.payload);
        self.messages += 1;
    }

    fn on_end(&mut self, _: Receiver, _: StreamId, _: &End) {
        self.ends += 1;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((what, counts)) = words.split_first().filter(|(what, _)| !what.starts_with('-')) else {
        println!("{HELP}");
        return Ok(());
    };
    for count in counts {
        let count: u32 = count.replace(['_', ','], "").parse()?;
        match what.as_str() {
            "topics" => topics(count)?,
            "datagram" => datagram(count)?,
            "end" => end(count)?,
            "silence" => silence(count)?,
            "sending" => sending(count)?,
            "requests" => requests(count)?,
            "memory" => memory(count)?,
            _ => return Err(HELP.into()),
        }
    }
    Ok(())
}

fn config() -> MessagingConfig {
    let process = std::process::id();
    MessagingConfig {
        interface: Interface::Address(LOCAL),
        wait: Wait::Block,
        counters_directory: String::new(),
        resolver: TopicResolutionConfig {
            multicast_address: Ipv4Addr::new(239, 248, (process / 2_000) as u8, 1),
            multicast_port: 22_000 + (process % 2_000) as u16,
            ..TopicResolutionConfig::default()
        },
        lbtrm: LbtrmConfig { source_port_low: 20_000, source_port_high: 60_000, ..LbtrmConfig::default() },
        ..MessagingConfig::default()
    }
}

fn group() -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(239, 248, 1, 2), 24_000 + (std::process::id() % 2_000) as u16)
}

fn topic(number: u32) -> String {
    format!("market.{number}")
}

/// A process that advertises sources which it does not have.
struct Peer {
    socket: UdpSocket,
    to: SocketAddrV4,
}

impl Peer {
    fn new(config: &MessagingConfig) -> Result<Peer, Box<dyn Error>> {
        let options = MulticastOptions { interface: LOCAL, ttl: 1, buffer_bytes: 1 << 20 };
        let socket = UdpSocket::multicast_sender(SocketAddrV4::new(LOCAL, 0), options)?;
        let to = SocketAddrV4::new(config.resolver.multicast_address, config.resolver.multicast_port);
        Ok(Peer { socket, to })
    }

    /// Makes a context receive a topic of each record, numbered from `first`.
    fn resolve(
        &self,
        driven: &mut Driven,
        first: u32,
        records: &[SourceRecord],
        heard: &mut Heard,
    ) -> Result<(), Box<dyn Error>> {
        // The buffer of a socket holds so many.
        if records.len() > 500 {
            for (number, part) in (first..).step_by(500).zip(records.chunks(500)) {
                self.resolve(driven, number, part, heard)?;
            }
            return Ok(());
        }
        let options = ResolverConfig {
            resolver_initial_advertisements_per_second: 0,
            resolver_initial_advertisement_bps: 0,
            ..ResolverConfig::default()
        };
        let now = clock::monotonic();
        let mut resolver = Resolver::new(&options, now, Default::default())?;
        let wanted = heard.sources + records.len();
        for (number, record) in (first..).zip(records) {
            driven.context.create_receiver(&topic(number), &ReceiverOptions::default())?;
            resolver.advertise(now, &topic(number), *record)?;
        }
        while let Some(datagram) = resolver.poll_transmit(now) {
            self.socket.send_run(self.to, datagram, datagram.len())?;
            while driven.turn(heard)? {}
        }
        driven.until(heard, |heard| heard.sources >= wanted)
    }
}

/// A context with whoever drives it.
struct Driven {
    context: Context,
    /// Without, the context has its own.
    poller: Option<Poller>,
}

impl Driven {
    fn standalone(config: &MessagingConfig) -> Result<Driven, Box<dyn Error>> {
        Ok(Driven { context: Context::standalone(config)?, poller: None })
    }

    /// One that is told by somebody's poller when a descriptor is ready, as contexts within daemons are.
    fn told(config: &MessagingConfig) -> Result<Driven, Box<dyn Error>> {
        let poller = Poller::new()?;
        let counters = ContextCounters::default();
        let context = Context::new(config, poller.registrar(), 0, 1, clock::monotonic(), counters)?;
        Ok(Driven { context, poller: Some(poller) })
    }

    /// One turn; whether something came.
    fn turn(&mut self, heard: &mut Heard) -> Result<bool, Box<dyn Error>> {
        let Some(poller) = &mut self.poller else { return Ok(self.context.poll(heard)?) };
        let mut worked = false;
        for ready in poller.wait(Some(Duration::ZERO))? {
            worked = true;
            self.context.on_ready(clock::monotonic(), ready, heard);
        }
        self.context.flush();
        let now = clock::monotonic();
        if self.context.next_wakeup() <= now {
            self.context.on_wakeup(now, heard);
        }
        Ok(worked)
    }

    fn until(&mut self, heard: &mut Heard, is_over: impl Fn(&Heard) -> bool) -> Result<(), Box<dyn Error>> {
        let begun = Instant::now();
        while !is_over(heard) {
            self.turn(heard)?;
            if begun.elapsed() > Duration::from_secs(120) {
                return Err(format!(
                    "sources {}, messages {}, ends {}",
                    heard.sources, heard.messages, heard.ends
                )
                .into());
            }
        }
        Ok(())
    }
}

fn rm_records(count: u32) -> Vec<SourceRecord> {
    let record = |id| {
        let session = SessionHeader { ucast_port: 9, session_id: id + 1 };
        let session = TransportSession::LbtRm { key: SessionKey { source: LOCAL, session }, group: group() };
        SourceRecord { topic_index: 7, session, request: None, late_join: None, origin: None }
    };
    (0..count).map(record).collect()
}

fn print(what: &str, count: u32, operation: &str, span: Duration, operations: u64) {
    let each = span.as_nanos() as f64 / operations.max(1) as f64;
    println!("{what:9} {count:>9}  {operation:28} {each:>12.0} ns");
}

fn topics(count: u32) -> Result<(), Box<dyn Error>> {
    let mut context = Context::standalone(&config())?;
    let names: Vec<String> = (0..count).map(topic).collect();
    let n = u64::from(count);
    let before = resident();
    let begun = clock::thread_cpu();
    let receivers: Result<Vec<_>, _> =
        names.iter().map(|name| context.create_receiver(name, &ReceiverOptions::default())).collect();
    print("topics", count, "create_receiver", clock::thread_cpu().since(begun), n);
    println!("topics    {count:>9}  {:28} {:>12.0} bytes", "a receiver", resident().since(before, n));
    let begun = clock::thread_cpu();
    receivers?.into_iter().for_each(|receiver| context.delete_receiver(receiver));
    print("topics", count, "delete_receiver", clock::thread_cpu().since(begun), n);
    let options = SourceOptions { transport: Some(Transport::LbtRm), ..SourceOptions::default() };
    context.create_source("first", &options)?;
    let before = resident();
    let begun = clock::thread_cpu();
    let sources: Result<Vec<_>, _> = names.iter().map(|name| context.create_source(name, &options)).collect();
    print("topics", count, "create_source", clock::thread_cpu().since(begun), n);
    println!("topics    {count:>9}  {:28} {:>12.0} bytes", "a source", resident().since(before, n));
    let begun = clock::thread_cpu();
    sources?.into_iter().for_each(|source| context.delete_source(source));
    print("topics", count, "delete_source", clock::thread_cpu().since(begun), n);
    Ok(())
}

/// The next datagram of a session with one message of topic 7: all sessions' are alike but for their ids.
fn next_datagram(
    source: &mut RmSource,
    topic: lbt::rm::TopicId,
    now: Nanos,
) -> Result<Vec<u8>, Box<dyn Error>> {
    source.send(now, topic, &[&[7; 100]]).map_err(|e| e.to_string())?;
    source.flush();
    loop {
        let run = source.poll_transmit(now).ok_or("a datagram was flushed")?;
        let (bytes, count) = (run.bytes[..run.segment_len].to_vec(), run.count);
        source.sent(now, count);
        // A session message has another length.
        if bytes.len() > 100 {
            return Ok(bytes);
        }
    }
}

fn datagram(count: u32) -> Result<(), Box<dyn Error>> {
    for (mut driven, how) in [(Driven::told(&config())?, "told"), (Driven::standalone(&config())?, "polled")]
    {
        let peer = Peer::new(driven.context.config())?;
        let mut heard = Heard::default();
        peer.resolve(&mut driven, 0, &rm_records(count), &mut heard)?;
        let header = SessionHeader { ucast_port: 9, session_id: 1 };
        let options = SourceConfig { data_rate_limit: 0, ..SourceConfig::default() };
        let mut source = RmSource::new(&options, header, Nanos::ZERO, Default::default())?;
        let id = source.add_topic(Nanos::ZERO, 7);
        let mut best = Duration::MAX;
        let per_round = u64::from(count).clamp(1_000, 10_000);
        let (mut sent, mut bytes) = (0, Vec::new());
        for _ in 0..12 {
            let mut spent = Duration::ZERO;
            for _ in 0..per_round {
                if sent % u64::from(count) == 0 {
                    bytes = next_datagram(&mut source, id, Nanos::ZERO)?;
                }
                let session = (sent % u64::from(count)) as u32 + 1;
                bytes[4..8].copy_from_slice(&session.to_be_bytes());
                peer.socket.send_run(group(), &bytes, bytes.len())?;
                sent += 1;
                let begun = Instant::now();
                driven.until(&mut heard, |heard| heard.messages as u64 >= sent)?;
                spent += begun.elapsed();
            }
            best = best.min(spent);
        }
        print("datagram", count, &format!("a datagram alone, {how}"), best, per_round);
        idle("datagram", count, &mut driven, &mut heard)?;
    }
    Ok(())
}

/// Turns of a context to which nothing comes, timers looked at in each.
fn idle(what: &str, count: u32, driven: &mut Driven, heard: &mut Heard) -> Result<(), Box<dyn Error>> {
    const TURNS: u64 = 2_000;
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let begun = clock::thread_cpu();
        for _ in 0..TURNS {
            driven.turn(heard)?;
            black_box(driven.context.next_wakeup());
        }
        best = best.min(clock::thread_cpu().since(begun));
    }
    print(what, count, "an idle turn", best, TURNS);
    Ok(())
}

fn silence(count: u32) -> Result<(), Box<dyn Error>> {
    let mut driven = Driven::standalone(&config())?;
    let mut heard = Heard::default();
    Peer::new(driven.context.config())?.resolve(&mut driven, 0, &rm_records(count), &mut heard)?;
    let mut later = clock::monotonic() + Duration::from_secs(30);
    let begun = clock::thread_cpu();
    while heard.ends < count as usize {
        driven.context.on_wakeup(later, &mut heard);
        // After a pause sessions are given a part of their time-out.
        later += Duration::from_secs(10);
    }
    print("silence", count, "a session", clock::thread_cpu().since(begun), u64::from(count));
    Ok(())
}

fn end(count: u32) -> Result<(), Box<dyn Error>> {
    let mut driven = Driven::standalone(&config())?;
    let mut heard = Heard::default();
    let connections = connect(&mut driven, count, TOPICS_PER_SESSION, &mut heard)?;
    drop(connections);
    let begun = Instant::now();
    driven.until(&mut heard, |heard| heard.ends >= (count * TOPICS_PER_SESSION) as usize)?;
    print("end", count, "a session of 50 topics", begun.elapsed(), u64::from(count));
    Ok(())
}

/// Receives so many TCP sessions of so many topics; each sends what names it. Returns their other ends.
fn connect(
    driven: &mut Driven,
    count: u32,
    topics: u32,
    heard: &mut Heard,
) -> Result<Vec<TcpStream>, Box<dyn Error>> {
    let listener = TcpListener::bind((LOCAL, 0))?;
    let SocketAddr::V4(address) = listener.local_addr()? else { return Err("an IPv4 address".into()) };
    let peer = Peer::new(driven.context.config())?;
    let record = |n: u32| {
        let session = TransportSession::Tcp { address, session_id: Some(n / topics + 1) };
        SourceRecord { topic_index: n % topics, session, request: None, late_join: None, origin: None }
    };
    let mut connections = Vec::with_capacity(count as usize);
    // The listener's queue is short.
    for first in (0..count).step_by(100) {
        let end = count.min(first + 100);
        let records: Vec<SourceRecord> = (first * topics..end * topics).map(record).collect();
        peer.resolve(driven, first * topics, &records, heard)?;
        for _ in first..end {
            let (mut stream, _) = listener.accept()?;
            let mut greeting = Vec::new();
            OrderedSource::session_header(1, &mut greeting);
            stream.write_all(&greeting)?;
            connections.push(stream);
        }
    }
    // The last ones are read as well.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(200) {
        driven.turn(heard)?;
    }
    Ok(connections)
}

fn sending(count: u32) -> Result<(), Box<dyn Error>> {
    let mut driven = Driven::standalone(&config())?;
    let context = &mut driven.context;
    let before = resident();
    let place = |number: u32| SocketAddrV4::new(Ipv4Addr::from_bits(0xeff8_0000 + number), group().port());
    let made: Result<Vec<_>, _> = (0..count)
        .map(|number| {
            let options = SourceOptions {
                transport: Some(Transport::LbtRm),
                group: Some(place(number)),
                ..SourceOptions::default()
            };
            context.create_source(&topic(number), &options)
        })
        .collect();
    let sources = made?;
    let each = resident().since(before, u64::from(count));
    println!("sending   {count:>9}  {:28} {each:>12.0} bytes", "an idle session");
    let mut heard = Heard::default();
    let mut best = Duration::MAX;
    const SENT: u64 = 2_000;
    for _ in 0..5 {
        let begun = clock::thread_cpu();
        for n in 0..SENT {
            context.send(sources[n as usize % sources.len()], &[&[7; 100]]).map_err(|e| e.to_string())?;
            context.poll(&mut heard)?;
        }
        best = best.min(clock::thread_cpu().since(begun));
    }
    print("sending", count, "a message alone", best, SENT);
    idle("sending", count, &mut driven, &mut heard)
}

/// Somebody asks without pause for all there is.
fn requests(count: u32) -> Result<(), Box<dyn Error>> {
    const SPAN: Duration = Duration::from_secs(20);
    let mut driven = Driven::standalone(&config())?;
    let options = SourceOptions { transport: Some(Transport::LbtRm), ..SourceOptions::default() };
    for number in 0..count {
        driven.context.create_source(&topic(number), &options)?;
    }
    let peer = Peer::new(driven.context.config())?;
    let options = ResolverConfig::default();
    let mut asking = Resolver::new(&options, clock::monotonic(), Default::default())?;
    let (begun, mut next, mut number) = (Instant::now(), Instant::now(), 0);
    let mut spent = Vec::new();
    let mut query = None;
    while begun.elapsed() < SPAN {
        if Instant::now() >= next {
            next += Duration::from_millis(1);
            number += 1;
            let now = clock::monotonic();
            asking.request_resolution(0x7);
            query.take().into_iter().for_each(|query| asking.stop_query(query));
            query = Some(asking.query_pattern(now, &format!("market.*{number}$"), &mut Unheard)?);
            while let Some(datagram) = asking.poll_transmit(now) {
                peer.socket.send_run(peer.to, datagram, datagram.len())?;
            }
        }
        let turn = clock::thread_cpu();
        driven.turn(&mut Heard::default())?;
        spent.push(clock::thread_cpu().since(turn));
    }
    spent.sort_unstable();
    let at = |part: f64| spent[((spent.len() - 1) as f64 * part) as usize].as_nanos();
    for (what, part) in [("the longest turn", 1.0), ("99.99 % of turns take at most", 0.9999)] {
        println!("requests  {count:>9}  {what:28} {:>12} ns", at(part));
    }
    let sent = driven.context.counters().resolver.advertisements_sent.get();
    println!("requests  {count:>9}  {:28} {sent:>12}", "records sent");
    Ok(())
}

/// Nobody is told of sources.
struct Unheard;

impl ResolverSink for Unheard {
    fn source_found(&mut self, _: QueryId, _: &str, _: &SourceRecord) {}
}

fn memory(count: u32) -> Result<(), Box<dyn Error>> {
    let told = |what: &str, before: Resident| {
        println!(
            "memory    {count:>9}  {what:28} {:>12.0} bytes",
            resident().since(before, u64::from(count))
        );
    };
    let ru = |n: u32| {
        let host = Ipv4Addr::from_bits(LOCAL.to_bits() + 1 + n / 10_000);
        let address = SocketAddrV4::new(host, 40_000 + (n % 10_000) as u16);
        let session = TransportSession::LbtRu { address, session_id: Some(1) };
        SourceRecord { topic_index: 7, session, request: None, late_join: None, origin: None }
    };
    for (records, what) in
        [(rm_records(count), "LBT-RM received"), ((0..count).map(ru).collect(), "LBT-RU received")]
    {
        let mut driven = Driven::standalone(&config())?;
        let before = resident();
        Peer::new(driven.context.config())?.resolve(&mut driven, 0, &records, &mut Heard::default())?;
        told(what, before);
    }
    let mut driven = Driven::standalone(&config())?;
    let before = resident();
    let _connections = connect(&mut driven, count, 1, &mut Heard::default())?;
    told("TCP received", before);
    Ok(())
}

/// Resident memory of this process.
#[derive(Clone, Copy)]
struct Resident(u64);

impl Resident {
    fn since(self, before: Resident, count: u64) -> f64 {
        self.0.saturating_sub(before.0) as f64 / count.max(1) as f64
    }
}

fn resident() -> Resident {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    Resident(pages * 4_096)
}
