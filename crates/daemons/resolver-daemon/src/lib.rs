//! The unicast resolver: topic resolution for networks without multicast.
//!
//! ```
//! use std::net::{Ipv4Addr, UdpSocket};
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use std::time::Duration;
//! use counters::Registry;
//! use net::{Poller, Token, WaitStrategy, Waker, agent, clock};
//! use tickcast_resolver_daemon::{ResolverDaemon, ResolverDaemonConfig};
//!
//! // Here clients have any port, and the daemon the next free one of the loopback interface.
//! let (client_port_low, client_port_high) = (1, 65_535);
//! let config = ResolverDaemonConfig { port: 0, client_port_low, client_port_high, ..Default::default() };
//! let (mut poller, registry) = (Poller::new()?, Registry::default());
//! let mut daemon = ResolverDaemon::new(&config, poller.registrar(), 1, clock::monotonic(), &registry)?;
//! let address = daemon.local_address()?;
//!
//! // One thread drives it, until it is to stop.
//! let (stop, waker) = (AtomicBool::new(false), Waker::new(poller.registrar(), Token(0))?);
//! let keep_alive = std::thread::scope(|scope| {
//!     scope.spawn(|| agent::run(&mut poller, WaitStrategy::Block, &mut [&mut daemon], &stop));
//!     // A context sends a keep-alive and is sent one: from now on it hears what other contexts say.
//!     let ask = || {
//!         let (context, mut answer) = (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, [0; 64]);
//!         context.set_read_timeout(Some(Duration::from_secs(60)))?;
//!         context.send_to(&[2, 0, 0, 0], address)?;
//!         let length = context.recv(&mut answer)?;
//!         Ok::<Vec<u8>, std::io::Error>(answer[..length].to_vec())
//!     };
//!     let answer = ask();
//!     stop.store(true, Ordering::Relaxed);
//!     waker.wake();
//!     answer
//! })?;
//! assert_eq!(keep_alive, [0; 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Contexts that are configured with it send everything they would send to the resolver's group to it, and it
//! sends that on to all others. The decisions are [`lbt::resolution::Relay`]'s; here are its socket and its
//! place in a daemon. One thread drives it: a [`ResolverDaemon`] is a [`net::agent::Agent`]. Several daemons
//! that know nothing of each other stand in for one another, as contexts send to all they are told of.

mod config;
mod daemon;
mod keys;

pub use crate::config::ResolverDaemonConfig;
pub use crate::daemon::ResolverDaemon;
