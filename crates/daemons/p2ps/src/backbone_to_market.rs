use backbone::{InletEvents, Notice};
use market::p2ps::{PointToPoint, SourceId, Topic, UpstreamError};
use market::{Intake, Waited};
use tracing::{debug, info, warn};
use units::Nanos;

use crate::market_to_clients::MarketToClients;

/// What comes from the backbone, given to the core.
pub(crate) struct BackboneToMarket<'a> {
    pub(crate) core: &'a mut PointToPoint,
    pub(crate) sink: MarketToClients<'a>,
    /// What the core cannot take in this turn.
    pub(crate) intake: &'a mut Intake,
}

fn check(result: Result<(), UpstreamError>) {
    if let Err(error) = result {
        warn!(%error, "a message from a source distributor was refused");
    }
}

impl BackboneToMarket<'_> {
    /// A message that has to wait. Directories do not: they are few, and tell that an instance lives.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, now: Nanos, source: SourceId, bytes: &[u8]) {
        if self.core.is_directory(source) {
            return check(self.core.on_stream_message(now, source, bytes, &mut self.sink));
        }
        self.intake.keep(now, source, bytes);
    }

    /// Handles the next of what waits; false if nothing may be handled now.
    pub(crate) fn take_waiting(&mut self, now: Nanos) -> bool {
        let BackboneToMarket { core, sink, intake } = self;
        if let Some(hops) = &mut sink.hops {
            hops.has_waited_since(intake.came(now));
        }
        intake.hand_on(|waited| match waited {
            Waited::Message(source, bytes) => check(core.on_stream_message(now, source, bytes, sink)),
            Waited::Ended(source) => core.on_source_ended(now, source, sink),
        })
    }
}

impl InletEvents for BackboneToMarket<'_> {
    fn on_source(&mut self, now: Nanos, source: SourceId, topic: Topic<'_>, session: u64) {
        info!(source = source.0, ?topic, session, "source found");
        self.core.on_source(now, source, topic, session, &mut self.sink);
    }

    fn on_source_ended(&mut self, now: Nanos, source: SourceId) {
        info!(source = source.0, "source ended");
        if self.core.is_directory(source) || self.intake.ends_now(now, source) {
            self.core.on_source_ended(now, source, &mut self.sink);
        }
    }

    #[inline]
    fn on_stream_message(&mut self, now: Nanos, source: SourceId, bytes: &[u8]) {
        if self.intake.passes(bytes.len()) {
            return check(self.core.on_stream_message(now, source, bytes, &mut self.sink));
        }
        self.keep(now, source, bytes);
    }

    fn on_link_up(&mut self, _: Nanos, instance: u64) {
        info!(instance = format!("{instance:016x}"), "link up");
        self.core.on_link_up(instance, &mut self.sink);
    }

    fn on_link_down(&mut self, now: Nanos, instance: u64) {
        if self.core.on_link_down(now, instance, &mut self.sink) {
            warn!(
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
