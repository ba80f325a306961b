use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Whether a counter only grows or stands for a present value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows only; its rate is what matters.
    Total,
    /// A present value, such as a depth or a high-water mark.
    Gauge,
}

/// One number with a single writer and any number of readers.
///
/// The writer is the thread that owns the state the number speaks of: two writers would lose counts, which
/// the shape `&self` cannot prevent and the owner has to.
#[derive(Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts `n` more.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Counts one more.
    #[inline]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Sets a gauge.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Raises a high-water mark to `value` if it is lower.
    #[inline]
    pub fn raise(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// The present value.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}
