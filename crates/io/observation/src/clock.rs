use net::timekeeping::{KernelClock, tsc};

/// What the times of a recorder are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Clock {
    /// The counter of the processor. It is the quickest; it must be invariant, and the kernel's own choice.
    Tsc = 1,
    /// `CLOCK_MONOTONIC`, which other programs of the host have too.
    Monotonic = 2,
    /// `CLOCK_MONOTONIC_RAW`: no daemon changes its rate.
    MonotonicRaw = 3,
}

impl Clock {
    /// All of them, the quickest first.
    pub const ALL: [Clock; 3] = [Clock::Tsc, Clock::Monotonic, Clock::MonotonicRaw];

    /// Its name in commands and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Clock::Tsc => "tsc",
            Clock::Monotonic => "monotonic",
            Clock::MonotonicRaw => "monotonic-raw",
        }
    }

    /// The clock of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Clock> {
        Clock::ALL.into_iter().find(|clock| clock.name() == name)
    }

    pub(crate) fn by_number(number: u32) -> Option<Clock> {
        Clock::ALL.into_iter().find(|clock| *clock as u32 == number)
    }

    /// Why this host does not have it; none if it does.
    #[must_use]
    pub fn why_not(self) -> Option<String> {
        if self == Clock::Tsc { net::timekeeping::why_no_tsc() } else { None }
    }

    /// Ticks now.
    #[inline]
    #[must_use]
    pub fn now(self) -> u64 {
        match self {
            Clock::Tsc => tsc(),
            Clock::Monotonic => KernelClock::Monotonic.now_ns(),
            Clock::MonotonicRaw => KernelClock::MonotonicRaw.now_ns(),
        }
    }
}
