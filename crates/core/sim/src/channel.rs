use std::time::Duration;

use units::{Nanos, Rng};

/// Keeps what is sent one way in order, though each message is delayed by a time of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pipe {
    last: Nanos,
}

impl Pipe {
    /// When a message sent now arrives: after a random delay, and not before the one sent before it.
    pub(crate) fn arrival(&mut self, now: Nanos, longest: Duration, rng: &mut Rng) -> Nanos {
        let delay = Duration::from_nanos(1 + rng.below(longest.as_nanos() as u64));
        self.last = self.last.max(now + delay);
        self.last
    }
}
