//! The atomics of the ring, or loom's when it is being model-checked.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU64, fence};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU64, fence};

pub(super) use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
