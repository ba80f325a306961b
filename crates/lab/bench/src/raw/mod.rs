//! What the machine allows without any library between: the yardstick of the ratios.
//!
//! On one host both ends are threads of one process, pinned to different CPUs and spinning. To the kernel and
//! to the caches that is the same as two processes, and a perfect flow control costs them nothing: the sender
//! sees in memory what the receiver has taken.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

mod channel;
mod pingpong;
mod stream;
mod veth;

pub(crate) use pingpong::{flag, run as pingpong};
pub(crate) use stream::run as stream;
pub(crate) use veth::run as end;

/// The mode of bare ends that are processes though both are on one host.
pub(crate) const ENDS: &str = "ends";
/// The mode of bare ends that are frames.
pub(crate) const AF_XDP: &str = "af_xdp";

/// Whether threads of other processes have the same CPUs; a process has one role, so it is said once.
static YIELDS: AtomicBool = AtomicBool::new(false);

/// From now on threads of this process leave their CPU to others when they have nothing to do, or not.
fn share_cpus(yields: bool) {
    YIELDS.store(yields, Relaxed);
}

/// Leaves the CPU to others if there are any.
#[inline]
fn yield_if_shared() {
    if YIELDS.load(Relaxed) {
        std::thread::yield_now();
    }
}

/// A moment in which there is nothing to do, in a loop that looks at memory alone.
#[inline]
fn pause() {
    if YIELDS.load(Relaxed) { std::thread::yield_now() } else { std::hint::spin_loop() }
}
