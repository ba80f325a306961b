use units::{Nanos, Sqn};

/// What was last done about NAKs for a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing since it was sent.
    None,
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
    entries: Box<[Entry]>,
    mask: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    sqn: Sqn,
    answer: Answer,
    at: Nanos,
}

impl Answers {
    /// For `count` numbers, rounded up to a power of two.
    pub(super) fn new(count: usize) -> Answers {
        let count = count.next_power_of_two();
        let entry = Entry { sqn: Sqn(0), answer: Answer::None, at: Nanos::ZERO };
        Answers { entries: vec![entry; count].into_boxed_slice(), mask: (count - 1) as u32 }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>()
    }

    /// Writes every page once, so that none is first touched while sending.
    pub(super) fn prefault(&mut self) {
        self.entries.fill(std::hint::black_box(Entry { sqn: Sqn(0), answer: Answer::None, at: Nanos::ZERO }));
    }

    /// The last answer about `sqn`, and when it was given.
    pub(super) fn get(&self, sqn: Sqn) -> (Answer, Nanos) {
        let entry = self.entries[(sqn.0 & self.mask) as usize];
        if entry.sqn == sqn { (entry.answer, entry.at) } else { (Answer::None, Nanos::ZERO) }
    }

    pub(super) fn set(&mut self, sqn: Sqn, answer: Answer, at: Nanos) {
        self.entries[(sqn.0 & self.mask) as usize] = Entry { sqn, answer, at };
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
    }
}
