use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::{ControlFlow, Deref, DerefMut};
use std::time::Duration;

use connection::{Machine, Memory, Opened, Reads, Tick, Wire};
use counters::table::WebSocketConnections;
use counters::{Counter, Flow};
use units::Nanos;

use crate::reader::{Event, Reader, Seen};
use crate::upgrade::HEAD_END;
use crate::{
    CloseReason, Disconnect, FrameError, Handler, Limits, Outbound, PeerError, Stop, UpgradeError, close_code,
};

/// One side's part in the upgrade.
pub trait Upgrade: Debug {
    /// The peer's head is here, without its empty line. What it leads to: how messages are read from now on.
    fn on_head<H: Handler + ?Sized>(
        &mut self,
        head: &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Reader, CloseReason>;

    /// What is answered to a peer whose head cannot be read.
    fn refuse(&self, error: UpgradeError, outbound: &mut Outbound);
}

/// One end of a connection: a [`ServerConnection`](crate::ServerConnection) or a
/// [`ClientConnection`](crate::ClientConnection), which differ in their part of the upgrade.
///
/// Inputs and outputs are those of every [`Machine`], which it derefs to. What waits for the socket is what
/// [`Outbound::pending`] returns. The last of it after an `Err` is the refusal of an upgrade, or a close frame.
#[derive(Debug)]
pub struct Connection<U: Upgrade>(Machine<WebSocket<U>>);

/// How often a peer is pinged, and with what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pings {
    pub(crate) text: &'static str,
    pub(crate) timeout: Duration,
}

impl<U: Upgrade> Connection<U> {
    pub(crate) fn begin(
        now: Nanos,
        step: U,
        handshake_timeout: Duration,
        limits: Limits,
        pings: Pings,
        outbound: Outbound,
    ) -> Connection<U> {
        let wire = WebSocket { limits, pings, side: PhantomData };
        let upgrading = Upgrading { step, head: Vec::new() };
        Connection(Machine::new(now, wire, upgrading, handshake_timeout, outbound))
    }

    /// From now on the peer is pinged and given up by this timeout, which a server tells in its login refresh.
    pub fn set_ping_timeout(&mut self, now: Nanos, ping_timeout: Duration) {
        self.wire().pings.timeout = ping_timeout;
        self.restart_heartbeat(now, ping_timeout);
    }
}

impl<U: Upgrade> Deref for Connection<U> {
    type Target = Machine<WebSocket<U>>;

    #[inline]
    fn deref(&self) -> &Machine<WebSocket<U>> {
        &self.0
    }
}

impl<U: Upgrade> DerefMut for Connection<U> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Machine<WebSocket<U>> {
        &mut self.0
    }
}

/// WebSocket on the wire, for the side of the connection whose part in the upgrade is `U`.
#[derive(Debug)]
pub struct WebSocket<U> {
    limits: Limits,
    pings: Pings,
    side: PhantomData<U>,
}

/// The upgrade under way: this side's part in it, and what has come of the peer's head.
#[derive(Debug)]
pub struct Upgrading<U> {
    step: U,
    head: Vec<u8>,
}

impl<U> Memory for WebSocket<U> {
    fn memory_bytes(&self) -> usize {
        0
    }
}

impl<U> Memory for Upgrading<U> {
    fn memory_bytes(&self) -> usize {
        self.head.capacity()
    }
}

impl<U: Upgrade> Wire for WebSocket<U> {
    type Handshake = Upgrading<U>;
    type Open = Reader;
    type Output = Outbound;
    type Reason = CloseReason;

    /// Pings the peer if nothing came or went since the last tick.
    fn on_tick(
        &mut self,
        reader: &mut Reader,
        tick: Tick,
        outbound: &mut Outbound,
    ) -> Result<(), CloseReason> {
        reader.trim();
        outbound.trim(self.pings.text);
        let is_busy = outbound.take_wrote() & tick.heard;
        if !is_busy {
            outbound.ping(self.pings.text)?;
        }
        Ok(())
    }

    fn on_closed(&mut self, reason: &CloseReason, outbound: &mut Outbound) {
        outbound.close(close_frame_code(reason));
    }

    fn compression(_: Option<&Reader>, outbound: &Outbound) -> Option<&'static str> {
        outbound.is_compressing().then_some("permessage-deflate")
    }

    fn close_counter<'c>(reason: &CloseReason, counters: &'c WebSocketConnections) -> &'c Counter {
        match reason {
            CloseReason::Peer(PeerError::Upgrade(UpgradeError::NotHttp)) => &counters.closed_not_http,
            CloseReason::Peer(PeerError::Upgrade(_)) => &counters.closed_upgrade,
            CloseReason::Peer(PeerError::Frame(FrameError::Utf8)) => &counters.closed_utf8,
            CloseReason::Peer(PeerError::Frame(FrameError::Deflate)) => &counters.closed_deflate,
            CloseReason::Peer(PeerError::Frame(FrameError::MessageLength { .. })) => {
                &counters.closed_message_length
            }
            CloseReason::Peer(PeerError::Frame(_)) => &counters.closed_frame,
            CloseReason::Peer(PeerError::HandshakeTimeout { .. }) => &counters.closed_handshake_timeout,
            CloseReason::Peer(PeerError::Silent { .. }) => &counters.closed_silent,
            CloseReason::Closed { .. } => &counters.closed_by_peer,
            CloseReason::Disconnected(Disconnect::EndOfStream) => &counters.closed_disconnected,
            CloseReason::Disconnected(Disconnect::SocketError) => &counters.closed_socket_error,
            CloseReason::Refused { .. } => &counters.closed_refused,
            CloseReason::Stopped(Stop::Application) => &counters.closed_application,
            CloseReason::Stopped(Stop::SlowConsumer { .. }) => &counters.closed_slow_consumer,
            CloseReason::Stopped(Stop::Stalled { .. }) => &counters.closed_stalled,
            CloseReason::Stopped(Stop::NotConnected) => &counters.closed_misuse,
        }
    }
}

impl<U: Upgrade, H: Handler + ?Sized> Reads<H> for WebSocket<U> {
    /// Collects the peer's head.
    fn read_handshake(
        &mut self,
        upgrading: &mut Upgrading<U>,
        bytes: &mut &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Option<Opened<Reader>>, CloseReason> {
        let Upgrading { step, head } = upgrading;
        let limit_bytes = self.limits.head_bytes_max;
        // The end may lie across what came before and now.
        let from = head.len().saturating_sub(HEAD_END.len() - 1);
        let before = head.len();
        head.extend_from_slice(&bytes[..bytes.len().min(limit_bytes + HEAD_END.len() - before)]);
        if head.first().is_some_and(|byte| !byte.is_ascii_uppercase()) {
            return Err(UpgradeError::NotHttp.into());
        }
        let Some(end) = head[from..].windows(HEAD_END.len()).position(|w| w == HEAD_END) else {
            if head.len() >= limit_bytes + HEAD_END.len() {
                let error = UpgradeError::HeadLength { limit_bytes };
                step.refuse(error, outbound);
                return Err(error.into());
            }
            *bytes = &[];
            return Ok(None);
        };
        *bytes = &bytes[from + end + HEAD_END.len() - before..];
        let reader = step.on_head(&head[..from + end], outbound, handler)?;
        outbound.counters().accepted.inc();
        let ping_timeout = self.pings.timeout;
        Ok(Some(Opened { open: reader, ping_timeout, peer_pings: true, we_ping: true }))
    }

    fn read_frames(
        &mut self,
        reader: &mut Reader,
        bytes: &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
        flow: &mut Flow,
    ) -> Result<(), CloseReason> {
        let result = read(reader, bytes, outbound, handler);
        let seen = std::mem::take(&mut reader.seen);
        seen.publish(outbound.counters());
        *flow += seen.flow;
        result
    }
}

fn read<H: Handler + ?Sized>(
    reader: &mut Reader,
    mut bytes: &[u8],
    outbound: &mut Outbound,
    handler: &mut H,
) -> Result<(), CloseReason> {
    while let Some(event) = reader.next(&mut bytes)? {
        match event {
            Event::Message(message) => {
                if let ControlFlow::Break(stop) = handler.on_message(message, outbound) {
                    return Err(stop.into());
                }
            }
            Event::Ping(payload) => outbound.push_pong(payload)?,
            Event::Pong => {}
            Event::Close { code } => return Err(CloseReason::Closed { code }),
        }
    }
    Ok(())
}

impl Seen {
    fn publish(&self, counters: &WebSocketConnections) {
        counters.frames_in.add(self.flow.frames);
        counters.messages_in.add(self.flow.messages);
        counters.fragments_in.add(self.fragments);
        counters.compressed_messages_in.add(self.compressed_messages);
        counters.pings_in.add(self.pings);
        counters.pongs_in.add(self.pongs);
    }
}

/// What the close frame of this side says.
fn close_frame_code(reason: &CloseReason) -> Option<u16> {
    match reason {
        CloseReason::Peer(PeerError::Frame(error)) => Some(error.close_code()),
        CloseReason::Closed { code } => *code,
        CloseReason::Stopped(Stop::SlowConsumer { .. } | Stop::Stalled { .. }) => {
            Some(close_code::POLICY_VIOLATION)
        }
        CloseReason::Stopped(Stop::NotConnected) => Some(close_code::INTERNAL_ERROR),
        CloseReason::Peer(_)
        | CloseReason::Stopped(Stop::Application)
        | CloseReason::Disconnected(_)
        | CloseReason::Refused { .. } => Some(close_code::GOING_AWAY),
    }
}
