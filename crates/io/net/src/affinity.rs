//! Which CPU a thread runs on, before whom, and until when.

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

/// Has the kernel kill this process when the thread that started it ends, also by a signal. A program that takes this
/// one's place keeps it.
///
/// # Errors
/// None in practice.
pub fn end_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

/// Gives the calling thread a real-time priority, 1 to 99: it then runs before all that have none, for as long as
/// it wants.
///
/// # Errors
/// The process may not, or the priority is out of range.
pub fn set_realtime_priority(priority: u8) -> io::Result<()> {
    set_scheduler(libc::SCHED_FIFO, priority).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot take real-time priority {priority}: {error}"))
    })
}

/// Takes a real-time priority from the calling thread again, also one that it has inherited.
///
/// # Errors
/// The kernel refuses.
pub fn set_ordinary_priority() -> io::Result<()> {
    set_scheduler(libc::SCHED_OTHER, 0)
}

fn set_scheduler(policy: libc::c_int, priority: u8) -> io::Result<()> {
    // SAFETY: an all-zero sched_param is a valid value of that plain C struct.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = priority.into();
    // SAFETY: 0 names the calling thread, and the parameter is a live local that is only read.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The real-time priority (SCHED_FIFO) of the calling thread, if it has one.
///
/// # Errors
/// The kernel does not say.
pub fn realtime_priority() -> io::Result<Option<u8>> {
    // SAFETY: 0 names the calling thread; no memory is passed.
    let policy = unsafe { libc::sched_getscheduler(0) };
    // SAFETY: an all-zero sched_param is a valid value of that plain C struct.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: 0 names the calling thread, and the parameter is a live local that may be written.
    if policy < 0 || unsafe { libc::sched_getparam(0, &raw mut parameter) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_realtime = policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO;
    Ok(is_realtime.then_some(parameter.sched_priority as u8))
}
