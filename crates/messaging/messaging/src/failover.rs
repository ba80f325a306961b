//! Hot failover: receivers that hear the first copy of each message that several sources send.

use std::collections::BTreeMap;
use std::sync::Arc;

use counters::table::HotFailover as Counters;
use lbt::config::{ConfigError, FailoverConfig};
use lbt::delivery::Delivered;
use lbt::failover::{FailoverSink, HotFailover, SourceId};
use slab::Slab;
use units::{Deadlines, Nanos};

use crate::{FailoverLoss, Handler, Message, Receiver, StreamId};

/// The merged streams of a context.
#[derive(Default)]
pub(crate) struct Failovers {
    merged: Slab<Merged>,
    by_topic: BTreeMap<(Receiver, Box<str>), u32>,
    /// When to look at each: early at times, never late.
    due: Deadlines,
    /// Those without a source, by when that began.
    unheard: BTreeMap<u64, u32>,
    next_unheard: u64,
    /// How often one was looked at because it was due, or because another needed its place.
    #[cfg(test)]
    looks: usize,
}

/// One topic as a hot failover receiver hears it.
struct Merged {
    receiver: Receiver,
    topic: Box<str>,
    stream: HotFailover,
    /// When [`Failovers::due`] has it.
    due: Nanos,
    /// Its place in [`Failovers::unheard`], as long as it has no source.
    unheard: Option<u64>,
}

/// A source of a merged stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    merged: u32,
    source: SourceId,
}

/// Topics of which the number is remembered though no source is heard; beyond it those are forgotten that were not heard
/// for longest.
const REMEMBERED_MAX: usize = 65_536;

impl Failovers {
    /// Adds a source to a receiver's stream of a topic; none if it has as many as it may.
    pub(crate) fn join(
        &mut self,
        receiver: Receiver,
        topic: &str,
        config: &FailoverConfig,
        counters: &Arc<Counters>,
    ) -> Result<Option<Part>, ConfigError> {
        let known = self.by_topic.get(&(receiver, topic.into())).copied();
        let at = match known {
            Some(at) => at,
            None => {
                let stream = HotFailover::new(config, counters.clone())?;
                if self.merged.len() >= REMEMBERED_MAX {
                    self.forget_one();
                }
                let (due, unheard) = (Nanos::NEVER, None);
                let merged = Merged { receiver, topic: topic.into(), stream, due, unheard };
                let at = self.merged.insert(merged) as u32;
                self.by_topic.insert((receiver, topic.into()), at);
                at
            }
        };
        let merged = &mut self.merged[at as usize];
        if let Some(since) = merged.unheard.take() {
            self.unheard.remove(&since);
        }
        let added = merged.stream.add_source();
        Ok(added.ok().map(|source| Part { merged: at, source }))
    }

    /// Drops a stream that has no source.
    fn forget_one(&mut self) {
        if let Some((_, at)) = self.unheard.pop_first() {
            let gone = self.remove(at);
            self.by_topic.remove(&(gone.receiver, gone.topic));
        }
    }

    fn remove(&mut self, at: u32) -> Merged {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        let gone = self.merged.remove(at as usize);
        self.due.remove(at);
        if let Some(since) = gone.unheard {
            self.unheard.remove(&since);
        }
        gone
    }

    /// A receiver is gone, and its streams with it.
    pub(crate) fn forget(&mut self, receiver: Receiver) {
        let from = self.by_topic.range((receiver, Box::from(""))..);
        let streams: Vec<_> =
            from.take_while(|((of, _), _)| *of == receiver).map(|(key, _)| key.clone()).collect();
        for key in streams {
            if let Some(at) = self.by_topic.remove(&key) {
                self.remove(at);
            }
        }
    }

    /// A message of a source, whose stream its token names.
    #[inline]
    pub(crate) fn on_message(
        &mut self,
        now: Nanos,
        part: Part,
        message: &Delivered<'_>,
        handler: &mut impl Handler,
    ) {
        let Some(Merged { receiver, topic, stream, due, .. }) = self.merged.get_mut(part.merged as usize)
        else {
            return;
        };
        stream.on_message(now, part.source, message, &mut Outlet { receiver: *receiver, topic, handler });
        let at = stream.next_wakeup();
        if at < *due {
            *due = at;
            self.due.set(part.merged, at);
        }
    }

    /// A source's transport has lost something.
    pub(crate) fn on_lost(&mut self, part: Part) {
        if let Some(merged) = self.merged.get_mut(part.merged as usize) {
            merged.stream.on_lost(part.source);
        }
    }

    /// A source is not heard any more.
    pub(crate) fn leave(&mut self, now: Nanos, part: Part, handler: &mut impl Handler) {
        let Some(merged) = self.merged.get_mut(part.merged as usize) else { return };
        let Merged { receiver, topic, stream, due, unheard } = merged;
        stream.remove_source(now, part.source, &mut Outlet { receiver: *receiver, topic, handler });
        *due = stream.next_wakeup();
        self.due.set(part.merged, *due);
        if !stream.has_sources() && unheard.is_none() {
            *unheard = Some(self.next_unheard);
            self.unheard.insert(self.next_unheard, part.merged);
            self.next_unheard += 1;
        }
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.due.next()
    }

    /// Gives up what was waited for long enough.
    pub(crate) fn on_wakeup(&mut self, now: Nanos, handler: &mut impl Handler) {
        while let Some(at) = self.due.pop_due(now) {
            #[cfg(test)]
            {
                self.looks += 1;
            }
            let Some(Merged { receiver, topic, stream, due, .. }) = self.merged.get_mut(at as usize) else {
                continue;
            };
            if stream.next_wakeup() <= now {
                stream.on_wakeup(now, &mut Outlet { receiver: *receiver, topic, handler });
            }
            *due = stream.next_wakeup();
            self.due.set(at, *due);
        }
    }

    pub(crate) fn restart(&mut self, of: Receiver, handler: &mut impl Handler) {
        let own = self.by_topic.range((of, Box::from(""))..).take_while(|((receiver, _), _)| *receiver == of);
        for (_, &at) in own {
            if let Some(Merged { topic, stream, due, .. }) = self.merged.get_mut(at as usize) {
                stream.restart(&mut Outlet { receiver: of, topic, handler });
                *due = stream.next_wakeup();
                self.due.set(at, *due);
            }
        }
    }
}

/// The way of a merged stream to the handler.
struct Outlet<'a, H> {
    receiver: Receiver,
    topic: &'a str,
    handler: &'a mut H,
}

impl<H: Handler> FailoverSink for Outlet<'_, H> {
    #[inline]
    fn deliver(&mut self, _: u64, message: Delivered<'_>) {
        self.handler.on_message(&Message::of(self.receiver, StreamId(message.token as u32), &message));
    }

    fn lost(&mut self, first: u64, count: u64) {
        self.handler.on_failover_loss(self.receiver, self.topic, FailoverLoss { first, count });
    }
}

#[cfg(test)]
mod tests {
    use lbt::delivery::Via;
    use lbt::wire::lbmc::{self, Chain, FAILOVER_NUMBER_LEN, Header, Kind, emit_message, failover_element};
    use units::Sqn;

    use super::*;

    const TOPICS: usize = 2_000;

    /// A message of a source.
    fn send(failovers: &mut Failovers, now: Nanos, part: Part, number: u64, lost: &mut Lost) {
        let (mut room, mut chain) = ([0; FAILOVER_NUMBER_LEN], Chain::default());
        chain.push(&Header::Chain { elements: failover_element(number, &mut room) });
        let mut bytes = Vec::new();
        emit_message(&mut bytes, Kind::Message, Some((0, Sqn(0))), &chain, Some(b"px"));
        let headers = lbmc::Message::parse(&bytes, 0).expect("it was just made").headers;
        let message = Delivered {
            token: 0,
            topic_index: 0,
            first_sqn: Sqn(0),
            sqn: Sqn(0),
            payload: b"px",
            headers,
            recovered: false,
            via: Via::Transport,
        };
        failovers.on_message(now, part, &message, lost);
    }

    #[derive(Default)]
    struct Lost(u64);

    impl Handler for Lost {
        fn on_message(&mut self, _: &Message<'_>) {}
        fn on_failover_loss(&mut self, _: Receiver, _: &str, loss: FailoverLoss) {
            self.0 += loss.count;
        }
    }

    fn join(failovers: &mut Failovers, topic: usize) -> Part {
        let joined = failovers.join(
            Receiver { slot: 1, number: 1 },
            &format!("px{topic}"),
            &FailoverConfig::default(),
            &Arc::default(),
        );
        joined.expect("the default is sound").expect("there is room")
    }

    #[test]
    fn a_topic_that_is_due_is_looked_at_and_no_other() {
        let (mut failovers, mut lost) = (Failovers::default(), Lost::default());
        let parts: Vec<_> =
            (0..TOPICS).map(|topic| [join(&mut failovers, topic), join(&mut failovers, topic)]).collect();
        let mut now = Nanos(1);
        for [first, second] in &parts {
            send(&mut failovers, now, *first, 0, &mut lost);
            send(&mut failovers, now, *second, 0, &mut lost);
        }
        for [first, _] in parts.iter().step_by(TOPICS / 50) {
            // One source has lost a number, and the other may still bring it.
            failovers.on_lost(*first);
            send(&mut failovers, now, *first, 2, &mut lost);
            let due = failovers.next_wakeup();
            assert!(due > now && due < Nanos::NEVER);
            now = due;
            failovers.on_wakeup(now, &mut lost);
        }
        assert_eq!(lost.0, 50);
        assert!(failovers.looks <= 100, "{} looks for 50 losses among {TOPICS} topics", failovers.looks);
    }

    #[test]
    fn the_topic_that_was_unheard_longest_is_forgotten_without_a_look_at_others() {
        let (mut failovers, mut lost) = (Failovers::default(), Lost::default());
        let parts: Vec<_> = (0..TOPICS).map(|topic| join(&mut failovers, topic)).collect();
        for part in parts.iter().skip(10).rev() {
            failovers.leave(Nanos(1), *part, &mut lost);
        }
        // Heard again.
        join(&mut failovers, TOPICS - 1);
        failovers.forget_one();
        failovers.forget_one();
        let knows = |failovers: &Failovers, topic: usize| {
            failovers.by_topic.contains_key(&(Receiver { slot: 1, number: 1 }, format!("px{topic}").into()))
        };
        let known: Vec<_> = (0..TOPICS).filter(|topic| !knows(&failovers, *topic)).collect();
        assert_eq!((known, failovers.looks), (vec![TOPICS - 3, TOPICS - 2], 2));
        failovers.forget(Receiver { slot: 1, number: 1 });
        assert_eq!((failovers.merged.len(), failovers.unheard.len(), failovers.due.len()), (0, 0, 0));
    }
}
