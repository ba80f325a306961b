use backbone::Outlet;
use daemon::{Hop, HopLatencies, Stamps};
use market::backbone::{HopTimes, Kind, LinkDown, StreamMsg};
use market::distributor::{DistributorSink, PeerId, PeerNotice, ProviderError, ProviderId, ProviderNotice};
use server::{ConnectionId, Outbox};
use tracing::{info, warn};
use units::Nanos;

use crate::dials::DialOutbox;

/// What is sent over links, and what goes with it.
#[derive(Default)]
pub(crate) struct Links {
    /// A message being encoded.
    pub(crate) bytes: Vec<u8>,
    /// What was done for links in this turn: bytes sent, and some for each image that was asked for.
    pub(crate) work: usize,
    /// Connections of providers that are to be closed.
    pub(crate) dismissed: Vec<ConnectionId>,
    /// Makes hop stamps, if they are wanted.
    pub(crate) stamper: Option<Stamper>,
}

/// Makes hop stamps of updates, and counts how long these took here.
pub(crate) struct Stamper {
    pub(crate) stamps: Stamps,
    pub(crate) latencies: HopLatencies,
}

impl Stamper {
    /// What an update carries that leaves in the turn that began at `now`. That is when the socket was read which it came
    /// from.
    #[inline]
    fn stamp(&mut self, now: Nanos) -> HopTimes {
        let distributor = self.stamps.passage(now, now, 0);
        self.latencies.observe(Hop::SourceDistributor, distributor.left.saturating_sub(distributor.came), 1);
        HopTimes { distributor, relay: None }
    }
}

/// Work for all links in a turn, once for what arrives and once for what waits.
const TURN_WORK: usize = 1 << 20;
/// What a request for an image costs beside the bytes that it leads to.
const REQUEST_WORK: usize = 512;

/// Carries out what the core decides: streams and answers go to the backbone, answers to providers.
pub(crate) struct MarketToBackbone<'a, O> {
    pub(crate) now: Nanos,
    pub(crate) outlet: &'a mut O,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) dial_outbox: &'a mut DialOutbox,
    pub(crate) links: &'a mut Links,
}

impl<O: Outlet> DistributorSink for MarketToBackbone<'_, O> {
    fn open_stream(&mut self, service: u16, name: &str) {
        match self.outlet.open_stream(self.now, service, name) {
            Ok(()) => info!(service, name, "service published"),
            Err(error) => warn!(service, name, %error, "service cannot be published"),
        }
    }

    fn close_stream(&mut self, service: u16) {
        info!(service, "service withdrawn");
        self.outlet.close_stream(service);
    }

    #[inline]
    fn publish(&mut self, service: u16, msg: &StreamMsg<'_>) {
        match &mut self.links.stamper {
            Some(stamper) if msg.kind == Kind::Update => {
                let part = stamper.stamp(self.now).part();
                let (stamped, mut room) = (StreamMsg { parts: part.bytes(), ..*msg }, [0; _]);
                self.outlet.publish(self.now, service, stamped.header_and_parts(&mut room), msg.body);
            }
            _ => self.outlet.publish(self.now, service, msg.header_and_parts(&mut [0; _]), msg.body),
        }
    }

    fn publish_directory(&mut self, msg: &StreamMsg<'_>) {
        self.outlet.publish_directory(self.now, &msg.header(), msg.body);
    }

    fn to_peer(&mut self, peer: PeerId, msg: &LinkDown<'_>) {
        let Links { bytes, work, .. } = &mut *self.links;
        bytes.clear();
        msg.encode(bytes);
        *work += bytes.len();
        self.outlet.to_peer(peer, bytes);
    }

    fn has_room(&mut self, peer: PeerId) -> bool {
        let MarketToBackbone { outlet, links, .. } = self;
        let has_room = links.work < TURN_WORK && !outlet.is_full(peer) && !outlet.is_blocked();
        self.links.work += if has_room { REQUEST_WORK } else { 0 };
        has_room
    }

    fn notice(&mut self, provider: ProviderId, notice: &ProviderNotice<'_>) {
        if DialOutbox::is_for(provider) {
            return self.dial_outbox.notice(provider, notice);
        }
        warn!(connection = provider.0, "{notice}");
    }

    fn peer_notice(&mut self, peer: PeerId, name: &str, notice: &PeerNotice) {
        warn!(peer = peer.0, name, "{notice}");
    }

    fn close_provider(&mut self, provider: ProviderId, why: &ProviderError) {
        warn!(connection = provider.0, error = %why, "provider's connection is closed");
        if DialOutbox::is_for(provider) {
            self.dial_outbox.hang_up(provider);
        } else {
            self.links.dismissed.push(ConnectionId(provider.0));
        }
    }

    fn to_provider(&mut self, provider: ProviderId, msg: &[u8]) {
        if DialOutbox::is_for(provider) {
            self.dial_outbox.send(provider, msg);
            return;
        }
        server::rssl::send(self.outbox, ConnectionId(provider.0), msg);
    }
}
