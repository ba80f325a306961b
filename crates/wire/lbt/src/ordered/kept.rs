use super::source::{Room, Slot};
use std::ops::{Deref, DerefMut};

/// A room of which the messages may be kept aside as well, until they are [taken](Kept::take): for who
/// [retains](crate::recovery::Responder::retain) them.
///
/// Until [`Kept::keep`] it is the room and nothing else.
pub struct Kept<R> {
    room: R,
    messages: Vec<u8>,
    /// Bytes with which it is full; never reached if nothing is kept.
    bytes_max: usize,
}

/// What a room that keeps nothing is never full with.
const NOTHING: usize = usize::MAX;

impl<R> Kept<R> {
    /// A room that keeps nothing.
    pub fn new(room: R) -> Kept<R> {
        Kept { room, messages: Vec::new(), bytes_max: NOTHING }
    }

    /// Keeps messages from now on. No more are accepted once `bytes_max` bytes wait to be taken; only one in
    /// fragments may go beyond.
    pub fn keep(&mut self, bytes_max: usize) {
        if self.bytes_max == NOTHING {
            self.bytes_max = bytes_max;
            self.messages.reserve(bytes_max + crate::wire::lbmc::MESSAGE_LEN_MAX);
        }
    }

    /// Gives `each` the LBMC messages that were written since the last time.
    pub fn take(&mut self, each: impl FnOnce(&[u8])) {
        if !self.messages.is_empty() {
            each(&self.messages);
            self.messages.clear();
        }
    }
}

impl<R> Deref for Kept<R> {
    type Target = R;

    #[inline]
    fn deref(&self) -> &R {
        &self.room
    }
}

impl<R> DerefMut for Kept<R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut R {
        &mut self.room
    }
}

impl<R: Room> Room for Kept<R> {
    type Slot<'a>
        = KeptSlot<'a, R>
    where
        R: 'a;

    #[inline]
    fn is_blocked(&self) -> bool {
        self.room.is_blocked() || self.messages.len() >= self.bytes_max
    }

    #[inline]
    fn slot(&mut self, len: usize) -> Option<KeptSlot<'_, R>> {
        let kept = (self.bytes_max != NOTHING).then_some(&mut self.messages);
        self.room.slot(len).map(|slot| KeptSlot { slot, kept })
    }

    fn can_hold(&self, count: usize, len: usize) -> bool {
        self.room.can_hold(count, len)
    }
}

/// Room for one message of a [`Kept`].
pub struct KeptSlot<'a, R: Room + 'a> {
    slot: R::Slot<'a>,
    kept: Option<&'a mut Vec<u8>>,
}

impl<R: Room> Slot for KeptSlot<'_, R> {
    #[inline]
    fn bytes(&mut self) -> &mut [u8] {
        self.slot.bytes()
    }

    #[inline]
    fn commit(mut self) {
        if let Some(kept) = self.kept {
            kept.extend_from_slice(self.slot.bytes());
        }
        self.slot.commit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordered::Backlog;

    fn write(room: &mut Kept<Backlog>, byte: u8) {
        let mut slot = room.slot(3).expect("there is room");
        slot.bytes().fill(byte);
        slot.commit();
    }

    fn taken(room: &mut Kept<Backlog>) -> Vec<u8> {
        let mut all = Vec::new();
        room.take(|messages| all.extend_from_slice(messages));
        all
    }

    #[test]
    fn what_is_committed_is_kept_once_and_what_is_dropped_is_not() {
        let mut room = Kept::new(Backlog::new(1_000, 1_000));
        write(&mut room, 1);
        assert_eq!(taken(&mut room), [], "nobody wanted it kept");
        room.keep(6);
        write(&mut room, 2);
        room.slot(3).expect("there is room").bytes().fill(9);
        write(&mut room, 3);
        assert!(room.is_blocked(), "as much waits as may");
        assert_eq!(room.waiting_bytes(), 9, "it is written all the same");
        assert_eq!(taken(&mut room), [2, 2, 2, 3, 3, 3]);
        assert!(!room.is_blocked());
        assert_eq!(taken(&mut room), []);
    }
}
