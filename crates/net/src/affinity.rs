//! Which CPU a thread runs on, and before whom.

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

/// Gives the calling thread a real-time priority, 1 to 99: it then runs before all that have none, for as long as
/// it wants.
///
/// # Errors
/// The process may not, or the priority is out of range.
pub fn set_realtime_priority(priority: u8) -> io::Result<()> {
    // SAFETY: an all-zero sched_param is a valid value of that plain C struct.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = priority.into();
    // SAFETY: 0 names the calling thread, and the parameter is a live local that is only read.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(io::Error::new(error.kind(), format!("cannot take real-time priority {priority}: {error}")))
}
