//! Connections of providers, and what those say that publish of their own accord.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;

use rdm::dictionary::{DictionaryMsg, DictionaryParts, PartSizes};
use rdm::directory::Directory;
use rdm::item::has_items;
use rdm::login::{LoginMsg, LoginRefresh, LoginRequest, LoginStatus, Role};
use rdm::{RdmError, Reply, ToVec};
use rwf::{DecodeError, Domain, Msg, MsgClass, MsgHead, StateCode, peek};
use units::Nanos;

use super::cleanups::Places;
use super::dialled::Dialled;
use super::waiting::Waiting;
use super::{Distributor, DistributorSink, ProviderId};
use crate::users::{Claim, Denial};

/// One provider connection.
#[derive(Debug, Default)]
pub(super) struct Provider {
    /// The user it has logged in as.
    pub(super) user: Option<String>,
    /// Where it comes from, if it has connected.
    pub(super) address: Option<Ipv4Addr>,
    /// Its login stream and who it has said it is, if it has connected.
    pub(super) login: Option<(i32, Claim)>,
    /// What it says about its services, under its own ids.
    pub(super) directory: Directory,
    /// Our ids of its services.
    pub(super) service_ids: HashMap<u16, u16>,
    /// When it said something last.
    pub(super) heard_at: Nanos,
    /// The names of its services that are not taken from it.
    pub(super) refused: BTreeSet<String>,
    /// What its streams are for.
    pub(super) streams: HashMap<i32, Target>,
    /// The items that it has published, or stood by for, since its service was lost last, by our service id.
    pub(super) places: BTreeMap<u16, Places>,
    /// It waits until clean-ups are done.
    pub(super) waiting: Option<Box<Waiting>>,
    /// It is gone, and does not wait any more.
    pub(super) is_ending: bool,
    /// What else is known of it if this instance has dialled it.
    pub(super) dialled: Option<Dialled>,
}

/// What a stream at a provider is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// An item, by its place in the table.
    Item(usize),
    /// A private stream, by its place in the table.
    Private(usize),
}

impl Provider {
    /// The items that it supplies, in no order.
    pub(super) fn item_places(&self) -> impl Iterator<Item = usize> + '_ {
        self.streams.values().filter_map(|target| match target {
            Target::Item(index) => Some(*index),
            Target::Private(_) => None,
        })
    }
}

/// Why a provider's connection is to be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderError {
    /// Bytes of which not even class and stream can be told, or a message about the login, the directory or
    /// the dictionary that cannot be read.
    Malformed(DecodeError),
    /// A directory that does not mean what it has to mean.
    Directory(RdmError),
    /// The login was refused; the answer says why.
    LoginRefused,
    /// The user may not log in; the answer says why.
    LoginDenied(Denial),
    /// It has logged out.
    LoggedOut,
    /// What a dialled provider says about the login is not what it has to be.
    Login(RdmError),
    /// A dialled provider refuses the login, or has ended it: code and text of its state.
    LoginEnded(StateCode, String),
    /// A dialled provider has ended the stream of its directory.
    DirectoryEnded,
    /// A dialled provider has not answered login or directory request in time.
    Silent,
}

impl std::fmt::Display for ProviderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProviderError::Malformed(e) => write!(f, "malformed message: {e}"),
            ProviderError::Directory(e) => write!(f, "source directory: {e}"),
            ProviderError::LoginDenied(why) => write!(f, "the login is denied: {why}"),
            ProviderError::LoginRefused => f.write_str("the login was refused"),
            ProviderError::LoggedOut => f.write_str("logged out"),
            ProviderError::Login(e) => write!(f, "login: {e}"),
            ProviderError::LoginEnded(code, text) => write!(f, "the login is closed ({code}): {text}"),
            ProviderError::DirectoryEnded => f.write_str("the source directory is closed"),
            ProviderError::Silent => f.write_str("login or source directory was not answered in time"),
        }
    }
}

impl std::error::Error for ProviderError {}

impl From<DecodeError> for ProviderError {
    fn from(e: DecodeError) -> Self {
        ProviderError::Malformed(e)
    }
}

/// Connections.
impl Distributor {
    /// A provider has completed its handshake; `address` is where it comes from, if that is of IPv4.
    pub fn on_provider_connected(&mut self, provider: ProviderId, address: Option<Ipv4Addr>) {
        self.providers.insert(provider, Provider { address, ..Provider::default() });
    }

    /// A connection is gone, whose number is not to be given to another one while [`Distributor::is_leaving`]: the
    /// services it published are down and their items suspect, until somebody publishes them again.
    pub fn on_provider_closed(&mut self, now: Nanos, provider: ProviderId, sink: &mut impl DistributorSink) {
        self.end_wait_of_lost(now, provider, sink);
        let Some(mut known) = self.providers.remove(&provider) else { return };
        let places = std::mem::take(&mut known.places);
        self.posts_lost(provider, sink);
        self.dialled_lost(now, (provider, known), sink);
        let published: Vec<u16> =
            self.services.iter().filter(|(_, s)| s.is_published_by(provider)).map(|(id, _)| *id).collect();
        self.remove_publisher(now, (provider, &published), (places, "the provider has gone"), sink);
        self.count_shared();
        self.count_providers();
        self.publish_directory_if_due(now, sink);
    }

    pub(super) fn count_providers(&self) {
        let logged_in = self.providers.values().filter(|p| p.user.is_some()).count();
        self.counters.providers.set(logged_in as u64);
    }

    /// Whether a provider has logged in.
    #[must_use]
    pub fn is_logged_in(&self, provider: ProviderId) -> bool {
        self.providers.get(&provider).is_some_and(|p| p.user.is_some())
    }

    /// The users of the providers that are logged in, for status pages.
    pub fn provider_users(&self) -> impl Iterator<Item = &str> + '_ {
        self.providers.values().filter_map(|p| p.user.as_deref())
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

    #[inline]
    fn provider_message(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        let head = peek(bytes)?;
        if let Some(known) = self.providers.get_mut(&provider) {
            known.heard_at = now;
            if known.waiting.is_some() {
                self.keep_message(now, provider, bytes, sink);
                return Ok(());
            }
        }
        if self.cleanups.has_sweeps() {
            self.settle_target(now, provider, bytes, sink);
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
        let Some(known) = self.providers.get(&provider) else { return Ok(()) };
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
            (_, Domain::DICTIONARY) => self.on_dictionary(provider, &msg, sink),
            (Msg::Refresh(refresh), _) => self.on_refresh(now, provider, refresh, sink),
            (Msg::Status(status), _) => self.on_published_status(now, provider, status, sink),
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
        let address = self.providers.get(&provider).and_then(|known| known.address);
        let claim = Claim::of(request, address);
        if let Err(denial) = self.gate.admit(&claim) {
            self.deny(provider, LoginStatus::reject(request, denial.code(), &denial.to_string()), sink);
            return Err(ProviderError::LoginDenied(denial));
        }
        if let Some(known) = self.providers.get_mut(&provider) {
            known.user = Some(claim.user.clone());
            known.login = Some((request.stream_id, claim));
        }
        self.count_providers();
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

    fn on_dictionary(&mut self, provider: ProviderId, msg: &Msg<'_>, sink: &mut impl DistributorSink) {
        let parts = match DictionaryMsg::parse(msg) {
            Ok(DictionaryMsg::Request(request)) => {
                DictionaryParts::new(&request, &self.dictionary, PartSizes::default())
            }
            Ok(_) => return,
            Err(error) => Err(error),
        };
        match parts {
            Ok(parts) => parts.flatten().for_each(|part| sink.to_provider(provider, &part)),
            Err(error) => {
                self.counters.messages_refused.inc();
                if let Ok(answer) = Reply::to(msg).refuse(&error) {
                    sink.to_provider(provider, &answer);
                }
            }
        }
    }
}
