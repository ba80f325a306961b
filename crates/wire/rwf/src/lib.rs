//! Rssl Wire Format (RWF 14.1): zero-copy views, an encoder into the caller's buffer, the data dictionary. No
//! I/O.
//!
//! # Decoding
//!
//! Views borrow from the message. `parse` checks a head, iterators check each entry when it is read and yield
//! `Result`s; after an error they end. Nothing is copied, nothing allocates, nothing recurses, nothing
//! panics.
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
//! A [`Writer`] writes into a buffer; lists and nested containers are closures, whose lengths, counts and
//! flags are filled in when they return. The first error is kept until [`Writer::finish`].
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
//! - Values: [`Decode`] and [`Primitive`] of `i64`, `u64`, `f32`, `f64`, [`Enum`], [`Real`], [`Date`],
//!   [`Time`], [`DateTime`], [`Qos`], [`State`], [`Array`], [`Buffer`], [`AsciiString`], [`Utf8String`],
//!   [`RmtesString`], where `None` is the blank; [`Value`] for a type known at run time; [`rmtes`] for
//!   changes to cached text.
//! - Containers: [`FieldList`], [`ElementList`], [`FilterList`], [`Map`], [`Series`], [`Vector`], written by
//!   the methods of [`Writer`] of the same names; set definitions: [`FieldSetDefs`], [`ElementSetDefs`],
//!   [`SetDefinitions`].
//! - Messages: [`Msg`] and a struct for each class; [`peek`] and [`set_stream_id`] for servers that pass
//!   messages on.
//! - The data [`dictionary`], from files and over the wire.
//! - [`walk`] through a whole message, and its printed form, [`print::Pretty`].
//!
//! # The promise
//!
//! - What the vendor's libraries wrote decodes to what they meant, and what it means encodes to the same
//!   bytes, but for lengths that they write longer than needed:
//!   `vectors::every_committed_vector_decodes_and_encodes`.
//! - Whatever can be encoded decodes to the same: all of `round_trip`.
//! - No bytes make it panic: `robustness::random_changes_never_panic`,
//!   `robustness::a_flipped_bit_anywhere_never_panics`,
//!   `robustness::a_length_of_nothing_one_or_the_largest_anywhere_never_panics`.
//! - A message cut short is an error, or the same message with less payload:
//!   `robustness::a_message_cut_anywhere_is_an_error_or_the_same_message_with_less_payload`.
//! - Nothing recurses but [`walk()`], which stops at a depth:
//!   `walk::tests::nesting_is_followed_down_to_the_limit_and_refused_below`.
//! - A buffer that is too small is told the exact need, and what is returned as written is whole:
//!   `round_trip::a_buffer_of_any_size_takes_a_message_whole_or_says_what_it_needs`.
//! - Prices are never floating point unless asked for:
//!   `round_trip::a_real_prints_as_text_that_reads_as_the_same_real`.
//! - A dictionary is served as the vendor's provider serves it, in the same parts:
//!   `dictionary::a_long_dictionary_is_cut_where_the_recorded_provider_cut_it`.

mod code_point;
mod counted;
mod data_type;
pub mod dictionary;
mod element_list;
mod entries;
mod error;
mod field_list;
mod field_ref;
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
pub use entries::Entries;
pub use error::{DecodeError, EncodeError, Place};
pub use field_list::{
    FieldEntries, FieldEntry, FieldList, FieldListHead, FieldListInfo, FieldListWriter, FieldSetValues,
};
pub use field_ref::{FieldName, FieldRef};
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
pub use writer::{Writer, encode_to_vec};
