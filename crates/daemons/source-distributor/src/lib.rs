//! The source distributor: connections around the core of `market`.
//!
//! Non-interactive providers connect to its RSSL port; what they publish goes out on the backbone.
//! Interactive providers are dialled, and asked for what point-to-point servers want.
//!
//! Adapters stand between the core and the sockets, named by their two sides:
//!
//! ```text
//! providers --------- RsslToMarket --->  core  --- MarketToBackbone ---> backbone, answers to providers
//! dialled providers ------- Dials --->    |
//! ```
//!
//! One thread drives everything: a [`SourceDistributor`] is a [`net::agent::Agent`]. When the backbone takes no more
//! (its rate limit), nothing is read from providers until it does: the pressure goes back to who makes the
//! data.

mod config;
mod dials;
mod distributor;
mod market_to_backbone;
mod rssl_to_market;

pub use crate::config::{
    BalanceConfig, InteractiveConfig, PostsConfig, RequestsConfig, ServiceConfig, SourceDistributorConfig,
};
pub use distributor::SourceDistributor;
