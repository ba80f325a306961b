//! The two clocks: one that only goes forward, one that says what time it is.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};
use units::Nanos;

/// Now on `CLOCK_MONOTONIC`: the same on all processes of a host, about 20 ns a call.
#[inline]
#[must_use]
pub fn monotonic() -> Nanos {
    let t = clock_gettime(ClockId::Monotonic);
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// CPU time that this thread has used: what it has done, without the time in which others ran in its place.
#[must_use]
pub fn thread_cpu() -> Nanos {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// CPU time that all threads of this process have used.
#[must_use]
pub fn process_cpu() -> Nanos {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// The clock that timers go by.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// [`monotonic`].
    #[default]
    Machine,
    /// One that its owner moves on.
    Manual(ManualClock),
}

impl Clock {
    /// Now on this clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        match self {
            Clock::Machine => monotonic(),
            Clock::Manual(clock) => clock.now(),
        }
    }
}

/// A clock that stands still until its owner moves it on, for simulations: weeks pass in an instant. All
/// clones show the same time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows `start`.
    #[must_use]
    pub fn new(start: Nanos) -> ManualClock {
        ManualClock(Arc::new(AtomicU64::new(start.0)))
    }

    /// What it shows.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Acquire))
    }

    /// Moves it on to `to`; never back.
    pub fn set(&self, to: Nanos) {
        self.0.fetch_max(to.0, Ordering::AcqRel);
    }
}

/// Sleeps until a point on [`monotonic`]. The kernel adds its timer slack, 50 us unless [`fine_timers`] was
/// called.
pub fn sleep_until(until: Nanos) {
    let request = Timespec {
        tv_sec: i64::try_from(until.0 / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (until.0 % 1_000_000_000) as i64,
    };
    // A signal may end it early, as it ends every wait.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &request);
}

/// Lets the waits of the calling thread end without slack: the kernel bundles them within 50 us otherwise.
///
/// # Errors
/// The kernel refuses.
pub fn fine_timers() -> std::io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(1))?)
}

/// Nanoseconds since 1970-01-01 UTC, by the host's clock.
#[must_use]
pub fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// Tells the wall time of moments on [`monotonic`], for who stamps messages: the two clocks are compared once a second, so
/// that a moment that is known costs no call.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    /// Of the wall clock before the monotonic one.
    ahead_ns: u64,
    compared_at: Nanos,
}

/// How often the clocks are compared.
const COMPARED_EVERY: Duration = Duration::from_secs(1);

impl WallClock {
    /// One that knows the difference of now.
    #[must_use]
    pub fn new() -> WallClock {
        let compared_at = monotonic();
        WallClock { ahead_ns: wall_ns().saturating_sub(compared_at.0), compared_at }
    }

    /// Compares the clocks again if it is time. To be called in each turn.
    #[inline]
    pub fn renew(&mut self, now: Nanos) {
        if now >= self.compared_at + COMPARED_EVERY {
            *self = WallClock::new();
        }
    }

    /// Nanoseconds since 1970-01-01 UTC at a moment.
    #[inline]
    #[must_use]
    pub fn at(&self, moment: Nanos) -> u64 {
        moment.0.saturating_add(self.ahead_ns)
    }
}

impl Default for WallClock {
    fn default() -> WallClock {
        WallClock::new()
    }
}

/// A number that differs at each start and on each host, to seed [`units::Rng`]: wall time, process id and
/// the address-space layout mixed. It is not for secrets.
#[must_use]
pub fn seed() -> u64 {
    let mut rng = units::Rng::new(
        wall_ns() ^ u64::from(std::process::id()).rotate_left(40) ^ (&raw const PLACE as u64).rotate_left(17),
    );
    rng.next_u64()
}

static PLACE: u8 = 0;

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_that_sleeps_uses_less_time_than_passes() {
        let (begun, used) = (super::monotonic(), super::thread_cpu());
        while super::thread_cpu() == used {}
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(super::thread_cpu().since(used) < super::monotonic().since(begun));
    }

    #[test]
    fn a_sleep_ends_after_its_time() {
        super::fine_timers().expect("it needs no rights");
        let until = super::monotonic().after(std::time::Duration::from_millis(1));
        while super::monotonic() < until {
            super::sleep_until(until);
        }
        super::sleep_until(units::Nanos(1));
    }

    #[test]
    fn a_manual_clock_stands_until_it_is_moved_on_and_never_goes_back() {
        let owner = super::ManualClock::new(units::Nanos(5));
        let clock = super::Clock::Manual(owner.clone());
        assert_eq!((clock.now(), owner.now()), (units::Nanos(5), units::Nanos(5)));
        owner.set(units::Nanos(9));
        owner.set(units::Nanos(7));
        assert_eq!(clock.now(), units::Nanos(9));
    }

    #[test]
    fn a_moment_has_its_wall_time_and_the_clocks_are_compared_once_a_second() {
        let mut clock = super::WallClock::new();
        let (before, moment) = (super::wall_ns(), super::monotonic());
        // Nobody sets the clock of the machine by an hour meanwhile.
        assert!(clock.at(moment).abs_diff(before) < 3_600_000_000_000);
        let at = clock.compared_at;
        clock.renew(units::Nanos(at.0 + 999_999_999));
        assert_eq!(clock.compared_at, at);
        clock.renew(units::Nanos(at.0 + 1_000_000_000));
        assert!(clock.compared_at > at);
        assert_eq!(clock.at(units::Nanos(u64::MAX)), u64::MAX);
    }

    #[test]
    fn the_monotonic_clock_never_goes_back() {
        let mut last = super::monotonic();
        for _ in 0..10_000 {
            let now = super::monotonic();
            assert!(now >= last);
            last = now;
        }
    }
}
