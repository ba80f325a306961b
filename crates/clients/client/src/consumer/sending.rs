//! What the application says to the server beyond asking for items: posts, generic messages, its login.

use std::fmt;

use market::EncodeFault;
use rdm::ToVec;
use rdm::item::ItemKey;
use rdm::login::LoginRequest;
use rssl::Outbound;
use rwf::{DataType, Domain, EncodeError, GenericMsg, Key, PostMsg, PostUserInfo, Writer};
use units::Nanos;

use super::session::Session;
use super::spec::NAME_BYTES_MAX;
use super::{ItemHandle, PostId};
use crate::FieldError;
use crate::outgoing::{Refusal, push};

/// What a post says beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostSpec<'a> {
    /// What the payload is: a field list by default. [`DataType::MSG`]: a whole refresh, update or status to
    /// be applied to the item, on stream 0.
    pub container_type: DataType,
    /// Whether an ack is wanted (the default). Without one nothing tells what became of the post.
    pub ack: bool,
    /// The number of the post, which the ack repeats.
    pub seq_num: Option<u32>,
    /// Who may see what is posted.
    pub permission_data: Option<&'a [u8]>,
    /// What the poster may do, as bits: [`PostUserRights`](rdm::post::PostUserRights).
    pub user_rights: Option<u16>,
    /// Who posts.
    pub user: PostUserInfo,
    /// A number for the application's own use; the event that answers the post carries it.
    pub tag: u64,
}

impl Default for PostSpec<'_> {
    fn default() -> Self {
        PostSpec {
            container_type: DataType::FIELD_LIST,
            ack: true,
            seq_num: None,
            permission_data: None,
            user_rights: None,
            user: PostUserInfo { address: 0, user_id: 0 },
            tag: 0,
        }
    }
}

/// What a generic message says beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenericSpec<'a> {
    /// What the payload is; an element list by default.
    pub container_type: DataType,
    /// The domain; that of the item by default.
    pub domain: Option<Domain>,
    /// A name, at most 255 bytes.
    pub name: Option<&'a [u8]>,
    /// The number of the message.
    pub seq_num: Option<u32>,
    /// The number of the message that it answers.
    pub secondary_seq_num: Option<u32>,
    /// Whether it is the last, or only, part of what is said (the default).
    pub complete: bool,
}

impl Default for GenericSpec<'_> {
    fn default() -> Self {
        GenericSpec {
            container_type: DataType::ELEMENT_LIST,
            domain: None,
            name: None,
            seq_num: None,
            secondary_seq_num: None,
            complete: true,
        }
    }
}

impl<'a> GenericSpec<'a> {
    /// The message on the stream of an item, but for its payload.
    pub(crate) fn message(&self, item_domain: Domain, stream_id: i32) -> GenericMsg<'a> {
        GenericMsg {
            complete: self.complete,
            seq_num: self.seq_num,
            secondary_seq_num: self.secondary_seq_num,
            key: self.name.map(|name| Key { name: Some(name), ..Key::default() }),
            ..GenericMsg::new(self.domain.unwrap_or(item_domain), stream_id, self.container_type)
        }
    }
}

/// What a server announces in its login whether it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// To take posts.
    Posts,
    /// To send parts of items.
    Views,
    /// To pause and resume.
    PauseResume,
}

/// Why something was not said to the server. Nothing was done.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsumerSendError {
    /// There is no such item (any more), or it is a snapshot, of which nothing more can be wanted.
    UnknownItem,
    /// The item's stream is not open now.
    NotOpen,
    /// There is no login now.
    NotLoggedIn,
    /// The server's login does not announce it.
    NotSupported(Capability),
    /// The directory has no such service.
    UnknownService,
    /// A name is empty or too long.
    NameLength {
        /// Its length.
        bytes: usize,
        /// The longest allowed.
        max: usize,
    },
    /// As many posts wait for acks as the configuration allows.
    TooManyPosts {
        /// The limit.
        max: u32,
    },
    /// The backlog to the server is full: the same call succeeds when there is room again.
    WouldBlock {
        /// Bytes that wait for the server.
        pending_bytes: usize,
        /// The most that may wait.
        limit_bytes: usize,
    },
    /// The message is longer than the whole backlog.
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest that can be sent.
        limit_bytes: usize,
    },
    /// The message cannot be encoded.
    Encode(EncodeError),
    /// A field is of another type than the dictionary's, or not in the dictionary.
    Field(FieldError),
}

impl Session {
    /// Posts on the stream of an item.
    pub(super) fn post(
        &mut self,
        now: Nanos,
        handle: ItemHandle,
        spec: &PostSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
        out: Option<&mut Outbound>,
    ) -> Result<PostId, ConsumerSendError> {
        self.require(Capability::Posts)?;
        let item = self.watchlist.item(handle).ok_or(ConsumerSendError::UnknownItem)?;
        let stream_id = item.phase.stream_id().ok_or(ConsumerSendError::NotOpen)?;
        let (name, domain) = (item.name.clone(), item.domain);
        let service_id = self.watchlist.service_id(item).ok_or(ConsumerSendError::NotOpen)?;
        let msg = post_msg(spec, domain, stream_id, ItemKey::new(service_id, name.as_bytes()));
        self.send_post(now, Some(handle), msg, spec, payload, out)
    }

    /// Posts on the login stream.
    pub(super) fn post_off_stream(
        &mut self,
        now: Nanos,
        (service, domain, name): (&str, Domain, &str),
        spec: &PostSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
        out: Option<&mut Outbound>,
    ) -> Result<PostId, ConsumerSendError> {
        self.require(Capability::Posts)?;
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
            return Err(ConsumerSendError::NameLength { bytes: name.len(), max: NAME_BYTES_MAX });
        }
        let service_id = self.directory.service_by_name(service).ok_or(ConsumerSendError::UnknownService)?.id;
        let msg =
            post_msg(spec, domain, rdm::login::LOGIN_STREAM_ID, ItemKey::new(service_id, name.as_bytes()));
        self.send_post(now, None, msg, spec, payload, out)
    }

    fn send_post(
        &mut self,
        now: Nanos,
        item: Option<ItemHandle>,
        msg: PostMsg<'_>,
        spec: &PostSpec<'_>,
        mut payload: impl FnMut(&mut Writer<'_>),
        out: Option<&mut Outbound>,
    ) -> Result<PostId, ConsumerSendError> {
        let out = out.ok_or(ConsumerSendError::NotLoggedIn)?;
        if spec.ack {
            self.posts.has_room().map_err(|max| ConsumerSendError::TooManyPosts { max })?;
        }
        let id = self.posts.next_id();
        let msg = PostMsg { post_id: Some(id.0), ..msg };
        let dictionary = self.dictionary.current().map(|dictionary| &**dictionary);
        let bytes = self.message.try_encode_with(dictionary, |w| {
            msg.encode_header(w);
            payload(w);
        })?;
        push(out, bytes)?;
        self.counters.posts_out.inc();
        if spec.ack {
            self.posts.add(now, id, spec.tag, item);
        }
        Ok(id)
    }

    /// Sends a generic message on the stream of an item.
    pub(super) fn generic(
        &mut self,
        handle: ItemHandle,
        spec: &GenericSpec<'_>,
        mut payload: impl FnMut(&mut Writer<'_>),
        out: Option<&mut Outbound>,
    ) -> Result<(), ConsumerSendError> {
        let item = self.watchlist.item(handle).ok_or(ConsumerSendError::UnknownItem)?;
        let stream_id = item.phase.stream_id().ok_or(ConsumerSendError::NotOpen)?;
        let out = out.ok_or(ConsumerSendError::NotLoggedIn)?;
        let msg = spec.message(item.domain, stream_id);
        let dictionary = self.dictionary.current().map(|dictionary| &**dictionary);
        let bytes = self.message.try_encode_with(dictionary, |w| {
            msg.encode_header(w);
            payload(w);
        })?;
        push(out, bytes)?;
        self.counters.generics_out.inc();
        Ok(())
    }

    /// What the server has not announced is refused; without a login nobody knows yet.
    pub(super) fn require(&self, capability: Capability) -> Result<(), ConsumerSendError> {
        let features = &self.features;
        let has = match capability {
            Capability::Posts => features.omm_post,
            Capability::Views => features.view_requests,
            Capability::PauseResume => features.optimized_pause_resume,
        };
        if self.knows_features() && has != Some(true) {
            Err(ConsumerSendError::NotSupported(capability))
        } else {
            Ok(())
        }
    }

    /// The login has changed: the server is told when it can be.
    pub(super) fn change_login(&mut self) {
        self.is_login_due = true;
        self.watchlist.is_pump_due = true;
    }

    /// Tells the server of a login that has changed.
    pub(super) fn send_login(&mut self, out: &mut Outbound) {
        if !std::mem::take(&mut self.is_login_due) {
            return;
        }
        let pause = self.is_paused && self.features.optimized_pause_resume == Some(true);
        let request = LoginRequest { pause, no_refresh: pause, ..self.login_request() };
        // What cannot be encoded was refused when it was set.
        if let Ok(bytes) = request.to_vec() {
            match push(out, &bytes) {
                Ok(()) => self.counters.logins_reissued.inc(),
                Err(_) => {
                    self.is_login_due = true;
                    self.watchlist.is_held = true;
                }
            }
        }
    }

    /// Takes another token; refused if it is too long for a login.
    pub(super) fn set_token(&mut self, token: &str) -> Result<(), EncodeError> {
        let before = self.login.token.replace(token.to_owned());
        if let Err(error) = self.login_request().to_vec() {
            self.login.token = before;
            return Err(error);
        }
        self.change_login();
        Ok(())
    }
}

fn post_msg<'a>(spec: &PostSpec<'a>, domain: Domain, stream_id: i32, item: ItemKey<'a>) -> PostMsg<'a> {
    PostMsg {
        ack: spec.ack,
        seq_num: spec.seq_num,
        permission_data: spec.permission_data,
        user_rights: spec.user_rights,
        post_user_info: spec.user,
        ..rdm::post::post(domain, stream_id, item, spec.container_type, &[])
    }
}

impl From<Refusal> for ConsumerSendError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::WouldBlock { pending_bytes, limit_bytes } => {
                ConsumerSendError::WouldBlock { pending_bytes, limit_bytes }
            }
            Refusal::TooLong { bytes, limit_bytes } => ConsumerSendError::TooLong { bytes, limit_bytes },
        }
    }
}

impl From<EncodeFault> for ConsumerSendError {
    fn from(fault: EncodeFault) -> Self {
        FieldError::of(&fault).map_or(ConsumerSendError::Encode(fault.error), ConsumerSendError::Field)
    }
}

impl From<EncodeError> for ConsumerSendError {
    fn from(error: EncodeError) -> Self {
        ConsumerSendError::Encode(error)
    }
}

impl fmt::Display for ConsumerSendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownItem => f.write_str("no such item with updates"),
            Self::NotOpen => f.write_str("the stream of the item is not open now: wait for its refresh"),
            Self::NotLoggedIn => f.write_str("there is no login now: wait for LoggedIn"),
            Self::NotSupported(capability) => write!(f, "the server does not announce {capability}"),
            Self::UnknownService => f.write_str("the directory has no service of that name"),
            Self::NameLength { bytes, max } => write!(f, "name of {bytes} bytes, 1 to {max} allowed"),
            Self::TooManyPosts { max } => write!(f, "{max} posts wait for acks already, the most allowed"),
            Self::WouldBlock { pending_bytes, limit_bytes } => {
                write!(f, "backlog full: {pending_bytes} bytes wait, limit {limit_bytes}")
            }
            Self::TooLong { bytes, limit_bytes } => {
                write!(f, "message of {bytes} bytes, at most {limit_bytes}")
            }
            Self::Encode(error) => error.fmt(f),
            Self::Field(error) => write!(f, "{error}; nothing was sent"),
        }
    }
}

impl fmt::Debug for ConsumerSendError {
    /// As it is shown: `main` prints the error that it returns so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ConsumerSendError {}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Capability::Posts => "posting",
            Capability::Views => "views",
            Capability::PauseResume => "pause and resume",
        })
    }
}
