//! The Rust types that keys can have.

use crate::complaint::Complaints;
use crate::kind::{Kind, Length, TextFormat};
use crate::range::Number;
use crate::value::Value;

/// A Rust type that a key can have.
///
/// Implemented for `bool`, `u8` to `u64`, `usize`, `i8` to `i64`, `f64`, `String`, addresses, every
/// [`choice!`](crate::choice!) and [`section!`](crate::section!), and `Option` and `Vec` of these. A type
/// with a textual form joins by [`text_type!`](crate::text_type!). TOML's integers have 64 bits with a sign,
/// so that a `u64` or `usize` goes up to `i64::MAX`.
#[diagnostic::on_unimplemented(message = "`{Self}` cannot be the type of a configuration key")]
pub trait KeyType: Sized {
    /// The type as the schema knows it.
    fn kind() -> Kind;

    /// What a required key holds in `Default`, before anything has set it.
    fn vacant() -> Self;

    /// The typed value; `None` if `value` is not of this kind.
    fn from_value(value: &Value) -> Option<Self>;

    /// The value as the file would have it. `from_value` of it is `self` again.
    fn to_value(&self) -> Value;

    /// Runs the checks of the sections in this value, which stands at `path`.
    #[doc(hidden)]
    fn collect_complaints(&self, _path: &str, _complaints: &mut Complaints<'_>) {}
}

/// How the default of a key is written for it in [`section!`](crate::section!).
///
/// A string's default is a literal, a list's an array, an option's is `None`: the only one there is, since a
/// file has no way to say that a value is not set.
#[diagnostic::on_unimplemented(
    message = "`{D}` cannot be the default of a key of type `{Self}`",
    note = "strings have a literal, lists an array, options `None`"
)]
pub trait FromDefault<D>: Sized {
    /// The typed default.
    fn from_default(default: D) -> Self;
}

/// A type that needs no default in [`section!`](crate::section!): a section, or a list of sections.
#[diagnostic::on_unimplemented(
    message = "a key of type `{Self}` needs a default",
    note = "write `key: Type = default;`, or `key: Type, required;` if there can be none"
)]
pub trait Nested: Sized {
    /// All defaults, or the empty list.
    fn nested() -> Self;
}

/// Types of numbers, for which `range` has a meaning.
#[diagnostic::on_unimplemented(message = "`range` is for numbers; a key of type `{Self}` has none")]
pub trait Ranged {
    /// The number's type.
    type Number: Number;
}

/// Types for which `length` has a meaning: strings and lists.
#[diagnostic::on_unimplemented(
    message = "`length` is for strings and lists; a key of type `{Self}` has none"
)]
pub trait Measured {}

impl KeyType for bool {
    fn kind() -> Kind {
        Kind::Bool
    }
    fn vacant() -> Self {
        false
    }
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Bool(value) = value { Some(*value) } else { None }
    }
    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }
}

impl FromDefault<bool> for bool {
    fn from_default(default: bool) -> Self {
        default
    }
}

/// `$max` is the greatest value that both the type and a TOML integer hold.
macro_rules! integer_type {
    ($($ty:ty: $min:expr, $max:expr;)*) => { $(
        impl KeyType for $ty {
            fn kind() -> Kind {
                Kind::Integer { min: $min, max: $max }
            }
            fn vacant() -> Self {
                0
            }
            fn from_value(value: &Value) -> Option<Self> {
                if let Value::Integer(value) = value { <$ty>::try_from(*value).ok() } else { None }
            }
            fn to_value(&self) -> Value {
                Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
            }
        }
        impl FromDefault<$ty> for $ty {
            fn from_default(default: $ty) -> Self {
                default
            }
        }
        impl Ranged for $ty {
            type Number = $ty;
        }
        impl Number for $ty {
            fn narrow(kind: &mut Kind, least: Option<Self>, greatest: Option<Self>) {
                let Kind::Integer { min, max } = kind else { return };
                // Beyond the ends of a TOML integer there is nothing to allow.
                let end = |number: Self| i64::try_from(number).unwrap_or(i64::MAX);
                *min = least.map_or(*min, end);
                *max = greatest.map_or(*max, end);
            }
        }
    )* };
}

integer_type! {
    u8: 0, u8::MAX.into();
    u16: 0, u16::MAX.into();
    u32: 0, u32::MAX.into();
    u64: 0, i64::MAX;
    usize: 0, i64::MAX;
    i8: i8::MIN.into(), i8::MAX.into();
    i16: i16::MIN.into(), i16::MAX.into();
    i32: i32::MIN.into(), i32::MAX.into();
    i64: i64::MIN, i64::MAX;
}

impl KeyType for f64 {
    fn kind() -> Kind {
        Kind::Float { min: f64::MIN, max: f64::MAX }
    }
    fn vacant() -> Self {
        0.0
    }
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Float(value) = value { Some(*value) } else { None }
    }
    fn to_value(&self) -> Value {
        Value::Float(*self)
    }
}

impl FromDefault<f64> for f64 {
    fn from_default(default: f64) -> Self {
        default
    }
}

impl Ranged for f64 {
    type Number = f64;
}

impl Number for f64 {
    fn narrow(kind: &mut Kind, least: Option<Self>, greatest: Option<Self>) {
        let Kind::Float { min, max } = kind else { return };
        *min = least.unwrap_or(*min);
        *max = greatest.unwrap_or(*max);
    }
}

impl KeyType for String {
    fn kind() -> Kind {
        Kind::Text(TextFormat {
            noun: "a string",
            type_name: "string",
            check: |_| Ok(()),
            length: Length::ANY,
            takes_numbers: false,
        })
    }
    fn vacant() -> Self {
        String::new()
    }
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value { Some(text.clone()) } else { None }
    }
    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl FromDefault<&'static str> for String {
    fn from_default(default: &'static str) -> Self {
        default.to_owned()
    }
}

impl Measured for String {}

impl<T: KeyType> KeyType for Option<T> {
    fn kind() -> Kind {
        match T::kind() {
            Kind::Section { schema, .. } => Kind::Section { schema, optional: true },
            kind => Kind::Optional(Box::new(kind)),
        }
    }
    fn vacant() -> Self {
        None
    }
    fn from_value(value: &Value) -> Option<Self> {
        if *value == Value::Unset { Some(None) } else { T::from_value(value).map(Some) }
    }
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Unset, T::to_value)
    }
    fn collect_complaints(&self, path: &str, complaints: &mut Complaints<'_>) {
        self.iter().for_each(|value| value.collect_complaints(path, complaints));
    }
}

/// `None` alone: without a type, it is taken to be of this one, which has no other value.
impl<T: KeyType> FromDefault<Option<std::convert::Infallible>> for Option<T> {
    fn from_default(_none: Option<std::convert::Infallible>) -> Self {
        None
    }
}

impl<T: Ranged> Ranged for Option<T> {
    type Number = T::Number;
}

impl<T: Measured> Measured for Option<T> {}

impl<T: KeyType> KeyType for Vec<T> {
    fn kind() -> Kind {
        match T::kind() {
            Kind::Section { schema, .. } => Kind::Tables(schema),
            kind => Kind::List { item: Box::new(kind), length: Length::ANY },
        }
    }
    fn vacant() -> Self {
        Vec::new()
    }
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::List(items) = value { items.iter().map(T::from_value).collect() } else { None }
    }
    fn to_value(&self) -> Value {
        Value::List(self.iter().map(T::to_value).collect())
    }
    fn collect_complaints(&self, path: &str, complaints: &mut Complaints<'_>) {
        for (index, value) in self.iter().enumerate() {
            value.collect_complaints(&crate::path::below(path, &index.to_string()), complaints);
        }
    }
}

impl<D, T: FromDefault<D>, const N: usize> FromDefault<[D; N]> for Vec<T> {
    fn from_default(default: [D; N]) -> Self {
        default.map(T::from_default).into()
    }
}

impl<T: Ranged> Ranged for Vec<T> {
    type Number = T::Number;
}

impl<T> Measured for Vec<T> {}
