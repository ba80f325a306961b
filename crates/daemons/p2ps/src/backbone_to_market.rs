use backbone::{InletEvents, Notice};
use market::p2ps::{PointToPoint, SourceId, Topic, UpstreamError};
use market::{Intake, Waited};
use tracing::{debug, info, warn};
use units::Nanos;

use crate::announced::{Announced, AnnouncedMessage};
use crate::market_to_clients::MarketToClients;

/// What comes from the backbone, given to the core.
pub(crate) struct BackboneToMarket<'a> {
    pub(crate) core: &'a mut PointToPoint,
    pub(crate) sink: MarketToClients<'a>,
    /// What the core cannot take in this turn.
    pub(crate) intake: &'a mut Intake,
    /// What the core has been told of, and gets in a moment.
    pub(crate) announced: &'a mut Announced,
}

/// The core, and the messages that it is told of some others before it gets them.
struct ToCore<'s, 'a> {
    core: &'s mut PointToPoint,
    sink: &'s mut MarketToClients<'a>,
    announced: &'s mut Announced,
}

impl ToCore<'_, '_> {
    /// Gives the core a message, which has waited since then or has just come, or tells it of that one and gives it an
    /// earlier one.
    #[inline]
    fn give(&mut self, now: Nanos, came: (SourceId, Option<Nanos>), bytes: &[u8]) {
        if self.core.looks_ahead() && bytes.len() <= Announced::BYTES_MAX {
            return self.give_later(now, came, bytes);
        }
        self.catch_up(now);
        handle(self.core, self.sink, now, came, bytes);
    }

    #[inline(never)]
    fn give_later(&mut self, now: Nanos, came: (SourceId, Option<Nanos>), bytes: &[u8]) {
        let ToCore { core, sink, announced } = self;
        core.announce(came.0, bytes);
        announced.put(came, bytes, |message| handle_announced(core, sink, now, message));
    }

    #[inline]
    fn catch_up(&mut self, now: Nanos) {
        let ToCore { core, sink, announced } = self;
        while announced.take(|message| handle_announced(core, sink, now, message)) {}
    }
}

#[inline(never)]
fn handle_announced(
    core: &mut PointToPoint,
    sink: &mut MarketToClients<'_>,
    now: Nanos,
    message: &AnnouncedMessage,
) {
    handle(core, sink, now, (message.source, message.waited_since), &message.bytes);
}

#[inline]
fn handle(
    core: &mut PointToPoint,
    sink: &mut MarketToClients<'_>,
    now: Nanos,
    (source, waited_since): (SourceId, Option<Nanos>),
    bytes: &[u8],
) {
    if let (Some(since), Some(hops)) = (waited_since, &mut sink.hops) {
        hops.has_waited_since(since);
    }
    check(core.on_stream_message(now, source, bytes, sink));
}

fn check(result: Result<(), UpstreamError>) {
    if let Err(error) = result {
        warn!(%error, "a message from a source distributor was refused");
    }
}

impl<'a> BackboneToMarket<'a> {
    #[inline]
    fn parts(&mut self) -> (ToCore<'_, 'a>, &mut Intake) {
        let BackboneToMarket { core, sink, intake, announced } = self;
        (ToCore { core, sink, announced }, intake)
    }

    /// Gives the core all that it has been told of: before anything else happens to it.
    #[inline]
    pub(crate) fn catch_up(&mut self, now: Nanos) {
        self.parts().0.catch_up(now);
    }

    /// A message that has to wait. Directories do not: they are few, and tell that an instance lives.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, now: Nanos, source: SourceId, bytes: &[u8]) {
        self.catch_up(now);
        if self.core.is_directory(source) {
            return check(self.core.on_stream_message(now, source, bytes, &mut self.sink));
        }
        self.intake.keep(now, source, bytes);
    }

    /// Handles the next of what waits; false if nothing may be handled now. Who takes no more has to
    /// [catch up](BackboneToMarket::catch_up).
    pub(crate) fn take_waiting(&mut self, now: Nanos) -> bool {
        let (mut to_core, intake) = self.parts();
        let since = intake.came(now);
        intake.hand_on(|waited| match waited {
            Waited::Message(source, bytes) => to_core.give(now, (source, Some(since)), bytes),
            Waited::Ended(source) => {
                to_core.catch_up(now);
                to_core.core.on_source_ended(now, source, to_core.sink);
            }
        })
    }
}

impl InletEvents for BackboneToMarket<'_> {
    fn on_source(&mut self, now: Nanos, source: SourceId, topic: Topic<'_>, session: u64) {
        self.catch_up(now);
        info!(source = source.0, ?topic, session, "source found");
        self.core.on_source(now, source, topic, session, &mut self.sink);
    }

    fn on_source_ended(&mut self, now: Nanos, source: SourceId) {
        self.catch_up(now);
        info!(source = source.0, "source ended");
        if self.core.is_directory(source) || self.intake.ends_now(now, source) {
            self.core.on_source_ended(now, source, &mut self.sink);
        }
    }

    #[inline]
    fn on_stream_message(&mut self, now: Nanos, source: SourceId, bytes: &[u8]) {
        if self.intake.passes(bytes.len()) {
            return self.parts().0.give(now, (source, None), bytes);
        }
        self.keep(now, source, bytes);
    }

    fn on_link_up(&mut self, now: Nanos, instance: u64) {
        self.catch_up(now);
        info!(instance = format!("{instance:016x}"), "link up");
        self.core.on_link_up(instance, &mut self.sink);
    }

    fn on_link_down(&mut self, now: Nanos, instance: u64) {
        self.catch_up(now);
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
        self.catch_up(now);
        check(self.core.on_link_message(now, instance, bytes, &mut self.sink));
    }

    fn on_notice(&mut self, notice: &Notice) {
        if notice.is_fault { warn!("{}", notice.text) } else { info!("{}", notice.text) }
    }
}
