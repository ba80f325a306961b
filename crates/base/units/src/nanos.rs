use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time: nanoseconds since an arbitrary start that all users of one clock share.
///
/// On the daemons the start is that of `CLOCK_MONOTONIC`, in the simulator it is zero. Spans are
/// [`Duration`]s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of the clock.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than every other point; as a wake-up time it means "never".
    pub const NEVER: Nanos = Nanos(u64::MAX);

    /// The point `span` later; [`Nanos::NEVER`] stays what it is.
    #[inline]
    #[must_use]
    pub fn after(self, span: Duration) -> Nanos {
        Nanos(self.0.saturating_add(span_ns(span)))
    }

    /// How long after `earlier` this point is; zero if it is not after it.
    #[inline]
    #[must_use]
    pub fn since(self, earlier: Nanos) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn span_ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Nanos {
    type Output = Nanos;
    #[inline]
    fn add(self, span: Duration) -> Nanos {
        self.after(span)
    }
}

impl AddAssign<Duration> for Nanos {
    #[inline]
    fn add_assign(&mut self, span: Duration) {
        *self = self.after(span);
    }
}

impl Sub for Nanos {
    type Output = Duration;
    #[inline]
    fn sub(self, earlier: Nanos) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Nanos::NEVER { f.write_str("never") } else { write!(f, "{}ns", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_is_not_moved() {
        assert_eq!(Nanos::NEVER.after(Duration::from_secs(1)), Nanos::NEVER);
    }

    #[test]
    fn a_span_into_the_past_is_zero() {
        assert_eq!(Nanos(5).since(Nanos(9)), Duration::ZERO);
        assert_eq!(Nanos(9) - Nanos(5), Duration::from_nanos(4));
    }
}
