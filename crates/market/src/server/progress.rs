//! How far this server has taken the streams, reported to the instances, which hold their providers back by it.
//!
//! A report goes over the link some time after something was taken: at once if the last one was longer ago than the
//! interval, else when that has passed. Heartbeats count as something taken, so that a report that should be lost is
//! made up for even when nothing is sent.

use std::collections::BTreeMap;

use units::Nanos;

use super::instances::{Instances, Progress};
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
        if self.progress.has_moved { self.progress.next_at } else { Nanos::NEVER }
    }

    #[cold]
    #[inline(never)]
    fn send_progress(&mut self, items: &mut WatchedItems, now: Nanos, sink: &mut impl ServerSink) {
        self.progress = Progress { has_moved: false, next_at: now + self.config.progress_interval };
        let mut reports: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for (&ours, service) in &items.sources.services {
            let Some(active) = service.active else { continue };
            let Some(Some(Source::Service { stream, .. })) =
                items.sources.all.get_mut(active.source.0 as usize)
            else {
                continue;
            };
            let Some(instance) = items.sources.instances.get(&active.instance) else { continue };
            let Some(theirs) = instance.ids.theirs(ours).filter(|_| instance.has_progress()) else {
                continue;
            };
            if std::mem::take(&mut stream.has_moved) {
                let positions = reports.entry(active.instance).or_default();
                LinkUp::put_position(positions, theirs, stream.taken());
            }
        }
        for (instance, positions) in reports {
            self.counters.progress_out.inc();
            sink.to_instance(instance, &LinkUp::Progress { positions: &positions });
        }
    }
}
