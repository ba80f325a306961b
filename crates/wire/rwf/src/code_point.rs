/// A number on the wire of which some values have a standard meaning and any may appear.
macro_rules! code_points {
    ($(#[$doc:meta])* $name:ident, $other:literal; $($number:literal $code:ident $text:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u8);

        impl $name {
            $(
                #[doc = concat!(stringify!($number), ": ", $text, ".")]
                pub const $code: $name = $name($number);
            )*

            /// The meaning, `None` for a number without a standard one.
            #[must_use]
            pub const fn text(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.text() {
                    Some(text) => f.write_str(text),
                    None => write!(f, concat!($other, " {}"), self.0),
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
pub(crate) use code_points;
