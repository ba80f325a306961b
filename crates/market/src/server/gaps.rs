//! Gaps in a stream: what comes behind one waits until it is known which items it concerns.
//!
//! So no client sees an update behind a hole before it has been told that the item is suspect. The wait is
//! one round trip to the source distributor, after a loss that the carrier has tried to repair for far
//! longer.

use std::collections::VecDeque;

use units::Nanos;

use super::cleanups::What;
use super::upstream::UpstreamError;
use super::{PointToPoint, ServerSink, Source, SourceId, ids};
use crate::backbone::{LinkUp, StreamMsg};

/// What came since the first gap that is not answered yet, in order.
#[derive(Debug, Default)]
pub(super) struct Behind {
    entries: VecDeque<Entry>,
    bytes: usize,
}

#[derive(Debug)]
enum Entry {
    /// Numbers up to `last` are missing here. Without an answer by then, every item is taken as concerned.
    Gap { last: u64, answer_until: Nanos },
    /// A stream message.
    Message(Box<[u8]>),
}

impl Behind {
    /// Whether messages have to wait. The front is then a gap.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        !self.entries.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Behind::default();
    }

    fn push(&mut self, message: &[u8]) {
        self.bytes += message.len();
        self.entries.push_back(Entry::Message(message.into()));
    }

    /// The gap whose answer is the next.
    fn front_gap(&self) -> Option<(u64, Nanos)> {
        match self.entries.front() {
            Some(&Entry::Gap { last, answer_until }) => Some((last, answer_until)),
            Some(Entry::Message(_)) | None => None,
        }
    }

    /// The next message, if no gap is before it.
    fn pop_message(&mut self) -> Option<Box<[u8]>> {
        let Some(Entry::Message(_)) = self.entries.front() else { return None };
        let Some(Entry::Message(message)) = self.entries.pop_front() else { return None };
        self.bytes -= message.len();
        Some(message)
    }
}

impl PointToPoint {
    /// Messages `first..=last` of the active stream will never come: the instance is asked which items they
    /// were about.
    #[cold]
    pub(super) fn on_gap(
        &mut self,
        now: Nanos,
        source: SourceId,
        (first, last): (u64, u64),
        sink: &mut impl ServerSink,
    ) {
        self.counters.gaps.inc();
        self.counters.messages_lost.add(last - first + 1);
        let answer_until = now + self.config.image_timeout;
        let Some(stream) = self.stream_mut(source) else { return };
        stream.behind.entries.push_back(Entry::Gap { last, answer_until });
        let service = stream.service;
        self.services_due_at = self.services_due_at.min(answer_until);
        let Some(active) = self.services.get(&service).and_then(|s| s.active) else { return };
        ids::tell(&self.instances, active.instance, LinkUp::GapQuery { service, first, last }, sink);
    }

    /// Keeps a message that came behind a gap. If they are too many, every item of the service is asked for
    /// again instead.
    #[cold]
    pub(super) fn hold_behind_gap(
        &mut self,
        now: Nanos,
        source: SourceId,
        (sequence, message): (u64, &[u8]),
        sink: &mut impl ServerSink,
    ) {
        self.counters.messages_behind_gaps.inc();
        let bytes_max = self.config.gap_held_bytes_max;
        let Some(stream) = self.stream_mut(source) else { return };
        if stream.behind.bytes + message.len() <= bytes_max {
            stream.behind.push(message);
            return;
        }
        stream.behind.clear();
        let service = stream.service;
        self.resynchronise_all(now, service, sequence, sink);
    }

    /// The items concerned by a gap, by their ids; `None` if the instance cannot tell.
    ///
    /// # Errors
    /// A message that had waited is not what it should be; the others have been taken.
    pub(super) fn on_gap_answer(
        &mut self,
        now: Nanos,
        service: u16,
        last: u64,
        ids: Option<impl Iterator<Item = u32>>,
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let Some(source) = self.services.get(&service).and_then(|s| s.active_source()) else { return Ok(()) };
        let Some(stream) = self.stream_mut(source) else { return Ok(()) };
        if stream.behind.front_gap().is_none_or(|(front, _)| front != last) {
            // Everything has been asked for again meanwhile.
            return Ok(());
        }
        stream.behind.entries.pop_front();
        match ids.map(|ids| ids.filter_map(|id| stream.item(id)).collect::<Vec<usize>>()) {
            Some(concerned) => {
                for index in concerned {
                    self.settle(index, sink);
                    self.resynchronise(now, index, (last, LOST), sink);
                }
                self.send_requests(now, sink);
            }
            None => self.resynchronise_all(now, service, last, sink),
        }
        self.release_behind_gap(now, source, sink)
    }

    fn release_behind_gap(
        &mut self,
        now: Nanos,
        source: SourceId,
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let mut result = Ok(());
        while let Some(message) = self.stream_mut(source).and_then(|stream| stream.behind.pop_message()) {
            let msg = StreamMsg::parse(&message).map_err(UpstreamError::Malformed);
            let taken = msg.and_then(|msg| self.on_ordered(now, source, &msg, sink));
            result = taken.and(result);
        }
        result
    }

    fn resynchronise_all(&mut self, now: Nanos, service: u16, lacks: u64, sink: &mut impl ServerSink) {
        self.counters.gap_resyncs.inc();
        self.sweep(now, service, What::Resync(lacks), sink);
    }

    /// Goes on without answers that have not come in time.
    pub(super) fn check_gaps(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        let overdue: Vec<(u16, u64)> = self
            .waiting_streams()
            .filter(|(_, (_, answer_until))| now >= *answer_until)
            .map(|(service, (last, _))| (service, last))
            .collect();
        for (service, last) in overdue {
            if self.on_gap_answer(now, service, last, None::<std::iter::Empty<u32>>, sink).is_err() {
                self.counters.messages_refused.inc();
            }
        }
    }

    pub(super) fn next_gap_check(&self) -> Nanos {
        self.waiting_streams().map(|(_, (_, answer_until))| answer_until).min().unwrap_or(Nanos::NEVER)
    }

    /// The services whose stream waits for an answer, and for which.
    fn waiting_streams(&self) -> impl Iterator<Item = (u16, (u64, Nanos))> + '_ {
        self.services.values().filter_map(|service| {
            let source = service.active_source()?;
            match self.sources.get(source.0 as usize) {
                Some(Some(Source::Service { stream, .. })) => {
                    Some((stream.service, stream.behind.front_gap()?))
                }
                _ => None,
            }
        })
    }
}

pub(super) const LOST: &str = "messages were lost on the backbone";
