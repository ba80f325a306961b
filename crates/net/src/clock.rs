//! The two clocks: one that only goes forward, one that says what time it is.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use units::Nanos;

/// Now on `CLOCK_MONOTONIC`: the same on all processes of a host, about 20 ns a call.
#[inline]
#[must_use]
pub fn monotonic() -> Nanos {
    let t = clock_gettime(ClockId::Monotonic);
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Nanoseconds since 1970-01-01 UTC, by the host's clock.
#[must_use]
pub fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// A number that differs at each start and on each host, to seed [`units::Rng`]: wall time, process id and the
/// address-space layout mixed. It is not for secrets.
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
    fn the_monotonic_clock_never_goes_back() {
        let mut last = super::monotonic();
        for _ in 0..10_000 {
            let now = super::monotonic();
            assert!(now >= last);
            last = now;
        }
    }
}
