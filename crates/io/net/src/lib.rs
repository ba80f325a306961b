//! System calls for data: sockets, shared memory, polling, clocks and rings. Everything is non-blocking.
//!
//! ```
//! use std::time::Duration;
//! use tickcast_net::tcp::{self, Moved};
//! use tickcast_net::{Interest, Poller, Token};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = tcp::listen("127.0.0.1:0".parse()?)?;
//! let client = tcp::connect(listener.local_addr()?)?;
//!
//! // A poller is where a thread waits for all its descriptors.
//! let mut poller = Poller::new()?;
//! poller.registrar().add(&listener, Token(1), Interest::Read)?;
//! let ready: Vec<Token> = poller.wait(Some(Duration::from_secs(60)))?.map(|ready| ready.token).collect();
//! assert_eq!(ready, [Token(1)]);
//!
//! // Nothing blocks: what cannot be done now says so.
//! let (served, _) = tcp::accept(&listener)?.expect("a connection waits");
//! let mut buffer = [0; 64];
//! assert_eq!(tcp::read(&served, &mut buffer)?, Moved::WouldBlock);
//!
//! assert_eq!(tcp::write(&client, b"ping")?, Moved::Bytes(4));
//! poller.registrar().add(&served, Token(2), Interest::Read)?;
//! poller.wait(Some(Duration::from_secs(60)))?;
//! assert_eq!(tcp::read(&served, &mut buffer)?, Moved::Bytes(4));
//! assert_eq!(&buffer[..4], b"ping");
//! # Ok(())
//! # }
//! ```
//!
//! | module or type | what it is |
//! |---|---|
//! | [`Poller`], [`WaitStrategy`] | where a thread waits, and how: spinning, yielding, blocking |
//! | [`agent`] | parts of a thread's work and the loop that drives them |
//! | [`clock`] | the machine's clocks, and one that is set by hand |
//! | [`whole_file`] | files that are there whole or not at all |
//! | [`timekeeping`], [`resident`] | for measurements: what the clocks are and how they are kept; memory without page faults |
//! | [`tcp`], [`tls`], [`Transport`] | connections, encrypted if configured |
//! | [`udp`], [`xdp`] | multicast and unicast datagrams: sockets with segmentation offload, AF_XDP |
//! | [`shm`] | rings in memory that the processes of a host share |
//! | [`ring`] | a ring of messages between two threads |
//! | [`Resolver`] | names of hosts, without holding a thread up |
//! | [`counters_file`] | the file in which other processes read the counters of this one |
//! | [`affinity`], [`interface`] | CPUs and priorities of threads; interfaces of the host |
//! | [`CpusAwake`], [`pages`] | CPUs that do not sleep; memory in huge pages |
//! | [`card`] | rings and coalescing of network cards |
//!
//! Bytes meet the kernel in this crate alone, and it is (with the bindings and `testkit`) the only one where
//! `unsafe` is allowed. It knows no protocol: those are pure crates, which are handed bytes and the time.

mod addresses;
pub mod affinity;
pub mod agent;
pub mod authentication;
mod awake;
#[cfg(not(loom))]
mod byte_lock;
pub mod card;
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
pub mod pages;
mod poller;
#[cfg(not(loom))]
pub mod resident;
mod resolver;
pub mod ring;
#[cfg_attr(loom, allow(dead_code))]
pub mod shm;
pub mod small_file;
pub mod tcp;
pub mod timekeeping;
pub mod tls;
mod transport;
pub mod udp;
#[cfg(not(loom))]
pub mod user;
mod wait;
pub mod whole_file;
pub mod xdp;

#[cfg(any(test, feature = "faults"))]
pub(crate) use faults::SocketFaults;
#[cfg(not(any(test, feature = "faults")))]
pub(crate) use no_faults::SocketFaults;

pub use addresses::Addresses;
pub use awake::CpusAwake;
pub use door::Door;
pub use file_stamp::{FileStamp, WatchedFiles};
pub use heartbeat::Heartbeat;
pub use key_file::SecretKeys;
pub use poller::{Interest, Poller, Ready, Registrar, Token, Waker};
pub use resolver::{Lookup, Resolver};
pub use small_file::exposure_of;
pub use transport::Transport;
pub use wait::{WaitStrategy, Waiter};
