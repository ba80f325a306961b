//! Answers of receivers to their source, in the part before the ring: a few places that any receiver may use.
//!
//! A place is free when its receiver is 0. Who answers takes it by an exchange, then writes the answer, which is never
//! 0; the source takes an answer that it finds, then frees the place. A process that dies between the two steps leaves a
//! place that nobody uses again; where all are taken, nobody answers, and a source that waits for receivers does not
//! hear of this one (`an_answer_is_taken_once_and_a_full_table_refuses`).

use super::layout::Control;
use super::sync::{Acquire, Relaxed, Release};

/// What a receiver answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who answers; not 0.
    pub receiver: u64,
    /// What it answers.
    pub number: u32,
    /// The answer; not 0.
    pub topics: u32,
}

/// Puts an answer where the source looks for it. False if no place is free.
pub(super) fn put(control: &Control, answer: Answer) -> bool {
    let word = u64::from(answer.number) << 32 | u64::from(answer.topics);
    if answer.receiver == 0 || answer.topics == 0 {
        return false;
    }
    let count = control.answers.len();
    // Receivers begin at different places.
    let first = answer.receiver as usize % count;
    let mut places = control.answers[first..].iter().chain(&control.answers[..first]);
    let free = places.find(|[receiver, _]| {
        receiver.load(Relaxed) == 0 && receiver.compare_exchange(0, answer.receiver, Acquire, Relaxed).is_ok()
    });
    if let Some([_, place]) = free {
        place.store(word, Release);
    }
    free.is_some()
}

/// Takes all answers that are there.
pub(super) fn take(control: &Control, mut each: impl FnMut(Answer)) {
    for [receiver, place] in &control.answers {
        let word = place.load(Acquire);
        if word != 0 {
            each(Answer {
                receiver: receiver.load(Relaxed),
                number: (word >> 32) as u32,
                topics: word as u32,
            });
            place.store(0, Relaxed);
            receiver.store(0, Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_answer_is_taken_once_and_a_full_table_refuses() {
        let control = Control::new();
        let answer = |receiver| Answer { receiver, number: 7, topics: 1 << 31 };
        let count = control.answers.len() as u64;
        assert!((1..=count).all(|receiver| put(&control, answer(receiver))));
        assert!(!put(&control, answer(count + 1)), "there is no place");
        let mut all = Vec::new();
        take(&control, |answer| all.push(answer));
        all.sort_by_key(|answer| answer.receiver);
        assert_eq!(all, (1..=count).map(answer).collect::<Vec<_>>());
        take(&control, |_| panic!("they were taken"));
        assert!(put(&control, answer(count + 1)));
        assert!(!put(&control, answer(0)) && !put(&control, Answer { topics: 0, ..answer(1) }), "nonsense");
    }

    #[test]
    fn answers_of_many_threads_arrive_whole() {
        let control = Arc::new(Control::new());
        let threads: Vec<_> = (1..=4u64)
            .map(|thread| {
                let control = control.clone();
                std::thread::spawn(move || {
                    for number in 1..=1_000 {
                        let answer =
                            Answer { receiver: thread << 32 | u64::from(number), number, topics: number };
                        while !put(&control, answer) {
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let mut all = BTreeSet::new();
        while all.len() < 4_000 {
            take(&control, |answer| {
                assert_eq!((answer.receiver as u32, answer.topics), (answer.number, answer.number));
                assert!(all.insert(answer.receiver), "twice");
            });
        }
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    }
}
