//! System calls for data: UDP with segmentation offload, TCP with or without TLS, shared memory between
//! processes, names of hosts, polling, clocks, waiting, rings, and the file in which others read counters.
//!
//! The only crate in which bytes meet the kernel, and (with the bindings) the only one where `unsafe` is
//! allowed. Everything is non-blocking; [`Poller`] is where a thread waits, and [`WaitStrategy`] says how.

mod addresses;
pub mod affinity;
pub mod agent;
pub mod authentication;
#[cfg(not(loom))]
mod byte_lock;
pub mod clock;
#[cfg(not(loom))]
pub mod counters_file;
pub mod descriptors;
mod door;
pub mod encryption;
#[cfg(any(test, feature = "faults"))]
pub mod faults;
mod file_stamp;
#[cfg_attr(loom, allow(dead_code))]
pub mod fork;
mod heartbeat;
pub mod interface;
mod key_file;
#[cfg(not(any(test, feature = "faults")))]
mod no_faults;
#[cfg(not(loom))]
mod owned_file;
mod poller;
mod resolver;
pub mod ring;
#[cfg_attr(loom, allow(dead_code))]
pub mod shm;
pub mod small_file;
pub mod tcp;
pub mod tls;
mod transport;
pub mod udp;
#[cfg(not(loom))]
pub mod user;
mod wait;
pub mod xdp;

#[cfg(any(test, feature = "faults"))]
pub(crate) use faults::SocketFaults;
#[cfg(not(any(test, feature = "faults")))]
pub(crate) use no_faults::SocketFaults;

pub use addresses::Addresses;
pub use door::Door;
pub use file_stamp::{FileStamp, WatchedFiles};
pub use heartbeat::Heartbeat;
pub use key_file::SecretKeys;
pub use poller::{Interest, Poller, Ready, Registrar, Token, Waker};
pub use resolver::{Lookup, Resolver};
pub use small_file::exposure_of;
pub use transport::Transport;
pub use wait::{WaitStrategy, Waiter};
