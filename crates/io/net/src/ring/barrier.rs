//! A barrier of two sides of which one pays: the producer of a ring orders a store before a load with each message, the
//! consumer does so once. Where the kernel has `membarrier`, the consumer has it interrupt the process's running threads, each of
//! which then passes a full fence, and the producer keeps its compiler from exchanging the two. Else both sides fence.

#[cfg(loom)]
use loom::sync::atomic::fence;
use std::sync::atomic::Ordering::SeqCst;
#[cfg(not(loom))]
use std::sync::atomic::fence;

/// Whether [`heavy`] serves both sides, so that [`light`] is enough for the other.
#[cfg(not(any(loom, miri)))]
pub(super) fn is_one_sided() -> bool {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
    const NO: u8 = 1;
    const YES: u8 = 2;
    // Threads that are first together all ask, and get the same answer. A child made by `fork` meanwhile asks too; it
    // would wait for ever for a thread that initialises a `OnceLock`.
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    match KNOWN.load(Relaxed) {
        0 => {
            let is_so = register() && barrier();
            KNOWN.store(if is_so { YES } else { NO }, Relaxed);
            is_so
        }
        known => known == YES,
    }
}

#[cfg(any(loom, miri))]
pub(super) fn is_one_sided() -> bool {
    cfg!(loom)
}

/// The side that pays nothing.
#[inline]
pub(super) fn light() {
    // Loom knows no threads that are interrupted: this is what the two barriers come to.
    #[cfg(loom)]
    fence(SeqCst);
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(SeqCst);
}

/// The side that pays for both.
pub(super) fn heavy() {
    fence(SeqCst);
    #[cfg(not(any(loom, miri)))]
    if is_one_sided() && !barrier() {
        // A child made by `fork` may have to ask anew.
        let _ = register() && barrier();
    }
}

/// For a producer whose other side cannot pay.
pub(super) fn full() {
    fence(SeqCst);
}

/// Between two looks at what another thread is about to write.
pub(super) fn pause() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}

#[cfg(not(any(loom, miri)))]
fn register() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
}

#[cfg(not(any(loom, miri)))]
fn barrier() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};
    membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}
