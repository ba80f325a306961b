//! From bytes to messages: frames, fragments, decompression.

use connection::Memory;
use counters::Flow;

use crate::close_code;
use crate::deflate::Inflater;
use crate::frame::{CONTROL_BYTES_MAX, HEAD_BYTES_MAX, Head, Opcode, append_masked};
use crate::{FrameError, Message};

/// What has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    Message(Message<'a>),
    Ping(&'a [u8]),
    Pong,
    Close { code: Option<u16> },
}

/// Takes the bytes of one peer in pieces of any size.
///
/// Payload is unmasked as it comes, straight into the message that it belongs to, so that what is held is
/// never more than one message and one control frame. A whole frame of a server is not copied at all.
#[derive(Debug)]
pub struct Reader {
    /// Whether frames must be masked: those of clients.
    wants_mask: bool,
    limit_bytes: usize,
    inflater: Option<Inflater>,
    head: [u8; HEAD_BYTES_MAX],
    head_len: usize,
    frame: Option<Open>,
    /// The message under way: what it is, and whether it is compressed.
    message: Option<(Opcode, bool)>,
    data: Vec<u8>,
    control: Vec<u8>,
    /// `data` was handed out whole.
    is_delivered: bool,
    /// `data` was used since the last trim.
    is_used: bool,
    pub(crate) seen: Seen,
}

/// What was read since this was last taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// All but the bytes of the connection.
    pub(crate) flow: Flow,
    pub(crate) fragments: u64,
    pub(crate) compressed_messages: u64,
    pub(crate) pings: u64,
    pub(crate) pongs: u64,
}

/// A frame whose payload is coming.
#[derive(Clone, Copy, Debug)]
struct Open {
    head: Head,
    done_bytes: usize,
}

impl Open {
    fn missing_bytes(&self) -> usize {
        self.head.payload_bytes as usize - self.done_bytes
    }
}

/// A buffer of messages up to this size is left alone.
const KEEP_BYTES: usize = 16 << 10;

impl Reader {
    pub(crate) fn new(wants_mask: bool, limit_bytes: usize, inflater: Option<Inflater>) -> Reader {
        Reader {
            wants_mask,
            limit_bytes,
            inflater,
            head: [0; HEAD_BYTES_MAX],
            head_len: 0,
            frame: None,
            message: None,
            data: Vec::new(),
            control: Vec::new(),
            is_delivered: false,
            is_used: false,
            seen: Seen::default(),
        }
    }

    /// The next thing that is complete; `None` when all of `input` is used up. Bytes that belong to it are
    /// taken from `input`.
    #[inline]
    pub(crate) fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'a>>, FrameError> {
        if std::mem::take(&mut self.is_delivered) {
            self.data.clear();
        }
        loop {
            let Some(head) = self.head(input)? else { return Ok(None) };
            if self.is_message_in(&head, input) {
                return self.whole(head, input).map(Some);
            }
            if !self.take_payload(input) {
                return Ok(None);
            }
            self.frame = None;
            if head.opcode.is_control() {
                return self.control_event(head.opcode).map(Some);
            }
            if head.is_final {
                return self.complete().map(Some);
            }
        }
    }

    /// Gives memory back that was not needed since the last call.
    pub(crate) fn trim(&mut self) {
        if self.message.is_none() && (!self.is_used || self.data.capacity() > KEEP_BYTES) {
            self.data = Vec::new();
        }
        self.is_used = false;
        self.control.shrink_to(self.control.len());
        if let Some(inflater) = &mut self.inflater {
            inflater.trim();
        }
    }

    /// The head of the frame that is coming.
    fn head(&mut self, input: &mut &[u8]) -> Result<Option<Head>, FrameError> {
        if let Some(open) = self.frame {
            return Ok(Some(open.head));
        }
        while self.head_len < 2 || self.head_len < Head::length_of([self.head[0], self.head[1]]) {
            let Some((&byte, rest)) = input.split_first() else {
                if units::planted(units::Bug::DropsCutHeads) {
                    self.head_len = 0;
                }
                return Ok(None);
            };
            self.head[self.head_len] = byte;
            self.head_len += 1;
            *input = rest;
        }
        let head = Head::parse(&self.head[..self.head_len])?;
        self.admit(&head)?;
        self.head_len = 0;
        self.seen.flow.frames += 1;
        self.frame = Some(Open { head, done_bytes: 0 });
        Ok(Some(head))
    }

    /// Whether the frame may come now.
    fn admit(&mut self, head: &Head) -> Result<(), FrameError> {
        let is_masked = head.mask.is_some();
        if is_masked != self.wants_mask {
            return Err(FrameError::Masking { is_masked });
        }
        if head.opcode.is_control() {
            self.control.clear();
            return Ok(());
        }
        if head.is_compressed && self.inflater.is_none() {
            return Err(FrameError::ReservedBits { first_byte: self.head[0] });
        }
        match (head.opcode, self.message) {
            (Opcode::Continuation, None) => return Err(FrameError::NothingToContinue),
            (Opcode::Continuation, Some(_)) => self.seen.fragments += 1,
            (_, Some(_)) => return Err(FrameError::Interleaved),
            (opcode, None) => {
                self.message = Some((opcode, head.is_compressed));
                self.seen.fragments += u64::from(!head.is_final);
            }
        }
        if head.payload_bytes > (self.limit_bytes - self.data.len()) as u64 {
            return Err(FrameError::MessageLength { limit_bytes: self.limit_bytes });
        }
        Ok(())
    }

    /// Whether a frame is a whole message, and all of it is in the input as it is to be read.
    fn is_message_in(&self, head: &Head, input: &[u8]) -> bool {
        head.mask.is_none()
            && head.is_final
            && !head.is_compressed
            && matches!(head.opcode, Opcode::Text | Opcode::Binary)
            && self.frame.is_some_and(|open| open.done_bytes == 0)
            && head.payload_bytes <= input.len() as u64
    }

    fn whole<'i>(&mut self, head: Head, input: &mut &'i [u8]) -> Result<Event<'i>, FrameError> {
        let (payload, rest) = input.split_at(head.payload_bytes as usize);
        *input = rest;
        self.frame = None;
        self.message = None;
        self.seen.flow.messages += 1;
        message(head.opcode, payload)
    }

    /// Takes what there is of the payload; whether it is complete.
    fn take_payload(&mut self, input: &mut &[u8]) -> bool {
        let Some(open) = &mut self.frame else { return false };
        let count = open.missing_bytes().min(input.len());
        let (piece, rest) = input.split_at(count);
        *input = rest;
        let into = if open.head.opcode.is_control() { &mut self.control } else { &mut self.data };
        match open.head.mask {
            Some(key) if units::planted(units::Bug::MaskBeginsAnew) => append_masked(into, piece, key, 0),
            Some(key) => append_masked(into, piece, key, open.done_bytes),
            None => into.extend_from_slice(piece),
        }
        open.done_bytes += count;
        open.missing_bytes() == 0
    }

    fn control_event(&mut self, opcode: Opcode) -> Result<Event<'_>, FrameError> {
        debug_assert!(self.control.len() <= CONTROL_BYTES_MAX);
        match opcode {
            Opcode::Ping => {
                self.seen.pings += 1;
                Ok(Event::Ping(&self.control))
            }
            Opcode::Pong => {
                self.seen.pongs += 1;
                Ok(Event::Pong)
            }
            _ => close_event(&self.control),
        }
    }

    /// All fragments of a message are there.
    fn complete(&mut self) -> Result<Event<'_>, FrameError> {
        let (opcode, is_compressed) = self.message.take().ok_or(FrameError::NothingToContinue)?;
        self.is_delivered = true;
        self.is_used = true;
        self.seen.flow.messages += 1;
        match &mut self.inflater {
            Some(inflater) if is_compressed => {
                let text = inflater.inflate(&self.data, self.limit_bytes)?;
                self.seen.compressed_messages += 1;
                self.seen.flow.compressed_bytes += self.data.len() as u64;
                self.seen.flow.expanded_bytes += text.len() as u64;
                message(opcode, text)
            }
            _ => message(opcode, &self.data),
        }
    }
}

impl Memory for Reader {
    fn memory_bytes(&self) -> usize {
        let inflater = self.inflater.as_ref().map_or(0, Inflater::memory_bytes);
        self.data.capacity() + self.control.capacity() + inflater
    }
}

fn message(opcode: Opcode, data: &[u8]) -> Result<Event<'_>, FrameError> {
    Ok(Event::Message(if opcode == Opcode::Binary {
        Message::Binary(data)
    } else {
        Message::Text(std::str::from_utf8(data).map_err(|_| FrameError::Utf8)?)
    }))
}

/// A close frame: empty, or a code and a reason in UTF-8.
fn close_event(payload: &[u8]) -> Result<Event<'static>, FrameError> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return match payload {
            [] => Ok(Event::Close { code: None }),
            _ => Err(FrameError::CloseCode { code: None }),
        };
    };
    let code = u16::from_be_bytes(*code);
    if !close_code::may_be_sent(code) {
        return Err(FrameError::CloseCode { code: Some(code) });
    }
    std::str::from_utf8(reason).map_err(|_| FrameError::Utf8)?;
    Ok(Event::Close { code: Some(code) })
}
