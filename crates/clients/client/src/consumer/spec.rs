//! What an application asks for.

use std::fmt;
use std::sync::Arc;

use rdm::item::View;
use rwf::{Domain, Priority, Qos};

use crate::table::Slot;

/// An item that was subscribed: names it as long as it is open, and nothing afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemHandle(pub(crate) Slot);

impl ItemHandle {
    /// As one number, for callers in other languages.
    #[must_use]
    pub fn to_u64(self) -> u64 {
        self.0.to_u64()
    }

    /// The handle of such a number.
    #[must_use]
    pub fn from_u64(number: u64) -> ItemHandle {
        ItemHandle(Slot::from_u64(number))
    }
}

/// An item request.
///
/// ```
/// # use tickcast_client::{Domain, ItemRequestSpec};
/// let plain = ItemRequestSpec::new("BINANCE", "BTCUSDT");
/// let book = ItemRequestSpec { domain: Domain::MARKET_BY_PRICE, tag: 7, ..plain };
/// let quote = ItemRequestSpec { streaming: false, ..ItemRequestSpec::new("BINANCE", "ETHUSDT") };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRequestSpec<'a> {
    /// The name of the service. It need not be known yet.
    pub service: &'a str,
    /// The name of the item, 1 to 255 bytes.
    pub name: &'a str,
    /// The domain; market price by default.
    pub domain: Domain,
    /// Updates are wanted (the default); else one image, after which the item has ended.
    pub streaming: bool,
    /// The stream is to be for this consumer alone.
    pub private_stream: bool,
    /// The quality wanted, or the best of a range. By default what the service has, real time and tick by
    /// tick first.
    pub qos: Option<Qos>,
    /// The worst of a range.
    pub worst_qos: Option<Qos>,
    /// How important the item is; 1 of class 1 by default.
    pub priority: Priority,
    /// The part of the item that is wanted; all of it by default, or if the server does not know views.
    pub view: Option<ItemView>,
    /// Whether each update is to have its key.
    pub key_in_updates: bool,
    /// Whether an update that stands for several is to say for how many, and over which time.
    pub conflation_info: bool,
    /// A number for the application's own use; events of the item carry it.
    pub tag: u64,
}

impl<'a> ItemRequestSpec<'a> {
    /// An item of the market price domain, with updates.
    #[must_use]
    pub const fn new(service: &'a str, name: &'a str) -> ItemRequestSpec<'a> {
        ItemRequestSpec {
            service,
            name,
            domain: Domain::MARKET_PRICE,
            streaming: true,
            private_stream: false,
            qos: None,
            worst_qos: None,
            priority: Priority { class: 1, count: 1 },
            view: None,
            key_in_updates: false,
            conflation_info: false,
            tag: 0,
        }
    }
}

/// The part of an item that is wanted.
///
/// ```
/// # use tickcast_client::ItemView;
/// let quote = ItemView::from([22, 25]);
/// let summary = ItemView::from(["TRDPRC_1", "NETCHNG_1"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemView {
    /// The fields of these ids.
    Fields(Arc<[i16]>),
    /// The elements of these names: what the payload is made of, if that is an element list.
    Names(Arc<[Arc<str>]>),
}

impl ItemView {
    pub(crate) fn on_the_wire(&self) -> View<'_> {
        match self {
            ItemView::Fields(ids) => View::Fields(Arc::clone(ids)),
            ItemView::Names(names) => View::Elements(names.iter().map(|name| name.as_bytes()).collect()),
        }
    }
}

impl From<Arc<[i16]>> for ItemView {
    fn from(ids: Arc<[i16]>) -> Self {
        ItemView::Fields(ids)
    }
}

impl<const N: usize> From<[i16; N]> for ItemView {
    fn from(ids: [i16; N]) -> Self {
        ItemView::Fields(ids.into())
    }
}

impl<const N: usize> From<[&str; N]> for ItemView {
    fn from(names: [&str; N]) -> Self {
        ItemView::Names(names.map(Arc::from).into())
    }
}

/// Why an item cannot be subscribed. Nothing was done.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscribeError {
    /// It is subscribed already, under this handle. One consumer has one stream for an item, as servers
    /// require.
    AlreadyOpen(ItemHandle),
    /// A name is empty or too long.
    NameLength {
        /// Its length.
        bytes: usize,
        /// The longest allowed.
        max: usize,
    },
    /// The domain has no items: login, source directory, dictionary.
    NotAnItemDomain(Domain),
    /// The consumer has as many items as its configuration allows.
    TooManyItems {
        /// The limit.
        max: u32,
    },
}

impl fmt::Display for SubscribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyOpen(_) => {
                f.write_str("item is subscribed already: one consumer has one stream for it")
            }
            Self::NameLength { bytes, max } => write!(f, "name of {bytes} bytes, 1 to {max} allowed"),
            Self::NotAnItemDomain(domain) => {
                write!(f, "{domain}: no domain of items; items are of MARKET_PRICE, say")
            }
            Self::TooManyItems { max } => {
                write!(f, "{max} items are subscribed already, the most allowed (items_max)")
            }
        }
    }
}

impl fmt::Debug for SubscribeError {
    /// As it is shown: `main` prints the error that it returns so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SubscribeError {}

/// The longest name that a key can hold, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;
