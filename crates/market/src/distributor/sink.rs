use std::fmt;

use super::{DictionaryDifference, PeerNotice, ProviderError};
use rwf::DecodeError;

use crate::backbone::{LinkDown, SERVICE_NAME_BYTES_MAX, StreamMsg};
use crate::key::ItemKey;

/// A provider connection, as the front end numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProviderId(pub u32);

/// A link from a point-to-point server, as the carrier numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// What is wrong with a provider that works nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderNotice<'a> {
    /// Clients get another dictionary than the provider's.
    Dictionary(&'a DictionaryDifference),
    /// A service that it offers is not taken.
    Service {
        /// Its name.
        name: &'a str,
        /// Why.
        why: RefusedService,
    },
    /// Others publish a service that it publishes: items that these have come from them, and from it when they
    /// are lost.
    SharesService {
        /// The service.
        service: &'a str,
        /// How many publish it now.
        providers: usize,
    },
    /// It publishes a service no longer, or not now, and others do.
    LeavesService {
        /// The service.
        service: &'a str,
        /// How many publish it now.
        providers: usize,
        /// Its items that come from another provider now.
        moved: usize,
        /// Its items that no other provider has.
        suspect: usize,
    },
    /// A message of it could not be read. Of these not each is told, but how many were not.
    Unreadable {
        /// The item that is suspect until its next image, if it is known.
        item: Option<ItemKey<'a>>,
        /// What is wrong with the message.
        error: &'a DecodeError,
        /// How many more there were since the last one told.
        held_back: u64,
    },
    /// It has as many items open as it takes, and others wait for that.
    OpenLimit {
        /// The service.
        service: &'a str,
        /// The most items it takes.
        limit: u64,
    },
}

/// Why a service of a provider is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedService {
    /// A non-interactive provider publishes it, or did so since this instance began.
    Published,
    /// It is asked for at interactive providers, or was since this instance began.
    AskedFor,
    /// Its id is another service's, there are too many services, or its description is too long.
    Unfit,
    /// Its name cannot be that of a topic: it is too long, or has a zero byte.
    Unnamable,
}

impl fmt::Display for ProviderNotice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProviderNotice::Dictionary(difference) => difference.fmt(f),
            ProviderNotice::Service { name, why } => {
                let why = match why {
                    RefusedService::Published => "a non-interactive provider publishes it",
                    RefusedService::AskedFor => "it is asked for at interactive providers",
                    RefusedService::Unfit => {
                        "its id is another service's, there are too many, or its description is too long"
                    }
                    RefusedService::Unnamable => {
                        let (bytes, max) = (name.len(), SERVICE_NAME_BYTES_MAX);
                        return write!(
                            f,
                            "service {name:?} is not taken: its name of {bytes} bytes, 1 to {max} without a zero \
                             are allowed, cannot be that of a topic"
                        );
                    }
                };
                write!(f, "service {name:?} is not taken: {why}")
            }
            ProviderNotice::SharesService { service, providers } => {
                write!(
                    f,
                    "service {service:?} is published by {providers} providers; each item comes from one of them"
                )
            }
            ProviderNotice::LeavesService { service, providers, moved, suspect } => write!(
                f,
                "service {service:?} is lost at this provider, {providers} publish it: {moved} items come from another one now, {suspect} are suspect"
            ),
            ProviderNotice::Unreadable { item, error, held_back } => {
                match item {
                    Some(key) => {
                        let name = String::from_utf8_lossy(key.name);
                        write!(f, "item {name:?} ({}) is suspect until its next image: ", key.domain)?;
                    }
                    None => f.write_str("a message about no known item is dropped: ")?,
                }
                write!(f, "{error}")?;
                if *held_back > 0 {
                    write!(f, "; {held_back} more such messages since the last line")?;
                }
                Ok(())
            }
            ProviderNotice::OpenLimit { service, limit } => {
                write!(f, "service {service:?}: items wait, as no more than {limit} are taken")
            }
        }
    }
}

/// Where the distributor's decisions go. All calls are made from its inputs, in the order in which they are
/// to take effect.
pub trait DistributorSink {
    /// A service is published from now on; its messages go out on the topic `tickcast.service.NAME`.
    fn open_stream(&mut self, service: u16, name: &str);
    /// A service is no longer published.
    fn close_stream(&mut self, service: u16);
    /// Sends a message of a service's stream to everybody.
    fn publish(&mut self, service: u16, msg: &StreamMsg<'_>);
    /// Sends a message on the topic `tickcast.directory`.
    fn publish_directory(&mut self, msg: &StreamMsg<'_>);
    /// Sends a message to one point-to-point server.
    fn to_peer(&mut self, peer: PeerId, msg: &LinkDown<'_>);
    /// Whether an image may be sent to a point-to-point server now, because little waits for its link and this turn
    /// has work left. To be asked once for each image, since each counts. What finds no room is served by
    /// [`Distributor::serve_peers`](super::Distributor::serve_peers) later.
    fn has_room(&mut self, _peer: PeerId) -> bool {
        true
    }
    /// Sends an RWF message to a provider.
    fn to_provider(&mut self, provider: ProviderId, msg: &[u8]);
    /// Something about a provider that its operators should know, said once for each connection.
    fn notice(&mut self, provider: ProviderId, notice: &ProviderNotice<'_>);
    /// Something about a point-to-point server that operators should know. It names itself.
    fn peer_notice(&mut self, peer: PeerId, name: &str, notice: &PeerNotice);
    /// A provider's connection is to be closed. The distributor has forgotten it already.
    fn close_provider(&mut self, provider: ProviderId, why: &ProviderError);
}
