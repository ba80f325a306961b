use rwf::{Hint, Real};

use super::text::{DIGITS_MAX, INFINITY, NAN, NEGATIVE_INFINITY, Text, digits};

/// Zeros to write behind a mantissa, and to put between the point and its digits.
const ZEROS: &[u8; 16] = b"0000000000000000";

impl Text<'_> {
    /// The exact value in plain decimal: as many decimals as the hint says, for fractions as many as the
    /// value needs; zero is `0` whatever the hint.
    #[inline]
    pub(crate) fn real(&mut self, real: Real) {
        match real {
            Real::Finite { mantissa: 0, .. } => self.raw(b"0"),
            Real::Finite { mantissa, hint } => {
                if mantissa < 0 {
                    self.raw(b"-");
                }
                self.scaled(mantissa.unsigned_abs(), hint);
            }
            Real::Infinity => self.word(INFINITY),
            Real::NegativeInfinity => self.word(NEGATIVE_INFINITY),
            Real::NotANumber => self.word(NAN),
        }
    }

    #[inline]
    fn scaled(&mut self, mantissa: u64, hint: Hint) {
        match hint.exponent() {
            Some(exponent @ 0..) => {
                self.uint(mantissa);
                self.raw(&ZEROS[..exponent.unsigned_abs() as usize]);
            }
            Some(exponent) => self.decimal(mantissa, exponent.unsigned_abs() as usize),
            None => self.fraction(mantissa, hint.denominator_bits().unwrap_or(0)),
        }
    }

    /// `mantissa` with its last `decimals` digits behind the point. The point is put among the digits where
    /// they are, so that there is one copy.
    #[inline]
    fn decimal(&mut self, mantissa: u64, decimals: usize) {
        let mut buffer = [b'0'; DIGITS_MAX];
        let mut at = digits(&mut buffer, DIGITS_MAX, mantissa);
        let point = DIGITS_MAX - 1 - decimals;
        // One digit at least stands in front of the point; those that the mantissa lacks are zeros already.
        at = at.min(point);
        buffer.copy_within(at..=point, at - 1);
        buffer[point] = b'.';
        self.raw(&buffer[at - 1..]);
    }

    /// `mantissa` / 2^`bits`, which is `mantissa` × 5^`bits` / 10^`bits`.
    fn fraction(&mut self, mantissa: u64, bits: u32) {
        let whole = mantissa >> bits;
        let rest = mantissa & ((1 << bits) - 1);
        self.uint(whole);
        if rest == 0 {
            return;
        }
        // At most 255 × 390625, so there is no way to overflow.
        let (mut decimals, mut width) = (rest * 5u64.pow(bits), bits as usize);
        while decimals.is_multiple_of(10) {
            decimals /= 10;
            width -= 1;
        }
        let mut buffer = [b'0'; DIGITS_MAX];
        digits(&mut buffer, DIGITS_MAX, decimals);
        buffer[DIGITS_MAX - width - 1] = b'.';
        self.raw(&buffer[DIGITS_MAX - width - 1..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(mantissa: i64, hint: u8) -> String {
        let mut out = Vec::new();
        Text::new(&mut out).real(Real::new(mantissa, Hint::new(hint).expect("a legal hint")));
        String::from_utf8(out).expect("digits")
    }

    #[test]
    fn every_hint_writes_what_the_real_prints() {
        let mantissas = [1, 9, 10, 99, 100, 255, 256, 12_345, 123_456_789_012_345, i64::MAX];
        for hint in 0..=30 {
            for mantissa in mantissas.into_iter().flat_map(|m| [m, -m]).chain([i64::MIN]) {
                let real = Real::new(mantissa, Hint::new(hint).expect("a legal hint"));
                assert_eq!(written(mantissa, hint), real.to_string(), "{mantissa} with hint {hint}");
            }
            assert_eq!(written(0, hint), "0");
        }
    }

    #[test]
    fn zeros_behind_the_point_are_kept_and_those_of_fractions_cut() {
        assert_eq!(written(3970, 12), "39.70");
        assert_eq!(written(10, 0), "0.00000000000010");
        assert_eq!(written(1929, 30), "7.53515625");
        assert_eq!(written(12, 21), "120000000");
    }
}
