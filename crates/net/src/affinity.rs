//! Which CPU a thread runs on.

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps the calling thread on one CPU.
///
/// # Errors
/// The CPU does not exist or is not among those the process may use.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("CPU {cpu} is above {}", CpuSet::MAX_CPU),
        ));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|e| {
        io::Error::new(io::Error::from(e).kind(), format!("cannot pin the thread to CPU {cpu}: {e}"))
    })
}
