//! LBT-RU: datagrams to each client from one address, to which their answers come.

use config::Ipv4Cidr;
use counters::table::MessagingContext;
use lbt::authentication::Keys;
use lbt::encryption::PayloadKeys;
use lbt::resolution::TransportSession;
use lbt::ru::{ClientEvent, Source};
use lbt::session::RunId;
use net::udp::{MulticastOptions, ReceiveBatch, Sent, UdpSocket};
use net::{Interest, Registrar, Token};
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use units::Nanos;

use super::closing::Farewell;
use super::rm::BLOCKED_WAIT;
use super::{Binding, Outgoing, OutgoingKind};
use crate::Handler;
use crate::base::Base;
use crate::base::show;
use crate::base::{Port, first_free};
use crate::config::admits;
use crate::error::ContextError;
use crate::event::SourceEvent;
use crate::keys::draw_salt;
use crate::publishing::Publishing;

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

impl Publishing {
    pub(super) fn open_ru_outgoing(
        &mut self,
        base: &mut Base,
        at: usize,
        index: u32,
        Binding { low, high, session_id, is_fixed }: Binding,
    ) -> Result<Outgoing, ContextError> {
        let options = base.multicast_options();
        let ports = self.ports.of(low, high);
        let socket = first_free(base.interface, ports, |a| UdpSocket::multicast_sender(a, options))?;
        let address = socket.local_address()?;
        self.ports.took(low, high, address.port());
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
        let kind = OutgoingKind::Ru(Box::new(RuOutgoing {
            socket,
            lanes: Vec::new(),
            lane_options: options,
            registrar: base.registrar.clone(),
            token,
            is_watched: base.watches_data,
            session,
            allowed: base.config.transport_lbtru_allowed_networks.clone(),
            blocked_until: Nanos::ZERO,
            farewell: Farewell::default(),
        }));
        let transport = TransportSession::LbtRu { address, session_id: Some(session_id) };
        Ok(Outgoing::new(transport, kind, index))
    }

    /// Looks at the sockets of LBT-RU sessions that the poller does not watch.
    pub(crate) fn look_at_lanes(&mut self, base: &mut Base, now: Nanos, handler: &mut impl Handler) {
        for place in 0..self.with_lanes.len() {
            let at = self.with_lanes[place];
            if let Some(OutgoingKind::Ru(session)) = self.outgoing.get_mut(at).map(|o| &mut o.kind)
                && let Some(batch) = &mut base.batch
                && session.poll_lanes(now, batch, &base.counters.context)
            {
                self.on_outgoing_ready(base, now, at, handler);
            }
        }
    }
}

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
    /// Goes on with other keys, if packets are signed.
    pub(crate) fn rekey(&mut self, keys: Keys) {
        self.session.rekey(keys);
    }

    /// The same, if messages are encrypted.
    pub(crate) fn rekey_payloads(&mut self, keys: &PayloadKeys) {
        self.session.rekey_payloads(keys);
    }

    /// Requests, signs of life or NAKs have arrived; false if nothing has.
    pub(super) fn on_ready(
        &mut self,
        now: Nanos,
        batch: &mut ReceiveBatch,
        counters: &MessagingContext,
    ) -> bool {
        let mut worked = false;
        for socket in std::iter::once(&self.socket).chain(self.lanes.iter().map(|(_, lane)| lane)) {
            worked |= take(&mut self.session, socket, &self.allowed, now, batch, counters);
        }
        self.transmit(now, counters);
        worked
    }

    /// This process was stopped: what clients have sent meanwhile is taken.
    pub(crate) fn after_pause(&mut self, now: Nanos) {
        self.session.after_pause(now);
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

    /// Shows the lanes to the poller, for good.
    pub(crate) fn watch(&mut self) -> io::Result<()> {
        if self.is_watched {
            return Ok(());
        }
        self.lanes.iter().try_for_each(|(_, lane)| show(&self.registrar, lane, self.token))?;
        self.is_watched = true;
        Ok(())
    }

    /// Takes what has come to lanes that the poller does not watch; whether anything has.
    fn poll_lanes(&mut self, now: Nanos, batch: &mut ReceiveBatch, counters: &MessagingContext) -> bool {
        let mut worked = false;
        if self.is_watched {
            return worked;
        }
        for (_, lane) in &self.lanes {
            worked |= take(&mut self.session, lane, &self.allowed, now, batch, counters);
        }
        worked
    }

    fn close_lane(&mut self, client: SocketAddrV4) {
        if let Some(at) = self.lanes.iter().position(|(address, _)| *address == client) {
            // Closing the descriptor takes it out of the poller as well.
            drop(self.registrar.remove(&self.lanes.swap_remove(at).1));
        }
    }

    pub(super) fn on_wakeup(&mut self, now: Nanos, counters: &MessagingContext) {
        self.session.on_wakeup(now);
        self.transmit(now, counters);
    }

    /// Sockets to which the kernel refuses to cut runs.
    pub(super) fn without_offload(&self) -> usize {
        let all = std::iter::once(&self.socket).chain(self.lanes.iter().map(|(_, lane)| lane));
        all.filter(|socket| !socket.sends_runs()).count()
    }

    pub(super) fn next_wakeup(&self) -> Nanos {
        self.session.next_wakeup().max(self.blocked_until)
    }

    #[inline]
    pub(super) fn flush(&mut self, now: Nanos, counters: &MessagingContext) {
        self.session.flush();
        self.transmit(now, counters);
    }

    pub(super) fn end(&mut self, now: Nanos, counters: &MessagingContext) {
        self.session.end(now);
        self.transmit(now, counters);
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

    /// The socket is tried again at once.
    pub(super) fn unblock(&mut self) {
        self.blocked_until = Nanos::ZERO;
    }

    /// Sends what there is to send until the rate limit or the socket has enough.
    pub(super) fn transmit(&mut self, now: Nanos, counters: &MessagingContext) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::Transport;
    use crate::context::tests::{assert_broken_is_counted, look_at_outgoing, sending};

    fn socket(context: &Context) -> &UdpSocket {
        match context.publishing.outgoing.get(0).map(|outgoing| &outgoing.kind) {
            Some(OutgoingKind::Ru(session)) => &session.socket,
            _ => panic!("it was just opened"),
        }
    }

    #[test]
    fn a_broken_socket_of_a_session_is_counted() {
        let (context, _) = sending(5, Transport::LbtRu);
        assert_broken_is_counted(context, socket, look_at_outgoing);
    }
}
