//! Connections to the providers that are dialled.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use client::{DialledConnection, DialledEvent, DisconnectReason, HostPort, StartError};
use counters::Registry;
use counters::table::DialledConnection as Counters;
use market::distributor::{DialSpec, DialStage, Distributor, DistributorSink, ProviderId, ProviderNotice};
use net::{Registrar, Token};
use serde_json::{Value, json};
use tracing::{info, warn};
use units::Nanos;

use crate::InteractiveConfig;

/// All dialled providers, and what waits to be sent to them.
pub(crate) struct Dials {
    dials: Vec<Dial>,
    registrar: Registrar,
    token_space: u32,
    /// From when on providers that have not ended their side are left without; no connection is made any more.
    ends_at: Option<Nanos>,
}

/// How long providers have to end their side of a connection that this one has ended.
const DRAIN_TIME: Duration = Duration::from_secs(2);

struct Dial {
    connection: DialledConnection,
    spec: Arc<DialSpec>,
    counters: Arc<Counters>,
    /// Why there is no connection, as long as there is none.
    down: Option<String>,
}

/// What the core wants of dialled providers, kept until their connections are free to take it.
#[derive(Default)]
pub(crate) struct DialOutbox {
    bytes: Vec<u8>,
    messages: Vec<(ProviderId, Range<usize>)>,
    hang_ups: Vec<ProviderId>,
    /// To be logged, beside the provider's name.
    notices: Vec<(ProviderId, String)>,
}

/// Numbers from here on are dialled providers; those of the provider port's connections are below.
const FIRST: u32 = 1 << 31;

impl DialOutbox {
    /// Whether a provider is one that is dialled.
    pub(crate) fn is_for(provider: ProviderId) -> bool {
        provider.0 >= FIRST
    }

    pub(crate) fn send(&mut self, provider: ProviderId, message: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.messages.push((provider, from..self.bytes.len()));
    }

    pub(crate) fn hang_up(&mut self, provider: ProviderId) {
        self.hang_ups.push(provider);
    }

    pub(crate) fn notice(&mut self, provider: ProviderId, notice: &ProviderNotice<'_>) {
        self.notices.push((provider, notice.to_string()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.hang_ups.is_empty() && self.notices.is_empty()
    }
}

impl Dials {
    /// Connections that are begun with the first turn; their descriptors are registered under `token_space`.
    pub(crate) fn new(
        config: &[InteractiveConfig],
        registrar: &Registrar,
        token_space: u32,
        seed: u64,
        registry: &Registry,
    ) -> io::Result<Dials> {
        let mut rng = units::Rng::new(seed);
        let dials =
            config.iter().map(|one| Dial::new(one, rng.next_u64(), registry)).collect::<io::Result<_>>()?;
        Ok(Dials { dials, registrar: registrar.clone(), token_space, ends_at: None })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.dials.len()
    }

    pub(crate) fn owns(&self, token_space: u32) -> bool {
        token_space == self.token_space
    }

    /// Whether the connection at a place has something to do, whatever its socket does.
    pub(crate) fn is_due(&self, now: Nanos, place: usize) -> bool {
        let dial = &self.dials[place];
        let is_overdue = dial.connection.is_connected() && self.ends_at.is_some_and(|ends_at| ends_at <= now);
        is_overdue || dial.connection.next_wakeup() <= now
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        let connections = self.dials.iter().map(|d| d.connection.next_wakeup());
        let ends_at = self.ends_at.filter(|_| !self.has_ended());
        connections.chain(ends_at).min().unwrap_or(Nanos::NEVER)
    }

    /// Lets one connection work: what it brings goes to the core, and what the core decides into `sink`,
    /// which keeps what is for dialled providers. Without `reads` nothing is read.
    pub(crate) fn work<S: DistributorSink>(
        &mut self,
        now: Nanos,
        place: usize,
        reads: bool,
        core: &mut Distributor,
        sink: &mut S,
    ) {
        let Some(dial) = self.dials.get_mut(place) else { return };
        let provider = ProviderId(FIRST + place as u32);
        if core.is_leaving(provider) && !dial.connection.is_connected() {
            // Its items are still being told that it is lost.
            return;
        }
        let is_held = core.holds_provider(provider);
        dial.connection.look_ahead(core.messages_ahead());
        let (spec, down) = (&dial.spec, &mut dial.down);
        let mut on_event = |event: DialledEvent<'_>| match event {
            DialledEvent::Connected { host, .. } => {
                info!(provider = %spec.name, %host, "connected to provider");
                *down = None;
                core.on_dialled(now, provider, Arc::clone(spec), sink);
            }
            DialledEvent::Message(bytes) => {
                if let Err(error) = core.on_provider_message(now, provider, bytes, sink) {
                    core.on_provider_closed(now, provider, sink);
                    sink.close_provider(provider, &error);
                }
            }
            DialledEvent::Coming(bytes) => core.announce(provider, bytes),
            DialledEvent::Disconnected { host, reason, retry_in } => {
                lost(spec, host, reason, retry_in.map(|d| d.as_millis() as u64), down);
                core.on_provider_closed(now, provider, sink);
            }
        };
        if reads && !is_held {
            dial.connection.work(&mut on_event);
        } else {
            dial.connection.work_without_reading(&mut on_event);
        }
        // One that has a bad directory is dialled less and less often.
        if core.is_ready(provider) {
            dial.connection.accept();
        }
        if self.ends_at.is_some_and(|ends_at| ends_at <= now || !dial.connection.is_connected()) {
            dial.connection.stop();
        }
    }

    /// Puts what waits into the backlogs. A provider whose backlog is full does not read: its connection is
    /// given up.
    pub(crate) fn deliver<S: DistributorSink>(
        &mut self,
        now: Nanos,
        dial_outbox: DialOutbox,
        core: &mut Distributor,
        sink: &mut S,
    ) {
        for (provider, range) in dial_outbox.messages {
            let Some(dial) = self.dials.get_mut((provider.0 - FIRST) as usize) else { continue };
            if let Err(error) = dial.connection.send(&dial_outbox.bytes[range]) {
                warn!(provider = %dial.spec.name, %error, "provider does not take what it is sent");
                dial.counters.overflows.inc();
                dial.connection.hang_up();
                core.on_provider_closed(now, provider, sink);
            }
        }
        for (provider, notice) in dial_outbox.notices {
            if let Some(dial) = self.dials.get((provider.0 - FIRST) as usize) {
                warn!(provider = %dial.spec.name, "{notice}");
            }
        }
        for provider in dial_outbox.hang_ups {
            if let Some(dial) = self.dials.get_mut((provider.0 - FIRST) as usize) {
                dial.connection.hang_up();
            }
        }
    }

    /// Writes what is in the backlogs, and waits for more to read unless nothing can be taken now.
    pub(crate) fn flush(&mut self, now: Nanos, reads: bool, core: &Distributor) {
        for ((dial, place), number) in self.dials.iter_mut().zip(0u64..).zip(FIRST..) {
            dial.connection.flush(now);
            if !reads || core.holds_provider(ProviderId(number)) {
                dial.connection.disarm(&self.registrar);
                continue;
            }
            let token = Token(u64::from(self.token_space) << 32 | place);
            if let Err(error) = dial.connection.arm(&self.registrar, token) {
                warn!(provider = %dial.spec.name, %error, "connection cannot be waited for");
                dial.connection.hang_up();
            }
        }
    }

    /// Begins to end all connections: what is in the backlogs is written, then the end of the stream; a connection
    /// that is being made is given up. Each is over when its provider has ended its side, or [`DRAIN_TIME`] has
    /// passed, or it is `until`.
    pub(crate) fn begin_end(&mut self, now: Nanos, until: Nanos) {
        self.ends_at = Some(now.after(DRAIN_TIME).min(until));
        for dial in &mut self.dials {
            if dial.connection.is_connected() { dial.connection.end_output() } else { dial.connection.stop() }
        }
    }

    /// Whether all connections that were begun to be ended are over.
    pub(crate) fn has_ended(&self) -> bool {
        self.dials.iter().all(|dial| !dial.connection.is_connected())
    }

    pub(crate) fn end(&mut self) {
        self.dials.iter_mut().for_each(|dial| dial.connection.stop());
    }

    /// All of them, for the status page.
    pub(crate) fn describe(&self, core: &Distributor) -> Vec<Value> {
        let describe = |(dial, number): (&Dial, u32)| {
            let known = core.dialled_providers().find(|(id, _)| id.0 == number).map(|(_, status)| status);
            let state = match (known.map(|k| k.stage), dial.connection.is_connected()) {
                (Some(DialStage::Ready), _) => "ready",
                (Some(DialStage::AwaitingDirectory), _) => "waiting for the directory",
                (Some(DialStage::LoggingIn), _) => "logging in",
                (None, true) => "connected",
                (None, false) => "connecting",
            };
            json!({
                "name": dial.spec.name,
                "host": dial.connection.host().to_string(),
                "state": state,
                "error": dial.down,
                "services": known.map_or(0, |k| k.services),
                "items_open": known.map_or(0, |k| k.items_open),
                "items_pending": known.map_or(0, |k| k.items_pending),
                "dictionary_differences": known.map_or(&[][..], |k| k.differences).iter()
                    .map(ToString::to_string).collect::<Vec<_>>(),
            })
        };
        self.dials.iter().zip(FIRST..).map(describe).collect()
    }
}

impl Dial {
    fn new(config: &InteractiveConfig, seed: u64, registry: &Registry) -> io::Result<Dial> {
        let identity = client::Identity::of_process(config.password_file.as_deref())?;
        let counters = Arc::new(Counters::default());
        let labels = [("provider", &*config.name)];
        registry.register(&labels, counters.clone());
        let connection =
            DialledConnection::new(&config.connection, &config.hosts, &identity, seed, Arc::clone(&counters));
        let connection = connection.map_err(|error| match error {
            StartError::Io(error) => error,
            other => {
                io::Error::new(io::ErrorKind::InvalidInput, format!("provider {}: {other}", config.name))
            }
        })?;
        registry.register(&labels, connection.connections().clone());
        Ok(Dial { connection, spec: Arc::new(config.spec(&identity)), counters, down: None })
    }
}

fn lost(
    spec: &DialSpec,
    host: &HostPort,
    reason: DisconnectReason,
    retry_ms: Option<u64>,
    down: &mut Option<String>,
) {
    let reason = reason.to_string();
    // A provider that stays away is told once, and again when the reason is another.
    if down.as_ref() != Some(&reason) {
        warn!(provider = %spec.name, %host, %reason, retry_ms, "no connection to provider");
    }
    *down = Some(reason);
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use client::{DialledConfig, InteractiveProvider, ProviderServiceConfig};
    use market::backbone::{LinkDown, StreamMsg};
    use market::distributor::{DistributorConfig, PeerId, PeerNotice, ProviderError};
    use net::{Poller, clock};
    use rwf::Dictionary;

    use super::*;

    /// Has no backbone, and keeps what is for providers from being sent.
    struct Nowhere;

    impl DistributorSink for Nowhere {
        fn open_stream(&mut self, _: u16, _: &str) {}
        fn close_stream(&mut self, _: u16) {}
        fn publish(&mut self, _: u16, _: &StreamMsg<'_>) {}
        fn publish_directory(&mut self, _: &StreamMsg<'_>) {}
        fn to_peer(&mut self, _: PeerId, _: &LinkDown<'_>) {}
        fn to_provider(&mut self, _: ProviderId, _: &[u8]) {}
        fn notice(&mut self, _: ProviderId, _: &ProviderNotice<'_>) {}
        fn peer_notice(&mut self, _: PeerId, _: &str, _: &PeerNotice) {}
        fn close_provider(&mut self, _: ProviderId, _: &ProviderError) {}
    }

    fn config(address: SocketAddr) -> InteractiveConfig {
        InteractiveConfig {
            name: "one".into(),
            hosts: vec![HostPort::new("127.0.0.1", address.port())],
            services: Vec::new(),
            renamed: Vec::new(),
            standby: false,
            user: String::new(),
            password_file: None,
            application_id: "256".into(),
            application_name: String::new(),
            position: String::new(),
            connection: DialledConfig { backlog_max_bytes: 65_536, ..DialledConfig::default() },
        }
    }

    #[test]
    fn a_provider_that_does_not_take_what_it_is_sent_is_given_up_and_counted() {
        let service = ProviderServiceConfig { name: "S".into(), id: 1, ..Default::default() };
        let served = client::InteractiveConfig { port: 0, services: vec![service], ..Default::default() };
        let mut provider = InteractiveProvider::new(&served).expect("a port");
        let config = config(provider.local_address().expect("bound"));
        let poller = Poller::new().expect("descriptors");
        let mut dials = Dials::new(&[config], poller.registrar(), 0, 1, &Registry::default())
            .expect("a good configuration");
        let dictionary = Arc::new(Dictionary::new());
        let mut core = Distributor::new(1, DistributorConfig::default(), dictionary, Arc::default());
        let connect = |dials: &mut Dials, core: &mut Distributor, provider: &mut InteractiveProvider| {
            for _ in 0..10_000 {
                if dials.dials[0].connection.is_connected() {
                    return;
                }
                provider.dispatch(Duration::from_millis(1), &mut |_, _| ()).expect("it can wait");
                dials.work(clock::monotonic(), 0, true, core, &mut Nowhere);
                dials.flush(clock::monotonic(), true, core);
            }
            panic!("it never connects");
        };
        connect(&mut dials, &mut core, &mut provider);
        let mut dial_outbox = DialOutbox::default();
        (0..2).for_each(|_| dial_outbox.send(ProviderId(FIRST), &[0; 60_000]));
        dials.deliver(clock::monotonic(), dial_outbox, &mut core, &mut Nowhere);
        let counters = Arc::clone(&dials.dials[0].counters);
        assert_eq!((counters.overflows.get(), core.dialled_providers().count()), (1, 0));
        dials.work(clock::monotonic(), 0, true, &mut core, &mut Nowhere);
        assert!(!dials.dials[0].connection.is_connected());
        assert!(dials.dials[0].down.is_some(), "the status page says so");
        connect(&mut dials, &mut core, &mut provider);
        assert_eq!((counters.overflows.get(), core.dialled_providers().count()), (1, 1));
    }
}
