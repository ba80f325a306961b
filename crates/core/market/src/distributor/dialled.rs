//! Providers that are dialled: this instance logs in to them as a consumer does, and asks for items one by
//! one.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use rdm::ToVec;
use rdm::directory::{DirectoryRequest, Service};
use rdm::login::{LoginMsg, LoginRefresh, LoginStatus};
use rwf::{Domain, Msg, MsgClass, State, StreamState};
use units::Nanos;

use super::Distributor;
use super::base::{ProviderId, Timer};
use super::definitions::Numbers;
use super::errors::ProviderError;
use super::notices::RefusedService;
use super::provider::{
    Comparison, DIRECTORY_STREAM_ID, DialSpec, DialStage, Dialled, FIRST_STREAM_ID, Offer, Provider, Target,
};
use super::service::{Requested, Supply, Untaken};
use super::sink::DistributorSink;
use super::status::{PROVIDER_GONE, SERVICE_DOWN, SERVICE_LOOPS, SERVICE_WITHDRAWN, close_at};
use super::sweep::What;
use crate::backbone::Kind;

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
        let due = self.items.timers.set(now + self.config.login_timeout, Timer::Login(provider));
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
        self.items.finish_sweeps_to(now, self.items.cleanups.last_sweep_of(provider), sink);
        self.items
            .suppliers
            .providers
            .insert(provider, Provider { dialled: Some(dialled), ..Provider::default() });
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
            self.items.timers.cancel(due);
        }
        let services: Vec<u16> = dialled.offers.into_keys().collect();
        for id in &services {
            if let Some(requested) = self.items.suppliers.services.get_mut(id).and_then(|s| s.requested_mut())
            {
                requested.sources.retain(|p| self.items.suppliers.providers.contains_key(p));
            }
            self.items.suppliers.redefine_without(now, *id, sink);
        }
        if !units::planted(units::Bug::UpstreamLossUnsaid) {
            self.items.sweep(now, provider, What::Unasked(None, PROVIDER_GONE), sink);
        }
        self.privates.privates_lost(&mut self.items, provider, None, PROVIDER_GONE, sink);
        for id in services {
            self.items.pump(now, id, sink);
        }
        self.items.suppliers.count_providers();
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
}

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
            (_, Domain::DICTIONARY) => self.items.suppliers.on_dictionary_answer(provider, msg, sink),
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
        let target =
            self.items.suppliers.providers.get(&provider).and_then(|p| p.streams.get(msg.stream_id()));
        match (msg, target) {
            (_, Some(Target::Private(place))) => {
                self.privates.on_private_answer(&mut self.items, now, place, msg, bytes, sink)
            }
            (Msg::Ack(ack), _) => self.posts.on_ack(&mut self.items, provider, ack, sink),
            (Msg::Refresh(refresh), Some(Target::Item(index))) => {
                self.items.on_answer(now, (provider, index), refresh, sink);
            }
            (Msg::Status(status), Some(Target::Item(index))) => {
                self.counters.statuses_in.inc();
                self.items.on_item_status(now, index, status, sink);
            }
            (Msg::Generic(_), Some(Target::Item(index))) => {
                self.counters.generics_out.inc();
                self.items.publish(now, index, Kind::Generic, bytes, sink);
            }
            (Msg::Refresh(refresh), None) => {
                self.counters.messages_unasked.inc();
                if refresh.private_stream && refresh.state.stream == StreamState::Open {
                    // A client's request has met the end of its stream, and opened it once more.
                    close_at((provider, refresh.stream_id), refresh.domain, sink);
                }
            }
            (Msg::Status(_) | Msg::Generic(_), None) => self.counters.messages_unasked.inc(),
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
        let Some(known) = self.items.suppliers.providers.get_mut(&provider) else { return };
        let Some(dialled) = &mut known.dialled else { return };
        dialled.takes_posts = refresh.features.omm_post == Some(true);
        if dialled.stage == DialStage::LoggingIn {
            dialled.stage = DialStage::AwaitingDirectory;
            known.user = Some(dialled.spec.user.clone());
            let request = DirectoryRequest::all(DIRECTORY_STREAM_ID).to_vec();
            sink.to_provider(provider, &request.expect("a request without a name is short"));
        }
        self.items.suppliers.count_providers();
    }

    fn on_offered(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        msg: &Msg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        if msg.class() == MsgClass::Refresh
            && let Some(dialled) = self.items.suppliers.dialled_mut(provider)
        {
            dialled.stage = DialStage::Ready;
            if let Some(due) = dialled.due.take() {
                self.items.timers.cancel(due);
            }
        }
        self.on_directory(now, provider, msg, sink)?;
        self.items.suppliers.ask_dictionaries(provider, sink);
        Ok(())
    }
}

/// What it offers.
impl Distributor {
    /// Takes what a provider's directory says now.
    pub(super) fn take_offers(&mut self, now: Nanos, provider: ProviderId, sink: &mut impl DistributorSink) {
        let Some(known) = self.items.suppliers.providers.get(&provider) else { return };
        let Some(dialled) = &known.dialled else { return };
        let listed = dialled.wanted_as_ours(&known.directory);
        let is_listed = |offer: &Offer| listed.iter().any(|s| s.info.name == offer.definition.info.name);
        let gone: Vec<u16> =
            dialled.offers.iter().filter(|(_, o)| !is_listed(o)).map(|(id, _)| *id).collect();
        for id in gone {
            self.drop_offer(now, provider, id, sink);
        }
        let mut names = HashSet::new();
        for service in listed {
            if names.insert(service.info.name.clone()) {
                self.take_offer(now, provider, service, sink);
            } else {
                let (name, why) = (&service.info.name, RefusedService::Twin);
                self.items.suppliers.refuse_service(provider, name, why, sink);
            }
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
        let definition = match self.items.suppliers.as_ours(definition, Numbers::AnyFree) {
            Ok(definition) => definition,
            Err(Untaken::For(why)) => {
                return self.items.suppliers.refuse_service(provider, &name, why, sink);
            }
            Err(Untaken::Until(number)) => return self.wait_to_take(now, provider, number),
        };
        let published = self.items.suppliers.listed(definition.id).filter(|s| s.requested().is_none());
        if published.is_some_and(|s| s.is_saved && s.publishers().is_empty()) {
            // Nobody but an earlier run has published it: its items are asked for from now on.
            self.items.withdraw(now, provider, definition.id, sink);
        } else if published.is_some() {
            return self.items.suppliers.refuse_service(provider, &name, RefusedService::Published, sink);
        }
        let id = definition.id;
        if self.items.suppliers.listed(id).is_none() {
            self.items.suppliers.add_service(
                definition.clone(),
                Supply::Requested(Requested::default()),
                sink,
            );
        }
        let since = self.items.cleanups.next_number();
        let was_up = self.items.suppliers.put_offer(provider, theirs, (definition, since));
        if let Some(requested) = self.items.suppliers.services.get_mut(&id).and_then(|s| s.requested_mut())
            && !requested.sources.contains(&provider)
        {
            requested.sources.push(provider);
        }
        self.items.suppliers.redefine(now, id, sink);
        let offer = self.items.suppliers.offer(provider, id);
        let (is_up, is_loop) = offer.map_or((false, false), |offer| (offer.is_up(), offer.is_loop));
        if is_loop {
            self.items.suppliers.refuse_service(provider, &name, RefusedService::Loop, sink);
        }
        if was_up && !is_up {
            let state = if is_loop { SERVICE_LOOPS } else { SERVICE_DOWN };
            self.offer_lost(now, provider, id, state, sink);
        }
        self.items.pump(now, id, sink);
    }

    /// A provider offers a service no longer: others go on with it, or it is withdrawn.
    fn drop_offer(&mut self, now: Nanos, provider: ProviderId, id: u16, sink: &mut impl DistributorSink) {
        let Some(requested) = self.items.suppliers.services.get_mut(&id).and_then(|s| s.requested_mut())
        else {
            return;
        };
        requested.sources.retain(|p| *p != provider);
        let is_orphan = requested.sources.is_empty();
        if let Some(known) = self.items.suppliers.providers.get_mut(&provider) {
            known.service_ids.retain(|_, ours| *ours != id);
            known.dialled.as_mut().and_then(|d| d.offers.remove(&id));
        }
        if is_orphan {
            self.privates.privates_lost(&mut self.items, provider, Some(id), SERVICE_WITHDRAWN, sink);
            self.items.withdraw(now, provider, id, sink);
        } else {
            self.items.suppliers.redefine(now, id, sink);
            self.offer_lost(now, provider, id, SERVICE_WITHDRAWN, sink);
            self.items.pump(now, id, sink);
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
        self.items.sweep(now, provider, What::Unasked(Some(id), state), sink);
        self.privates.privates_lost(&mut self.items, provider, Some(id), state, sink);
    }
}
