//! One interface, several carriers: how source distributors and point-to-point servers reach each other.
//!
//! ```
//! use market::p2ps::{SourceId, Topic};
//! use net::{Poller, Token, clock};
//! use tickcast_backbone::inprocess::{Hub, InProcessInlet, InProcessOutlet};
//! use tickcast_backbone::{Inlet, InletCommand, InletEvents, Outlet};
//! use units::Nanos;
//!
//! /// The point-to-point server, which asks for each service that it hears of.
//! #[derive(Default)]
//! struct Server { found: Vec<String>, heard: Vec<Vec<u8>> }
//! impl InletEvents for Server {
//!     fn on_source(&mut self, _: Nanos, _: SourceId, topic: Topic<'_>, _: u64) {
//!         self.found.extend(match topic {
//!             Topic::Service(name) => Some(name.to_owned()),
//!             Topic::Directory => None,
//!         });
//!     }
//!     fn on_stream_message(&mut self, _: Nanos, _: SourceId, bytes: &[u8]) {
//!         self.heard.push(bytes.to_vec());
//!     }
//!     fn on_source_ended(&mut self, _: Nanos, _: SourceId) {}
//!     fn on_link_up(&mut self, _: Nanos, _: u64) {}
//!     fn on_link_down(&mut self, _: Nanos, _: u64) {}
//!     fn on_link_message(&mut self, _: Nanos, _: u64, _: &[u8]) {}
//! }
//!
//! let (hub, poller) = (Hub::new(), Poller::new()?);
//! let mut outlet = InProcessOutlet::new(&hub, poller.registrar(), Token(1), false)?;
//! let mut inlet = InProcessInlet::new(&hub, poller.registrar(), Token(2), false)?;
//! let (now, mut server, mut is_published) = (clock::monotonic(), Server::default(), false);
//!
//! outlet.open_stream(now, 7, "BINANCE")?;
//! inlet.execute(now, InletCommand::Subscribe("BINANCE".to_owned()), &mut server);
//! # let mut turns = 0;
//! while server.heard.is_empty() {                      // turns of both sides
//! #   turns += 1;
//! #   assert!(turns < 1_000, "the message does not arrive");
//!     inlet.on_wakeup(now, &mut server);
//!     inlet.flush(now);
//!     outlet.on_wakeup(now, &mut Vec::new());
//!     if !is_published && server.found == ["BINANCE"] {
//!         outlet.publish(now, 7, b"header ", b"and body");
//!         is_published = true;
//!     }
//!     outlet.flush(now);
//! }
//! assert_eq!(server.heard, [b"header and body"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An [`Outlet`] is a source distributor's side, an [`Inlet`] a point-to-point server's. They move the
//! messages of the backbone protocol and know nothing of what is in them. A carrier delivers the messages of
//! a stream in order and without duplicates; what it cannot repair shows as a jump of the sequence in the
//! messages themselves.
//!
//! | carrier | streams | links |
//! |---|---|---|
//! | [`multicast`] | topics on LBT-RM | TCP to the instance's request port |
//! | [`nats`] | subjects on servers of NATS | numbered packets between two inboxes |
//! | [`inprocess`] | a ring for each server | a ring each way |

pub mod inprocess;
pub mod multicast;
pub mod nats;
mod security;

pub use security::{BackboneCarrier, BackboneConfig, Exposure, exposure};

use std::io;
use std::time::Duration;

use market::backbone::SERVICE_NAME_BYTES_MAX;
use market::distributor::PeerId;
use market::p2ps::{SourceId, Topic};
use net::Ready;
use units::Nanos;

/// The topic on which every instance publishes its directory.
pub const DIRECTORY_TOPIC: &str = "tickcast.directory";
/// What the topics of services begin with.
pub const SERVICE_TOPIC_PREFIX: &str = "tickcast.service.";
/// Bytes of the longest name of a topic.
const TOPIC_NAME_BYTES_MAX: usize = 255;
const _: () = assert!(SERVICE_TOPIC_PREFIX.len() + SERVICE_NAME_BYTES_MAX == TOPIC_NAME_BYTES_MAX);

/// What operators should know of a carrier's keys and certificates. There are at most some in a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Somebody is refused, or something cannot be used; else it is for the record.
    pub is_fault: bool,
    /// What, who, and what to do.
    pub text: String,
}

/// What comes to an [`Outlet`] from point-to-point servers. Requests are few, so that they are handed over as
/// values; handling them leads to calls of the outlet itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutletEvent {
    /// A point-to-point server has connected.
    Connected(PeerId),
    /// A message of a point-to-point server.
    Message(PeerId, Vec<u8>),
    /// A link is gone, and why.
    Closed(PeerId, String),
    /// Something happened to keys and certificates.
    Notice(Notice),
}

/// A source distributor's side of the backbone.
pub trait Outlet {
    /// Begins to publish a service.
    ///
    /// # Errors
    /// The topic's name cannot be sent.
    fn open_stream(&mut self, now: Nanos, service: u16, name: &str) -> io::Result<()>;
    /// Ends it.
    fn close_stream(&mut self, service: u16);
    /// Sends a message of a service's stream. It is never refused: what the carrier does not take at once
    /// waits, and [`Outlet::is_blocked`] says so.
    fn publish(&mut self, now: Nanos, service: u16, header: &[u8], body: &[u8]);
    /// Sends a message of the directory.
    fn publish_directory(&mut self, now: Nanos, header: &[u8], body: &[u8]);
    /// Sends a message to one peer.
    fn to_peer(&mut self, peer: PeerId, bytes: &[u8]);
    /// So much waits for a link that images for it had better come later. It is told by an event of the carrier, or
    /// by [`Outlet::next_wakeup`], that it has changed.
    fn is_full(&self, peer: PeerId) -> bool;
    /// Closes a link; no event follows.
    fn close_peer(&mut self, peer: PeerId);
    /// Messages wait for the carrier: whoever makes them should stop.
    fn is_blocked(&self) -> bool;
    /// A descriptor of the carrier is ready.
    fn on_ready(&mut self, now: Nanos, ready: Ready, events: &mut Vec<OutletEvent>);
    /// Does what is due.
    fn on_wakeup(&mut self, now: Nanos, events: &mut Vec<OutletEvent>);
    /// When [`Outlet::on_wakeup`] is due next.
    fn next_wakeup(&self) -> Nanos;
    /// Sends everything that waits for more.
    fn flush(&mut self, now: Nanos);
    /// Says to all peers that this instance ends.
    fn end(&mut self, now: Nanos);
}

/// Where what an [`Inlet`] receives goes.
pub trait InletEvents {
    /// A topic that was subscribed to has a source; sources of one `session` come from one instance.
    fn on_source(&mut self, now: Nanos, source: SourceId, topic: Topic<'_>, session: u64);
    /// A source is gone.
    fn on_source_ended(&mut self, now: Nanos, source: SourceId);
    /// A message of a stream.
    fn on_stream_message(&mut self, now: Nanos, source: SourceId, bytes: &[u8]);
    /// A link is established.
    fn on_link_up(&mut self, now: Nanos, instance: u64);
    /// A link broke or could not be opened.
    fn on_link_down(&mut self, now: Nanos, instance: u64);
    /// A message over a link.
    fn on_link_message(&mut self, now: Nanos, instance: u64, bytes: &[u8]);
    /// Something happened to keys and certificates.
    fn on_notice(&mut self, notice: &Notice) {
        let _ = notice;
    }
}

/// What a point-to-point server wants of its [`Inlet`]. Events are handled while the carrier is at work, so
/// that the decisions they lead to are carried out afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InletCommand {
    /// Join the topic of a service.
    Subscribe(String),
    /// Leave it.
    Unsubscribe(String),
    /// Open a link to the instance behind a directory source.
    Connect {
        /// Its id.
        instance: u64,
        /// Its directory.
        directory: SourceId,
    },
    /// Close the link.
    Disconnect(u64),
    /// Send a message over a link.
    Send {
        /// The link.
        instance: u64,
        /// The message.
        bytes: Vec<u8>,
    },
}

/// A point-to-point server's side of the backbone.
pub trait Inlet {
    /// Carries out a command.
    fn execute(&mut self, now: Nanos, command: InletCommand, events: &mut impl InletEvents);
    /// A descriptor of the carrier is ready. Returns whether more may have arrived that would get lost if it is not taken
    /// soon.
    fn on_ready(&mut self, now: Nanos, ready: Ready, events: &mut impl InletEvents) -> bool;
    /// Does what is due.
    fn on_wakeup(&mut self, now: Nanos, events: &mut impl InletEvents);
    /// When [`Inlet::on_wakeup`] is due next.
    fn next_wakeup(&self) -> Nanos;
    /// Sends everything that waits for more.
    fn flush(&mut self, now: Nanos);
    /// Whether what is not read stays with the sender, however long that takes, in place of getting lost.
    fn keeps_unread(&self) -> bool {
        false
    }
}

/// How long until a point in time, `None` if it never comes.
#[must_use]
pub fn until(now: Nanos, at: Nanos) -> Option<Duration> {
    (at != Nanos::NEVER).then(|| at.since(now))
}
