//! A message to and fro, half of the time it takes.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use measure::{Latencies, Summary};
use net::affinity::pin_to_cpu;
use net::clock;
use serde_json::json;

use super::channel::{Channel, Flags, Rings, Tcp, Udp};
use crate::BenchError;
use crate::pair::{EndArgs, Path, span};
use crate::process::{answer, commands};

/// Longer messages go through a ring: word by word, as beside a flag, they would be slower than any copy.
const FLAGGED_MAX_BYTES: usize = 1_400;
const RING_BYTES: usize = 1 << 20;

pub(crate) fn run(args: &EndArgs) -> Result<(), BenchError> {
    answer(&json!({ "ready": true }));
    for command in commands() {
        answer(&json!({ "half_round_trip": measure(args, span(&command)?)? }));
    }
    Ok(())
}

fn measure(args: &EndArgs, span: Duration) -> io::Result<Summary> {
    match args.path {
        Path::Shm if args.size > FLAGGED_MAX_BYTES => {
            let (near, far) = Rings::pair(RING_BYTES);
            both(near, far, args, span)
        }
        Path::Shm => {
            let (near, far) = Flags::pair(args.size);
            both(near, far, args, span)
        }
        Path::Udp => Udp::pair().and_then(|(near, far)| both(near, far, args, span)),
        Path::Multicast => Udp::multicast_pair(args.port).and_then(|(near, far)| both(near, far, args, span)),
        Path::Veth => Err(io::Error::other("its ends are processes")),
        Path::Tcp => Tcp::pair().and_then(|(near, far)| both(near, far, args, span)),
    }
}

/// Half round trips of a flag in shared memory between two CPUs.
pub(crate) fn flag(cpus: [usize; 2], span: Duration) -> io::Result<Summary> {
    let (near, far) = Flags::pair(0);
    threads(near, far, 0, cpus, span)
}

fn both<C: Channel>(near: C, far: C, args: &EndArgs, span: Duration) -> io::Result<Summary> {
    threads(near, far, args.size, [args.cpu, args.far_cpu], span)
}

fn threads<C: Channel>(
    mut near: C,
    mut far: C,
    size: usize,
    [near_cpu, far_cpu]: [usize; 2],
    span: Duration,
) -> io::Result<Summary> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reflector = scope.spawn(|| {
            pin_to_cpu(far_cpu)?;
            let mut message = vec![0; size];
            while far.receive(&mut message, &stop)? {
                far.send(&message)?;
            }
            Ok::<_, io::Error>(())
        });
        // On a thread of its own, so that the caller's is not pinned.
        let asking = scope.spawn(|| {
            let summary = pin_to_cpu(near_cpu).and_then(|()| ask(&mut near, size, span, &stop));
            stop.store(true, Relaxed);
            summary
        });
        let summary = asking.join().map_err(|_| io::Error::other("the near end has panicked"))?;
        reflector.join().map_err(|_| io::Error::other("the far end has panicked"))??;
        summary
    })
}

fn ask(near: &mut impl Channel, size: usize, span: Duration, stop: &AtomicBool) -> io::Result<Summary> {
    let (mut message, mut latencies) = (vec![7; size], Latencies::default());
    let warm = clock::monotonic().after(span / 5);
    let end = warm.after(span);
    loop {
        let start = clock::monotonic();
        near.send(&message)?;
        if !near.receive(&mut message, stop)? {
            return Err(io::Error::other("the far end is gone"));
        }
        let now = clock::monotonic();
        if start >= warm {
            latencies.record(now.since(start).as_nanos() as u64 / 2);
        }
        // One at least, however busy the machine is.
        if now >= end && start >= warm {
            return Ok(latencies.spread());
        }
    }
}
