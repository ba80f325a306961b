use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use net::Heartbeat;
use serde_json::Value;
use units::Nanos;

/// What a daemon says of itself, for other threads to read.
#[derive(Clone, Default)]
pub struct Status(Arc<Shared>);

#[derive(Default)]
struct Shared {
    last: Mutex<Description>,
    renewed: Condvar,
    heartbeat: Heartbeat,
}

#[derive(Default)]
struct Description {
    value: Value,
    made_at: Option<Instant>,
    /// Somebody waits for a new one.
    is_wanted: bool,
}

/// Describes a daemon on the daemon's own thread, when somebody asks.
///
/// A description of a thousand clients takes milliseconds, which are not spent unless somebody wants it.
#[derive(Default)]
pub struct Describer {
    status: Status,
    due: Nanos,
}

/// How often it is looked whether somebody asks; and how long one description serves all who do.
const INTERVAL: Duration = Duration::from_millis(250);
/// How long a reader waits for a daemon that does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

impl Status {
    /// A description made now, or some moments ago: the reader waits for the daemon's thread to come round. If
    /// that does not come round for two seconds, it is the last description there is.
    #[must_use]
    pub fn read(&self) -> Value {
        let mut last = self.0.lock();
        let asked_at = Instant::now();
        if last.made_at.is_none_or(|made_at| made_at + INTERVAL < asked_at) {
            last.is_wanted = true;
            let waits = |last: &mut Description| last.is_wanted;
            let waited = self.0.renewed.wait_timeout_while(last, PATIENCE, waits);
            last = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        last.value.clone()
    }
}

impl Status {
    /// The heart of the daemon's thread: it beats four times a second or more, busy or idle.
    #[must_use]
    pub fn heartbeat(&self) -> Heartbeat {
        self.0.heartbeat.clone()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Description> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Describer {
    /// Where the description can be read.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.clone()
    }

    /// Describes the daemon if it is time to look whether somebody asks, and somebody does.
    #[inline]
    pub fn describe(&mut self, now: Nanos, make: impl FnOnce() -> Value) {
        if now < self.due {
            return;
        }
        self.due = now + INTERVAL;
        self.status.0.heartbeat.beat(now);
        if self.status.0.lock().is_wanted {
            let value = make();
            let mut last = self.status.0.lock();
            *last = Description { value, made_at: Some(Instant::now()), is_wanted: false };
            self.status.0.renewed.notify_all();
        }
    }

    /// When it is time.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_described_as_long_as_nobody_asks() {
        let mut describer = Describer::default();
        for turn in 0..10 {
            let now = Nanos(turn * 1_000_000_000);
            assert!(describer.next_wakeup() <= now);
            describer.describe(now, || panic!("nobody asks"));
            assert_eq!(describer.next_wakeup(), now + INTERVAL);
        }
    }

    #[test]
    fn who_asks_gets_what_is_described_afterwards() {
        let mut describer = Describer::default();
        let status = describer.status();
        let reader = std::thread::spawn(move || status.read());
        let (mut turn, mut made) = (0, 0);
        while !reader.is_finished() {
            turn += 1;
            describer.describe(Nanos(turn * 1_000_000_000), || {
                made += 1;
                json!(made)
            });
        }
        assert_eq!((reader.join().expect("it does not panic"), made), (json!(1), 1), "one serves");
    }

    #[test]
    fn a_daemon_that_does_not_come_round_is_as_it_last_said() {
        assert_eq!(Describer::default().status().read(), Value::Null);
    }
}
