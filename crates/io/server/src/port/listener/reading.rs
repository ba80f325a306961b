//! What connections bring: read, handed to the service, and held while that is busy.

use net::tcp::Moved;
use net::{Ready, Transport};
use units::Nanos;

use super::Listener;
use crate::ConnectionId;
use crate::port::protocol::{ConnectionToService, Endpoint, PortEvent, Protocol, ReasonOf, Service};

impl<P: Protocol> Listener<P> {
    /// Stops or resumes reading from all connections: back-pressure towards those who send.
    pub fn pause(&mut self, now: Nanos, is_paused: bool, service: &mut impl Service<P>) {
        if self.is_paused == is_paused {
            return;
        }
        self.is_paused = is_paused;
        for index in 0..self.connections.end() {
            if self.connections.get(index).is_some() {
                self.update_interest(now, index, service);
            }
        }
    }

    pub(super) fn on_connection_ready(
        &mut self,
        now: Nanos,
        index: usize,
        ready: Ready,
        service: &mut impl Service<P>,
    ) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if ready.writable
            && let Err(reason) = connection.write_backlog(now)
        {
            self.close(now, index, &reason, service);
            return;
        }
        if connection.is_held && ready.readable {
            // Nothing is waited for but room to write: the peer is gone.
            let reason = connection.broken();
            return self.close(now, index, &reason, service);
        }
        if ready.readable
            && let Err(reason) = self.read(now, index, service)
        {
            self.close(now, index, &reason, service);
            return;
        }
        self.update_interest(now, index, service);
    }

    /// Reads from the socket once, and what an encrypted connection holds beyond that.
    fn read(&mut self, now: Nanos, index: usize, service: &mut impl Service<P>) -> Result<(), ReasonOf<P>> {
        loop {
            self.read_once(now, index, service)?;
            let connection = &self.connections[index];
            if connection.is_held || !connection.transport.may_hold_input() {
                return Ok(());
            }
        }
    }

    fn read_once(
        &mut self,
        now: Nanos,
        index: usize,
        service: &mut impl Service<P>,
    ) -> Result<(), ReasonOf<P>> {
        let connection = &mut self.connections[index];
        let was_handshaking = connection.transport.is_handshaking();
        let moved = connection.transport.read(&mut self.read_buffer);
        if was_handshaking && !connection.transport.is_handshaking() {
            self.counters.tls_handshakes.inc();
        }
        let count = match moved {
            Ok(Moved::Bytes(count)) => count,
            Ok(Moved::WouldBlock) => return Ok(()),
            Ok(Moved::End) => return Err(connection.ended()),
            Err(error) => {
                if was_handshaking {
                    service.on_port_event(PortEvent::TlsRefused { peer: connection.peer, error: &error });
                }
                return Err(connection.broken());
            }
        };
        let input = std::mem::take(&mut self.read_buffer);
        let taken = self.hand_over(now, index, &input[..count], service);
        self.read_buffer = input;
        let connection = &mut self.connections[index];
        // The answer to a handshake, and the nak to one that is refused.
        let written = connection.write_backlog(now);
        let taken = taken?;
        written?;
        if taken < count {
            connection.is_held = true;
            connection.held_input.extend_from_slice(&self.read_buffer[taken..count]);
        }
        Ok(())
    }

    /// Hands what a connection brings to its end of the protocol, until the service is busy with it; returns how
    /// much that was.
    fn hand_over<S: Service<P>>(
        &mut self,
        now: Nanos,
        index: usize,
        input: &[u8],
        service: &mut S,
    ) -> Result<usize, ReasonOf<P>> {
        let is_full = self.admission.is_full();
        let id = ConnectionId(index as u32);
        let connection = &mut self.connections[index];
        let mut taken = 0;
        while taken < input.len() && (connection.is_unwanted || !service.is_busy(id)) {
            let end = input.len().min(taken.saturating_add(S::SLICE_BYTES));
            let mut to_service = ConnectionToService {
                id,
                peer: connection.peer,
                now,
                is_full,
                is_encrypted: matches!(connection.transport, Transport::Tls(_)),
                is_announced: &mut connection.is_announced,
                is_unwanted: &mut connection.is_unwanted,
                outbox: &mut self.outbox,
                service,
            };
            let was_announced = *to_service.is_announced;
            let result =
                self.protocol.on_bytes(now, &mut connection.endpoint, &input[taken..end], &mut to_service);
            if connection.is_announced && !was_announced {
                connection.login_until = now + self.limits.login_timeout;
            }
            result?;
            taken = end;
        }
        if service.is_busy(id) {
            connection.is_held = true;
        }
        Ok(taken)
    }

    /// The service is no longer busy with a connection: what was read from it meanwhile is handled, and more is
    /// read.
    pub fn resume(&mut self, now: Nanos, id: ConnectionId, service: &mut impl Service<P>) {
        let index = id.0 as usize;
        let Some(connection) = self.connections.get_mut(index) else { return };
        if !std::mem::take(&mut connection.is_held) {
            return;
        }
        let mut input = std::mem::take(&mut connection.held_input);
        let mut result = self.hand_over(now, index, &input, service);
        if let Ok(taken @ 1..) = result {
            input.drain(..taken);
        }
        let connection = &mut self.connections[index];
        connection.held_input = input;
        // An encrypted connection may hold input of which the poller knows nothing.
        if result.is_ok() && !connection.is_held && connection.transport.may_hold_input() {
            result = self.read(now, index, service).map(|()| 0);
        }
        match result {
            Ok(_) => self.update_interest(now, index, service),
            Err(reason) => self.close(now, index, &reason, service),
        }
    }

    /// Connections with which the service was busy and that keep up again, since the last call.
    pub fn take_roomy(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.roomy)
    }

    /// Whether a connection takes what it is sent about as fast as it comes; also if there is none.
    pub fn keeps_up(&mut self, id: ConnectionId) -> bool {
        self.connections
            .get_mut(id.0 as usize)
            .is_none_or(|connection| connection.endpoint.backlog().keeps_up())
    }
}
