//! The ranges that keys declare: `1..=65535`, `1..`, `..=10`.

use std::ops::{RangeFrom, RangeInclusive, RangeToInclusive};

use crate::kind::Kind;

/// A number type that keys can have.
pub trait Number: Copy + PartialOrd {
    /// Narrows `kind` to what lies from `min` to `max`.
    #[doc(hidden)]
    fn narrow(kind: &mut Kind, min: Option<Self>, max: Option<Self>);
}

/// A range of `N` with each end included or absent.
#[diagnostic::on_unimplemented(
    message = "a range is written `a..=b`, `a..` or `..=b`, of the key's own number type"
)]
pub trait KeyRange<N> {
    /// Narrows `kind` to the range.
    #[doc(hidden)]
    fn narrow(self, kind: &mut Kind);
}

impl<N: Number> KeyRange<N> for RangeInclusive<N> {
    fn narrow(self, kind: &mut Kind) {
        N::narrow(kind, Some(*self.start()), Some(*self.end()));
    }
}

impl<N: Number> KeyRange<N> for RangeFrom<N> {
    fn narrow(self, kind: &mut Kind) {
        N::narrow(kind, Some(self.start), None);
    }
}

impl<N: Number> KeyRange<N> for RangeToInclusive<N> {
    fn narrow(self, kind: &mut Kind) {
        N::narrow(kind, None, Some(self.end));
    }
}
