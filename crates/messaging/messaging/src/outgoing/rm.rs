//! LBT-RM: an address from which data goes out and to which NAKs come.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use lbt::presence::{Answer, Query};
use lbt::resolution::{Origin, TransportSession};
use lbt::rm::{self, SessionKey, Source};
use lbt::rm::{SendError, TopicId};
use lbt::session::RunId;
use lbt::session::Unsent;
use lbt::wire::lbmc::Chain;
use lbt::wire::lbtrm::SessionHeader;
use net::Interest;
use net::udp::{Sent, UdpSocket};
use net::xdp::XdpSocket;
use units::Nanos;
use units::Sqn;

use super::binding::Binding;
use super::claim::Claim;
use super::closing::Farewell;
use super::networks::SecondPort;
use super::session::{Opened, Session};
use crate::base::{Base, Port};
use crate::closing::Patience;
use crate::error::ContextError;
use crate::event::SourceEvent;
use crate::keys::{NewKeys, draw_salt};
use crate::ports::{Ports, first_free};
use crate::statistics::{Peer, SentStatistics};
use crate::xdp::Xdp;

/// The sending side of an LBT-RM session.
pub(crate) struct RmOutgoing {
    port: RmPort,
    /// The same on the second network.
    second: Option<SecondPort>,
    group: SocketAddrV4,
    pub(super) session: Source,
    /// The socket's buffer was full; no use to try before then.
    blocked_until: Nanos,
    /// What its end has come to.
    pub(super) farewell: Farewell,
}

/// Where a session's datagrams leave and its NAKs come in.
pub(super) enum RmPort {
    /// Of one address.
    Sockets { data: UdpSocket, naks: UdpSocket },
    /// A port of the context's AF_XDP socket.
    Xdp(SocketAddrV4),
}

impl RmPort {
    pub(super) fn send_run(
        &self,
        to: SocketAddrV4,
        bytes: &[u8],
        segment_len: usize,
        xdp: &mut Xdp,
    ) -> io::Result<Sent> {
        match self {
            RmPort::Sockets { data, .. } => data.send_run(to, bytes, segment_len),
            RmPort::Xdp(local) => match xdp.socket() {
                Some(socket) => socket.send_run(local.port(), to, bytes, segment_len),
                // Its datagrams are being handed on; this is tried again right after that.
                None => Ok(Sent::WouldBlock),
            },
        }
    }
}

/// How long to wait when a UDP socket takes nothing: about what it sends meanwhile.
pub(super) const BLOCKED_WAIT: Duration = Duration::from_micros(100);

impl RmOutgoing {
    /// Opens a session on a group.
    pub(super) fn open(
        base: &mut Base,
        ports: &mut Ports,
        at: usize,
        group: SocketAddrV4,
        Binding { low, high, session_id, is_fixed }: Binding,
    ) -> Result<Opened<RmOutgoing>, ContextError> {
        let now = base.now;
        let (options, second) = (base.multicast_options(), base.second_options());
        let (port, local, second) = match base.xdp.socket() {
            Some(xdp) => {
                let bound = bind_xdp(xdp, ports.of(low, high))?;
                ports.took(low, high, bound.port());
                base.xdp.sent.insert(bound, at);
                (RmPort::Xdp(bound), bound, None)
            }
            None => {
                let bind = |address: SocketAddrV4| {
                    let naks = UdpSocket::multicast_sender(address, options)?;
                    // What is said of the session on one network holds on the other: its port is the same.
                    let port = naks.local_address()?.port();
                    let on_second = |options| SecondPort::open(port, group, options, &base.counters.networks);
                    let second = second.map(on_second).transpose()?;
                    Ok((naks, second))
                };
                let (naks, second) = first_free(base.interface, ports.of(low, high), bind)?;
                ports.took(low, high, naks.local_address()?.port());
                let (local, data) = (naks.local_address()?, naks.lane(group, options)?);
                let token = base.token(Port::Outgoing, at);
                base.registrar.add(&naks, token, Interest::Read)?;
                if let Some(second) = &second {
                    base.registrar.add(second.naks(), token, Interest::Read)?;
                }
                (RmPort::Sockets { data, naks }, local, second)
            }
        };
        let header = SessionHeader {
            ucast_port: local.port(),
            session_id: session_id.unwrap_or_else(|| base.rng.next_u32().max(1)),
        };
        let mut session = Source::new(&base.config.source(), header, now, base.counters.source.clone())?;
        if let Some(keys) = &base.keys {
            session.authenticate(keys.clone(), *local.ip());
        }
        if is_fixed {
            session.set_run(RunId(base.rng.next_u64()));
        }
        if let Some(keys) = &base.payload_keys.rm {
            session.encrypt(keys, *local.ip(), draw_salt()?);
        }
        if base.config.transport_transmission_window_prefault {
            session.prefault();
        }
        let key = SessionKey { source: *local.ip(), session: header };
        let (blocked_until, farewell) = (Nanos::ZERO, Farewell::default());
        let origin = base.second.as_ref().filter(|_| second.is_some());
        let origin = origin.map(|network| Origin { source: *local.ip(), context: network.instance });
        let session = RmOutgoing { port, second, group, session, blocked_until, farewell };
        Ok(Opened { session, transport: TransportSession::LbtRm { key, group }, origin })
    }

    pub(super) fn next_event(&mut self) -> Option<SourceEvent> {
        match self.session.poll_event()? {
            rm::SourceEvent::Crybaby { address, .. } | rm::SourceEvent::TooSlow { address } => {
                Some(SourceEvent::ReceiverTooSlow(SocketAddr::V4(address)))
            }
            _ => None,
        }
    }

    /// Sends what there is to send until the rate limit or the socket has enough.
    fn send_due(&mut self, now: Nanos, Base { counters, xdp, .. }: &mut Base) {
        if now < self.blocked_until {
            return;
        }
        while let Some(run) = self.session.poll_transmit(now) {
            let sent = match &mut self.second {
                None => self.port.send_run(self.group, run.bytes, run.segment_len, xdp),
                Some(second) => second.send_on_both(now, &self.port, self.group, &run, xdp),
            };
            match sent {
                Ok(Sent::Datagrams(count)) => self.session.sent(now, count as u32),
                Ok(Sent::WouldBlock) => {
                    self.blocked_until = now + BLOCKED_WAIT;
                    return;
                }
                // No route, say. The datagrams count as sent and lost; NAKs bring them back when there is one
                // again.
                Err(_) => {
                    counters.context.sends_failed.inc();
                    let count = run.count;
                    self.session.sent(now, count);
                }
            }
        }
    }
}

/// Binds the first free port of a range.
fn bind_xdp(socket: &mut XdpSocket, ports: impl Iterator<Item = u16>) -> io::Result<SocketAddrV4> {
    let mut refused = io::Error::from(io::ErrorKind::AddrInUse);
    for port in ports {
        match socket.bind(port) {
            Ok(bound) => return Ok(bound),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => refused = e,
            Err(e) => return Err(e),
        }
    }
    Err(refused)
}

impl Session for RmOutgoing {
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
        self.session.claim(now, topic, len).map(Claim::rm)
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
        let of = |asker: rm::AskedBy| Peer {
            naks: asker.naks_rcved,
            shed: asker.shed,
            heard: Some(asker.heard),
            ..Peer::at(asker.address.into())
        };
        Box::new(self.session.askers().map(of).enumerate().skip(from))
    }

    fn peer_count(&self) -> usize {
        self.session.askers().count()
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
        self.send_due(now, base);
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
        let first = matches!(&self.port, RmPort::Sockets { data, .. } if !data.sends_runs());
        usize::from(first) + usize::from(self.second.as_ref().is_some_and(|second| !second.sends_runs()))
    }

    fn on_ready(&mut self, base: &mut Base, now: Nanos) -> bool {
        let Some(batch) = &mut base.batch else { return false };
        let mut worked = false;
        let first = if let RmPort::Sockets { naks, .. } = &self.port { Some(naks) } else { None };
        for naks in first.into_iter().chain(self.second.as_ref().map(SecondPort::naks)) {
            let Ok(received) = naks.receive(batch) else {
                base.counters.context.receives_failed.inc();
                continue;
            };
            for (from, datagram) in received.datagrams() {
                // What is not a NAK of this session is counted by the session.
                let _ = self.session.on_datagram(now, from, datagram);
            }
            worked |= !received.is_empty();
        }
        self.transmit(base, now);
        worked
    }

    fn ask_receivers(&mut self, query: &Query) -> bool {
        self.session.inquiry().ask(query.clone());
        true
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
        (self.session.unsent(), 0, self.session.owes_answers())
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
        self.farewell.note_behind(now, 0);
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

    /// A NAK has come to a port of the context's AF_XDP socket; false if that is not this session's.
    fn on_nak(&mut self, now: Nanos, from: SocketAddrV4, to: SocketAddrV4, datagram: &[u8]) -> bool {
        let is_ours = matches!(self.port, RmPort::Xdp(local) if local == to);
        if is_ours {
            // What is not a NAK of this session is counted by the session.
            let _ = self.session.on_datagram(now, from, datagram);
        }
        is_ours
    }

    fn rekey(&mut self, keys: &NewKeys<'_>) {
        match keys {
            NewKeys::Rm(keys) => self.session.rekey((*keys).clone()),
            NewKeys::RmPayloads(keys) => self.session.rekey_payloads(keys),
            NewKeys::Ru(_) | NewKeys::RuPayloads(_) => {}
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

    /// For data, and for NAKs.
    fn sockets(context: &Context) -> (&UdpSocket, &UdpSocket) {
        match context.publishing.sessions().get(0).map(|outgoing| &outgoing.kind) {
            Some(Kind::Rm(session)) => match &session.port {
                RmPort::Sockets { data, naks } => (data, naks),
                RmPort::Xdp(_) => panic!("nothing asks for it"),
            },
            _ => panic!("it was just opened"),
        }
    }

    #[test]
    fn a_broken_socket_for_naks_is_counted() {
        let (context, _) = sending(4, Transport::LbtRm);
        assert_broken_is_counted(context, |context| sockets(context).1, look_at_outgoing);
    }

    #[test]
    fn a_socket_to_which_offload_is_refused_is_counted_and_sends_all_the_same() {
        let (mut context, source) = sending(7, Transport::LbtRm);
        let run = |context: &mut Context| {
            let sent = context.base.counters.source.msgs_sent.get();
            for _ in 0..20 {
                context.send(source, &[&[7; 1_000]]).expect("there is room");
            }
            context.flush();
            context.on_wakeup(context.base.now, &mut ());
            assert!(context.base.counters.source.msgs_sent.get() >= sent + 20);
        };
        run(&mut context);
        assert_eq!(context.base.counters.context.sockets_without_offload.get(), 0);
        testkit::refuse_offload(sockets(&context).0).expect("it needs no rights");
        run(&mut context);
        assert_eq!(context.base.counters.context.sockets_without_offload.get(), 1);
        assert_eq!(context.base.counters.context.sends_failed.get(), 0);
    }
}
