//! What a port allows and counts.

use std::sync::Arc;
use std::time::Duration;

use counters::table::Listener as Counters;
use counters::{CounterSet, Registry};

/// What is counted of a port; `C` is what its protocol counts.
#[derive(Debug, Default)]
pub struct ListenerCounters<C> {
    /// Its connections.
    pub connections: Arc<C>,
    /// What never became one, or never logged in.
    pub listener: Arc<Counters>,
}

/// The same counters once more, whatever they are.
impl<C> Clone for ListenerCounters<C> {
    fn clone(&self) -> Self {
        ListenerCounters { connections: Arc::clone(&self.connections), listener: Arc::clone(&self.listener) }
    }
}

impl<C: CounterSet + Default + 'static> ListenerCounters<C> {
    /// Counters that are exported, with the port's name as a label.
    #[must_use]
    pub fn registered(registry: &Registry, port: &'static str) -> ListenerCounters<C> {
        ListenerCounters::labelled(registry, &[("port", port)])
    }

    /// The same with labels.
    #[must_use]
    pub fn labelled(registry: &Registry, labels: &[(&str, &str)]) -> ListenerCounters<C> {
        let counters = ListenerCounters::<C>::default();
        registry.register(labels, counters.connections.clone());
        registry.register(labels, counters.listener.clone());
        counters
    }
}

/// What a port allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most connections at a time; further ones are refused.
    pub connections_max: usize,
    /// Most connections of one address at a time; further ones are closed unheard.
    pub connections_per_address_max: usize,
    /// From the end of the handshake to the login.
    pub login_timeout: Duration,
    /// Most bytes that are taken from a connection at a time, which bounds what one turn can lead to.
    pub read_bytes: usize,
    /// Most bytes that wait for the sockets of all connections together; beyond, those with the most are closed.
    pub backlogs_bytes_max: u64,
}

/// How often timers of connections are looked at: their shortest, a third of a ping timeout, is seconds.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(500);
