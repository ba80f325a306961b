//! The declaration of a section.

use std::fmt::Debug;

use crate::key_type::{KeyType, Nested};
use crate::schema::Schema;

/// A struct that [`section!`](crate::section!) has declared.
#[diagnostic::on_unimplemented(message = "`{Self}` is not declared by `config::section!`")]
pub trait Section: KeyType + Default + Clone + Debug + PartialEq {
    /// Its keys: types, defaults, ranges, units, meaning.
    fn schema() -> Schema;
}

impl<S: Section> Nested for Vec<S> {
    fn nested() -> Self {
        Vec::new()
    }
}

/// Declares a section: a struct, its defaults, and its part of the schema, each key once.
///
/// ```
/// # use tickcast_config as config;
/// config::section! {
///     /// The point-to-point server.
///     pub struct P2psConfig {
///         /// Port on which RSSL consumers connect.
///         port: u16 = 14002, range 1..=65535;
///         /// How long an item stays subscribed upstream after its last watcher has left.
///         item_linger_ms: u64 = 5_000, range 0..=3_600_000;
///         /// Name that the server gives itself in logins.
///         name: String, required, length 1..=32;
///         /// Interfaces to listen on; all if there are none.
///         interfaces: Vec<String> = [];
///         /// Port of the status pages; none if it is not set.
///         admin_port: Option<u16> = None, range 1..=65535;
///         /// Services that are offered, `[[service]]` each.
///         #[key = "service"]
///         services: Vec<ServiceConfig>;
///     }
///     check = P2psConfig::check;
/// }
///
/// config::section! {
///     /// One service.
///     pub struct ServiceConfig {
///         /// Its name.
///         name: String, required;
///     }
/// }
///
/// impl P2psConfig {
///     fn check(&self) -> Result<(), Vec<config::Complaint>> {
///         if self.admin_port != Some(self.port) {
///             return Ok(());
///         }
///         Err(vec![config::Complaint::new(["admin_port", "port"], "admin_port and port must differ")])
///     }
/// }
///
/// assert_eq!(P2psConfig::default().port, 14002);
/// ```
///
/// - Doc comments are the documentation of the struct, of the display and of the reference page. The first
///   paragraph should say it in a sentence or two; the reference page has the rest as well.
/// - A key is `name: Type = default` and then words: `range a..=b` (or `a..`, `..=b`) for numbers, `length
///   a..=b` for strings (bytes) and lists (items). A key without a default says `required` first. Sections
///   and lists of sections have neither: each of their keys has its own.
/// - A section that uses another one may decide some of its keys itself: `provider: ProviderConfig, without
///   ["service"]`. The file cannot set these, and no page shows them.
/// - A unit stands at the end of the name: `_ns`, `_us`, `_ms`, `_s`, `_bytes`, `_percent`, `_per_second`,
///   `_bits_per_second` and more; messages and the reference page spell it out.
/// - `#[key = "..."]` gives the key another name in the file than the field has. A field `r#type` is the key
///   `type`.
/// - `check` names a `fn(&Self) -> Result<(), Vec<Complaint>>` for relations between keys. It runs when all
///   keys of the section, and of the sections in it, could be read.
/// - `presets` (after `check`) names a `&'static [PresetValues]`: values that count where nothing sets their
///   keys, chosen by the section's key `preset`.
/// - `renamed` (last) names a `&'static [(&str, &str)]`: former names of keys, and where each is now, as
///   `sub.key` if that is in a section within this one. A former name is refused with the present one.
///
/// A section has at least one key and cannot contain itself.
///
/// What has no meaning does not compile: a key with neither a default nor `required`,
///
/// ```compile_fail
/// # use tickcast_config as config;
/// config::section! {
///     /// A section.
///     pub struct Bad {
///         /// A key.
///         port: u16;
///     }
/// }
/// ```
///
/// a default that a file could not take back,
///
/// ```compile_fail
/// # use tickcast_config as config;
/// config::section! {
///     /// A section.
///     pub struct Bad {
///         /// A key.
///         port: Option<u16> = Some(14002);
///     }
/// }
/// ```
///
/// or a range of something that is not a number.
///
/// ```compile_fail
/// # use tickcast_config as config;
/// config::section! {
///     /// A section.
///     pub struct Bad {
///         /// A key.
///         name: String = "a", range 1..=5;
///     }
/// }
/// ```
#[macro_export]
macro_rules! section {
    (
        $(#[doc = $doc:expr])*
        $visibility:vis struct $name:ident {
            $(
                $(#[doc = $key_doc:expr])*
                $(#[key = $key_name:literal])?
                $field:ident : $ty:ty $(= $default:expr)? $(, $word:ident $($argument:expr)?)* ;
            )+
        }
        $(check = $check:path;)?
        $(presets = $presets:expr;)?
        $(renamed = $renamed:expr;)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        $visibility struct $name {
            $(
                $(#[doc = $key_doc])*
                $(#[doc = ::core::concat!("\n\nDefault: `", ::core::stringify!($default), "`.")])?
                pub $field: $ty,
            )*
        }

        impl ::core::default::Default for $name {
            fn default() -> Self {
                Self { $( $field: $crate::__section_default!($ty; $($default)?; $($word)*), )* }
            }
        }

        impl $crate::Section for $name {
            fn schema() -> $crate::Schema {
                let defaults = <Self as ::core::default::Default>::default();
                $crate::Schema::new(::core::concat!($($doc, "\n"),*))
                    $( .with(
                        $crate::KeyBuilder::<$ty>::new(
                            $crate::__section_key!($field $($key_name)?),
                            ::core::concat!($($key_doc, "\n"),*),
                            &defaults.$field,
                        )
                        $( .$word($($argument)?) )*
                    ) )*
                    $( .with_presets($presets) )?
                    $( .with_renamed($renamed) )?
            }
        }

        impl $crate::Nested for $name {
            fn nested() -> Self {
                <Self as ::core::default::Default>::default()
            }
        }

        impl $crate::KeyType for $name {
            fn kind() -> $crate::Kind {
                $crate::Kind::Section { schema: <Self as $crate::Section>::schema(), optional: false }
            }
            fn vacant() -> Self {
                <Self as ::core::default::Default>::default()
            }
            fn from_value(value: &$crate::Value) -> ::core::option::Option<Self> {
                let keys = value.as_section()?;
                let mut section = <Self as ::core::default::Default>::default();
                $( if let ::core::option::Option::Some(value) =
                    keys.get($crate::plain_name($crate::__section_key!($field $($key_name)?)))
                {
                    section.$field = <$ty as $crate::KeyType>::from_value(value)?;
                } )*
                ::core::option::Option::Some(section)
            }
            fn to_value(&self) -> $crate::Value {
                $crate::Value::Section(::std::collections::BTreeMap::from([ $( (
                    $crate::plain_name($crate::__section_key!($field $($key_name)?)).to_owned(),
                    <$ty as $crate::KeyType>::to_value(&self.$field),
                ), )* ]))
            }
            fn collect_complaints(&self, path: &str, complaints: &mut $crate::Complaints<'_>) {
                $( <$ty as $crate::KeyType>::collect_complaints(
                    &self.$field,
                    &$crate::Complaints::below(path, $crate::plain_name($crate::__section_key!($field $($key_name)?))),
                    complaints,
                ); )*
                $( complaints.check(path, || $check(self)); )?
            }
        }
    };
}

/// The default of a key: what is written, or nothing if the key is required or a section.
#[doc(hidden)]
#[macro_export]
macro_rules! __section_default {
    ($ty:ty; $default:expr; required $($word:ident)*) => {
        ::core::compile_error!("a key has a default or is `required`, not both")
    };
    ($ty:ty; ; required $($word:ident)*) => {
        <$ty as $crate::KeyType>::vacant()
    };
    ($ty:ty; ; $($word:ident)*) => {
        <$ty as $crate::Nested>::nested()
    };
    ($ty:ty; $default:expr; $($word:ident)*) => {
        <$ty as $crate::FromDefault<_>>::from_default($default)
    };
}

/// The name of a key as written, before `r#` is taken off.
#[doc(hidden)]
#[macro_export]
macro_rules! __section_key {
    ($field:ident) => {
        ::core::stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}
