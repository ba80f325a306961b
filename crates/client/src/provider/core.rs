//! The provider without its socket.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use counters::table::{ProviderSession, RsslConnections};
use market::{CachedItem, Encoding, image::FieldRules};
use rdm::directory::{
    Directory, DirectoryLimits, DirectoryRefresh, DirectoryUpdate, Filter, Service, ServiceDelta,
};
use rdm::login::{LOGIN_STREAM_ID, LoginMsg, LoginRefresh, LoginRequest, LoginStatus};
use rdm::{RdmError, ToVec};
use rssl::{CloseReason, Disconnect, Handler, Outbound, Stop};
use rwf::{Dictionary, Domain, Msg, State, StreamState, peek};
use units::Nanos;

use super::items::{Items, Pumped};
use super::{ItemError, ProviderEvent, PublishSpec, PublishedItem};
use crate::connector::{ConnectPlan, Connector, Offer};
use crate::login::LoginTexts;
use crate::{
    ConnectFailure, DisconnectReason, Endpoint, HostPort, Identity, ProviderConfig, Socket, StartError,
};

/// The stream of a provider's directory, as stock providers have it.
const DIRECTORY_STREAM_ID: i32 = 0;

/// Longest message that a server has for a provider: logins are short.
const MESSAGE_MAX_BYTES: u32 = 1 << 20;

/// A non-interactive provider as a state machine: bytes and the time in, bytes and events out.
///
/// [`Provider`](crate::Provider) drives it with a socket; the simulator drives it with anything else. See
/// [`Endpoint`] for the order of the calls.
pub struct ProviderCore {
    pub(super) connector: Connector,
    pub(super) session: Session,
    counters: Arc<ProviderSession>,
}

/// All of a provider but its connection.
pub(crate) struct Session {
    login: LoginTexts,
    login_timeout_ms: u32,
    pub(super) keep_images: bool,
    stage: Stage,
    directory: Directory,
    /// Changes of the directory that the server still has to be told.
    deltas: VecDeque<ServiceDelta>,
    pub(super) items: Items,
    pub(super) rules: FieldRules,
    pub(super) message: Encoding,
    /// [`ProviderEvent::Ready`] has been told, on this connection.
    is_ready_told: bool,
    /// The backlog was full: what is due goes when there is room.
    is_held: bool,
    /// There may be something to send, or to tell.
    pub(super) is_pump_due: bool,
    fault: Option<DisconnectReason>,
    pub(super) counters: Arc<ProviderSession>,
}

/// How far the session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is no connection, or its handshake is under way.
    Down,
    /// The login waits for its answer.
    LoggingIn { deadline: Nanos },
    /// The directory is published.
    Ready,
}

impl ProviderCore {
    /// A provider that connects when its driver asks for the first time what to do. Host name and address of
    /// `identity` go into the connection handshake. Delays and keys follow from `seed`.
    ///
    /// # Errors
    /// [`StartError::Config`] for what the connection handshake cannot hold, [`StartError::Service`] for services that
    /// share a name.
    pub fn new(config: &ProviderConfig, identity: &Identity, seed: u64) -> Result<ProviderCore, StartError> {
        let counters = Arc::new(ProviderSession::default());
        let offer = Offer {
            connect_timeout_ms: config.connect_timeout_ms,
            ping_timeout_s: config.ping_timeout_s,
            component: &config.component,
            identity,
            message_max_bytes: MESSAGE_MAX_BYTES,
            backlog_max_bytes: config.backlog_max_bytes,
        };
        let plan = ConnectPlan {
            hosts: config.hosts.clone(),
            connect_timeout_ms: config.connect_timeout_ms,
            delay_min: Duration::from_millis(config.reconnect_delay_min_ms.into()),
            delay_max: Duration::from_millis(config.reconnect_delay_max_ms.into()),
            params: offer.params()?,
            seed,
        };
        let session = Session::new(config, identity, Arc::clone(&counters))?;
        Ok(ProviderCore { connector: Connector::new(plan), session, counters })
    }

    /// Takes a dictionary: images then know which fields ripple, and which are texts that can be changed in part.
    pub fn set_dictionary(&mut self, dictionary: &Dictionary) {
        self.session.rules = FieldRules::of(dictionary);
    }

    /// The item of a key: a new one, or the one that was published before.
    ///
    /// # Errors
    /// [`ItemError`]; nothing was done then.
    pub fn item(&mut self, spec: &PublishSpec<'_>) -> Result<PublishedItem, ItemError> {
        let service =
            self.session.directory.service_by_name(spec.service).ok_or(ItemError::UnknownService)?;
        self.session.items.open(spec, service.id)
    }

    /// Changes what the directory says about a service: whether it is up, what it offers. The server is told as soon
    /// as it can be.
    ///
    /// # Errors
    /// [`RdmError::UnknownService`], or what makes the service impossible, such as another's name.
    pub fn change_service(&mut self, name: &str, change: impl FnOnce(&mut Service)) -> Result<(), RdmError> {
        let unknown = RdmError::UnknownService { service_id: 0 };
        let service_id = self.session.directory.service_by_name(name).ok_or(unknown)?.id;
        let delta = self.session.directory.change(service_id, change)?;
        if self.session.stage == Stage::Ready {
            self.session.deltas.extend(delta);
            self.session.is_pump_due = true;
        }
        Ok(())
    }

    /// Logs out and ends the connection; nothing more is tried. Write what is pending, then close the socket.
    pub fn stop(&mut self, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        if self.connector.is_stopped() {
            return;
        }
        if let Some(connection) = self.connector.connection() {
            self.session.log_out(connection.outbound());
        }
        self.connector.stop();
        let (host, reason) = (self.connector.host(), DisconnectReason::Stopped);
        sink(ProviderEvent::Disconnected { host, reason, retry_in: None });
        self.session.on_disconnected();
    }

    /// Begins again after [`ProviderCore::stop`] or a login that was refused for good.
    pub fn restart(&mut self, now: Nanos) {
        self.connector.restart(now);
    }

    /// Whether nothing more is tried.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.connector.is_stopped()
    }

    /// Whether the directory is published, so that messages are sent at once (but for images that are still due).
    #[must_use]
    pub fn is_logged_in(&self) -> bool {
        self.session.stage == Stage::Ready
    }

    /// Bytes that wait for the server.
    #[must_use]
    pub fn backlog_bytes(&mut self) -> usize {
        self.connector.connection().map_or(0, |connection| connection.outbound().depth_bytes())
    }

    /// Whether at most half of the backlog is used, or there is no connection.
    #[must_use]
    pub fn has_room(&mut self) -> bool {
        self.connector.open_parts().is_none_or(|(_, connection)| {
            let out = connection.outbound();
            out.depth_bytes() <= out.limit_bytes() / 2
        })
    }

    /// The services as the directory has them.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.session.directory
    }

    /// The image of an item, if images are kept and one was published.
    #[must_use]
    pub fn image(&self, item: PublishedItem) -> Option<&CachedItem> {
        self.session.items.table.get(item.0)?.image.as_deref()
    }

    /// What is counted of the session and its items.
    #[must_use]
    pub fn counters(&self) -> &Arc<ProviderSession> {
        &self.counters
    }

    /// What is counted of the connections below.
    #[must_use]
    pub fn connection_counters(&self) -> &Arc<RsslConnections> {
        self.connector.counters()
    }

    /// The connection, or the attempt at one, is over.
    fn lose(&mut self, now: Nanos, reason: DisconnectReason, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        let reason = self.session.fault.take().unwrap_or(reason);
        if let DisconnectReason::Connection(CloseReason::Unanswered { next: Some(version), .. }) = reason {
            self.counters.version_fallbacks.inc();
            return self.connector.fall_back(now, version);
        }
        let lost =
            if self.is_logged_in() { &self.counters.disconnects } else { &self.counters.connect_failures };
        lost.inc();
        let host = self.connector.host().clone();
        let retry_in = if let DisconnectReason::LoginRefused { .. } = reason {
            self.connector.stop();
            self.connector.drop_last();
            None
        } else {
            Some(self.connector.failed(now))
        };
        sink(ProviderEvent::Disconnected { host: &host, reason, retry_in });
        self.session.on_disconnected();
    }

    fn pump(&mut self, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        if let Some((_, connection)) = self.connector.open_parts() {
            self.session.pump(connection.outbound(), sink);
        }
    }
}

impl Endpoint for ProviderCore {
    type Event<'a> = ProviderEvent<'a>;

    fn socket(&mut self, now: Nanos) -> Socket<'_> {
        let socket = self.connector.socket(now);
        if let Socket::Connect(_) = socket {
            self.counters.connect_attempts.inc();
        }
        socket
    }

    fn on_established(&mut self, now: Nanos) {
        self.connector.open(now);
    }

    fn on_connect_failed(
        &mut self,
        now: Nanos,
        failure: ConnectFailure,
        sink: &mut dyn FnMut(ProviderEvent<'_>),
    ) {
        if self.connector.is_opening() {
            self.lose(now, failure.into(), sink);
        }
    }

    fn on_bytes<F: FnMut(ProviderEvent<'_>)>(&mut self, now: Nanos, bytes: &[u8], sink: &mut F) {
        let was_logged_in = self.is_logged_in();
        let Some((host, connection)) = self.connector.open_parts() else { return };
        let mut input = Input { session: &mut self.session, now, host, sink };
        let result = connection.on_bytes(now, bytes, &mut input);
        if !was_logged_in && self.is_logged_in() {
            self.connector.succeeded();
        }
        match result {
            Ok(()) => self.pump(sink),
            Err(reason) => self.lose(now, reason.into(), sink),
        }
    }

    fn on_disconnected(&mut self, now: Nanos, cause: Disconnect, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        if let Some((_, connection)) = self.connector.open_parts() {
            let reason = connection.on_disconnected(cause);
            self.lose(now, reason.into(), sink);
        }
    }

    fn on_wakeup(&mut self, now: Nanos, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        if let Some(limit_ms) = self.connector.exceeded_ms(now) {
            return self.lose(now, ConnectFailure::Timeout { limit_ms }.into(), sink);
        }
        let Some((_, connection)) = self.connector.open_parts() else { return };
        let kept = connection.on_wakeup(now).map_err(DisconnectReason::from);
        match kept.and_then(|()| self.session.on_wakeup(now)) {
            Ok(()) => self.pump(sink),
            Err(reason) => {
                connection.stop(Stop::Application);
                self.lose(now, reason, sink);
            }
        }
    }

    fn next_wakeup(&self) -> Nanos {
        self.connector.next_wakeup().min(self.session.next_wakeup())
    }

    fn pending(&mut self) -> &[u8] {
        self.connector.connection().map_or(&[], |connection| connection.outbound().flush())
    }

    fn consume(&mut self, _: Nanos, count_bytes: usize) {
        if let Some(connection) = self.connector.connection() {
            connection.outbound().consume(count_bytes);
            self.session.is_pump_due |= std::mem::take(&mut self.session.is_held);
            if connection.outbound().depth_bytes() == 0 {
                self.connector.drop_last();
            }
        }
    }
}

/// The handler of one input.
struct Input<'s, F> {
    session: &'s mut Session,
    now: Nanos,
    host: &'s HostPort,
    sink: &'s mut F,
}

impl<F: FnMut(ProviderEvent<'_>)> Handler for Input<'_, F> {
    fn on_connected(&mut self, session: &rssl::Session<'_>, out: &mut Outbound) -> ControlFlow<Stop> {
        (self.sink)(ProviderEvent::Connected { host: self.host, session });
        self.session.on_connected(self.now, out)
    }

    fn on_message(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop> {
        match self.session.on_message(message, out, self.sink) {
            Ok(()) => ControlFlow::Continue(()),
            Err(fault) => self.session.end(fault),
        }
    }
}

impl Session {
    fn new(
        config: &ProviderConfig,
        identity: &Identity,
        counters: Arc<ProviderSession>,
    ) -> Result<Session, RdmError> {
        let mut directory = Directory::new(DirectoryLimits::default());
        for service in &config.services {
            directory.insert(service.service())?;
        }
        Ok(Session {
            login: LoginTexts {
                user: identity.user_or(&config.user),
                application_id: config.application_id.clone(),
                application_name: config.application_name.clone(),
                position: identity.position_or(&config.position),
                password: identity.password.clone(),
            },
            login_timeout_ms: config.login_timeout_ms,
            keep_images: config.keep_images,
            stage: Stage::Down,
            directory,
            deltas: VecDeque::new(),
            items: Items::new(config.items_max, config.part_bytes as usize, Arc::clone(&counters)),
            rules: FieldRules::default(),
            message: Encoding::default(),
            is_ready_told: false,
            is_held: false,
            is_pump_due: false,
            fault: None,
            counters,
        })
    }

    /// Whether messages can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.stage == Stage::Ready
    }

    fn end(&mut self, fault: DisconnectReason) -> ControlFlow<Stop> {
        if let DisconnectReason::Message(_) = fault {
            self.counters.messages_refused.inc();
        }
        self.fault = Some(fault);
        ControlFlow::Break(Stop::Application)
    }

    fn on_connected(&mut self, now: Nanos, out: &mut Outbound) -> ControlFlow<Stop> {
        match self.login.request(LoginRequest::provider).to_vec() {
            // The backlog is empty, and far larger than a login.
            Ok(bytes) => drop(out.push(&bytes)),
            Err(error) => return self.end(RdmError::from(error).into()),
        }
        self.stage =
            Stage::LoggingIn { deadline: now.after(Duration::from_millis(self.login_timeout_ms.into())) };
        ControlFlow::Continue(())
    }

    fn on_message(
        &mut self,
        bytes: &[u8],
        out: &mut Outbound,
        sink: &mut dyn FnMut(ProviderEvent<'_>),
    ) -> Result<(), DisconnectReason> {
        self.counters.messages_in.inc();
        let head = peek(bytes)?;
        if head.domain != Domain::LOGIN || head.stream_id != LOGIN_STREAM_ID {
            // A server has nothing else to say to a provider that asks for nothing.
            return Ok(());
        }
        let msg = Msg::parse(bytes)?;
        match LoginMsg::parse(&msg)? {
            LoginMsg::Refresh(refresh) if refresh.state.stream == StreamState::Open => {
                self.on_accepted(&refresh, out, sink)
            }
            LoginMsg::Refresh(refresh) => self.on_login_state(refresh.state, sink),
            LoginMsg::Status(LoginStatus { state, .. }) => {
                state.map_or(Ok(()), |state| self.on_login_state(state, sink))
            }
            LoginMsg::RoundTrip(_) | LoginMsg::Generic(_) => Ok(()),
            LoginMsg::Request(_) | LoginMsg::Close(_) => {
                Err(RdmError::WrongClass { domain: Domain::LOGIN, class: msg.class() }.into())
            }
        }
    }

    fn on_accepted(
        &mut self,
        refresh: &LoginRefresh<'_>,
        out: &mut Outbound,
        sink: &mut dyn FnMut(ProviderEvent<'_>),
    ) -> Result<(), DisconnectReason> {
        if let Stage::LoggingIn { .. } = self.stage {
            self.counters.logins.inc();
            let services = self.directory.services();
            let refresh = DirectoryRefresh::publish(DIRECTORY_STREAM_ID, Filter::ALL, services)?;
            // The backlog has nothing in it but this; a directory that does not fit would never do.
            drop(out.push(&refresh.to_vec().map_err(RdmError::from)?));
            self.stage = Stage::Ready;
            self.is_pump_due = true;
        }
        sink(ProviderEvent::LoggedIn(refresh));
        Ok(())
    }

    fn on_login_state(
        &mut self,
        state: State<'_>,
        sink: &mut dyn FnMut(ProviderEvent<'_>),
    ) -> Result<(), DisconnectReason> {
        let retry = match state.stream {
            StreamState::Open => {
                sink(ProviderEvent::LoginStatus(state));
                return Ok(());
            }
            StreamState::ClosedRecover | StreamState::NonStreaming => true,
            StreamState::Closed | StreamState::Redirected => false,
        };
        self.counters.logins_refused.inc();
        sink(ProviderEvent::LoginRefused { state, retry });
        let code = state.code;
        Err(if retry {
            DisconnectReason::LoginEnded { code }
        } else {
            DisconnectReason::LoginRefused { code }
        })
    }

    fn on_wakeup(&mut self, now: Nanos) -> Result<(), DisconnectReason> {
        match self.stage {
            Stage::LoggingIn { deadline } if deadline <= now => {
                Err(DisconnectReason::LoginTimeout { limit_ms: self.login_timeout_ms })
            }
            Stage::Down | Stage::LoggingIn { .. } | Stage::Ready => Ok(()),
        }
    }

    fn next_wakeup(&self) -> Nanos {
        match self.stage {
            Stage::Ready if self.is_pump_due => Nanos::ZERO,
            Stage::LoggingIn { deadline } => deadline,
            Stage::Down | Stage::Ready => Nanos::NEVER,
        }
    }

    /// Sends what is due: changes of the directory, then images.
    fn pump(&mut self, out: &mut Outbound, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        if self.stage != Stage::Ready || !std::mem::take(&mut self.is_pump_due) {
            return;
        }
        while let Some(delta) = self.deltas.front() {
            let filter = Some(delta.aspects());
            let services = vec![delta.clone()];
            let update = DirectoryUpdate { stream_id: DIRECTORY_STREAM_ID, filter, services }.to_vec();
            // What cannot be encoded was refused when it was put into the directory.
            if update.is_ok_and(|update| out.push(&update).is_err()) {
                self.is_held = true;
                return;
            }
            self.deltas.pop_front();
        }
        loop {
            match self.items.pump(out) {
                Pumped::All => break,
                Pumped::Held => {
                    self.is_held = true;
                    return;
                }
                Pumped::TooLong { slot, bytes } => {
                    sink(ProviderEvent::ImageTooLong { item: PublishedItem(slot), bytes });
                }
            }
        }
        if !std::mem::replace(&mut self.is_ready_told, true) {
            let (images_count, wants_images) = (self.items.republished_count, !self.keep_images);
            sink(ProviderEvent::Ready { images_count, wants_images });
        }
    }

    fn on_disconnected(&mut self) {
        self.stage = Stage::Down;
        self.deltas.clear();
        self.items.on_disconnected();
        self.is_ready_told = false;
        self.is_held = false;
        self.is_pump_due = false;
    }

    fn log_out(&self, out: &mut Outbound) {
        if self.stage != Stage::Down {
            let bytes = rdm::login::logout(LOGIN_STREAM_ID).to_vec();
            // A server that does not take it sees the end of the connection.
            let _ = out.push(&bytes.expect("no part of a close can be too long"));
        }
    }
}
