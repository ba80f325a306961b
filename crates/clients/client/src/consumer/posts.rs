//! Posts that wait for their acks.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use counters::table::ConsumerSession;
use rdm::post::Acknowledged;
use rwf::AckMsg;
use units::Nanos;

use super::ItemHandle;
use super::event::{ConsumerEvent, ConsumerSink, PostEvent, PostId, PostOutcome};

/// The posts that wait for an ack.
#[derive(Debug)]
pub(crate) struct Posts {
    waiting: HashMap<u32, Waiting>,
    /// In the order in which answers are due; some of those that were answered are still there.
    due: VecDeque<(Nanos, u32)>,
    last_id: u32,
    timeout: Duration,
    count_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    tag: u64,
    item: Option<ItemHandle>,
}

impl Posts {
    pub(crate) fn new(count_max: u32, timeout: Duration) -> Posts {
        let (waiting, due) = (HashMap::new(), VecDeque::new());
        Posts { waiting, due, last_id: 0, timeout, count_max: count_max as usize }
    }

    /// Whether another one may wait; else how many may.
    pub(crate) fn has_room(&self) -> Result<(), u32> {
        if self.waiting.len() < self.count_max { Ok(()) } else { Err(self.count_max as u32) }
    }

    /// The next id is to follow this one.
    pub(crate) fn continue_after(&mut self, id: u32) {
        self.last_id = id;
    }

    /// The id for the next post, which nobody waits for.
    pub(crate) fn next_id(&mut self) -> PostId {
        loop {
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            // Fewer wait than there are ids.
            if !self.waiting.contains_key(&self.last_id) {
                return PostId(self.last_id);
            }
        }
    }

    /// A post was sent that wants an ack.
    pub(crate) fn add(&mut self, now: Nanos, id: PostId, tag: u64, item: Option<ItemHandle>) {
        if self.due.len() > 2 * self.count_max {
            self.due.retain(|(_, id)| self.waiting.contains_key(id));
        }
        self.waiting.insert(id.0, Waiting { tag, item });
        self.due.push_back((now.after(self.timeout), id.0));
    }

    /// An ack has come; returns whether a post waited for it.
    pub(crate) fn on_ack(
        &mut self,
        ack: &AckMsg<'_>,
        counters: &ConsumerSession,
        sink: &mut ConsumerSink<'_>,
    ) -> bool {
        let Some(post) = self.waiting.remove(&ack.ack_id) else { return false };
        while self.due.pop_front_if(|(_, id)| !self.waiting.contains_key(id)).is_some() {}
        let outcome = match Acknowledged::of(ack) {
            Acknowledged::Taken => {
                counters.posts_taken.inc();
                PostOutcome::Taken
            }
            Acknowledged::Refused { code, text } => {
                counters.posts_refused.inc();
                PostOutcome::Refused { code, text }
            }
        };
        report(ack.ack_id, post, outcome, sink);
        true
    }

    /// Looks after answers that are due.
    pub(crate) fn on_wakeup(&mut self, now: Nanos, counters: &ConsumerSession, sink: &mut ConsumerSink<'_>) {
        while let Some((_, id)) = self.due.pop_front_if(|(due, _)| *due <= now) {
            if let Some(post) = self.waiting.remove(&id) {
                counters.posts_unanswered.inc();
                report(id, post, PostOutcome::TimedOut, sink);
            }
        }
    }

    /// The connection is lost: no ack comes any more.
    pub(crate) fn on_disconnected(&mut self, counters: &ConsumerSession, sink: &mut ConsumerSink<'_>) {
        for (_, id) in std::mem::take(&mut self.due) {
            if let Some(post) = self.waiting.remove(&id) {
                counters.posts_unanswered.inc();
                report(id, post, PostOutcome::Lost, sink);
            }
        }
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.due.front().map_or(Nanos::NEVER, |(due, _)| *due)
    }
}

fn report(id: u32, post: Waiting, outcome: PostOutcome<'_>, sink: &mut ConsumerSink<'_>) {
    sink(ConsumerEvent::Posted(PostEvent { id: PostId(id), tag: post.tag, item: post.item, outcome }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_used_again_after_the_last_but_not_while_somebody_waits() {
        let mut posts = Posts::new(2, Duration::from_secs(1));
        assert_eq!(posts.next_id(), PostId(1));
        posts.add(Nanos(0), PostId(1), 0, None);
        posts.last_id = u32::MAX;
        assert_eq!(posts.next_id(), PostId(2));
        posts.add(Nanos(0), PostId(2), 0, None);
        assert_eq!(posts.has_room(), Err(2));
    }
}
