//! The core of a point-to-point server: source distributors on one side, clients on the other.
//!
//! Promises, each with the test that proves it (`tests` beside this file and the simulator's):
//!
//! - However many clients watch an item, it is asked for once upstream.
//! - Each watcher sees, in the view that it wants, a refresh, then updates in order without duplicates; after "suspect" it sees a refresh
//!   before it sees "ok".
//! - A stream that was paused, or sees other fields than before, gets a refresh before it goes on.
//! - A client that reads too slowly gets the newest values when it has room, a stream that asks for conflated data once
//!   in its interval; nothing else is left out or comes out of order.
//! - A post that wants an acknowledgement gets one, if only a refusal for want of an answer.
//! - A stream of a composed service goes on from another member with a refresh, never with updates behind another
//!   one's image (`composed`).
//! - A gap that the carrier cannot close makes exactly the items concerned suspect, and their images are
//!   fetched again.
//! - Clients see one id of a service, whatever ids the instances give it.
//! - Starting late, restarting, or outliving a source distributor ends with right images by itself.
//!
//! One thread owns it. It reads no clock and opens no socket: time and messages come in, decisions go to a
//! [`ServerSink`].

mod audience;
mod audit;
mod base;
mod behind;
mod changed;
mod cleanups;
mod client;
mod client_table;
mod clients;
mod composed;
mod composing;
mod continuations;
mod conversations;
mod directory;
mod due;
mod ending;
mod fanout;
mod front;
mod gaps;
mod held;
mod hot;
mod inspection;
mod instance;
mod instances;
mod item;
mod items;
mod kept;
mod lapses;
mod ledger;
mod life;
mod login;
mod merge;
mod moves;
mod notices;
mod paced;
mod pair;
mod posting;
mod posts;
mod prepared;
mod progress;
mod queue;
mod recall;
mod recovery;
pub mod relay;
mod requests;
mod service;
mod service_ids;
mod services;
mod side;
mod side_images;
mod sink;
mod sources;
mod stamps;
mod stream;
mod streams;
mod sweep;
#[cfg(test)]
mod tests;
mod users;

pub use self::base::{
    ClientClass, ClientClasses, ClientId, PRIORITY_DEFAULT, PRIORITY_MAX, ServerConfig, SourceId, Topic,
    Watcher,
};
pub use self::client::{ClientInfo, ClientProfile};
pub use self::composed::{AliasTarget, ComposedMember, ComposedService};
pub use self::ending::Parting;
pub use self::inspection::{Inspection, ItemInfo, ServiceInfo};
pub use self::ledger::{ClientLedger, LostRange, ServiceLedger, StreamCounts, StreamLedger, TakenLedger};
pub use self::notices::{ClientError, ServerNotice, UpstreamError};
pub use self::sink::{ServerSink, StampedUpdate, UpstreamSink};

use std::sync::Arc;

use counters::table::PointToPoint as Counters;
use rwf::Dictionary;
use units::Nanos;

use self::audience::Form;
use self::client::{Client, Login};
use self::instances::Instances;
use self::items::WatchedItems;
use self::prepared::Prepared;
use crate::ahead::Ahead;
use crate::encoding::Encoding;
use crate::image::FieldRules;
use crate::shared::Shared;
use crate::users::{Gate, Users};
use crate::view::View;

/// The state of a point-to-point server.
pub struct PointToPoint {
    config: Arc<ServerConfig>,
    /// What is watched, with the clients that watch it and the services that it is of.
    items: WatchedItems,
    /// What comes from source distributors.
    instances: Instances,
    ahead: Ahead,
    dictionary: Arc<Dictionary>,
    gate: Gate,
    views: Shared<View>,
    forms: Shared<Form>,
    /// Dictionaries as they were downloaded before.
    prepared: Prepared,
    encoding: Encoding,
    counters: Arc<Counters>,
}

/// Time.
impl PointToPoint {
    /// A server without clients that knows no source distributor yet. `peer` must differ at each start.
    #[must_use]
    pub fn new(
        peer: u64,
        config: ServerConfig,
        dictionary: Arc<Dictionary>,
        counters: Arc<Counters>,
    ) -> Self {
        let config = Arc::new(config);
        PointToPoint {
            items: WatchedItems::new(&config, FieldRules::of(&dictionary), &counters),
            instances: Instances::new(peer, Arc::clone(&config), Arc::clone(&counters)),
            ahead: Ahead::default(),
            config,
            dictionary,
            gate: Gate::default(),
            views: Shared::default(),
            forms: Shared::default(),
            prepared: Prepared::default(),
            encoding: Encoding::default(),
            counters,
        }
    }

    /// The thread has not run for a while: what instances said meanwhile is still to be read, so that nobody is taken
    /// for silent before it is.
    pub fn after_pause(&mut self, now: Nanos) {
        for instance in self.items.sources.instances.values_mut().filter(|instance| !instance.is_silent) {
            instance.heard_at = now;
        }
        self.items.sources.note_heard(now, None);
    }

    /// What is due by now: links to open again, images to ask for again, items to give up.
    pub fn on_wakeup(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        self.items.cleanups.grant_cleanups(now);
        self.items.clean_up(now, sink);
        self.instances.release(&mut self.items, now, sink);
        self.instances.check_instances(&mut self.items, now, sink);
        self.instances.check_streams(&mut self.items, now, sink);
        if now >= self.items.sources.services_due_at {
            self.items.recheck_services(now, sink);
            self.instances.check_gaps(&mut self.items, now, sink);
            self.instances.report_losses(&mut self.items, now, sink);
            self.items.sources.services_due_at = self
                .items
                .sources
                .next_recheck()
                .min(self.items.sources.next_gap_check())
                .min(self.instances.report_losses_at);
        }
        composing::check_composed(&mut self.items, now, sink);
        self.items.check_requests(now, sink);
        kept::check(&mut self.items, now, sink);
        hot::check_sides(&mut self.items, now, sink);
        self.items.check_lingering(now, sink);
        self.items.clients.measure_round_trips(now, sink);
        self.items.clients.take_turns(now);
        self.items.conversations.check_posts(now, sink);
        let WatchedItems { busiest, table, .. } = &mut self.items;
        busiest.sweep(now, table);
    }

    /// When [`PointToPoint::on_wakeup`] is due next.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let instances = self.items.sources.instances.values().map(|i| i.next_check(&self.config));
        let linger = self.items.lingering.front().map_or(Nanos::NEVER, |(at, ..)| *at);
        instances
            .chain([
                linger,
                self.items.clients.next_round_trip(),
                self.items.clients.next_turn(),
                self.items.conversations.posts.next_deadline(),
            ])
            .chain([
                self.items.next_request_check(),
                self.items.sources.services_due_at,
                self.items.sources.streams_due_at,
                self.items.cleanups.next_cleanup(),
            ])
            .chain([self.instances.next_release(), self.items.busiest.next_wakeup()])
            .chain([kept::next_wakeup(&self.items), hot::next_side_check(&self.items)])
            .chain([composing::next_composed_check(&self.items)])
            .min()
            .unwrap_or(Nanos::NEVER)
    }
}

/// For the front end.
impl PointToPoint {
    /// Whether a client has logged in.
    #[must_use]
    pub fn is_logged_in(&self, client: ClientId) -> bool {
        self.items.clients.get(client).is_some_and(|c| c.login.is_some())
    }

    /// Whether a client has an item stream of that id open.
    #[must_use]
    pub fn has_stream(&self, client: ClientId, stream_id: i32) -> bool {
        let client = self.items.clients.get(client);
        client.is_some_and(|c| c.streams.contains_key(&stream_id) || c.private.contains_key(&stream_id))
    }

    /// Whether a stream is open and private.
    #[must_use]
    pub fn is_private(&self, watcher: Watcher) -> bool {
        self.items.clients.get(watcher.client).is_some_and(|c| c.private.contains_key(&watcher.stream_id))
    }

    /// Whether streams of a client that is gone are still on the lists of items: its number must not be another
    /// client's yet.
    #[must_use]
    pub fn is_leaving(&self, client: ClientId) -> bool {
        self.items.cleanups.gone.contains_key(&client)
    }

    /// Whether a continuation of the client is not done: its further messages have to wait for
    /// [`PointToPoint::go_on`].
    #[must_use]
    pub fn is_busy(&self, client: ClientId) -> bool {
        self.items.clients.get(client).is_some_and(|known| known.continuation.is_some())
    }

    /// Whether [`PointToPoint::take_due_clients`] has any.
    #[inline]
    #[must_use]
    pub fn has_due_clients(&self) -> bool {
        !self.items.clients.due_clients.is_empty()
    }

    /// Clients for which images have begun to be due since the last call.
    pub fn take_due_clients(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.items.clients.due_clients)
    }

    /// The front end keeps a message of a client for later.
    pub fn count_deferred(&self) {
        self.counters.client_messages_deferred.inc();
    }

    /// So many clients wait at the front end.
    pub fn count_waiting(&self, clients: usize) {
        self.counters.clients_waiting.set(clients as u64);
    }

    /// These may log in, before anybody has.
    pub fn admit_only(&mut self, users: Users) {
        self.gate.set(users);
    }
}

/// For status pages.
impl PointToPoint {
    /// The connections in the order of their numbers, from the one behind `after` on, for status pages.
    pub fn clients_after(&self, after: Option<ClientId>) -> impl Iterator<Item = ClientInfo<'_>> + '_ {
        self.items.clients.after(after).map(|(client, known)| self.client_info(client, known))
    }

    /// One of them.
    #[must_use]
    pub fn client_info_of(&self, client: ClientId) -> Option<ClientInfo<'_>> {
        self.items.clients.get(client).map(|known| self.client_info(client, known))
    }

    /// How many there are.
    #[must_use]
    pub fn client_count(&self) -> usize {
        self.items.clients.all.len()
    }

    fn client_info<'a>(&'a self, client: ClientId, c: &'a Client) -> ClientInfo<'a> {
        ClientInfo {
            client,
            user: c.login.as_ref().map_or("", |l| &l.credentials.user),
            position: c.login.as_ref().map_or("", |l| &l.credentials.position),
            application: c.login.as_ref().map_or("", |l| &l.application),
            application_id: c.login.as_ref().map_or("", |l| &l.credentials.application_id),
            is_logged_in: c.login.is_some(),
            streams: c.stream_count(),
            is_paused: c.login.as_ref().is_some_and(|l| l.is_paused),
            class: c.class.and_then(|at| self.config.classes.get(at)).map_or("", |class| &class.name),
            conflated_since: c.conflation.since,
            at_interval_since: c.conflation.at_interval_since,
            changed_streams: c.conflation.changed.len(),
            updates_conflated: c.conflation.updates,
            round_trip_us: c.login.as_ref().and_then(Login::round_trip_us),
            role: c.login.as_ref().and_then(|l| l.role),
            service_roles: c
                .seldom()
                .into_iter()
                .flat_map(|seldom| &seldom.service_roles)
                .filter_map(|(id, role)| {
                    Some((self.items.sources.services.get(id)?.definition.info.name.as_str(), *role))
                })
                .collect(),
        }
    }

    /// The services that clients see: id, name, whether up, the instance it comes from.
    pub fn services(&self) -> impl Iterator<Item = (u16, &str, bool, Option<u64>)> + '_ {
        self.items.sources.services.iter().map(|(id, s)| {
            (*id, &*s.definition.info.name, s.definition.state.up, s.active.map(|a| a.instance))
        })
    }

    /// Differs when [`PointToPoint::services`] tells something else than before.
    #[inline]
    #[must_use]
    pub fn services_version(&self) -> u64 {
        self.items.services_version
    }

    /// How many items are watched, or linger.
    #[must_use]
    pub fn item_count(&self) -> usize {
        self.items.table.len()
    }

    /// Who may log in, and who was denied last.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// What comes from source distributors.
impl PointToPoint {
    /// The carrier has found a source of a topic. `session` tells which sources come from the same instance.
    pub fn on_source(
        &mut self,
        now: Nanos,
        source: SourceId,
        topic: Topic<'_>,
        session: u64,
        sink: &mut impl ServerSink,
    ) {
        self.instances.on_source(&mut self.items, now, source, topic, session, sink)
    }

    /// A source is gone: the instance ended, or nothing was heard of its transport for too long.
    pub fn on_source_ended(&mut self, now: Nanos, source: SourceId, sink: &mut impl ServerSink) {
        self.instances.on_source_ended(&mut self.items, now, source, sink)
    }

    /// Whether a source is an instance's directory.
    #[must_use]
    pub fn is_directory(&self, source: SourceId) -> bool {
        self.instances.is_directory(&self.items, source)
    }

    /// A message from a source.
    ///
    /// # Errors
    /// The message is not what it should be; it is counted and nothing else happens.
    #[inline]
    pub fn on_stream_message(
        &mut self,
        now: Nanos,
        source: SourceId,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        self.instances.on_stream_message(&mut self.items, now, source, bytes, sink)
    }

    /// Whether there are so many items that [`PointToPoint::announce`] helps.
    #[inline]
    #[must_use]
    pub fn looks_ahead(&self) -> bool {
        Ahead::helps(self.items.table.len())
    }

    /// A message from a source comes in one of the next [`MESSAGES_AHEAD`](crate::MESSAGES_AHEAD) calls of
    /// [`PointToPoint::on_stream_message`]. That is a hint: what its item needs is brought into the processor's caches.
    #[inline]
    pub fn announce(&mut self, source: SourceId, bytes: &[u8]) {
        if let Some(index) = self.items.sources.item_of(source, bytes) {
            self.ahead.announce(index, &self.items.table);
        }
    }

    /// A link is established: the instance is greeted.
    pub fn on_link_up(&mut self, instance: u64, sink: &mut impl ServerSink) {
        self.instances.on_link_up(&mut self.items, instance, sink)
    }

    /// A link broke, or could not be opened. Returns whether it had stood.
    pub fn on_link_down(&mut self, now: Nanos, instance: u64, sink: &mut impl ServerSink) -> bool {
        self.instances.on_link_down(&mut self.items, now, instance, sink)
    }

    /// A message over a link.
    ///
    /// # Errors
    /// The message is not what it should be; it is counted and nothing else happens.
    pub fn on_link_message(
        &mut self,
        now: Nanos,
        instance: u64,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        self.instances.on_link_message(&mut self.items, now, instance, bytes, sink)
    }

    /// Whether something that has waited behind a gap waits for its turn.
    #[inline]
    #[must_use]
    pub fn is_releasing(&self) -> bool {
        self.instances.is_releasing()
    }

    /// Reports to the instances what was taken, if it is time. To be called when what a turn has brought is done,
    /// for clients too, so that nobody waits for it.
    #[inline]
    pub fn report_progress(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        self.instances.report_progress(&mut self.items, now, sink)
    }

    /// When [`PointToPoint::report_progress`] is due next.
    #[inline]
    #[must_use]
    pub fn next_report(&self) -> Nanos {
        self.instances.next_report()
    }
}
