use std::ops::ControlFlow;

use counters::Flow;
use counters::table::RsslConnections;

use crate::assembly::{Assembly, Progress};
use crate::frame::{FragmentIds, Frame};
use crate::scout::Scout;
use crate::session::Handler;
use crate::{CloseReason, FrameError, Limits, Outbound};

/// Makes messages of frames in clear.
#[derive(Debug)]
pub(crate) struct Incoming {
    assembly: Assembly,
    message_limit_bytes: u32,
}

/// Hands the messages of frames to the handler of the connection.
pub(crate) struct FramesToHandler<'a, H: ?Sized> {
    pub(crate) outbound: &'a mut Outbound,
    pub(crate) handler: &'a mut H,
    pub(crate) received: &'a mut Received,
    /// What comes next, if the handler looks ahead.
    pub(crate) scout: Option<Scout<'a>>,
}

/// What one input brought: counted here and published once at its end.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) flow: Flow,
    pub(crate) compressed_frames: u64,
    pings: u64,
    fragments: u64,
    fragmented_messages: u64,
    fragments_unknown: u64,
    fragmented_replaced: u64,
}

impl Incoming {
    pub(crate) fn new(limits: Limits) -> Incoming {
        Incoming { assembly: Assembly::new(limits), message_limit_bytes: limits.message_bytes_max }
    }

    /// Delivers the messages that are complete with a frame, which is not compressed.
    #[inline]
    pub(crate) fn on_frame<H: Handler + ?Sized>(
        &mut self,
        frame: Frame<'_>,
        to_handler: &mut FramesToHandler<'_, H>,
    ) -> Result<(), CloseReason> {
        match frame {
            Frame::Message(message) => to_handler.deliver(message),
            Frame::Packed(messages) => {
                to_handler.received.flow.packed_frames += 1;
                for message in messages {
                    to_handler.deliver(message?)?;
                    to_handler.received.flow.packed_messages += 1;
                }
                Ok(())
            }
            Frame::Ping => {
                to_handler.received.pings += 1;
                Ok(())
            }
            Frame::First { total_bytes, id, data } => self.on_first(total_bytes, id, data, to_handler),
            Frame::Next { id, data } => self.on_next(id, data, to_handler),
            Frame::Compressed { flags, .. } => Err(FrameError::Continuation { flags }.into()),
        }
    }

    /// Gives memory back if no message was opened since the last call and none is open.
    pub(crate) fn trim(&mut self) {
        self.assembly.trim();
    }

    /// Heap memory in use.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.assembly.memory_bytes()
    }

    fn on_first<H: Handler + ?Sized>(
        &mut self,
        total_bytes: u32,
        id: u16,
        data: &[u8],
        to_handler: &mut FramesToHandler<'_, H>,
    ) -> Result<(), CloseReason> {
        to_handler.received.fragments += 1;
        if total_bytes == 0 || total_bytes > self.message_limit_bytes {
            let limit_bytes = self.message_limit_bytes;
            return Err(FrameError::FragmentTotal { total_bytes, limit_bytes }.into());
        }
        // Data of one frame: its length always fits.
        let bytes = data.len() as u32;
        if bytes > total_bytes {
            return Err(FrameError::FragmentOverrun { id, bytes, total_bytes }.into());
        }
        if bytes == total_bytes {
            to_handler.received.fragmented_replaced += u64::from(self.assembly.give_up(id));
            to_handler.received.fragmented_messages += 1;
            return to_handler.deliver(data);
        }
        to_handler.received.fragmented_replaced += u64::from(self.assembly.first(id, total_bytes, data)?);
        Ok(())
    }

    fn on_next<H: Handler + ?Sized>(
        &mut self,
        id: u16,
        data: &[u8],
        to_handler: &mut FramesToHandler<'_, H>,
    ) -> Result<(), CloseReason> {
        to_handler.received.fragments += 1;
        match self.assembly.next(id, data)? {
            Progress::Open => Ok(()),
            Progress::Unknown => {
                to_handler.received.fragments_unknown += 1;
                Ok(())
            }
            Progress::Complete(complete) => {
                to_handler.received.fragmented_messages += 1;
                let delivered = to_handler.deliver(self.assembly.message(complete));
                self.assembly.release(complete);
                delivered
            }
        }
    }
}

impl<'a, H: Handler + ?Sized> FramesToHandler<'a, H> {
    /// Shows the handler what comes first in `input`, which begins with a frame, if it looks ahead.
    #[inline]
    pub(crate) fn look_ahead(&mut self, input: &'a [u8], limit_bytes: u16, ids: FragmentIds) {
        let ahead = self.handler.messages_ahead();
        if ahead > 0 {
            self.scout = Some(Scout::new(input, limit_bytes, ids));
            (0..ahead).for_each(|_| self.show_next());
        }
    }

    #[inline]
    fn show_next(&mut self) {
        match self.scout.as_mut().and_then(Iterator::next) {
            Some(message) => self.handler.on_coming(message),
            None => self.scout = None,
        }
    }

    #[inline]
    fn deliver(&mut self, message: &[u8]) -> Result<(), CloseReason> {
        self.received.flow.messages += 1;
        if self.scout.is_some() {
            self.show_next();
        }
        match self.handler.on_message(message, self.outbound) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(stop) => Err(stop.into()),
        }
    }
}

impl Received {
    pub(crate) fn publish(&self, counters: &RsslConnections) {
        counters.frames_in.add(self.flow.frames);
        counters.pings_in.add(self.pings);
        counters.messages_in.add(self.flow.messages);
        counters.packed_frames_in.add(self.flow.packed_frames);
        counters.packed_messages_in.add(self.flow.packed_messages);
        if self.fragments > 0 {
            counters.fragments_in.add(self.fragments);
            counters.fragmented_messages_in.add(self.fragmented_messages);
            counters.fragments_unknown_in.add(self.fragments_unknown);
            counters.fragmented_replaced_in.add(self.fragmented_replaced);
        }
        if self.compressed_frames > 0 {
            counters.compressed_frames_in.add(self.compressed_frames);
            counters.compressed_bytes_in.add(self.flow.compressed_bytes);
            counters.expanded_bytes_in.add(self.flow.expanded_bytes);
        }
    }
}
