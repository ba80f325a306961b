//! LBT-RU: one socket for everything, datagrams to each client.

use counters::table::MessagingContext;
use lbt::resolution::TransportSession;
use lbt::ru::{ClientEvent, Source};
use net::Interest;
use net::udp::{ReceiveBatch, Sent, UdpSocket};
use std::net::SocketAddr;
use units::Nanos;

use super::rm::BLOCKED_WAIT;
use super::{Binding, Outgoing, OutgoingKind, Place};
use crate::context::{Context, Port, first_free};
use crate::error::ContextError;
use crate::event::SourceEvent;

/// The sending side of an LBT-RU session.
pub(crate) struct RuOutgoing {
    socket: UdpSocket,
    pub(super) session: Source,
    /// The socket's buffer was full; no use to try before then.
    blocked_until: Nanos,
}

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
        self.registrar.add(&socket, self.token(Port::Outgoing, at), Interest::Read)?;
        let kind = OutgoingKind::Ru(Box::new(RuOutgoing { socket, session, blocked_until: Nanos::ZERO }));
        let transport = TransportSession::LbtRu { address, session_id: Some(session_id) };
        Ok(Outgoing::new(Place::Ru, transport, kind, index))
    }
}

impl RuOutgoing {
    /// Requests, signs of life or NAKs have arrived.
    pub(super) fn on_ready(&mut self, now: Nanos, batch: &mut ReceiveBatch, counters: &MessagingContext) {
        if let Ok(received) = self.socket.receive(batch) {
            for (from, datagram) in received.datagrams() {
                // What is not for this session is counted by the session.
                let _ = self.session.on_datagram(now, from, datagram);
            }
        }
        self.transmit(now, counters);
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
            ClientEvent::Connected(address) => SourceEvent::ReceiverConnected(SocketAddr::V4(address)),
            ClientEvent::TimedOut(address) => SourceEvent::ReceiverDisconnected(SocketAddr::V4(address)),
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
            match self.socket.send_run(to, run.bytes, run.segment_len) {
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
