//! How long a message takes from one host to another and back, halved, over one veth pair: with LBT-RM and
//! without, by AF_XDP and by sockets. Both ends spin, each on a CPU of its own. Needs root.
//!
//! ```text
//! cargo run --release -p tickcast-net --example xdp_pingpong -- [COUNT [BYTES [CPU CPU [VARIANT]]]]
//! ```
//!
//! Prints one line of JSON for each variant, or each whose name begins with VARIANT. Rounds of
//! the variants take turns, and each round counts with its own median: the figures are the medians of these, so
//! that a disturbance of the machine hits all.

#[path = "../tests/lab/mod.rs"]
mod lab;
mod lbtrm;

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use lab::{FAR, Lab, NEAR};
use lbt::config::SourceConfig;
use lbt::delivery::{BeginOfStream, Delivered, EndOfStream, Lost, Sink};
use lbtrm::{Carrier, End};
use tickcast_net::xdp::{XdpMode, XdpOptions};
use tickcast_net::{affinity, clock};

const PORT: u16 = 47_500;
const TO_FAR: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 77, 2, 1), PORT);
const TO_NEAR: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 77, 2, 2), PORT);
const ROUNDS: usize = 5;
const WATCHDOG: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
enum Way {
    Sockets,
    Xdp(XdpMode),
}

const VARIANTS: [(&str, Way, bool); 6] = [
    ("af_xdp generic, datagrams", Way::Xdp(XdpMode::Generic), false),
    ("af_xdp generic, lbt-rm", Way::Xdp(XdpMode::Generic), true),
    ("af_xdp native, datagrams", Way::Xdp(XdpMode::Native), false),
    ("af_xdp native, lbt-rm", Way::Xdp(XdpMode::Native), true),
    ("sockets, datagrams", Way::Sockets, false),
    ("sockets, lbt-rm", Way::Sockets, true),
];

#[derive(Default)]
struct Count(u64);

impl Sink for Count {
    #[inline]
    fn deliver(&mut self, _: Delivered<'_>) {
        self.0 += 1;
    }
    fn lost(&mut self, _: Lost) {}
    fn begin_of_stream(&mut self, _: BeginOfStream) {}
    fn end_of_stream(&mut self, _: EndOfStream) {}
}

/// An end that can send one message and wait for one.
enum Player {
    Bare { carrier: Carrier, to: SocketAddrV4, received: u64 },
    Session(Box<End<Count>>),
}

impl Player {
    fn open(way: Way, with_protocol: bool, interface: Ipv4Addr, hears: SocketAddrV4) -> io::Result<Player> {
        let to = if hears == TO_FAR { TO_NEAR } else { TO_FAR };
        let carrier = match way {
            Way::Sockets => Carrier::sockets(interface, hears)?,
            Way::Xdp(mode) => {
                let options = XdpOptions { mode, ttl: 1, ..XdpOptions::on(interface) };
                Carrier::xdp(&options, hears, Arc::default())?
            }
        };
        if !with_protocol {
            return Ok(Player::Bare { carrier, to, received: 0 });
        }
        let config = SourceConfig { transport_lbtrm_data_rate_limit: 0, ..SourceConfig::default() };
        Ok(Player::Session(Box::new(End::new(carrier, to, &config, Count::default())?)))
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Player::Bare { carrier, to, .. } => while carrier.send(*to, message, message.len())? == 0 {},
            Player::Session(end) => while !end.send(clock::monotonic(), message, true)? {},
        }
        Ok(())
    }

    /// Ends its session. Returns how many datagrams had to be sent again: with any, the times are not what
    /// they seem.
    fn finish(self) -> u64 {
        match self {
            Player::Bare { .. } => 0,
            Player::Session(mut end) => {
                end.end(clock::monotonic());
                end.source_counters.rxs_sent.get()
            }
        }
    }

    /// How many messages have come so far.
    fn received(&mut self) -> io::Result<u64> {
        match self {
            Player::Bare { carrier, received, .. } => {
                carrier.receive(|_, to_group, _| *received += u64::from(to_group))?;
                Ok(*received)
            }
            Player::Session(end) => {
                end.turn(clock::monotonic())?;
                Ok(end.sink.0)
            }
        }
    }
}

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let mut next =
        |default: usize| words.next().map_or(Ok(default), |word| word.parse()).map_err(io::Error::other);
    let (count, bytes, cpus) = (next(20_000)?, next(64)?, [next(0)?, next(1)?]);
    let wanted = words.next().unwrap_or_default();
    let variants: Vec<_> = VARIANTS.iter().filter(|(name, ..)| name.starts_with(&wanted)).collect();
    let mut medians = vec![Vec::new(); variants.len()];
    for _ in 0..ROUNDS {
        for (variant, medians) in variants.iter().zip(&mut medians) {
            let times = round(**variant, count, bytes, cpus);
            medians.push(times.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", variant.0)))?);
        }
    }
    for ((name, ..), mut medians) in variants.iter().zip(medians) {
        medians.sort_unstable_by_key(|(p50, _)| *p50);
        let (p50, p99) = medians[ROUNDS / 2];
        println!(
            "{{\"variant\": \"{name}\", \"bytes\": {bytes}, \"half_p50_ns\": {p50}, \"half_p99_ns\": {p99}}}"
        );
    }
    Ok(())
}

/// Half round trips in nanoseconds: median, 99th of a hundred.
fn round(
    (_, way, protocol): (&str, Way, bool),
    count: usize,
    bytes: usize,
    cpus: [usize; 2],
) -> io::Result<(u64, u64)> {
    let lab = Lab::new("ping-pong").ok_or_else(|| io::Error::other("there are no hosts to play between"))?;
    let mut near = Player::open(way, protocol, NEAR, TO_NEAR)?;
    lab.to_far();
    let mut far = Player::open(way, protocol, FAR, TO_FAR)?;
    lab.to_near();
    let stop = &AtomicBool::new(false);
    // The near end does not spin before the far one has a CPU to itself.
    let begun = &Barrier::new(2);
    std::thread::scope(|scope| {
        let answering = scope.spawn(move || -> io::Result<()> {
            let pinned = affinity::pin_to_cpu(cpus[1]);
            begun.wait();
            pinned?;
            let message = vec![9; bytes];
            let mut answered = 0;
            while !stop.load(Ordering::Relaxed) {
                while answered < far.received()? {
                    far.send(&message)?;
                    answered += 1;
                }
            }
            Ok(())
        });
        begun.wait();
        let played = play(&mut near, count, bytes, cpus[0]);
        stop.store(true, Ordering::Relaxed);
        answering.join().expect("it does not panic")?;
        let repeated = near.finish();
        if repeated > 0 {
            return Err(io::Error::other(format!("{repeated} datagrams were sent again")));
        }
        played
    })
}

fn play(near: &mut Player, count: usize, bytes: usize, cpu: usize) -> io::Result<(u64, u64)> {
    affinity::pin_to_cpu(cpu)?;
    let message = vec![9; bytes];
    let warm_up = count / 10;
    let mut times = Vec::with_capacity(count);
    for i in 0..warm_up + count {
        let began = clock::monotonic();
        near.send(&message)?;
        while near.received()? <= i as u64 {
            if clock::monotonic().since(began) > WATCHDOG {
                return Err(io::Error::other(format!("message {i} has not come back")));
            }
        }
        if i >= warm_up {
            times.push(clock::monotonic().since(began).as_nanos() as u64 / 2);
        }
    }
    times.sort_unstable();
    Ok((times[count / 2], times[count * 99 / 100]))
}
