//! What the kernel thinks of its wall clock: whether something disciplines it, and how wrong it may be.

use std::io;

/// The state of the kernel's clock, as whoever disciplines it (an NTP or PTP daemon) has told it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discipline {
    /// Somebody says that the clock is right.
    pub is_synchronised: bool,
    /// It is wrong by this at most, nanoseconds. It grows by 500 ns a second while nobody corrects it.
    pub error_max_ns: u64,
    /// It is wrong by about this, nanoseconds.
    pub error_estimate_ns: u64,
    /// What is left to be corrected, nanoseconds.
    pub offset_ns: i64,
    /// TAI less UTC, seconds; 0 if nobody has said it.
    pub tai_offset_s: i32,
}

/// Reads it. It takes no rights.
///
/// # Errors
/// The kernel does not say.
pub fn read() -> io::Result<Discipline> {
    // SAFETY: an all-zero timex is a valid value of that plain C struct; no mode is set in it, so nothing is changed.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the argument is a live local that may be written.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let in_ns = |us: libc::c_long| u64::try_from(us).unwrap_or(0).saturating_mul(1_000);
    let is_nano = state.status & libc::STA_NANO != 0;
    Ok(Discipline {
        is_synchronised: state.status & libc::STA_UNSYNC == 0 && result != libc::TIME_ERROR,
        error_max_ns: in_ns(state.maxerror),
        error_estimate_ns: in_ns(state.esterror),
        offset_ns: if is_nano { state.offset } else { state.offset.saturating_mul(1_000) },
        tai_offset_s: state.tai,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_it() {
        let state = read().expect("every kernel does");
        assert!(state.error_max_ns < 1_000_000_000_000, "{state:?}");
    }
}
