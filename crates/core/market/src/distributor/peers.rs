//! What point-to-point servers want of this instance.

use rwf::StateCode;
use units::Nanos;

use super::Distributor;
use super::base::PeerId;
use super::errors::LinkError;
use super::peer::Peer;
use super::sink::DistributorSink;
use super::status::{CLOSED_RECOVER, report, report_asked};
use super::sweep::Departed;
use crate::backbone::{BackboneError, Features, LinkDown, LinkUp};
use crate::key::ItemKey;

/// The most bytes of a server's name that are kept: names stand in logs.
const NAME_MAX: usize = 255;

impl Distributor {
    /// A point-to-point server has connected.
    pub fn on_peer_connected(&mut self, peer: PeerId) {
        self.items.forget_rest(peer);
        self.items.unknown.forget_rest(peer);
        self.items.links.peers.insert(peer, Peer::default());
        self.counters.peers.set(self.items.links.peers.len() as u64);
    }

    /// A link is gone, and with it everything that was wanted over it.
    pub fn on_peer_closed(&mut self, now: Nanos, peer: PeerId, sink: &mut impl DistributorSink) {
        let Some(mut gone) = self.items.links.peers.remove(&peer) else { return };
        gone.flow.let_go(now, |notice| sink.peer_notice(peer, &gone.name, notice));
        self.privates.close_privates(&mut self.items, gone.privates.into_values().collect(), sink);
        self.posts.forget_posts(&mut self.items, peer);
        self.items.unknown.forget_all(peer);
        self.items.forget_peer(now, Departed { peer, items: gone.items, kept: gone.kept }, sink);
        self.counters.peers.set(self.items.links.peers.len() as u64);
        self.items.links.end_flow(now, gone.name, &gone.flow, &self.items.suppliers);
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
        let Some(known) = self.items.links.peers.get_mut(&peer) else { return Ok(()) };
        let msg = LinkUp::parse(bytes).map_err(|error| match error {
            BackboneError::Version(_) => LinkError::Malformed(error),
            _ if !known.is_greeted => LinkError::NotGreeted,
            _ => LinkError::Malformed(error),
        })?;
        if let LinkUp::Hello { name, .. } = msg {
            known.is_greeted = true;
            known.name = String::from_utf8_lossy(&name[..name.len().min(NAME_MAX)]).into_owned();
            self.items.links.resume_flow(now, peer, sink);
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
        if self.items.cleanups.has_sweeps()
            && let Some(key) = msg.key()
        {
            self.items.settle_key(now, key, sink);
        }
        match msg {
            LinkUp::Hello { .. } => {}
            LinkUp::Interest { key } => self.on_interest(now, (peer, key), false, sink),
            LinkUp::Resume { key } => self.on_interest(now, (peer, key), true, sink),
            LinkUp::NoInterest { key } => self.on_no_interest(now, peer, key, sink),
            LinkUp::ImageRequest { key } => self.on_image_request(now, peer, key, sink),
            LinkUp::GapQuery { service, first, last } => self.on_gap_query(peer, service, first, last, sink),
            LinkUp::ClientMessage { conversation, key, message } => {
                self.posts.on_client_message(&mut self.items, now, (peer, conversation), key, message, sink);
            }
            LinkUp::PrivateRequest { service, conversation, request } => {
                self.privates.on_private_request(
                    &mut self.items,
                    now,
                    (peer, conversation),
                    service,
                    request,
                    sink,
                );
            }
            LinkUp::PrivateMessage { conversation, message } => {
                self.privates.on_private_message(&mut self.items, (peer, conversation), message, sink);
            }
            LinkUp::Progress { positions } => {
                self.items.links.on_progress(now, (peer, positions), &self.items.suppliers, sink)
            }
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
        if let Some(index) = self.items.find(key) {
            if !self.items.awaits_more_than_saved((index, peer), resumes, sink) {
                self.items.grant(now, index, peer, sink);
            }
            return;
        }
        match self.items.suppliers.listed(key.service) {
            None => {
                self.items.unknown.forget(peer, key);
                let text = "the service is not published here";
                report(peer, key, CLOSED_RECOVER.because(StateCode::SOURCE_UNKNOWN, text), sink);
            }
            Some(service) if service.requested().is_some() => {
                self.items.on_new_interest(now, peer, key, sink);
            }
            Some(service) => {
                let settled_at = service.settled_at;
                self.items.on_unknown(now, (peer, key), (resumes, settled_at), sink);
            }
        }
    }

    fn on_no_interest(
        &mut self,
        now: Nanos,
        peer: PeerId,
        key: ItemKey<'_>,
        sink: &mut impl DistributorSink,
    ) {
        if let Some(index) = self.items.find(key) {
            self.items.table[index].forget(peer);
            if let Some(known) = self.items.links.peers.get_mut(&peer) {
                known.items.remove(index);
            }
            self.items.check_wanted(now, index, sink);
        }
        self.items.unknown.forget(peer, key);
    }

    fn on_image_request(
        &mut self,
        now: Nanos,
        peer: PeerId,
        key: ItemKey<'_>,
        sink: &mut impl DistributorSink,
    ) {
        match self.items.find(key) {
            Some(index)
                if self.items.table[index].peers.contains(&peer)
                    && self.items.table[index].cached.is_known() =>
            {
                self.items.send_image(now, index, peer, sink);
                let item = &self.items.table[index];
                if item.cached.is_away() {
                    // Its state is said by the stream, to all.
                    report_asked(peer, item.key.as_key(), sink);
                }
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
        let items =
            self.items.suppliers.services.get(&service).and_then(|s| s.stream.items_between(first, last));
        if items.is_none() {
            self.counters.gap_queries_too_old.inc();
        }
        let known = items.is_some();
        let ids: Vec<u8> = items.into_iter().flatten().flat_map(u32::to_be_bytes).collect();
        sink.to_peer(peer, &LinkDown::GapAnswer { service, first, last, known, ids: &ids });
    }
}
