//! Which server is tried when, and with which version: what consumer and provider have in common below the
//! login.

use std::sync::Arc;
use std::time::Duration;

use counters::table::RsslConnections;
use rssl::{ClientConfig, ClientConnection, ClientParams, ConfigError, ConnectionVersion, Limits, Stop};
use server::rssl::Compression;
use units::{Nanos, Rng};

use crate::HostPort;

/// What the driver's socket is to be, told by [`Endpoint::socket`](crate::Endpoint::socket).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket<'a> {
    /// There is to be none: close what there is.
    Absent,
    /// Close what there is, and begin a TCP connection. Said once for each attempt.
    Connect(Attempt<'a>),
    /// The one there is stays.
    Present,
}

/// One attempt at a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// With whom.
    pub host: &'a HostPort,
    /// How many rounds through the hosts went before. If the host's name stands for several addresses, they are
    /// tried in turn, beginning with this one, modulo their number: so that also the address behind one that
    /// answers, but leads to nothing, has its turn.
    pub round: usize,
    /// When the attempt is over.
    pub deadline: Nanos,
}

/// What a [`Connector`] works by.
#[derive(Debug)]
pub(crate) struct ConnectPlan {
    pub(crate) hosts: Vec<HostPort>,
    pub(crate) connect_timeout_ms: u32,
    pub(crate) delay_min: Duration,
    pub(crate) delay_max: Duration,
    /// How often it is looked whether the first host is back; `None`: never.
    pub(crate) prefer_interval: Option<Duration>,
    pub(crate) params: Arc<ClientParams>,
    pub(crate) seed: u64,
}

/// A number of seconds, of which none is never.
pub(crate) fn seconds(count: u32) -> Option<Duration> {
    (count > 0).then(|| Duration::from_secs(count.into()))
}

/// What of a connection is configured.
pub(crate) struct ConnectOptions<'a> {
    pub(crate) connect_timeout_ms: u32,
    pub(crate) ping_timeout_s: u8,
    pub(crate) component: &'a str,
    pub(crate) compression: Option<Compression>,
    pub(crate) identity: &'a crate::Identity,
    pub(crate) message_max_bytes: u32,
    pub(crate) backlog_max_bytes: u32,
    /// Shortest and longest delay between rounds.
    pub(crate) delays_ms: (u32, u32),
}

/// The options that a configuration of consumer, provider or dialled connection has under the same names.
macro_rules! connect_options {
    ($config:expr, $identity:expr, $message_max_bytes:expr) => {
        $crate::connector::ConnectOptions {
            connect_timeout_ms: $config.connect_timeout_ms,
            ping_timeout_s: $config.ping_timeout_s,
            component: &$config.component,
            compression: $config.compression,
            identity: $identity,
            message_max_bytes: $message_max_bytes,
            backlog_max_bytes: $config.backlog_max_bytes,
            delays_ms: ($config.reconnect_delay_min_ms, $config.reconnect_delay_max_ms),
        }
    };
}

pub(crate) use connect_options;

impl ConnectOptions<'_> {
    /// How servers are tried with it; it is not looked whether the first one is back.
    pub(crate) fn plan(&self, hosts: &[HostPort], seed: u64) -> Result<ConnectPlan, ConfigError> {
        Ok(ConnectPlan {
            hosts: hosts.to_vec(),
            connect_timeout_ms: self.connect_timeout_ms,
            delay_min: Duration::from_millis(self.delays_ms.0.into()),
            delay_max: Duration::from_millis(self.delays_ms.1.into()),
            prefer_interval: None,
            params: self.params()?,
            seed,
        })
    }

    fn params(&self) -> Result<Arc<ClientParams>, ConfigError> {
        let defaults = Limits::default();
        let limits = Limits {
            message_bytes_max: self.message_max_bytes,
            fragmented_bytes_max: defaults.fragmented_bytes_max.max(2 * u64::from(self.message_max_bytes)),
            backlog_bytes_max: self.backlog_max_bytes as usize,
            ..defaults
        };
        let config = ClientConfig {
            ping_timeout_s: self.ping_timeout_s,
            handshake_timeout: Duration::from_millis(self.connect_timeout_ms.into()),
            host_name: self.identity.host_name.clone(),
            ip_address: self.identity.ip_address.clone(),
            component_version: self.component.to_owned(),
            compression: self.compression.map(Compression::to_type).unwrap_or_default(),
            limits,
            ..ClientConfig::default()
        };
        config.check().map(Arc::new)
    }
}

/// Goes through the servers and owns the connection to one of them.
///
/// Servers are tried in turn. One that fails, or is lost, gives way to the next at once; when each has failed
/// since the last success there is a delay, which doubles from round to round. A delay is drawn from its
/// upper half, so that clients that lost one server do not come back as one.
#[derive(Debug)]
pub(crate) struct Connector {
    plan: ConnectPlan,
    counters: Arc<RsslConnections>,
    rng: Rng,
    phase: Phase,
    host: usize,
    /// How often all hosts have been gone through.
    round: usize,
    version: ConnectionVersion,
    /// Servers that have failed since the last success.
    failed_count: usize,
    delay: Duration,
    /// When it is looked for the first host, as long as the connection is to another.
    probe_at: Nanos,
}

/// How long a look for the first host may take.
const PROBE_MAX: Duration = Duration::from_secs(2);

#[derive(Debug)]
enum Phase {
    /// The next attempt is due.
    Waiting { until: Nanos },
    /// The driver makes the TCP connection, for which it may have to look up the host's name.
    Opening { deadline: Nanos },
    /// The TCP connection stands.
    Open(Box<ClientConnection>),
    /// Nothing more is tried. What a last connection had pending can still be written.
    Stopped(Option<Box<ClientConnection>>),
}

impl Connector {
    pub(crate) fn new(plan: ConnectPlan) -> Connector {
        let version = plan.params.config().version_max;
        let (rng, delay) = (Rng::new(plan.seed), plan.delay_min);
        Connector {
            plan,
            counters: Arc::default(),
            rng,
            phase: Phase::Waiting { until: Nanos::ZERO },
            host: 0,
            round: 0,
            version,
            failed_count: 0,
            delay,
            probe_at: Nanos::NEVER,
        }
    }

    pub(crate) fn counters(&self) -> &Arc<RsslConnections> {
        &self.counters
    }

    pub(crate) fn host(&self) -> &HostPort {
        &self.plan.hosts[self.host]
    }

    pub(crate) fn socket(&mut self, now: Nanos) -> Socket<'_> {
        match self.phase {
            Phase::Waiting { until } if until <= now => {
                let limit = Duration::from_millis(self.plan.connect_timeout_ms.into());
                let deadline = now.after(limit);
                self.phase = Phase::Opening { deadline };
                Socket::Connect(Attempt { host: self.host(), round: self.round, deadline })
            }
            Phase::Waiting { .. } | Phase::Stopped(None) => Socket::Absent,
            Phase::Opening { .. } | Phase::Open(_) | Phase::Stopped(Some(_)) => Socket::Present,
        }
    }

    /// The TCP connection stands.
    pub(crate) fn open(&mut self, now: Nanos) {
        if let Phase::Opening { .. } = self.phase {
            let seed = self.rng.next_u64();
            let params = &self.plan.params;
            let connection = ClientConnection::new(now, params, &self.counters, self.version, seed);
            self.phase = Phase::Open(Box::new(connection));
            self.plan_probe(now);
        }
    }

    fn plan_probe(&mut self, now: Nanos) {
        let interval = self.plan.prefer_interval.filter(|_| self.host != 0);
        self.probe_at = interval.map_or(Nanos::NEVER, |interval| now.after(interval));
    }

    /// The first host, if it is time to look for it.
    pub(crate) fn probe(&mut self, now: Nanos) -> Option<Attempt<'_>> {
        if !matches!(self.phase, Phase::Open(_)) || self.probe_at > now {
            return None;
        }
        self.plan_probe(now);
        let deadline = now.after(PROBE_MAX);
        self.plan.hosts.first().map(|host| Attempt { host, round: self.round, deadline })
    }

    /// The first host is back: the connection is given up for it. Returns the host that it was to; `None` if
    /// there was none but to the first.
    pub(crate) fn prefer_first(&mut self, now: Nanos) -> Option<HostPort> {
        if !matches!(self.phase, Phase::Open(_)) || self.host == 0 {
            return None;
        }
        let left = self.host().clone();
        self.host = 0;
        self.version = self.plan.params.config().version_max;
        self.phase = Phase::Waiting { until: now };
        Some(left)
    }

    pub(crate) fn connection(&mut self) -> Option<&mut ClientConnection> {
        match &mut self.phase {
            Phase::Open(connection) => Some(connection),
            Phase::Stopped(last) => last.as_deref_mut(),
            Phase::Waiting { .. } | Phase::Opening { .. } => None,
        }
    }

    /// The open connection and its server.
    pub(crate) fn open_parts(&mut self) -> Option<(&HostPort, &mut ClientConnection)> {
        match &mut self.phase {
            Phase::Open(connection) => Some((&self.plan.hosts[self.host], connection)),
            Phase::Waiting { .. } | Phase::Opening { .. } | Phase::Stopped(_) => None,
        }
    }

    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.phase, Phase::Opening { .. })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopped(_))
    }

    /// The limit that a TCP connection under way has exceeded, if it has.
    pub(crate) fn exceeded_ms(&self, now: Nanos) -> Option<u32> {
        match self.phase {
            Phase::Opening { deadline } if deadline <= now => Some(self.plan.connect_timeout_ms),
            _ => None,
        }
    }

    /// The server has let the session in: what failed before is forgiven.
    pub(crate) fn succeeded(&mut self) {
        self.failed_count = 0;
        self.delay = self.plan.delay_min;
    }

    /// The attempt has failed, or the session is lost. Returns how long it is until the next attempt.
    pub(crate) fn failed(&mut self, now: Nanos) -> Duration {
        self.failed_count += 1;
        self.version = self.plan.params.config().version_max;
        self.host = (self.host + 1) % self.plan.hosts.len();
        self.round = self.round.wrapping_add(usize::from(self.host == 0));
        let wait = if self.failed_count < self.plan.hosts.len() { Duration::ZERO } else { self.next_delay() };
        self.phase = Phase::Waiting { until: now.after(wait) };
        wait
    }

    fn next_delay(&mut self) -> Duration {
        self.failed_count = 0;
        let half = self.delay / 2;
        let drawn = self.rng.below(u64::try_from(half.as_nanos()).unwrap_or(u64::MAX));
        let wait = self.delay - Duration::from_nanos(drawn);
        self.delay = (2 * self.delay).clamp(self.plan.delay_min, self.plan.delay_max);
        wait
    }

    /// The server did not answer the version offered: the same server again, at once, with a lower one.
    pub(crate) fn fall_back(&mut self, now: Nanos, version: ConnectionVersion) {
        self.version = version;
        self.phase = Phase::Waiting { until: now };
    }

    /// Nothing more is tried. What is pending on a connection can still be written.
    pub(crate) fn stop(&mut self) {
        let last = std::mem::replace(&mut self.phase, Phase::Stopped(None));
        if let Phase::Open(mut connection) = last {
            connection.stop(Stop::Application);
            let is_empty = connection.outbound().flush().is_empty();
            self.phase = Phase::Stopped((!is_empty).then_some(connection));
        }
    }

    /// The last bytes of a connection that was stopped are written, or cannot be.
    pub(crate) fn drop_last(&mut self) {
        if let Phase::Stopped(last) = &mut self.phase {
            *last = None;
        }
    }

    /// Begins again after a stop.
    pub(crate) fn restart(&mut self, now: Nanos) {
        if self.is_stopped() {
            self.succeeded();
            self.version = self.plan.params.config().version_max;
            self.phase = Phase::Waiting { until: now };
        }
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        match &self.phase {
            Phase::Waiting { until } => *until,
            Phase::Opening { deadline } => *deadline,
            Phase::Open(connection) => connection.next_wakeup().min(self.probe_at),
            Phase::Stopped(_) => Nanos::NEVER,
        }
    }
}
