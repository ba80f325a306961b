//! How far this server has taken the streams, reported to the instances, which hold their providers back by it.
//!
//! A report goes over the link some time after something was taken: at once if the last one was longer ago than the
//! interval, else when that has passed. Heartbeats count as something taken, so that a report that should be lost is
//! made up for even when nothing is sent.

use std::collections::BTreeMap;

use units::Nanos;

use super::instances::Instances;
use super::items::WatchedItems;
use super::sink::ServerSink;
use super::sources::Source;
use crate::backbone::LinkUp;

impl Instances {
    /// Reports to the instances what was taken, if it is time. To be called when what a turn has brought is done,
    /// for clients too, so that nobody waits for it.
    #[inline]
    pub(super) fn report_progress(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        sink: &mut impl ServerSink,
    ) {
        if now >= self.next_report() {
            self.send_progress(items, now, sink);
        }
    }

    /// When [`super::PointToPoint::report_progress`] is due next.
    #[inline]
    pub(super) fn next_report(&self) -> Nanos {
        if self.progress.moved.is_empty() { Nanos::NEVER } else { self.progress.next_at }
    }

    #[cold]
    #[inline(never)]
    fn send_progress(&mut self, items: &mut WatchedItems, now: Nanos, sink: &mut impl ServerSink) {
        self.progress.next_at = now + self.config.progress_interval;
        let mut moved = std::mem::take(&mut self.progress.moved);
        let mut reports: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let sources = &mut items.sources;
        for source in moved.drain(..) {
            sources.looks.count();
            let Some(Some(Source::Service { stream, .. })) = sources.all.get_mut(source.0 as usize) else {
                continue;
            };
            if !std::mem::take(&mut stream.has_moved) {
                continue;
            }
            let Some(id) = stream.instance.filter(|_| stream.is_followed()) else { continue };
            let Some(instance) = sources.instances.get(&id) else { continue };
            let Some(theirs) = instance.ids.theirs(stream.service).filter(|_| instance.has_progress()) else {
                continue;
            };
            let positions = reports.entry(id).or_default();
            LinkUp::put_position(positions, theirs, stream.taken());
        }
        // Its memory is kept for the next time.
        self.progress.moved = moved;
        for (instance, positions) in reports {
            self.counters.progress_out.inc();
            sink.to_instance(instance, &LinkUp::Progress { positions: &positions });
        }
    }
}
