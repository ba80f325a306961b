//! Who waits until clean-ups are done.

use std::collections::BTreeSet;
use std::sync::Arc;

use counters::table::Distributor as Counters;

use super::base::ProviderId;

/// Who waits, and who has ceased to.
pub(super) struct Waits {
    providers: BTreeSet<ProviderId>,
    released: Vec<ProviderId>,
    counters: Arc<Counters>,
}

impl Waits {
    pub(super) fn new(counters: Arc<Counters>) -> Waits {
        Waits { providers: BTreeSet::new(), released: Vec::new(), counters }
    }
}

impl Waits {
    /// Whether any provider waits.
    #[inline]
    pub(super) fn has_waiting_providers(&self) -> bool {
        !self.providers.is_empty()
    }

    /// Whether a provider waits.
    #[inline]
    pub(super) fn holds(&self, provider: ProviderId) -> bool {
        !self.providers.is_empty() && self.providers.contains(&provider)
    }

    /// Those that wait.
    pub(super) fn providers(&self) -> Vec<ProviderId> {
        self.providers.iter().copied().collect()
    }

    /// A provider waits from now on, unless it does already.
    pub(super) fn begin(&mut self, provider: ProviderId) {
        if self.providers.insert(provider) {
            self.counters.provider_waits.inc();
        }
        self.counters.providers_waiting.set(self.providers.len() as u64);
    }

    /// A provider waits no longer.
    pub(super) fn end(&mut self, provider: ProviderId) {
        self.providers.remove(&provider);
        self.counters.providers_waiting.set(self.providers.len() as u64);
    }

    /// A provider is to be read from again.
    pub(super) fn release(&mut self, provider: ProviderId) {
        self.released.push(provider);
    }

    /// The providers that are to be read from again, since the last call.
    pub(super) fn take_released(&mut self) -> Vec<ProviderId> {
        std::mem::take(&mut self.released)
    }
}
