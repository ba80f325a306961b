use std::collections::VecDeque;
use units::Nanos;

/// A number that was asked for and has not come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) number: u64,
    pub(super) id: u32,
    /// When it is asked for again.
    pub(super) again: Nanos,
}

/// What one topic has asked for, by number: without an answer, and with one that must wait for others.
#[derive(Default)]
pub(super) struct Requests {
    open: VecDeque<Request>,
    /// Messages as they came.
    answers: VecDeque<(u64, Box<[u8]>)>,
}

impl Requests {
    /// Numbers that were asked for and are not done with.
    pub(super) fn len(&self) -> usize {
        self.open.len() + self.answers.len()
    }

    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.open.iter_mut()
    }

    /// The next moment at which something is asked for again.
    pub(super) fn again(&self) -> Nanos {
        self.open.iter().map(|r| r.again).min().unwrap_or(Nanos::NEVER)
    }

    /// Adds a number, which is higher than those before.
    pub(super) fn push(&mut self, request: Request) {
        debug_assert!(self.open.back().is_none_or(|last| last.number < request.number), "in ascending order");
        self.open.push_back(request);
    }

    /// Takes out the request of a number.
    pub(super) fn take(&mut self, number: u64) -> Option<Request> {
        let at = self.open.binary_search_by_key(&number, |r| r.number).ok()?;
        self.open.remove(at)
    }

    /// The number of a request.
    pub(super) fn number_of(&self, id: u32) -> Option<u64> {
        self.open.iter().find(|r| r.id == id).map(|r| r.number)
    }

    /// Keeps an answer that must wait for others.
    pub(super) fn keep(&mut self, number: u64, answer: Box<[u8]>) {
        let at = self.answers.partition_point(|a| a.0 < number);
        self.answers.insert(at, (number, answer));
    }

    /// The lowest number with an answer.
    pub(super) fn first_answered(&self) -> Option<u64> {
        self.answers.front().map(|a| a.0)
    }

    pub(super) fn pop_answer(&mut self) -> Option<Box<[u8]>> {
        self.answers.pop_front().map(|a| a.1)
    }

    /// Forgets everything below `end`.
    pub(super) fn drop_before(&mut self, end: u64) {
        while self.open.front().is_some_and(|r| r.number < end) {
            self.open.pop_front();
        }
        while self.answers.front().is_some_and(|a| a.0 < end) {
            self.answers.pop_front();
        }
    }

    /// Forgets everything from `first` on.
    pub(super) fn drop_from(&mut self, first: u64) {
        while self.open.back().is_some_and(|r| r.number >= first) {
            self.open.pop_back();
        }
        while self.answers.back().is_some_and(|a| a.0 >= first) {
            self.answers.pop_back();
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let answers = self.answers.iter().map(|(_, answer)| answer.len());
        let table = self.answers.capacity() * size_of::<(u64, Box<[u8]>)>();
        self.open.capacity() * size_of::<Request>() + table + answers.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_found_and_forgotten_by_number() {
        let mut requests = Requests::default();
        for number in 10..20 {
            requests.push(Request { number, id: number as u32 + 100, again: Nanos(number) });
        }
        assert_eq!((requests.len(), requests.again(), requests.number_of(115)), (10, Nanos(10), Some(15)));
        assert!(requests.take(15).is_some() && requests.take(15).is_none());
        requests.keep(15, Box::default());
        requests.keep(12, Box::default());
        assert_eq!((requests.len(), requests.first_answered()), (11, Some(12)));
        requests.drop_before(13);
        requests.drop_from(18);
        assert_eq!((requests.len(), requests.again()), (5, Nanos(13)), "13, 14, 16, 17 and the answer 15");
    }
}
