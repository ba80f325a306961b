//! The source distributor: connections around the core of `market`.
//!
//! ```
//! use std::net::Ipv4Addr;
//! use std::sync::Arc;
//! use std::time::Duration;
//! use backbone::inprocess::{Hub, InProcessOutlet};
//! use client::{Domain, Provider, ProviderConfig, ProviderServiceConfig, Real, RefreshSpec};
//! use net::agent::Agent;
//! use net::{Poller, Token, clock};
//! use server::rssl::RsslConfig;
//! use tickcast_source_distributor::{Providers, SourceDistributor, SourceDistributorConfig};
//!
//! // Providers connect on a free port. The backbone is memory here, and multicast between hosts.
//! let (mut poller, registry) = (Poller::new()?, counters::Registry::default());
//! let (registrar, seed) = (poller.registrar().clone(), clock::seed());
//! let outlet = InProcessOutlet::new(&Hub::new(), &registrar, Token(2 << 32), false)?;
//! let provider = RsslConfig { interface: Ipv4Addr::LOCALHOST, ..RsslConfig::default() };
//! let config = SourceDistributorConfig { provider_port: 0, provider, ..SourceDistributorConfig::default() };
//! let (dictionary, tokens) = (Arc::default(), (&registrar, 1));
//! let mut distributor =
//!     SourceDistributor::new(&config, Providers::ConnectToo, dictionary, outlet, tokens, seed, &registry)?;
//!
//! // A provider publishes an item.
//! let port = distributor.provider_address()?.port();
//! let services = vec![ProviderServiceConfig { name: "NI_PUB".into(), ..Default::default() }];
//! let hosts = vec![format!("127.0.0.1:{port}").parse()?];
//! let mut provider = Provider::new(&ProviderConfig { hosts, services, ..ProviderConfig::default() })?;
//! let item = provider.item(Domain::MARKET_PRICE, "NI_PUB", "IBM.N")?;
//! let _ = provider.refresh(item, &RefreshSpec::default(), |w| {
//!     w.field_list(|fields| fields.put(22, Real::decimal(4007, 2)));
//! })?;
//!
//! # let mut turns = 0;
//! while distributor.core().item_count() == 0 {         // turns of both ends
//! #   turns += 1;
//! #   assert!(turns < 100_000, "the item does not arrive");
//!     provider.dispatch(Duration::ZERO, &mut |_| {})?;
//!     let ready: Vec<_> = poller.wait(Some(Duration::from_millis(1)))?.collect();
//!     ready.into_iter().for_each(|one| distributor.on_ready(clock::monotonic(), one));
//!     distributor.turn(clock::monotonic());
//! }
//! let services: Vec<&str> = distributor.core().services().map(|(_, name, ..)| name).collect();
//! assert_eq!(services, ["NI_PUB"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
mod ledger;
mod market_to_backbone;
mod rssl_to_market;
mod saved;

pub use crate::config::{
    BalanceConfig, InteractiveConfig, PostsConfig, RenamedServiceConfig, RequestsConfig, SavedImagesConfig,
    ServiceConfig, SourceDistributorConfig,
};
pub use distributor::{Providers, SourceDistributor};
