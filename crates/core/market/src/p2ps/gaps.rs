//! Gaps in a stream: what comes behind one waits until it is known which items it concerns.
//!
//! So no client sees an update behind a hole before it has been told that the item is suspect. The wait is
//! one round trip to the source distributor, after a loss that the carrier has tried to repair for far
//! longer.
//!
//! When the answer is there, what has waited is *released*: [`RELEASE_WORK`] of it in a turn, for it may be
//! [`ServerConfig::gap_held_bytes_max`]. What comes meanwhile waits behind it. That is less than is released: the
//! front end hands on little while [`super::PointToPoint::is_releasing`], and instances are told how far the release is, so that
//! they hold their providers back.
//!
//! [`ServerConfig::gap_held_bytes_max`]: super::ServerConfig::gap_held_bytes_max

use units::Nanos;

use super::base::{LOST, SourceId};
use super::behind::Unreported;
use super::instance::send_to_instance;
use super::instances::Instances;
use super::items::WatchedItems;
use super::notices::{ServerNotice, UpstreamError};
use super::side;
use super::sink::ServerSink;
use crate::backbone::{LinkUp, StreamMsg};
use crate::ration::SPAN;

/// In a turn so much is released, in bytes, those that each message costs included.
const RELEASE_WORK: usize = 1 << 20;

/// What the handling of a message costs, as so many bytes of it.
const MESSAGE_WORK: usize = 128;

impl Instances {
    /// Messages `first..=last` of the active stream will never come: the instance is asked which items they
    /// were about.
    #[cold]
    pub(super) fn on_gap(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        source: SourceId,
        (first, last): (u64, u64),
        sink: &mut impl ServerSink,
    ) {
        self.counters.gaps.inc();
        self.counters.messages_lost.add(last - first + 1);
        let answer_until = now + self.config.image_timeout;
        let Some(stream) = items.sources.stream_mut(source) else { return };
        stream.behind.begin_gap((first, last), answer_until);
        stream.unreported.gaps += 1;
        stream.unreported.messages += last - first + 1;
        let (service, instance) = (stream.service, stream.instance);
        self.report_loss(items, now, source, sink);
        items.sources.services_due_at = items.sources.services_due_at.min(answer_until);
        let Some(instance) = instance else { return };
        send_to_instance(&items.sources.instances, instance, LinkUp::GapQuery { service, first, last }, sink);
    }

    /// Reports to operators what was lost of a stream, if that may be reported now; else with what is due for services
    /// later.
    fn report_loss(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        source: SourceId,
        sink: &mut impl ServerSink,
    ) {
        let sources = &mut items.sources;
        if self.losses_ration.take(now).is_none() {
            self.report_losses_at = self.report_losses_at.min(now + SPAN);
            sources.services_due_at = sources.services_due_at.min(self.report_losses_at);
            return;
        }
        let Some(stream) = sources.stream_mut(source) else { return };
        let Unreported { gaps, messages } = std::mem::take(&mut stream.unreported);
        let (id, instance) = (stream.service, stream.instance.unwrap_or_default());
        let service = sources.services.get(&id).map_or("", |service| &service.definition.info.name);
        sink.notice(&ServerNotice::Lost { service, instance, gaps, messages });
    }

    /// Tells what was lost and could not be told at once.
    pub(super) fn report_losses(&mut self, items: &mut WatchedItems, now: Nanos, sink: &mut impl ServerSink) {
        if now < self.report_losses_at {
            return;
        }
        self.report_losses_at = Nanos::NEVER;
        for at in 0..items.sources.all.len() {
            let source = SourceId(at as u32);
            if items.sources.stream_mut(source).is_some_and(|stream| stream.unreported.gaps > 0) {
                self.report_loss(items, now, source, sink);
            }
        }
    }

    /// Keeps a message that came behind a gap. If they are too many, every item of the service is asked for
    /// again instead.
    #[cold]
    pub(super) fn hold_behind_gap(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        source: SourceId,
        (sequence, message): (u64, &[u8]),
        sink: &mut impl ServerSink,
    ) {
        self.counters.messages_behind_gaps.inc();
        let bytes_max = self.config.gap_held_bytes_max;
        let Some(stream) = items.sources.stream_mut(source) else { return };
        if stream.behind.keep(message, bytes_max) {
            return;
        }
        // The one that has just come is dropped too.
        stream.drop_behind();
        stream.dropped_behind += 1;
        let (service, side) = (stream.service, stream.side());
        items.resynchronise_all(now, (service, side), sequence, sink);
    }

    /// The items concerned by a gap, by their ids; `None` if the instance cannot tell.
    ///
    /// # Errors
    /// A message that had waited is not what it should be; the others have been taken.
    pub(super) fn on_gap_answer(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        source: SourceId,
        last: u64,
        ids: Option<impl Iterator<Item = u32>>,
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let Some(stream) = items.sources.stream_mut(source) else { return Ok(()) };
        if !stream.behind.end_gap(last) {
            // Everything has been asked for again meanwhile.
            return Ok(());
        }
        let (service, side) = (stream.service, stream.side());
        let mut is_about_all = false;
        let concerned = ids.map(|ids| {
            let ids = ids.inspect(|id| is_about_all |= *id == 0);
            ids.filter_map(|id| stream.item(id)).collect::<Vec<usize>>()
        });
        // What is about no item is about all: the state of the service.
        match concerned.filter(|_| !is_about_all) {
            Some(mut concerned) => {
                if units::planted(units::Bug::GapUnsaid) {
                    concerned.clear();
                }
                for index in concerned {
                    items.settle(index, sink);
                    match side {
                        None => items.resynchronise(now, index, (last, LOST), sink),
                        Some(no) => side::lack_side(items, now, index, (no, last), sink),
                    }
                }
                items.send_requests(now, sink);
            }
            None => items.resynchronise_all(now, (service, side), last, sink),
        }
        if now > self.release.granted_at {
            self.grant_release(now);
        }
        self.release_some(items, now, source, sink)
    }

    /// The work of a turn may be done from now on.
    fn grant_release(&mut self, now: Nanos) {
        self.release.left = RELEASE_WORK;
        self.release.granted_at = now;
    }

    /// Whether something that has waited behind a gap waits for its turn.
    #[inline]
    pub(super) fn is_releasing(&self) -> bool {
        !self.release.sources.is_empty()
    }

    /// When what has waited goes on: with the next turn.
    pub(super) fn next_release(&self) -> Nanos {
        if self.is_releasing() { self.release.granted_at } else { Nanos::NEVER }
    }

    /// Hands on what has waited behind gaps that are answered, each source in its turn.
    pub(super) fn release(&mut self, items: &mut WatchedItems, now: Nanos, sink: &mut impl ServerSink) {
        self.grant_release(now);
        while self.release.left > 0
            && let Some(source) = self.release.sources.pop_front()
        {
            if self.release_some(items, now, source, sink).is_err() {
                self.counters.messages_refused.inc();
            }
        }
    }

    /// Hands on what has waited of one source, as far as the turn's work goes, and not beyond the next gap.
    fn release_some(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        source: SourceId,
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let mut result = Ok(());
        while self.release.left > 0
            && let Some(mut segment) =
                items.sources.stream_mut(source).and_then(|stream| stream.behind.take_segment())
        {
            while self.release.left > 0
                && let Some(message) = segment.first()
            {
                let (length, work) = (message.len(), message.len() + MESSAGE_WORK);
                let msg = StreamMsg::parse(message).map_err(UpstreamError::Malformed);
                let taken = msg.and_then(|msg| self.on_followed(items, now, source, &msg, sink));
                result = taken.and(result);
                segment.skip(length);
                self.release.left = self.release.left.saturating_sub(work);
                if let Some(stream) = items.sources.stream_mut(source) {
                    stream.behind.note_taken(length);
                }
            }
            if !segment.is_read()
                && let Some(stream) = items.sources.stream_mut(source).filter(|stream| stream.is_followed())
            {
                stream.behind.give_back(segment);
            }
        }
        self.released(items, source);
        result
    }

    /// What comes next of a source of which something was released.
    fn released(&mut self, items: &mut WatchedItems, source: SourceId) {
        let is_listed = self.release.sources.contains(&source);
        let Some(stream) = items.sources.stream_mut(source).filter(|stream| stream.is_followed()) else {
            return;
        };
        self.progress.note_moved(source, stream);
        if stream.behind.has_messages_next() {
            if !is_listed {
                self.release.sources.push_back(source);
            }
        } else if let Some((_, answer_until)) = stream.behind.front_gap() {
            items.sources.services_due_at = items.sources.services_due_at.min(answer_until);
        } else {
            stream.drop_behind();
        }
    }

    /// Goes on without answers that have not come in time.
    pub(super) fn check_gaps(&mut self, items: &mut WatchedItems, now: Nanos, sink: &mut impl ServerSink) {
        let overdue: Vec<(SourceId, u64)> = items
            .sources
            .waiting_streams()
            .filter(|(_, (_, answer_until))| now >= *answer_until)
            .map(|(source, (last, _))| (source, last))
            .collect();
        for (source, last) in overdue {
            if self.on_gap_answer(items, now, source, last, None::<std::iter::Empty<u32>>, sink).is_err() {
                self.counters.messages_refused.inc();
            }
        }
    }
}
