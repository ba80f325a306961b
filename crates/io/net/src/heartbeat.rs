use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use units::Nanos;

use crate::clock;

/// Says whether a thread still turns. The thread beats whenever it comes round, also when it has nothing to do; others
/// look how long it has been silent.
#[derive(Clone, Debug)]
pub struct Heartbeat(Arc<AtomicU64>);

impl Default for Heartbeat {
    /// One that has just beaten.
    fn default() -> Self {
        Heartbeat(Arc::new(AtomicU64::new(clock::monotonic().0)))
    }
}

impl Heartbeat {
    /// The thread has come round at `now`.
    #[inline]
    pub fn beat(&self, now: Nanos) {
        self.0.store(now.0, Ordering::Relaxed);
    }

    /// How long it has not beaten.
    #[must_use]
    pub fn silence(&self) -> Duration {
        clock::monotonic().since(Nanos(self.0.load(Ordering::Relaxed)))
    }
}
