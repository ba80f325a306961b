//! What came behind a gap.

use std::collections::VecDeque;

use units::Nanos;

use crate::backbone::StreamMsg;

/// What came since the first gap that is not answered yet, in order; or since one whose messages are not all released.
#[derive(Debug, Default)]
pub(super) struct Behind {
    entries: VecDeque<Entry>,
    /// Of messages.
    bytes: usize,
    /// How many.
    messages: u64,
}

#[derive(Debug)]
enum Entry {
    /// Numbers from `first` to `last` are missing here. Without an answer by then, every item is taken as concerned.
    Gap { first: u64, last: u64, answer_until: Nanos },
    /// Stream messages.
    Messages(Segment),
}

/// What was lost of a stream since operators were notified last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unreported {
    pub(super) gaps: u64,
    pub(super) messages: u64,
}

/// Messages in one piece of memory, each behind its length: a million of them are given back at once.
#[derive(Debug, Default)]
pub(super) struct Segment {
    bytes: Vec<u8>,
    read: usize,
}

const SEGMENT_BYTES: usize = 256 << 10;

const LENGTH_BYTES: usize = 4;

impl Segment {
    fn put(&mut self, message: &[u8]) {
        self.bytes.extend_from_slice(&(message.len() as u32).to_ne_bytes());
        self.bytes.extend_from_slice(message);
    }

    pub(super) fn first(&self) -> Option<&[u8]> {
        let (length, rest) = self.bytes.get(self.read..)?.split_first_chunk::<LENGTH_BYTES>()?;
        rest.get(..u32::from_ne_bytes(*length) as usize)
    }

    /// Passes over a message.
    pub(super) fn skip(&mut self, length: usize) {
        self.read += LENGTH_BYTES + length;
    }

    pub(super) fn is_read(&self) -> bool {
        self.read >= self.bytes.len()
    }
}

impl Behind {
    /// Whether messages have to wait.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Drops what waits; returns how many messages.
    pub(super) fn clear(&mut self) -> u64 {
        std::mem::take(self).messages
    }

    /// How many messages wait.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    fn push(&mut self, message: &[u8]) {
        self.bytes += message.len();
        self.messages += 1;
        match self.entries.back_mut() {
            Some(Entry::Messages(last))
                if last.bytes.len() + LENGTH_BYTES + message.len() <= SEGMENT_BYTES =>
            {
                last.put(message);
            }
            _ => {
                let mut segment = Segment::default();
                segment.put(message);
                self.entries.push_back(Entry::Messages(segment));
            }
        }
    }

    /// Keeps a message, unless more than `bytes_max` would be kept. Returns whether it was.
    pub(super) fn keep(&mut self, message: &[u8], bytes_max: usize) -> bool {
        let has_room = self.bytes + message.len() <= bytes_max;
        if has_room {
            self.push(message);
        }
        has_room
    }

    /// Numbers are missing, both ends included.
    pub(super) fn begin_gap(&mut self, (first, last): (u64, u64), answer_until: Nanos) {
        self.entries.push_back(Entry::Gap { first, last, answer_until });
    }

    /// The gap up to `last` is answered. Returns whether it was the next one.
    pub(super) fn end_gap(&mut self, last: u64) -> bool {
        let is_next = self.front_gap().is_some_and(|(front, _)| front == last);
        if is_next {
            self.entries.pop_front();
        }
        is_next
    }

    /// Whether messages are next, and no gap.
    pub(super) fn has_messages_next(&self) -> bool {
        matches!(self.entries.front(), Some(Entry::Messages(_)))
    }

    /// A message of so many bytes was taken from a segment.
    pub(super) fn note_taken(&mut self, length: usize) {
        self.bytes = self.bytes.saturating_sub(length);
        self.messages = self.messages.saturating_sub(1);
    }

    /// Gives back what is left of the messages that were next.
    pub(super) fn give_back(&mut self, segment: Segment) {
        self.entries.push_front(Entry::Messages(segment));
    }

    /// The gap whose answer is the next.
    pub(super) fn front_gap(&self) -> Option<(u64, Nanos)> {
        match self.entries.front() {
            Some(&Entry::Gap { last, answer_until, .. }) => Some((last, answer_until)),
            Some(Entry::Messages(_)) | None => None,
        }
    }

    /// The first number of what waits: that of the next message, or of the gap before it.
    pub(super) fn first_number(&self) -> Option<u64> {
        match self.entries.front()? {
            Entry::Gap { first, .. } => Some(*first),
            Entry::Messages(_) => self.next_sequence(),
        }
    }

    /// The number of the next message, if no gap is before it.
    pub(super) fn next_sequence(&self) -> Option<u64> {
        let Some(Entry::Messages(segment)) = self.entries.front() else { return None };
        segment.first().and_then(|message| StreamMsg::parse(message).ok()).map(|msg| msg.sequence)
    }

    /// The next messages, if no gap is before them.
    pub(super) fn take_segment(&mut self) -> Option<Segment> {
        let Some(Entry::Messages(segment)) = self.entries.front_mut() else { return None };
        let segment = std::mem::take(segment);
        self.entries.pop_front();
        Some(segment)
    }
}
