use backbone::{InletEvents, Notice};
use market::server::{PointToPoint, SourceId, Topic, UpstreamError};
use tracing::{debug, info, warn};
use units::Nanos;

use crate::sink::Sink;

/// The core as the receiver of what comes from the backbone.
pub(crate) struct Upstream<'a> {
    pub(crate) core: &'a mut PointToPoint,
    pub(crate) sink: Sink<'a>,
}

fn check(result: Result<(), UpstreamError>) {
    if let Err(error) = result {
        warn!(%error, "a message from a source distributor was refused");
    }
}

impl InletEvents for Upstream<'_> {
    fn on_source(&mut self, now: Nanos, source: SourceId, topic: Topic<'_>, session: u64) {
        info!(source = source.0, ?topic, session, "source found");
        self.core.on_source(now, source, topic, session, &mut self.sink);
    }

    fn on_source_ended(&mut self, now: Nanos, source: SourceId) {
        info!(source = source.0, "source ended");
        self.core.on_source_ended(now, source, &mut self.sink);
    }

    #[inline]
    fn on_stream_message(&mut self, now: Nanos, source: SourceId, bytes: &[u8]) {
        check(self.core.on_stream_message(now, source, bytes, &mut self.sink));
    }

    fn on_link_up(&mut self, _: Nanos, instance: u64) {
        info!(instance = format!("{instance:016x}"), "link up");
        self.core.on_link_up(instance, &mut self.sink);
    }

    fn on_link_down(&mut self, now: Nanos, instance: u64) {
        if self.core.on_link_down(now, instance, &mut self.sink) {
            info!(
                instance = format!("{instance:016x}"),
                "link down, trying again until it is back or another is found"
            );
        } else {
            debug!(instance = format!("{instance:016x}"), "link not opened");
        }
    }

    fn on_link_message(&mut self, now: Nanos, instance: u64, bytes: &[u8]) {
        check(self.core.on_link_message(now, instance, bytes, &mut self.sink));
    }

    fn on_notice(&mut self, notice: &Notice) {
        if notice.is_fault { warn!("{}", notice.text) } else { info!("{}", notice.text) }
    }
}
