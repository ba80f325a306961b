//! Connections of providers, and what those say that publish of their own accord.

use std::net::Ipv4Addr;

use rdm::item::has_items;
use rdm::login::{LoginMsg, LoginRefresh, LoginRequest, LoginStatus, Role};
use rdm::{Reply, ToVec};
use rwf::{Domain, Msg, MsgClass, MsgHead, StateCode, peek};
use units::Nanos;

use super::Distributor;
use super::base::ProviderId;
use super::errors::ProviderError;
use super::provider::Provider;
use super::sink::DistributorSink;
use crate::ahead::Ahead;
use crate::users::Credentials;

/// Connections.
impl Distributor {
    /// A provider has completed its handshake; `address` is where it comes from, if that is of IPv4.
    pub fn on_provider_connected(&mut self, provider: ProviderId, address: Option<Ipv4Addr>) {
        self.items.suppliers.providers.insert(provider, Provider { address, ..Provider::default() });
    }

    /// A connection is gone, whose number is not to be given to another one while [`Distributor::is_leaving`]: the
    /// services it published are down and their items suspect, until somebody publishes them again.
    pub fn on_provider_closed(&mut self, now: Nanos, provider: ProviderId, sink: &mut impl DistributorSink) {
        self.provider_gone(now, provider, "the provider has gone", sink);
    }

    /// The same; its items say why.
    pub(super) fn provider_gone(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        text: &'static str,
        sink: &mut impl DistributorSink,
    ) {
        self.end_wait_of_lost(now, provider, sink);
        let Some(mut known) = self.items.suppliers.providers.remove(&provider) else { return };
        let places = std::mem::take(&mut known.places);
        self.posts.posts_lost(&mut self.items, provider, sink);
        self.dialled_lost(now, (provider, known), sink);
        let published: Vec<u16> = self
            .items
            .suppliers
            .services
            .iter()
            .filter(|(_, s)| s.is_published_by(provider))
            .map(|(id, _)| *id)
            .collect();
        let places = if units::planted(units::Bug::ProviderLossUnsaid) { Default::default() } else { places };
        self.remove_publisher(now, (provider, &published), (places, text), sink);
        self.items.suppliers.count_shared();
        self.items.suppliers.count_providers();
        self.items.suppliers.publish_directory_if_due(now, sink);
    }

    /// A message of a provider.
    ///
    /// # Errors
    /// The connection has to be closed, after what was sent to it is out.
    #[inline]
    pub fn on_provider_message(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        let result = self.provider_message(now, provider, bytes, sink);
        if matches!(
            result,
            Err(ProviderError::Malformed(_) | ProviderError::Directory(_) | ProviderError::Login(_))
        ) {
            self.counters.messages_refused.inc();
        }
        result
    }

    /// How many messages before its turn a message is best announced ([`Distributor::announce`]); 0 if there are so few
    /// items that it does not help.
    #[inline]
    #[must_use]
    pub fn messages_ahead(&self) -> usize {
        if Ahead::helps(self.items.table.len()) { Ahead::DISTANCE } else { 0 }
    }

    /// A message of a provider comes in one of the next [`Distributor::messages_ahead`] calls of
    /// [`Distributor::on_provider_message`]. That is a hint: what its item needs is brought into the processor's caches.
    #[inline]
    pub fn announce(&mut self, provider: ProviderId, bytes: &[u8]) {
        let Ok(head) = peek(bytes) else { return };
        if let Some(index) = self.items.item_of(provider, head.stream_id, head.domain, None) {
            self.ahead.announce(index, &self.items.table);
        }
    }

    #[inline]
    fn provider_message(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        let head = peek(bytes)?;
        if let Some(known) = self.items.suppliers.providers.get_mut(&provider) {
            known.note_heard(now);
            if known.waiting.is_some() {
                self.keep_message(now, provider, bytes, sink);
                return Ok(());
            }
        }
        if self.items.cleanups.has_sweeps() {
            self.items.settle_target(now, provider, bytes, sink);
        }
        let result = if head.class == MsgClass::Update && has_items(head.domain) {
            self.on_update(now, provider, bytes, sink)
        } else {
            self.other_message(now, provider, &head, bytes, sink)
        };
        match result {
            Err(ProviderError::Malformed(error)) if has_items(head.domain) => {
                self.on_unreadable(now, provider, &head, error, sink)
            }
            result => result,
        }
    }

    /// A message that is no update of an item.
    fn other_message(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        head: &MsgHead,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        let msg = Msg::parse(bytes)?;
        let Some(known) = self.items.suppliers.providers.get(&provider) else { return Ok(()) };
        if known.dialled.is_some() {
            return self.dialled_message(now, provider, &msg, bytes, sink);
        }
        if head.domain != Domain::LOGIN && known.user.is_none() {
            self.counters.messages_refused.inc();
            let answer = Reply::to(&msg).closed(StateCode::USAGE_ERROR, "log in first");
            sink.to_provider(provider, self.encoding.encode(|w| answer.encode(w)));
            return Ok(());
        }
        match (&msg, head.domain) {
            (_, Domain::LOGIN) => return self.on_login(now, provider, &msg, sink),
            (_, Domain::SOURCE) => return self.on_directory(now, provider, &msg, sink),
            (_, Domain::DICTIONARY) => self.items.suppliers.on_dictionary(provider, &msg, sink),
            (Msg::Refresh(refresh), _) => self.items.on_refresh(now, provider, refresh, sink),
            (Msg::Status(status), _) => self.items.on_published_status(now, provider, status, sink),
            (Msg::Request(_), _) => {
                self.counters.messages_refused.inc();
                let text = "this port is for providers, consumers connect to a point-to-point server";
                let answer = Reply::to(&msg).closed(StateCode::USAGE_ERROR, text);
                sink.to_provider(provider, self.encoding.encode(|w| answer.encode(w)));
            }
            _ => self.counters.messages_refused.inc(),
        }
        Ok(())
    }

    fn on_login(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        msg: &Msg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        match LoginMsg::parse(msg) {
            Ok(LoginMsg::Request(request)) => self.on_login_request(provider, &request, sink),
            Ok(LoginMsg::Close(_)) => {
                self.on_provider_closed(now, provider, sink);
                Err(ProviderError::LoggedOut)
            }
            Ok(_) => Ok(()),
            Err(error) => {
                self.counters.messages_refused.inc();
                if let Ok(answer) = Reply::to(msg).refuse(&error) {
                    sink.to_provider(provider, &answer);
                }
                Err(ProviderError::LoginRefused)
            }
        }
    }

    fn on_login_request(
        &mut self,
        provider: ProviderId,
        request: &LoginRequest<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        if request.role == Role::Consumer {
            let text = "this port is for providers, consumers connect to a point-to-point server";
            if let Ok(answer) = LoginStatus::reject(request, StateCode::USAGE_ERROR, text).to_vec() {
                sink.to_provider(provider, &answer);
            }
            return Err(ProviderError::LoginRefused);
        }
        let address = self.items.suppliers.providers.get(&provider).and_then(|known| known.address);
        let credentials = Credentials::of(request, address);
        if let Err(denial) = self.gate.admit(&credentials) {
            self.deny(provider, LoginStatus::reject(request, denial.code(), &denial.to_string()), sink);
            return Err(ProviderError::LoginDenied(denial));
        }
        if let Some(known) = self.items.suppliers.providers.get_mut(&provider) {
            known.user = Some(credentials.user.clone());
            known.login = Some((request.stream_id, credentials));
        }
        self.items.suppliers.count_providers();
        let mut answer =
            LoginRefresh { application_name: Some(b"tickcast"), ..LoginRefresh::accept(request) };
        answer.features.provider_dictionary_download = Some(true);
        match answer.to_vec() {
            Ok(_) if request.no_refresh => Ok(()),
            Ok(answer) => {
                sink.to_provider(provider, &answer);
                Ok(())
            }
            Err(_) => Err(ProviderError::LoginRefused),
        }
    }
}
