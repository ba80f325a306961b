use counters::table::RsslConnections;
use counters::{Counter, Flow};
use units::Nanos;

use crate::active::Active;
use crate::carry::CarryOver;
use crate::session::{Handler, Negotiated};
use crate::{
    ApiMisuse, CloseReason, Disconnect, FrameError, HandshakeError, Outbound, PeerError, Refusal, Stop,
};

/// One side's part in the handshake: the messages it waits for and what follows from them.
pub trait Handshake {
    /// Length of the message that starts with these bytes.
    fn length_of(&self, start: [u8; 3]) -> Result<usize, PeerError>;

    /// A whole message has arrived. With the last one the connection becomes active.
    fn on_message<H: Handler + ?Sized>(
        &mut self,
        now: Nanos,
        message: &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Option<Active>, CloseReason>;

    /// What it means that the TCP connection ended now. `silent`: before the peer had sent a byte.
    fn on_disconnected(&self, cause: Disconnect, silent: bool) -> CloseReason;

    /// Heap memory in use.
    fn memory_bytes(&self) -> usize;
}

/// One end of a connection: a [`ServerConnection`](crate::ServerConnection) or a
/// [`ClientConnection`](crate::ClientConnection), which differ in their part of the handshake.
///
/// Inputs are [`on_bytes`](Self::on_bytes), [`on_wakeup`](Self::on_wakeup),
/// [`on_disconnected`](Self::on_disconnected) and [`stop`](Self::stop). After each, the driver sends what
/// [`Outbound::flush`] returns and sets its timer to [`next_wakeup`](Self::next_wakeup). After an `Err` it
/// sends what it can, closes the socket and drops the connection.
// Every end of a connection goes through `shut`, which counts it once and gives its memory back; what was
// written before stays pending.
#[derive(Debug)]
pub struct Connection<S: Handshake> {
    phase: Phase<S>,
    carry: CarryOver,
    outbound: Outbound,
    /// What has come in.
    flow: Flow,
}

#[derive(Debug)]
enum Phase<S> {
    Handshake { step: S, deadline: Nanos, limit_ms: u32 },
    Active(Box<Active>),
    Closed(CloseReason),
}

impl<S: Handshake> Connection<S> {
    pub(crate) fn begin(step: S, deadline: Nanos, limit_ms: u32, outbound: Outbound) -> Connection<S> {
        Connection {
            phase: Phase::Handshake { step, deadline, limit_ms },
            carry: CarryOver::default(),
            outbound,
            flow: Flow::default(),
        }
    }

    /// Takes what the socket had to read, in pieces of any size, and tells the handler what it brings. The
    /// bytes can be overwritten afterwards.
    ///
    /// # Errors
    /// Why the connection is over; the same again on every further call.
    pub fn on_bytes<H: Handler + ?Sized>(
        &mut self,
        now: Nanos,
        bytes: &[u8],
        handler: &mut H,
    ) -> Result<(), CloseReason> {
        if let Phase::Closed(reason) = self.phase {
            return Err(reason);
        }
        let result = self.read(now, bytes, handler);
        self.flow.bytes += bytes.len() as u64;
        let carried = self.carry.take_carried_bytes();
        let counters = self.outbound.counters();
        counters.bytes_in.add(bytes.len() as u64);
        counters.bytes_carried_in.add(carried);
        result.map_err(|reason| self.shut(reason))
    }

    /// The peer has shown that it lives though nothing is read from it for now: its pings may wait in the socket.
    pub fn on_sign_of_life(&mut self, now: Nanos) {
        if let Phase::Active(active) = &mut self.phase {
            active.on_sign_of_life(now);
        }
    }

    /// Looks after pings and time-outs. Read the socket first when both are due: what waits there counts as
    /// heard.
    ///
    /// # Errors
    /// Why the connection is over.
    pub fn on_wakeup(&mut self, now: Nanos) -> Result<(), CloseReason> {
        let result = match &mut self.phase {
            Phase::Handshake { deadline, limit_ms, .. } if now >= *deadline => {
                Err(PeerError::HandshakeTimeout { limit_ms: *limit_ms }.into())
            }
            Phase::Handshake { .. } => Ok(()),
            Phase::Active(active) => active.on_wakeup(now, &mut self.carry, &mut self.outbound),
            Phase::Closed(reason) => Err(*reason),
        };
        result.map_err(|reason| self.shut(reason))
    }

    /// The TCP connection has ended.
    pub fn on_disconnected(&mut self, cause: Disconnect) -> CloseReason {
        let reason = match &self.phase {
            Phase::Handshake { step, .. } => step.on_disconnected(cause, self.carry.is_empty()),
            Phase::Active(_) => CloseReason::Disconnected(cause),
            Phase::Closed(reason) => *reason,
        };
        self.shut(reason)
    }

    /// Ends the connection by this side's wish. What was pushed before is still pending.
    pub fn stop(&mut self, stop: Stop) -> CloseReason {
        self.shut(stop.into())
    }

    /// When [`on_wakeup`](Self::on_wakeup) is due; [`Nanos::NEVER`] after the end. It changes in calls of
    /// `on_wakeup` and with the end of the handshake, not with each message.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        match &self.phase {
            Phase::Handshake { deadline, .. } => *deadline,
            Phase::Active(active) => active.wake_at(),
            Phase::Closed(_) => Nanos::NEVER,
        }
    }

    /// The way out.
    #[must_use]
    pub fn outbound(&mut self) -> &mut Outbound {
        &mut self.outbound
    }

    /// What has come in; what has gone out is [`Outbound::flow`].
    #[must_use]
    pub fn flow_in(&self) -> Flow {
        self.flow
    }

    /// What was agreed, from the end of the handshake to the end of the connection.
    #[must_use]
    pub fn negotiated(&self) -> Option<&Negotiated> {
        match &self.phase {
            Phase::Active(active) => Some(active.negotiated()),
            Phase::Handshake { .. } | Phase::Closed(_) => None,
        }
    }

    /// Why the connection is over, if it is.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self.phase {
            Phase::Closed(reason) => Some(reason),
            Phase::Handshake { .. } | Phase::Active(_) => None,
        }
    }

    /// Memory this connection uses, heap and its own size.
    ///
    /// Never above [`Limits::memory_bytes_max`](crate::Limits::memory_bytes_max). An idle connection is back
    /// below 1 KiB after two thirds of its ping timeout.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let phase = match &self.phase {
            Phase::Handshake { step, .. } => step.memory_bytes(),
            Phase::Active(active) => size_of::<Active>() + active.memory_bytes(),
            Phase::Closed(_) => 0,
        };
        size_of::<Self>() + phase + self.carry.memory_bytes() + self.outbound.memory_bytes()
    }

    fn read<H: Handler + ?Sized>(
        &mut self,
        now: Nanos,
        mut bytes: &[u8],
        handler: &mut H,
    ) -> Result<(), CloseReason> {
        loop {
            match &mut self.phase {
                Phase::Active(active) => {
                    let (flow, result) =
                        active.on_bytes(now, bytes, &mut self.carry, &mut self.outbound, handler);
                    self.flow += flow;
                    return result;
                }
                Phase::Closed(reason) => return Err(*reason),
                Phase::Handshake { step, .. } => {
                    let Some(message) = self.carry.next(&mut bytes, |start| step.length_of(start))? else {
                        return Ok(());
                    };
                    if let Some(active) = step.on_message(now, message, &mut self.outbound, handler)? {
                        self.phase = Phase::Active(Box::new(active));
                        self.outbound.counters().active.add(1);
                    }
                }
            }
        }
    }

    /// Ends the connection unless it is over already, and tells why it is over.
    fn shut(&mut self, reason: CloseReason) -> CloseReason {
        if let Phase::Closed(first) = self.phase {
            return first;
        }
        let counters = self.outbound.counters();
        close_counter(&reason, counters).inc();
        self.leave_active();
        self.phase = Phase::Closed(reason);
        self.carry = CarryOver::default();
        self.outbound.deactivate();
        reason
    }

    fn leave_active(&self) {
        if let Phase::Active(_) = self.phase {
            let active = &self.outbound.counters().active;
            active.set(active.get().wrapping_sub(1));
        }
    }
}

impl<S: Handshake> Drop for Connection<S> {
    fn drop(&mut self) {
        if self.close_reason().is_none() {
            self.outbound.counters().closed_dropped.inc();
            self.leave_active();
        }
    }
}

/// The one counter of a reason.
fn close_counter<'a>(reason: &CloseReason, counters: &'a RsslConnections) -> &'a Counter {
    match reason {
        CloseReason::Peer(PeerError::Handshake(error)) => handshake_counter(error, counters),
        CloseReason::Peer(PeerError::Frame(error)) => frame_counter(error, counters),
        CloseReason::Peer(PeerError::HandshakeTimeout { .. }) => &counters.closed_handshake_timeout,
        CloseReason::Peer(PeerError::Silent { .. }) => &counters.closed_silent,
        CloseReason::Disconnected(Disconnect::EndOfStream) => &counters.closed_disconnected,
        CloseReason::Disconnected(Disconnect::SocketError) => &counters.closed_socket_error,
        CloseReason::Unanswered { .. } => &counters.closed_unanswered,
        CloseReason::Refused(Refusal::ProtocolType(_)) => &counters.closed_refused_protocol,
        CloseReason::Refused(Refusal::Application) => &counters.closed_refused_application,
        CloseReason::Nak => &counters.closed_nak,
        CloseReason::Stopped(Stop::Application) => &counters.closed_application,
        CloseReason::Stopped(Stop::SlowConsumer { .. }) => &counters.closed_slow_consumer,
        CloseReason::Stopped(Stop::Misuse(
            ApiMisuse::EmptyMessage
            | ApiMisuse::MessageTooLong { .. }
            | ApiMisuse::NotConnected
            | ApiMisuse::Overtaking { .. },
        )) => &counters.closed_misuse,
    }
}

fn handshake_counter<'a>(error: &HandshakeError, counters: &'a RsslConnections) -> &'a Counter {
    match error {
        HandshakeError::Http => &counters.closed_http,
        HandshakeError::Length { .. } | HandshakeError::Parts { .. } => &counters.closed_handshake_length,
        HandshakeError::Flags { .. } => &counters.closed_handshake_flags,
        HandshakeError::Field { .. } => &counters.closed_handshake_field,
        HandshakeError::UnknownVersion { .. } => &counters.closed_unknown_version,
        HandshakeError::AckVersion { .. } => &counters.closed_ack_version,
        HandshakeError::AckMessageSize { .. } => &counters.closed_ack_message_size,
        HandshakeError::AckPingTimeout => &counters.closed_ack_ping_timeout,
        HandshakeError::AckCompression { .. } => &counters.closed_ack_compression,
        HandshakeError::KeyLength { .. } | HandshakeError::KeyModulus => &counters.closed_key_exchange,
    }
}

fn frame_counter<'a>(error: &FrameError, counters: &'a RsslConnections) -> &'a Counter {
    match error {
        FrameError::Length { .. } => &counters.closed_frame_length,
        FrameError::Flags { .. } => &counters.closed_frame_flags,
        FrameError::Compressed { .. } => &counters.closed_compressed_frame,
        FrameError::Corrupt { .. } => &counters.closed_corrupt_payload,
        FrameError::Oversized { .. } => &counters.closed_oversized_payload,
        FrameError::Continuation { .. } => &counters.closed_continuation,
        FrameError::Empty { .. } => &counters.closed_empty_frame,
        FrameError::PackedLength { .. } => &counters.closed_packed_length,
        FrameError::FragmentHeader { .. } => &counters.closed_fragment_header,
        FrameError::FragmentTotal { .. } => &counters.closed_fragment_total,
        FrameError::FragmentOverrun { .. } => &counters.closed_fragment_overrun,
        FrameError::FragmentCount { .. } => &counters.closed_fragment_count,
        FrameError::FragmentBytes { .. } => &counters.closed_fragment_bytes,
    }
}
