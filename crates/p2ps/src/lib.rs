//! The point-to-point server: RSSL consumers and the backbone around the core of `market`.
//!
//! One thread drives everything: a [`PointToPointServer`] is a [`net::agent::Agent`]. A turn takes what has
//! arrived from the backbone and from clients, then sends what that led to; no timer holds an update back.

mod config;
mod server;

pub use crate::config::P2psConfig;
pub use server::PointToPointServer;
