//! The declaration of a choice.

/// Declares an enum whose variants have names in the file.
///
/// ```
/// # use tickcast_config as config;
/// config::choice! {
///     /// How a thread waits for work.
///     pub enum WaitStrategy {
///         /// Polls without pause: least latency, one core each.
///         BusySpin = "busy-spin",
///         /// Sleeps in the system until there is work.
///         Block = "block",
///     }
/// }
///
/// assert_eq!(WaitStrategy::BusySpin.name(), "busy-spin");
/// assert_eq!(WaitStrategy::Block.to_string(), "block");
/// ```
///
/// The doc comments of the variants go to the reference page. A choice has no `Default` of its own: each key
/// that has it as its type states one.
#[macro_export]
macro_rules! choice {
    (
        $(#[doc = $doc:expr])*
        $visibility:vis enum $name:ident {
            $( $(#[doc = $choice_doc:expr])* $variant:ident = $text:literal ),+ $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $visibility enum $name {
            $( $(#[doc = $choice_doc])* $variant, )+
        }

        impl $name {
            /// All choices, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// The name in the file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $text, )+
                }
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl $crate::FromDefault<$name> for $name {
            fn from_default(default: $name) -> Self {
                default
            }
        }

        impl $crate::KeyType for $name {
            fn kind() -> $crate::Kind {
                $crate::Kind::Choice(&[$(
                    $crate::ChoiceName { name: $text, doc: ::core::concat!($($choice_doc, "\n"),*) },
                )+])
            }
            fn vacant() -> Self {
                Self::ALL[0]
            }
            fn from_value(value: &$crate::Value) -> ::core::option::Option<Self> {
                let $crate::Value::Text(text) = value else { return ::core::option::Option::None };
                Self::ALL.iter().copied().find(|choice| choice.name() == text)
            }
            fn to_value(&self) -> $crate::Value {
                $crate::Value::Text(self.name().to_owned())
            }
        }
    };
}
