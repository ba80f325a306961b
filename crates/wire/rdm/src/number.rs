/// A number on the wire of which some values have a standard meaning and any may appear.
macro_rules! open_numbers {
    ($(#[$doc:meta])* $name:ident($number:ty); $($value:literal $constant:ident $text:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $number);

        impl $name {
            $(
                #[doc = concat!(stringify!($value), ": ", $text, ".")]
                pub const $constant: $name = $name($value);
            )*
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.0 {
                    $($value => f.write_str($text),)*
                    other => write!(f, "{other}"),
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(crate) use open_numbers;
