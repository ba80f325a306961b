//! Providers that are dialled: this instance logs in to them as a consumer does, and asks for items one by
//! one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rdm::ToVec;
use rdm::directory::{Directory, DirectoryRequest, Service};
use rdm::login::{LoginMsg, LoginRefresh, LoginRequest, LoginStatus};
use rwf::{Domain, Msg, MsgClass, State, StateCode, StreamState};
use units::Nanos;

use super::cleanups::What;
use super::dictionaries::{Comparison, DictionaryDifference};
use super::providers::{Provider, Target};
use super::services::{Requested, Supply, Untaken};
use super::timers::Due;
use super::{Distributor, DistributorSink, ProviderError, ProviderId, RefusedService, Timer};
use crate::backbone::Kind;

/// Who this instance says it is at a provider, and what it wants there.
#[derive(Clone, Debug, Default)]
pub struct DialSpec {
    /// What the provider is called in configuration and status pages.
    pub name: String,
    /// The user that logs in, at most 255 bytes.
    pub user: String,
    /// The password, if one is sent.
    pub password: Option<String>,
    /// Id of the application in the permission system.
    pub application_id: String,
    /// Name of the application.
    pub application_name: String,
    /// Where the user sits.
    pub position: String,
    /// The names of the services that are taken from it; all that it has if there are none.
    pub services: Vec<String>,
}

impl DialSpec {
    fn wants(&self, service: &Service) -> bool {
        self.services.is_empty() || self.services.contains(&service.info.name)
    }

    fn login(&self) -> LoginRequest<'_> {
        LoginRequest {
            application_id: self.application_id.as_bytes(),
            application_name: Some(self.application_name.as_bytes()),
            position: Some(self.position.as_bytes()),
            password: self.password.as_ref().map(String::as_bytes),
            round_trip_latency: Some(2),
            ..LoginRequest::consumer(self.user.as_bytes())
        }
    }
}

/// How far a dialled provider has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialStage {
    /// The login waits for its answer.
    LoggingIn,
    /// The directory is asked for.
    AwaitingDirectory,
    /// Items can be asked for.
    Ready,
}

/// A dialled provider, for status pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DialledStatus<'a> {
    /// What configuration calls it.
    pub name: &'a str,
    /// How far it has come.
    pub stage: DialStage,
    /// The services that are taken from it.
    pub services: usize,
    /// Items open at it.
    pub items_open: usize,
    /// Items asked for whose answer is not there.
    pub items_pending: usize,
    /// How its dictionaries differ from those that clients get.
    pub differences: &'a [DictionaryDifference],
}

/// What is known of a dialled provider beside what is known of every provider.
#[derive(Debug)]
pub(super) struct Dialled {
    spec: Arc<DialSpec>,
    stage: DialStage,
    /// Until when login and directory have to be answered.
    due: Option<Due>,
    /// Its login says that it takes posts.
    pub(super) takes_posts: bool,
    next_stream_id: i32,
    pub(super) dictionaries: Comparison,
    /// The services that are taken from it, by our ids.
    pub(super) offers: BTreeMap<u16, Offer>,
}

/// A service at one provider.
#[derive(Debug)]
pub(super) struct Offer {
    /// Its id there.
    pub(super) theirs: u16,
    /// What the provider says about it, with our id.
    pub(super) definition: Service,
    /// Streams open there.
    pub(super) open_count: usize,
    /// Streams asked for there, whose answer has not come.
    pub(super) pending_count: usize,
    /// A number of [`Distributor::sweep`]: streams of items that sweeps up to it are done with, and none behind it, are
    /// of an earlier offer, and not counted.
    pub(super) since: u64,
    /// The operators know that its limit makes items wait.
    pub(super) is_limit_told: bool,
}

impl Offer {
    /// Whether it can be asked for items now.
    pub(super) fn is_available(&self) -> bool {
        self.definition.state.up && self.definition.state.accepting_requests != Some(false)
    }

    /// Whether one more item of a domain can be asked for, with at most `window` waiting for answers.
    pub(super) fn takes(&self, domain: Domain, window: usize) -> bool {
        self.has_room(window) && self.has_domain(domain)
    }

    /// Whether it has items of a domain.
    pub(super) fn has_domain(&self, domain: Domain) -> bool {
        self.definition.info.capabilities.contains(&domain)
    }

    /// Whether it has as many streams open as it takes.
    pub(super) fn is_full(&self) -> bool {
        let open = (self.open_count + self.pending_count) as u64;
        self.definition.load.open_limit.is_some_and(|limit| open >= limit)
    }

    /// The same for any domain.
    pub(super) fn has_room(&self, window: usize) -> bool {
        let load = &self.definition.load;
        let below = |count: usize, limit: Option<u64>| limit.is_none_or(|limit| (count as u64) < limit);
        self.is_available()
            && self.pending_count < window
            && below(self.pending_count, load.open_window)
            && !self.is_full()
    }
}

/// The first stream of an item; login, directory and dictionaries have those before.
const FIRST_STREAM_ID: i32 = 5;
const DIRECTORY_STREAM_ID: i32 = 2;
/// The stream on which posts and their acknowledgements go that belong to no open item.
pub(super) use rdm::login::LOGIN_STREAM_ID;

impl Dialled {
    /// The services of its directory that are taken from it.
    pub(super) fn wanted<'d>(&self, directory: &'d Directory) -> impl Iterator<Item = &'d Service> {
        directory.services().filter(|s| self.spec.wants(s))
    }

    /// An id for a stream, which none of `used` has. Ids are given again only after all others.
    pub(super) fn take_stream_id(&mut self, used: &HashMap<i32, Target>) -> i32 {
        loop {
            let id = self.next_stream_id;
            self.next_stream_id = id.checked_add(1).unwrap_or(FIRST_STREAM_ID);
            if !used.contains_key(&id) {
                return id;
            }
        }
    }
}

/// Connections.
impl Distributor {
    /// A connection to a provider stands: this instance logs in.
    pub fn on_dialled(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        spec: Arc<DialSpec>,
        sink: &mut impl DistributorSink,
    ) {
        let Ok(login) = spec.login().to_vec() else {
            // A name of more than 255 bytes; configuration does not let it through.
            sink.close_provider(provider, &ProviderError::LoginRefused);
            return;
        };
        let due = self.timers.set(now + self.config.login_timeout, Timer::Login(provider));
        let dialled = Dialled {
            spec,
            stage: DialStage::LoggingIn,
            due: Some(due),
            takes_posts: false,
            next_stream_id: FIRST_STREAM_ID,
            dictionaries: Comparison::default(),
            offers: BTreeMap::new(),
        };
        // A front end that asks `is_leaving` dials later.
        self.finish_sweeps_to(now, self.cleanups.last_sweep_of(provider), sink);
        self.providers.insert(provider, Provider { dialled: Some(dialled), ..Provider::default() });
        sink.to_provider(provider, &login);
    }

    /// A dialled provider is gone, as is `known` of it: its items are asked for elsewhere, or suspect until
    /// it is back.
    pub(super) fn dialled_lost(
        &mut self,
        now: Nanos,
        (provider, known): (ProviderId, Provider),
        sink: &mut impl DistributorSink,
    ) {
        let Some(dialled) = known.dialled else { return };
        if let Some(due) = dialled.due {
            self.timers.cancel(due);
        }
        let services: Vec<u16> = dialled.offers.into_keys().collect();
        for id in &services {
            if let Some(requested) = self.services.get_mut(id).and_then(|s| s.requested_mut()) {
                requested.sources.retain(|p| self.providers.contains_key(p));
            }
            self.redefine(*id);
        }
        self.sweep(now, provider, What::Unasked(None, PROVIDER_GONE), sink);
        self.privates_lost(provider, None, PROVIDER_GONE, sink);
        for id in services {
            self.pump(now, id, sink);
        }
        self.count_providers();
    }

    /// Login and directory were not answered in time.
    pub(super) fn login_overdue(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.logins_unanswered.inc();
        self.on_provider_closed(now, provider, sink);
        sink.close_provider(provider, &ProviderError::Silent);
    }

    /// The dialled providers that are connected.
    pub fn dialled_providers(&self) -> impl Iterator<Item = (ProviderId, DialledStatus<'_>)> + '_ {
        self.providers.iter().filter_map(|(id, known)| {
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

    pub(super) fn dialled(&self, provider: ProviderId) -> Option<&Dialled> {
        self.providers.get(&provider)?.dialled.as_ref()
    }

    pub(super) fn dialled_mut(&mut self, provider: ProviderId) -> Option<&mut Dialled> {
        self.providers.get_mut(&provider)?.dialled.as_mut()
    }

    pub(super) fn offer(&self, provider: ProviderId, service: u16) -> Option<&Offer> {
        self.dialled(provider)?.offers.get(&service)
    }

    pub(super) fn offer_mut(&mut self, provider: ProviderId, service: u16) -> Option<&mut Offer> {
        self.dialled_mut(provider)?.offers.get_mut(&service)
    }
}

/// Why the items of a provider that is gone are suspect.
pub(super) const PROVIDER_GONE: State<'static> =
    super::SUSPECT.because(StateCode::NONE, "the connection to the provider is lost");
const SERVICE_DOWN: State<'static> =
    super::SUSPECT.because(StateCode::NONE, "the provider's service is down");
pub(super) const SERVICE_WITHDRAWN: State<'static> =
    super::SUSPECT.because(StateCode::NONE, "the provider has withdrawn the service");

/// Messages.
impl Distributor {
    /// A message of a dialled provider, but for updates.
    pub(super) fn dialled_message(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        msg: &Msg<'_>,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        let is_logged_in = self.is_logged_in(provider);
        match (msg, msg.domain()) {
            (_, Domain::LOGIN) => return self.on_login_answer(provider, msg, sink),
            _ if !is_logged_in => self.counters.messages_refused.inc(),
            (Msg::Status(status), Domain::SOURCE)
                if status.state.is_some_and(|s| s.stream != StreamState::Open) =>
            {
                return Err(ProviderError::DirectoryEnded);
            }
            (_, Domain::SOURCE) => return self.on_offered(now, provider, msg, sink),
            (_, Domain::DICTIONARY) => self.on_dictionary_answer(provider, msg, sink),
            _ => self.on_item_message(now, provider, msg, bytes, sink),
        }
        Ok(())
    }

    /// A message on the stream of an item, or of one client alone, but for updates of items.
    fn on_item_message(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        msg: &Msg<'_>,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        let target = self.providers.get(&provider).and_then(|p| p.streams.get(&msg.stream_id())).copied();
        match (msg, target) {
            (_, Some(Target::Private(place))) => self.on_private_answer(now, place, msg, bytes, sink),
            (Msg::Ack(ack), _) => self.on_ack(provider, ack, sink),
            (Msg::Refresh(refresh), Some(Target::Item(index))) => {
                self.on_answer(now, (provider, index), refresh, sink);
            }
            (Msg::Status(status), Some(Target::Item(index))) => {
                self.counters.statuses_in.inc();
                self.on_item_status(now, index, status, sink);
            }
            (Msg::Generic(_), Some(Target::Item(index))) => {
                self.counters.generics_out.inc();
                self.publish(now, index, Kind::Generic, bytes, sink);
            }
            (Msg::Refresh(_) | Msg::Status(_) | Msg::Generic(_), None) => {
                self.counters.messages_unasked.inc();
            }
            _ => self.counters.messages_refused.inc(),
        }
    }

    fn on_login_answer(
        &mut self,
        provider: ProviderId,
        msg: &Msg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        let state = match LoginMsg::parse(msg).map_err(ProviderError::Login)? {
            LoginMsg::Refresh(refresh) if refresh.state.stream == StreamState::Open => {
                self.on_login_accepted(provider, &refresh, sink);
                return Ok(());
            }
            LoginMsg::Refresh(refresh) => Some(refresh.state),
            LoginMsg::Status(LoginStatus { state, .. }) => state,
            LoginMsg::RoundTrip(measured) => {
                if let Ok(back) = measured.to_vec() {
                    sink.to_provider(provider, &back);
                }
                None
            }
            LoginMsg::Generic(_) => None,
            LoginMsg::Request(_) | LoginMsg::Close(_) => {
                self.counters.messages_refused.inc();
                None
            }
        };
        match state {
            Some(state) if state.stream != StreamState::Open => {
                Err(ProviderError::LoginEnded(state.code, state.text_lossy().into_owned()))
            }
            _ => Ok(()),
        }
    }

    fn on_login_accepted(
        &mut self,
        provider: ProviderId,
        refresh: &LoginRefresh<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let Some(known) = self.providers.get_mut(&provider) else { return };
        let Some(dialled) = &mut known.dialled else { return };
        dialled.takes_posts = refresh.features.omm_post == Some(true);
        if dialled.stage == DialStage::LoggingIn {
            dialled.stage = DialStage::AwaitingDirectory;
            known.user = Some(dialled.spec.user.clone());
            let request = DirectoryRequest::all(DIRECTORY_STREAM_ID).to_vec();
            sink.to_provider(provider, &request.expect("a request without a name is short"));
        }
        self.count_providers();
    }

    fn on_offered(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        msg: &Msg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        if msg.class() == MsgClass::Refresh
            && let Some(dialled) = self.dialled_mut(provider)
        {
            dialled.stage = DialStage::Ready;
            if let Some(due) = dialled.due.take() {
                self.timers.cancel(due);
            }
        }
        self.on_directory(now, provider, msg, sink)?;
        self.ask_dictionaries(provider, sink);
        Ok(())
    }
}

/// What it offers.
impl Distributor {
    /// Takes what a provider's directory says now.
    pub(super) fn take_offers(&mut self, now: Nanos, provider: ProviderId, sink: &mut impl DistributorSink) {
        let Some(known) = self.providers.get(&provider) else { return };
        let Some(dialled) = &known.dialled else { return };
        let listed: Vec<Service> = dialled.wanted(&known.directory).cloned().collect();
        let is_listed = |offer: &Offer| listed.iter().any(|s| s.info.name == offer.definition.info.name);
        let gone: Vec<u16> =
            dialled.offers.iter().filter(|(_, o)| !is_listed(o)).map(|(id, _)| *id).collect();
        for id in gone {
            self.drop_offer(now, provider, id, sink);
        }
        for service in listed {
            self.take_offer(now, provider, service, sink);
        }
    }

    fn take_offer(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        definition: Service,
        sink: &mut impl DistributorSink,
    ) {
        let theirs = definition.id;
        let name = definition.info.name.clone();
        let definition = match self.as_ours(definition) {
            Ok(definition) => definition,
            Err(Untaken::For(why)) => return self.refuse_service(provider, &name, why, sink),
            Err(Untaken::Until(number)) => return self.wait_to_take(now, provider, number),
        };
        if self.listed(definition.id).is_some_and(|s| s.requested().is_none()) {
            return self.refuse_service(provider, &name, RefusedService::Published, sink);
        }
        let (id, is_up) = (definition.id, definition.state.up);
        if self.listed(id).is_none() {
            self.add_service(definition.clone(), Supply::Requested(Requested::default()), sink);
        }
        let was_up = self.put_offer(provider, theirs, definition);
        if let Some(requested) = self.services.get_mut(&id).and_then(|s| s.requested_mut())
            && !requested.sources.contains(&provider)
        {
            requested.sources.push(provider);
        }
        self.redefine(id);
        if was_up && !is_up {
            self.offer_lost(now, provider, id, SERVICE_DOWN, sink);
        }
        self.pump(now, id, sink);
    }

    /// Notes what a provider offers; returns whether the service was up there before.
    fn put_offer(&mut self, provider: ProviderId, theirs: u16, definition: Service) -> bool {
        let since = self.cleanups.next_number();
        let Some(known) = self.providers.get_mut(&provider) else { return false };
        let Some(dialled) = &mut known.dialled else { return false };
        known.service_ids.insert(theirs, definition.id);
        let id = definition.id;
        let fresh =
            Offer { theirs, definition, open_count: 0, pending_count: 0, since, is_limit_told: false };
        match dialled.offers.get_mut(&id) {
            Some(offer) => {
                let before = std::mem::replace(offer, fresh);
                (offer.open_count, offer.pending_count) = (before.open_count, before.pending_count);
                (offer.since, offer.is_limit_told) = (before.since, before.is_limit_told);
                before.definition.state.up
            }
            None => {
                dialled.offers.insert(id, fresh);
                false
            }
        }
    }

    /// A provider offers a service no longer: others go on with it, or it is withdrawn.
    fn drop_offer(&mut self, now: Nanos, provider: ProviderId, id: u16, sink: &mut impl DistributorSink) {
        let Some(requested) = self.services.get_mut(&id).and_then(|s| s.requested_mut()) else { return };
        requested.sources.retain(|p| *p != provider);
        let is_orphan = requested.sources.is_empty();
        if let Some(known) = self.providers.get_mut(&provider) {
            known.service_ids.retain(|_, ours| *ours != id);
            known.dialled.as_mut().and_then(|d| d.offers.remove(&id));
        }
        if is_orphan {
            self.privates_lost(provider, Some(id), SERVICE_WITHDRAWN, sink);
            self.withdraw(now, provider, id, sink);
        } else {
            self.redefine(id);
            self.offer_lost(now, provider, id, SERVICE_WITHDRAWN, sink);
            self.pump(now, id, sink);
        }
    }

    /// The streams of one service at a provider that lives on are over.
    fn offer_lost(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        id: u16,
        state: State<'static>,
        sink: &mut impl DistributorSink,
    ) {
        self.sweep(now, provider, What::Unasked(Some(id), state), sink);
        self.privates_lost(provider, Some(id), state, sink);
    }

    /// Private streams at a provider are over, those of one service if it is named. They are bounded by
    /// `private_streams_max`.
    fn privates_lost(
        &mut self,
        provider: ProviderId,
        service: Option<u16>,
        state: State<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let of_provider = self.privates.iter().filter(|(_, private)| private.provider == provider);
        let meant = of_provider.filter(|(_, private)| service.is_none_or(|id| private.service == id));
        for place in meant.map(|(place, _)| place).collect::<Vec<usize>>() {
            self.private_lost(place, state, sink);
        }
    }
}
