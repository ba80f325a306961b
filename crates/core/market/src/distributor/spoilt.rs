//! Messages of providers that cannot be read: each costs the item that it is about, and nothing else.
//!
//! The connection is closed only where not even class and stream of a message can be told: then nobody knows
//! what was missed.

use rwf::{DecodeError, MsgHead, StateCode};
use units::Nanos;

use super::Distributor;
use super::base::ProviderId;
use super::errors::ProviderError;
use super::items::Items;
use super::notices::ProviderNotice;
use super::provider::Target;
use super::sink::DistributorSink;
use super::status::{SUSPECT, status_bytes};
use crate::backbone::Kind;
use crate::key::OwnedKey;

const UNREADABLE: &str = "a message of the provider could not be read";

impl Distributor {
    /// A message whose head was read and the rest was not.
    #[cold]
    pub(super) fn on_unreadable(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        head: &MsgHead,
        error: DecodeError,
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        let Some(known) = self.items.suppliers.providers.get(&provider) else { return Ok(()) };
        if known.user.is_none() {
            return Err(error.into());
        }
        match known.streams.get(head.stream_id) {
            Some(Target::Item(index)) => self.items.spoil(now, (provider, index), error, sink),
            Some(Target::Private(place)) => {
                self.items.notice_unreadable(now, provider, None, &error, sink);
                self.privates.private_lost(
                    &mut self.items,
                    place,
                    SUSPECT.because(StateCode::ERROR, UNREADABLE),
                    sink,
                );
            }
            None => self.items.notice_unreadable(now, provider, None, &error, sink),
        }
        Ok(())
    }
}

impl Items {
    /// What a provider says of an item cannot be read, or cannot be so: the item is suspect until its next
    /// image. It is asked for again where that is possible.
    #[cold]
    pub(super) fn spoil(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        error: DecodeError,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.items_spoilt.inc();
        let key = self.table[index].key.clone();
        self.notice_unreadable(now, provider, Some(&key), &error, sink);
        self.spoilt.note(key, error);
        if let Some(standby) = self.table[index].standby_of(provider) {
            standby.cached.spoil(UNREADABLE);
            return;
        }
        if self.table[index].supply.is_asked_for() {
            let avoid = self.table[index].supply.provider();
            return self.ask_later(now, index, avoid, SUSPECT.because(StateCode::ERROR, UNREADABLE), sink);
        }
        let item = &mut self.table[index];
        if item.cached.spoil(UNREADABLE) {
            let state = SUSPECT.because(StateCode::ERROR, UNREADABLE);
            let status = status_bytes(item.key.as_key(), state);
            self.report_to_waiting(index, &status, sink);
            self.publish(now, index, Kind::Status, &status, sink);
        }
        self.prefer_good(now, index, sink);
    }

    fn notice_unreadable(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        key: Option<&OwnedKey>,
        error: &DecodeError,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.messages_refused.inc();
        if let Some(held_back) = self.spoilt.take_ration(now) {
            let item = key.map(OwnedKey::as_key);
            sink.notice(provider, &ProviderNotice::Unreadable { item, error, held_back });
        }
    }
}
