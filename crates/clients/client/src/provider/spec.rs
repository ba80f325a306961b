//! What an application publishes, and what comes of it.

use std::fmt;

use market::EncodeFault;
use rwf::{
    Conflation, DataType, DecodeError, Domain, EncodeError, Key, Qos, RefreshMsg, State, UpdateMsg,
    UpdateType,
};

use crate::FieldError;
use crate::consumer::NAME_BYTES_MAX;
use crate::outgoing::Refusal;
use crate::table::Slot;

/// An item that is published: names it until it is closed, and nothing afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublishedItem(pub(crate) Slot);

impl PublishedItem {
    /// As one number, for callers in other languages.
    #[must_use]
    pub fn to_u64(self) -> u64 {
        self.0.to_u64()
    }

    /// The handle of such a number.
    #[must_use]
    pub fn from_u64(number: u64) -> PublishedItem {
        PublishedItem(Slot::from_u64(number))
    }
}

/// An item to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishSpec<'a> {
    /// The domain.
    pub domain: Domain,
    /// The name of the service, one of the configuration.
    pub service: &'a str,
    /// The name of the item, 1 to 255 bytes.
    pub name: &'a str,
    /// Whether refreshes and updates are numbered, from 1.
    pub seq_nums: bool,
    /// Whether each update and status repeats the key. Servers do without it.
    pub key_in_updates: bool,
}

impl<'a> PublishSpec<'a> {
    /// An item whose messages are not numbered.
    #[must_use]
    pub const fn new(domain: Domain, service: &'a str, name: &'a str) -> PublishSpec<'a> {
        PublishSpec { domain, service, name, seq_nums: false, key_in_updates: false }
    }

    /// Whether there can be such an item.
    pub(crate) fn check(&self) -> Result<(), ItemError> {
        if !(1..=NAME_BYTES_MAX).contains(&self.name.len()) {
            return Err(ItemError::NameLength { bytes: self.name.len(), max: NAME_BYTES_MAX });
        }
        if rdm::item::has_items(self.domain) { Ok(()) } else { Err(ItemError::NotAnItemDomain(self.domain)) }
    }
}

/// What a refresh says beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshSpec<'a> {
    /// What the payload is; a field list by default.
    pub container_type: DataType,
    /// The state of the item; open and ok by default.
    pub state: State<'a>,
    /// The quality of the data; real time, tick by tick by default.
    pub qos: Qos,
    /// The group the item is in, at most 255 bytes; none by default.
    pub group_id: Option<&'a [u8]>,
    /// Who may see it, as the permission system writes it.
    pub permission_data: Option<&'a [u8]>,
}

impl Default for RefreshSpec<'_> {
    fn default() -> Self {
        RefreshSpec {
            container_type: DataType::FIELD_LIST,
            state: State::OPEN_OK,
            qos: Qos::REAL_TIME,
            group_id: None,
            permission_data: None,
        }
    }
}

impl<'a> RefreshSpec<'a> {
    /// The message, but for its payload.
    pub(crate) fn message(
        &self,
        domain: Domain,
        stream_id: i32,
        seq_num: Option<u32>,
        key: Option<Key<'a>>,
    ) -> RefreshMsg<'a> {
        RefreshMsg {
            complete: true,
            clear_cache: true,
            seq_num,
            state: self.state,
            group_id: self.group_id.unwrap_or(RefreshMsg::default().group_id),
            permission_data: self.permission_data,
            qos: Some(self.qos),
            key,
            ..RefreshMsg::new(domain, stream_id, self.container_type)
        }
    }
}

impl RefreshSpec<'_> {
    /// An image that is a map: an order book, a symbol list.
    #[must_use]
    pub fn map() -> Self {
        RefreshSpec { container_type: DataType::MAP, ..RefreshSpec::default() }
    }
}

/// What an update says beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateSpec<'a> {
    /// What the payload is; a field list by default.
    pub container_type: DataType,
    /// What happened; unspecified by default.
    pub update_type: UpdateType,
    /// Who may see the item from now on.
    pub permission_data: Option<&'a [u8]>,
    /// How many updates it stands for.
    pub conflation: Option<Conflation>,
    /// It is not to be kept: the image does not change.
    pub do_not_cache: bool,
    /// It is to be sent on as it is.
    pub do_not_conflate: bool,
    /// Old values are not to be moved to the fields they ripple to.
    pub do_not_ripple: bool,
}

impl Default for UpdateSpec<'_> {
    fn default() -> Self {
        UpdateSpec {
            container_type: DataType::FIELD_LIST,
            update_type: UpdateType::UNSPECIFIED,
            permission_data: None,
            conflation: None,
            do_not_cache: false,
            do_not_conflate: false,
            do_not_ripple: false,
        }
    }
}

impl<'a> UpdateSpec<'a> {
    /// The message, but for its payload.
    #[inline]
    pub(crate) fn message(
        &self,
        domain: Domain,
        stream_id: i32,
        seq_num: Option<u32>,
        key: Option<Key<'a>>,
    ) -> UpdateMsg<'a> {
        UpdateMsg {
            update_type: self.update_type,
            do_not_cache: self.do_not_cache,
            do_not_conflate: self.do_not_conflate,
            do_not_ripple: self.do_not_ripple,
            seq_num,
            conflation: self.conflation,
            permission_data: self.permission_data,
            key,
            ..UpdateMsg::new(domain, stream_id, self.container_type)
        }
    }
}

impl UpdateSpec<'_> {
    /// A change of a quote.
    #[must_use]
    pub fn quote() -> Self {
        UpdateSpec { update_type: UpdateType::QUOTE, ..UpdateSpec::default() }
    }

    /// A trade.
    #[must_use]
    pub fn trade() -> Self {
        UpdateSpec { update_type: UpdateType::TRADE, ..UpdateSpec::default() }
    }

    /// A change of a map.
    #[must_use]
    pub fn map() -> Self {
        UpdateSpec { container_type: DataType::MAP, ..UpdateSpec::default() }
    }
}

/// What became of a message that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Published {
    /// It waits for the socket, behind everything published before.
    Sent,
    /// It is in the image, and goes out with it: there is no connection, or the image has not gone out on it
    /// yet.
    Kept,
    /// It is gone: the server does not know the item now, and no image is kept that it could go into.
    Dropped,
}

/// Why something was not published. But for [`PublishError::Payload`], image and numbering are as before.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishError {
    /// The backlog to the server is full: the same call succeeds when there is room again.
    WouldBlock {
        /// Bytes that wait for the server.
        pending_bytes: usize,
        /// The most that may wait.
        limit_bytes: usize,
    },
    /// The item is closed, or never was.
    UnknownItem,
    /// An update or status of an item that had no refresh yet.
    NoImage,
    /// The message is longer than the whole backlog.
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest that can be sent.
        limit_bytes: usize,
    },
    /// The message cannot be encoded.
    Encode(EncodeError),
    /// A field is of another type than the dictionary's, or not in the dictionary. Nothing was sent.
    Field(FieldError),
    /// The payload is not of the type that was said. It was sent if there is a connection, but the image does
    /// not have all of it: publish a refresh.
    Payload(DecodeError),
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock { pending_bytes, limit_bytes } => {
                write!(f, "backlog full: {pending_bytes} bytes wait, limit {limit_bytes}")
            }
            Self::UnknownItem => f.write_str("no such item: it was closed, or never made by `item`"),
            Self::NoImage => f.write_str("item without an image: publish a refresh first"),
            Self::TooLong { bytes, limit_bytes } => {
                write!(f, "message of {bytes} bytes, at most {limit_bytes}")
            }
            Self::Encode(error) => error.fmt(f),
            Self::Field(error) => write!(f, "{error}; nothing was sent"),
            Self::Payload(error) => write!(f, "payload: {error}"),
        }
    }
}

impl fmt::Debug for PublishError {
    /// As it is shown: `main` prints the error that it returns so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for PublishError {}

impl From<EncodeError> for PublishError {
    fn from(error: EncodeError) -> Self {
        PublishError::Encode(error)
    }
}

impl From<EncodeFault> for PublishError {
    fn from(fault: EncodeFault) -> Self {
        FieldError::of(&fault).map_or(PublishError::Encode(fault.error), PublishError::Field)
    }
}

impl From<Refusal> for PublishError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::WouldBlock { pending_bytes, limit_bytes } => {
                PublishError::WouldBlock { pending_bytes, limit_bytes }
            }
            Refusal::TooLong { bytes, limit_bytes } => PublishError::TooLong { bytes, limit_bytes },
        }
    }
}

/// Why an item cannot be published.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ItemError {
    /// The provider has no service of that name.
    UnknownService,
    /// The name is empty or too long.
    NameLength {
        /// Its length.
        bytes: usize,
        /// The longest allowed.
        max: usize,
    },
    /// The domain has no items: login, source directory, dictionary.
    NotAnItemDomain(Domain),
    /// The provider has as many items as its configuration allows.
    TooManyItems {
        /// The limit.
        max: u32,
    },
}

impl fmt::Display for ItemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownService => f.write_str("no service of that name in the configuration (`services`)"),
            Self::NameLength { bytes, max } => write!(f, "name of {bytes} bytes, 1 to {max} allowed"),
            Self::NotAnItemDomain(domain) => {
                write!(f, "{domain}: no domain of items; items are of MARKET_PRICE, say")
            }
            Self::TooManyItems { max } => {
                write!(f, "{max} items are published already, the most allowed (items_max)")
            }
        }
    }
}

impl fmt::Debug for ItemError {
    /// As it is shown: `main` prints the error that it returns so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ItemError {}
