//! How far this server has taken the streams, reported to the instances, which hold their providers back by it.
//!
//! A report goes over the link some time after something was taken: at once if the last one was longer ago than the
//! interval, else when that has passed. Heartbeats count as something taken, so that a report that should be lost is
//! made up for even when nothing is sent.

use std::collections::BTreeMap;

use units::Nanos;

use super::stream::Incoming;
use super::{PointToPoint, ServerSink, Source, SourceId};
use crate::backbone::LinkUp;

/// When the next report is due.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The active sources of which something was taken since the last report.
    moved: Vec<SourceId>,
    /// No report before.
    next_at: Nanos,
}

impl Progress {
    /// Something of an active source was taken.
    #[inline]
    pub(super) fn note_moved(&mut self, source: SourceId, stream: &mut Incoming) {
        if !std::mem::replace(&mut stream.has_moved, true) {
            self.moved.push(source);
        }
    }
}

impl PointToPoint {
    /// Reports to the instances what was taken, if it is time. To be called when what a turn has brought is done,
    /// for clients too, so that nobody waits for it.
    #[inline]
    pub fn report_progress(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        if now >= self.next_report() {
            self.send_progress(now, sink);
        }
    }

    /// When [`PointToPoint::report_progress`] is due next.
    #[inline]
    #[must_use]
    pub fn next_report(&self) -> Nanos {
        if self.progress.moved.is_empty() { Nanos::NEVER } else { self.progress.next_at }
    }

    #[cold]
    #[inline(never)]
    fn send_progress(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        self.progress.next_at = now + self.config.progress_interval;
        let mut moved = std::mem::take(&mut self.progress.moved);
        let mut reports: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for source in moved.drain(..) {
            self.looks.count();
            let Some(Some(Source::Service { stream, .. })) = self.sources.get_mut(source.0 as usize) else {
                continue;
            };
            if !std::mem::take(&mut stream.has_moved) {
                continue;
            }
            let active = self.services.get(&stream.service).and_then(|service| service.active);
            let Some(active) = active.filter(|active| active.source == source) else { continue };
            let Some(instance) = self.instances.get(&active.instance) else { continue };
            let Some(theirs) = instance.ids.theirs(stream.service).filter(|_| instance.has_progress()) else {
                continue;
            };
            let positions = reports.entry(active.instance).or_default();
            LinkUp::put_position(positions, theirs, stream.taken());
        }
        // Its memory is kept for the next time.
        self.progress.moved = moved;
        for (instance, positions) in reports {
            self.counters.progress_out.inc();
            sink.to_instance(instance, &LinkUp::Progress { positions: &positions });
        }
    }

    /// Tells an instance that a stream of its is not followed any more.
    pub(super) fn report_not_followed(&self, ours: u16, instance: u64, sink: &mut impl ServerSink) {
        let Some(known) =
            self.instances.get(&instance).filter(|known| known.is_linked() && known.has_progress())
        else {
            return;
        };
        let Some(theirs) = known.ids.theirs(ours) else { return };
        let mut positions = Vec::new();
        LinkUp::put_position(&mut positions, theirs, LinkUp::NOT_FOLLOWED);
        self.counters.progress_out.inc();
        sink.to_instance(instance, &LinkUp::Progress { positions: &positions });
    }
}
