//! Messages of providers that cannot be read: each costs the item that it is about, and nothing else.
//!
//! The connection is closed only where not even class and stream of a message can be told: then nobody knows
//! what was missed.

use std::collections::VecDeque;

use rwf::{DecodeError, MsgHead, StateCode};
use units::Nanos;

use super::providers::Target;
use super::{
    Distributor, DistributorSink, ProviderError, ProviderId, ProviderNotice, SUSPECT, peers, status_bytes,
};
use crate::backbone::Kind;
use crate::key::OwnedKey;
use crate::ration::Ration;

/// The last ones, and how many may be told.
#[derive(Debug, Default)]
pub(super) struct Spoilt {
    last: VecDeque<(OwnedKey, DecodeError)>,
    ration: Ration,
}

/// How many a status page lists.
const LISTED: usize = 20;

/// An item about which a message could not be read, for status pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoiltItem<'a> {
    /// Which one.
    pub key: &'a OwnedKey,
    /// What was wrong with the message.
    pub error: &'a DecodeError,
    /// No image has come since.
    pub is_suspect: bool,
}

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
        let Some(known) = self.providers.get(&provider) else { return Ok(()) };
        if known.user.is_none() {
            return Err(error.into());
        }
        match known.streams.get(&head.stream_id).copied() {
            Some(Target::Item(index)) => self.spoil(now, (provider, index), error, sink),
            Some(Target::Private(place)) => {
                self.notice_unreadable(now, provider, None, &error, sink);
                self.private_lost(place, SUSPECT.because(StateCode::ERROR, UNREADABLE), sink);
            }
            None => self.notice_unreadable(now, provider, None, &error, sink),
        }
        Ok(())
    }

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
        self.note_spoilt(now, (provider, index), error, sink);
        if let Some(standby) = self.items[index].standby_of(provider) {
            standby.cached.spoil(UNREADABLE);
            return;
        }
        if self.items[index].upstream.is_asked_for() {
            let avoid = self.items[index].upstream.provider();
            return self.ask_later(now, index, avoid, SUSPECT.because(StateCode::ERROR, UNREADABLE), sink);
        }
        let item = &mut self.items[index];
        if item.cached.spoil(UNREADABLE) {
            let state = SUSPECT.because(StateCode::ERROR, UNREADABLE);
            let status = status_bytes(item.key.as_key(), state);
            self.tell_waiting(index, &status, sink);
            self.publish(now, index, Kind::Status, &status, sink);
        }
        self.prefer_good(now, index, sink);
    }

    fn note_spoilt(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        error: DecodeError,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.items_spoilt.inc();
        let key = self.items[index].key.clone();
        self.notice_unreadable(now, provider, Some(&key), &error, sink);
        self.spoilt.last.retain(|(before, _)| *before != key);
        self.spoilt.last.push_back((key, error));
        if self.spoilt.last.len() > LISTED {
            self.spoilt.last.pop_front();
        }
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
        if let Some(held_back) = self.spoilt.ration.take(now) {
            let item = key.map(OwnedKey::as_key);
            sink.notice(provider, &ProviderNotice::Unreadable { item, error, held_back });
        }
    }

    /// Tells a peer that an item without an image has to be published, or why it is not there.
    pub(super) fn tell_unpublished(
        &self,
        index: usize,
        peer: super::PeerId,
        sink: &mut impl DistributorSink,
    ) {
        let item = &self.items[index];
        let state = if item.cached.is_spoilt() { item.cached.state().borrow() } else { peers::WAITING };
        peers::tell(peer, item.key.as_key(), state, sink);
    }

    /// The last items about which a message could not be read, oldest first; at most 20.
    pub fn spoilt_items(&self) -> impl Iterator<Item = SpoiltItem<'_>> + '_ {
        self.spoilt.last.iter().map(|(key, error)| {
            let item = self.find(key.as_key()).map(|index| &self.items[index]);
            let is_suspect = item.is_some_and(|i| i.cached.is_spoilt() || i.upstream.provider().is_none());
            SpoiltItem { key, error, is_suspect }
        })
    }
}

const UNREADABLE: &str = "a message of the provider could not be read";
