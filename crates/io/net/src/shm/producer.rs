//! The writing side of a ring.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use super::layout::{
    Geometry, HEADER_BYTES, NO_FRAME, SEGMENT_COUNT, frame_bytes, message_header, padding_header,
};
use super::region::Region;
use super::slots::{self, SlotState};
use super::sync::{Relaxed, Release, SeqCst, fence};

/// Why nothing was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// A receiver has not read what would be overwritten. What was committed has been published.
    Full,
    /// Longer than the ring ever takes.
    TooLong {
        /// Bytes of the message.
        bytes: usize,
        /// The most a message of this ring may have.
        max: usize,
    },
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimError::Full => f.write_str("the slowest receiver has not read what would be overwritten"),
            ClaimError::TooLong { bytes, max } => {
                write!(f, "a message of {bytes} bytes: up to {max} fit into a segment of the ring")
            }
        }
    }
}

impl std::error::Error for ClaimError {}

/// One writer of a ring.
pub(super) struct Producer {
    region: Arc<Region>,
    geometry: Geometry,
    /// Everything before it is committed.
    written: u64,
    /// The end of the segment that was entered last; `written` when none is open.
    room_end: u64,
    published: u64,
    /// The header at `published`, which is written last: it is what shows the frames behind it.
    first_header: u64,
    frames: u64,
    is_receiver_paced: bool,
    looks_for_sleepers: bool,
    /// Slots whose receivers must be woken.
    wakes: u64,
    segments_skipped: u64,
    refused: u64,
    /// Where claims are filled when that must not happen in place.
    staging: Box<[u64]>,
}

impl Producer {
    pub(super) fn new(region: Arc<Region>, is_receiver_paced: bool) -> Producer {
        let geometry = region.geometry();
        let stages = !is_receiver_paced || cfg!(loom);
        let staging_words = if stages { geometry.segment_bytes() / 8 } else { 0 };
        Producer {
            region,
            geometry,
            written: 0,
            room_end: 0,
            published: 0,
            first_header: NO_FRAME,
            frames: 0,
            is_receiver_paced,
            looks_for_sleepers: false,
            wakes: 0,
            segments_skipped: 0,
            refused: 0,
            staging: vec![0; staging_words as usize].into_boxed_slice(),
        }
    }

    /// Room for a message of `bytes`, to be filled and committed.
    ///
    /// # Errors
    /// [`ClaimError`]; what was committed before stays.
    #[inline]
    pub(super) fn claim(&mut self, bytes: usize, tag: u32) -> Result<Claim<'_>, ClaimError> {
        if frame_bytes(bytes as u64) > self.room_end - self.written {
            self.make_room(bytes)?;
        }
        self.region.prefetch_room_behind(self.written);
        Ok(Claim { start: self.room(), bytes, tag, producer: self })
    }

    /// Where the next message is filled.
    #[inline]
    fn room(&mut self) -> NonNull<u8> {
        #[cfg(not(loom))]
        if self.is_receiver_paced {
            return self.region.at(self.written + HEADER_BYTES);
        }
        NonNull::from(&mut *self.staging).cast()
    }

    /// Shows everything committed to receivers. Returns whether there was anything.
    #[inline]
    pub(super) fn publish(&mut self) -> bool {
        if self.published == self.written {
            return false;
        }
        if self.written != self.room_end {
            self.region.set_header(self.written, NO_FRAME);
        }
        self.region.publish_header(self.published, self.first_header);
        self.published = self.written;
        let control = self.region.control();
        control.published.0.store(self.written, Release);
        if control.wake_wanted.0.load(Relaxed) != 0 {
            self.look_for_sleepers();
        }
        true
    }

    /// Takes the receivers that sleep off the list and remembers to wake them.
    ///
    /// `sleep` says why one of the two sees the other. A receiver only relies on that once
    /// `looks_for_sleepers` tells it that this publication and every later one come this way.
    #[cold]
    fn look_for_sleepers(&mut self) {
        let control = self.region.control();
        if !self.looks_for_sleepers {
            self.looks_for_sleepers = true;
            control.source.looks_for_sleepers.store(1, Relaxed);
        }
        fence(SeqCst);
        let sleepers = control.sleepers.0.load(Relaxed);
        if sleepers != 0 {
            self.wakes |= control.sleepers.0.fetch_and(!sleepers, Relaxed) & sleepers;
        }
    }

    /// Takes the slots whose receivers must be woken, one bit each.
    #[inline]
    pub(super) fn take_wakes(&mut self) -> u64 {
        std::mem::take(&mut self.wakes)
    }

    /// Ends the stream behind what is committed.
    pub(super) fn close(&mut self) {
        self.publish();
        let control = self.region.control();
        control.source.closed.store(1, Release);
        if control.wake_wanted.0.load(Relaxed) != 0 {
            self.look_for_sleepers();
        }
    }

    /// Messages committed so far.
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// Bytes committed so far, with headers and padding.
    pub(super) fn position(&self) -> u64 {
        self.written
    }

    /// Segments left out because a dropped receiver may still look at them.
    pub(super) fn segments_skipped(&self) -> u64 {
        self.segments_skipped
    }

    /// Claims refused because a receiver was in the way.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// The longest message, bytes.
    pub(super) fn message_max_bytes(&self) -> usize {
        self.geometry.message_max_bytes() as usize
    }

    pub(super) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Whether a receiver at `position` stands in the way of the next segment. One that is joining may say a
    /// position that the ring has long left: it is waited for until it says where it begins, which is not
    /// known before. Nobody is ahead of what was written.
    pub(super) fn is_held_up_by(&self, position: u64) -> bool {
        let room = self.geometry.ring_bytes() - self.geometry.segment_bytes();
        self.written == self.room_end && self.written.checked_sub(position).is_some_and(|lag| lag > room)
    }

    /// Whether no receiver is in the way of the next message, so that a claim that was refused may be tried again.
    /// Costs a look at each receiver.
    pub(super) fn has_room(&self) -> bool {
        let mut all = slots::all(self.region.control());
        let stands_in_way = |slot| match slots::look(slot) {
            SlotState::Active { position, .. } => self.is_held_up_by(position),
            SlotState::Dropped { .. } | SlotState::Free => false,
        };
        !self.is_receiver_paced || !all.any(|(_, slot)| stands_in_way(slot))
    }

    #[cold]
    fn make_room(&mut self, bytes: usize) -> Result<(), ClaimError> {
        if bytes as u64 > self.geometry.message_max_bytes() {
            return Err(ClaimError::TooLong { bytes, max: self.message_max_bytes() });
        }
        if self.written != self.room_end {
            self.pad_to(self.room_end);
        }
        self.publish();
        let is_entered = if self.is_receiver_paced { self.enter_when_read() } else { self.enter_at_once() };
        self.refused += u64::from(!is_entered);
        if is_entered { Ok(()) } else { Err(ClaimError::Full) }
    }

    fn pad_to(&mut self, end: u64) {
        self.append(padding_header(end - self.written), end - self.written);
    }

    /// Ends a frame. The header of the first one behind what was published waits for the next publication.
    #[inline]
    fn append(&mut self, header: u64, frame_bytes: u64) {
        if self.written == self.published {
            self.first_header = header;
        } else {
            self.region.set_header(self.written, header);
        }
        self.written += frame_bytes;
    }

    /// Enters the next segment if every receiver has left it, going around those that dropped receivers may
    /// still look at. All that is committed must be published: see `slots`.
    fn enter_when_read(&mut self) -> bool {
        for _ in 0..SEGMENT_COUNT {
            fence(SeqCst);
            let next = self.geometry.segment(self.written);
            let mut is_pinned = false;
            for (_, slot) in slots::all(self.region.control()) {
                match slots::look(slot) {
                    SlotState::Active { position, .. } if self.is_held_up_by(position) => return false,
                    SlotState::Dropped { position, .. } => {
                        is_pinned |= self.geometry.segment(position) == next
                    }
                    SlotState::Active { .. } | SlotState::Free => {}
                }
            }
            self.region.control().segment_frames[next].store(self.frames, Relaxed);
            let end = self.written + self.geometry.segment_bytes();
            if !is_pinned {
                self.room_end = end;
                return true;
            }
            self.room_end = end;
            self.pad_to(end);
            self.segments_skipped += 1;
            self.publish();
        }
        false
    }

    /// Enters the next segment and says so before anything in it is overwritten: the fence pairs with the one
    /// behind which a receiver looks at `reserved`.
    fn enter_at_once(&mut self) -> bool {
        let control = self.region.control();
        self.room_end = self.written + self.geometry.segment_bytes();
        control.source.reserved.store(self.room_end, Release);
        fence(Release);
        control.segment_frames[self.geometry.segment(self.written)].store(self.frames, Relaxed);
        true
    }

    #[inline]
    fn commit(&mut self, bytes: usize, tag: u32) {
        let words = (bytes as u64).div_ceil(8) as usize;
        if !self.is_receiver_paced || cfg!(loom) {
            self.copy_staging(words);
        }
        self.append(message_header(bytes as u64, tag), frame_bytes(bytes as u64));
        self.frames += 1;
    }

    #[inline]
    fn copy_staging(&self, words: usize) {
        let at = self.written + HEADER_BYTES;
        #[cfg(loom)]
        if self.is_receiver_paced {
            return self.region.fill(at, &self.staging[..words]);
        }
        self.region.copy_in(at, &self.staging[..words]);
    }
}

/// Room for one message. Dropping it gives the room back as if nothing had been claimed.
pub struct Claim<'a> {
    start: NonNull<u8>,
    bytes: usize,
    tag: u32,
    producer: &'a mut Producer,
}

impl Claim<'_> {
    /// The message is complete; the next publication shows it.
    #[inline]
    pub fn commit(self) {
        self.producer.commit(self.bytes, self.tag);
    }

    /// The message is complete with its first `bytes`, of those claimed at most.
    #[inline]
    pub fn commit_first(self, bytes: usize) {
        self.producer.commit(bytes.min(self.bytes), self.tag);
    }
}

impl Deref for Claim<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `claim` has found these bytes, in the segment that was entered and not published or in the
        // staging room. They are initialised, and the claim borrows the only one who may touch them.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Claim<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}
