use super::{
    Array, AsciiString, Blank, Buffer, Date, DateTime, Decode, Enum, FixedForm, Primitive, Qos, Real,
    RmtesString, Sealed, State, Time, Utf8String,
};
use crate::{DataType, DecodeError, EncodeError, Place, Writer};

/// A value of any type: what a field's content is, once the dictionary has told its type.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// No value, of the type named.
    Blank(DataType),
    /// Content of a field that no dictionary knows, of the type [`DataType::UNKNOWN`].
    Unknown(&'a [u8]),
    /// INT.
    Int(i64),
    /// UINT.
    UInt(u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// REAL.
    Real(Real),
    /// DATE.
    Date(Date),
    /// TIME.
    Time(Time),
    /// DATETIME.
    DateTime(DateTime),
    /// QOS.
    Qos(Qos),
    /// STATE.
    State(State<'a>),
    /// ENUM.
    Enum(Enum),
    /// ARRAY.
    Array(Array<'a>),
    /// BUFFER.
    Buffer(Buffer<'a>),
    /// ASCII_STRING.
    Ascii(AsciiString<'a>),
    /// UTF8_STRING.
    Utf8(Utf8String<'a>),
    /// RMTES_STRING.
    Rmtes(RmtesString<'a>),
    /// A container of the type named, as its bytes.
    Container(DataType, &'a [u8]),
}

/// Content of one type as the value that it is, or as a blank.
macro_rules! decoded {
    ($decoded:ty, $variant:ident, $data_type:ident, $content:ident) => {
        match <$decoded>::decode($content) {
            Ok(Some(value)) => Ok(Value::$variant(value)),
            Ok(None) => Ok(Value::Blank($data_type)),
            Err(error) => Err(error),
        }
    };
}

impl<'a> Value<'a> {
    /// Reads content of a type; the types of set definitions are read in their fixed forms. No content is a
    /// blank.
    ///
    /// Each arm makes the result itself: to move a value after it was written costs more than to decode it.
    /// For the same reason the types that updates are made of are decoded in the caller, whatever else calls
    /// this: a third of the time of decoding an update depends on it.
    ///
    /// # Errors
    /// [`DecodeError::BadType`] for a number that is no type, else what the type's decoder says. A container
    /// is not looked into.
    #[inline(always)]
    pub fn decode(data_type: DataType, content: &'a [u8]) -> Result<Value<'a>, DecodeError> {
        match data_type {
            DataType::REAL => decoded!(Real, Real, data_type, content),
            DataType::ENUM => decoded!(Enum, Enum, data_type, content),
            DataType::UINT => decoded!(u64, UInt, data_type, content),
            DataType::INT => decoded!(i64, Int, data_type, content),
            _ => Value::decode_any(data_type, content),
        }
    }

    /// The same, called instead of put into the caller: for what is less frequent than the fields of updates.
    #[inline(never)]
    pub(crate) fn decode_any(data_type: DataType, content: &'a [u8]) -> Result<Value<'a>, DecodeError> {
        match data_type {
            DataType::REAL => decoded!(Real, Real, data_type, content),
            DataType::ENUM => decoded!(Enum, Enum, data_type, content),
            DataType::UINT => decoded!(u64, UInt, data_type, content),
            DataType::INT => decoded!(i64, Int, data_type, content),
            DataType::TIME => decoded!(Time, Time, data_type, content),
            DataType::DATE => decoded!(Date, Date, data_type, content),
            DataType::RMTES_STRING => decoded!(RmtesString<'a>, Rmtes, data_type, content),
            DataType::ASCII_STRING => decoded!(AsciiString<'a>, Ascii, data_type, content),
            DataType::UTF8_STRING => decoded!(Utf8String<'a>, Utf8, data_type, content),
            DataType::BUFFER => decoded!(Buffer<'a>, Buffer, data_type, content),
            DataType::FLOAT => decoded!(f32, Float, data_type, content),
            DataType::DOUBLE => decoded!(f64, Double, data_type, content),
            DataType::DATETIME => decoded!(DateTime, DateTime, data_type, content),
            DataType::QOS => decoded!(Qos, Qos, data_type, content),
            DataType::STATE => decoded!(State<'a>, State, data_type, content),
            DataType::ARRAY => decoded!(Array<'a>, Array, data_type, content),
            DataType::UNKNOWN => Ok(Value::Unknown(content)),
            _ => Value::decode_other(data_type, content),
        }
    }

    /// Reads a set-defined fixed form, or a container.
    fn decode_other(data_type: DataType, content: &'a [u8]) -> Result<Value<'a>, DecodeError> {
        let base = data_type.base();
        match FixedForm::of(data_type) {
            Some(FixedForm::Width(_)) => Value::decode(base, content),
            Some(form) => Ok(Real::decode_rb(content, form)?.map_or(Value::Blank(base), Value::Real)),
            None if !data_type.is_container() => {
                Err(DecodeError::BadType { place: Place::Content, data_type })
            }
            None if content.is_empty() => Ok(Value::Blank(data_type)),
            None => Ok(Value::Container(data_type, content)),
        }
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        matches!(self, Value::Blank(_))
    }
}

impl Sealed for Value<'_> {}

macro_rules! for_each_value {
    ($value:expr, $inner:ident => $do:expr, $container:ident => $otherwise:expr) => {
        match $value {
            Value::Blank(data_type) => {
                let $inner = &Blank(*data_type);
                $do
            }
            Value::Int($inner) => $do,
            Value::UInt($inner) => $do,
            Value::Float($inner) => $do,
            Value::Double($inner) => $do,
            Value::Real($inner) => $do,
            Value::Date($inner) => $do,
            Value::Time($inner) => $do,
            Value::DateTime($inner) => $do,
            Value::Qos($inner) => $do,
            Value::State($inner) => $do,
            Value::Enum($inner) => $do,
            Value::Array($inner) => $do,
            Value::Buffer($inner) => $do,
            Value::Ascii($inner) => $do,
            Value::Utf8($inner) => $do,
            Value::Rmtes($inner) => $do,
            Value::Unknown(content) => {
                let $container = &Encoded { data_type: DataType::UNKNOWN, content };
                $otherwise
            }
            Value::Container(data_type, content) => {
                let $container = &Encoded { data_type: *data_type, content };
                $otherwise
            }
        }
    };
}

impl Primitive for Value<'_> {
    fn data_type(&self) -> DataType {
        for_each_value!(self, v => v.data_type(), c => c.data_type)
    }

    fn content_len(&self) -> usize {
        for_each_value!(self, v => v.content_len(), c => c.content_len())
    }

    fn put_content(&self, w: &mut Writer<'_>) {
        for_each_value!(self, v => v.put_content(w), c => c.put_content(w));
    }

    fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>) {
        for_each_value!(self, v => v.put_fixed(form, w), c => c.put_fixed(form, w));
    }
}

/// Content that is encoded already: passes a value on without looking at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded<'a> {
    /// The type of the content.
    pub data_type: DataType,
    /// The content, without a length in front.
    pub content: &'a [u8],
}

impl Sealed for Encoded<'_> {}

impl Primitive for Encoded<'_> {
    #[inline]
    fn data_type(&self) -> DataType {
        self.data_type
    }

    #[inline]
    fn content_len(&self) -> usize {
        self.content.len()
    }

    #[inline]
    fn put_content(&self, w: &mut Writer<'_>) {
        w.bytes(self.content);
    }

    /// Only content of just that width is passed on.
    fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>) {
        match form {
            FixedForm::Width(width) if width == self.content.len() => w.bytes(self.content),
            _ => w.fail(EncodeError::BadType { place: Place::Content, data_type: self.data_type }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_takes_half_a_cache_line() {
        assert_eq!(size_of::<Value<'_>>(), 32);
        assert_eq!(size_of::<Result<Value<'_>, DecodeError>>(), 32);
    }

    #[test]
    fn no_content_is_the_blank_of_every_type() {
        assert_eq!(Value::decode(DataType::UNKNOWN, b""), Ok(Value::Unknown(b"")));
        for data_type in (1..=u8::MAX).map(DataType) {
            let legal = data_type.is_primitive() || data_type.is_set_fixed() || data_type.is_container();
            let blank = Value::decode(data_type, b"");
            assert_eq!(blank.ok(), legal.then(|| Value::Blank(data_type.base())), "{data_type}");
        }
    }

    #[test]
    fn a_fixed_form_is_read_as_its_own_kind_of_real() {
        assert_eq!(Value::decode(DataType::REAL_4RB, &[0x4C, 1, 0]), Ok(Value::Real(Real::decimal(256, 2))));
        assert!(Value::decode(DataType::REAL_8RB, &[0x4C, 1, 0]).is_err());
    }
}
