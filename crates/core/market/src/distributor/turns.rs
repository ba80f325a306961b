//! What links ask for and is not served at once: each takes its turn, as its link takes images.
//!
//! A request of some bytes is answered with an image of up to megabytes. A server that begins asks for hundreds, and
//! if all were answered at once they would have to wait in memory, more than a link may have waiting. So a request
//! for an image is kept when the front end has no room for the link ([`DistributorSink::has_room`]), and so is the
//! image of an item that a server waits for when its provider publishes it. Questions about lost ranges go before
//! images, and are answered in portions too: each may concern a million messages. What else a link says is never
//! kept: that an item is not wanted any more takes back what is kept of it.

use std::collections::VecDeque;

use units::Nanos;

use super::Distributor;
use super::base::PeerId;
use super::errors::LinkError;
use super::kept::Next;
use super::sink::DistributorSink;
use crate::backbone::LinkUp;

/// Questions about no more numbers than this need not wait while there is room.
const NUMBERS_AT_ONCE: u64 = 4_096;

/// For the front end.
impl Distributor {
    /// Serves links that wait, one after the other, as far as there is room.
    pub fn serve_peers(&mut self, now: Nanos, sink: &mut impl DistributorSink) {
        let (mut served, mut numbers) = (VecDeque::new(), self.config.gap_numbers_per_turn);
        for _ in 0..self.items.links.row.len() {
            let Some(peer) = self.items.links.row.pop_front() else { break };
            let mut count = 0;
            while self.items.links.has_kept(peer)
                && sink.has_room(peer)
                && self.serve_next(now, peer, &mut numbers, sink)
            {
                count += 1;
            }
            match self.items.links.peers.get_mut(&peer).map(|known| &mut known.kept) {
                None => {}
                Some(kept) if kept.is_empty() => kept.leave_row(),
                // Who was not served keeps its place before those who were.
                Some(_) if count == 0 => self.items.links.row.push_back(peer),
                Some(_) => served.push_back(peer),
            }
        }
        self.items.links.row.append(&mut served);
        self.counters.peers_waiting.set(self.items.links.row.len() as u64);
    }
}

impl Distributor {
    /// Serves the next of what is kept; false if all of it has to wait for another turn.
    fn serve_next(
        &mut self,
        now: Nanos,
        peer: PeerId,
        numbers: &mut u64,
        sink: &mut impl DistributorSink,
    ) -> bool {
        let Some(kept) = self.items.links.peers.get_mut(&peer).map(|known| &mut known.kept) else {
            return false;
        };
        if *numbers > 0
            && let Some((service, first, last)) = kept.next_question()
        {
            *numbers = numbers.saturating_sub(self.items.suppliers.numbers_of(service, first, last));
            self.on_gap_query(peer, service, first, last, sink);
            return true;
        }
        match kept.next() {
            None => return false,
            Some(Next::Dropped) => {}
            Some(Next::Image(index)) => self.items.grant_awaited(now, index, peer, sink),
            Some(Next::Request(request)) => {
                if let Ok(msg) = LinkUp::parse(&request) {
                    self.act(now, peer, msg, sink);
                }
            }
        }
        true
    }

    /// A question is kept if it is not its turn. Returns whether it was.
    fn keeps_question(
        &mut self,
        peer: PeerId,
        (service, first, last): (u16, u64, u64),
        sink: &mut impl DistributorSink,
    ) -> Result<bool, LinkError> {
        let is_small = self.items.suppliers.numbers_of(service, first, last) <= NUMBERS_AT_ONCE;
        let Some(kept) = self.items.links.peers.get_mut(&peer).map(|known| &mut known.kept) else {
            return Ok(false);
        };
        if kept.has_no_questions() && is_small && sink.has_room(peer) {
            return Ok(false);
        }
        kept.keep_question((service, first, last), self.config.link_requests_bytes_max)?;
        self.counters.gap_queries_deferred.inc();
        self.items.links.put_in_row(peer);
        Ok(true)
    }

    /// A message that asks for an image is kept if it is not its turn. Returns whether it was.
    ///
    /// # Errors
    /// Too many are kept already.
    pub(super) fn keeps(
        &mut self,
        (peer, msg): (PeerId, &LinkUp<'_>),
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) -> Result<bool, LinkError> {
        let key = match msg {
            LinkUp::Interest { key } | LinkUp::Resume { key } | LinkUp::ImageRequest { key } => *key,
            LinkUp::NoInterest { key } => {
                if let Some(known) = self.items.links.peers.get_mut(&peer) {
                    known.kept.forget(*key);
                }
                return Ok(false);
            }
            &LinkUp::GapQuery { service, first, last } => {
                return self.keeps_question(peer, (service, first, last), sink);
            }
            _ => return Ok(false),
        };
        let Some(kept) = self.items.links.peers.get_mut(&peer).map(|known| &mut known.kept) else {
            return Ok(false);
        };
        if kept.has_no_requests() && sink.has_room(peer) {
            return Ok(false);
        }
        self.counters.image_requests_deferred.inc();
        if kept.keep_request(key, bytes, self.config.link_requests_bytes_max)? {
            self.items.links.put_in_row(peer);
        }
        Ok(true)
    }
}
