//! LBT-RM and LBT-RU: what a session does that sends datagrams, whatever sockets they leave by.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use lbt::authentication::Keys;
use lbt::presence::{Answer, Query};
use lbt::rm::{SendError, TopicId};
use lbt::session::{self, RunId, Source, SourceTransport, Unsent};
use lbt::wire::lbmc::Chain;
use net::udp::Sent;
use units::{Nanos, Sqn};

use super::claim::Claim;
use super::closing::Farewell;
use super::session::Session;
use crate::base::Base;
use crate::closing::Patience;
use crate::event::SourceEvent;
use crate::keys::NewKeys;
use crate::statistics::{Peer, SentStatistics};

/// The sending side of a session, and the sockets that it sends by.
pub(crate) struct ReliableOutgoing<C: Carrier> {
    session: Source<C::Transport>,
    carrier: C,
    /// The socket's buffer was full; no use to try before then.
    blocked_until: Nanos,
    /// What its end has come to.
    farewell: Farewell,
}

/// How long to wait when a UDP socket takes nothing: about what it sends meanwhile.
const BLOCKED_WAIT: Duration = Duration::from_micros(100);

/// The sockets of a session, and what receivers are to it.
pub(crate) trait Carrier {
    /// What the transport adds to a source.
    type Transport: SourceTransport;
    /// Whether it has clients, which are given up when they are silent.
    const HAS_CLIENTS: bool;

    /// Room for a message, as the application gets it.
    fn claimed(claim: session::Claim<'_, Self::Transport>) -> Claim<'_>;
    /// Sends what is next, if anything is; returns what became of it, and how many datagrams it is.
    fn send_next(
        &mut self,
        session: &mut Source<Self::Transport>,
        base: &mut Base,
        now: Nanos,
    ) -> Option<(io::Result<Sent>, u32)>;
    /// Gives the session what has come to its sockets; whether anything has.
    fn receive(&mut self, session: &mut Source<Self::Transport>, base: &mut Base, now: Nanos) -> bool;
    /// The same for sockets that the poller does not watch.
    fn receive_unwatched(&mut self, _: &mut Source<Self::Transport>, _: &mut Base, _: Nanos) -> bool {
        false
    }
    /// Shows sockets to the poller that it may not know of yet.
    fn watch(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Whether datagrams that come to a port of the AF_XDP socket are the session's.
    fn is_at(&self, _: SocketAddrV4) -> bool {
        false
    }
    /// Sockets to which the kernel refuses to cut runs.
    fn without_offload(&self) -> usize;
    /// What has happened to the session since the last time.
    fn next_event(&mut self, session: &mut Source<Self::Transport>) -> Option<SourceEvent>;
    /// The receivers it knows.
    fn peers(session: &Source<Self::Transport>) -> Box<dyn Iterator<Item = Peer> + '_>;
    /// Receivers that will say that they have heard of everything.
    fn clients(_: &Source<Self::Transport>) -> usize {
        0
    }
    /// Those of them that have not said so.
    fn clients_behind(_: &Source<Self::Transport>) -> usize {
        0
    }
    /// Keys are other ones from now on.
    fn rekey(session: &mut Source<Self::Transport>, keys: &NewKeys<'_>);
}

impl<C: Carrier> ReliableOutgoing<C> {
    pub(super) fn new(session: Source<C::Transport>, carrier: C) -> ReliableOutgoing<C> {
        ReliableOutgoing { session, carrier, blocked_until: Nanos::ZERO, farewell: Farewell::default() }
    }

    /// The sockets.
    #[cfg(test)]
    pub(super) fn carrier(&self) -> &C {
        &self.carrier
    }

    /// Clients that are known, and have not said that they have heard of everything of a session that has ended.
    fn behind(&self) -> usize {
        let is_told = self.session.has_ended() && self.session.has_spoken();
        if is_told { C::clients_behind(&self.session) } else { 0 }
    }
}

/// Makes a new session what the configuration wants of it: in which run it is, whether it is signed, whether its memory
/// is there at once.
pub(super) fn prepare<T: SourceTransport>(
    session: &mut Source<T>,
    base: &Base,
    run: Option<RunId>,
    keys: Option<&Keys>,
    address: Ipv4Addr,
) {
    if let Some(run) = run {
        session.set_run(run);
    }
    if let Some(keys) = keys {
        session.authenticate(keys.clone(), address);
    }
    if base.config.transport_transmission_window_prefault {
        session.prefault();
    }
}

impl<C: Carrier> Session for ReliableOutgoing<C> {
    fn add_topic(&mut self, now: Nanos, index: u32, first: Sqn) -> TopicId {
        self.session.add_topic_at(now, index, first)
    }

    fn remove_topic(&mut self, topic: TopicId) {
        self.session.remove_topic(topic);
    }

    fn next_sqn(&self, topic: TopicId) -> Option<Sqn> {
        self.session.next_sqn(topic)
    }

    #[inline]
    fn send(&mut self, now: Nanos, topic: TopicId, parts: &[&[u8]]) -> Result<Sqn, SendError> {
        self.session.send(now, topic, parts)
    }

    fn send_with(
        &mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        self.session.send_with(now, topic, headers, parts)
    }

    #[inline]
    fn claim(&mut self, now: Nanos, topic: TopicId, len: usize) -> Result<Claim<'_>, SendError> {
        self.session.claim(now, topic, len).map(C::claimed)
    }

    fn claim_max(&self) -> usize {
        self.session.claim_max()
    }

    fn hold(&mut self, is_held: bool) {
        self.session.hold(is_held);
    }

    fn is_of_datagrams(&self) -> bool {
        true
    }

    fn keep_written(&mut self) -> Sqn {
        self.session.next_datagram()
    }

    fn written(&mut self, from: &mut Sqn, each: impl FnMut(&[u8])) {
        self.session.written(from, each);
    }

    fn peers(&self, from: usize) -> Box<dyn Iterator<Item = (usize, Peer)> + '_> {
        Box::new(C::peers(&self.session).enumerate().skip(from))
    }

    fn peer_count(&self) -> usize {
        C::peers(&self.session).count()
    }

    fn sent(&self) -> (u64, Option<SentStatistics>) {
        let totals = self.session.sent_totals();
        (totals.bytes, Some(totals.into()))
    }

    fn is_blocked(&self) -> bool {
        self.session.is_blocked()
    }

    fn next_wakeup(&self) -> Nanos {
        self.session.next_wakeup().max(self.blocked_until)
    }

    /// Sends what there is to send until the rate limit or the socket has enough.
    fn transmit(&mut self, base: &mut Base, now: Nanos) {
        if now < self.blocked_until {
            return;
        }
        while let Some((sent, count)) = self.carrier.send_next(&mut self.session, base, now) {
            match sent {
                Ok(Sent::Datagrams(count)) => {
                    self.session.sent(now, count as u32);
                    if self.session.is_idle(now) {
                        return;
                    }
                }
                Ok(Sent::WouldBlock) => {
                    self.blocked_until = now + BLOCKED_WAIT;
                    return;
                }
                // No route, say. The datagrams count as sent and lost; NAKs bring them back when there is one
                // again.
                Err(_) => {
                    base.counters.context.sends_failed.inc();
                    self.session.sent(now, count);
                }
            }
        }
    }

    #[inline]
    fn flush(&mut self, base: &mut Base, now: Nanos) {
        self.session.flush();
        self.transmit(base, now);
    }

    fn end(&mut self, base: &mut Base, now: Nanos) {
        self.session.end(now);
        self.transmit(base, now);
    }

    fn on_wakeup(&mut self, base: &mut Base, now: Nanos) {
        self.session.on_wakeup(now);
        self.transmit(base, now);
    }

    fn without_offload(&self) -> usize {
        self.carrier.without_offload()
    }

    fn on_ready(&mut self, base: &mut Base, now: Nanos) -> bool {
        if base.batch.is_none() {
            return false;
        }
        let worked = self.carrier.receive(&mut self.session, base, now);
        self.transmit(base, now);
        worked
    }

    fn has_unwatched(&self) -> bool {
        C::HAS_CLIENTS
    }

    fn poll_unwatched(&mut self, base: &mut Base, now: Nanos) -> bool {
        self.carrier.receive_unwatched(&mut self.session, base, now)
    }

    fn on_nak(&mut self, now: Nanos, from: SocketAddrV4, to: SocketAddrV4, datagram: &[u8]) -> bool {
        let is_ours = self.carrier.is_at(to);
        if is_ours {
            // What is not a NAK of this session is counted by the session.
            let _ = self.session.on_datagram(now, from, datagram);
        }
        is_ours
    }

    fn ask_receivers(&mut self, query: &Query) -> bool {
        let is_heard = !C::HAS_CLIENTS || C::peers(&self.session).next().is_some();
        if is_heard {
            self.session.inquiry().ask(query.clone());
        }
        is_heard
    }

    fn take_answers(&mut self, mut each: impl FnMut(Answer, Option<SocketAddr>)) {
        while let Some((from, answer)) = self.session.inquiry().poll() {
            each(answer, Some(from.into()));
        }
    }

    fn take_events(&mut self, _: &mut Base) -> Vec<SourceEvent> {
        std::iter::from_fn(|| self.carrier.next_event(&mut self.session)).collect()
    }

    fn left(&self) -> (Unsent, u32, bool) {
        let unsent = self.session.unsent();
        let receivers = if unsent.bytes > 0 { C::clients(&self.session) } else { self.behind() };
        (unsent, receivers as u32, self.session.owes_answers())
    }

    fn settle(&mut self, base: &mut Base, now: Nanos, patience: &Patience) -> bool {
        self.on_wakeup(base, now);
        if !self.session.has_spoken() {
            return true;
        }
        if !self.session.has_ended() {
            return false;
        }
        if self.farewell.begin(now) {
            self.session.hurry(now, patience.remind);
        }
        self.farewell.note_behind(now, self.behind());
        !self.session.owes_answers() && self.farewell.is_over(now, self.session.last_asked(), patience)
    }

    fn bid_farewell(&mut self, base: &mut Base, now: Nanos) -> bool {
        if self.farewell.gives_up_again() {
            self.session.repeat_end();
        } else if self.session.has_ended() {
            return false;
        } else {
            self.session.abandon(now);
        }
        self.farewell.count();
        self.blocked_until = Nanos::ZERO;
        let has_spoken = self.session.has_spoken();
        self.transmit(base, now);
        has_spoken
    }

    fn after_pause(&mut self, now: Nanos) -> bool {
        self.session.after_pause(now);
        C::HAS_CLIENTS
    }

    fn watch(&mut self) -> io::Result<()> {
        self.carrier.watch()
    }

    fn rekey(&mut self, keys: &NewKeys<'_>) {
        C::rekey(&mut self.session, keys);
    }
}
