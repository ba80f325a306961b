//! What the machine allows without any library between: the yardstick of the ratios.
//!
//! Both ends are threads of one process, pinned to different CPUs and spinning. To the kernel and to the
//! caches that is the same as two processes, and a perfect flow control costs them nothing: the sender sees
//! in memory what the receiver has taken.

mod channel;
mod pingpong;
mod stream;

pub(crate) use pingpong::{flag, run as pingpong};
pub(crate) use stream::run as stream;
