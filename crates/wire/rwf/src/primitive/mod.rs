//! Single values: their content, the forms they take in set data and arrays, and what is blank.
//!
//! A decoder of a type takes the *content*, the bytes behind the length, and returns `None` for a blank.
//! Encoders are methods of [`Primitive`], which every type implements, also [`Option`] of it (`None` is the
//! blank), [`Blank`] and [`Value`].

mod array;
mod display;
mod number;
mod quality;
mod real;
pub mod rmtes;
mod text;
mod time;
mod value;

pub use array::{Array, ArrayItems, ArrayWriter};
pub use number::Enum;
pub use quality::{DataState, Qos, Rate, State, StateCode, StreamState, Timeliness};
pub use real::{DecimalTextError, Hint, Real};
pub use text::{AsciiString, Buffer, RmtesString, Utf8String};
pub use time::{Date, DateTime, Time};
pub use value::{Encoded, Value};

use crate::error::clip;
use crate::reader::Reader;
use crate::{DataType, DecodeError, EncodeError, Place, Writer};

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// A value that a [`Writer`] can encode.
pub trait Primitive: Sealed {
    /// The type that a header, set definition or element entry names for it.
    fn data_type(&self) -> DataType;
    /// Bytes of the content; 0 is the blank.
    fn content_len(&self) -> usize;
    /// Writes the content, exactly [`Primitive::content_len`] bytes.
    fn put_content(&self, w: &mut Writer<'_>);
    /// The content, if it is short enough to be written in one go. A list writes a field of such a value with
    /// a single store, which is what makes encoding an update a matter of a few nanoseconds a field.
    #[doc(hidden)]
    #[inline]
    fn packed(&self) -> Option<Packed> {
        None
    }
    /// Writes the value in the fixed form that set data or an array prescribes; one that it does not fit is
    /// the writer's error.
    fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>);
}

/// A primitive whose type is known without a value, so that `None` can stand for its blank.
pub trait Typed: Primitive {
    /// The type number.
    const TYPE: DataType;
}

/// A primitive that can be read from content bytes.
pub trait Decode<'a>: Typed + Sized {
    /// Reads a value; `None` is the blank, which for every type is the empty content and for some also other
    /// bytes.
    ///
    /// # Errors
    /// A [`DecodeError`] if the bytes are not a value of the type.
    fn decode(content: &'a [u8]) -> Result<Option<Self>, DecodeError>;
}

/// Content of at most 13 bytes, in the topmost ones.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    pub(crate) content: u128,
    pub(crate) length: usize,
}

/// How a value stands where its length is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixedForm {
    /// So many bytes.
    Width(usize),
    /// `REAL_4RB`: mantissa of 1 to 4 bytes, the number in the top bits of the hint byte.
    Real4Rb,
    /// `REAL_8RB`: mantissa of 2, 4, 6 or 8 bytes.
    Real8Rb,
}

impl FixedForm {
    /// The form of a set-defined fixed type, `None` for all other types.
    #[must_use]
    pub const fn of(set_type: DataType) -> Option<FixedForm> {
        match set_type {
            DataType::REAL_4RB => Some(FixedForm::Real4Rb),
            DataType::REAL_8RB => Some(FixedForm::Real8Rb),
            _ => match set_type.fixed_width() {
                Some(width) => Some(FixedForm::Width(width)),
                None => None,
            },
        }
    }

    /// The error for a value that does not fit this form.
    pub(crate) fn misfit(self, place: Place, value: u32) -> EncodeError {
        let width = match self {
            FixedForm::Width(width) => clip(width),
            FixedForm::Real4Rb => 5,
            FixedForm::Real8Rb => 9,
        };
        EncodeError::BadValue { place, value, max: width }
    }
}

/// The blank of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blank(pub DataType);

impl Sealed for Blank {}

impl Primitive for Blank {
    #[inline]
    fn data_type(&self) -> DataType {
        self.0
    }

    #[inline]
    fn content_len(&self) -> usize {
        0
    }

    #[inline]
    fn put_content(&self, _: &mut Writer<'_>) {}

    fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>) {
        match (self.0, form) {
            (DataType::REAL, FixedForm::Real4Rb | FixedForm::Real8Rb) => w.u8(real::BLANK_BYTE),
            (DataType::DATE, FixedForm::Width(4)) => w.u32(0),
            (DataType::TIME, FixedForm::Width(_)) => Time::BLANK.put_fixed(form, w),
            (DataType::DATETIME, FixedForm::Width(_)) => DateTime::BLANK.put_fixed(form, w),
            _ => w.fail(EncodeError::Blank { place: place_of(self.0) }),
        }
    }
}

impl<T: Typed> Sealed for Option<T> {}

impl<T: Typed> Primitive for Option<T> {
    #[inline]
    fn data_type(&self) -> DataType {
        T::TYPE
    }

    #[inline]
    fn content_len(&self) -> usize {
        self.as_ref().map_or(0, T::content_len)
    }

    #[inline]
    fn put_content(&self, w: &mut Writer<'_>) {
        if let Some(value) = self {
            value.put_content(w);
        }
    }

    fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>) {
        match self {
            Some(value) => value.put_fixed(form, w),
            None => Blank(T::TYPE).put_fixed(form, w),
        }
    }
}

/// The length forms of a value of variable size inside set data and arrays.
enum Sizing {
    U8,
    U15rb,
    U16ob,
}

impl Sizing {
    #[inline]
    fn of(data_type: DataType) -> Sizing {
        match data_type.0 {
            3..=12 => Sizing::U8,
            13 => Sizing::U15rb,
            _ => Sizing::U16ob,
        }
    }
}

/// How many bytes a blank `REAL_4RB` or `REAL_8RB` takes in set data. The vendor's C and Java libraries
/// differ, and nothing in the data says which wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SelfSizedBlank {
    /// One, as C writes it.
    #[default]
    OneByte,
    /// Two, as Java does.
    TwoBytes,
}

impl SelfSizedBlank {
    /// The form with which values of these types fill the set data exactly; one byte if none does.
    pub(crate) fn of(types: impl Iterator<Item = DataType> + Clone, bytes: &[u8]) -> SelfSizedBlank {
        let fills = |form| {
            let mut r = Reader::new(bytes);
            types.clone().all(|set_type| take_set_value(&mut r, set_type, form).is_ok())
                && r.rest().is_empty()
        };
        let two = !fills(SelfSizedBlank::OneByte) && fills(SelfSizedBlank::TwoBytes);
        if two { SelfSizedBlank::TwoBytes } else { SelfSizedBlank::OneByte }
    }
}

/// Reads one value of a set definition's type from set data.
#[inline]
pub(crate) fn take_set_value<'a>(
    r: &mut Reader<'a>,
    set_type: DataType,
    blank: SelfSizedBlank,
) -> Result<&'a [u8], DecodeError> {
    match FixedForm::of(set_type) {
        Some(FixedForm::Width(width)) => r.take(width, Place::SetData),
        Some(form) => match (r.rest().first(), blank) {
            (Some(&real::BLANK_BYTE), SelfSizedBlank::TwoBytes) => r.take(2, Place::SetData),
            _ => r.take(real::rb_len(r.rest(), form), Place::SetData),
        },
        None if set_type == DataType::NO_DATA || !is_set_type(set_type) => {
            Err(DecodeError::BadType { place: Place::SetData, data_type: set_type })
        }
        None => take_sized(r, set_type, Place::SetData),
    }
}

/// Whether a set definition may name the type.
pub(crate) fn is_set_type(data_type: DataType) -> bool {
    data_type.is_set_fixed()
        || data_type.is_primitive()
        || (data_type.is_container() && data_type != DataType::NO_DATA)
}

#[inline]
pub(crate) fn take_sized<'a>(
    r: &mut Reader<'a>,
    data_type: DataType,
    place: Place,
) -> Result<&'a [u8], DecodeError> {
    match Sizing::of(data_type) {
        Sizing::U8 => r.buf8(place),
        Sizing::U15rb => r.buf15(place),
        Sizing::U16ob => r.buf16(place),
    }
}

/// Writes a value of a set definition's type into set data.
pub(crate) fn put_set_value(w: &mut Writer<'_>, set_type: DataType, value: &impl Primitive) {
    let given = value.data_type();
    if set_type.base() != given {
        w.fail(EncodeError::OtherType { place: Place::SetData, given, wanted: set_type });
        return;
    }
    match FixedForm::of(set_type) {
        Some(form) => value.put_fixed(form, w),
        None => put_sized(w, value),
    }
}

pub(crate) fn put_sized(w: &mut Writer<'_>, value: &impl Primitive) {
    let length = value.content_len();
    let place = place_of(value.data_type());
    match Sizing::of(value.data_type()) {
        Sizing::U8 => {
            w.limit(length, u8::MAX.into(), place);
            w.u8(length as u8);
        }
        Sizing::U15rb => {
            w.limit(length, crate::writer::U15_MAX, place);
            w.u15rb(length.min(crate::writer::U15_MAX) as u16, place);
        }
        Sizing::U16ob => {
            w.limit(length, crate::writer::U16_MAX, place);
            w.u16ob(length as u16);
        }
    }
    value.put_content(w);
}

/// The name under which errors speak of a value of the type.
fn place_of(data_type: DataType) -> Place {
    match data_type {
        DataType::INT => Place::Int,
        DataType::UINT => Place::UInt,
        DataType::FLOAT => Place::Float,
        DataType::DOUBLE => Place::Double,
        DataType::REAL => Place::Real,
        DataType::DATE => Place::Date,
        DataType::TIME => Place::Time,
        DataType::DATETIME => Place::DateTime,
        DataType::QOS => Place::Qos,
        DataType::STATE => Place::State,
        DataType::ENUM => Place::Enum,
        DataType::ARRAY => Place::Array,
        DataType::BUFFER => Place::Buffer,
        DataType::RMTES_STRING => Place::Rmtes,
        DataType::ASCII_STRING | DataType::UTF8_STRING => Place::Text,
        _ => Place::Content,
    }
}
