//! What point-to-point servers want of this instance.

use std::collections::{BTreeMap, BTreeSet};

use rwf::{DataState, State, StateCode, StreamState};
use units::Nanos;

use super::cleanups::Departed;
use super::flow::PeerFlow;
use super::turns::Kept;
use super::{Distributor, DistributorSink, PeerId, SUSPECT, status_bytes, status_without_state};
use crate::backbone::{BackboneError, Features, LinkDown, LinkUp, StreamMsg};
use crate::cached::RefreshForm;
use crate::key::ItemKey;

/// One link.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// It has said Hello.
    is_greeted: bool,
    pub(super) name: String,
    /// The items it wants, by their places in the table.
    pub(super) items: BTreeSet<usize>,
    /// Its private streams, by conversation, by their places in the table.
    pub(super) privates: BTreeMap<u64, usize>,
    pub(super) flow: PeerFlow,
    /// What it has asked for and has not got yet.
    pub(super) kept: Kept,
}

/// The most bytes of a server's name that are kept: names stand in logs.
const NAME_MAX: usize = 255;

/// What is wrong with a message of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// Bytes that are not a message of the protocol.
    Malformed(BackboneError),
    /// Something else came before Hello.
    NotGreeted,
    /// It asks for more images than can be remembered until it takes them.
    TooMuch,
}

impl LinkError {
    /// Whether the link is to be cut: what comes over it cannot be trusted. Otherwise the message alone is dropped,
    /// for the link keeps the bounds of messages.
    #[must_use]
    pub fn cuts_link(&self) -> bool {
        matches!(
            self,
            LinkError::NotGreeted | LinkError::TooMuch | LinkError::Malformed(BackboneError::Version(_))
        )
    }
}

impl std::fmt::Display for LinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LinkError::Malformed(e) => e.fmt(f),
            LinkError::NotGreeted => f.write_str("the peer asks for something before it has said Hello"),
            LinkError::TooMuch => f.write_str("the peer asks for more images than are remembered for it"),
        }
    }
}

impl std::error::Error for LinkError {}

impl Distributor {
    /// A point-to-point server has connected.
    pub fn on_peer_connected(&mut self, peer: PeerId) {
        self.forget_rest(peer);
        self.forget_rest_unknown(peer);
        self.peers.insert(peer, Peer::default());
        self.counters.peers.set(self.peers.len() as u64);
    }

    /// A link is gone, and with it everything that was wanted over it.
    pub fn on_peer_closed(&mut self, now: Nanos, peer: PeerId, sink: &mut impl DistributorSink) {
        let Some(mut gone) = self.peers.remove(&peer) else { return };
        gone.flow.let_go(now, |notice| sink.peer_notice(peer, &gone.name, notice));
        self.close_privates(gone.privates.into_values().collect(), sink);
        self.forget_posts(peer);
        self.forget_all_unknown(peer);
        self.forget_peer(now, Departed { peer, items: gone.items, kept: gone.kept }, sink);
        self.counters.peers.set(self.peers.len() as u64);
        self.end_flow(now, gone.name, &gone.flow);
    }

    /// A message of a point-to-point server.
    ///
    /// # Errors
    /// The message is dropped, and the link has to be cut if [`LinkError::cuts_link`] says so.
    pub fn on_peer_message(
        &mut self,
        now: Nanos,
        peer: PeerId,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) -> Result<(), LinkError> {
        let result = self.peer_message(now, peer, bytes, sink);
        if result.is_err() {
            self.counters.link_messages_refused.inc();
        }
        result
    }

    fn peer_message(
        &mut self,
        now: Nanos,
        peer: PeerId,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) -> Result<(), LinkError> {
        let Some(known) = self.peers.get_mut(&peer) else { return Ok(()) };
        let msg = LinkUp::parse(bytes).map_err(|error| match error {
            BackboneError::Version(_) => LinkError::Malformed(error),
            _ if !known.is_greeted => LinkError::NotGreeted,
            _ => LinkError::Malformed(error),
        })?;
        if let LinkUp::Hello { name, .. } = msg {
            known.is_greeted = true;
            known.name = String::from_utf8_lossy(&name[..name.len().min(NAME_MAX)]).into_owned();
            self.resume_flow(now, peer, sink);
            let (instance, features) = (self.instance, Features::OURS);
            sink.to_peer(peer, &LinkDown::HelloAck { instance, features });
            return Ok(());
        }
        if !known.is_greeted {
            return Err(LinkError::NotGreeted);
        }
        if !self.keeps((peer, &msg), bytes, sink)? {
            self.act(now, peer, msg, sink);
        }
        Ok(())
    }

    /// Does what a message asks for.
    pub(super) fn act(&mut self, now: Nanos, peer: PeerId, msg: LinkUp<'_>, sink: &mut impl DistributorSink) {
        if self.cleanups.has_sweeps()
            && let Some(key) = msg.key()
        {
            self.settle_key(now, key, sink);
        }
        match msg {
            LinkUp::Hello { .. } => {}
            LinkUp::Interest { key } => self.on_interest(now, (peer, key), false, sink),
            LinkUp::Resume { key } => self.on_interest(now, (peer, key), true, sink),
            LinkUp::NoInterest { key } => self.on_no_interest(now, peer, key, sink),
            LinkUp::ImageRequest { key } => self.on_image_request(now, peer, key, sink),
            LinkUp::GapQuery { service, first, last } => self.on_gap_query(peer, service, first, last, sink),
            LinkUp::ClientMessage { conversation, key, message } => {
                self.on_client_message(now, (peer, conversation), key, message, sink);
            }
            LinkUp::PrivateRequest { service, conversation, request } => {
                self.on_private_request(now, (peer, conversation), service, request, sink);
            }
            LinkUp::PrivateMessage { conversation, message } => {
                self.on_private_message((peer, conversation), message, sink);
            }
            LinkUp::Progress { positions } => self.on_progress(now, peer, positions, sink),
        }
    }

    /// A peer wants an item; with `resumes` it has had it before, and waits however long it takes.
    fn on_interest(
        &mut self,
        now: Nanos,
        (peer, key): (PeerId, ItemKey<'_>),
        resumes: bool,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.interests.inc();
        if let Some(index) = self.find(key) {
            self.grant(now, index, peer, sink);
            return;
        }
        match self.listed(key.service) {
            None => {
                self.forget_unknown(peer, key);
                let text = "the service is not published here";
                tell(peer, key, CLOSED_RECOVER.because(StateCode::SOURCE_UNKNOWN, text), sink);
            }
            Some(service) if service.requested().is_some() => {
                self.on_new_interest(now, peer, key, sink);
            }
            Some(service) => {
                let settled_at = service.settled_at;
                self.on_unknown(now, (peer, key), (resumes, settled_at), sink);
            }
        }
    }

    /// Gives a peer interest in an item: the id first, for everybody, then the image, for this peer.
    pub(super) fn grant(&mut self, now: Nanos, index: usize, peer: PeerId, sink: &mut impl DistributorSink) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        known.items.insert(index);
        self.keep(index);
        let item = &mut self.items[index];
        if !item.cached.is_known() {
            if !item.waiting.contains(&peer) {
                item.waiting.push(peer);
            }
            if item.upstream.is_asked_for() {
                self.tell_awaited(index, peer, sink);
            } else {
                self.tell_unpublished(index, peer, sink);
            }
            return;
        }
        item.waiting.retain(|waiting| *waiting != peer);
        if !item.peers.contains(&peer) {
            item.peers.push(peer);
        }
        let Some(service) = self.services.get_mut(&item.key.service) else { return };
        let id = match item.id {
            Some(id) => id,
            // 2^32 − 1 items at once do not fit into memory, and released ids come back.
            None => service.stream.assign().expect("fewer items than ids"),
        };
        item.id = Some(id);
        let (kind, body) = StreamMsg::open(&item.key.as_key());
        service.stream.send(now, kind, id, &body, sink);
        self.counters.stream_messages_out.inc();
        self.send_image(index, peer, sink);
    }

    /// Sends the image of an item whose id the peer knows or learns from it.
    fn send_image(&mut self, index: usize, peer: PeerId, sink: &mut impl DistributorSink) {
        let item = &self.items[index];
        let (Some(service), Some(id)) = (self.services.get(&item.key.service), item.id) else { return };
        let (key, after) = (item.key.as_key(), service.stream.sequence());
        let form = RefreshForm { solicited: true, part_bytes: self.part_bytes };
        item.cached.encode_refresh(key, form, &mut self.scratch, |refresh| {
            self.counters.images_out.inc();
            sink.to_peer(peer, &LinkDown::Image { item: id, after, key, refresh });
        });
    }

    fn on_no_interest(
        &mut self,
        now: Nanos,
        peer: PeerId,
        key: ItemKey<'_>,
        sink: &mut impl DistributorSink,
    ) {
        if let Some(index) = self.find(key) {
            self.items[index].forget(peer);
            if let Some(known) = self.peers.get_mut(&peer) {
                known.items.remove(&index);
            }
            self.check_wanted(now, index, sink);
        }
        self.forget_unknown(peer, key);
    }

    fn on_image_request(
        &mut self,
        now: Nanos,
        peer: PeerId,
        key: ItemKey<'_>,
        sink: &mut impl DistributorSink,
    ) {
        match self.find(key) {
            Some(index) if self.items[index].peers.contains(&peer) && self.items[index].cached.is_known() => {
                self.send_image(index, peer, sink);
            }
            // Its interest is not registered (any more), or there is no image yet: the same as asking anew.
            _ => self.on_interest(now, (peer, key), false, sink),
        }
    }

    pub(super) fn on_gap_query(
        &mut self,
        peer: PeerId,
        service: u16,
        first: u64,
        last: u64,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.gap_queries.inc();
        let items = self.services.get(&service).and_then(|s| s.stream.items_between(first, last));
        if items.is_none() {
            self.counters.gap_queries_too_old.inc();
        }
        let known = items.is_some();
        let ids: Vec<u8> = items.into_iter().flatten().flat_map(u32::to_be_bytes).collect();
        sink.to_peer(peer, &LinkDown::GapAnswer { service, first, last, known, ids: &ids });
    }

    /// The names of the point-to-point servers that are linked, for status pages.
    pub fn peer_names(&self) -> impl Iterator<Item = &str> + '_ {
        self.peers.values().filter(|p| p.is_greeted).map(|p| &*p.name)
    }
}

pub(super) const CLOSED: State<'static> = State::new(StreamState::Closed, DataState::Suspect);
pub(super) const CLOSED_RECOVER: State<'static> = State::new(StreamState::ClosedRecover, DataState::Suspect);
/// The provider has had time to publish the item and has not.
pub(super) const NOT_FOUND: State<'static> =
    CLOSED.because(StateCode::NOT_FOUND, "the provider does not publish this item");
pub(super) const TABLE_FULL: State<'static> =
    CLOSED_RECOVER.because(StateCode::NO_RESOURCES, "the source distributor keeps no more items");
/// The image comes when the provider has published it.
pub(super) const WAITING: State<'static> =
    SUSPECT.because(StateCode::NONE, "waiting for the provider to publish the item");

/// Tells one peer the state of an item.
pub(super) fn tell(peer: PeerId, key: ItemKey<'_>, state: State<'_>, sink: &mut impl DistributorSink) {
    tell_bytes(peer, key, &status_bytes(key, state), sink);
}

/// Tells one peer that the image of an item is on its way, and takes its time: a status without a state.
pub(super) fn tell_asked(peer: PeerId, key: ItemKey<'_>, sink: &mut impl DistributorSink) {
    tell_bytes(peer, key, &status_without_state(key), sink);
}

/// Tells one peer what a status message says about an item.
pub(super) fn tell_bytes(peer: PeerId, key: ItemKey<'_>, status: &[u8], sink: &mut impl DistributorSink) {
    sink.to_peer(peer, &LinkDown::ItemStatus { key, status });
}
