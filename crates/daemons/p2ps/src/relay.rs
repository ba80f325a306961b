//! The thread that takes the backbone for the shards of a server.

use std::sync::Arc;

use backbone::{Inlet, InletCommand, InletEvents, Notice, Outlet, OutletEvent};
use counters::Registry;
use counters::table::PointToPoint as Counters;
use daemon::{Describer, Pauses, Stamps, Status, Subject};
use market::backbone::{HopTimes, LinkDown, LinkUp, StreamMsg};
use market::distributor::PeerId;
use market::p2ps::relay::{Relay, RelaySink};
use market::p2ps::{ServerNotice, SourceId, Topic, UpstreamError, UpstreamSink};
use market::{Intake, Waited};
use net::agent::Agent;
use net::{Ready, clock};
use rwf::{Dictionary, Domain};
use serde_json::json;
use tracing::{debug, info, warn};
use units::Nanos;

use crate::inspection;
use crate::intake::{self, IntakeWatch};
use crate::server::{AGAIN_MAX, CLOCK_EVERY, WAITING_TIME};
use crate::{P2psConfig, ledger};

/// A point-to-point server's side of the backbone for shards in the same process: `I` towards source distributors, `O`
/// towards shards.
pub struct RelayServer<I, O> {
    core: Relay,
    inlet: I,
    outlet: O,
    /// What has come over the inlet and waits for the core, or for room towards shards.
    intake: Intake,
    watch: IntakeWatch,
    commands: Vec<InletCommand>,
    events: Vec<OutletEvent>,
    describer: Describer,
    inlet_space: u32,
    outlet_space: u32,
    pauses: Pauses,
    stamps: Stamps,
}

impl<I: Inlet, O: Outlet> RelayServer<I, O> {
    /// A relay over carriers that were made with these token spaces.
    #[must_use]
    pub fn new(
        config: &P2psConfig,
        dictionary: Arc<Dictionary>,
        (inlet, inlet_space): (I, u32),
        (outlet, outlet_space): (O, u32),
        seed: u64,
        registry: &Registry,
    ) -> RelayServer<I, O> {
        let counters = Arc::new(Counters::default());
        registry.register(&[("shard", "relay")], counters.clone());
        let (instance, core) = (units::Rng::new(seed).next_u64(), config.core());
        RelayServer {
            pauses: Pauses::new(core.silence_timeout),
            core: Relay::new(instance, core, dictionary, Arc::clone(&counters)),
            inlet,
            outlet,
            intake: Intake::new(config.intake()),
            watch: IntakeWatch::new(counters),
            commands: Vec::new(),
            events: Vec::new(),
            describer: Describer::new(&[]),
            inlet_space,
            outlet_space,
            stamps: Stamps::default(),
        }
    }

    /// Where it describes itself.
    #[must_use]
    pub fn status(&self) -> Status {
        self.describer.status()
    }

    /// Shards are told that no more comes.
    pub fn end(&mut self, now: Nanos) {
        self.outlet.end(now);
    }

    fn backbone_to_shards(&mut self) -> (BackboneToShards<'_, O>, &mut I) {
        let RelayServer { core, inlet, outlet, intake, commands, stamps, .. } = self;
        (BackboneToShards { core, outlet, commands, intake, stamps }, inlet)
    }

    /// Nothing is taken while shards have no room, or what came before waits.
    fn rests(&self) -> bool {
        self.inlet.keeps_unread() && (self.intake.bytes() > 0 || self.outlet.is_blocked())
    }

    fn take_waiting(&mut self, now: Nanos) {
        self.intake.renew(now);
        if self.intake.bytes() > 0 {
            self.take_some(now);
        }
        self.watch.look(now, &self.intake);
    }

    #[cold]
    #[inline(never)]
    fn take_some(&mut self, now: Nanos) {
        let until = clock::monotonic() + WAITING_TIME;
        let (mut adapter, _) = self.backbone_to_shards();
        while !adapter.outlet.is_blocked()
            && (0..CLOCK_EVERY).all(|_| adapter.take_waiting(now))
            && clock::monotonic() < until
        {}
    }

    /// Carries out what the core wants of the backbone.
    fn execute(&mut self, now: Nanos) {
        while !self.commands.is_empty() {
            for command in std::mem::take(&mut self.commands) {
                let (mut adapter, inlet) = self.backbone_to_shards();
                inlet.execute(now, command, &mut adapter);
            }
        }
    }

    /// Hears what shards want.
    fn hear_shards(&mut self, now: Nanos) {
        for event in std::mem::take(&mut self.events) {
            let (mut adapter, _) = self.backbone_to_shards();
            let (core, mut sink) = adapter.split(now);
            match event {
                OutletEvent::Connected(shard) => core.on_shard_connected(shard),
                OutletEvent::Message(shard, bytes) => {
                    if let Err(error) = core.on_shard_message(now, shard, &bytes, &mut sink) {
                        warn!(shard = shard.0, %error, "a message from a shard was refused");
                    }
                }
                OutletEvent::Closed(shard, _) => core.on_shard_closed(now, shard, &mut sink),
                OutletEvent::Notice(notice) => report(&notice),
            }
        }
    }

    fn describe(&mut self, now: Nanos) {
        let RelayServer { core, intake, describer, .. } = self;
        describer.describe(now, |query| {
            match query.subject() {
                Subject::Ledger => return ledger::describe_relay(core),
                // Shards are asked for that.
                Subject::Status | Subject::Trace => {}
            }
            let core = core.core();
            let item = query.item().and_then(|(service, domain, name)| {
                inspection::describe_item(core, service, Domain(domain), name)
            });
            json!({
                "role": "relay", "item": item,
                "services": inspection::describe_services(core),
                "counts": inspection::describe_counts(core),
                "items": core.item_count(),
                "intake": intake::describe(now, intake),
            })
        });
    }
}

fn report(notice: &Notice) {
    if notice.is_fault { warn!("{}", notice.text) } else { info!("{}", notice.text) }
}

impl<I: Inlet, O: Outlet> Agent for RelayServer<I, O> {
    fn owns(&self, token_space: u32) -> bool {
        [self.inlet_space, self.outlet_space].contains(&token_space)
    }

    fn on_ready(&mut self, now: Nanos, ready: Ready) {
        if self.pauses.is_over(now) {
            self.core.after_pause(now);
        }
        if (ready.token.0 >> 32) as u32 == self.outlet_space {
            self.outlet.on_ready(now, ready, &mut self.events);
            return self.hear_shards(now);
        }
        if self.rests() {
            return;
        }
        for _ in 0..AGAIN_MAX {
            let (mut adapter, inlet) = self.backbone_to_shards();
            if !inlet.on_ready(now, ready, &mut adapter) {
                return;
            }
        }
    }

    fn turn(&mut self, now: Nanos) {
        if self.pauses.is_over(now) {
            self.core.after_pause(now);
        }
        if now >= self.outlet.next_wakeup() {
            self.outlet.on_wakeup(now, &mut self.events);
        }
        self.hear_shards(now);
        let rests = self.rests();
        let (mut adapter, inlet) = self.backbone_to_shards();
        if now >= inlet.next_wakeup() && !rests {
            inlet.on_wakeup(now, &mut adapter);
        }
        self.take_waiting(now);
        let (mut adapter, _) = self.backbone_to_shards();
        let (core, mut sink) = adapter.split(now);
        if now >= core.next_wakeup() {
            core.on_wakeup(now, &mut sink);
        }
        core.report_progress(now, &mut sink);
        self.execute(now);
        self.inlet.flush(now);
        self.outlet.flush(now);
        self.describe(now);
    }

    fn next_wakeup(&self) -> Nanos {
        let inlet = if self.rests() { Nanos::NEVER } else { self.inlet.next_wakeup() };
        let waiting = if self.outlet.is_blocked() { Nanos::NEVER } else { self.intake.next_wakeup() };
        self.core
            .next_wakeup()
            .min(self.core.core().next_report())
            .min(waiting)
            .min(inlet)
            .min(self.outlet.next_wakeup())
            .min(self.describer.next_wakeup())
    }
}

/// What comes from the backbone, given to the core.
struct BackboneToShards<'a, O> {
    core: &'a mut Relay,
    outlet: &'a mut O,
    commands: &'a mut Vec<InletCommand>,
    intake: &'a mut Intake,
    stamps: &'a mut Stamps,
}

fn check(result: Result<(), UpstreamError>) {
    if let Err(error) = result {
        warn!(%error, "a message from a source distributor was refused");
    }
}

impl<O: Outlet> BackboneToShards<'_, O> {
    fn split(&mut self, now: Nanos) -> (&mut Relay, RelayToShards<'_, O>) {
        let BackboneToShards { core, outlet, commands, stamps, .. } = self;
        (core, RelayToShards { outlet, commands, now, stamps, came: now })
    }

    /// Handles the next of what waits; false if nothing may be handled now.
    fn take_waiting(&mut self, now: Nanos) -> bool {
        let BackboneToShards { core, outlet, commands, intake, stamps } = self;
        let came = intake.came(now);
        let mut sink = RelayToShards { outlet: *outlet, commands, now, stamps, came };
        intake.hand_on(|waited| match waited {
            Waited::Message(source, bytes) => check(core.on_stream_message(now, source, bytes, &mut sink)),
            Waited::Ended(source) => core.on_source_ended(now, source, &mut sink),
        })
    }
}

impl<O: Outlet> InletEvents for BackboneToShards<'_, O> {
    fn on_source(&mut self, now: Nanos, source: SourceId, topic: Topic<'_>, session: u64) {
        info!(source = source.0, ?topic, session, "source found");
        let (core, mut sink) = self.split(now);
        core.on_source(now, source, topic, session, &mut sink);
    }

    fn on_source_ended(&mut self, now: Nanos, source: SourceId) {
        info!(source = source.0, "source ended");
        if self.core.core().is_directory(source) || self.intake.ends_now(now, source) {
            let (core, mut sink) = self.split(now);
            core.on_source_ended(now, source, &mut sink);
        }
    }

    #[inline]
    fn on_stream_message(&mut self, now: Nanos, source: SourceId, bytes: &[u8]) {
        // Directories do not wait: they are few, and tell that an instance lives.
        let passes = !self.outlet.is_blocked() && self.intake.passes(bytes.len());
        if passes || self.core.core().is_directory(source) {
            let (core, mut sink) = self.split(now);
            return check(core.on_stream_message(now, source, bytes, &mut sink));
        }
        self.intake.keep(now, source, bytes);
    }

    fn on_link_up(&mut self, now: Nanos, instance: u64) {
        info!(instance = format!("{instance:016x}"), "link up");
        let (core, mut sink) = self.split(now);
        core.on_link_up(instance, &mut sink);
    }

    fn on_link_down(&mut self, now: Nanos, instance: u64) {
        let (core, mut sink) = self.split(now);
        if core.on_link_down(now, instance, &mut sink) {
            warn!(
                instance = format!("{instance:016x}"),
                "link down, trying again until it is back or another is found"
            );
        } else {
            debug!(instance = format!("{instance:016x}"), "link not opened");
        }
    }

    fn on_link_message(&mut self, now: Nanos, instance: u64, bytes: &[u8]) {
        let (core, mut sink) = self.split(now);
        check(core.on_link_message(now, instance, bytes, &mut sink));
    }

    fn on_notice(&mut self, notice: &Notice) {
        report(notice);
    }
}

/// Carries out what the core decides.
struct RelayToShards<'a, O> {
    outlet: &'a mut O,
    commands: &'a mut Vec<InletCommand>,
    now: Nanos,
    stamps: &'a mut Stamps,
    /// When what is handled now has come.
    came: Nanos,
}

impl<O: Outlet> RelayToShards<'_, O> {
    /// Sends an update on with a stamp of this hop behind those that it has.
    #[cold]
    #[inline(never)]
    fn publish_stamped(&mut self, service: u16, msg: &StreamMsg<'_>) {
        let passed = HopTimes::of(msg.parts).ok().flatten().map(|hops| {
            let passage = self.stamps.passage(self.came, self.now, hops.distributor.left);
            HopTimes { relay: Some(passage), ..hops }.part()
        });
        let msg = StreamMsg { parts: passed.as_ref().map_or(&[], |part| part.bytes()), ..*msg };
        let mut room = [0; _];
        self.outlet.publish(self.now, service, msg.header_and_parts(&mut room), msg.body);
    }
}

impl<O: Outlet> RelaySink for RelayToShards<'_, O> {
    fn open_stream(&mut self, service: u16, name: &str) {
        if let Err(error) = self.outlet.open_stream(self.now, service, name) {
            warn!(%error, service = name, "shards cannot be sent a service");
        }
    }

    fn close_stream(&mut self, service: u16) {
        self.outlet.close_stream(service);
    }

    #[inline]
    fn publish(&mut self, service: u16, msg: &StreamMsg<'_>) {
        if !msg.parts.is_empty() {
            return self.publish_stamped(service, msg);
        }
        self.outlet.publish(self.now, service, &msg.header(), msg.body);
    }

    fn publish_directory(&mut self, msg: &StreamMsg<'_>) {
        self.outlet.publish_directory(self.now, &msg.header(), msg.body);
    }

    fn to_shard(&mut self, shard: PeerId, msg: &LinkDown<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.outlet.to_peer(shard, &bytes);
    }
}

impl<O: Outlet> UpstreamSink for RelayToShards<'_, O> {
    fn subscribe(&mut self, service: &str) {
        self.commands.push(InletCommand::Subscribe(service.to_owned()));
    }

    fn unsubscribe(&mut self, service: &str) {
        self.commands.push(InletCommand::Unsubscribe(service.to_owned()));
    }

    fn connect(&mut self, instance: u64, directory: SourceId) {
        self.commands.push(InletCommand::Connect { instance, directory });
    }

    fn disconnect_link(&mut self, instance: u64) {
        self.commands.push(InletCommand::Disconnect(instance));
    }

    fn to_instance(&mut self, instance: u64, msg: &LinkUp<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.commands.push(InletCommand::Send { instance, bytes });
    }

    fn notice(&mut self, notice: &ServerNotice<'_>) {
        warn!("{notice}");
    }
}
