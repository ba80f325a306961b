//! How many bytes a stream has sent, and had sent at its numbers.

use std::collections::VecDeque;

/// The window has so many marks; a position between two counts as the lower one.
const MARKS_IN_WINDOW: u64 = 64;

/// Positions are told apart as far back as this many windows.
const WINDOWS_MARKED: u64 = 4;

/// How many bytes one stream has sent, and had sent at some of its numbers.
#[derive(Debug)]
pub(super) struct Outflow {
    pub(super) bytes: u64,
    last: u64,
    /// Number and bytes, both with the message that the number is of.
    marks: VecDeque<(u64, u64)>,
    next_mark: u64,
    spacing: u64,
}

impl Outflow {
    pub(super) fn new(window_bytes: u64) -> Outflow {
        let spacing = if window_bytes == 0 { u64::MAX } else { (window_bytes / MARKS_IN_WINDOW).max(1) };
        Outflow { bytes: 0, last: 0, marks: VecDeque::new(), next_mark: spacing, spacing }
    }

    /// A message was sent.
    #[inline]
    pub(super) fn add(&mut self, sequence: u64, bytes: u64) {
        self.bytes += bytes;
        self.last = sequence;
        if self.bytes >= self.next_mark {
            self.mark();
        }
    }

    #[cold]
    #[inline(never)]
    fn mark(&mut self) {
        if self.marks.len() as u64 >= MARKS_IN_WINDOW * WINDOWS_MARKED {
            self.marks.pop_front();
        }
        self.marks.push_back((self.last, self.bytes));
        self.next_mark = self.bytes.saturating_add(self.spacing);
    }

    /// The bytes up to a number, or somewhat less. Too far back it is the oldest known, less than that of anything
    /// in the window.
    pub(super) fn bytes_at(&self, sequence: u64) -> u64 {
        if sequence >= self.last {
            return self.bytes;
        }
        let behind = self.marks.partition_point(|(marked, _)| *marked <= sequence);
        let oldest = if self.marks.len() as u64 >= MARKS_IN_WINDOW * WINDOWS_MARKED {
            self.marks.front().map_or(0, |(_, bytes)| *bytes)
        } else {
            0
        };
        behind.checked_sub(1).and_then(|at| self.marks.get(at)).map_or(oldest, |(_, bytes)| *bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_its_bytes_or_somewhat_less() {
        let mut outflow = Outflow::new(6_400);
        for sequence in 1..=10_000 {
            outflow.add(sequence, 30);
        }
        assert_eq!((outflow.bytes_at(10_000), outflow.bytes_at(u64::MAX)), (300_000, 300_000));
        for sequence in 9_500..10_000 {
            let bytes = outflow.bytes_at(sequence);
            assert!(bytes <= sequence * 30 && bytes + 130 > sequence * 30, "{sequence}: {bytes}");
        }
        let oldest = outflow.bytes_at(1);
        assert!(300_000 - oldest >= 3 * 6_400, "what is too far back lacks windows: {oldest}");
        assert!(outflow.marks.len() <= 256);
    }

    #[test]
    fn a_young_stream_counts_from_its_begin() {
        let mut outflow = Outflow::new(6_400);
        assert_eq!(outflow.bytes_at(0), 0);
        outflow.add(1, 30);
        outflow.add(2, 30);
        assert_eq!((outflow.bytes_at(0), outflow.bytes_at(1), outflow.bytes_at(2)), (0, 0, 60));
    }
}
