use std::fmt;
use std::str::FromStr;

/// A decimal number exactly as a venue wrote it: 61837.63000000 is 6183763000000 with eight decimals.
///
/// Numbers are compared by value, so 1.50 equals 1.5.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decimal {
    /// The digits, without the point.
    pub mantissa: i64,
    /// How many of them stand behind the point.
    pub decimals: u8,
}

/// Text that is not a decimal number this type can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalError {
    /// No digit, or a byte that is none.
    NotANumber,
    /// More digits than 63 bits hold, or more than 14 behind the point (the most an RWF Real can say).
    TooLong,
}

impl fmt::Display for DecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecimalError::NotANumber => "not a decimal number",
            DecimalError::TooLong => "more than 14 decimals or 18 digits",
        })
    }
}

impl std::error::Error for DecimalError {}

/// Most decimals an RWF Real can express (hint 0 is 10^-14).
const DECIMALS_MAX: usize = 14;

impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Decimal, DecimalError> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (whole, behind) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && behind.is_empty() {
            return Err(DecimalError::NotANumber);
        }
        if behind.len() > DECIMALS_MAX {
            return Err(DecimalError::TooLong);
        }
        let mut mantissa = 0i64;
        for digit in whole.bytes().chain(behind.bytes()) {
            if !digit.is_ascii_digit() {
                return Err(DecimalError::NotANumber);
            }
            mantissa = mantissa
                .checked_mul(10)
                .and_then(|m| m.checked_add(i64::from(digit - b'0')))
                .ok_or(DecimalError::TooLong)?;
        }
        let negative = digits.len() != text.len();
        Ok(Decimal { mantissa: if negative { -mantissa } else { mantissa }, decimals: behind.len() as u8 })
    }
}

impl Decimal {
    /// Whether the value is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    /// The sum, with the decimals of the finer of the two; `None` if 63 bits do not hold it.
    #[must_use]
    pub fn checked_add(self, other: Decimal) -> Option<Decimal> {
        let decimals = self.decimals.max(other.decimals);
        let mantissa = self.scaled(decimals)?.checked_add(other.scaled(decimals)?)?;
        Some(Decimal { mantissa, decimals })
    }

    fn scaled(self, decimals: u8) -> Option<i64> {
        self.mantissa.checked_mul(10i64.checked_pow(u32::from(decimals - self.decimals))?)
    }

    fn exact(self) -> i128 {
        i128::from(self.mantissa) * 10i128.pow((DECIMALS_MAX as u32).saturating_sub(self.decimals.into()))
    }
}

/// As the venue writes it, all decimals shown.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let (digits, decimals) = (self.mantissa.unsigned_abs(), usize::from(self.decimals));
        if decimals == 0 {
            return write!(f, "{sign}{digits}");
        }
        let unit = 10u64.pow(u32::from(self.decimals));
        write!(f, "{sign}{}.{:0decimals$}", digits / unit, digits % unit)
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.exact() == other.exact()
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> std::cmp::Ordering {
        self.exact().cmp(&other.exact())
    }
}

impl std::hash::Hash for Decimal {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.exact().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Decimal {
        text.parse().expect(text)
    }

    #[test]
    fn digits_are_kept_as_written() {
        let price = of("61837.63000000");
        assert_eq!((price.mantissa, price.decimals), (6_183_763_000_000, 8));
        assert_eq!((of("-0.5").mantissa, of("35").decimals, of(".5").mantissa), (-5, 0, 5));
        for text in ["61837.63000000", "-0.05", "35", "0.00000000", "92233720368547.75807"] {
            assert_eq!(of(text).to_string(), text);
        }
    }

    #[test]
    fn equal_values_are_equal_however_written() {
        assert_eq!(of("1.50"), of("1.5"));
        assert!(of("2683.80") < of("2683.81000000"));
        assert!(of("0.00000000").is_zero());
    }

    #[test]
    fn sums_are_exact() {
        let sum = of("0.1").checked_add(of("0.20")).expect("small");
        assert_eq!((sum.mantissa, sum.decimals), (30, 2));
        assert_eq!(of("9223372036854775807").checked_add(of("1")), None);
        assert_eq!(of("9223372036854775807").checked_add(of("0.1")), None);
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "-", ".", "1,5", "1.2.3", "+1", "0x1", "1e5"] {
            assert_eq!(text.parse::<Decimal>(), Err(DecimalError::NotANumber), "{text}");
        }
        assert_eq!("1.000000000000001".parse::<Decimal>(), Err(DecimalError::TooLong));
        assert_eq!("99999999999999999999".parse::<Decimal>(), Err(DecimalError::TooLong));
    }
}
