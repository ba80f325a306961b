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

impl<'a> Value<'a> {
    /// Reads content of a type; the types of set definitions are read in their fixed forms. No content is a blank.
    ///
    /// # Errors
    /// [`DecodeError::BadType`] for a type number that is neither primitive nor container, else what the type's
    /// decoder says. A container is not looked into.
    #[inline]
    pub fn decode(data_type: DataType, content: &'a [u8]) -> Result<Value<'a>, DecodeError> {
        let value = match data_type.base() {
            DataType::INT => i64::decode(content)?.map(Value::Int),
            DataType::UINT => u64::decode(content)?.map(Value::UInt),
            DataType::FLOAT => f32::decode(content)?.map(Value::Float),
            DataType::DOUBLE => f64::decode(content)?.map(Value::Double),
            DataType::REAL => match FixedForm::of(data_type) {
                Some(form) => Real::decode_rb(content, form)?.map(Value::Real),
                None => Real::decode(content)?.map(Value::Real),
            },
            DataType::DATE => Date::decode(content)?.map(Value::Date),
            DataType::TIME => Time::decode(content)?.map(Value::Time),
            DataType::DATETIME => DateTime::decode(content)?.map(Value::DateTime),
            DataType::QOS => Qos::decode(content)?.map(Value::Qos),
            DataType::STATE => State::decode(content)?.map(Value::State),
            DataType::ENUM => Enum::decode(content)?.map(Value::Enum),
            DataType::ARRAY => Array::decode(content)?.map(Value::Array),
            DataType::BUFFER => Buffer::decode(content)?.map(Value::Buffer),
            DataType::ASCII_STRING => AsciiString::decode(content)?.map(Value::Ascii),
            DataType::UTF8_STRING => Utf8String::decode(content)?.map(Value::Utf8),
            DataType::RMTES_STRING => RmtesString::decode(content)?.map(Value::Rmtes),
            container if container.is_container() => {
                Some(content).filter(|c| !c.is_empty()).map(|c| Value::Container(container, c))
            }
            data_type => return Err(DecodeError::BadType { place: Place::Content, data_type }),
        };
        Ok(value.unwrap_or(Value::Blank(data_type.base())))
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
    fn no_content_is_the_blank_of_every_type() {
        for data_type in (0..=u8::MAX).map(DataType) {
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
