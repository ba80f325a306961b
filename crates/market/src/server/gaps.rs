//! Gaps in a stream: what comes behind one waits until it is known which items it concerns.
//!
//! So no client sees an update behind a hole before it has been told that the item is suspect. The wait is
//! one round trip to the source distributor, after a loss that the carrier has tried to repair for far
//! longer.
//!
//! When the answer is there, what has waited is *released*: [`RELEASE_WORK`] of it in a turn, for it may be
//! [`ServerConfig::gap_held_bytes_max`]. What comes meanwhile waits behind it. That is less than is released: the
//! front end hands on little while [`PointToPoint::is_releasing`], and instances are told how far the release is, so that
//! they hold their providers back.
//!
//! [`ServerConfig::gap_held_bytes_max`]: super::ServerConfig::gap_held_bytes_max

use std::collections::VecDeque;

use units::Nanos;

use super::cleanups::What;
use super::upstream::UpstreamError;
use super::{PointToPoint, ServerNotice, ServerSink, Source, SourceId, ids};
use crate::backbone::{LinkUp, StreamMsg};
use crate::ration::SPAN;

/// What came since the first gap that is not answered yet, in order; or since one whose messages are not all released.
#[derive(Debug, Default)]
pub(super) struct Behind {
    entries: VecDeque<Entry>,
    /// Of messages.
    bytes: usize,
}

#[derive(Debug)]
enum Entry {
    /// Numbers up to `last` are missing here. Without an answer by then, every item is taken as concerned.
    Gap { last: u64, answer_until: Nanos },
    /// Stream messages.
    Messages(Segment),
}

/// Messages in one piece of memory, each behind its length: a million of them are given back at once.
#[derive(Debug, Default)]
struct Segment {
    bytes: Vec<u8>,
    read: usize,
}

const SEGMENT_BYTES: usize = 256 << 10;
const LENGTH_BYTES: usize = 4;

impl Segment {
    fn put(&mut self, message: &[u8]) {
        self.bytes.extend_from_slice(&(message.len() as u32).to_ne_bytes());
        self.bytes.extend_from_slice(message);
    }

    fn first(&self) -> Option<&[u8]> {
        let (length, rest) = self.bytes.get(self.read..)?.split_first_chunk::<LENGTH_BYTES>()?;
        rest.get(..u32::from_ne_bytes(*length) as usize)
    }

    fn is_read(&self) -> bool {
        self.read >= self.bytes.len()
    }
}

impl Behind {
    /// Whether messages have to wait.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        !self.entries.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Behind::default();
    }

    fn push(&mut self, message: &[u8]) {
        self.bytes += message.len();
        match self.entries.back_mut() {
            Some(Entry::Messages(last))
                if last.bytes.len() + LENGTH_BYTES + message.len() <= SEGMENT_BYTES =>
            {
                last.put(message);
            }
            _ => {
                let mut segment = Segment::default();
                segment.put(message);
                self.entries.push_back(Entry::Messages(segment));
            }
        }
    }

    /// The gap whose answer is the next.
    fn front_gap(&self) -> Option<(u64, Nanos)> {
        match self.entries.front() {
            Some(&Entry::Gap { last, answer_until }) => Some((last, answer_until)),
            Some(Entry::Messages(_)) | None => None,
        }
    }

    /// The number of the next message, if no gap is before it.
    pub(super) fn next_sequence(&self) -> Option<u64> {
        let Some(Entry::Messages(segment)) = self.entries.front() else { return None };
        segment.first().and_then(|message| StreamMsg::parse(message).ok()).map(|msg| msg.sequence)
    }

    /// The next messages, if no gap is before them.
    fn take_segment(&mut self) -> Option<Segment> {
        let Some(Entry::Messages(segment)) = self.entries.front_mut() else { return None };
        let segment = std::mem::take(segment);
        self.entries.pop_front();
        Some(segment)
    }
}

/// What was lost of a stream since operators were told last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Untold {
    gaps: u64,
    messages: u64,
}

/// What is released in this turn, and of which sources more is to be.
#[derive(Debug, Default)]
pub(super) struct Release {
    /// In the order of their turns.
    sources: VecDeque<SourceId>,
    left: usize,
    granted_at: Nanos,
}

/// In a turn so much is released, in bytes, those that each message costs included.
const RELEASE_WORK: usize = 1 << 20;
/// What the handling of a message costs, as so many bytes of it.
const MESSAGE_WORK: usize = 128;

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
        stream.untold.gaps += 1;
        stream.untold.messages += last - first + 1;
        let service = stream.service;
        self.tell_loss(now, source, sink);
        self.services_due_at = self.services_due_at.min(answer_until);
        let Some(active) = self.services.get(&service).and_then(|s| s.active) else { return };
        ids::tell(&self.instances, active.instance, LinkUp::GapQuery { service, first, last }, sink);
    }

    /// Tells operators what was lost of a stream, if they may be told now; else with what is due for services later.
    fn tell_loss(&mut self, now: Nanos, source: SourceId, sink: &mut impl ServerSink) {
        if self.losses_ration.take(now).is_none() {
            self.tell_losses_at = self.tell_losses_at.min(now + SPAN);
            self.services_due_at = self.services_due_at.min(self.tell_losses_at);
            return;
        }
        let Some(stream) = self.stream_mut(source) else { return };
        let Untold { gaps, messages } = std::mem::take(&mut stream.untold);
        let (id, instance) = (stream.service, stream.instance.unwrap_or_default());
        let service = self.services.get(&id).map_or("", |service| &service.definition.info.name);
        sink.notice(&ServerNotice::Lost { service, instance, gaps, messages });
    }

    /// Tells what was lost and could not be told at once.
    pub(super) fn tell_losses(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        if now < self.tell_losses_at {
            return;
        }
        self.tell_losses_at = Nanos::NEVER;
        for at in 0..self.sources.len() {
            let source = SourceId(at as u32);
            if self.stream_mut(source).is_some_and(|stream| stream.untold.gaps > 0) {
                self.tell_loss(now, source, sink);
            }
        }
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
        if now > self.release.granted_at {
            self.grant_release(now);
        }
        self.release_some(now, source, sink)
    }

    /// The work of a turn may be done from now on.
    fn grant_release(&mut self, now: Nanos) {
        self.release.left = RELEASE_WORK;
        self.release.granted_at = now;
    }

    /// Whether something that has waited behind a gap waits for its turn.
    #[inline]
    #[must_use]
    pub fn is_releasing(&self) -> bool {
        !self.release.sources.is_empty()
    }

    /// When what has waited goes on: with the next turn.
    pub(super) fn next_release(&self) -> Nanos {
        if self.is_releasing() { self.release.granted_at } else { Nanos::NEVER }
    }

    /// Hands on what has waited behind gaps that are answered, each source in its turn.
    pub(super) fn release(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        self.grant_release(now);
        while self.release.left > 0
            && let Some(source) = self.release.sources.pop_front()
        {
            if self.release_some(now, source, sink).is_err() {
                self.counters.messages_refused.inc();
            }
        }
    }

    /// Hands on what has waited of one source, as far as the turn's work goes, and not beyond the next gap.
    fn release_some(
        &mut self,
        now: Nanos,
        source: SourceId,
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let mut result = Ok(());
        while self.release.left > 0
            && let Some(mut segment) = self.stream_mut(source).and_then(|stream| stream.behind.take_segment())
        {
            while self.release.left > 0
                && let Some(message) = segment.first()
            {
                let (length, work) = (message.len(), message.len() + MESSAGE_WORK);
                let msg = StreamMsg::parse(message).map_err(UpstreamError::Malformed);
                let taken = msg.and_then(|msg| self.on_ordered(now, source, &msg, sink));
                result = taken.and(result);
                segment.read += LENGTH_BYTES + length;
                self.release.left = self.release.left.saturating_sub(work);
                if let Some(stream) = self.stream_mut(source) {
                    stream.behind.bytes = stream.behind.bytes.saturating_sub(length);
                }
            }
            if !segment.is_read()
                && let Some(stream) = self.stream_mut(source).filter(|stream| stream.is_active)
            {
                stream.behind.entries.push_front(Entry::Messages(segment));
            }
        }
        self.released(source);
        result
    }

    /// What comes next of a source of which something was released.
    fn released(&mut self, source: SourceId) {
        let is_listed = self.release.sources.contains(&source);
        let Some(Some(Source::Service { stream, .. })) = self.sources.get_mut(source.0 as usize) else {
            return;
        };
        if !stream.is_active {
            return;
        }
        self.progress.note_moved(source, stream);
        match stream.behind.entries.front() {
            Some(Entry::Messages(_)) if is_listed => {}
            Some(Entry::Messages(_)) => self.release.sources.push_back(source),
            Some(&Entry::Gap { answer_until, .. }) => {
                self.services_due_at = self.services_due_at.min(answer_until);
            }
            None => stream.behind.clear(),
        }
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
