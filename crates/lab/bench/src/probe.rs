//! What the machine itself is like just now: where its CPUs lie, and how still it is.

use std::time::Duration;

use measure::{Jitter, Placement};
use net::affinity::pin_to_cpu;
use net::clock;

use crate::{BenchError, raw};

/// Long enough for tens of thousands of round trips, short beside a run.
const PLACEMENT_SPAN: Duration = Duration::from_millis(10);

/// Where two CPUs lie.
pub(crate) fn placement(cpus: [usize; 2]) -> Result<Placement, BenchError> {
    Ok(Placement::of(raw::flag(cpus, PLACEMENT_SPAN)?.p50_ns as f64))
}

/// What a thread sees that does nothing but read the clock on a CPU.
pub(crate) fn jitter(cpu: usize, span: Duration) -> Result<Jitter, BenchError> {
    // On a thread of its own, so that the caller's is not pinned.
    let watching = std::thread::spawn(move || {
        pin_to_cpu(cpu)?;
        let (mut jitter, mut before) = (Jitter::default(), clock::monotonic());
        let end = before.after(span);
        while before < end {
            let now = clock::monotonic();
            jitter.record(now.since(before).as_nanos() as u64);
            before = now;
        }
        Ok::<_, std::io::Error>(jitter)
    });
    Ok(watching.join().map_err(|_| BenchError::new("the probe has panicked"))??)
}
