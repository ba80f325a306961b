use units::{Nanos, Sqn};

/// What was last done about NAKs for a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Answer {
    /// Nothing since it was sent.
    None = 0,
    /// It waits to be retransmitted.
    Queued,
    /// It was retransmitted.
    Repeated,
    /// It was retransmitted, and a later NAK was told so.
    Confirmed,
    /// Whoever asked was told that it will not come, or not now.
    Refused,
}

/// The answers to NAKs of late, by number.
///
/// Each number has one place, given by its low bits, which it shares with numbers a multiple of the size
/// away. With as many places as the window has numbers none is forgotten; with fewer the later one counts.
pub(super) struct Answers {
    /// Plain zeros at first, for which the system gives no memory before something is written.
    entries: Box<[Entry]>,
    mask: u32,
}

/// When the answer was given; the number, and above it the answer.
type Entry = [u64; 2];

const PAGE_BYTES: usize = 4_096;

impl Answers {
    /// For `count` numbers, rounded up to a power of two.
    pub(super) fn new(count: usize) -> Answers {
        let count = count.next_power_of_two();
        Answers { entries: vec![[0; 2]; count].into_boxed_slice(), mask: (count - 1) as u32 }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>()
    }

    /// Writes every page once, so that none is first touched while sending.
    pub(super) fn prefault(&mut self) {
        let pages = self.entries.iter_mut().step_by(PAGE_BYTES / size_of::<Entry>());
        pages.for_each(|entry| *entry = std::hint::black_box(*entry));
    }

    /// The last answer about `sqn`, and when it was given.
    pub(super) fn get(&self, sqn: Sqn) -> (Answer, Nanos) {
        let [at, answered] = self.entries[(sqn.0 & self.mask) as usize];
        let answer = match answered >> 32 {
            _ if answered as u32 != sqn.0 => Answer::None,
            1 => Answer::Queued,
            2 => Answer::Repeated,
            3 => Answer::Confirmed,
            4 => Answer::Refused,
            _ => Answer::None,
        };
        (answer, if answer == Answer::None { Nanos::ZERO } else { Nanos(at) })
    }

    pub(super) fn set(&mut self, sqn: Sqn, answer: Answer, at: Nanos) {
        self.entries[(sqn.0 & self.mask) as usize] = [at.0, u64::from(sqn.0) | (answer as u64) << 32];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_its_number_and_not_for_the_next_at_its_place() {
        let mut answers = Answers::new(3);
        assert_eq!(answers.get(Sqn(0)), (Answer::None, Nanos::ZERO), "nothing is known at first");
        answers.set(Sqn(2), Answer::Repeated, Nanos(7));
        assert_eq!(answers.get(Sqn(2)), (Answer::Repeated, Nanos(7)));
        assert_eq!(answers.get(Sqn(6)).0, Answer::None);
        answers.set(Sqn(6), Answer::Queued, Nanos(8));
        assert_eq!(answers.get(Sqn(2)).0, Answer::None, "the later one took the place");
        for answer in [Answer::None, Answer::Queued, Answer::Repeated, Answer::Confirmed, Answer::Refused] {
            answers.set(Sqn(u32::MAX), answer, Nanos(9));
            assert_eq!(answers.get(Sqn(u32::MAX)).0, answer);
        }
        let before = answers.get(Sqn(u32::MAX));
        answers.prefault();
        assert_eq!(answers.get(Sqn(u32::MAX)), before);
    }
}
