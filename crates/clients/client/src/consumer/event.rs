//! What a consumer tells its application.

use std::sync::Arc;
use std::time::Duration;

use market::CachedItem;
use rdm::RdmError;
use rdm::directory::Service;
use rdm::login::LoginRefresh;
use rwf::{
    AckMsg, Conflation, DataState, DataType, DecodeError, Dictionary, Domain, GenericMsg, NakCode, Qos,
    RefreshMsg, State, StateCode, StatusMsg, UpdateMsg, UpdateType, Value,
};

use super::ItemHandle;
use super::fields::{FieldId, FieldIndex, FieldRef, FieldScan, Fields, field_list};
use super::map::MapView;
use crate::{DisconnectReason, HostPort};

/// The cold path's way to the application.
pub(crate) type ConsumerSink<'s> = dyn FnMut(ConsumerEvent<'_>) + 's;

/// Something that happened. It borrows from the message at hand and is valid during the call that brings it.
#[non_exhaustive]
pub enum ConsumerEvent<'a> {
    /// The RSSL connection to a server stands; the login is under way.
    Connected {
        /// The server.
        host: &'a HostPort,
        /// What was agreed, and what the server calls itself.
        session: &'a rssl::Session<'a>,
    },
    /// The session is lost, or could not be made.
    Disconnected {
        /// The server.
        host: &'a HostPort,
        /// Why.
        reason: DisconnectReason,
        /// How long it is until the next attempt; `None`: there will be none.
        retry_in: Option<Duration>,
    },
    /// The login is accepted; what the server can do stands in it.
    LoggedIn(&'a LoginRefresh<'a>),
    /// The server says something about the login, which goes on: trouble behind it, or the end of trouble.
    LoginStatus(State<'a>),
    /// The login is refused, or was ended.
    LoginRefused {
        /// The server's words.
        state: State<'a>,
        /// Whether it will be tried again. If not, [`Consumer::restart`](crate::Consumer::restart) does it.
        retry: bool,
    },
    /// A service has come, changed, or gone.
    Service(ServiceEvent<'a>),
    /// The dictionary is there, or has been replaced.
    DictionaryReady(&'a Arc<Dictionary>),
    /// The dictionary cannot be downloaded now. It is tried again.
    DictionaryUnavailable(DictionaryFault),
    /// With warm standby: which server is the active one, when it is there for the first time and after each
    /// switch. Refreshes of its images follow.
    Active(ServerEvent<'a>),
    /// What became of a post that wanted an ack.
    Posted(PostEvent<'a>),
    /// Something about an item.
    Item(ItemEvent<'a>),
}

/// What happened to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceChange {
    /// It is new.
    Added,
    /// Its state, or what it says about itself, is another.
    Changed,
    /// It is gone.
    Removed,
}

/// A service has come, changed, or gone.
#[derive(Clone, Copy, Debug)]
pub struct ServiceEvent<'a> {
    /// What happened.
    pub change: ServiceChange,
    /// The number of the service.
    pub id: u16,
    /// Its name.
    pub name: &'a str,
    /// All that is known of it; `None` if it is gone.
    pub service: Option<&'a Service>,
}

impl ServiceEvent<'_> {
    /// Whether items can be asked for.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.service
            .is_some_and(|service| service.state.up && service.state.accepting_requests != Some(false))
    }
}

/// A server is the active one from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerEvent<'a> {
    /// For which service; `None` for all.
    pub service: Option<&'a str>,
    /// Which of the servers, from 0.
    pub server: usize,
    /// Where it is.
    pub host: &'a HostPort,
    /// Where the server is, or was last tried, that was the active one before.
    pub instead_of: Option<&'a HostPort>,
}

/// Why the dictionary is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DictionaryFault {
    /// No service that is up offers both parts.
    NotOffered,
    /// The server ended a stream.
    Ended {
        /// The service that was asked.
        service_id: u16,
        /// The code of the server's state.
        code: StateCode,
    },
    /// The service that was asked is gone, or down.
    ServiceLost {
        /// The service.
        service_id: u16,
    },
    /// It did not come in time.
    Timeout {
        /// The service that was asked.
        service_id: u16,
        /// Time allowed.
        limit_ms: u32,
    },
    /// What came is no dictionary.
    Malformed(RdmError),
}

/// A post that was sent: names it in the [`PostEvent`] that answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PostId(pub u32);

/// What became of a post that wanted an ack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostEvent<'a> {
    /// Which.
    pub id: PostId,
    /// The number that the application gave it: [`PostSpec::tag`](crate::PostSpec::tag).
    pub tag: u64,
    /// The item on whose stream it went; `None` if it went off-stream.
    pub item: Option<ItemHandle>,
    /// What became of it.
    pub outcome: PostOutcome<'a>,
}

/// What became of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostOutcome<'a> {
    /// It was taken.
    Taken,
    /// It was refused.
    Refused {
        /// Why.
        code: NakCode,
        /// The same in words.
        text: &'a [u8],
    },
    /// There was no answer in time: it may have been taken or not.
    TimedOut,
    /// The connection was lost before the answer: it may have been taken or not.
    Lost,
}

/// The message of an item event.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ItemMsg<'a> {
    /// An image, or a part of one.
    Refresh(&'a RefreshMsg<'a>),
    /// A change of data.
    Update(&'a UpdateMsg<'a>),
    /// A change of state, sent by the server or made here.
    Status(&'a StatusMsg<'a>),
    /// What the two ends agree on.
    Generic(&'a GenericMsg<'a>),
    /// An ack that answers no post of this consumer (any more).
    Ack(&'a AckMsg<'a>),
}

/// Something about an item: which, what came, in which state it is now.
pub struct ItemEvent<'a> {
    pub(super) handle: ItemHandle,
    pub(super) tag: u64,
    pub(super) name: &'a Arc<str>,
    pub(super) service: &'a Arc<str>,
    pub(super) domain: Domain,
    pub(super) msg: ItemMsg<'a>,
    /// The message as it came; `None` if it was made here.
    pub(super) bytes: Option<&'a [u8]>,
    pub(super) state: State<'a>,
    pub(super) is_final: bool,
    pub(super) image: Option<&'a CachedItem>,
    pub(super) dictionary: Option<&'a Arc<Dictionary>>,
    pub(super) index: Option<&'a FieldIndex>,
    pub(super) scan: FieldScan<'a>,
}

/// Which item.
impl<'a> ItemEvent<'a> {
    /// The handle that [`Consumer::subscribe`](crate::Consumer::subscribe) returned.
    #[must_use]
    pub fn handle(&self) -> ItemHandle {
        self.handle
    }

    /// The number that the application gave the item: [`ItemRequestSpec::tag`](crate::ItemRequestSpec::tag).
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// The name of the item.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The name of the service.
    #[must_use]
    pub fn service(&self) -> &'a str {
        self.service
    }

    /// The domain.
    #[must_use]
    pub fn domain(&self) -> Domain {
        self.domain
    }
}

/// What came.
impl<'a> ItemEvent<'a> {
    /// The message.
    #[must_use]
    pub fn msg(&self) -> ItemMsg<'a> {
        self.msg
    }

    /// The bytes of the message; `None` for a status that was made here.
    #[must_use]
    pub fn bytes(&self) -> Option<&'a [u8]> {
        self.bytes
    }

    /// Whether it is a refresh.
    #[must_use]
    pub fn is_refresh(&self) -> bool {
        matches!(self.msg, ItemMsg::Refresh(_))
    }

    /// Whether it is an update.
    #[must_use]
    pub fn is_update(&self) -> bool {
        matches!(self.msg, ItemMsg::Update(_))
    }

    /// Whether the image is whole with this: the last, or only, part of a refresh.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self.msg, ItemMsg::Refresh(msg) if msg.complete)
    }

    /// What kind of update it is.
    #[must_use]
    pub fn update_type(&self) -> Option<UpdateType> {
        if let ItemMsg::Update(msg) = self.msg { Some(msg.update_type) } else { None }
    }

    /// The number of the message, where the provider numbers them.
    #[must_use]
    pub fn seq_num(&self) -> Option<u32> {
        match self.msg {
            ItemMsg::Refresh(msg) => msg.seq_num,
            ItemMsg::Update(msg) => msg.seq_num,
            ItemMsg::Generic(msg) => msg.seq_num,
            ItemMsg::Ack(msg) => msg.seq_num,
            ItemMsg::Status(_) => None,
        }
    }

    /// The quality of the data, which refreshes say.
    #[must_use]
    pub fn qos(&self) -> Option<Qos> {
        if let ItemMsg::Refresh(msg) = self.msg { msg.qos } else { None }
    }

    /// How many updates it stands for, and over which time, where that was asked for and is so.
    #[must_use]
    pub fn conflation(&self) -> Option<Conflation> {
        if let ItemMsg::Update(msg) = self.msg { msg.conflation } else { None }
    }

    /// Who may see the item, as the permission system writes it, where the message says so.
    #[must_use]
    pub fn permission_data(&self) -> Option<&'a [u8]> {
        match self.msg {
            ItemMsg::Refresh(msg) => msg.permission_data,
            ItemMsg::Update(msg) => msg.permission_data,
            ItemMsg::Status(msg) => msg.permission_data,
            ItemMsg::Generic(msg) => msg.permission_data,
            ItemMsg::Ack(_) => None,
        }
    }

    /// The state that the item is in now. Of an update it is that of the messages before, without their
    /// words.
    #[must_use]
    pub fn state(&self) -> State<'a> {
        self.state
    }

    /// Whether the data can be trusted now.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.state.data == DataState::Ok
    }

    /// Whether the item has ended with this. Its handle is void from now on.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Type and bytes of the payload.
    #[must_use]
    pub fn payload(&self) -> (DataType, &'a [u8]) {
        match self.msg {
            ItemMsg::Refresh(msg) => (msg.container_type, msg.payload),
            ItemMsg::Update(msg) => (msg.container_type, msg.payload),
            ItemMsg::Status(msg) => (msg.container_type, msg.payload),
            ItemMsg::Generic(msg) => (msg.container_type, msg.payload),
            ItemMsg::Ack(msg) => (msg.container_type, msg.payload),
        }
    }
}

/// What is in it.
impl<'a> ItemEvent<'a> {
    /// The value of a field, by id or by name; `None` if the payload does not have it, or no dictionary knows
    /// the name.
    ///
    /// The payload is passed over once for all fields that are looked up in it.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload is no field list, or is malformed up to the field.
    #[inline]
    pub fn field(&self, field: impl FieldRef) -> Result<Option<Value<'a>>, DecodeError> {
        let dictionary = self.dictionary.map(|dictionary| &**dictionary);
        let Some(id) = field.resolve(dictionary) else { return Ok(None) };
        let (container_type, payload) = self.payload();
        let Some(content) = self.scan.find(self.index, container_type, payload, id)? else { return Ok(None) };
        value_as(dictionary, id, content).map(Some)
    }

    /// All fields, in the order of the message. The iterator allocates nothing.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload is no field list.
    #[inline]
    pub fn fields(&self) -> Result<Fields<'a>, DecodeError> {
        let (container_type, payload) = self.payload();
        let dictionary = self.dictionary.map(|dictionary| &**dictionary);
        Ok(Fields::new(field_list(container_type, payload)?.entries(), dictionary))
    }

    /// The entries of a map: order books, symbol lists.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload is no map.
    pub fn map(&self) -> Result<MapView<'a>, DecodeError> {
        let (container_type, payload) = self.payload();
        MapView::parse(container_type, payload, self.dictionary.map(|dictionary| &**dictionary))
    }

    /// The image with this message merged in, if the consumer keeps images.
    #[must_use]
    pub fn image(&self) -> Option<&'a CachedItem> {
        self.image
    }

    /// The value of a field in the image, by id or by name; `None` without an image of fields.
    ///
    /// # Errors
    /// [`DecodeError`] if the field's content is not of its type.
    pub fn image_field(&self, field: impl FieldRef) -> Result<Option<Value<'a>>, DecodeError> {
        image_field(self.image, self.dictionary.map(|dictionary| &**dictionary), field)
    }

    /// The dictionary in use.
    #[must_use]
    pub fn dictionary(&self) -> Option<&'a Arc<Dictionary>> {
        self.dictionary
    }
}

#[inline]
fn value_as<'a>(
    dictionary: Option<&Dictionary>,
    id: i16,
    content: &'a [u8],
) -> Result<Value<'a>, DecodeError> {
    Value::decode(dictionary.map_or(DataType::UNKNOWN, |dictionary| dictionary.data_type(id)), content)
}

pub(super) fn image_field<'a>(
    image: Option<&'a CachedItem>,
    dictionary: Option<&Dictionary>,
    field: impl FieldRef,
) -> Result<Option<Value<'a>>, DecodeError> {
    let (Some(image), Some(id)) = (image, field.resolve(dictionary)) else { return Ok(None) };
    let market::image::Image::Fields(fields) = image.image() else { return Ok(None) };
    fields.field(id).map(|content| value_as(dictionary, id, content)).transpose()
}

/// The value of a field in a payload that is searched for it.
pub(super) fn field_in<'a>(
    dictionary: Option<&Dictionary>,
    container_type: DataType,
    payload: &'a [u8],
    field: FieldId,
) -> Result<Option<Value<'a>>, DecodeError> {
    let found = FieldScan::default().find(None, container_type, payload, field.0)?;
    found.map(|content| value_as(dictionary, field.0, content)).transpose()
}
