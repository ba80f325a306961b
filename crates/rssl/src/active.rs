use std::ops::ControlFlow;

use counters::table::RsslConnections;
use units::{Beat, Heartbeat, Nanos};

use crate::assembly::{Assembly, Progress};
use crate::carry::CarryOver;
use crate::frame::{self, Frame, HEADER_BYTES};
use crate::packer::Packer;
use crate::session::{Handler, Negotiated, Session};
use crate::{CloseReason, ConnectionVersion, FrameError, Limits, Outbound, PeerError};

/// A connection past its handshake: frames in, pings, time-outs.
#[derive(Debug)]
pub(crate) struct Active {
    negotiated: Negotiated,
    frame_limit_bytes: u16,
    message_limit_bytes: u32,
    assembly: Assembly,
    heartbeat: Heartbeat,
}

/// Who sends pings, as the session flags of the ack say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pings {
    pub(crate) from_peer: bool,
    pub(crate) from_us: bool,
}

/// What one input brought: counted here and published once at its end.
#[derive(Default)]
struct Seen {
    frames: u64,
    pings: u64,
    messages: u64,
    packed_frames: u64,
    packed_messages: u64,
    fragments: u64,
    fragmented_messages: u64,
    fragments_unknown: u64,
    fragmented_replaced: u64,
}

impl Active {
    /// Ends the handshake: opens the way out and tells the handler.
    pub(crate) fn establish<H: Handler + ?Sized>(
        now: Nanos,
        session: &Session<'_>,
        pings: Pings,
        limits: Limits,
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Active, CloseReason> {
        let negotiated = session.negotiated;
        let size = negotiated.message_size_bytes;
        outbound
            .activate(Packer::new(negotiated.version, size).expect("the size was checked in the handshake"));
        count_handshake(&negotiated, outbound.counters());
        if let ControlFlow::Break(stop) = handler.on_connected(session, outbound) {
            return Err(stop.into());
        }
        Ok(Active {
            negotiated,
            frame_limit_bytes: size + HEADER_BYTES as u16,
            message_limit_bytes: limits.message_bytes_max,
            assembly: Assembly::new(limits),
            heartbeat: Heartbeat::new(now, negotiated.ping_timeout, pings.from_peer, pings.from_us),
        })
    }

    pub(crate) fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    pub(crate) fn wake_at(&self) -> Nanos {
        self.heartbeat.wake_at()
    }

    /// Heap memory in use.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.assembly.memory_bytes()
    }

    pub(crate) fn on_sign_of_life(&mut self, now: Nanos) {
        self.heartbeat.heard(now);
    }

    /// Delivers every message that is complete with `input`.
    pub(crate) fn on_bytes<H: Handler + ?Sized>(
        &mut self,
        now: Nanos,
        input: &[u8],
        carry: &mut CarryOver,
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<(), CloseReason> {
        if !input.is_empty() {
            self.heartbeat.heard(now);
        }
        let mut seen = Seen::default();
        let mut sink = Sink { outbound, handler, seen: &mut seen };
        let result = self.read_frames(input, carry, &mut sink);
        seen.publish(outbound.counters());
        result
    }

    /// Pings, gives unused memory back, judges the peer's silence.
    pub(crate) fn on_wakeup(
        &mut self,
        now: Nanos,
        carry: &mut CarryOver,
        outbound: &mut Outbound,
    ) -> Result<(), CloseReason> {
        let (beat, stalled) = self.heartbeat.on_wakeup(now);
        outbound.counters().stalls.add(u64::from(stalled));
        match beat {
            Beat::Nothing => Ok(()),
            Beat::Silent => {
                let limit_ms = crate::config::millis(self.negotiated.ping_timeout);
                Err(PeerError::Silent { limit_ms }.into())
            }
            Beat::Tick { ping } => {
                carry.trim();
                self.assembly.trim();
                outbound.trim();
                if ping {
                    outbound.ping_if_quiet();
                }
                Ok(())
            }
        }
    }

    fn read_frames<H: Handler + ?Sized>(
        &mut self,
        mut input: &[u8],
        carry: &mut CarryOver,
        sink: &mut Sink<'_, H>,
    ) -> Result<(), CloseReason> {
        let limit = self.frame_limit_bytes;
        let ids = self.negotiated.version.fragment_ids();
        while let Some(bytes) = carry.next(&mut input, |start| Ok(frame::length_of(start, limit)?))? {
            sink.seen.frames += 1;
            match Frame::parse(bytes, ids)? {
                Frame::Message(message) => sink.deliver(message)?,
                Frame::Packed(messages) => {
                    sink.seen.packed_frames += 1;
                    for message in messages {
                        sink.deliver(message?)?;
                        sink.seen.packed_messages += 1;
                    }
                }
                Frame::Ping => sink.seen.pings += 1,
                Frame::First { total_bytes, id, data } => self.on_first(total_bytes, id, data, sink)?,
                Frame::Next { id, data } => self.on_next(id, data, sink)?,
                Frame::Compressed { flags } => {
                    return Err(FrameError::Compressed { flags, agreed: self.negotiated.compression }.into());
                }
            }
        }
        Ok(())
    }

    fn on_first<H: Handler + ?Sized>(
        &mut self,
        total_bytes: u32,
        id: u16,
        data: &[u8],
        sink: &mut Sink<'_, H>,
    ) -> Result<(), CloseReason> {
        sink.seen.fragments += 1;
        if total_bytes == 0 || total_bytes > self.message_limit_bytes {
            return Err(
                FrameError::FragmentTotal { total_bytes, limit_bytes: self.message_limit_bytes }.into()
            );
        }
        // Data of one frame: its length always fits.
        let bytes = data.len() as u32;
        if bytes > total_bytes {
            return Err(FrameError::FragmentOverrun { id, bytes, total_bytes }.into());
        }
        if bytes == total_bytes {
            sink.seen.fragmented_replaced += u64::from(self.assembly.give_up(id));
            sink.seen.fragmented_messages += 1;
            return sink.deliver(data);
        }
        sink.seen.fragmented_replaced += u64::from(self.assembly.first(id, total_bytes, data)?);
        Ok(())
    }

    fn on_next<H: Handler + ?Sized>(
        &mut self,
        id: u16,
        data: &[u8],
        sink: &mut Sink<'_, H>,
    ) -> Result<(), CloseReason> {
        sink.seen.fragments += 1;
        match self.assembly.next(id, data)? {
            Progress::Open => Ok(()),
            Progress::Unknown => {
                sink.seen.fragments_unknown += 1;
                Ok(())
            }
            Progress::Complete(complete) => {
                sink.seen.fragmented_messages += 1;
                let delivered = sink.deliver(self.assembly.message(complete));
                self.assembly.release(complete);
                delivered
            }
        }
    }
}

/// Where messages go.
struct Sink<'a, H: ?Sized> {
    outbound: &'a mut Outbound,
    handler: &'a mut H,
    seen: &'a mut Seen,
}

impl<H: Handler + ?Sized> Sink<'_, H> {
    #[inline]
    fn deliver(&mut self, message: &[u8]) -> Result<(), CloseReason> {
        self.seen.messages += 1;
        match self.handler.on_message(message, self.outbound) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(stop) => Err(stop.into()),
        }
    }
}

impl Seen {
    fn publish(&self, counters: &RsslConnections) {
        counters.frames_in.add(self.frames);
        counters.pings_in.add(self.pings);
        counters.messages_in.add(self.messages);
        counters.packed_frames_in.add(self.packed_frames);
        counters.packed_messages_in.add(self.packed_messages);
        if self.fragments > 0 {
            counters.fragments_in.add(self.fragments);
            counters.fragmented_messages_in.add(self.fragmented_messages);
            counters.fragments_unknown_in.add(self.fragments_unknown);
            counters.fragmented_replaced_in.add(self.fragmented_replaced);
        }
    }
}

fn count_handshake(negotiated: &Negotiated, counters: &RsslConnections) {
    counters.accepted.inc();
    counters.key_exchanges.add(u64::from(negotiated.shared_key.is_some()));
    match negotiated.version {
        ConnectionVersion::V10 => counters.handshakes_v10.inc(),
        ConnectionVersion::V11 => counters.handshakes_v11.inc(),
        ConnectionVersion::V12 => counters.handshakes_v12.inc(),
        ConnectionVersion::V13 => counters.handshakes_v13.inc(),
        ConnectionVersion::V14 => counters.handshakes_v14.inc(),
    }
}
