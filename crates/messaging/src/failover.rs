//! Hot failover: receivers that hear the first copy of each message that several sources send.

use std::collections::BTreeMap;
use std::sync::Arc;

use counters::table::HotFailover as Counters;
use lbt::config::{ConfigError, FailoverConfig};
use lbt::delivery::Delivered;
use lbt::failover::{FailoverSink, HotFailover, SourceId};
use lbt::wire::lbmc::{FAILOVER_NUMBER_LEN, Header, failover_element};
use slab::Slab;
use units::{Nanos, Sqn};

use crate::context::Context;
use crate::event::batch_bits;
use crate::{FailoverLoss, Handler, Message, Receiver, SendError, SendFlags, Source, StreamId};

/// The merged streams of a context.
pub(crate) struct Failovers {
    merged: Slab<Merged>,
    by_topic: BTreeMap<(Receiver, Box<str>), u32>,
    /// Nothing is due before.
    due: Nanos,
}

/// One topic as a hot failover receiver hears it.
struct Merged {
    receiver: Receiver,
    topic: Box<str>,
    stream: HotFailover,
}

/// A source of a merged stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    merged: u32,
    source: SourceId,
}

/// Topics of which the number is remembered though no source is heard; beyond it they are forgotten.
const REMEMBERED_MAX: usize = 65_536;

impl Default for Failovers {
    fn default() -> Failovers {
        Failovers { merged: Slab::new(), by_topic: BTreeMap::new(), due: Nanos::NEVER }
    }
}

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
                let at = self.merged.insert(Merged { receiver, topic: topic.into(), stream }) as u32;
                self.by_topic.insert((receiver, topic.into()), at);
                at
            }
        };
        let added = self.merged[at as usize].stream.add_source();
        Ok(added.ok().map(|source| Part { merged: at, source }))
    }

    /// Drops a stream that has no source.
    fn forget_one(&mut self) {
        let unheard = self.merged.iter().find(|(_, m)| !m.stream.has_sources()).map(|(at, _)| at);
        if let Some(at) = unheard {
            let gone = self.merged.remove(at);
            self.by_topic.remove(&(gone.receiver, gone.topic));
        }
    }

    /// A receiver is gone, and its streams with it.
    pub(crate) fn forget(&mut self, receiver: Receiver) {
        let from = self.by_topic.range((receiver, Box::from(""))..);
        let streams: Vec<_> =
            from.take_while(|((of, _), _)| *of == receiver).map(|(key, _)| key.clone()).collect();
        for key in streams {
            if let Some(at) = self.by_topic.remove(&key) {
                self.merged.remove(at as usize);
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
        let Some(Merged { receiver, topic, stream }) = self.merged.get_mut(part.merged as usize) else {
            return;
        };
        stream.on_message(now, part.source, message, &mut Outlet { receiver: *receiver, topic, handler });
        self.due = self.due.min(stream.next_wakeup());
    }

    /// A source's transport has lost something.
    pub(crate) fn on_lost(&mut self, part: Part) {
        if let Some(merged) = self.merged.get_mut(part.merged as usize) {
            merged.stream.on_lost(part.source);
        }
    }

    /// A source is not heard any more.
    pub(crate) fn leave(&mut self, now: Nanos, part: Part, handler: &mut impl Handler) {
        if let Some(Merged { receiver, topic, stream }) = self.merged.get_mut(part.merged as usize) {
            stream.remove_source(now, part.source, &mut Outlet { receiver: *receiver, topic, handler });
        }
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.due
    }

    /// Gives up what was waited for long enough.
    pub(crate) fn on_wakeup(&mut self, now: Nanos, handler: &mut impl Handler) {
        if now < self.due {
            return;
        }
        self.due = Nanos::NEVER;
        for (_, Merged { receiver, topic, stream }) in &mut self.merged {
            if stream.next_wakeup() <= now {
                stream.on_wakeup(now, &mut Outlet { receiver: *receiver, topic, handler });
            }
            self.due = self.due.min(stream.next_wakeup());
        }
    }

    fn restart(&mut self, of: Receiver, handler: &mut impl Handler) {
        for (_, Merged { receiver, topic, stream }) in &mut self.merged {
            if *receiver == of {
                stream.restart(&mut Outlet { receiver: of, topic, handler });
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

impl Context {
    /// Sends a message that other sources of the topic, in this process or in others, send as well, under
    /// the same `number`. A receiver with [`ReceiverOptions::hot_failover`](crate::ReceiverOptions) gets the
    /// copy that comes first, and messages in the order of their numbers; any other receiver gets each
    /// source's copy, and finds the number in [`Message::failover_number`].
    ///
    /// Each source's numbers ascend; numbers may be left out, best by all sources, since a receiver waits for
    /// a number that only one has left out (`hot_failover_gap_interval_us`). They need not begin at 0, and
    /// go on where they were when a source is started again; numbers that begin anew are told to receivers
    /// by [`Context::restart_hot_failover`]. A jump by more than 2^30 is not believed.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub fn send_hot_failover(
        &mut self,
        source: Source,
        number: u64,
        flags: SendFlags,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        let mut room = [0; FAILOVER_NUMBER_LEN];
        let numbered = Header::Chain { elements: failover_element(number, &mut room) };
        self.send_marked(source, flags, |context| match batch_bits(flags) {
            0 => context.send_with_headers(source, &[numbered], parts),
            bits => context.send_with_headers(source, &[Header::Batch { flags: bits }, numbered], parts),
        })
    }

    /// Tells a hot failover receiver that the numbers of its topics begin anew, higher or lower: what is held
    /// is delivered now, with the loss before it, and the next message of each topic begins it. To be called
    /// when all sources of the old numbers have ended.
    pub fn restart_hot_failover(&mut self, receiver: Receiver, handler: &mut impl Handler) {
        if self.home.is_here() {
            self.streams.failovers.restart(receiver, handler);
        }
    }
}
