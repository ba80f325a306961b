//! LBT-RU: datagrams to each client from one address, to which their answers come.

use counters::table::MessagingContext;
use lbt::resolution::TransportSession;
use lbt::ru::{ClientEvent, Source};
use net::udp::{MulticastOptions, ReceiveBatch, Sent, UdpSocket};
use net::{Interest, Registrar, Token};
use std::net::{SocketAddr, SocketAddrV4};
use units::Nanos;

use super::rm::BLOCKED_WAIT;
use super::{Binding, Outgoing, OutgoingKind, Place};
use crate::context::{Context, Port, first_free};
use crate::error::ContextError;
use crate::event::SourceEvent;

/// The sending side of an LBT-RU session.
pub(crate) struct RuOutgoing {
    socket: UdpSocket,
    /// Sockets of the same address for clients of their own.
    lanes: Vec<(SocketAddrV4, UdpSocket)>,
    lane_options: MulticastOptions,
    registrar: Registrar,
    token: Token,
    pub(super) session: Source,
    /// The socket's buffer was full; no use to try before then.
    blocked_until: Nanos,
}

/// So many clients have a socket of their own, which is faster to send to. Others share one.
const LANES_MAX: usize = 8;

impl Context {
    pub(super) fn open_ru_outgoing(
        &mut self,
        at: usize,
        index: u32,
        Binding { low, high, session_id }: Binding,
    ) -> Result<Outgoing, ContextError> {
        let options = self.multicast_options();
        let socket = first_free(self.interface, low, high, |a| UdpSocket::multicast_sender(a, options))?;
        let address = socket.local_address()?;
        let session_id = session_id.unwrap_or_else(|| self.rng.next_u32().max(1));
        let seed = self.rng.next_u64();
        let mut session = Source::new(
            &self.config.lbtru_source(),
            session_id,
            seed,
            self.now,
            self.counters.ru_source.clone(),
        )?;
        session.prefault();
        if let Some(keys) = &self.ru_keys {
            session.authenticate(keys.clone(), *address.ip());
        }
        let token = self.token(Port::Outgoing, at);
        self.registrar.add(&socket, token, Interest::Read)?;
        let kind = OutgoingKind::Ru(Box::new(RuOutgoing {
            socket,
            lanes: Vec::new(),
            lane_options: options,
            registrar: self.registrar.clone(),
            token,
            session,
            blocked_until: Nanos::ZERO,
        }));
        let transport = TransportSession::LbtRu { address, session_id: Some(session_id) };
        Ok(Outgoing::new(Place::Ru, transport, kind, index))
    }
}

impl RuOutgoing {
    /// Requests, signs of life or NAKs have arrived.
    pub(super) fn on_ready(&mut self, now: Nanos, batch: &mut ReceiveBatch, counters: &MessagingContext) {
        for socket in std::iter::once(&self.socket).chain(self.lanes.iter().map(|(_, lane)| lane)) {
            let Ok(received) = socket.receive(batch) else { continue };
            for (from, datagram) in received.datagrams() {
                // What is not for this session is counted by the session.
                let _ = self.session.on_datagram(now, from, datagram);
            }
        }
        self.transmit(now, counters);
    }

    /// A lane is only a faster way: without one its client is reached as the others are.
    fn open_lane(&mut self, client: SocketAddrV4) {
        if self.lanes.len() < LANES_MAX
            && let Ok(lane) = self.socket.lane(client, self.lane_options)
            && self.registrar.add(&lane, self.token, Interest::Read).is_ok()
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

    pub(super) fn on_wakeup(&mut self, now: Nanos, counters: &MessagingContext) {
        self.session.on_wakeup(now);
        self.transmit(now, counters);
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
