//! LBT-RM: an address from which data goes out and to which NAKs come.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};

use lbt::resolution::{Origin, TransportSession};
use lbt::rm::{self, Multicast, SessionKey, Source};
use lbt::session::RunId;
use lbt::wire::lbtrm::SessionHeader;
use net::Interest;
use net::udp::{Sent, UdpSocket};
use net::xdp::XdpSocket;
use units::Nanos;

use super::binding::Binding;
use super::claim::Claim;
use super::networks::SecondPort;
use super::reliable::{Carrier, ReliableOutgoing, prepare};
use super::session::Opened;
use crate::base::{Base, Port};
use crate::error::ContextError;
use crate::event::SourceEvent;
use crate::keys::{NewKeys, draw_salt};
use crate::ports::{Ports, first_free};
use crate::statistics::Peer;
use crate::xdp::Xdp;

/// The sending side of an LBT-RM session.
pub(crate) type RmOutgoing = ReliableOutgoing<GroupPorts>;

/// Where a session on a group sends and is asked.
pub(crate) struct GroupPorts {
    port: RmPort,
    /// The same on the second network.
    second: Option<SecondPort>,
    group: SocketAddrV4,
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
        let run = is_fixed.then(|| RunId(base.rng.next_u64()));
        prepare(&mut session, base, run, base.keys.as_ref(), *local.ip());
        if let Some(keys) = &base.payload_keys.rm {
            session.encrypt(keys, *local.ip(), draw_salt()?);
        }
        let key = SessionKey { source: *local.ip(), session: header };
        let origin = base.second.as_ref().filter(|_| second.is_some());
        let origin = origin.map(|network| Origin { source: *local.ip(), context: network.instance });
        let session = RmOutgoing::new(session, GroupPorts { port, second, group });
        Ok(Opened { session, transport: TransportSession::LbtRm { key, group }, origin })
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

impl Carrier for GroupPorts {
    type Transport = Multicast;

    const HAS_CLIENTS: bool = false;

    #[inline]
    fn claimed(claim: rm::Claim<'_>) -> Claim<'_> {
        Claim::rm(claim)
    }

    #[inline]
    fn send_next(
        &mut self,
        session: &mut Source,
        base: &mut Base,
        now: Nanos,
    ) -> Option<(io::Result<Sent>, u32)> {
        let run = session.poll_transmit(now)?;
        let xdp = &mut base.xdp;
        let sent = match &mut self.second {
            None => self.port.send_run(self.group, run.bytes, run.segment_len, xdp),
            Some(second) => second.send_on_both(now, &self.port, self.group, &run, xdp),
        };
        Some((sent, run.count))
    }

    fn receive(&mut self, session: &mut Source, base: &mut Base, now: Nanos) -> bool {
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
                let _ = session.on_datagram(now, from, datagram);
            }
            worked |= !received.is_empty();
        }
        worked
    }

    fn is_at(&self, address: SocketAddrV4) -> bool {
        matches!(self.port, RmPort::Xdp(local) if local == address)
    }

    fn without_offload(&self) -> usize {
        let first = matches!(&self.port, RmPort::Sockets { data, .. } if !data.sends_runs());
        usize::from(first) + usize::from(self.second.as_ref().is_some_and(|second| !second.sends_runs()))
    }

    fn next_event(&mut self, session: &mut Source) -> Option<SourceEvent> {
        match session.poll_event()? {
            rm::SourceEvent::Crybaby { address, .. } | rm::SourceEvent::TooSlow { address } => {
                Some(SourceEvent::ReceiverTooSlow(SocketAddr::V4(address)))
            }
            _ => None,
        }
    }

    fn peers(session: &Source) -> Box<dyn Iterator<Item = Peer> + '_> {
        Box::new(session.askers().map(|asker| Peer {
            naks: asker.naks_rcved,
            shed: asker.shed,
            heard: Some(asker.heard),
            ..Peer::at(asker.address.into())
        }))
    }

    fn rekey(session: &mut Source, keys: &NewKeys<'_>) {
        match keys {
            NewKeys::Rm(keys) => session.rekey((*keys).clone()),
            NewKeys::RmPayloads(keys) => session.rekey_payloads(keys),
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
            Some(Kind::Rm(session)) => match &session.carrier().port {
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
