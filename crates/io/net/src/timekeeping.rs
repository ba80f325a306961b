//! What the clocks of this host are, how they are kept, and the counter of the processor that they are made of.
//!
//! [`clock`](crate::clock) is for everyone who needs the time. This is for measurements: which clock a time is of, what it
//! costs, and how far it may be off.

use std::fs;
use std::io;

use rustix::time::{ClockId, DynamicClockId, clock_gettime, clock_gettime_dynamic};

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

/// A clock of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelClock {
    /// Since some moment before the system started; its rate follows NTP or PTP.
    Monotonic,
    /// The same without corrections of its rate.
    MonotonicRaw,
    /// Since 1970 in UTC; it may be set.
    Realtime,
    /// Since 1970 without leap seconds; equal to `Realtime` where nobody has told the kernel the difference.
    Tai,
}

impl KernelClock {
    /// Nanoseconds on this clock.
    #[inline]
    #[must_use]
    pub fn now_ns(self) -> u64 {
        let t = match self {
            KernelClock::Monotonic => clock_gettime(ClockId::Monotonic),
            KernelClock::MonotonicRaw => clock_gettime(ClockId::MonotonicRaw),
            KernelClock::Realtime => clock_gettime(ClockId::Realtime),
            // Every kernel since 3.10 has it; without it, what is nearest.
            KernelClock::Tai => clock_gettime_dynamic(DynamicClockId::Tai)
                .unwrap_or_else(|_| clock_gettime(ClockId::Realtime)),
        };
        (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
    }
}

/// The counter of the processor (TSC), which goes on while others execute.
///
/// It is read without a fence: the processor may read it some nanoseconds before or after the instructions around it. Zero
/// where there is none.
#[inline]
#[must_use]
pub fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every processor of this architecture has the instruction, and Linux lets programs use it unless a program
        // asks for a fault (PR_SET_TSC).
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        0
    }
}

/// Whether the processor says that its counter has one rate, whatever it does to its frequency, and goes on in all of its
/// sleeping states.
#[must_use]
pub fn tsc_is_invariant() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::__cpuid;
        // Leaf 8000_0007, bit 8 of EDX, if there is such a leaf (Intel SDM volume 3, 19.17.1; AMD APM volume 3, E.4.5).
        let leaf = 0x8000_0007;
        __cpuid(0x8000_0000).eax >= leaf && __cpuid(leaf).edx & (1 << 8) != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// What the kernel makes its clocks of, as `tsc`; empty if it does not say.
#[must_use]
pub fn clock_source() -> String {
    line(&format!("{CLOCK_SOURCE}/current_clocksource"))
}

/// What it could make them of.
#[must_use]
pub fn available_clock_sources() -> Vec<String> {
    line(&format!("{CLOCK_SOURCE}/available_clocksource")).split_whitespace().map(str::to_owned).collect()
}

/// Why the counter of the processor is no clock here; none if it is one. The kernel watches it, and takes another source when
/// it finds that counters of two processors differ.
#[must_use]
pub fn why_no_tsc() -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some("this architecture has no TSC".to_owned());
    }
    if !tsc_is_invariant() {
        return Some("the processor does not say that its TSC is invariant".to_owned());
    }
    match clock_source() {
        source if source == "tsc" => None,
        source if source.is_empty() => Some("the kernel does not say what its clocks are made of".to_owned()),
        source => Some(format!("the kernel's clock source is {source}, not tsc")),
    }
}

fn line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// How the system keeps `Realtime`, as the kernel was told by an NTP or PTP daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discipline {
    /// Somebody keeps it.
    pub is_synchronised: bool,
    /// What that somebody estimates the error to be, microseconds.
    pub estimated_error_us: u64,
    /// The most that it can be, microseconds. The kernel adds 500 us a second while nobody tells it anew.
    pub maximum_error_us: u64,
    /// Correction of the rate, in 2^-16 parts per million.
    pub frequency: i64,
    /// Of TAI before UTC, seconds; 0 where nobody has told the kernel.
    pub tai_offset_s: i32,
}

impl Discipline {
    /// As it is now.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn now() -> io::Result<Discipline> {
        // SAFETY: the structure is plain numbers, for which zero is a value.
        let mut state: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: with `modes` zero the call changes nothing and fills the structure, which is ours.
        let answer = unsafe { libc::adjtimex(&raw mut state) };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Discipline {
            is_synchronised: answer != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0,
            estimated_error_us: u64::try_from(state.esterror).unwrap_or(0),
            maximum_error_us: u64::try_from(state.maxerror).unwrap_or(0),
            frequency: state.freq,
            tai_offset_s: state.tai,
        })
    }
}

/// Hardware clocks that PTP can keep: the device, and what its driver calls it.
#[must_use]
pub fn ptp_clocks() -> Vec<(String, String)> {
    let found = fs::read_dir("/sys/class/ptp").into_iter().flatten().flatten();
    let named = found.map(|entry| {
        let device = entry.file_name().to_string_lossy().into_owned();
        let name = line(&format!("/sys/class/ptp/{device}/clock_name"));
        (device, name)
    });
    let mut clocks: Vec<_> = named.collect();
    clocks.sort();
    clocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward_and_the_counter_too_where_it_is_one() {
        for clock in
            [KernelClock::Monotonic, KernelClock::MonotonicRaw, KernelClock::Realtime, KernelClock::Tai]
        {
            let first = clock.now_ns();
            assert!(first > 0 && (clock == KernelClock::Realtime || clock.now_ns() >= first), "{clock:?}");
        }
        if why_no_tsc().is_none() {
            assert!(tsc_is_invariant() && clock_source() == "tsc");
            let first = tsc();
            assert!(tsc() >= first && first > 0);
        }
    }

    #[test]
    fn a_host_says_how_it_keeps_its_clock() {
        let state = Discipline::now().expect("it needs no rights");
        assert!(state.frequency.unsigned_abs() <= 32_768_000, "500 ppm at most: {state:?}");
        assert!((0..1000).contains(&state.tai_offset_s));
        assert!(ptp_clocks().iter().all(|(device, _)| device.starts_with("ptp")));
        let (source, others) = (clock_source(), available_clock_sources());
        assert!(source.is_empty() || others.contains(&source), "{source} of {others:?}");
    }
}
