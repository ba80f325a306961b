use super::packets::{Answer, Query};
use std::time::Duration;
use units::{Nanos, Rng};

/// The receiver's side of one session: what it has to answer, and when.
///
/// It costs nothing until a query was heard.
pub struct Answers {
    receiver: u64,
    /// The last query, which may come more than once.
    heard: Option<u32>,
    pending: Option<(Nanos, Answer)>,
    /// Before this moment nothing is answered.
    rest_until: Nanos,
    rng: Rng,
}

/// Least time between two answers.
const BETWEEN: Duration = Duration::from_millis(5);

impl Answers {
    /// `seed` is where its number and its random waits come from.
    #[must_use]
    pub fn new(seed: u64) -> Answers {
        let mut rng = Rng::new(seed);
        let receiver = rng.next_u64().max(1);
        Answers { receiver, heard: None, pending: None, rest_until: Nanos::ZERO, rng }
    }

    /// A query was heard; `receives` says whether a topic is subscribed. It takes the place of an earlier one.
    pub fn on_query(&mut self, now: Nanos, query: &Query, receives: impl FnMut(u32) -> bool) {
        let Some(answer) = self.answer(query, receives) else { return };
        let wait = query.window().mul_f64(self.rng.unit());
        self.pending = Some(((now + wait).max(self.rest_until), answer));
    }

    /// The same where nobody is disturbed by many answers at a time: what to answer at once.
    pub fn answer_now(
        &mut self,
        now: Nanos,
        query: &Query,
        receives: impl FnMut(u32) -> bool,
    ) -> Option<Answer> {
        let answer = self.answer(query, receives)?;
        self.pending = Some((self.rest_until, answer));
        self.poll(now)
    }

    fn answer(&mut self, query: &Query, mut receives: impl FnMut(u32) -> bool) -> Option<Answer> {
        if self.heard.replace(query.number) == Some(query.number) {
            return None;
        }
        self.pending = None;
        let bits = query.topics().iter().enumerate().filter(|&(_, &topic)| receives(topic));
        let topics = bits.fold(0, |all, (at, _)| all | 1 << at);
        let is_meant = topics != 0 && self.rng.below(1 << query.share) == 0;
        is_meant.then_some(Answer { number: query.number, receiver: self.receiver, topics })
    }

    /// When an answer is due.
    #[inline]
    #[must_use]
    pub fn due(&self) -> Nanos {
        self.pending.map_or(Nanos::NEVER, |(due, _)| due)
    }

    /// The answer that is due, if one is.
    pub fn poll(&mut self, now: Nanos) -> Option<Answer> {
        let (_, answer) = self.pending.take_if(|(due, _)| *due <= now)?;
        self.rest_until = now + BETWEEN;
        Some(answer)
    }
}
