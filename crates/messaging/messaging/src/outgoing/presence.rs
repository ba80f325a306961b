//! The receivers of the sources of a session, as long as somebody waits for them.

use std::net::SocketAddr;
use std::time::Duration;

use counters::table::MessagingContext;
use lbt::presence::{Answer, Taken, Watch};
use units::Nanos;

use super::session::Session;
use crate::Source;
use crate::event::SourceEvent;

/// Whom a session asks, and who has answered.
pub(super) struct Presence {
    watch: Watch<Source>,
    /// When to look for answers of which nobody tells, and how long after that to look again.
    look_at: Nanos,
    look_wait: Duration,
}

/// How soon answers are looked for of which nobody tells.
const LOOK_MIN: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_millis(50);

impl Presence {
    /// `number` is drawn at random.
    pub(super) fn new(number: u32) -> Presence {
        Presence { watch: Watch::new(number), look_at: Nanos::NEVER, look_wait: LOOK_MIN }
    }

    /// Somebody waits for the receivers of a topic.
    pub(super) fn watch(&mut self, now: Nanos, index: u32, source: Source) {
        self.watch.watch(now, index, source);
    }

    /// Nobody does any more. Whether that was the last topic.
    pub(super) fn unwatch(
        &mut self,
        now: Nanos,
        index: u32,
        session: &mut impl Session,
        counters: &MessagingContext,
    ) -> bool {
        if let Some(query) = self.watch.unwatch(now, index) {
            counters.receiver_queries_sent.add(session.ask_receivers(&query).into());
        }
        self.watch.is_idle()
    }

    pub(super) fn count(&self, index: u32) -> Option<usize> {
        self.watch.count(index)
    }

    /// When there is something to do.
    pub(super) fn due(&self) -> Nanos {
        self.watch.due().min(self.look_at)
    }

    /// Asks, if it is time to.
    pub(super) fn on_wakeup(&mut self, now: Nanos, session: &mut impl Session, counters: &MessagingContext) {
        if now >= self.look_at {
            self.look_wait = (self.look_wait * 2).min(LOOK_MAX);
            self.look_at = now + self.look_wait;
        }
        let Some(query) = self.watch.poll_query(now) else { return };
        if session.ask_receivers(&query) {
            counters.receiver_queries_sent.inc();
            if session.has_silent_answers() {
                (self.look_wait, self.look_at) = (LOOK_MIN, now + LOOK_MIN);
            }
        }
    }

    /// Takes what receivers have answered, and notes who has come and gone.
    pub(super) fn take_answers(
        &mut self,
        now: Nanos,
        session: &mut impl Session,
        events: &[SourceEvent],
        counters: &MessagingContext,
    ) {
        session.take_answers(|answer, from| self.take(&answer, from, counters));
        for event in events {
            match event {
                SourceEvent::ReceiverConnected(_) => self.watch.hurry(now),
                // Without an address it is any of them: who does not answer is gone.
                SourceEvent::ReceiverDisconnected(from) if from.port() != 0 => self.watch.on_gone(*from),
                _ => {}
            }
        }
    }

    fn take(&mut self, answer: &Answer, from: Option<SocketAddr>, counters: &MessagingContext) {
        counters.receiver_answers_rcved.inc();
        match self.watch.on_answer(answer, from) {
            Taken::Counted => {}
            Taken::Unasked => counters.receiver_answers_unasked.inc(),
            Taken::Refused => counters.receiver_answers_refused.inc(),
        }
    }

    /// A source whose receivers have changed, and how many there are.
    pub(super) fn poll_change(&mut self) -> Option<(Source, usize)> {
        self.watch.poll_change()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_not_counted_are_counted_by_their_reason() {
        let (mut presence, counters) = (Presence::new(0), MessagingContext::default());
        presence.watch(Nanos(0), 7, Source::in_slot(0, 1));
        let query = presence.watch.poll_query(Nanos(0)).expect("somebody waits");
        let number = query.number;
        presence.take(&Answer { number: number + 1, receiver: 1, topics: 1 }, None, &counters);
        let mut receiver = 0;
        while counters.receiver_answers_refused.get() == 0 {
            receiver += 1;
            presence.take(&Answer { number, receiver, topics: 1 }, None, &counters);
        }
        assert_eq!((presence.count(7), receiver), (Some(262_144), 262_145));
        assert_eq!(counters.receiver_answers_unasked.get(), 1);
        assert_eq!(counters.receiver_answers_rcved.get(), receiver + 1);
    }
}
