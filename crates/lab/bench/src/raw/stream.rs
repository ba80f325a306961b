//! One way, as fast as the machine can without loss, or at a rate.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use measure::{Observed, Observer, stamp, stamp_sent};
use net::affinity::pin_to_cpu;
use net::clock;
use net::udp::{MulticastOptions, ReceiveBatch, SendBatch, Sent, UdpSocket};
use serde_json::{Value, json};
use units::Nanos;

use super::channel::Tcp;
use crate::BenchError;
use crate::end_to_end::Pacing;
use crate::pair::{EndArgs, Path, span};
use crate::process::{answer, commands};

const BUFFER_BYTES: usize = 16 << 20;
/// Bytes of datagrams that may be on their way: well within what the socket's buffer holds of them.
const WINDOW_BYTES: usize = 2 << 20;
/// Bytes of one write, and of one read.
const WRITE_BYTES: usize = 256 << 10;
const RING_BYTES: usize = 1 << 20;
/// Datagrams of one `sendmmsg`.
const BATCH: usize = 32;
/// A datagram that has not come after this time is taken to be lost.
const PATIENCE: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &EndArgs) -> Result<(), BenchError> {
    super::share_cpus(args.yields);
    answer(&json!({ "ready": true }));
    for command in commands() {
        let run = one_run(args, &command)?;
        answer(&run.sent);
        answer(&run.received);
    }
    Ok(())
}

/// Where the receiver has got to, for the sender; each on cache lines of its own.
#[derive(Default)]
struct Shared {
    taken_bytes: Counter,
    has_all: Flag,
}

#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

#[derive(Default)]
#[repr(align(128))]
struct Flag(AtomicBool);

/// What the receiver notes: how many bytes, or each message where there is a rate.
struct Taking<'a> {
    size: usize,
    observer: Option<Observer>,
    bytes: u64,
    shared: &'a Shared,
}

impl Taking<'_> {
    fn is_over(&self) -> bool {
        self.shared.has_all.0.load(Relaxed)
    }

    /// Takes whole messages.
    #[inline]
    fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(observer) = &mut self.observer {
            for message in bytes.chunks_exact(self.size) {
                observer.time(message, clock::monotonic());
            }
        }
    }

    /// Tells the sender.
    fn publish(&self) {
        self.shared.taken_bytes.0.store(self.bytes, Release);
    }

    fn observed(self) -> Observed {
        let received = self.bytes / self.size as u64;
        self.observer.map_or_else(|| Observed { received, ..Observed::default() }, |seen| seen.observed())
    }
}

fn one_run(args: &EndArgs, command: &Value) -> Result<Run, BenchError> {
    match args.path {
        Path::Udp | Path::Multicast => {
            let (near, far) = Datagrams::open(args)?;
            threads(args, command, near, move |taking| receive_datagrams(&far, taking))
        }
        Path::Veth => Err(BenchError::new("its ends are processes")),
        Path::Tcp => {
            let (near, far) = Tcp::pair()?;
            threads(args, command, Stream(near), |taking| receive_stream(far, taking))
        }
        Path::Shm => {
            let (producer, consumer) = net::ring::ring(RING_BYTES);
            let publish_every = if args.mode == "16" { 16 } else { 1 };
            let ring = Ring { producer, publish_every, size: args.size };
            threads(args, command, ring, |taking| receive_ring(consumer, taking))
        }
    }
}

/// What both ends answer.
struct Run {
    sent: Value,
    received: Value,
}

/// The sending end.
trait Sender {
    /// Bytes that are handed over at once when it is to be as fast as it can; a multiple of the message.
    fn chunk(&self, size: usize) -> usize;
    /// Sends whole messages; not all of them where there was no room: how many bytes.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Bytes that may be on their way, where nothing else limits them.
    fn window(&self) -> Option<u64> {
        None
    }
}

fn threads<S: Sender>(
    args: &EndArgs,
    command: &Value,
    mut sender: S,
    receive: impl FnOnce(&mut Taking<'_>) -> io::Result<()> + Send,
) -> Result<Run, BenchError> {
    let shared = Shared::default();
    let is_paced = command["rate"].is_number();
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            pin_to_cpu(args.far_cpu)?;
            let mut taking = Taking {
                size: args.size,
                observer: is_paced.then(Observer::default),
                bytes: 0,
                shared: &shared,
            };
            receive(&mut taking).map(|()| taking.observed())
        });
        pin_to_cpu(args.cpu)?;
        let start = clock::monotonic();
        let sent = if is_paced {
            paced(args.size, command, &mut sender)
        } else {
            flat_out(args.size, span(command)?, &mut sender, &shared).map(|count| (count, 0))
        };
        let sent_bytes = sent.as_ref().map_or(0, |(count, _)| count * args.size as u64);
        let said = sent.map(|(count, unsent)| measure::ends::sent_report(count, unsent, start));
        let last = await_taken(&shared, sent_bytes);
        shared.has_all.0.store(true, Relaxed);
        let observed = receiving.join().map_err(|_| BenchError::new("the receiver has panicked"))??;
        Ok(Run { sent: said?, received: measure::ends::report(&observed, last) })
    })
}

/// Until everything has come, or nothing comes any more; when the last of it came.
fn await_taken(shared: &Shared, sent_bytes: u64) -> Nanos {
    let (mut seen, mut since) = (0, clock::monotonic());
    while seen < sent_bytes && clock::monotonic() < since.after(PATIENCE) {
        let now = shared.taken_bytes.0.load(Acquire);
        if now != seen {
            (seen, since) = (now, clock::monotonic());
        }
        super::pause();
    }
    since
}

fn flat_out(
    size: usize,
    span: Duration,
    sender: &mut impl Sender,
    shared: &Shared,
) -> Result<u64, BenchError> {
    let chunk = vec![5; sender.chunk(size)];
    let (mut sent, mut credit, window) = (0u64, sender.window().unwrap_or(u64::MAX), sender.window());
    let end = clock::monotonic().after(span);
    let mut rest = &chunk[..];
    let mut turn = 0u32;
    loop {
        turn = turn.wrapping_add(1);
        // A clock costs as much as a message in shared memory.
        if turn.is_multiple_of(64) && clock::monotonic() >= end && rest.len() == chunk.len() {
            return Ok(sent / size as u64);
        }
        if let Some(window) = window
            && sent + rest.len() as u64 > credit
        {
            credit = await_credit(shared, sent + rest.len() as u64, window);
        }
        let count = sender.send(rest)?;
        sent += count as u64;
        rest = if count == rest.len() { &chunk } else { &rest[count..] };
    }
}

/// Waits until the window lets `to` bytes out; how many it lets out. What has not come after some time is
/// taken to be lost, and makes room.
fn await_credit(shared: &Shared, to: u64, window: u64) -> u64 {
    let deadline = clock::monotonic().after(PATIENCE);
    let mut looks = 0u32;
    loop {
        let credit = shared.taken_bytes.0.load(Acquire) + window;
        looks = looks.wrapping_add(1);
        if credit >= to {
            return credit;
        }
        if looks.is_multiple_of(1024) && clock::monotonic() > deadline {
            return to + window;
        }
        super::pause();
    }
}

/// How many were sent, and how many more there should have been.
fn paced(size: usize, command: &Value, sender: &mut impl Sender) -> Result<(u64, u64), BenchError> {
    let (mut message, mut run, mut number) = (vec![0; size], Vec::new(), 0);
    let send = |due: &[Nanos]| {
        run.clear();
        for intended in due {
            stamp(&mut message, *intended, number);
            stamp_sent(&mut message, clock::monotonic());
            number += 1;
            run.extend_from_slice(&message);
        }
        let mut rest = &run[..];
        while !rest.is_empty() {
            rest = &rest[sender.send(rest)?..];
        }
        Ok(())
    };
    let sent = Pacing::Spin.run_beside(command, send, super::yield_if_shared)?;
    let asked = command["rate"].as_f64().unwrap_or(0.0) * span(command)?.as_secs_f64();
    Ok((sent.count, (asked as u64).saturating_sub(sent.count)))
}

struct Datagrams {
    socket: UdpSocket,
    to: SocketAddrV4,
    segment: usize,
    /// Where each datagram goes through the stack by itself.
    each: Option<SendBatch>,
}

const MULTICAST: MulticastOptions =
    MulticastOptions { interface: Ipv4Addr::LOCALHOST, ttl: 0, buffer_bytes: BUFFER_BYTES };
const ANY_PORT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

impl Datagrams {
    fn open(args: &EndArgs) -> io::Result<(Datagrams, UdpSocket)> {
        let socket = UdpSocket::multicast_sender(ANY_PORT, MULTICAST)?;
        let group = SocketAddrV4::new(Ipv4Addr::new(239, 77, 2, 1 + args.first_pair as u8), args.port);
        let (to, far) = if args.path == Path::Multicast {
            (group, UdpSocket::multicast_receiver(group, MULTICAST)?)
        } else {
            let far = UdpSocket::multicast_sender(ANY_PORT, MULTICAST)?;
            (far.local_address()?, far)
        };
        let each = (args.mode == "mmsg").then(|| SendBatch::new(BATCH));
        Ok((Datagrams { socket, to, segment: args.datagram / args.size * args.size, each }, far))
    }
}

impl Sender for Datagrams {
    fn chunk(&self, _: usize) -> usize {
        let count = if self.each.is_some() { BATCH } else { net::udp::PAYLOAD_MAX_BYTES / self.segment };
        count.max(1) * self.segment
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = match &mut self.each {
            Some(batch) => self.socket.send_each(self.to, bytes, self.segment, batch),
            None => self.socket.send_run(self.to, bytes, self.segment),
        };
        Ok(match sent? {
            Sent::Datagrams(count) => (count * self.segment).min(bytes.len()),
            Sent::WouldBlock => 0,
        })
    }

    fn window(&self) -> Option<u64> {
        Some(WINDOW_BYTES as u64)
    }
}

fn receive_datagrams(socket: &UdpSocket, taking: &mut Taking<'_>) -> io::Result<()> {
    let mut batch = ReceiveBatch::new(16);
    while !taking.is_over() {
        let received = socket.receive(&mut batch)?;
        if received.is_empty() {
            super::yield_if_shared();
            continue;
        }
        received.datagrams().for_each(|(_, datagram)| taking.take(datagram));
        taking.publish();
    }
    Ok(())
}

struct Stream(Tcp);

impl Sender for Stream {
    fn chunk(&self, size: usize) -> usize {
        WRITE_BYTES / size * size
    }

    /// All of it: a message that has begun must end.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some(count @ 1..) = self.0.write(rest, &AtomicBool::new(false))? {
            rest = &rest[count..];
            if rest.is_empty() {
                break;
            }
        }
        Ok(bytes.len() - rest.len())
    }
}

fn receive_stream(mut far: Tcp, taking: &mut Taking<'_>) -> io::Result<()> {
    let (mut bytes, mut kept) = (vec![0; WRITE_BYTES], 0);
    while let Some(count @ 1..) = far.read(&mut bytes[kept..], &taking.shared.has_all.0)? {
        let have = kept + count;
        let whole = have / taking.size * taking.size;
        taking.take(&bytes[..whole]);
        taking.publish();
        bytes.copy_within(whole..have, 0);
        kept = have - whole;
    }
    Ok(())
}

struct Ring {
    producer: net::ring::Producer,
    /// Messages that become visible together.
    publish_every: usize,
    size: usize,
}

impl Sender for Ring {
    fn chunk(&self, size: usize) -> usize {
        self.publish_every * size
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for message in bytes.chunks_exact(self.size) {
            while self.producer.push(&[message]).is_err() {
                self.producer.publish();
                super::pause();
            }
        }
        self.producer.publish();
        Ok(bytes.len())
    }
}

fn receive_ring(mut consumer: net::ring::Consumer, taking: &mut Taking<'_>) -> io::Result<()> {
    while !taking.is_over() {
        if consumer.drain(1024, |message| taking.take(message)) > 0 {
            taking.publish();
        } else {
            super::pause();
        }
    }
    Ok(())
}
