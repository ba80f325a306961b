use std::ops::ControlFlow;
use std::time::Duration;

use connection::{Beat, Heartbeat};
use counters::table::WebSocketConnections;
use counters::{Counter, Flow};
use units::Nanos;

use crate::reader::{Event, Reader, Seen};
use crate::upgrade::HEAD_END;
use crate::{
    CloseReason, Disconnect, FrameError, Handler, Limits, Outbound, PeerError, Stop, UpgradeError, close_code,
};

/// One side's part in the upgrade.
pub trait Upgrade {
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
/// Inputs are [`on_bytes`](Self::on_bytes), [`on_wakeup`](Self::on_wakeup),
/// [`on_disconnected`](Self::on_disconnected) and [`stop`](Self::stop). After each, the driver sends what
/// [`Outbound::pending`] returns and sets its timer to [`next_wakeup`](Self::next_wakeup). After an `Err` it
/// sends what it can (the refusal of an upgrade, a close frame), closes the socket and drops the connection.
// Every end of a connection goes through `shut`, which counts it once and gives its memory back; what was
// written before stays pending.
#[derive(Debug)]
pub struct Connection<U> {
    phase: Phase<U>,
    outbound: Outbound,
    /// What has come in.
    flow: Flow,
    limits: Limits,
    ping: &'static str,
    ping_timeout: Duration,
}

#[derive(Debug)]
enum Phase<U> {
    Upgrading { step: U, head: Vec<u8>, deadline: Nanos, limit_ms: u32 },
    Open(Box<Open>),
    Closed(CloseReason),
}

#[derive(Debug)]
struct Open {
    reader: Reader,
    heartbeat: Heartbeat,
    /// Something has arrived since the last tick.
    heard: bool,
}

impl<U: Upgrade> Connection<U> {
    pub(crate) fn begin(
        now: Nanos,
        step: U,
        handshake_timeout: Duration,
        limits: Limits,
        (ping, ping_timeout): (&'static str, Duration),
        outbound: Outbound,
    ) -> Connection<U> {
        let deadline = now.after(handshake_timeout);
        let phase =
            Phase::Upgrading { step, head: Vec::new(), deadline, limit_ms: millis(handshake_timeout) };
        Connection { phase, outbound, flow: Flow::default(), limits, ping, ping_timeout }
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
        self.outbound.counters().bytes_in.add(bytes.len() as u64);
        self.flow.bytes += bytes.len() as u64;
        let result = self.read(now, bytes, handler);
        if let Phase::Open(open) = &mut self.phase {
            let seen = std::mem::take(&mut open.reader.seen);
            seen.publish(self.outbound.counters());
            self.flow += seen.flow;
        }
        result.map_err(|reason| self.shut(reason))
    }

    fn read<H: Handler + ?Sized>(
        &mut self,
        now: Nanos,
        mut bytes: &[u8],
        handler: &mut H,
    ) -> Result<(), CloseReason> {
        if let Phase::Upgrading { .. } = self.phase {
            bytes = match self.read_head(now, bytes, handler)? {
                Some(rest) => rest,
                None => return Ok(()),
            };
        }
        let Phase::Open(open) = &mut self.phase else { return Ok(()) };
        open.read(now, bytes, &mut self.outbound, handler)
    }

    /// Collects the peer's head; the bytes behind it if it is complete.
    fn read_head<'i, H: Handler + ?Sized>(
        &mut self,
        now: Nanos,
        bytes: &'i [u8],
        handler: &mut H,
    ) -> Result<Option<&'i [u8]>, CloseReason> {
        let Phase::Upgrading { step, head, .. } = &mut self.phase else { return Ok(Some(bytes)) };
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
                step.refuse(error, &mut self.outbound);
                return Err(error.into());
            }
            return Ok(None);
        };
        let rest = &bytes[from + end + HEAD_END.len() - before..];
        let reader = step.on_head(&head[..from + end], &mut self.outbound, handler)?;
        let heartbeat = Heartbeat::new(now, self.ping_timeout, true, true);
        self.phase = Phase::Open(Box::new(Open { reader, heartbeat, heard: true }));
        self.outbound.counters().accepted.inc();
        self.outbound.counters().active.add(1);
        Ok(Some(rest))
    }

    /// The peer has shown that it lives though nothing is read from it for now.
    pub fn on_sign_of_life(&mut self, now: Nanos) {
        if let Phase::Open(open) = &mut self.phase {
            open.heartbeat.heard(now);
        }
    }

    /// Looks after pings and time-outs. Read the socket first when both are due: what waits there counts as
    /// heard.
    ///
    /// # Errors
    /// Why the connection is over.
    pub fn on_wakeup(&mut self, now: Nanos) -> Result<(), CloseReason> {
        let result = match &mut self.phase {
            Phase::Upgrading { deadline, limit_ms, .. } if now >= *deadline => {
                Err(PeerError::HandshakeTimeout { limit_ms: *limit_ms }.into())
            }
            Phase::Upgrading { .. } => Ok(()),
            Phase::Open(open) => open.on_wakeup(now, self.ping, self.ping_timeout, &mut self.outbound),
            Phase::Closed(reason) => Err(*reason),
        };
        result.map_err(|reason| self.shut(reason))
    }

    /// From now on the peer is pinged and given up by this timeout, which a server tells in its login refresh.
    pub fn set_ping_timeout(&mut self, now: Nanos, ping_timeout: Duration) {
        self.ping_timeout = ping_timeout;
        if let Phase::Open(open) = &mut self.phase {
            open.heartbeat = Heartbeat::new(now, ping_timeout, true, true);
        }
    }

    /// The TCP connection has ended.
    pub fn on_disconnected(&mut self, cause: Disconnect) -> CloseReason {
        self.shut(CloseReason::Disconnected(cause))
    }

    /// Ends the connection by this side's wish, with a close frame. What was pushed before is still pending.
    pub fn stop(&mut self, stop: Stop) -> CloseReason {
        self.shut(stop.into())
    }

    /// When [`on_wakeup`](Self::on_wakeup) is due; [`Nanos::NEVER`] after the end.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        match &self.phase {
            Phase::Upgrading { deadline, .. } => *deadline,
            Phase::Open(open) => open.heartbeat.wake_at(),
            Phase::Closed(_) => Nanos::NEVER,
        }
    }

    /// The way out.
    #[must_use]
    pub fn outbound(&mut self) -> &mut Outbound {
        &mut self.outbound
    }

    /// What has come in; what has gone out is [`Outbound::flow`]. A message that is an array of messages of the
    /// protocol above counts as one.
    #[must_use]
    pub fn flow_in(&self) -> Flow {
        self.flow
    }

    /// Why the connection is over, if it is.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self.phase {
            Phase::Closed(reason) => Some(reason),
            Phase::Upgrading { .. } | Phase::Open(_) => None,
        }
    }

    /// Memory this connection uses, heap and its own size.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let phase = match &self.phase {
            Phase::Upgrading { head, .. } => head.capacity(),
            Phase::Open(open) => size_of::<Open>() + open.reader.memory_bytes(),
            Phase::Closed(_) => 0,
        };
        size_of::<Self>() + phase + self.outbound.memory_bytes()
    }

    /// Ends the connection unless it is over already, and tells why it is over.
    fn shut(&mut self, reason: CloseReason) -> CloseReason {
        if let Phase::Closed(first) = self.phase {
            return first;
        }
        close_counter(&reason, self.outbound.counters()).inc();
        self.leave_active();
        self.phase = Phase::Closed(reason);
        self.outbound.close(close_frame_code(&reason));
        reason
    }
}

impl<U> Connection<U> {
    fn leave_active(&self) {
        if let Phase::Open(_) = self.phase {
            let active = &self.outbound.counters().active;
            active.set(active.get().wrapping_sub(1));
        }
    }
}

impl<U> Drop for Connection<U> {
    fn drop(&mut self) {
        if !matches!(self.phase, Phase::Closed(_)) {
            self.outbound.counters().closed_dropped.inc();
            self.leave_active();
        }
        self.outbound.leave_gauge();
    }
}

impl Open {
    fn read<H: Handler + ?Sized>(
        &mut self,
        now: Nanos,
        mut bytes: &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<(), CloseReason> {
        if !bytes.is_empty() {
            self.heartbeat.heard(now);
            self.heard = true;
        }
        while let Some(event) = self.reader.next(&mut bytes)? {
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

    /// Pings the peer if nothing came or went since the last tick, gives unused memory back, judges its
    /// silence.
    fn on_wakeup(
        &mut self,
        now: Nanos,
        ping: &str,
        timeout: Duration,
        outbound: &mut Outbound,
    ) -> Result<(), CloseReason> {
        let (beat, is_stalled) = self.heartbeat.on_wakeup(now);
        outbound.counters().stalls.add(u64::from(is_stalled));
        match beat {
            Beat::Nothing => Ok(()),
            Beat::Silent => Err(PeerError::Silent { limit_ms: millis(timeout) }.into()),
            Beat::Tick { .. } => {
                self.reader.trim();
                outbound.trim();
                let is_busy = outbound.take_wrote() & std::mem::take(&mut self.heard);
                if !is_busy {
                    outbound.ping(ping)?;
                }
                Ok(())
            }
        }
    }
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

pub(crate) fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// What the close frame of this side says.
fn close_frame_code(reason: &CloseReason) -> Option<u16> {
    match reason {
        CloseReason::Peer(PeerError::Frame(error)) => Some(error.close_code()),
        CloseReason::Closed { code } => *code,
        CloseReason::Stopped(Stop::SlowConsumer { .. }) => Some(close_code::POLICY_VIOLATION),
        CloseReason::Stopped(Stop::NotConnected) => Some(close_code::INTERNAL_ERROR),
        CloseReason::Peer(_)
        | CloseReason::Stopped(Stop::Application)
        | CloseReason::Disconnected(_)
        | CloseReason::Refused { .. } => Some(close_code::GOING_AWAY),
    }
}

/// The one counter of a reason.
fn close_counter<'a>(reason: &CloseReason, counters: &'a WebSocketConnections) -> &'a Counter {
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
        CloseReason::Stopped(Stop::NotConnected) => &counters.closed_misuse,
    }
}
