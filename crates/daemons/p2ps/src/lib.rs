//! The point-to-point server: RSSL and WebSocket consumers and the backbone around the core of `market`.
//!
//! The core speaks RWF. What it sends to RSSL clients goes into their outbox as it is; what it sends to
//! WebSocket clients is made into JSON, once however many get it, and goes into theirs.
//!
//! Adapters stand between the core and the sockets, named by their two sides:
//!
//! ```text
//! backbone --- BackboneToMarket --->  core  --- MarketToClients ---> outboxes, commands to the backbone
//! RSSL clients --- RsslToMarket --->   |
//! JSON clients --- JsonToMarket --->   |
//! ```
//!
//! One thread drives everything: a [`PointToPointServer`] is a [`net::agent::Agent`]. A turn takes what has
//! arrived from the backbone and from clients, then sends what that led to; no timer holds an update back.

mod backbone_to_market;
mod config;
mod conflation;
mod intake;
mod market_to_clients;
mod pace;
mod rssl_to_market;
mod server;
mod websocket;

pub use crate::config::{ClassConfig, P2psConfig};
pub use server::PointToPointServer;
