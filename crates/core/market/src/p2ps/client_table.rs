//! The clients, and the measurement of their round trips.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::ops::Bound;
use std::sync::Arc;

use counters::table::PointToPoint as Counters;
use rdm::ToVec;
use rdm::login::{LoginRequest, RoundTrip};
use rwf::PostUserInfo;
use units::Nanos;

use super::base::{ClientId, ServerConfig, Watcher};
use super::client::{Changed, Client, ClientProfile, Continuation, Login, Measurement, clock_ms};
use super::ledger::{before, updates_between};
use super::paced::Paced;
use super::sink::ServerSink;
use crate::users::{Credentials, Denial};

/// What a stream was not sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lacked {
    /// How many updates.
    pub(super) updates: u64,
    /// When the first of them came, as [`Changed::at_ms`](super::client::Changed::at_ms).
    pub(super) since_ms: u32,
}

impl Lacked {
    /// For how long the first of them has waited, in milliseconds.
    pub(super) fn waited_ms(self, now: Nanos) -> u16 {
        u16::try_from(clock_ms(now).wrapping_sub(self.since_ms)).unwrap_or(u16::MAX)
    }
}

/// The clients.
pub(super) struct Clients {
    pub(super) config: Arc<ServerConfig>,
    /// In boxes: half of the room in a map whose keys rise is empty.
    pub(super) all: BTreeMap<ClientId, Box<Client>>,
    /// When each client's next measurement begins, in order.
    round_trips: VecDeque<(Nanos, ClientId)>,
    /// Clients for which images have begun to be due.
    pub(super) due_clients: Vec<ClientId>,
    /// Changed streams that wait until their interval is over.
    pub(super) paced: Paced,
    counters: Arc<Counters>,
}

impl Clients {
    pub(super) fn new(config: Arc<ServerConfig>, counters: Arc<Counters>) -> Clients {
        let (all, round_trips, due_clients) = (BTreeMap::new(), VecDeque::new(), Vec::new());
        let paced = Paced::default();
        Clients { config, all, round_trips, due_clients, paced, counters }
    }

    #[inline]
    pub(super) fn get(&self, client: ClientId) -> Option<&Client> {
        self.all.get(&client).map(|known| &**known)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, client: ClientId) -> Option<&mut Client> {
        self.all.get_mut(&client).map(|known| &mut **known)
    }

    pub(super) fn insert(&mut self, client: ClientId, new: Client) {
        self.all.insert(client, Box::new(new));
    }

    pub(super) fn remove(&mut self, client: ClientId) -> Option<Box<Client>> {
        self.all.remove(&client)
    }

    /// All, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> + '_ {
        self.after(None)
    }

    /// Those behind one, or all, in the order of their numbers.
    pub(super) fn after(&self, after: Option<ClientId>) -> impl Iterator<Item = (ClientId, &Client)> + '_ {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.all.range((begin, Bound::Unbounded)).map(|(client, known)| (*client, &**known))
    }
}

impl Clients {
    /// What a client's connection takes.
    pub(super) fn profile(&self, client: ClientId) -> ClientProfile {
        self.all.get(&client).map_or_else(ClientProfile::default, |c| c.profile)
    }

    /// So many clients more, or less, are logged in. A sum over all of them would cost who loses ten thousand at
    /// once a hundred million steps.
    pub(super) fn count_clients(&self, change: i64) {
        self.counters.clients.set(self.counters.clients.get().saturating_add_signed(change));
    }

    /// So many clients more, or less, are sent the newest values instead of every update.
    pub(super) fn count_conflated(&self, change: i64) {
        let clients = &self.counters.clients_conflated;
        clients.set(clients.get().saturating_add_signed(change));
    }

    /// So many clients more, or less, are sent the newest values in rounds.
    pub(super) fn count_at_interval(&self, change: i64) {
        let clients = &self.counters.clients_at_interval;
        clients.set(clients.get().saturating_add_signed(change));
    }

    /// So many item streams more, or less, are open.
    pub(super) fn count_watchers(&self, change: i64) {
        self.counters.watchers.set(self.counters.watchers.get().saturating_add_signed(change));
    }
}

impl Clients {
    /// Who posts: what the client says; where it says nothing, the address it comes from.
    pub(super) fn user_info(&self, client: ClientId, said: PostUserInfo) -> PostUserInfo {
        let address = if said.address == 0 { self.profile(client).address } else { said.address };
        PostUserInfo { address, ..said }
    }
}

impl Clients {
    pub(super) fn note_due(&mut self, watcher: Watcher) {
        self.counters.images_deferred.inc();
        self.enqueue_due(watcher);
    }

    /// A stream is to be served when its client has room.
    pub(super) fn enqueue_due(&mut self, watcher: Watcher) {
        let Some(client) = self.all.get_mut(&watcher.client) else { return };
        if client.due.is_empty() {
            self.due_clients.push(watcher.client);
        }
        client.due.push_back(watcher.stream_id);
    }

    /// A stream that has changed is about to be sent newer values, or waits for something else; `last` is the number of
    /// its item's last update.
    pub(super) fn settle_change(&mut self, watcher: Watcher, last: NonZeroU32) -> Lacked {
        let known = self.all.get_mut(&watcher.client);
        let Some(client) = known else { return Lacked::default() };
        let Some(Changed { from, at_ms }) = client.conflation.changed.remove(&watcher.stream_id) else {
            return Lacked::default();
        };
        let updates = updates_between(before(from), last);
        client.conflation.updates += updates;
        Lacked { updates, since_ms: at_ms }
    }

    /// A stream is about to get the image that it has waited for, or waits no more. Returns how many updates it was not
    /// sent meanwhile; `last` is the number of its item's last update.
    pub(super) fn settle_due(&mut self, watcher: Watcher, last: NonZeroU32) -> u64 {
        let client = self.all.get_mut(&watcher.client);
        let after = client.and_then(|client| client.take_due_after(watcher.stream_id));
        after.map_or(0, |after| updates_between(after, last))
    }

    /// Whether a stream waits for an image after one that it has had.
    pub(super) fn is_due(&self, watcher: Watcher) -> bool {
        self.get(watcher.client).is_some_and(|client| client.is_due(watcher.stream_id))
    }

    /// A stream waits for an image from now on; `last` is the number of its item's last update. What it lacks already it
    /// lacks still.
    pub(super) fn begin_due(&mut self, watcher: Watcher, last: NonZeroU32) {
        let Some(client) = self.all.get_mut(&watcher.client) else { return };
        if client.streams.contains_key(&watcher.stream_id) {
            let changed = client.conflation.changed.get(&watcher.stream_id);
            let after = changed.map_or(last, |changed| before(changed.from));
            client.seldom_mut().due_after.insert(watcher.stream_id, after);
        }
    }

    /// A client logs in, of a class, or of none; it leaves the class that it was of.
    ///
    /// # Errors
    /// There are as many of the class as there may be; nothing has changed then.
    pub(super) fn enter_class(&mut self, client: ClientId, class: Option<usize>) -> Result<(), Denial> {
        let Some(known) = self.all.get_mut(&client) else { return Ok(()) };
        if known.class == class {
            return Ok(());
        }
        if class.is_some_and(|at| !self.config.classes.enter(at)) {
            return Err(Denial::Connections);
        }
        let before = std::mem::replace(&mut known.class, class);
        self.leave_class(before);
        Ok(())
    }

    /// A client of a class is gone.
    pub(super) fn leave_class(&self, class: Option<usize>) {
        class.into_iter().for_each(|at| self.config.classes.leave(at));
    }

    /// Whether a client's login says that all its streams pause.
    pub(super) fn pauses_all(&self, client: ClientId) -> bool {
        let login = self.all.get(&client).and_then(|known| known.login.as_ref());
        login.is_some_and(|login| login.is_paused)
    }

    /// Takes over what a first login says, or what a later one changes.
    pub(super) fn take_login(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: &LoginRequest<'_>,
        credentials: Credentials,
    ) {
        let Some(known) = self.all.get_mut(&client) else { return };
        let mut login = Login::of(request, credentials);
        login.conversation = known.login.as_ref().and_then(|before| before.conversation);
        login.role = known.login.as_ref().and_then(|before| before.role);
        let interval = self.config.round_trip_interval;
        if request.round_trip_latency.is_some() && !interval.is_zero() {
            let before = known.login.as_ref().and_then(|before| before.round_trip);
            login.round_trip = Some(before.unwrap_or_else(|| {
                self.round_trips.push_back((now + interval, client));
                Measurement { next_at: now + interval, sent_at: None, last_us: None }
            }));
        }
        let is_first = known.login.replace(login).is_none();
        self.count_clients(i64::from(is_first));
    }
}

impl Clients {
    pub(super) fn set_continuation(&mut self, client: ClientId, continuation: Option<Continuation>) {
        if let Some(known) = self.all.get_mut(&client) {
            known.continuation = continuation.map(Box::new);
        }
    }
}

impl Clients {
    /// Begins the measurements that are due.
    pub(super) fn measure_round_trips(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        while let Some(&(at, client)) = self.round_trips.front()
            && now >= at
        {
            self.round_trips.pop_front();
            let Some(login) = self.all.get_mut(&client).and_then(|c| c.login.as_mut()) else { continue };
            // What a login on an earlier connection of that number has left is passed over.
            let Some(measurement) = login.round_trip.as_mut().filter(|m| m.next_at == at) else { continue };
            measurement.sent_at = Some(now);
            measurement.next_at = now + self.config.round_trip_interval;
            self.round_trips.push_back((measurement.next_at, client));
            let question = RoundTrip {
                stream_id: login.stream_id,
                ticks: now.0,
                last_latency_us: measurement.last_us,
                tcp_retransmission_count: None,
            };
            if let Ok(question) = question.to_vec() {
                sink.send(client, &question);
            }
        }
    }

    pub(super) fn next_round_trip(&self) -> Nanos {
        self.round_trips.front().map_or(Nanos::NEVER, |(at, _)| *at)
    }

    pub(super) fn on_round_trip(&mut self, now: Nanos, client: ClientId, answer: &RoundTrip) {
        let login = self.all.get_mut(&client).and_then(|c| c.login.as_mut());
        let measurement = login.and_then(|login| login.round_trip.as_mut());
        match measurement.map(|m| (m.sent_at.take_if(|sent_at| sent_at.0 == answer.ticks), m)) {
            Some((Some(sent_at), measurement)) => {
                measurement.last_us = Some(now.since(sent_at).as_micros() as u64);
                self.counters.round_trips.inc();
            }
            _ => self.counters.client_messages_refused.inc(),
        }
    }
}
