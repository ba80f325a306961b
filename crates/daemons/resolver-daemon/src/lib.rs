//! The unicast resolver: topic resolution for networks without multicast.
//!
//! ```
//! use tickcast_resolver_daemon::ResolverDaemonConfig;
//!
//! // What it is told: where it listens, and who may register.
//! let text = "port = 15380\nnetworks = [\"10.29.0.0/16\"]\n";
//! let loaded = config::Loader::new::<ResolverDaemonConfig>().file("resolver.toml", text).load()?;
//! assert!(loaded.value.admits("10.29.4.1".parse()?));
//! assert!(!loaded.value.admits("192.168.1.1".parse()?));
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
