//! The market data model and its decisions: services, items, image cache, watchlist, recovery.
//!
//! ```
//! use rwf::{DataType, Dictionary, Domain, Real, RefreshMsg, UpdateMsg, Value, encode_to_vec};
//! use tickcast_market::CachedItem;
//! use tickcast_market::image::FieldRules;
//!
//! // An item's image is what its provider sent, with every update merged.
//! let rules = FieldRules::of(&Dictionary::new());
//! let mut item = CachedItem::new(true);
//! let image = encode_to_vec(|w| w.field_list(|f| {
//!     f.put(22, Real::decimal(4007, 2));
//!     f.put(25, Real::decimal(4009, 2));
//! }))?;
//! let refresh = RefreshMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST);
//! item.on_refresh(&RefreshMsg { complete: true, payload: &image, ..refresh }, &rules)?;
//! let change = encode_to_vec(|w| w.field_list(|f| f.put(22, Real::decimal(4008, 2))))?;
//! let update = UpdateMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST);
//! item.on_update(&UpdateMsg { payload: &change, ..update }, &rules)?;
//!
//! let bid: Option<Real> = item.image().fields().and_then(|fields| rwf::Decode::decode(fields.field(22)?).ok()?);
//! assert_eq!(bid, Some(Real::decimal(4008, 2)));
//! assert_eq!(item.version(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`distributor`] | the core of a source distributor: providers on one side, point-to-point servers on the other |
//! | [`p2ps`] | the core of a point-to-point server: source distributors on one side, clients on the other |
//! | [`backbone`] | the messages between the two |
//! | [`image`] | images of items, and how updates are merged into them |
//! | [`users`] | who may log in |
//!
//! Nothing here opens a socket or reads a clock: the daemons and the simulator drive the same cores.

mod ahead;
pub mod backbone;
mod busiest;
mod cached;
mod changes;
pub mod distributor;
mod encoding;
mod extent;
pub mod image;
mod intake;
mod key;
mod key_index;
mod name_pattern;
pub mod p2ps;
mod places;
mod ration;
mod service_names;
mod shared;
mod short_bytes;
#[cfg(test)]
mod state_tables;
mod table;
pub mod users;
mod view;

/// So many messages before its turn a message is best announced to a core: see
/// [`PointToPoint::announce`](p2ps::PointToPoint::announce) and
/// [`Distributor::announce`](distributor::Distributor::announce).
pub const MESSAGES_AHEAD: usize = ahead::Ahead::DISTANCE;

pub use busiest::{BUSIEST_MAX, BusyItem};
pub use cached::{CachedItem, Conflated, RefreshForm, Scratch};
pub use encoding::{EncodeFault, Encoding};
pub use intake::{Intake, IntakeConfig, Waited};
pub use key::{ItemKey, KEY_ATTRIBUTES_BYTES_MAX, OwnedKey};
pub use name_pattern::NamePattern;
pub use ration::Ration;
pub use service_names::ServiceNames;
