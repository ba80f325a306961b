//! Rssl Wire Format (RWF 14.1): zero-copy views, an encoder into the caller's buffer, the data dictionary. No I/O.
//!
//! # Decoding
//!
//! Views borrow from the message. `parse` checks a head, iterators check each entry when it is read and yield
//! `Result`s; after an error they end. Nothing is copied, nothing allocates, nothing recurses, nothing panics.
//!
//! ```
//! use tickcast_rwf::{FieldList, Msg, Real, Decode, peek};
//! # let message = [0, 9, 4, 6, 0, 0, 0, 5, 0, 4, 1, 8, 0, 1, 0, 22, 3, 12, 15, 150];
//! let head = peek(&message)?;                          // class, domain, stream id, flags: enough to route
//! let Msg::Update(update) = Msg::parse(&message)? else { return Ok(()) };
//! for field in FieldList::parse(update.payload)?.entries() {
//!     let field = field?;                              // id and content; the dictionary knows the type
//!     assert_eq!((field.id, Real::decode(field.content)?), (22, Some(Real::decimal(3990, 2))));
//! }
//! # assert_eq!(head.stream_id, 5);
//! # Ok::<(), tickcast_rwf::DecodeError>(())
//! ```
//!
//! # Encoding
//!
//! A [`Writer`] writes into a buffer; lists and nested containers are closures, whose lengths, counts and flags are
//! filled in when they return. The first error is kept until [`Writer::finish`].
//!
//! ```
//! use tickcast_rwf::{DataType, Domain, Real, UpdateMsg, UpdateType, Writer};
//! let mut buffer = [0; 256];
//! let mut w = Writer::new(&mut buffer);
//! let update = UpdateMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST);
//! UpdateMsg { update_type: UpdateType::QUOTE, ..update }.encode_header(&mut w);
//! w.field_list(|f| {
//!     f.put(22, Real::decimal(3990, 2));
//!     f.put(25, None::<Real>);                         // a blank
//! });
//! let message: &mut [u8] = w.finish()?;
//! tickcast_rwf::set_stream_id(message, 77).expect("a whole message");
//! # Ok::<(), tickcast_rwf::EncodeError>(())
//! ```
//!
//! # What there is
//!
//! | | decode | encode |
//! |---|---|---|
//! | values | [`Decode`] of `i64 u64 f32 f64` [`Enum`] [`Real`] [`Date`] [`Time`] [`DateTime`] [`Qos`] [`State`] [`Array`] [`Buffer`] [`AsciiString`] [`Utf8String`] [`RmtesString`], or [`Value`] | [`Primitive`]: the same, `Option` of them, [`Blank`], [`Value`], [`Encoded`] |
//! | lists | [`FieldList`] [`ElementList`] [`FilterList`] | [`Writer::field_list`] [`Writer::element_list`] [`Writer::filter_list`] |
//! | sequences | [`Map`] [`Series`] [`Vector`] | [`Writer::map`] [`Writer::series`] [`Writer::vector`] |
//! | set definitions | [`FieldSetDefs`] [`ElementSetDefs`] | [`SetDefinitions`], [`SetHead`] |
//! | messages | [`Msg::parse`], `parse` of each class, [`peek`] | `encode`, `encode_header` of each class, [`set_stream_id`] |
//! | dictionary | [`Dictionary`] | [`Dictionary`] |

mod code_point;
mod counted;
mod data_type;
pub mod dictionary;
mod element_list;
mod error;
mod field_list;
mod filter_list;
mod list;
mod map;
mod msg;
pub mod primitive;
pub mod print;
mod reader;
mod series;
mod set_def;
mod vector;
mod walk;
mod writer;

pub use data_type::DataType;
pub use dictionary::Dictionary;
pub use element_list::{
    ElementEntries, ElementEntry, ElementList, ElementListHead, ElementListWriter, ElementSetValues,
};
pub use error::{DecodeError, EncodeError, Place};
pub use field_list::{
    FieldEntries, FieldEntry, FieldList, FieldListHead, FieldListInfo, FieldListWriter, FieldSetValues,
};
pub use filter_list::{FilterAction, FilterEntries, FilterEntry, FilterList, FilterListWriter};
pub use list::{SetData, SetHead};
pub use map::{Map, MapAction, MapEntries, MapEntry, MapHead, MapWriter};
pub use msg::{
    AckMsg, Attributes, CloseMsg, Conflation, Domain, GenericMsg, Key, Msg, MsgClass, MsgHead, NakCode,
    PostMsg, PostUserInfo, Priority, RefreshMsg, RequestMsg, StatusMsg, UpdateMsg, UpdateType, peek,
    set_stream_id,
};
pub use primitive::{
    Array, ArrayItems, ArrayWriter, AsciiString, Blank, Buffer, DataState, Date, DateTime, DecimalTextError,
    Decode, Encoded, Enum, FixedForm, Hint, Primitive, Qos, Rate, Real, RmtesString, State, StateCode,
    StreamState, Time, Timeliness, Typed, Utf8String, Value, rmtes,
};
pub use series::{Series, SeriesEntries, SeriesHead, SeriesWriter};
pub use set_def::{
    ElementSetDef, ElementSetDefs, ElementSetEntry, FieldSetDef, FieldSetDefs, FieldSetEntry,
    LOCAL_SET_ID_MAX, SetDef, SetDefinitions, SetDefs, SetEntries, SetEntry,
};
pub use vector::{Vector, VectorAction, VectorEntries, VectorEntry, VectorHead, VectorWriter};
pub use walk::{Event, WALK_DEPTH_MAX, walk, walk_container};
pub use writer::{Mark, Writer, encode_to_vec};
