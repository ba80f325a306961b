//! The session of a provider above its connection: login, directory, what is due.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use counters::table::ProviderSession;
use market::{Encoding, image::FieldRules};
use rdm::directory::{Directory, DirectoryLimits, DirectoryRefresh, DirectoryUpdate, Filter, ServiceDelta};
use rdm::login::{LOGIN_STREAM_ID, LoginRefresh, LoginRequest};
use rdm::post::{self, Post, PostTarget};
use rdm::{RdmError, ToVec};
use rssl::Outbound;
use rwf::{Dictionary, Domain, GenericMsg, MsgClass, NakCode, PostMsg, State, peek};
use units::Nanos;

use super::items::{Items, Pumped};
use super::{ProviderEvent, PublishedItem, PublishedTicket};
use crate::lifecycle::{ConnectCounters, SessionLayer, connect_counters};
use crate::login::{self, LoginAnswer, LoginTexts};
use crate::{DisconnectReason, HostPort, Identity, ProviderConfig};

/// The stream of a provider's directory, as stock providers have it.
const DIRECTORY_STREAM_ID: i32 = 0;

/// All of a provider but its connection.
pub(crate) struct Session {
    login: LoginTexts,
    login_timeout_ms: u32,
    pub(super) keep_images: bool,
    stage: Stage,
    pub(super) directory: Directory,
    /// Changes of the directory that the server still has to be told.
    deltas: VecDeque<ServiceDelta>,
    pub(super) items: Items,
    pub(super) rules: FieldRules,
    /// What fields are named by and held against, if anything.
    pub(super) dictionary: Option<Arc<Dictionary>>,
    pub(super) message: Encoding,
    /// [`ProviderEvent::Ready`] has been told, on this connection.
    is_ready_reported: bool,
    /// The backlog was full: what is due goes when there is room.
    is_held: bool,
    /// There may be something to send, or to tell.
    pub(super) is_pump_due: bool,
    /// Logins so far.
    pub(super) login_count: u64,
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

impl Session {
    pub(super) fn new(
        config: &ProviderConfig,
        identity: &Identity,
        counters: Arc<ProviderSession>,
    ) -> Result<Session, RdmError> {
        let mut directory = Directory::new(DirectoryLimits::default());
        for service in &config.services {
            directory.insert(service.service())?;
        }
        Ok(Session {
            login: LoginTexts::new(
                identity,
                (&config.user, &config.position),
                (&config.application_id, &config.application_name),
            ),
            login_timeout_ms: config.login_timeout_ms,
            keep_images: config.keep_images,
            stage: Stage::Down,
            directory,
            deltas: VecDeque::new(),
            items: Items::new(config.items_max, config.part_bytes as usize, Arc::clone(&counters)),
            rules: FieldRules::default(),
            dictionary: None,
            message: Encoding::default(),
            is_ready_reported: false,
            is_held: false,
            is_pump_due: false,
            login_count: 0,
            counters,
        })
    }

    /// Whether messages can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Notes a change of the directory that the server is to be told, if it knows the directory.
    pub(super) fn announce_changes(&mut self, delta: Option<ServiceDelta>) {
        if self.is_open() {
            self.deltas.extend(delta);
            self.is_pump_due = true;
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
            self.login_count += 1;
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

    /// Data of a consumer behind the server. It may name an item that is not this provider's; what is
    /// malformed is refused here.
    fn on_post(
        &mut self,
        bytes: &[u8],
        out: &mut Outbound,
        sink: &mut dyn FnMut(ProviderEvent<'_>),
    ) -> Result<(), DisconnectReason> {
        let msg = PostMsg::parse(bytes)?;
        self.counters.posts_in.inc();
        let item = self.items.on_stream(msg.stream_id);
        let refusal = match Post::parse(&msg).and_then(|post| post.target(LOGIN_STREAM_ID)) {
            Err(error) => Some((error.nak_code(), "the post is malformed")),
            Ok(PostTarget::OnStream { .. }) if item.is_none() => Some((NakCode::NOT_OPEN, "no such stream")),
            Ok(_) => None,
        };
        if let Some((code, text)) = refusal {
            self.counters.posts_refused.inc();
            if let Some(nak) = post::nak(&msg, code, text).and_then(|nak| nak.to_vec().ok()) {
                // One that finds the backlog full is missed as any lost answer is.
                let _ = out.push(&nak);
            }
            return Ok(());
        }
        let ticket =
            msg.ack.then_some(PublishedTicket { login: self.login_count, post: post::answerable(&msg) });
        sink(ProviderEvent::Post { item, post: &msg, ticket });
        Ok(())
    }

    fn on_generic(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(ProviderEvent<'_>),
    ) -> Result<(), DisconnectReason> {
        let msg = GenericMsg::parse(bytes)?;
        if let Some(item) = self.items.on_stream(msg.stream_id) {
            self.counters.generics_in.inc();
            sink(ProviderEvent::Generic { item, msg: &msg });
        }
        Ok(())
    }

    /// Answers a post; returns whether the answer goes out.
    pub(super) fn answer_post(
        &mut self,
        ticket: PublishedTicket,
        refusal: Option<(NakCode, &str)>,
        out: Option<&mut Outbound>,
    ) -> bool {
        let Some(out) = out.filter(|_| self.is_open() && self.login_count == ticket.login) else {
            return false;
        };
        let answer = match refusal {
            None => post::ack(&ticket.post),
            Some((code, text)) => post::nak(&ticket.post, code, text),
        };
        self.counters.posts_refused.add(u64::from(refusal.is_some()));
        let bytes = answer.and_then(|answer| answer.to_vec().ok());
        bytes.is_some_and(|bytes| out.push(&bytes).is_ok())
    }

    fn on_login_state(
        &mut self,
        state: State<'_>,
        sink: &mut dyn FnMut(ProviderEvent<'_>),
    ) -> Result<(), DisconnectReason> {
        let Some((retry, reason)) = login::ended(state) else {
            sink(ProviderEvent::LoginStatus(state));
            return Ok(());
        };
        self.counters.logins_refused.inc();
        sink(ProviderEvent::LoginRefused { state, retry });
        Err(reason)
    }
}

impl SessionLayer for Session {
    type Event<'a> = ProviderEvent<'a>;

    fn connected<'e>(host: &'e HostPort, session: &'e rssl::Session<'e>) -> ProviderEvent<'e> {
        ProviderEvent::Connected { host, session }
    }

    fn disconnected(
        host: &HostPort,
        reason: DisconnectReason,
        retry_in: Option<Duration>,
    ) -> ProviderEvent<'_> {
        ProviderEvent::Disconnected { host, reason, retry_in }
    }

    fn connect_counters(&self) -> ConnectCounters<'_> {
        connect_counters!(self.counters, Some(&self.counters.messages_refused))
    }

    fn is_logged_in(&self) -> bool {
        self.is_open()
    }

    fn on_connected(&mut self, now: Nanos, out: &mut Outbound) -> Result<(), DisconnectReason> {
        login::send(self.login.request(LoginRequest::provider), out)?;
        let limit = Duration::from_millis(self.login_timeout_ms.into());
        self.stage = Stage::LoggingIn { deadline: now.after(limit) };
        Ok(())
    }

    fn on_message<F: FnMut(ProviderEvent<'_>)>(
        &mut self,
        _: Nanos,
        bytes: &[u8],
        out: &mut Outbound,
        sink: &mut F,
    ) -> Result<(), DisconnectReason> {
        self.counters.messages_in.inc();
        let head = peek(bytes)?;
        match head.class {
            MsgClass::Post if self.is_open() => self.on_post(bytes, out, sink),
            MsgClass::Generic if self.is_open() && head.domain != Domain::LOGIN => {
                self.on_generic(bytes, sink)
            }
            _ if head.domain == Domain::LOGIN && head.stream_id == LOGIN_STREAM_ID => {
                match LoginAnswer::parse(bytes)? {
                    LoginAnswer::Accepted(refresh) => self.on_accepted(&refresh, out, sink),
                    LoginAnswer::State(state) => self.on_login_state(state, sink),
                    LoginAnswer::RoundTrip | LoginAnswer::Silent => Ok(()),
                }
            }
            // A server has nothing else to say to a provider that asks for nothing.
            _ => Ok(()),
        }
    }

    fn on_drained(&mut self) {
        self.is_pump_due |= std::mem::take(&mut self.is_held);
    }

    fn on_wakeup(
        &mut self,
        now: Nanos,
        _: &mut Outbound,
        _: &mut dyn FnMut(ProviderEvent<'_>),
    ) -> Result<(), DisconnectReason> {
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

    /// Changes of the directory, then images.
    fn pump(&mut self, _: Nanos, out: &mut Outbound, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
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
        if !std::mem::replace(&mut self.is_ready_reported, true) {
            let (images_count, wants_images) = (self.items.republished_count, !self.keep_images);
            sink(ProviderEvent::Ready { images_count, wants_images });
        }
    }

    fn on_disconnected(&mut self, _: Nanos, _: &mut dyn FnMut(ProviderEvent<'_>)) {
        self.stage = Stage::Down;
        self.deltas.clear();
        self.items.on_disconnected();
        self.is_ready_reported = false;
        self.is_held = false;
        self.is_pump_due = false;
    }

    fn log_out(&self, out: &mut Outbound) {
        if self.stage != Stage::Down {
            login::log_out(out);
        }
    }
}
