use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use connection::{Machine, Memory, Opened, Reads, Tick, Wire};
use counters::table::RsslConnections;
use counters::{Counter, Flow};
use units::Nanos;

use crate::active::Active;
use crate::carry::CarryOver;
use crate::session::{Handler, Negotiated};
use crate::{
    ApiMisuse, CloseReason, CompressionType, Disconnect, FrameError, HandshakeError, Outbound, PeerError,
    Refusal, Stop,
};

/// One side's part in the handshake: the messages it waits for and what follows from them.
pub trait Handshake: Memory + Debug {
    /// Length of the message that starts with these bytes.
    fn length_of(&self, start: [u8; 3]) -> Result<usize, PeerError>;

    /// A whole message has arrived. With the last one the connection becomes active.
    fn on_message<H: Handler + ?Sized>(
        &mut self,
        message: &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Option<Opened<Active>>, CloseReason>;

    /// What it means that the TCP connection ended now. `silent`: before the peer had sent a byte.
    fn on_disconnected(&self, cause: Disconnect, silent: bool) -> CloseReason;
}

/// One end of a connection: a [`ServerConnection`](crate::ServerConnection) or a
/// [`ClientConnection`](crate::ClientConnection), which differ in their part of the handshake.
///
/// Inputs and outputs are those of every [`Machine`], which it derefs to. What waits for the socket is what
/// [`Outbound::flush`] returns. Memory never exceeds
/// [`Limits::memory_bytes_max`](crate::Limits::memory_bytes_max); an idle connection is back below 1 KiB after
/// two thirds of its ping timeout.
#[derive(Debug)]
pub struct Connection<S: Handshake>(Machine<Rssl<S>>);

impl<S: Handshake> Connection<S> {
    pub(crate) fn begin(
        now: Nanos,
        step: S,
        handshake_timeout: Duration,
        outbound: Outbound,
    ) -> Connection<S> {
        let wire = Rssl { carry: CarryOver::default(), side: PhantomData };
        Connection(Machine::new(now, wire, step, handshake_timeout, outbound))
    }

    /// What was agreed, from the end of the handshake to the end of the connection.
    #[must_use]
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.opened().map(Active::negotiated)
    }
}

impl<S: Handshake> Deref for Connection<S> {
    type Target = Machine<Rssl<S>>;

    #[inline]
    fn deref(&self) -> &Machine<Rssl<S>> {
        &self.0
    }
}

impl<S: Handshake> DerefMut for Connection<S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Machine<Rssl<S>> {
        &mut self.0
    }
}

/// RSSL on the wire, for the side of the connection whose handshake is `S`.
#[derive(Debug)]
pub struct Rssl<S> {
    carry: CarryOver,
    side: PhantomData<S>,
}

impl<S> Memory for Rssl<S> {
    fn memory_bytes(&self) -> usize {
        self.carry.memory_bytes()
    }
}

impl<S: Handshake> Wire for Rssl<S> {
    type Handshake = S;
    type Open = Active;
    type Output = Outbound;
    type Reason = CloseReason;

    fn on_tick(
        &mut self,
        active: &mut Active,
        tick: Tick,
        outbound: &mut Outbound,
    ) -> Result<(), CloseReason> {
        self.carry.trim();
        active.trim();
        outbound.trim();
        if tick.may_ping {
            outbound.ping_if_quiet();
        }
        Ok(())
    }

    fn on_closed(&mut self, _: &CloseReason, outbound: &mut Outbound) {
        self.carry = CarryOver::default();
        outbound.deactivate();
    }

    fn unfinished(&self, step: &S, cause: Disconnect) -> CloseReason {
        step.on_disconnected(cause, self.carry.is_empty())
    }

    fn compression(active: Option<&Active>, _: &Outbound) -> Option<&'static str> {
        match active?.negotiated().compression {
            CompressionType::None => None,
            CompressionType::Zlib => Some("zlib"),
            CompressionType::Lz4 => Some("lz4"),
        }
    }

    fn close_counter<'c>(reason: &CloseReason, counters: &'c RsslConnections) -> &'c Counter {
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
            CloseReason::Stopped(Stop::Stalled { .. }) => &counters.closed_stalled,
            CloseReason::Stopped(Stop::Misuse(
                ApiMisuse::EmptyMessage
                | ApiMisuse::MessageTooLong { .. }
                | ApiMisuse::NotConnected
                | ApiMisuse::Overtaking { .. },
            )) => &counters.closed_misuse,
        }
    }
}

impl<S: Handshake, H: Handler + ?Sized> Reads<H> for Rssl<S> {
    fn read_handshake(
        &mut self,
        step: &mut S,
        bytes: &mut &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Option<Opened<Active>>, CloseReason> {
        let result = self.shake(step, bytes, outbound, handler);
        self.count_carried(outbound);
        result
    }

    fn read_frames(
        &mut self,
        active: &mut Active,
        bytes: &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
        flow: &mut Flow,
    ) -> Result<(), CloseReason> {
        let (seen, result) = active.on_bytes(bytes, &mut self.carry, outbound, handler);
        *flow += seen;
        self.count_carried(outbound);
        result
    }
}

impl<S: Handshake> Rssl<S> {
    fn shake<H: Handler + ?Sized>(
        &mut self,
        step: &mut S,
        bytes: &mut &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Option<Opened<Active>>, CloseReason> {
        while let Some(message) = self.carry.next(bytes, |start| step.length_of(start))? {
            let opened = step.on_message(message, outbound, handler)?;
            if opened.is_some() {
                return Ok(opened);
            }
        }
        Ok(None)
    }

    fn count_carried(&mut self, outbound: &Outbound) {
        outbound.counters().bytes_carried_in.add(self.carry.take_carried_bytes());
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
