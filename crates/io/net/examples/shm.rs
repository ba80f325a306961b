//! What shared memory takes on this machine, beside two bare flags.
//!
//! `shm WORKLOAD [key=value ...]`: see `USAGE`. Both ends spin, each pinned to a CPU. A line of
//! JSON for each measurement.

use std::hint::spin_loop;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tickcast_net::affinity::pin_to_cpu;
use tickcast_net::shm::{ClaimError, Pacing, Receiver, SessionName, Source, SourceOptions};

const USAGE: &str =
    "shm WORKLOAD [bytes=64] [count=1000000] [every=1] [ring=16777216] [cpus=0,1] [pacing=receiver]
  pingpong  half round trips through two sessions
  raw       the same through two flags and a buffer
  stream    messages one way, published `every` so many
  send      messages without a receiver, for counting instructions
  loop      messages sent and read by one thread, for counting instructions";

struct Options {
    bytes: usize,
    count: u64,
    every: u64,
    ring: u64,
    cpus: [usize; 2],
    pacing: Pacing,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let workload = arguments.next().unwrap_or_default();
    let Some(options) = parse(arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match workload.as_str() {
        "pingpong" => ping_pong(&options),
        "raw" => raw_ping_pong(&options),
        "stream" => stream(&options),
        "send" => send(&options),
        "loop" => send_and_read(&options),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn parse(arguments: impl Iterator<Item = String>) -> Option<Options> {
    let pacing = Pacing::Receiver { drop_stopped_after: Some(Duration::from_secs(10)) };
    let mut options = Options { bytes: 64, count: 1_000_000, every: 1, ring: 16 << 20, cpus: [0, 1], pacing };
    for argument in arguments {
        let (key, value) = argument.split_once('=')?;
        match key {
            "bytes" => options.bytes = value.parse().ok()?,
            "count" => options.count = value.parse().ok()?,
            "every" => options.every = value.parse().ok()?,
            "ring" => options.ring = value.parse().ok()?,
            "cpus" => {
                let (first, second) = value.split_once(',')?;
                options.cpus = [first.parse().ok()?, second.parse().ok()?];
            }
            "pacing" if value == "source" => options.pacing = Pacing::Source,
            "pacing" if value == "receiver" => {}
            _ => return None,
        }
    }
    Some(options)
}

fn source(options: &Options, transport_id: u16) -> (Source, SessionName) {
    let name = SessionName { session_id: std::process::id(), transport_id };
    let made = SourceOptions { ring_bytes: options.ring, pacing: options.pacing, ..SourceOptions::default() };
    (Source::create(name, &made).expect("/dev/shm has room"), name)
}

fn open(name: SessionName) -> Receiver {
    Receiver::open(name, Path::new("/dev/shm")).expect("its source is there")
}

fn pin(cpu: usize) {
    pin_to_cpu(cpu).expect("cpus= names two of this process's");
}

/// Claims, fills and publishes; the source is never ahead by a ring in these workloads, or waits.
#[inline]
fn put(source: &mut Source, message: &[u8], publishes: bool) {
    loop {
        match source.claim(message.len(), 0) {
            Ok(mut claim) => {
                claim.copy_from_slice(message);
                claim.commit();
                break;
            }
            Err(ClaimError::Full) => spin_loop(),
            Err(error) => panic!("{error}"),
        }
    }
    if publishes {
        source.publish();
    }
}

/// Spins until there is one message, and copies it.
#[inline]
fn take(receiver: &mut Receiver, into: &mut [u8]) {
    let take = |receiver: &mut Receiver, into: &mut [u8]| {
        receiver.poll(1, |frame| into[..frame.bytes.len()].copy_from_slice(frame.bytes)).expect("no loss")
    };
    while take(receiver, into) == 0 {
        spin_loop();
    }
}

fn ping_pong(options: &Options) {
    let (mut there, there_name) = source(options, 1);
    let (mut back, back_name) = source(options, 2);
    let (mut at_far, mut at_near) = (open(there_name), open(back_name));
    let (bytes, count, cpus) = (options.bytes, options.count, options.cpus);
    let far = thread::spawn(move || {
        pin(cpus[1]);
        let mut buffer = vec![0; bytes];
        for _ in 0..count {
            take(&mut at_far, &mut buffer);
            put(&mut back, &buffer, true);
        }
    });
    pin(cpus[0]);
    let (mut buffer, mut times) = (vec![0; bytes], Vec::with_capacity(count as usize));
    for _ in 0..count {
        let start = Instant::now();
        put(&mut there, &buffer, true);
        take(&mut at_near, &mut buffer);
        times.push(start.elapsed().as_nanos() as u64);
    }
    far.join().expect("the other side has counted too");
    print_latency("pingpong", options, times);
}

/// A flag on lines of its own, and a buffer beside it.
#[repr(align(128))]
struct Flag(AtomicU64);

fn raw_ping_pong(options: &Options) {
    let words = options.bytes.div_ceil(8);
    let make = || {
        let buffer: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
        Arc::new((Flag(AtomicU64::new(0)), buffer))
    };
    let (there, back) = (make(), make());
    let (count, cpus) = (options.count, options.cpus);
    let post = |to: &(Flag, Vec<AtomicU64>), i: u64| {
        to.1.iter().for_each(|word| word.store(i, Ordering::Relaxed));
        to.0.0.store(i, Ordering::Release);
    };
    let wait = |from: &(Flag, Vec<AtomicU64>), i: u64| {
        while from.0.0.load(Ordering::Acquire) != i {
            spin_loop();
        }
        let sum = from.1.iter().fold(0u64, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
        assert_eq!(sum, i * from.1.len() as u64);
    };
    let far = {
        let (there, back) = (Arc::clone(&there), Arc::clone(&back));
        thread::spawn(move || {
            pin(cpus[1]);
            for i in 1..=count {
                wait(&there, i);
                post(&back, i);
            }
        })
    };
    pin(cpus[0]);
    let mut times = Vec::with_capacity(count as usize);
    for i in 1..=count {
        let start = Instant::now();
        post(&there, i);
        wait(&back, i);
        times.push(start.elapsed().as_nanos() as u64);
    }
    far.join().expect("the other side has counted too");
    print_latency("raw", options, times);
}

fn print_latency(workload: &str, options: &Options, mut round_trips: Vec<u64>) {
    round_trips.drain(..round_trips.len() / 20);
    round_trips.sort_unstable();
    let at = |part: f64| round_trips[((round_trips.len() - 1) as f64 * part) as usize] / 2;
    println!(
        "{{\"workload\":\"{workload}\",\"bytes\":{},\"half_round_trip_p50_ns\":{},\"p99_ns\":{},\"p999_ns\":{}}}",
        options.bytes,
        at(0.5),
        at(0.99),
        at(0.999)
    );
}

fn stream(options: &Options) {
    let (mut source, name) = source(options, 1);
    let mut receiver = open(name);
    let (bytes, count, cpus, every) = (options.bytes, options.count, options.cpus, options.every);
    let is_paced = options.pacing != Pacing::Source;
    let reader = thread::spawn(move || {
        pin(cpus[1]);
        let (mut read, mut missed, mut sum) = (0, 0, 0u64);
        while !receiver.is_over() {
            let mut idle = 0;
            while idle < 100_000 {
                let polled = receiver.poll(256, |frame| {
                    sum = sum.wrapping_add(frame.bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b)));
                });
                match polled {
                    Ok(0) => {
                        idle += 1;
                        spin_loop();
                    }
                    Ok(count) => (idle, read) = (0, read + count as u64),
                    Err(_) => missed += 1,
                }
            }
        }
        (read, missed, sum)
    });
    pin(cpus[0]);
    let mut message = vec![0; bytes];
    let start = Instant::now();
    for i in 0..count {
        message[..8].copy_from_slice(&i.to_le_bytes());
        put(&mut source, &message, (i + 1) % every == 0);
    }
    source.publish();
    while is_paced && source.readers().any(|reader| reader.lag_bytes > 0) {
        spin_loop();
    }
    let ns = start.elapsed().as_nanos() as f64;
    drop(source);
    let (read, laps, sum) = reader.join().expect("it reads to the end");
    if is_paced {
        assert_eq!((read, sum), (count, (0..count).sum()), "all, and as sent");
    }
    println!(
        "{{\"workload\":\"stream\",\"bytes\":{bytes},\"every\":{every},\"ring\":{},\"sent_per_s\":{:.0},\"read\":{read},\"laps\":{laps}}}",
        options.ring,
        count as f64 * 1e9 / ns,
    );
}

fn send(options: &Options) {
    let (mut source, _) = source(options, 1);
    let message = vec![0; options.bytes];
    for i in 0..options.count {
        put(&mut source, &message, (i + 1) % options.every == 0);
    }
}

fn send_and_read(options: &Options) {
    let (mut source, name) = source(options, 1);
    let mut receiver = open(name);
    let message = vec![0; options.bytes];
    let mut sum = 0;
    for i in 0..options.count {
        let publishes = (i + 1) % options.every == 0;
        put(&mut source, &message, publishes);
        if publishes {
            receiver.poll(usize::MAX, |frame| sum += frame.bytes.len()).expect("no loss");
        }
    }
    assert_eq!(sum as u64, options.bytes as u64 * options.count);
}
