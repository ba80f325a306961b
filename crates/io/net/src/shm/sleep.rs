//! A receiver that goes to sleep; `Producer::look_for_sleepers` is the source's side.
//!
//! The receiver sets its bit, fences, then looks for frames; the source publishes, fences, then looks for
//! bits. Both fences are sequentially consistent, so one of the two sees the other, and nothing but the
//! fences orders anything here: all accesses are relaxed.

use std::time::Duration;

use super::layout::Control;
use super::reader::Reader;
use super::sync::{Relaxed, SeqCst, fence};

/// How long a receiver may sleep before the source has noticed that somebody does.
pub(super) const UNNOTICED_SLEEP_MAX: Duration = Duration::from_millis(1);

/// What a receiver may do that has found nothing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// There is something to read after all.
    Ready,
    /// Wait until the descriptor is readable: the next publication makes it so.
    Sleep,
    /// The same, but no longer than this: the source has not noticed yet that somebody sleeps.
    SleepAtMost(Duration),
}

/// Says that from now on somebody may sleep.
pub(super) fn want_wakes(control: &Control) {
    control.wake_wanted.0.store(1, Relaxed);
}

/// Says that the receiver of slot `index` is about to sleep, if there is nothing to read.
pub(super) fn before_sleep(reader: &Reader, index: usize) -> Wait {
    let control = reader.region().control();
    // A source that has once said so fences and looks behind this publication and every later one.
    let is_noticed = control.source.looks_for_sleepers.load(Relaxed) != 0;
    control.sleepers.0.fetch_or(1 << index, Relaxed);
    fence(SeqCst);
    if reader.has_more() || control.source.closed.load(Relaxed) != 0 {
        Wait::Ready
    } else if is_noticed {
        Wait::Sleep
    } else {
        Wait::SleepAtMost(UNNOTICED_SLEEP_MAX)
    }
}

/// Says that the receiver of slot `index` is awake.
pub(super) fn after_sleep(control: &Control, index: usize) {
    control.sleepers.0.fetch_and(!(1 << index), Relaxed);
}
