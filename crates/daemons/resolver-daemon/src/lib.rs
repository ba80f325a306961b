//! The unicast resolver: topic resolution for networks without multicast.
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
