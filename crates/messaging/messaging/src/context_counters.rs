//! What a context counts into.

use std::io;
use std::sync::Arc;

use counters::table::{
    LbmDelivery, LbmSource, LbmrResolver, LbtrmReceiver, LbtrmSource, LbtruReceiver, LbtruSource,
    LbttcpReceiver, LbttcpSource,
};
use counters::{CounterSet, Registry, Roll};

use crate::MessagingConfig;
use crate::published::{self, Labels, Lent, Shown};

/// What a context counts into. One context is one writer.
#[derive(Clone, Default)]
#[allow(missing_docs)]
pub struct ContextCounters {
    pub source: Arc<LbtrmSource>,
    pub receiver: Arc<LbtrmReceiver>,
    pub lbm_source: Arc<LbmSource>,
    pub tcp_source: Arc<LbttcpSource>,
    pub tcp_receiver: Arc<LbttcpReceiver>,
    pub ru_source: Arc<LbtruSource>,
    pub ru_receiver: Arc<LbtruReceiver>,
    pub delivery: Arc<LbmDelivery>,
    pub resolver: Arc<LbmrResolver>,
    pub retention: Arc<counters::table::LbmRetention>,
    pub recovery: Arc<counters::table::LbmRecovery>,
    pub failover: Arc<counters::table::HotFailover>,
    pub networks: Arc<counters::table::LbtrmNetworks>,
    pub context: Arc<counters::table::MessagingContext>,
    pub xdp: Arc<counters::table::XdpSocket>,
    pub events: Arc<counters::table::EventQueue>,
    /// Where sessions that count for themselves (shared memory) are shown as long as they last. Without, the
    /// context shows all of its counters in the file of its process (`counters_directory`).
    pub registry: Option<Registry>,
    /// Under what they are shown there.
    labels: Labels,
    /// That they are shown there.
    shown: Option<Arc<Shown>>,
    /// Why they are not.
    unpublished: Option<Arc<io::Error>>,
}

impl ContextCounters {
    /// New counters that `registry` shows under `labels`.
    #[must_use]
    pub fn registered(registry: &Registry, labels: &[(&str, &str)]) -> ContextCounters {
        let shown_as = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let (registry_of, labels_of) = (Some(registry.clone()), shown_as.collect());
        let counters =
            ContextCounters { registry: registry_of, labels: labels_of, ..ContextCounters::default() };
        // What the registry has no room for it counts itself.
        for set in counters.common_sets() {
            registry.register(labels, set);
        }
        for set in counters.optional_sets() {
            registry.register_optional(labels, set);
        }
        counters
    }

    /// Counters that nobody else shows are shown in the file of this process, as long as a copy of these
    /// lives. To be called by a thread with the CPUs and the priority that the file's thread may have.
    pub(crate) fn publish(&mut self, config: &MessagingConfig) {
        if self.registry.is_some() {
            return;
        }
        match published::show(config, &self.sets()) {
            Ok(None) => {}
            Ok(Some(shown)) => {
                self.registry = Some(shown.registry.clone());
                self.labels = shown.labels.clone();
                self.shown = Some(Arc::new(shown));
            }
            Err(error) => self.unpublished = Some(Arc::new(error)),
        }
    }

    /// Shows rows beside them as long as the result lives; none if nobody shows them.
    pub(crate) fn lend_roll(&self, roll: Roll) -> Option<Lent> {
        let labels: Vec<_> = self.labels.iter().map(|(name, value)| (&**name, &**value)).collect();
        Some(Lent::roll(self.registry.as_ref()?, &labels, roll))
    }

    /// Why `tickcast counters` does not find what a context counts, though the configuration names a
    /// directory for that (`counters_directory`): the file cannot be made there. The context works without.
    /// To be asked of [`Context::counters`].
    ///
    /// [`Context::counters`]: crate::Context::counters
    #[must_use]
    pub fn publish_error(&self) -> Option<&io::Error> {
        self.unpublished.as_deref()
    }

    fn sets(&self) -> Vec<Arc<dyn CounterSet>> {
        self.common_sets().into_iter().chain(self.optional_sets()).collect()
    }

    /// Those of what every context does.
    fn common_sets(&self) -> [Arc<dyn CounterSet>; 4] {
        [self.delivery.clone(), self.resolver.clone(), self.context.clone(), self.lbm_source.clone()]
    }

    /// Those of single transports, and of what is to be switched on.
    fn optional_sets(&self) -> [Arc<dyn CounterSet>; 12] {
        [
            self.source.clone(),
            self.receiver.clone(),
            self.tcp_source.clone(),
            self.tcp_receiver.clone(),
            self.ru_source.clone(),
            self.ru_receiver.clone(),
            self.xdp.clone(),
            self.events.clone(),
            self.retention.clone(),
            self.recovery.clone(),
            self.failover.clone(),
            self.networks.clone(),
        ]
    }
}
