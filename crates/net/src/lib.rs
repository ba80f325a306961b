//! System calls for data: UDP with segmentation offload, TCP with or without TLS, polling, clocks, waiting, rings.
//!
//! The only room in which bytes meet the kernel, and (with the bindings) the only one where `unsafe` is
//! allowed. Everything is non-blocking; [`Poller`] is where a thread waits, and [`WaitStrategy`] says how.

pub mod affinity;
pub mod agent;
pub mod clock;
pub mod descriptors;
mod file_stamp;
mod poller;
pub mod ring;
pub mod tcp;
pub mod tls;
mod transport;
pub mod udp;
mod wait;

pub use file_stamp::FileStamp;
pub use poller::{Interest, Poller, Ready, Registrar, Token, Waker};
pub use transport::Transport;
pub use wait::{WaitStrategy, Waiter};
