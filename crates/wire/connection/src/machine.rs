use std::time::Duration;

use counters::Flow;
use counters::table::ConnectionCounters;
use units::Nanos;

use crate::{Backlog, Beat, Disconnect, Heartbeat, Memory, Opened, Output, Reads, Tick, TimedOut, Wire};

#[cfg(test)]
mod tests;

/// One end of a connection that speaks `W`.
///
/// Inputs are [`on_bytes`](Self::on_bytes), [`on_wakeup`](Self::on_wakeup),
/// [`on_disconnected`](Self::on_disconnected) and [`stop`](Self::stop). After each, the driver sends what waits
/// in [`outbound`](Self::outbound) and sets its timer to [`next_wakeup`](Self::next_wakeup). After an `Err` it
/// sends what it can, closes the socket and drops the connection.
// Every end of a connection goes through `shut`, which counts it once and gives its memory back; what was
// written before stays pending.
#[derive(Debug)]
pub struct Machine<W: Wire> {
    wire: W,
    phase: Phase<W>,
    output: W::Output,
    /// What has come in.
    flow: Flow,
}

#[derive(Debug)]
enum Phase<W: Wire> {
    Handshake { step: W::Handshake, deadline: Nanos, limit_ms: u32 },
    Open(Box<Open<W::Open>>),
    Closed(W::Reason),
}

#[derive(Debug)]
struct Open<O> {
    inner: O,
    heartbeat: Heartbeat,
    /// Something has arrived since the last tick.
    is_heard: bool,
}

impl<W: Wire> Machine<W> {
    /// A connection that stands since `now` and has to have completed its handshake within `handshake_timeout`.
    #[must_use]
    pub fn new(
        now: Nanos,
        wire: W,
        step: W::Handshake,
        handshake_timeout: Duration,
        output: W::Output,
    ) -> Machine<W> {
        let deadline = now.after(handshake_timeout);
        let phase = Phase::Handshake { step, deadline, limit_ms: millis(handshake_timeout) };
        Machine { wire, phase, output, flow: Flow::default() }
    }

    /// Takes what the socket had to read, in pieces of any size, and tells the handler what it brings. The
    /// bytes can be overwritten afterwards.
    ///
    /// # Errors
    /// Why the connection is over; the same again on every further call.
    pub fn on_bytes<H: ?Sized>(&mut self, now: Nanos, bytes: &[u8], handler: &mut H) -> Result<(), W::Reason>
    where
        W: Reads<H>,
    {
        if let Phase::Closed(reason) = self.phase {
            return Err(reason);
        }
        self.flow.bytes += bytes.len() as u64;
        self.counters().bytes_in().add(bytes.len() as u64);
        let result = self.read(now, bytes, handler);
        result.map_err(|reason| self.shut(reason))
    }

    fn read<H: ?Sized>(&mut self, now: Nanos, mut bytes: &[u8], handler: &mut H) -> Result<(), W::Reason>
    where
        W: Reads<H>,
    {
        if let Phase::Handshake { step, .. } = &mut self.phase {
            let opened = self.wire.read_handshake(step, &mut bytes, &mut self.output, handler)?;
            let Some(opened) = opened else { return Ok(()) };
            self.open(now, opened);
        }
        let Phase::Open(open) = &mut self.phase else { return Ok(()) };
        if !bytes.is_empty() {
            open.heartbeat.heard(now);
            open.is_heard = true;
        }
        self.wire.read_frames(&mut open.inner, bytes, &mut self.output, handler, &mut self.flow)
    }

    fn open(&mut self, now: Nanos, opened: Opened<W::Open>) {
        let Opened { open, ping_timeout, peer_pings, we_ping } = opened;
        let heartbeat = Heartbeat::new(now, ping_timeout, peer_pings, we_ping);
        self.phase = Phase::Open(Box::new(Open { inner: open, heartbeat, is_heard: true }));
        self.counters().active().add(1);
    }

    /// The peer has shown that it lives though nothing is read from it for now: its pings may wait in the socket.
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
    pub fn on_wakeup(&mut self, now: Nanos) -> Result<(), W::Reason> {
        let result = match &mut self.phase {
            Phase::Handshake { deadline, limit_ms, .. } if now >= *deadline => {
                Err(TimedOut::Handshake { limit_ms: *limit_ms }.into())
            }
            Phase::Handshake { .. } => Ok(()),
            Phase::Open(open) => open.on_wakeup(now, &mut self.wire, &mut self.output),
            Phase::Closed(reason) => Err(*reason),
        };
        result.map_err(|reason| self.shut(reason))
    }

    /// From now on the peer is pinged and given up by this timeout; nothing changes before the end of the handshake.
    pub fn restart_heartbeat(&mut self, now: Nanos, ping_timeout: Duration) {
        if let Phase::Open(open) = &mut self.phase {
            open.heartbeat.restart(now, ping_timeout);
        }
    }

    /// The TCP connection has ended.
    pub fn on_disconnected(&mut self, cause: Disconnect) -> W::Reason {
        let reason = match &self.phase {
            Phase::Handshake { step, .. } => self.wire.unfinished(step, cause),
            Phase::Open(_) => cause.into(),
            Phase::Closed(reason) => *reason,
        };
        self.shut(reason)
    }

    /// Ends the connection by this side's wish. What was pushed before is still pending.
    pub fn stop(&mut self, stop: <W::Output as Output>::Stop) -> W::Reason {
        self.shut(stop.into())
    }

    /// When [`on_wakeup`](Self::on_wakeup) is due; [`Nanos::NEVER`] after the end. It changes in calls of
    /// `on_wakeup` and with the end of the handshake, not with each message.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        match &self.phase {
            Phase::Handshake { deadline, .. } => *deadline,
            Phase::Open(open) => open.heartbeat.wake_at(),
            Phase::Closed(_) => Nanos::NEVER,
        }
    }

    /// The way out.
    #[inline]
    #[must_use]
    pub fn outbound(&mut self) -> &mut W::Output {
        &mut self.output
    }

    /// What has come in; what has gone out is [`SendBuffer::flow`](crate::SendBuffer::flow).
    #[must_use]
    pub fn flow_in(&self) -> Flow {
        self.flow
    }

    /// How much waits for the socket.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.output.buffer().backlog()
    }

    /// The name of the compression that was agreed on, as long as it is in use.
    #[must_use]
    pub fn compression(&self) -> Option<&'static str> {
        W::compression(self.opened(), &self.output)
    }

    /// The open connection, from the end of the handshake to the end of the connection.
    #[must_use]
    pub fn opened(&self) -> Option<&W::Open> {
        match &self.phase {
            Phase::Open(open) => Some(&open.inner),
            Phase::Handshake { .. } | Phase::Closed(_) => None,
        }
    }

    /// What the protocol keeps from the handshake to the end.
    #[must_use]
    pub fn wire(&mut self) -> &mut W {
        &mut self.wire
    }

    /// Why the connection is over, if it is.
    #[must_use]
    pub fn close_reason(&self) -> Option<W::Reason> {
        match self.phase {
            Phase::Closed(reason) => Some(reason),
            Phase::Handshake { .. } | Phase::Open(_) => None,
        }
    }

    /// Memory this connection uses, heap and its own size.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let phase = match &self.phase {
            Phase::Handshake { step, .. } => step.memory_bytes(),
            Phase::Open(open) => size_of::<Open<W::Open>>() + open.inner.memory_bytes(),
            Phase::Closed(_) => 0,
        };
        size_of::<Self>() + phase + self.wire.memory_bytes() + self.output.memory_bytes()
    }

    /// Ends the connection unless it is over already, and tells why it is over.
    fn shut(&mut self, reason: W::Reason) -> W::Reason {
        if let Phase::Closed(first) = self.phase {
            return first;
        }
        W::close_counter(&reason, self.counters()).inc();
        self.leave_active();
        self.phase = Phase::Closed(reason);
        self.wire.on_closed(&reason, &mut self.output);
        reason
    }

    fn leave_active(&self) {
        if let Phase::Open(_) = self.phase {
            let active = self.counters().active();
            active.set(active.get().wrapping_sub(1));
        }
    }

    fn counters(&self) -> &<W::Output as Output>::Counters {
        self.output.buffer().counters()
    }
}

impl<W: Wire> Drop for Machine<W> {
    fn drop(&mut self) {
        if self.close_reason().is_none() {
            self.counters().closed_dropped().inc();
            self.leave_active();
        }
    }
}

impl<O> Open<O> {
    /// Gives the protocol its ticks, judges the peer's silence.
    fn on_wakeup<W: Wire<Open = O>>(
        &mut self,
        now: Nanos,
        wire: &mut W,
        output: &mut W::Output,
    ) -> Result<(), W::Reason> {
        let (beat, is_stalled) = self.heartbeat.on_wakeup(now);
        output.buffer().counters().stalls().add(u64::from(is_stalled));
        match beat {
            Beat::Nothing => Ok(()),
            Beat::Silent => Err(TimedOut::Silent { limit_ms: millis(self.heartbeat.timeout()) }.into()),
            Beat::Tick { ping } => {
                let heard = std::mem::take(&mut self.is_heard);
                wire.on_tick(&mut self.inner, Tick { may_ping: ping, heard }, output)
            }
        }
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
