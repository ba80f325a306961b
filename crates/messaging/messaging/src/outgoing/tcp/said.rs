//! What receivers of a TCP session say: answers to a source that waits for receivers, and nothing else.

use lbt::presence::Answer;

/// The begin of an answer that has not come whole.
#[derive(Default)]
pub(super) struct Said {
    begun: [u8; ANSWER_LEN],
    len: usize,
    /// Something else came; what follows is passed over.
    is_over: bool,
}

/// Bytes of an answer with its header.
const ANSWER_LEN: usize = lbt::wire::extension::EXTENSION_HEADER_LEN + lbt::presence::ANSWER_LEN;

impl Said {
    /// Takes what has come, and hands over the answers that are whole.
    pub(super) fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(Answer)) {
        while !bytes.is_empty() && !self.is_over {
            let count = bytes.len().min(ANSWER_LEN - self.len);
            let (taken, rest) = bytes.split_at(count);
            self.begun[self.len..self.len + count].copy_from_slice(taken);
            (self.len, bytes) = (self.len + count, rest);
            if self.len == ANSWER_LEN {
                self.len = 0;
                match Answer::find(&self.begun) {
                    Some(answer) => each(answer),
                    None => self.is_over = true,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(bytes: &[u8], cut: usize) -> Vec<u64> {
        let (mut said, mut all) = (Said::default(), Vec::new());
        bytes.chunks(cut).for_each(|part| said.take(part, |answer| all.push(answer.receiver)));
        all
    }

    #[test]
    fn answers_are_read_however_they_are_cut_and_nothing_behind_anything_else() {
        let mut bytes = Vec::new();
        for receiver in 1..=5 {
            Answer { number: 7, receiver, topics: 1 }.emit(&mut bytes);
        }
        for cut in 1..=bytes.len() {
            assert_eq!(answers(&bytes, cut), [1, 2, 3, 4, 5], "{cut}");
        }
        bytes[2 * ANSWER_LEN + 9] ^= 1;
        assert_eq!(answers(&bytes, 100), [1, 2]);
        assert_eq!(answers(&[b'x'; 10_000], 4_096), [] as [u64; 0]);
    }
}
