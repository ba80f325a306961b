//! Which CPU a thread runs on, before whom, and until when.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that the first thread to be pinned might use before. Atomics: a fork finds no lock taken.
static CPUS_BEFORE: [AtomicU64; CpuSet::MAX_CPU.div_ceil(64)] =
    [const { AtomicU64::new(0) }; CpuSet::MAX_CPU.div_ceil(64)];
static ARE_CPUS_KNOWN: AtomicBool = AtomicBool::new(false);

/// Keeps in mind which CPUs the process may use, before a thread is pinned to one of them.
fn remember_cpus() {
    if ARE_CPUS_KNOWN.load(Ordering::Acquire) {
        return;
    }
    let Ok(set) = sched_getaffinity(None) else { return };
    for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)) {
        CPUS_BEFORE[cpu / 64].fetch_or(1 << (cpu % 64), Ordering::Relaxed);
    }
    ARE_CPUS_KNOWN.store(true, Ordering::Release);
}

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
    remember_cpus();
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|e| {
        io::Error::new(io::Error::from(e).kind(), format!("cannot pin the thread to CPU {cpu}: {e}"))
    })
}

/// Takes the calling thread, which helps others, out of their way: an ordinary priority, and all CPUs that the process had
/// before one of its threads was pinned. A new thread inherits both from the thread that starts it. Beside one that spins
/// on its CPU with a real-time priority it would never run.
pub fn step_aside() {
    // To lower a priority takes no rights, and neither do CPUs that the process had before.
    let _ = set_ordinary_priority();
    if !ARE_CPUS_KNOWN.load(Ordering::Acquire) {
        return;
    }
    let mut set = CpuSet::new();
    let is_in = |cpu: &usize| CPUS_BEFORE[cpu / 64].load(Ordering::Relaxed) >> (cpu % 64) & 1 == 1;
    (0..CpuSet::MAX_CPU).filter(is_in).for_each(|cpu| set.set(cpu));
    let _ = sched_setaffinity(None, &set);
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
/// it wants. Threads that it starts do not inherit it.
///
/// # Errors
/// The process may not, or the priority is out of range.
pub fn set_realtime_priority(priority: u8) -> io::Result<()> {
    set_scheduler(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority).map_err(|error| {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus() -> Vec<usize> {
        let set = sched_getaffinity(None).expect("the kernel says it");
        (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
    }

    #[test]
    fn a_thread_that_a_pinned_one_starts_can_leave_its_cpu() {
        let before = cpus();
        let last = *before.last().expect("it runs on one");
        let pinned = std::thread::spawn(move || {
            pin_to_cpu(last).expect("it is one of its own");
            let helper = || {
                let inherited = cpus();
                step_aside();
                (inherited, cpus())
            };
            std::thread::spawn(helper).join().expect("it does not panic")
        });
        assert_eq!(pinned.join().expect("it does not panic"), (vec![last], before));
    }

    #[test]
    fn threads_do_not_inherit_a_realtime_priority() {
        std::thread::spawn(|| {
            if set_realtime_priority(1).is_err() {
                return; // Not everybody may.
            }
            let inherited = std::thread::spawn(realtime_priority).join().expect("it does not panic");
            assert_eq!((realtime_priority().ok(), inherited.ok()), (Some(Some(1)), Some(None)));
        })
        .join()
        .expect("it does not panic");
    }
}
