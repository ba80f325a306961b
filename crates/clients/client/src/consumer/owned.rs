//! Events that own what they say.

use std::sync::Arc;
use std::time::Duration;

use rdm::OwnedState;
use rdm::directory::Service;
use rdm::login::Features;
use rwf::{
    AckMsg, DataState, DecodeError, Dictionary, Domain, GenericMsg, Msg, NakCode, RefreshMsg, StatusMsg,
    UpdateMsg, Value, encode_to_vec,
};

use super::event::{
    ConsumerEvent, DictionaryFault, ItemEvent, ItemMsg, PostEvent, PostId, PostOutcome, ServerEvent,
    ServiceChange,
};
use super::fields::{FieldRef, FieldScan};
use super::queue::QueueOverrun;
use super::{FieldId, ItemHandle};
use crate::{DisconnectReason, HostPort};

/// A [`ConsumerEvent`] that owns what it says: to be kept, or given to another thread.
#[derive(Clone)]
#[non_exhaustive]
pub enum OwnedEvent {
    /// See [`ConsumerEvent::Connected`].
    Connected {
        /// The server.
        host: HostPort,
        /// What the server calls itself, with control characters escaped.
        component: String,
    },
    /// See [`ConsumerEvent::Disconnected`].
    Disconnected {
        /// The server.
        host: HostPort,
        /// Why.
        reason: DisconnectReason,
        /// How long it is until the next attempt.
        retry_in: Option<Duration>,
    },
    /// See [`ConsumerEvent::LoggedIn`].
    LoggedIn {
        /// What the server can do.
        features: Features,
        /// Its words.
        state: OwnedState,
    },
    /// See [`ConsumerEvent::LoginStatus`].
    LoginStatus(OwnedState),
    /// See [`ConsumerEvent::LoginRefused`].
    LoginRefused {
        /// The server's words.
        state: OwnedState,
        /// Whether it will be tried again.
        retry: bool,
    },
    /// See [`ConsumerEvent::Service`].
    Service {
        /// What happened.
        change: ServiceChange,
        /// The number of the service.
        id: u16,
        /// Its name.
        name: String,
        /// All that is known of it; `None` if it is gone.
        service: Option<Box<Service>>,
    },
    /// See [`ConsumerEvent::DictionaryReady`].
    DictionaryReady(Arc<Dictionary>),
    /// See [`ConsumerEvent::DictionaryUnavailable`].
    DictionaryUnavailable(DictionaryFault),
    /// See [`ConsumerEvent::Active`].
    Active {
        /// For which service; `None` for all.
        service: Option<String>,
        /// Which of the servers, from 0.
        server: usize,
        /// Where it is.
        host: HostPort,
        /// Where the server is that was the active one before.
        instead_of: Option<HostPort>,
    },
    /// See [`ConsumerEvent::Posted`].
    Posted {
        /// Which.
        id: PostId,
        /// The number that the application gave it.
        tag: u64,
        /// The item on whose stream it went.
        item: Option<ItemHandle>,
        /// What became of it.
        outcome: OwnedOutcome,
    },
    /// See [`ConsumerEvent::Item`].
    Item(OwnedItemEvent),
    /// The queue of a [`ConsumerChannel`](crate::ConsumerChannel) was full, and
    /// [`WhenFull::Fail`](crate::WhenFull::Fail) was chosen: the session has ended, and nothing more comes.
    QueueFull(QueueOverrun),
}

/// A [`PostOutcome`] that owns its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedOutcome {
    /// See [`PostOutcome::Taken`].
    Taken,
    /// See [`PostOutcome::Refused`].
    Refused {
        /// Why.
        code: NakCode,
        /// The same in words; what is no UTF-8 is replaced.
        text: String,
    },
    /// See [`PostOutcome::TimedOut`].
    TimedOut,
    /// See [`PostOutcome::Lost`].
    Lost,
}

impl From<PostOutcome<'_>> for OwnedOutcome {
    fn from(outcome: PostOutcome<'_>) -> Self {
        match outcome {
            PostOutcome::Taken => OwnedOutcome::Taken,
            PostOutcome::Refused { code, text } => {
                OwnedOutcome::Refused { code, text: String::from_utf8_lossy(text).into_owned() }
            }
            PostOutcome::TimedOut => OwnedOutcome::TimedOut,
            PostOutcome::Lost => OwnedOutcome::Lost,
        }
    }
}

/// An [`ItemEvent`] that owns its message. It has no image.
#[derive(Clone)]
pub struct OwnedItemEvent {
    /// See [`ItemEvent::handle`].
    pub handle: ItemHandle,
    /// See [`ItemEvent::tag`].
    pub tag: u64,
    /// See [`ItemEvent::name`].
    pub name: Arc<str>,
    /// See [`ItemEvent::service`].
    pub service: Arc<str>,
    /// See [`ItemEvent::domain`].
    pub domain: Domain,
    /// See [`ItemEvent::state`].
    pub state: OwnedState,
    /// See [`ItemEvent::is_final`].
    pub is_final: bool,
    /// The message, as it came or as it was made here.
    pub message: Box<[u8]>,
    /// The dictionary in use when it came.
    pub dictionary: Option<Arc<Dictionary>>,
    /// Set if it was made of updates that waited for the application ([`WhenFull::Conflate`](crate::WhenFull::Conflate)):
    /// of how many, and since when.
    pub merged: Option<Merged>,
}

/// What a merged event stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// How many updates. One that the server had merged counts as many as it said. Of an image in several parts the
    /// last has the number, and the others 0.
    pub updates: u64,
    /// How long the first of them had waited when the event was made of them: when the application came to it, or
    /// when something came that had to be behind it.
    pub waited: Duration,
}

impl From<ConsumerEvent<'_>> for OwnedEvent {
    fn from(event: ConsumerEvent<'_>) -> Self {
        match event {
            ConsumerEvent::Connected { host, session } => {
                let component = session.component_version.to_string();
                OwnedEvent::Connected { host: host.clone(), component }
            }
            ConsumerEvent::Disconnected { host, reason, retry_in } => {
                OwnedEvent::Disconnected { host: host.clone(), reason, retry_in }
            }
            ConsumerEvent::LoggedIn(refresh) => {
                OwnedEvent::LoggedIn { features: refresh.features, state: refresh.state.into() }
            }
            ConsumerEvent::LoginStatus(state) => OwnedEvent::LoginStatus(state.into()),
            ConsumerEvent::LoginRefused { state, retry } => {
                OwnedEvent::LoginRefused { state: state.into(), retry }
            }
            ConsumerEvent::Service(event) => OwnedEvent::Service {
                change: event.change,
                id: event.id,
                name: event.name.to_owned(),
                service: event.service.cloned().map(Box::new),
            },
            ConsumerEvent::DictionaryReady(dictionary) => OwnedEvent::DictionaryReady(Arc::clone(dictionary)),
            ConsumerEvent::DictionaryUnavailable(fault) => OwnedEvent::DictionaryUnavailable(fault),
            ConsumerEvent::Active(ServerEvent { service, server, host, instead_of }) => OwnedEvent::Active {
                service: service.map(str::to_owned),
                server,
                host: host.clone(),
                instead_of: instead_of.cloned(),
            },
            ConsumerEvent::Posted(PostEvent { id, tag, item, outcome }) => {
                OwnedEvent::Posted { id, tag, item, outcome: outcome.into() }
            }
            ConsumerEvent::Item(event) => OwnedEvent::Item(event.to_owned()),
        }
    }
}

impl ItemEvent<'_> {
    /// A copy that owns its message.
    #[must_use]
    pub fn to_owned(&self) -> OwnedItemEvent {
        OwnedItemEvent {
            handle: self.handle,
            tag: self.tag,
            name: Arc::clone(self.name),
            service: Arc::clone(self.service),
            domain: self.domain,
            state: self.state.into(),
            is_final: self.is_final,
            message: self.bytes.map_or_else(|| encoded(self.msg), Into::into),
            dictionary: self.dictionary.cloned(),
            merged: None,
        }
    }
}

/// The bytes of a message that was made here.
fn encoded(msg: ItemMsg<'_>) -> Box<[u8]> {
    let bytes = encode_to_vec(|w| match msg {
        ItemMsg::Refresh(msg) => msg.encode(w),
        ItemMsg::Update(msg) => msg.encode(w),
        ItemMsg::Status(msg) => msg.encode(w),
        ItemMsg::Generic(msg) => msg.encode(w),
        ItemMsg::Ack(msg) => msg.encode(w),
    });
    bytes.expect("what is made here has no part that can be too long").into()
}

impl OwnedItemEvent {
    /// Whether the data can be trusted now.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.state.data == DataState::Ok
    }

    /// Whether it is a refresh.
    #[must_use]
    pub fn is_refresh(&self) -> bool {
        self.view(|event| event.is_refresh())
    }

    /// Whether it is an update.
    #[must_use]
    pub fn is_update(&self) -> bool {
        self.view(|event| event.is_update())
    }

    /// Looks at the event as it was when it came, without its image.
    ///
    /// # Panics
    /// Never: the message was read before.
    pub fn view<R>(&self, look: impl FnOnce(&ItemEvent<'_>) -> R) -> R {
        let msg = Msg::parse(&self.message).expect("the message was read before");
        let state = self.state.borrow();
        match msg {
            Msg::Refresh(msg) => self.look(ItemMsg::Refresh(&RefreshMsg { state, ..msg }), look),
            Msg::Update(msg) => self.look(ItemMsg::Update(&UpdateMsg { ..msg }), look),
            Msg::Status(msg) => {
                self.look(ItemMsg::Status(&StatusMsg { state: msg.state.map(|_| state), ..msg }), look)
            }
            Msg::Generic(msg) => self.look(ItemMsg::Generic(&GenericMsg { ..msg }), look),
            Msg::Ack(msg) => self.look(ItemMsg::Ack(&AckMsg { ..msg }), look),
            Msg::Request(_) | Msg::Close(_) | Msg::Post(_) => unreachable!("no event is made of them"),
        }
    }

    fn look<R>(&self, msg: ItemMsg<'_>, look: impl FnOnce(&ItemEvent<'_>) -> R) -> R {
        look(&ItemEvent {
            handle: self.handle,
            tag: self.tag,
            name: &self.name,
            service: &self.service,
            domain: self.domain,
            msg,
            bytes: Some(&self.message),
            state: self.state.borrow(),
            is_final: self.is_final,
            image: None,
            dictionary: self.dictionary.as_ref(),
            index: None,
            scan: FieldScan::default(),
        })
    }

    /// The value of a field; see [`ItemEvent::field`].
    ///
    /// # Errors
    /// As [`ItemEvent::field`].
    pub fn field(&self, field: impl FieldRef) -> Result<Option<Value<'_>>, DecodeError> {
        let dictionary = self.dictionary.as_deref();
        let Some(id) = field.resolve(dictionary) else { return Ok(None) };
        let msg = Msg::parse(&self.message)?;
        super::event::field_in(dictionary, msg.container_type(), msg.payload(), FieldId(id))
    }
}
