//! Providers that wait until clean-ups are done.
//!
//! A provider waits that has said more of many items than may be left undone ([`super::many`]), or whose directory
//! lists a service that takes the place of one whose items are still being closed ([`super::withdrawal`]). Nothing is
//! read from it meanwhile ([`Distributor::holds_provider`]), and what had been read before is kept and done in its
//! order, so that the outcome is as if nothing had been left undone. All others go on: those who ask for much have the
//! wait. A provider that waits is not silent.

use std::collections::VecDeque;

use units::Nanos;

use super::Distributor;
use super::base::ProviderId;
use super::bulk_changes::BulkChange;
use super::provider::Waiting;
use super::sink::DistributorSink;

/// A front end that stops reading keeps less than this. Beyond it, what the provider waits for is done at once.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// What a message takes beside its bytes.
const MESSAGE_BYTES: usize = 32;

impl Distributor {
    /// A provider waits until sweeps up to a number are done. False if it is not to wait, as it is gone.
    pub(super) fn wait_for(&mut self, now: Nanos, provider: ProviderId, until: u64) -> bool {
        let Some(known) = self.items.suppliers.providers.get_mut(&provider).filter(|known| !known.is_ending)
        else {
            return false;
        };
        let waiting = known.waiting.get_or_insert_with(|| {
            let (changes, messages) = (Vec::new(), VecDeque::new());
            Box::new(Waiting { since: now, until, is_untaken: false, changes, messages, bytes: 0 })
        });
        waiting.until = waiting.until.max(until);
        self.waits.begin(provider);
        true
    }

    /// The same, since its directory has a service that cannot be taken yet.
    pub(super) fn wait_to_take(&mut self, now: Nanos, provider: ProviderId, until: u64) {
        if self.wait_for(now, provider, until)
            && let Some(waiting) =
                self.items.suppliers.providers.get_mut(&provider).and_then(|p| p.waiting.as_mut())
        {
            waiting.is_untaken = true;
        }
    }

    /// What a provider that waits has said of many items.
    pub(super) fn keep_bulk_changes(&mut self, provider: ProviderId, changes: Vec<BulkChange>) {
        if let Some(waiting) =
            self.items.suppliers.providers.get_mut(&provider).and_then(|p| p.waiting.as_mut())
        {
            waiting.changes.extend(changes);
        }
    }

    /// A message of a provider that waits.
    #[cold]
    pub(super) fn keep_message(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        let Some(waiting) =
            self.items.suppliers.providers.get_mut(&provider).and_then(|p| p.waiting.as_mut())
        else {
            return;
        };
        waiting.bytes += bytes.len() + MESSAGE_BYTES;
        waiting.messages.push_back(bytes.into());
        if waiting.bytes > KEPT_BYTES_MAX {
            let until = waiting.until;
            self.items.finish_sweeps_to(now, until, sink);
            self.end_wait(now, provider, sink);
        }
    }

    /// Providers go on whose wait is over.
    pub(super) fn end_waits(&mut self, now: Nanos, sink: &mut impl DistributorSink) {
        for provider in self.waits.providers() {
            let waiting =
                self.items.suppliers.providers.get(&provider).and_then(|known| known.waiting.as_ref());
            if waiting.is_none_or(|waiting| self.items.cleanups.are_done_to(waiting.until)) {
                self.end_wait(now, provider, sink);
            }
        }
    }

    /// The connection of a provider that waits is gone: what had come of it is done before it is lost.
    pub(super) fn end_wait_of_lost(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        sink: &mut impl DistributorSink,
    ) {
        if self.holds_provider(provider) {
            self.items.suppliers.providers.entry(provider).and_modify(|known| known.is_ending = true);
            self.end_wait(now, provider, sink);
        }
    }

    fn end_wait(&mut self, now: Nanos, provider: ProviderId, sink: &mut impl DistributorSink) {
        self.waits.end(provider);
        let Some(known) = self.items.suppliers.providers.get_mut(&provider) else { return };
        let Some(waiting) = known.waiting.take() else { return };
        let Waiting { since, is_untaken, changes, messages, .. } = *waiting;
        known.excuse(now, now.since(since));
        if is_untaken {
            self.take_services(now, provider, sink);
        }
        self.take_bulk_changes(now, provider, changes, sink);
        self.items.suppliers.publish_directory_if_due(now, sink);
        for message in messages {
            let Err(error) = self.on_provider_message(now, provider, &message, sink) else { continue };
            let is_ending = self.items.suppliers.providers.get(&provider).is_none_or(|known| known.is_ending);
            self.on_provider_closed(now, provider, sink);
            if !is_ending {
                sink.close_provider(provider, &error);
            }
            return;
        }
        let is_ending = self.items.suppliers.providers.get(&provider).is_none_or(|known| known.is_ending);
        if !is_ending && !self.holds_provider(provider) {
            self.waits.release(provider);
        }
    }
}
