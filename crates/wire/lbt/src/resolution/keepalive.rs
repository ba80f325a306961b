use crate::config::ResolverConfig;
use crate::wire::lbmr::Kind;
use std::net::SocketAddrV4;
use std::time::Duration;
use units::Nanos;

/// What keeps this context known to unicast resolvers.
pub(super) struct Keepalives {
    daemons: Vec<SocketAddrV4>,
    interval: Duration,
    due: Nanos,
}

impl Keepalives {
    /// The first is due at once: a resolver listens only to those it knows.
    pub(super) fn new(config: &ResolverConfig) -> Keepalives {
        let daemons = config.resolver_unicast_daemons.clone();
        let due = if daemons.is_empty() { Nanos::NEVER } else { Nanos::ZERO };
        Keepalives { daemons, interval: config.resolver_unicast_keepalive_interval, due }
    }

    pub(super) fn daemons(&self) -> &[SocketAddrV4] {
        &self.daemons
    }

    pub(super) fn due(&self) -> Nanos {
        self.due
    }

    /// The keep-alive to send now, if one is due: that of a context with sources, or of one without.
    pub(super) fn poll(&mut self, now: Nanos, has_sources: bool) -> Option<Kind> {
        if now < self.due {
            return None;
        }
        self.due = now + self.interval;
        Some(if has_sources { Kind::SourceAlive } else { Kind::ReceiverAlive })
    }
}
