//! The point-to-point server: RSSL and WebSocket consumers and the backbone around the core of `market`.
//!
//! ```
//! use std::net::Ipv4Addr;
//! use std::sync::Arc;
//! use std::time::Duration;
//! use backbone::inprocess::{Hub, InProcessInlet};
//! use net::agent::Agent;
//! use net::{Poller, Token, clock};
//! use server::rssl::RsslConfig;
//! use tickcast_p2ps::{P2psConfig, PointToPointServer};
//!
//! // Consumers connect on a free port. The backbone is memory here, and multicast between hosts.
//! let (mut poller, registry) = (Poller::new()?, counters::Registry::default());
//! let (registrar, seed) = (poller.registrar().clone(), clock::seed());
//! let inlet = InProcessInlet::new(&Hub::new(), &registrar, Token(2 << 32), false)?;
//! let rssl = RsslConfig { interface: Ipv4Addr::LOCALHOST, ..RsslConfig::default() };
//! let config = P2psConfig { rssl_port: 0, rssl, websocket_port: 0, ..P2psConfig::default() };
//! let (dictionary, space) = (Arc::default(), 1);
//! let mut server = PointToPointServer::new(&config, dictionary, inlet, &registrar, space, seed, &registry)?;
//! let port = server.rssl_address()?.port();
//! # use std::io::{Read, Write};
//! # use std::ops::ControlFlow;
//! # use rdm::{ToVec, login::{LoginMsg, LoginRequest}};
//! # struct Consumer { answered: Option<bool> }
//! # impl rssl::Handler for Consumer {
//! #     fn on_connected(&mut self, _: &rssl::Session<'_>, out: &mut rssl::Outbound) -> ControlFlow<rssl::Stop> {
//! #         out.push(&LoginRequest::consumer(b"ada").to_vec().expect("a short name")).expect("there is room");
//! #         ControlFlow::Continue(())
//! #     }
//! #     fn on_message(&mut self, message: &[u8], _: &mut rssl::Outbound) -> ControlFlow<rssl::Stop> {
//! #         let message = rwf::Msg::parse(message).expect("a good message");
//! #         self.answered = Some(matches!(LoginMsg::parse(&message), Ok(LoginMsg::Refresh(_))));
//! #         ControlFlow::Continue(())
//! #     }
//! # }
//! # let mut socket = std::net::TcpStream::connect(("127.0.0.1", port))?;
//! # socket.set_nonblocking(true)?;
//! # let params = Arc::new(rssl::ClientConfig::default().check()?);
//! # let version = params.config().version_max;
//! # let mut client = rssl::ClientConnection::new(clock::monotonic(), &params, &Arc::default(), version, 3);
//! # let mut consumer = Consumer { answered: None };
//!
//! // A consumer, not shown, connects to that port and logs in as "ada".
//! # let mut turns = 0;
//! while consumer.answered.is_none() {
//! #   turns += 1;
//! #   assert!(turns < 100_000, "the login is not answered");
//! #   let written = socket.write(client.outbound().flush())?;
//! #   client.outbound().consume(written);
//! #   let mut bytes = [0; 1_024];
//! #   if let Ok(count) = socket.read(&mut bytes) {
//! #       client.on_bytes(clock::monotonic(), &bytes[..count], &mut consumer).expect("a good server");
//! #   }
//!     let ready: Vec<_> = poller.wait(Some(Duration::from_millis(1)))?.collect();
//!     ready.into_iter().for_each(|one| server.on_ready(clock::monotonic(), one));
//!     server.turn(clock::monotonic());
//! }
//! assert_eq!(consumer.answered, Some(true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
//! With several *shards* each has a thread with a [`PointToPointServer`] for some of the clients, and a
//! [`RelayServer`] on a further thread takes the backbone for all ([`Shards`]).
//!
//! One thread drives everything of a server: a [`PointToPointServer`] is a [`net::agent::Agent`]. A turn takes what has
//! arrived from the backbone and from clients, then sends what that led to; no timer holds an update back.

mod announced;
mod backbone_to_market;
mod config;
mod conflation;
mod drain;
mod hops;
mod inspection;
mod intake;
mod ledger;
mod market_to_clients;
mod pace;
mod relay;
mod rssl_to_market;
mod server;
mod shards;
mod shares;
mod trace;
mod upstream;
mod websocket;

pub use crate::config::{ClassConfig, P2psConfig, ServiceRateConfig};
pub use relay::RelayServer;
pub use server::PointToPointServer;
pub use shards::{Shard, Shards, describe_as_one};
pub use trace::describe_alone;
pub use upstream::describe_with_upstream;
