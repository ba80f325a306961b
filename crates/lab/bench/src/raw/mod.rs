//! What the machine allows without any library between: the yardstick of the ratios.
//!
//! On one host both ends are threads of one process, pinned to different CPUs and spinning. To the kernel and
//! to the caches that is the same as two processes, and a perfect flow control costs them nothing: the sender
//! sees in memory what the receiver has taken.

mod channel;
mod pingpong;
mod stream;
mod veth;

pub(crate) use pingpong::{flag, run as pingpong};
pub(crate) use stream::run as stream;
pub(crate) use veth::run as end;

/// The mode of bare ends that are frames.
pub(crate) const AF_XDP: &str = "af_xdp";
