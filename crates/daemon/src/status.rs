use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use units::Nanos;

/// What a daemon says of itself, for other threads to read.
#[derive(Clone, Default)]
pub struct Status(Arc<Mutex<Value>>);

impl Status {
    /// The last description.
    #[must_use]
    pub fn read(&self) -> Value {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Describes a daemon anew from time to time, on the daemon's own thread.
#[derive(Default)]
pub struct Describer {
    status: Status,
    due: Nanos,
}

const INTERVAL: Duration = Duration::from_millis(500);

impl Describer {
    /// Where the description can be read.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.clone()
    }

    /// Describes the daemon if it is time to.
    pub fn describe(&mut self, now: Nanos, make: impl FnOnce() -> Value) {
        if now >= self.due {
            self.due = now + INTERVAL;
            *self.status.0.lock().unwrap_or_else(PoisonError::into_inner) = make();
        }
    }

    /// When it is time.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        self.due
    }
}
