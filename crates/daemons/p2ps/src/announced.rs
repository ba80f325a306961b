//! Messages between the moment when the core is told of them and their turn.

use market::MESSAGES_AHEAD;
use market::p2ps::SourceId;

/// The last few messages that the core was told of, in order.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    slots: [(SourceId, Vec<u8>); MESSAGES_AHEAD],
    /// Where the oldest is.
    first: usize,
    len: usize,
}

impl Announced {
    /// Longer messages are not announced: a copy of them would cost more than it saves.
    pub(crate) const BYTES_MAX: usize = 2_048;

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len == MESSAGES_AHEAD
    }

    /// Adds a message. If it is full, the message is lost.
    #[inline]
    pub(crate) fn put(&mut self, source: SourceId, message: &[u8]) {
        debug_assert!(!self.is_full());
        let at = (self.first + self.len) % MESSAGES_AHEAD;
        let (its_source, bytes) = &mut self.slots[at];
        *its_source = source;
        bytes.clear();
        bytes.extend_from_slice(message);
        self.len += 1;
    }

    /// Hands on the oldest; false if there is none.
    #[inline]
    pub(crate) fn take(&mut self, act: impl FnOnce(SourceId, &[u8])) -> bool {
        if self.len == 0 {
            return false;
        }
        let (source, bytes) = &self.slots[self.first];
        act(*source, bytes);
        self.first = (self.first + 1) % MESSAGES_AHEAD;
        self.len -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_in_the_order_in_which_they_went_in() {
        let (mut announced, mut taken) = (Announced::default(), Vec::new());
        for n in 0..20u32 {
            if announced.is_full() {
                assert!(announced.take(|source, bytes| taken.push((source, bytes.to_vec()))));
            }
            announced.put(SourceId(n), &vec![n as u8; n as usize]);
        }
        while announced.take(|source, bytes| taken.push((source, bytes.to_vec()))) {}
        let expected: Vec<_> = (0..20u32).map(|n| (SourceId(n), vec![n as u8; n as usize])).collect();
        assert_eq!(taken, expected);
        assert!(!announced.is_full() && announced.len == 0);
    }
}
