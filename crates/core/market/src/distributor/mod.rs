//! The core of a source distributor: providers on one side, point-to-point servers on the other.
//!
//! Promises, each with the test that proves it (`tests` beside this file and the simulator's):
//!
//! - An update goes out once, in the bytes the provider made, numbered without holes, and only if somebody
//!   wants the item.
//! - An image sent to a peer says after which number it was taken, and the item's id is known to the peer
//!   before any later update.
//! - A provider that goes away leaves its items suspect, not silent; when it comes back and refreshes them
//!   they are good again.
//! - A message that cannot be read makes its item suspect until the next image, and costs no other item.
//! - Of several providers that publish a service each item comes from one; when that is lost, from another one
//!   that has it, and the service stays up.
//! - An item of a service that is asked for is asked for once, however many peers want it, at one of the
//!   providers of the service, and at another one when that is lost. When nobody wants it any more it is
//!   closed after a while, and nothing of it stays.
//! - Providers are held back before a point-to-point server loses messages, as long as it takes them faster than
//!   the floor; one that does not is left behind and named, and the others go on.
//! - A post that wants an acknowledgement has one answer: the provider's, or a refusal.
//!
//! One thread owns it. It reads no clock and opens no socket: time and messages come in, decisions go to a
//! [`DistributorSink`].

mod base;
mod bulk_changes;
mod cleanups;
mod definitions;
mod dialled;
mod dictionaries;
mod ending;
mod errors;
mod flow;
mod ids;
mod item;
mod items;
mod kept;
mod ledger;
mod links;
mod many;
mod notices;
mod outflow;
mod peer;
mod peers;
mod posts;
mod privates;
mod provider;
mod provider_messages;
mod provider_streams;
mod providers;
mod publication;
mod published;
mod recall;
mod requests;
pub mod saved;
mod service;
mod services;
mod sink;
mod spoilt;
mod spoilt_items;
mod standby;
mod status;
mod stream;
mod suppliers;
mod sweep;
#[cfg(test)]
mod tests;
mod timers;
mod turns;
mod unknown;
mod users;
mod waiting;
mod waits;
mod withdrawal;

pub use self::base::{Balance, DistributorConfig, FlowConfig, PeerId, PostRoute, ProviderId};
pub use self::errors::{LinkError, ProviderError};
pub use self::ledger::{DistributorLedger, ProviderLedger, PublishedLedger};
pub use self::notices::{DictionaryDifference, PeerNotice, ProviderNotice, RefusedService};
pub use self::provider::{DialSpec, DialStage, DialledStatus};
pub use self::sink::DistributorSink;
pub use self::spoilt_items::SpoiltItem;

use std::sync::Arc;

use counters::table::Distributor as Counters;
use rwf::Dictionary;
use units::Nanos;

use self::base::Timer;
use self::items::Items;
use self::posts::Posts;
use self::privates::Privates;
use self::suppliers::Suppliers;
use self::waits::Waits;
use crate::ahead::Ahead;
use crate::busiest::BusyItem;
use crate::cached::CachedItem;
use crate::encoding::Encoding;
use crate::image::FieldRules;
use crate::key::OwnedKey;
use crate::users::Gate;

/// The state of one run of a source distributor.
pub struct Distributor {
    instance: u64,
    config: Arc<DistributorConfig>,
    /// What there is, and who wants and supplies it.
    items: Items,
    posts: Posts,
    privates: Privates,
    waits: Waits,
    ahead: Ahead,
    gate: Gate,
    encoding: Encoding,
    counters: Arc<Counters>,
}

/// Time.
impl Distributor {
    /// A distributor without providers and peers. `instance` must differ at each start.
    #[must_use]
    pub fn new(
        instance: u64,
        config: DistributorConfig,
        dictionary: Arc<Dictionary>,
        counters: Arc<Counters>,
    ) -> Distributor {
        let config = Arc::new(config);
        let rules = FieldRules::of(&dictionary);
        let suppliers = Suppliers::new(instance, Arc::clone(&config), dictionary, Arc::clone(&counters));
        Distributor {
            instance,
            items: Items::new(&config, rules, suppliers, Arc::clone(&counters)),
            posts: Posts::new(Arc::clone(&config), Arc::clone(&counters)),
            privates: Privates::new(Arc::clone(&config), Arc::clone(&counters)),
            waits: Waits::new(Arc::clone(&counters)),
            ahead: Ahead::default(),
            config,
            gate: Gate::default(),
            encoding: Encoding::default(),
            counters,
        }
    }

    /// This side has not run for a while: what providers have said meanwhile is still to be read, and none of them is taken
    /// for silent before.
    pub fn after_pause(&mut self, now: Nanos) {
        for provider in self.items.suppliers.providers.values_mut() {
            provider.note_heard(now);
        }
    }

    /// What is due by now: heartbeats, and the answers to requests that waited for a provider.
    pub fn on_wakeup(&mut self, now: Nanos, sink: &mut impl DistributorSink) {
        let heartbeat = self.config.heartbeat_interval;
        // With each directory: a stream that has sent something just behind the last one would be silent for two intervals.
        let is_repeated = now >= self.items.suppliers.directory.next_at(heartbeat);
        let quiet = if is_repeated { heartbeat / 2 } else { heartbeat };
        for service in self.items.suppliers.services.values_mut() {
            let before = Nanos(now.0.saturating_sub(quiet.as_nanos() as u64));
            service.stream.heartbeat(now, before, sink);
        }
        self.items.cleanups.grant_cleanups(now);
        self.items.unknown.begin_walk_if_due(now);
        self.items.clean_up(now, sink);
        self.end_waits(now, sink);
        for _ in 0..self.config.cleanups_per_turn {
            let Some(timer) = self.items.timers.pop(now) else { break };
            self.on_timer(now, timer, sink);
        }
        recall::ask(&mut self.items, now, sink);
        self.items.suppliers.publish_directory_if_due(now, sink);
        let Items { busiest, table, .. } = &mut self.items;
        busiest.sweep(now, table);
    }

    fn on_timer(&mut self, now: Nanos, timer: Timer, sink: &mut impl DistributorSink) {
        if let Timer::Request(index) | Timer::Retry(index) | Timer::Linger(index) = timer
            && self.items.cleanups.has_sweeps()
        {
            let before = self.items.table.get(index).map(|item| item.supply);
            self.items.settle(now, index, sink);
            if self.items.table.get(index).map(|item| item.supply) != before {
                return;
            }
        }
        match timer {
            Timer::Login(provider) => self.login_overdue(now, provider, sink),
            Timer::Request(index) => self.items.unanswered(now, index, sink),
            Timer::Retry(index) => self.items.rested(now, index, sink),
            Timer::Linger(index) => self.items.lingered(now, index, sink),
            Timer::Post(id) => self.posts.post_overdue(&mut self.items, id, sink),
            Timer::Private(place) => self.privates.private_overdue(&mut self.items, place, sink),
        }
    }

    /// When [`Distributor::on_wakeup`] is due next.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        if recall::may_ask(&self.items) {
            return Nanos::ZERO;
        }
        let repeat_at = self.items.suppliers.directory.next_at(self.config.heartbeat_interval);
        self.items
            .unknown
            .next_walk()
            .min(repeat_at)
            .min(self.items.timers.next())
            .min(self.next_cleanup())
            .min(self.items.links.next_flow_check())
            .min(self.items.busiest.next_wakeup())
    }
}

/// For the front end.
impl Distributor {
    /// Whether a provider has logged in.
    #[must_use]
    pub fn is_logged_in(&self, provider: ProviderId) -> bool {
        self.items.suppliers.providers.get(&provider).is_some_and(|p| p.user.is_some())
    }

    /// Whether a dialled provider can be asked for items: it has accepted the login, and said what it has.
    #[must_use]
    pub fn is_ready(&self, provider: ProviderId) -> bool {
        self.items.suppliers.dialled(provider).is_some_and(|dialled| dialled.stage == DialStage::Ready)
    }

    /// Whether nothing is to be read from a provider now. What had been read is to be handed over all the same.
    #[inline]
    #[must_use]
    pub fn holds_provider(&self, provider: ProviderId) -> bool {
        self.waits.holds(provider)
    }

    /// The providers that are to be read from again, since the last call.
    pub fn take_released(&mut self) -> Vec<ProviderId> {
        self.waits.take_released()
    }

    /// Whether providers have to be held back now: nothing is to be read from them until this says no. To be asked
    /// in each turn.
    #[inline]
    pub fn holds_providers(&mut self, now: Nanos, sink: &mut impl DistributorSink) -> bool {
        if self.items.links.flow.held_since.is_none()
            && self.counters.stream_bytes_out.get() < self.items.links.flow.check_at
        {
            return false;
        }
        self.items.links.check_flow(now, &mut self.items.suppliers, sink)
    }

    /// Links that wait for something, in the order in which they are served.
    pub fn waiting_peers(&self) -> impl Iterator<Item = PeerId> + '_ {
        self.items.links.row.iter().copied()
    }
}

/// For status pages.
impl Distributor {
    /// The number of this run.
    #[must_use]
    pub fn instance(&self) -> u64 {
        self.instance
    }

    /// The published services: id, name, whether up, number of the last stream message.
    pub fn services(&self) -> impl Iterator<Item = (u16, &str, bool, u64)> + '_ {
        self.items.suppliers.services.iter().map(|(id, s)| {
            let is_up = s.definition.state.up && !s.is_withdrawn();
            (*id, &*s.definition.info.name, is_up, s.stream.sequence())
        })
    }

    /// The busiest items, the busiest one first, at most [`crate::BUSIEST_MAX`], with how many P2PSs have each. The
    /// first call begins to look which ones they are: there is no answer until two sweeps over all items can be compared.
    pub fn busiest_items(&mut self, now: Nanos) -> Option<impl Iterator<Item = (&BusyItem, usize)>> {
        self.items.busiest.want(now);
        let Items { busiest, table, .. } = &self.items;
        let peers = |item: &BusyItem| {
            let known = self.items.find(item.key.as_key()).and_then(|at| table.get(at));
            known.map_or(0, |item| item.peers.len())
        };
        Some(busiest.shown()?.iter().map(move |item| (item, peers(item))))
    }

    /// What is counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.items.counters
    }

    /// How many items are cached.
    #[must_use]
    pub fn item_count(&self) -> usize {
        self.items.table.len()
    }

    /// Every item with its cached state, for status pages and tests.
    pub fn items(&self) -> impl Iterator<Item = (&OwnedKey, &CachedItem)> + '_ {
        self.items.table.iter().map(|(_, item)| (&item.key, &item.cached))
    }

    /// The last items about which a message could not be read, oldest first; at most 20.
    pub fn spoilt_items(&self) -> impl Iterator<Item = SpoiltItem<'_>> + '_ {
        self.items.spoilt.last().map(|(key, error)| {
            let item = self.items.find(key.as_key()).map(|index| &self.items.table[index]);
            let is_suspect = item.is_some_and(|i| i.cached.is_spoilt() || i.supply.provider().is_none());
            SpoiltItem { key, error, is_suspect }
        })
    }

    /// The user of a provider, if it is logged in, for status pages.
    #[must_use]
    pub fn provider_user(&self, provider: ProviderId) -> Option<&str> {
        self.items.suppliers.providers.get(&provider)?.user.as_deref()
    }

    /// The users of the providers that are logged in, for status pages.
    pub fn provider_users(&self) -> impl Iterator<Item = &str> + '_ {
        self.items.suppliers.providers.values().filter_map(|p| p.user.as_deref())
    }

    /// The dialled providers that are connected.
    pub fn dialled_providers(&self) -> impl Iterator<Item = (ProviderId, DialledStatus<'_>)> + '_ {
        self.items.suppliers.providers.iter().filter_map(|(id, known)| {
            let dialled = known.dialled.as_ref()?;
            let status = DialledStatus {
                name: &dialled.spec.name,
                stage: dialled.stage,
                services: dialled.offers.len(),
                items_open: dialled.offers.values().map(|o| o.open_count).sum(),
                items_pending: dialled.offers.values().map(|o| o.pending_count).sum(),
                differences: &dialled.dictionaries.differences,
            };
            Some((*id, status))
        })
    }

    /// The names of the point-to-point servers that are linked, for status pages.
    pub fn peer_names(&self) -> impl Iterator<Item = &str> + '_ {
        self.items.links.peers.values().filter(|p| p.is_greeted).map(|p| &*p.name)
    }

    /// What each server lacks, in bytes, and whether it is left behind, for status pages: by name.
    pub fn peer_flows(&self) -> impl Iterator<Item = (&str, u64, bool)> + '_ {
        self.items.links.peers.values().map(|peer| {
            let lacks = peer
                .flow
                .lacks(|service| Some(self.items.suppliers.services.get(&service)?.stream.outflow.bytes));
            (&*peer.name, lacks, peer.flow.left_at.is_some())
        })
    }
}

/// The ledger.
impl Distributor {
    /// What became of the updates of each service that is published now.
    pub fn ledger(&self) -> impl Iterator<Item = PublishedLedger<'_>> + '_ {
        self.items.suppliers.services.values().map(|service| PublishedLedger {
            service: &service.definition.info.name,
            providers: service.ledger,
            posted: service.posted,
            sequence: service.stream.sequence(),
            updates: service.stream.updates(),
        })
    }

    /// What became of the others.
    #[must_use]
    pub fn ledger_of_others(&self) -> &DistributorLedger {
        &self.items.ledger
    }

    /// What of the ledger does not add up, in words; nothing if all does.
    #[must_use]
    pub fn audit(&self) -> Vec<String> {
        let others = &self.items.ledger;
        let of_services: u64 = self.ledger().map(|service| service.providers.received()).sum();
        let accounted = of_services
            + others.withdrawn.received()
            + others.of_no_item
            + others.private
            + others.unreadable;
        let mut faults = Vec::new();
        if others.received != accounted {
            faults.push(format!("received from providers: {} are not {accounted}", others.received));
        }
        for service in self.ledger() {
            let published = service.providers.published + service.posted;
            if service.updates != published {
                faults
                    .push(format!("{}: published: {} are not {published}", service.service, service.updates));
            }
        }
        faults
    }
}
