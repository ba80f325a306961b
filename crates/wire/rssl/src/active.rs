use std::ops::ControlFlow;

use connection::{Memory, Opened};
use counters::Flow;
use counters::table::RsslConnections;

use crate::carry::CarryOver;
use crate::compression::{Compression, Decompressor};
use crate::frame::{self, Frame, HEADER_BYTES, Shape};
use crate::incoming::{FramesToHandler, Incoming, Received};
use crate::packer::Packer;
use crate::session::{Handler, Negotiated, Session};
use crate::{CloseReason, CompressionType, ConnectionVersion, FrameError, Limits, Outbound, Thresholds};

/// A connection past its handshake: frames in.
#[derive(Debug)]
pub struct Active {
    negotiated: Negotiated,
    frame_limit_bytes: u16,
    incoming: Incoming,
    decompressor: Option<Box<Decompressor>>,
}

/// Who sends pings, as the session flags of the ack say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pings {
    pub(crate) from_peer: bool,
    pub(crate) from_us: bool,
}

/// What a handshake has led to, for the frames that follow it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) pings: Pings,
    pub(crate) limits: Limits,
    /// Of zlib, 0 to 9.
    pub(crate) level: u8,
    pub(crate) thresholds: Thresholds,
}

impl Active {
    /// Ends the handshake: opens the way out and tells the handler.
    pub(crate) fn establish<H: Handler + ?Sized>(
        session: &Session<'_>,
        terms: Terms,
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Opened<Active>, CloseReason> {
        let negotiated = session.negotiated;
        let (kind, size) = (negotiated.compression, negotiated.message_size_bytes);
        let how = Compression { kind, level: terms.level, thresholds: terms.thresholds };
        let packer = Packer::compressing(negotiated.version, size, how);
        outbound.activate(packer.expect("the size was checked in the handshake"));
        count_handshake(&negotiated, outbound.counters());
        if let ControlFlow::Break(stop) = handler.on_connected(session, outbound) {
            return Err(stop.into());
        }
        let active = Active {
            negotiated,
            frame_limit_bytes: size + HEADER_BYTES as u16,
            incoming: Incoming::new(terms.limits),
            decompressor: Decompressor::new(kind, usize::from(size) + HEADER_BYTES),
        };
        let Pings { from_peer, from_us } = terms.pings;
        let ping_timeout = negotiated.ping_timeout;
        Ok(Opened { open: active, ping_timeout, peer_pings: from_peer, we_ping: from_us })
    }

    pub(crate) fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// Delivers every message that is complete with `input`; tells what it was, but for its bytes.
    pub(crate) fn on_bytes<H: Handler + ?Sized>(
        &mut self,
        input: &[u8],
        carry: &mut CarryOver,
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> (Flow, Result<(), CloseReason>) {
        let mut received = Received::default();
        let mut to_handler = FramesToHandler { outbound, handler, received: &mut received, scout: None };
        let result = self.read_frames(input, carry, &mut to_handler);
        received.publish(outbound.counters());
        (received.flow, result)
    }

    /// Gives unused memory back.
    pub(crate) fn trim(&mut self) {
        self.incoming.trim();
        if let Some(decompressor) = &mut self.decompressor {
            decompressor.trim();
        }
    }

    fn read_frames<'a, H: Handler + ?Sized>(
        &mut self,
        mut input: &'a [u8],
        carry: &mut CarryOver,
        to_handler: &mut FramesToHandler<'a, H>,
    ) -> Result<(), CloseReason> {
        let limit = self.frame_limit_bytes;
        let ids = self.negotiated.version.fragment_ids();
        // The rest of a frame, of which a part has come before, comes first.
        let mut is_aligned = carry.is_empty();
        if is_aligned {
            to_handler.look_ahead(input, limit, ids);
        }
        while let Some(bytes) = carry.next(&mut input, |start| Ok(frame::length_of(start, limit)?))? {
            to_handler.received.flow.frames += 1;
            match Frame::parse(bytes, ids)? {
                Frame::Compressed { flags, shape, data } => {
                    self.on_compressed(flags, shape, data, to_handler)?
                }
                frame => self.incoming.on_frame(frame, to_handler)?,
            }
            if !is_aligned {
                is_aligned = true;
                to_handler.look_ahead(input, limit, ids);
            }
        }
        Ok(())
    }

    fn on_compressed<H: Handler + ?Sized>(
        &mut self,
        flags: u8,
        shape: Shape,
        data: &[u8],
        to_handler: &mut FramesToHandler<'_, H>,
    ) -> Result<(), CloseReason> {
        let Some(decompressor) = &mut self.decompressor else {
            return Err(FrameError::Compressed { flags, agreed: CompressionType::None }.into());
        };
        let Some(expanded) = decompressor.expand(flags, shape, data)? else { return Ok(()) };
        to_handler.received.compressed_frames += 1;
        to_handler.received.flow.compressed_bytes += expanded.compressed_bytes as u64;
        to_handler.received.flow.expanded_bytes += expanded.expanded_bytes as u64;
        self.incoming.on_frame(expanded.frame, to_handler)
    }
}

impl Memory for Active {
    fn memory_bytes(&self) -> usize {
        let decompressor = self.decompressor.as_ref().map_or(0, |d| d.memory_bytes());
        self.incoming.memory_bytes() + decompressor
    }
}

fn count_handshake(negotiated: &Negotiated, counters: &RsslConnections) {
    counters.accepted.inc();
    match negotiated.compression {
        CompressionType::None => {}
        CompressionType::Zlib => counters.compression_zlib.inc(),
        CompressionType::Lz4 => counters.compression_lz4.inc(),
    }
    counters.key_exchanges.add(u64::from(negotiated.shared_key.is_some()));
    match negotiated.version {
        ConnectionVersion::V10 => counters.handshakes_v10.inc(),
        ConnectionVersion::V11 => counters.handshakes_v11.inc(),
        ConnectionVersion::V12 => counters.handshakes_v12.inc(),
        ConnectionVersion::V13 => counters.handshakes_v13.inc(),
        ConnectionVersion::V14 => counters.handshakes_v14.inc(),
    }
}
