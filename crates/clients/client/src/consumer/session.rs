//! The session of a consumer above its connection: login, directory, dictionary, items.

use std::sync::Arc;
use std::time::Duration;

use counters::table::ConsumerSession;
use market::Encoding;
use rdm::directory::{Directory, DirectoryChange, DirectoryLimits, DirectoryMsg, DirectoryRequest};
use rdm::login::{Features, LOGIN_STREAM_ID, LoginRefresh, LoginRequest};
use rdm::{RdmError, ToVec};
use rssl::Outbound;
use rwf::{AckMsg, Domain, Msg, MsgClass, MsgHead, State, StatusMsg, StreamState, peek};
use units::Nanos;

use super::dictionary::{DictionarySource, Progress};
use super::event::{ConsumerEvent, ConsumerSink, ServiceChange, ServiceEvent};
use super::fields::FieldIndex;
use super::patience::Patience;
use super::posts::Posts;
use super::standby::Roles;
use super::streams::DIRECTORY_STREAM_ID;
use super::watchlist::{Lookup, Watchlist, WatchlistOptions};
use crate::lifecycle::{ConnectCounters, SessionLayer, connect_counters};
use crate::login::{self, LoginAnswer, LoginTexts};
use crate::outgoing::push;
use crate::{ConsumerConfig, DisconnectReason, HostPort, Identity};

/// What item events need to know, lent from a session whose watchlist is in use.
macro_rules! lookup {
    ($session:ident) => {
        Lookup {
            dictionary: $session.dictionary.current(),
            rules: $session.dictionary.rules(),
            index: &$session.index,
        }
    };
}

/// How far the session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is no connection, or its handshake is under way.
    Down,
    /// The login waits for its answer.
    LoggingIn { deadline: Nanos },
    /// The directory request waits for its answer.
    Browsing { deadline: Nanos },
    /// Items can be asked for, if the dictionary lets them.
    Ready,
}

/// All of a consumer but its connection.
pub(crate) struct Session {
    pub(super) login: LoginTexts,
    login_timeout_ms: u32,
    directory_timeout_ms: u32,
    round_trips: bool,
    stage: Stage,
    pub(crate) directory: Directory,
    pub(super) watchlist: Watchlist,
    pub(crate) dictionary: DictionarySource,
    index: FieldIndex,
    /// What the server can do, as its login says.
    pub(super) features: Features,
    pub(super) posts: Posts,
    pub(super) patience: Patience,
    pub(super) message: Encoding,
    /// All items are to be paused.
    pub(super) is_paused: bool,
    /// The server is to be told of a change of the login.
    pub(super) is_login_due: bool,
    /// What the server is to be told of its place among several, if anything.
    pub(super) roles: Option<Roles>,
    pub(super) counters: Arc<ConsumerSession>,
}

/// A server offers what many providers have: as many services as there are ids.
fn directory() -> Directory {
    Directory::new(DirectoryLimits { service_count_max: 1 << 16, ..DirectoryLimits::default() })
}

impl Session {
    pub(crate) fn new(
        config: &ConsumerConfig,
        identity: &Identity,
        counters: Arc<ConsumerSession>,
    ) -> Session {
        let options = WatchlistOptions {
            single_open: config.single_open,
            keep_images: config.keep_images,
            items_max: config.items_max,
            answer_timeout: Duration::from_millis(config.item_timeout_ms.into()),
            rest: Duration::from_millis(config.item_retry_delay_ms.into()),
        };
        let bytes_max = config.dictionary_max_bytes as usize;
        Session {
            login: LoginTexts::new(
                identity,
                (&config.user, &config.position),
                (&config.application_id, &config.application_name),
            ),
            login_timeout_ms: config.login_timeout_ms,
            directory_timeout_ms: config.directory_timeout_ms,
            round_trips: config.round_trip_measurement,
            stage: Stage::Down,
            directory: directory(),
            watchlist: Watchlist::new(options, Arc::clone(&counters)),
            dictionary: DictionarySource::new(config.dictionary, config.dictionary_timeout_ms, bytes_max),
            index: FieldIndex::default(),
            features: Features::default(),
            posts: Posts::new(config.posts_max, Duration::from_millis(config.post_timeout_ms.into())),
            patience: Patience::default(),
            message: Encoding::default(),
            is_paused: false,
            is_login_due: false,
            roles: None,
            counters,
        }
    }

    pub(super) fn login_request(&self) -> LoginRequest<'_> {
        let round_trip_latency = self.round_trips.then_some(ROUND_TRIP_OFFER);
        LoginRequest { round_trip_latency, ..self.login.request(LoginRequest::consumer) }
    }

    /// Whether what the server can do is known.
    pub(super) fn knows_features(&self) -> bool {
        matches!(self.stage, Stage::Browsing { .. } | Stage::Ready)
    }

    /// Whether items can be asked for, if the dictionary lets them.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// What item events need to know.
    pub(super) fn lookup(&self) -> Lookup<'_> {
        lookup!(self)
    }

    /// An ack; returns whether it answers a post. Those of posts off-stream stand on the login stream with
    /// the domain of their item.
    #[cold]
    fn on_ack(&mut self, bytes: &[u8], sink: &mut ConsumerSink<'_>) -> Result<bool, DisconnectReason> {
        self.counters.acks_in.inc();
        Ok(self.posts.on_ack(&AckMsg::parse(bytes)?, &self.counters, sink))
    }

    /// A message on a stream that is no item's.
    #[cold]
    fn on_other(
        &mut self,
        now: Nanos,
        head: &MsgHead,
        bytes: &[u8],
        out: &mut Outbound,
        sink: &mut ConsumerSink<'_>,
    ) -> Result<(), DisconnectReason> {
        match head.stream_id {
            // It answers a post that was given up.
            LOGIN_STREAM_ID if head.class == MsgClass::Ack => {}
            LOGIN_STREAM_ID => return self.on_login(now, bytes, out, sink),
            DIRECTORY_STREAM_ID if self.is_logged_in() => return self.on_directory(now, bytes, out, sink),
            id if self.dictionary.owns(id) => {
                let progress = self.dictionary.on_message(now, &Msg::parse(bytes)?, out)?;
                self.on_dictionary(now, progress, out, sink);
            }
            _ if head.class == MsgClass::Status
                && self.watchlist.on_batch_status(&StatusMsg::parse(bytes)?) => {}
            _ => self.counters.messages_unwanted.inc(),
        }
        Ok(())
    }

    fn on_login(
        &mut self,
        now: Nanos,
        bytes: &[u8],
        out: &mut Outbound,
        sink: &mut ConsumerSink<'_>,
    ) -> Result<(), DisconnectReason> {
        match LoginAnswer::parse(bytes)? {
            LoginAnswer::Accepted(refresh) => self.on_accepted(now, &refresh, out, sink),
            LoginAnswer::State(state) => return self.on_login_state(state, sink),
            LoginAnswer::RoundTrip => {
                self.counters.round_trips.inc();
                // One that finds the backlog full is of no use later.
                let _ = out.push(bytes);
            }
            LoginAnswer::Silent => {}
        }
        Ok(())
    }

    fn on_accepted(
        &mut self,
        now: Nanos,
        refresh: &LoginRefresh<'_>,
        out: &mut Outbound,
        sink: &mut ConsumerSink<'_>,
    ) {
        self.features = refresh.features;
        sink(ConsumerEvent::LoggedIn(refresh));
        if let Stage::LoggingIn { .. } = self.stage {
            self.counters.logins.inc();
            // The login that was accepted says all but this.
            self.is_login_due = self.is_paused && self.features.optimized_pause_resume == Some(true);
            let request = DirectoryRequest::all(DIRECTORY_STREAM_ID).to_vec();
            // The backlog has nothing in it but this.
            let _ = out.push(&request.expect("no part of the request can be too long"));
            let limit = Duration::from_millis(self.directory_timeout_ms.into());
            self.stage = Stage::Browsing { deadline: now.after(limit) };
            self.directory.expect_image();
        }
    }

    fn on_login_state(
        &mut self,
        state: State<'_>,
        sink: &mut ConsumerSink<'_>,
    ) -> Result<(), DisconnectReason> {
        let Some((retry, reason)) = login::ended(state) else {
            sink(ConsumerEvent::LoginStatus(state));
            return Ok(());
        };
        self.counters.logins_refused.inc();
        sink(ConsumerEvent::LoginRefused { state, retry });
        Err(reason)
    }

    fn on_directory(
        &mut self,
        now: Nanos,
        bytes: &[u8],
        out: &mut Outbound,
        sink: &mut ConsumerSink<'_>,
    ) -> Result<(), DisconnectReason> {
        let msg = Msg::parse(bytes)?;
        let changes = match DirectoryMsg::parse(&msg)? {
            DirectoryMsg::Refresh(refresh) => {
                let changes = self.directory.apply_refresh(&refresh)?;
                if refresh.complete && self.stage != Stage::Ready {
                    self.stage = Stage::Ready;
                    self.watchlist.is_pump_due = true;
                }
                changes
            }
            DirectoryMsg::Update(update) => self.directory.apply_update(&update)?,
            DirectoryMsg::Status(status) => match status.state {
                Some(State { stream: StreamState::Closed | StreamState::ClosedRecover, code, .. }) => {
                    return Err(DisconnectReason::DirectoryEnded { code });
                }
                _ => return Ok(()),
            },
            DirectoryMsg::Generic(_) => return Ok(()),
            DirectoryMsg::Request(_) | DirectoryMsg::Close(_) => {
                return Err(RdmError::WrongClass { domain: Domain::SOURCE, class: msg.class() }.into());
            }
        };
        self.counters.services.set(self.directory.service_count() as u64);
        for change in &changes {
            self.on_change(now, change, sink);
        }
        self.watchlist.is_pump_due |= self.roles.is_some();
        self.follow(now, out, sink);
        Ok(())
    }

    /// Tells of a change in the directory, and what it means for items beyond that their service is there or
    /// not.
    fn on_change(&mut self, now: Nanos, change: &DirectoryChange, sink: &mut ConsumerSink<'_>) {
        let (change, id) = match change {
            DirectoryChange::Added { service_id } => (ServiceChange::Added, service_id),
            DirectoryChange::Removed { service_id, name } => {
                let (change, id) = (ServiceChange::Removed, *service_id);
                return sink(ConsumerEvent::Service(ServiceEvent { change, id, name, service: None }));
            }
            DirectoryChange::Group { service_id, group } => {
                let lookup = lookup!(self);
                return self.watchlist.on_group(now, *service_id, group, lookup, sink);
            }
            DirectoryChange::State { service_id, status } => {
                self.report_service(ServiceChange::Changed, *service_id, sink);
                if let Some(status) = status {
                    let lookup = lookup!(self);
                    self.watchlist.on_service_status(now, *service_id, status.borrow(), lookup, sink);
                }
                return;
            }
            DirectoryChange::Info { service_id }
            | DirectoryChange::Load { service_id }
            | DirectoryChange::Data { service_id }
            | DirectoryChange::Links { service_id } => (ServiceChange::Changed, service_id),
        };
        self.report_service(change, *id, sink);
    }

    fn report_service(&self, change: ServiceChange, id: u16, sink: &mut ConsumerSink<'_>) {
        if let Some(service) = self.directory.service(id) {
            let name = &service.info.name;
            sink(ConsumerEvent::Service(ServiceEvent { change, id, name, service: Some(service) }));
        }
    }

    /// The directory is another: the dictionary may be had, items may be lost or asked for.
    fn follow(&mut self, now: Nanos, out: &mut Outbound, sink: &mut ConsumerSink<'_>) {
        if self.stage != Stage::Ready {
            return;
        }
        let progress = self.dictionary.look(now, &self.directory, &mut self.watchlist.streams, out);
        self.on_dictionary(now, progress, out, sink);
        let lookup = lookup!(self);
        self.watchlist.follow(now, &self.directory, lookup, sink);
    }

    /// Tells what became of a download; a failed one gives way to the next.
    fn on_dictionary(
        &mut self,
        now: Nanos,
        mut progress: Progress,
        out: &mut Outbound,
        sink: &mut ConsumerSink<'_>,
    ) {
        loop {
            match progress {
                Progress::None => return,
                Progress::Ready => {
                    self.counters.dictionary_downloads.inc();
                    if let Some(dictionary) = self.dictionary.current() {
                        sink(ConsumerEvent::DictionaryReady(dictionary));
                    }
                    return;
                }
                Progress::Unavailable(fault) => {
                    self.counters.dictionary_failures.inc();
                    sink(ConsumerEvent::DictionaryUnavailable(fault));
                    progress = self.dictionary.look(now, &self.directory, &mut self.watchlist.streams, out);
                }
            }
        }
    }

    /// Tells the server its roles; returns whether it knows them all now, or does not want to.
    fn send_roles(&mut self, out: &mut Outbound) -> bool {
        let Some(roles) = &mut self.roles else { return true };
        let Some(bytes) = roles.message(&self.features, &self.directory) else { return true };
        if push(out, &bytes).is_err() {
            return false;
        }
        roles.on_announced(&self.directory);
        self.counters.roles_told.inc();
        true
    }

    fn can_pump(&self) -> bool {
        self.watchlist.is_pump_due && self.stage == Stage::Ready && self.dictionary.lets_items_go()
    }
}

impl SessionLayer for Session {
    type Event<'a> = ConsumerEvent<'a>;

    fn connected<'e>(host: &'e HostPort, session: &'e rssl::Session<'e>) -> ConsumerEvent<'e> {
        ConsumerEvent::Connected { host, session }
    }

    fn disconnected(
        host: &HostPort,
        reason: DisconnectReason,
        retry_in: Option<Duration>,
    ) -> ConsumerEvent<'_> {
        ConsumerEvent::Disconnected { host, reason, retry_in }
    }

    fn connect_counters(&self) -> ConnectCounters<'_> {
        connect_counters!(self.counters, Some(&self.counters.messages_refused))
    }

    fn is_logged_in(&self) -> bool {
        matches!(self.stage, Stage::Browsing { .. } | Stage::Ready)
    }

    fn on_connected(&mut self, now: Nanos, out: &mut Outbound) -> Result<(), DisconnectReason> {
        login::send(self.login_request(), out)?;
        let limit = Duration::from_millis(self.login_timeout_ms.into());
        self.stage = Stage::LoggingIn { deadline: now.after(limit) };
        Ok(())
    }

    #[inline]
    fn on_message<F: FnMut(ConsumerEvent<'_>)>(
        &mut self,
        now: Nanos,
        bytes: &[u8],
        out: &mut Outbound,
        sink: &mut F,
    ) -> Result<(), DisconnectReason> {
        let head = peek(bytes)?;
        if head.class == MsgClass::Ack && self.on_ack(bytes, sink)? {
            return Ok(());
        }
        if let Some(place) = self.watchlist.streams.get(head.stream_id) {
            let lookup = lookup!(self);
            return Ok(self.watchlist.on_message(now, place, &head, bytes, lookup, sink)?);
        }
        self.on_other(now, &head, bytes, out, sink)
    }

    fn on_wakeup(
        &mut self,
        now: Nanos,
        out: &mut Outbound,
        sink: &mut ConsumerSink<'_>,
    ) -> Result<(), DisconnectReason> {
        let judges = self.patience.judges(now);
        match self.stage {
            Stage::LoggingIn { deadline } if judges && deadline <= now => {
                Err(DisconnectReason::LoginTimeout { limit_ms: self.login_timeout_ms })
            }
            Stage::Browsing { deadline } if judges && deadline <= now => {
                Err(DisconnectReason::DirectoryTimeout { limit_ms: self.directory_timeout_ms })
            }
            Stage::Ready => {
                if judges {
                    let progress = self.dictionary.on_wakeup(now, out);
                    self.on_dictionary(now, progress, out, sink);
                }
                let progress = self.dictionary.look(now, &self.directory, &mut self.watchlist.streams, out);
                self.on_dictionary(now, progress, out, sink);
                let lookup = lookup!(self);
                self.watchlist.on_wakeup(now);
                if judges {
                    self.watchlist.on_answers_due(now, lookup, sink);
                    self.posts.on_wakeup(now, &self.counters, sink);
                }
                Ok(())
            }
            Stage::Down | Stage::LoggingIn { .. } | Stage::Browsing { .. } => Ok(()),
        }
    }

    fn pump(&mut self, now: Nanos, out: &mut Outbound, sink: &mut ConsumerSink<'_>) {
        if !self.can_pump() {
            return;
        }
        if !self.send_roles(out) {
            self.watchlist.is_held = true;
            return;
        }
        let lookup = lookup!(self);
        if self.watchlist.has_unreported() {
            self.watchlist.follow(now, &self.directory, lookup, sink);
        }
        self.watchlist.pump(now, &self.directory, &self.features, out, lookup, sink);
        self.send_login(out);
    }

    fn next_wakeup(&self) -> Nanos {
        match self.stage {
            Stage::Down => Nanos::NEVER,
            Stage::LoggingIn { deadline } | Stage::Browsing { deadline } => self.patience.due(deadline),
            Stage::Ready if self.can_pump() => Nanos::ZERO,
            Stage::Ready => {
                let answers = self.watchlist.answers_due().min(self.posts.next_wakeup());
                let answers = self.dictionary.next_wakeup().min(answers);
                self.patience.due(answers).min(self.watchlist.next_wakeup())
            }
        }
    }

    fn on_disconnected(&mut self, now: Nanos, sink: &mut ConsumerSink<'_>) {
        if self.stage == Stage::Down {
            return;
        }
        self.stage = Stage::Down;
        self.dictionary.on_disconnected();
        self.posts.on_disconnected(&self.counters, sink);
        self.is_login_due = false;
        if let Some(roles) = &mut self.roles {
            roles.on_disconnected();
        }
        let lookup = lookup!(self);
        self.watchlist.on_disconnected(now, lookup, sink);
    }

    fn on_drained(&mut self) {
        self.watchlist.on_drained();
    }

    fn log_out(&self, out: &mut Outbound) {
        if self.stage != Stage::Down {
            login::log_out(out);
        }
    }
}

/// What stock consumers say when they offer to have the round trip measured.
const ROUND_TRIP_OFFER: u64 = 2;

#[cfg(test)]
mod tests {
    use rdm::directory::{DirectoryRefresh, Filter, Info, Service};
    use rwf::Domain;

    use super::*;

    #[test]
    fn a_server_may_offer_more_services_than_any_of_its_providers() {
        let service = |id: u16| Service {
            id,
            info: Info {
                name: format!("S{id}"),
                capabilities: vec![Domain::MARKET_PRICE],
                ..Info::default()
            },
            ..Service::default()
        };
        let services: Vec<Service> = (1..=10_000).map(service).collect();
        let refresh = DirectoryRefresh::publish(0, Filter::ALL, &services).expect("unique");
        let changes = directory().apply_refresh(&refresh).expect("it is taken");
        assert_eq!(changes.len(), services.len());
    }
}
