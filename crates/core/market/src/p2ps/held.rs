//! Messages that the image of an item may lack when it comes.

use std::collections::VecDeque;

use crate::backbone::Kind;

/// Number, kind and bytes of a message.
pub(super) type HeldMessage = (u64, Kind, Box<[u8]>);

/// Stream messages of one item that came while its image was on its way.
#[derive(Debug, Default)]
pub(super) struct Held {
    messages: VecDeque<HeldMessage>,
    bytes: usize,
    /// The highest number that was dropped for want of room: an older image is of no use.
    dropped: u64,
}

impl Held {
    /// Keeps a message, or drops all if they would be more than `bytes_max`. Returns whether it was kept.
    pub(super) fn push(&mut self, sequence: u64, kind: Kind, body: &[u8], bytes_max: usize) -> bool {
        if self.bytes + body.len() > bytes_max {
            self.messages.clear();
            self.bytes = 0;
            self.dropped = sequence;
            return false;
        }
        self.bytes += body.len();
        self.messages.push_back((sequence, kind, body.into()));
        true
    }

    /// Keeps the newest messages, of `bytes_max` at most.
    pub(super) fn push_newest(&mut self, sequence: u64, kind: Kind, body: &[u8], bytes_max: usize) {
        self.bytes += body.len();
        self.messages.push_back((sequence, kind, body.into()));
        while self.bytes > bytes_max
            && let Some((sequence, _, body)) = self.messages.pop_front()
        {
            self.bytes -= body.len();
            self.dropped = sequence;
        }
    }

    /// Whether an image taken after `sequence` has everything that was dropped.
    pub(super) fn fits(&self, sequence: u64) -> bool {
        sequence >= self.dropped
    }

    /// The messages behind an image, oldest first.
    pub(super) fn take_after(&mut self, sequence: u64) -> impl Iterator<Item = HeldMessage> + use<> {
        let all = std::mem::take(&mut self.messages);
        self.clear();
        all.into_iter().filter(move |(s, _, _)| *s > sequence)
    }

    fn clear(&mut self) {
        *self = Held::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped_and_asks_for_a_later_image() {
        let mut held = Held::default();
        assert!(held.push(5, Kind::Update, b"12345", 8));
        assert!(held.fits(3));
        assert!(!held.push(6, Kind::Update, b"6789", 8));
        assert!(held.push(7, Kind::Update, b"7", 8));
        assert!(!held.fits(5));
        assert!(held.fits(6));
        let after: Vec<_> = held.take_after(6).map(|(s, _, b)| (s, b)).collect();
        assert_eq!(after, [(7, b"7".as_slice().into())]);
        assert!(held.fits(0), "nothing is held any more");
    }

    #[test]
    fn of_too_many_the_newest_are_kept() {
        let mut held = Held::default();
        for sequence in 1..=5 {
            held.push_newest(sequence, Kind::Update, b"1234", 10);
        }
        assert!(!held.fits(2) && held.fits(3));
        assert_eq!(held.take_after(4).map(|(s, _, _)| s).collect::<Vec<_>>(), [5]);
        held.push_newest(6, Kind::Update, b"12345678901", 10);
        assert!(!held.fits(5) && held.fits(6), "one that is too long is not kept");
    }

    #[test]
    fn messages_up_to_the_image_are_not_used_again() {
        let mut held = Held::default();
        for sequence in 1..=5 {
            held.push(sequence, Kind::Update, b"x", 100);
        }
        assert_eq!(held.take_after(3).map(|(s, _, _)| s).collect::<Vec<_>>(), [4, 5]);
    }
}
