//! LBT-RU: datagrams to each client from one address, to which their answers come.

use config::Ipv4Cidr;
use counters::table::MessagingContext;
use lbt::presence::{Answer, Query};
use lbt::resolution::TransportSession;
use lbt::rm::{SendError, TopicId};
use lbt::ru::{self, ClientEvent, Source};
use lbt::session::RunId;
use lbt::session::Unsent;
use lbt::wire::lbmc::Chain;
use net::udp::{MulticastOptions, ReceiveBatch, Sent, UdpSocket};
use net::{Interest, Registrar, Token};
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use units::Nanos;
use units::Sqn;

use super::binding::Binding;
use super::claim::Claim;
use super::closing::Farewell;
use super::rm::BLOCKED_WAIT;
use super::session::{Opened, Session};
use crate::base::{Base, Port, show};
use crate::closing::Patience;
use crate::config::admits;
use crate::error::ContextError;
use crate::event::SourceEvent;
use crate::keys::{NewKeys, draw_salt};
use crate::ports::{Ports, first_free};
use crate::statistics::{Peer, SentStatistics};

/// The sending side of an LBT-RU session.
pub(crate) struct RuOutgoing {
    socket: UdpSocket,
    /// Sockets of the same address for clients of their own.
    lanes: Vec<(SocketAddrV4, UdpSocket)>,
    lane_options: MulticastOptions,
    registrar: Registrar,
    token: Token,
    /// The poller knows of the lanes.
    is_watched: bool,
    pub(super) session: Source,
    /// Networks of receivers; all if there are none.
    allowed: Vec<Ipv4Cidr>,
    /// The socket's buffer was full; no use to try before then.
    blocked_until: Nanos,
    /// What its end has come to.
    pub(super) farewell: Farewell,
}

/// So many clients have a socket of their own, which is faster to send to. Others share one.
const LANES_MAX: usize = 8;

/// Gives a session what has come to one of its sockets; whether anything has.
fn take(
    session: &mut Source,
    socket: &UdpSocket,
    allowed: &[Ipv4Cidr],
    now: Nanos,
    batch: &mut ReceiveBatch,
    counters: &MessagingContext,
) -> bool {
    let Ok(received) = socket.receive(batch) else {
        counters.receives_failed.inc();
        return false;
    };
    for (from, datagram) in received.datagrams() {
        if !admits(allowed, *from.ip()) {
            counters.clients_not_allowed.inc();
            continue;
        }
        // What is not for this session is counted by the session.
        let _ = session.on_datagram(now, from, datagram);
    }
    !received.is_empty()
}

impl RuOutgoing {
    /// Receivers that are known, and have not said that they have heard of everything of a session that has ended.
    fn behind(&self) -> usize {
        let is_told = self.session.has_ended() && self.session.has_spoken();
        if is_told { self.session.clients_behind() } else { 0 }
    }

    /// Opens a session at a port of its own.
    pub(super) fn open(
        base: &mut Base,
        ports: &mut Ports,
        at: usize,
        Binding { low, high, session_id, is_fixed }: Binding,
    ) -> Result<Opened<RuOutgoing>, ContextError> {
        let options = base.multicast_options();
        let free = ports.of(low, high);
        let socket = first_free(base.interface, free, |a| UdpSocket::multicast_sender(a, options))?;
        let address = socket.local_address()?;
        ports.took(low, high, address.port());
        let run = is_fixed.then(|| RunId(base.rng.next_u64()));
        let session_id = session_id.unwrap_or_else(|| base.rng.next_u32().max(1));
        let seed = base.rng.next_u64();
        let mut session = Source::new(
            &base.config.lbtru_source(),
            session_id,
            seed,
            base.now,
            base.counters.ru_source.clone(),
        )?;
        if let Some(run) = run {
            session.set_run(run);
        }
        if base.config.transport_transmission_window_prefault {
            session.prefault();
        }
        if let Some(keys) = &base.ru_keys {
            session.authenticate(keys.clone(), *address.ip());
        }
        if let Some(keys) = &base.payload_keys.ru {
            session.encrypt(keys, address, draw_salt()?);
        }
        let token = base.token(Port::Outgoing, at);
        base.registrar.add(&socket, token, Interest::Read)?;
        let session = RuOutgoing {
            socket,
            lanes: Vec::new(),
            lane_options: options,
            registrar: base.registrar.clone(),
            token,
            is_watched: base.watches_data,
            session,
            allowed: base.config.lbtru.allowed_networks.clone(),
            blocked_until: Nanos::ZERO,
            farewell: Farewell::default(),
        };
        let transport = TransportSession::LbtRu { address, session_id: Some(session_id) };
        Ok(Opened { session, transport, origin: None })
    }

    /// A lane is only a faster way: without one its client is reached as the others are.
    fn open_lane(&mut self, client: SocketAddrV4) {
        if self.lanes.len() < LANES_MAX
            && let Ok(lane) = self.socket.lane(client, self.lane_options)
            && (!self.is_watched || self.registrar.add(&lane, self.token, Interest::Read).is_ok())
        {
            self.lanes.push((client, lane));
        }
    }

    fn close_lane(&mut self, client: SocketAddrV4) {
        if let Some(at) = self.lanes.iter().position(|(address, _)| *address == client) {
            // Closing the descriptor takes it out of the poller as well.
            drop(self.registrar.remove(&self.lanes.swap_remove(at).1));
        }
    }

    pub(super) fn next_event(&mut self) -> Option<SourceEvent> {
        Some(match self.session.poll_event()? {
            ClientEvent::Connected(address) => {
                self.close_lane(address);
                self.open_lane(address);
                SourceEvent::ReceiverConnected(SocketAddr::V4(address))
            }
            ClientEvent::TimedOut(address) => {
                self.close_lane(address);
                SourceEvent::ReceiverDisconnected(SocketAddr::V4(address))
            }
            ClientEvent::TooSlow(address) => SourceEvent::ReceiverTooSlow(SocketAddr::V4(address)),
        })
    }

    /// Sends what there is to send until the rate limit or the socket has enough.
    fn send_due(&mut self, now: Nanos, counters: &MessagingContext) {
        if now < self.blocked_until {
            return;
        }
        while let Some(next) = self.session.poll_transmit(now) {
            let Some(&to) = next.to.first() else { return };
            let run = next.run;
            let lane = self.lanes.iter().find(|(client, _)| *client == to);
            let socket = lane.map_or(&self.socket, |(_, lane)| lane);
            match socket.send_run(to, run.bytes, run.segment_len) {
                Ok(Sent::Datagrams(count)) => self.session.sent(now, count as u32),
                Ok(Sent::WouldBlock) => {
                    self.blocked_until = now + BLOCKED_WAIT;
                    return;
                }
                // The datagrams count as sent and lost.
                Err(_) => {
                    counters.sends_failed.inc();
                    let count = run.count;
                    self.session.sent(now, count);
                }
            }
        }
    }
}

impl Session for RuOutgoing {
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
        self.session.claim(now, topic, len).map(Claim::ru)
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
        let of = |client: &ru::Client| Peer {
            naks: client.naks_rcved,
            retransmissions: client.rxs_sent,
            heard: Some(client.heard),
            ..Peer::at(client.address.into())
        };
        Box::new(self.session.clients().map(of).enumerate().skip(from))
    }

    fn peer_count(&self) -> usize {
        self.session.clients().count()
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

    fn transmit(&mut self, base: &mut Base, now: Nanos) {
        self.send_due(now, &base.counters.context);
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

    /// Sockets to which the kernel refuses to cut runs.
    fn without_offload(&self) -> usize {
        let all = std::iter::once(&self.socket).chain(self.lanes.iter().map(|(_, lane)| lane));
        all.filter(|socket| !socket.sends_runs()).count()
    }

    fn on_ready(&mut self, base: &mut Base, now: Nanos) -> bool {
        let Some(batch) = &mut base.batch else { return false };
        let mut worked = false;
        for socket in std::iter::once(&self.socket).chain(self.lanes.iter().map(|(_, lane)| lane)) {
            worked |= take(&mut self.session, socket, &self.allowed, now, batch, &base.counters.context);
        }
        self.transmit(base, now);
        worked
    }

    fn has_unwatched(&self) -> bool {
        true
    }

    fn poll_unwatched(&mut self, base: &mut Base, now: Nanos) -> bool {
        let Some(batch) = &mut base.batch else { return false };
        let mut worked = false;
        if self.is_watched {
            return worked;
        }
        for (_, lane) in &self.lanes {
            worked |= take(&mut self.session, lane, &self.allowed, now, batch, &base.counters.context);
        }
        worked
    }

    fn ask_receivers(&mut self, query: &Query) -> bool {
        let is_heard = self.session.clients().next().is_some();
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
        std::iter::from_fn(|| self.next_event()).collect()
    }

    fn left(&self) -> (Unsent, u32, bool) {
        let unsent = self.session.unsent();
        let receivers = if unsent.bytes > 0 { self.session.clients().count() } else { self.behind() };
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
        true
    }

    /// Shows the lanes to the poller, for good.
    fn watch(&mut self) -> io::Result<()> {
        if self.is_watched {
            return Ok(());
        }
        self.lanes.iter().try_for_each(|(_, lane)| show(&self.registrar, lane, self.token))?;
        self.is_watched = true;
        Ok(())
    }

    fn rekey(&mut self, keys: &NewKeys<'_>) {
        match keys {
            NewKeys::Ru(keys) => self.session.rekey((*keys).clone()),
            NewKeys::RuPayloads(keys) => self.session.rekey_payloads(keys),
            NewKeys::Rm(_) | NewKeys::RmPayloads(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;
    use crate::Context;
    use crate::Transport;
    use crate::context::tests::{assert_broken_is_counted, look_at_outgoing, sending};

    fn socket(context: &Context) -> &UdpSocket {
        match context.publishing.sessions().get(0).map(|outgoing| &outgoing.kind) {
            Some(Kind::Ru(session)) => &session.socket,
            _ => panic!("it was just opened"),
        }
    }

    #[test]
    fn a_broken_socket_of_a_session_is_counted() {
        let (context, _) = sending(5, Transport::LbtRu);
        assert_broken_is_counted(context, socket, look_at_outgoing);
    }
}
