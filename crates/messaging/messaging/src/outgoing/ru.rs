//! LBT-RU: datagrams to each client from one address, to which their answers come.

use config::Ipv4Cidr;
use counters::table::MessagingContext;
use lbt::resolution::TransportSession;
use lbt::ru::{self, ClientEvent, Source, Unicast};
use lbt::session::RunId;
use net::udp::{MulticastOptions, ReceiveBatch, Sent, UdpSocket};
use net::{Interest, Registrar, Token};
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use units::Nanos;

use super::binding::Binding;
use super::claim::Claim;
use super::reliable::{Carrier, ReliableOutgoing, prepare};
use super::session::Opened;
use crate::base::{Base, Port, show};
use crate::config::admits;
use crate::error::ContextError;
use crate::event::SourceEvent;
use crate::keys::{NewKeys, draw_salt};
use crate::ports::{Ports, first_free};
use crate::statistics::Peer;

/// The sending side of an LBT-RU session.
pub(crate) type RuOutgoing = ReliableOutgoing<ClientSockets>;

/// Where a session sends to its clients and hears them.
pub(crate) struct ClientSockets {
    socket: UdpSocket,
    /// Sockets of the same address for clients of their own.
    lanes: Vec<(SocketAddrV4, UdpSocket)>,
    lane_options: MulticastOptions,
    registrar: Registrar,
    token: Token,
    /// The poller knows of the lanes.
    is_watched: bool,
    /// Networks of receivers; all if there are none.
    allowed: Vec<Ipv4Cidr>,
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
        prepare(&mut session, base, run, base.ru_keys.as_ref(), *address.ip());
        if let Some(keys) = &base.payload_keys.ru {
            session.encrypt(keys, address, draw_salt()?);
        }
        let token = base.token(Port::Outgoing, at);
        base.registrar.add(&socket, token, Interest::Read)?;
        let sockets = ClientSockets {
            socket,
            lanes: Vec::new(),
            lane_options: options,
            registrar: base.registrar.clone(),
            token,
            is_watched: base.watches_data,
            allowed: base.config.lbtru.allowed_networks.clone(),
        };
        let transport = TransportSession::LbtRu { address, session_id: Some(session_id) };
        let session = RuOutgoing::new(session, sockets);
        Ok(Opened { session, transport, origin: None })
    }
}

impl ClientSockets {
    fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        std::iter::once(&self.socket).chain(self.lanes.iter().map(|(_, lane)| lane))
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
}

impl Carrier for ClientSockets {
    type Transport = Unicast;

    const HAS_CLIENTS: bool = true;

    #[inline]
    fn claimed(claim: ru::Claim<'_>) -> Claim<'_> {
        Claim::ru(claim)
    }

    #[inline]
    fn send_next(
        &mut self,
        session: &mut Source,
        _: &mut Base,
        now: Nanos,
    ) -> Option<(io::Result<Sent>, u32)> {
        let next = session.poll_transmit(now)?;
        let (&to, run) = (next.to.first()?, next.run);
        let lane = self.lanes.iter().find(|(client, _)| *client == to);
        let socket = lane.map_or(&self.socket, |(_, lane)| lane);
        Some((socket.send_run(to, run.bytes, run.segment_len), run.count))
    }

    fn receive(&mut self, session: &mut Source, base: &mut Base, now: Nanos) -> bool {
        let Some(batch) = &mut base.batch else { return false };
        let mut worked = false;
        for socket in self.sockets() {
            worked |= take(session, socket, &self.allowed, now, batch, &base.counters.context);
        }
        worked
    }

    fn receive_unwatched(&mut self, session: &mut Source, base: &mut Base, now: Nanos) -> bool {
        let Some(batch) = &mut base.batch else { return false };
        let mut worked = false;
        if self.is_watched {
            return worked;
        }
        for (_, lane) in &self.lanes {
            worked |= take(session, lane, &self.allowed, now, batch, &base.counters.context);
        }
        worked
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

    fn without_offload(&self) -> usize {
        self.sockets().filter(|socket| !socket.sends_runs()).count()
    }

    fn next_event(&mut self, session: &mut Source) -> Option<SourceEvent> {
        Some(match session.poll_event()? {
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

    fn peers(session: &Source) -> Box<dyn Iterator<Item = Peer> + '_> {
        Box::new(session.clients().map(|client| Peer {
            naks: client.naks_rcved,
            retransmissions: client.rxs_sent,
            heard: Some(client.heard),
            ..Peer::at(client.address.into())
        }))
    }

    fn clients(session: &Source) -> usize {
        session.clients().count()
    }

    fn clients_behind(session: &Source) -> usize {
        session.clients_behind()
    }

    fn rekey(session: &mut Source, keys: &NewKeys<'_>) {
        match keys {
            NewKeys::Ru(keys) => session.rekey((*keys).clone()),
            NewKeys::RuPayloads(keys) => session.rekey_payloads(keys),
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
            Some(Kind::Ru(session)) => &session.carrier().socket,
            _ => panic!("it was just opened"),
        }
    }

    #[test]
    fn a_broken_socket_of_a_session_is_counted() {
        let (context, _) = sending(5, Transport::LbtRu);
        assert_broken_is_counted(context, socket, look_at_outgoing);
    }
}
