use std::fmt;

/// A 32-bit sequence number that wraps: LBT transport numbers and LBMC topic numbers.
///
/// Two numbers are compared by their distance, as RFC 1982 does it: `a` precedes `b` when `b - a`, taken
/// modulo 2^32, lies in 1..2^31. The order is total only within half the circle, so there is no `Ord`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sqn(pub u32);

impl Sqn {
    /// The number after this one.
    #[inline]
    #[must_use]
    pub fn next(self) -> Sqn {
        self.plus(1)
    }

    /// The number before this one.
    #[inline]
    #[must_use]
    pub fn prev(self) -> Sqn {
        Sqn(self.0.wrapping_sub(1))
    }

    /// The number `n` places further.
    #[inline]
    #[must_use]
    pub fn plus(self, n: u32) -> Sqn {
        Sqn(self.0.wrapping_add(n))
    }

    /// Whether this number comes before `other`.
    #[inline]
    #[must_use]
    pub fn precedes(self, other: Sqn) -> bool {
        self.distance_to(other) > 0
    }

    /// How many places `other` lies further: negative when it lies behind.
    #[inline]
    #[must_use]
    pub fn distance_to(self, other: Sqn) -> i32 {
        other.0.wrapping_sub(self.0) as i32
    }
}

impl fmt::Debug for Sqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for Sqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_holds_across_the_wrap() {
        let last = Sqn(u32::MAX);
        assert!(last.precedes(Sqn(0)));
        assert!(!Sqn(0).precedes(last));
        assert_eq!(last.distance_to(Sqn(4)), 5);
        assert_eq!(Sqn(4).distance_to(last), -5);
        assert_eq!(last.next(), Sqn(0));
        assert_eq!(Sqn(0).prev(), last);
    }

    #[test]
    fn a_number_does_not_precede_itself() {
        assert!(!Sqn(7).precedes(Sqn(7)));
    }
}
