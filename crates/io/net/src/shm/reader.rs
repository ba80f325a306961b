//! The reading side of a ring.

use std::fmt;
use std::sync::Arc;

use super::bytes;
use super::layout::{Geometry, HEADER_BYTES, Header, NO_FRAME, frame_bytes};
use super::region::Region;
use super::slots;
use super::sync::{Acquire, Relaxed, Release, SeqCst, fence};

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What the source put beside it.
    pub tag: u32,
    /// The message.
    pub bytes: &'a [u8],
}

/// A part of the stream that a receiver has not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Bytes of the ring, headers and padding included.
    pub bytes: u64,
    /// Messages; `None` when the receiver has not been there for a whole segment yet and cannot know.
    pub messages: Option<u64>,
}

/// Why there are no more messages, or not the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The source has overtaken this receiver; reading goes on behind what was missed.
    Lapped(Missed),
    /// The source has dropped this receiver, which had stopped for too long. Nothing more comes.
    Dropped,
    /// The ring holds what no source writes. Nothing more comes.
    Nonsense {
        /// Where in the stream.
        position: u64,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Lapped(Missed { bytes, messages: Some(messages) }) => {
                write!(
                    f,
                    "the source has overtaken this receiver: {messages} messages, {bytes} bytes are missed"
                )
            }
            ReadError::Lapped(Missed { bytes, messages: None }) => {
                write!(f, "the source has overtaken this receiver: {bytes} bytes are missed")
            }
            ReadError::Dropped => {
                f.write_str("the source has dropped this receiver, which had stopped for too long")
            }
            ReadError::Nonsense { position } => {
                write!(f, "at position {position} the ring holds what no source writes")
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// How a reader keeps out of the source's way.
pub(super) enum Place {
    /// The source waits for this slot; the word is its owner's.
    Slot { index: usize, word: u64 },
    /// The source does not wait: messages are copied here first.
    Copies(Box<[u64]>),
}

impl Place {
    /// Room for copies of the longest message.
    pub(super) fn copies(geometry: Geometry) -> Place {
        Place::Copies(vec![0; geometry.segment_bytes() as usize / 8].into_boxed_slice())
    }
}

/// One reader of a ring.
pub(super) struct Reader {
    place: Place,
    cursor: Cursor,
}

impl Reader {
    /// A reader that begins at `position`, a place between two messages; at one that no source comes to it
    /// fails with the first look.
    pub(super) fn new(region: Arc<Region>, place: Place, position: u64) -> Reader {
        let geometry = region.geometry();
        let failed = (!is_sane(position)).then_some(ReadError::Nonsense { position });
        let position = if failed.is_none() { position } else { 0 };
        let knows_frames = position == 0;
        let cursor =
            Cursor { region, geometry, position, segment_end: position, frames: 0, knows_frames, failed };
        Reader { place, cursor }
    }

    /// Hands up to `max` messages to `handle`, oldest first. Returns how many.
    ///
    /// # Errors
    /// [`ReadError`], when there is no message before what it speaks of.
    #[inline]
    pub(super) fn poll(&mut self, max: usize, handle: impl FnMut(Frame<'_>)) -> Result<usize, ReadError> {
        let Reader { place, cursor } = self;
        if let Some(error) = cursor.failed {
            return Err(error);
        }
        // Most messages reach into the next line: fetched one after the other they would take twice as long.
        cursor.region.prefetch_behind(cursor.position);
        match place {
            Place::Slot { index, word } => cursor.poll_in_place(*index, *word, max, handle),
            Place::Copies(copy) => cursor.poll_copying(copy, max, handle),
        }
    }

    /// Bytes of the stream before the next message.
    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.cursor.position
    }

    /// Whether there is anything behind the position at this moment. Orders nothing: who reads looks again.
    pub(super) fn has_more(&self) -> bool {
        let Cursor { region, position, segment_end, .. } = &self.cursor;
        region.control().published.0.load(Relaxed) > *position
            || position != segment_end && region.header_relaxed(*position) != NO_FRAME
    }

    /// Whether the source has ended the stream. [`Reader::has_more`] then sees all that it has published.
    pub(super) fn has_closed(&self) -> bool {
        self.cursor.region.control().source.closed.load(Acquire) != 0
    }

    pub(super) fn region(&self) -> &Arc<Region> {
        &self.cursor.region
    }
}

/// Whether a position, read where others may write anything, is one of a source: between words, and no further
/// than any stream gets.
fn is_sane(position: u64) -> bool {
    position.is_multiple_of(HEADER_BYTES) && position < 1 << 62
}

/// Where a reader is.
struct Cursor {
    region: Arc<Region>,
    geometry: Geometry,
    /// Everything before it was handed out.
    position: u64,
    /// The end of the segment that was entered last; `position` before the first.
    segment_end: u64,
    /// Messages before `position`, where copies are made.
    frames: u64,
    /// Whether `frames` is right: since the start of the stream, or since a segment was entered at its start.
    knows_frames: bool,
    failed: Option<ReadError>,
}

/// What came of looking for a segment to read.
enum Entered {
    Yes,
    NothingThere,
    Overtaken,
}

impl Cursor {
    #[inline]
    fn poll_in_place(
        &mut self,
        index: usize,
        word: u64,
        max: usize,
        mut handle: impl FnMut(Frame<'_>),
    ) -> Result<usize, ReadError> {
        let (mut count, start) = (0, self.position);
        while count < max {
            if self.position == self.segment_end && !self.enter_in_place(index, word) {
                break;
            }
            let header = self.region.header(self.position);
            if header == NO_FRAME {
                break;
            }
            let header = Header::parse(header);
            let frame = frame_bytes(header.bytes);
            if frame > self.segment_end - self.position {
                self.fail();
                break;
            }
            let at = self.position + HEADER_BYTES;
            self.position += frame;
            if header.is_padding {
                continue;
            }
            count += 1;
            // SAFETY: the frame was just found to lie before `segment_end`, so within one segment, and its
            // header to be there, which is written when the frame is published. This reader was active after
            // it had said that it enters the segment, and has said nothing since.
            unsafe {
                self.region.with_message(at, header.bytes as usize, |bytes| {
                    handle(Frame { tag: header.tag, bytes });
                });
            }
        }
        if self.position != start {
            self.region.control().slots[index].position.store(self.position, Release);
        }
        if count == 0 { self.failed.map_or(Ok(0), Err) } else { Ok(count) }
    }

    /// Enters the segment at the position if anything in it is published. Says where this reader is before it
    /// touches anything there: `slots` has the reason of this order.
    #[cold]
    fn enter_in_place(&mut self, index: usize, word: u64) -> bool {
        let slot = &self.region.control().slots[index];
        // The fence below makes an acquire of this, before any header of the segment is looked at.
        if self.region.control().published.0.load(Relaxed) <= self.position {
            return false;
        }
        slot.position.store(self.position, Release);
        fence(SeqCst);
        if !slots::is_mine(slot, word) {
            self.failed = Some(ReadError::Dropped);
            return false;
        }
        self.segment_end = self.geometry.segment_end(self.position);
        true
    }

    #[cold]
    fn fail(&mut self) {
        self.failed = Some(ReadError::Nonsense { position: self.position });
    }

    /// Copies each message out, and hands it on when it was not overwritten meanwhile.
    #[inline]
    fn poll_copying(
        &mut self,
        copy: &mut [u64],
        max: usize,
        mut handle: impl FnMut(Frame<'_>),
    ) -> Result<usize, ReadError> {
        let mut count = 0;
        while count < max {
            if self.position == self.segment_end {
                match self.enter_copying() {
                    Entered::Yes => {}
                    Entered::Overtaken if count == 0 => return Err(self.catch_up()),
                    Entered::NothingThere | Entered::Overtaken => break,
                }
            }
            let word = self.region.header(self.position);
            let header = Header::parse(word);
            let frame = frame_bytes(header.bytes);
            let fits = frame <= self.segment_end - self.position;
            let words = if fits && !header.is_padding { header.bytes.div_ceil(8) as usize } else { 0 };
            let copied = &mut copy[..words];
            self.region.copy_out(self.position + HEADER_BYTES, copied);
            if self.is_overtaken() {
                if count == 0 {
                    return Err(self.catch_up());
                }
                break;
            }
            if !fits {
                if word != NO_FRAME {
                    self.fail();
                }
                break;
            }
            self.position += frame;
            if header.is_padding {
                continue;
            }
            self.frames = self.frames.wrapping_add(1);
            count += 1;
            handle(Frame { tag: header.tag, bytes: &bytes::of(copied)[..header.bytes as usize] });
        }
        if count == 0 { self.failed.map_or(Ok(0), Err) } else { Ok(count) }
    }

    /// Whether what was read at the position before this call may have been something else: the fence pairs
    /// with the one between the source's store to `reserved` and its writing.
    #[inline]
    fn is_overtaken(&self) -> bool {
        fence(Acquire);
        let reserved = self.region.control().source.reserved.load(Relaxed);
        reserved.saturating_sub(self.geometry.ring_bytes()) > self.position
    }

    /// Enters the segment at the position if anything in it is published.
    #[cold]
    fn enter_copying(&mut self) -> Entered {
        if self.region.control().published.0.load(Acquire) <= self.position {
            return Entered::NothingThere;
        }
        let before = self.frames_before(self.position);
        if self.is_overtaken() {
            return Entered::Overtaken;
        }
        if self.position & (self.geometry.segment_bytes() - 1) == 0 {
            (self.frames, self.knows_frames) = (before, true);
        }
        self.segment_end = self.geometry.segment_end(self.position);
        Entered::Yes
    }

    fn frames_before(&self, segment_start: u64) -> u64 {
        self.region.control().segment_frames[self.geometry.segment(segment_start)].load(Relaxed)
    }

    /// Goes on in the middle of what the ring still holds: as much before the next loss as behind this one.
    #[cold]
    fn catch_up(&mut self) -> ReadError {
        let (old, old_frames) = (self.position, self.knows_frames.then_some(self.frames));
        loop {
            let reserved = self.region.control().source.reserved.load(Acquire);
            let middle = reserved.saturating_sub(self.geometry.ring_bytes() / 2);
            self.position = middle & !(self.geometry.segment_bytes() - 1);
            self.frames = self.frames_before(self.position);
            if !self.is_overtaken() {
                break;
            }
        }
        (self.segment_end, self.knows_frames) = (self.position, true);
        if self.position <= old || !is_sane(self.position) {
            let error = ReadError::Nonsense { position: old };
            (self.position, self.segment_end, self.failed) = (old, old, Some(error));
            return error;
        }
        let messages = old_frames.map(|before| self.frames.wrapping_sub(before));
        ReadError::Lapped(Missed { bytes: self.position - old, messages })
    }
}
