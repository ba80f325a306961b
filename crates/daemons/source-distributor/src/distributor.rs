use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use backbone::{Outlet, OutletEvent};
use counters::Registry;
use counters::table::Distributor as Counters;
use daemon::{
    Describer, Facts, HopLatencies, LISTED_MAX, Page, Parameter, Pauses, Query, Stamps, Status, Subject,
    UserList, describe_users,
};
use market::BusyItem;
use market::distributor::{Distributor, ProviderId, SpoiltItem};
use net::agent::Agent;
use net::{Ready, Registrar};
use rwf::Dictionary;
use serde_json::{Value, json};
use server::rssl::{ListenerCounters, RsslListener};
use server::{ConnectionId, ConnectionInfo};
use tracing::{info, warn};
use units::Nanos;

use crate::SourceDistributorConfig;
use crate::dials::{DialOutbox, Dials};
use crate::ledger;
use crate::market_to_backbone::{Links, MarketToBackbone, Stamper};
use crate::rssl_to_market::RsslToMarket;
use crate::saved::SavedImages;

/// A source distributor on one thread, over any carrier.
pub struct SourceDistributor<O> {
    core: Distributor,
    users: UserList,
    outlet: O,
    listener: RsslListener,
    dials: Dials,
    saved: Option<SavedImages>,
    /// What the core wants of dialled providers.
    dial_outbox: DialOutbox,
    token_space: u32,
    events: Vec<OutletEvent>,
    links: Links,
    /// Providers are not read from, since P2PSs are behind.
    is_held: bool,
    describer: Describer,
    pauses: Pauses,
}

/// How a source distributor and its providers come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Providers {
    /// It has a port for them, and dials others.
    ConnectToo,
    /// It dials all of them, and has no port.
    Dialled,
}

fn listen(
    config: &SourceDistributorConfig,
    registrar: &Registrar,
    token_space: u32,
    seed: u64,
    registry: &Registry,
) -> io::Result<RsslListener> {
    let listener = server::rssl::listen(
        &config.provider,
        config.provider_port,
        registrar,
        token_space,
        seed,
        READ_BYTES,
        ListenerCounters::registered(registry, "provider"),
    )?;
    info!(provider_port = %listener.local_address()?, "providers connect");
    if let Some(address) = listener.tls_address()? {
        info!(%address, "encrypted provider connections");
    }
    Ok(listener)
}

/// What is read from a provider at a time.
const READ_BYTES: usize = 256 << 10;
/// What a status page lists can be chosen by.
const PARAMETERS: &[Parameter] = &[
    Parameter::After,
    Parameter::Limit,
    Parameter::Sort,
    Parameter::User,
    Parameter::Address,
    Parameter::State,
    Parameter::BacklogMin,
    Parameter::Busiest,
];

impl<O: Outlet> SourceDistributor<O> {
    /// How many token spaces its descriptors use.
    pub const TOKEN_SPACES: u32 = 3;

    /// Opens the provider port, if providers connect. The distributor's token spaces from `token_space` on are the
    /// listener's, the next one for the outlet, which must have been made with it, and that of the dialled providers.
    ///
    /// # Errors
    /// The port is taken or a value is out of range; the error names it.
    pub fn new(
        config: &SourceDistributorConfig,
        providers: Providers,
        dictionary: Arc<Dictionary>,
        outlet: O,
        (registrar, token_space): (&Registrar, u32),
        seed: u64,
        registry: &Registry,
    ) -> io::Result<SourceDistributor<O>> {
        let listener = match providers {
            Providers::ConnectToo => listen(config, registrar, token_space, seed, registry)?,
            Providers::Dialled => {
                let counters = ListenerCounters::registered(&Registry::default(), "provider");
                server::rssl::without_port(&config.provider, registrar, token_space, READ_BYTES, counters)?
            }
        };
        let (users, admitted) = UserList::load(config.users_file.as_deref(), registry, "source-distributor")?;
        let counters = Arc::new(Counters::default());
        registry.register(&[], counters.clone());
        let saved = SavedImages::open(&config.saved_images, registry)?;
        let dials = Dials::new(&config.interactive, registrar, token_space + 2, !seed, registry)?;
        let instance = units::Rng::new(seed).next_u64();
        let mut core = Distributor::new(instance, config.core(), dictionary, counters);
        core.admit_only(admitted);
        info!(instance = format!("{instance:016x}"), "source distributor");
        let stamper = config.hop_stamps.then(|| Stamper {
            stamps: Stamps::default(),
            latencies: HopLatencies::registered(registry, "source_distributor", &[]),
        });
        let is_restoring = saved.as_ref().is_some_and(SavedImages::is_restoring);
        Ok(SourceDistributor {
            core,
            users,
            outlet,
            listener,
            dials,
            saved,
            dial_outbox: DialOutbox::default(),
            token_space,
            events: Vec::new(),
            links: Links { stamper, ..Links::default() },
            is_held: is_restoring,
            describer: Describer::new(PARAMETERS),
            pauses: Pauses::new(Duration::from_millis(config.provider_silence_ms)),
        })
    }

    /// The address of the provider port.
    ///
    /// # Errors
    /// None in practice.
    pub fn provider_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_address()
    }

    /// Where the daemon describes itself.
    #[must_use]
    pub fn status(&self) -> Status {
        self.describer.status()
    }

    /// The core, for tests and tools in the same thread.
    #[must_use]
    pub fn core(&self) -> &Distributor {
        &self.core
    }

    /// Begins to end: providers are notified, and no new ones are taken. What waits for them is written until `until`,
    /// while the agent is driven; [`Agent::has_ended`] tells when all are gone. [`SourceDistributor::end`] comes last.
    pub fn begin_end(&mut self, now: Nanos, until: Nanos) {
        let SourceDistributor { core, outlet, listener, dial_outbox, links, .. } = self;
        core.announce_end(&mut MarketToBackbone {
            now,
            outlet,
            outbox: listener.outbox(),
            dial_outbox,
            links,
        });
        self.listener.end(until);
        self.deliver(now);
        self.dials.begin_end(now, until);
    }

    /// Says to all that this instance ends.
    pub fn end(&mut self, now: Nanos) {
        self.dials.end();
        self.outlet.end(now);
    }

    fn take_events(&mut self, now: Nanos) {
        while !self.events.is_empty() {
            for event in std::mem::take(&mut self.events) {
                self.take_event(now, event);
            }
        }
    }

    fn take_event(&mut self, now: Nanos, event: OutletEvent) {
        let SourceDistributor { core, outlet, listener, dial_outbox, links, .. } = self;
        let mut sink = MarketToBackbone { now, outlet, outbox: listener.outbox(), dial_outbox, links };
        match event {
            OutletEvent::Connected(peer) => {
                info!(peer = peer.0, "point-to-point server connected");
                core.on_peer_connected(peer);
            }
            OutletEvent::Message(peer, bytes) => match core.on_peer_message(now, peer, &bytes, &mut sink) {
                Ok(()) => {}
                Err(error) if error.cuts_link() => {
                    warn!(peer = peer.0, %error, "link cut");
                    core.on_peer_closed(now, peer, &mut sink);
                    outlet.close_peer(peer);
                }
                Err(error) => warn!(peer = peer.0, %error, "message of a point-to-point server refused"),
            },
            OutletEvent::Closed(peer, reason) => {
                info!(peer = peer.0, reason, "point-to-point server gone");
                core.on_peer_closed(now, peer, &mut sink);
            }
            OutletEvent::Notice(notice) if notice.is_fault => warn!("{}", notice.text),
            OutletEvent::Notice(notice) => info!("{}", notice.text),
        }
    }

    /// Serves links that wait for images, as far as the turn's work goes.
    fn serve_links(&mut self, now: Nanos) {
        let SourceDistributor { core, outlet, listener, dial_outbox, links, .. } = self;
        links.work = 0;
        if core.waiting_peers().next().is_some() {
            core.serve_peers(
                now,
                &mut MarketToBackbone { now, outlet, outbox: listener.outbox(), dial_outbox, links },
            );
            links.work = 0;
        }
    }

    /// Lets the dialled providers work whose time has come, until nothing is left to be done.
    fn work_dials(&mut self, now: Nanos) {
        self.deliver(now);
        for place in 0..self.dials.len() {
            if self.dials.is_due(now, place) {
                self.work_dial(now, place);
            }
        }
        self.deliver(now);
    }

    fn work_dial(&mut self, now: Nanos, place: usize) {
        let SourceDistributor { core, outlet, listener, dials, dial_outbox, links, is_held, .. } = self;
        let reads = !outlet.is_blocked() && !*is_held;
        let mut sink = MarketToBackbone { now, outlet, outbox: listener.outbox(), dial_outbox, links };
        dials.work(now, place, reads, core, &mut sink);
    }

    /// Providers that have waited for clean-ups are read from again, and those are closed that had said what they may
    /// not meanwhile.
    fn release_providers(&mut self, now: Nanos) {
        let SourceDistributor { core, outlet, listener, dial_outbox, links, .. } = self;
        for connection in std::mem::take(&mut links.dismissed) {
            listener.dismiss(connection);
        }
        for provider in core.take_released().into_iter().filter(|provider| !DialOutbox::is_for(*provider)) {
            let mut providers = RsslToMarket { core, outlet, dial_outbox, links };
            listener.resume(now, ConnectionId(provider.0), &mut providers);
        }
    }

    /// Puts what the core wants of dialled providers into their backlogs; what comes of that in turn, too.
    fn deliver(&mut self, now: Nanos) {
        let SourceDistributor { core, outlet, listener, dials, dial_outbox, links, .. } = self;
        while !dial_outbox.is_empty() {
            let waiting = std::mem::take(dial_outbox);
            let mut sink = MarketToBackbone { now, outlet, outbox: listener.outbox(), dial_outbox, links };
            dials.deliver(now, waiting, core, &mut sink);
        }
    }

    /// After a pause of this thread providers have time to be read.
    #[inline]
    fn notice_pause(&mut self, now: Nanos) {
        if self.pauses.is_over(now) {
            self.core.after_pause(now);
        }
    }

    /// Puts a changed list of users in force.
    fn refresh_users(&mut self, now: Nanos) {
        let Some(users) = self.users.refresh(now) else { return };
        let SourceDistributor { core, outlet, listener, dial_outbox, links, .. } = self;
        let mut sink = MarketToBackbone { now, outlet, outbox: listener.outbox(), dial_outbox, links };
        for provider in core.set_users(users, &mut sink) {
            warn!(connection = provider.0, "provider's login is revoked, its connection is closed");
            listener.dismiss(ConnectionId(provider.0));
        }
    }

    fn describe(&mut self, now: Nanos) {
        let SourceDistributor { core, dials, listener, is_held, describer, links, .. } = self;
        let is_held = *is_held;
        describer.describe(now, |query| {
            if query.subject() == Subject::Ledger {
                return ledger::describe(core);
            }
            let busiest = (query.busiest() > 0).then(|| describe_busiest(now, query.busiest(), core));
            let core = &*core;
            let page = page_of_providers(query, core, listener);
            let service = |(id, name, up, sequence): (u16, &str, bool, u64)| {
                json!({"id": id, "name": name, "up": up, "sequence": sequence})
            };
            let mut document = json!({
                "role": "source-distributor",
                "instance": format!("{:016x}", core.instance()),
                "services": core.services().map(service).collect::<Vec<Value>>(),
                "users": describe_users(core.gate()),
                "providers": core.provider_users().collect::<Vec<_>>(),
                "interactive_providers": dials.describe(core),
                "peers": core.peer_names().collect::<Vec<_>>(),
                "peer_flows": core.peer_flows().take(LISTED_MAX).map(ledger::describe_flow).collect::<Vec<Value>>(),
                "providers_held": is_held,
                "items": core.item_count(),
                "counts": describe_counts(core),
                "items_spoilt": core.spoilt_items().map(describe_spoilt).collect::<Vec<Value>>(),
                "connections": page.listed.iter().map(|info| describe_provider(core, info)).collect::<Vec<Value>>(),
                "page": page.to_json(listener.connection_count()),
            });
            if let Some(busiest) = busiest {
                document["busiest"] = busiest;
            }
            if let Some(stamper) = &links.stamper {
                document["hops"] = stamper.latencies.to_json();
            }
            document
        });
    }
}

/// What has gone in and out since the start.
fn describe_counts(core: &Distributor) -> Value {
    let counted = core.counters();
    json!({
        "updates_in": counted.updates_in.get(), "stream_messages_out": counted.stream_messages_out.get(),
        "messages_refused": counted.messages_refused.get(),
    })
}

/// The busiest items; null until they are known.
fn describe_busiest(now: Nanos, count: usize, core: &mut Distributor) -> Value {
    let names: BTreeMap<u16, String> = core.services().map(|(id, name, ..)| (id, name.to_owned())).collect();
    let Some(busiest) = core.busiest_items(now) else { return Value::Null };
    let describe = |(item, peers): (&BusyItem, usize)| {
        json!({
            "service": names.get(&item.key.service), "domain": item.key.domain.0,
            "name": String::from_utf8_lossy(&item.key.name),
            "updates_per_second": item.updates_per_1000_s as f64 / 1000.0, "peers": peers,
        })
    };
    busiest.take(count).map(describe).collect()
}

/// Which connections of providers a status page lists.
fn page_of_providers(query: &Query, core: &Distributor, listener: &mut RsslListener) -> Page<ConnectionInfo> {
    let begin = query.after().map(|after| ConnectionId(u32::try_from(after).unwrap_or(u32::MAX)));
    query.page(listener.connections_after(begin).map(|connection| {
        let facts = Facts {
            user: user_of(core, &connection).unwrap_or_default(),
            address: Some(connection.peer.ip()),
            state: state_of(core, &connection),
            backlog_bytes: connection.backlog.depth_bytes as u64,
            ..Facts::default()
        };
        (connection.connection.0.into(), facts, connection)
    }))
}

fn user_of<'a>(core: &'a Distributor, connection: &ConnectionInfo) -> Option<&'a str> {
    core.provider_user(ProviderId(connection.connection.0))
}

fn state_of(core: &Distributor, connection: &ConnectionInfo) -> &'static str {
    if user_of(core, connection).is_some() { "open" } else { "login" }
}

/// A connection of a provider, with what the core knows of it.
fn describe_provider(core: &Distributor, connection: &ConnectionInfo) -> Value {
    let mut described = connection.to_json();
    described["id"] = json!(connection.connection.0);
    described["user"] = json!(user_of(core, connection));
    described["state"] = json!(state_of(core, connection));
    described
}

/// An item about which a message could not be read.
fn describe_spoilt(item: SpoiltItem<'_>) -> Value {
    json!({
        "service": item.key.service, "domain": item.key.domain.to_string(),
        "name": String::from_utf8_lossy(&item.key.name),
        "error": item.error.to_string(), "suspect": item.is_suspect,
    })
}

impl<O: Outlet> Agent for SourceDistributor<O> {
    fn owns(&self, token_space: u32) -> bool {
        token_space == self.token_space || token_space == self.token_space + 1 || self.dials.owns(token_space)
    }

    #[inline]
    fn on_ready(&mut self, now: Nanos, ready: Ready) {
        self.notice_pause(now);
        if (ready.token.0 >> 32) as u32 == self.token_space {
            let SourceDistributor { core, outlet, listener, dial_outbox, links, .. } = self;
            listener.on_ready(now, ready, &mut RsslToMarket { core, outlet, dial_outbox, links });
        } else if self.dials.owns((ready.token.0 >> 32) as u32) {
            self.work_dial(now, ready.token.0 as u32 as usize);
        } else {
            self.outlet.on_ready(now, ready, &mut self.events);
            self.take_events(now);
        }
    }

    fn turn(&mut self, now: Nanos) {
        self.notice_pause(now);
        self.refresh_users(now);
        if now >= self.outlet.next_wakeup() {
            self.outlet.on_wakeup(now, &mut self.events);
            self.take_events(now);
        }
        let SourceDistributor { core, outlet, listener, dial_outbox, links, .. } = self;
        if now >= core.next_wakeup() {
            core.on_wakeup(
                now,
                &mut MarketToBackbone { now, outlet, outbox: listener.outbox(), dial_outbox, links },
            );
            self.release_providers(now);
        }
        self.serve_links(now);
        self.work_dials(now);
        let SourceDistributor { core, outlet, listener, dial_outbox, links, .. } = self;
        outlet.flush(now);
        let mut providers = RsslToMarket { core, outlet, dial_outbox, links };
        listener.on_wakeup(now, &mut providers);
        listener.flush(now, &mut providers);
        let RsslToMarket { core, outlet, dial_outbox, links } = providers;
        let mut sink = MarketToBackbone { now, outlet, outbox: listener.outbox(), dial_outbox, links };
        let is_restoring = self.saved.as_mut().is_some_and(|saved| {
            saved.turn(now, core, &mut sink);
            saved.is_restoring()
        });
        self.is_held = core.holds_providers(now, &mut sink) || is_restoring;
        let is_blocked = outlet.is_blocked() || self.is_held;
        let mut providers = RsslToMarket { core, outlet, dial_outbox, links };
        listener.pause(now, is_blocked, &mut providers);
        self.deliver(now);
        self.dials.flush(now, !is_blocked, &self.core);
        self.describe(now);
    }

    fn has_ended(&self) -> bool {
        self.listener.has_ended() && self.dials.has_ended()
    }

    fn next_wakeup(&self) -> Nanos {
        let SourceDistributor { core, outlet, .. } = self;
        if !outlet.is_blocked() && core.waiting_peers().any(|peer| !outlet.is_full(peer)) {
            return Nanos::ZERO;
        }
        self.core
            .next_wakeup()
            .min(self.outlet.next_wakeup())
            .min(self.listener.next_wakeup())
            .min(self.dials.next_wakeup())
            .min(self.saved.as_ref().map_or(Nanos::NEVER, SavedImages::next_wakeup))
            .min(self.users.next_wakeup())
            .min(self.describer.next_wakeup())
    }
}
