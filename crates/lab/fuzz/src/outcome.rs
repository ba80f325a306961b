use std::fmt::{self, Write};

/// What became of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// It was taken for what it was meant to be; else it was refused.
    pub accepted: bool,
    /// What it led to, roughly: inputs of another feature are worth keeping.
    pub feature: u64,
}

impl Outcome {
    /// Taken; `shape` tells inputs apart that took another way.
    pub(crate) fn accepted(shape: impl fmt::Debug) -> Outcome {
        Outcome { accepted: true, feature: feature(&shape) }
    }

    /// Refused for a reason.
    pub(crate) fn refused(error: impl fmt::Debug) -> Outcome {
        Outcome { accepted: false, feature: feature(&error) }
    }

    /// Refused, or taken with a shape that `shape` makes of the result.
    pub(crate) fn of<T, E: fmt::Debug, S: fmt::Debug>(
        result: &Result<T, E>,
        shape: impl FnOnce(&T) -> S,
    ) -> Outcome {
        match result {
            Ok(value) => Outcome::accepted(shape(value)),
            Err(error) => Outcome::refused(error),
        }
    }
}

/// The digest of how a value prints, but for its numbers, of which only the count of digits matters.
fn feature(value: &impl fmt::Debug) -> u64 {
    let mut digest = Digest(FNV_OFFSET);
    write!(digest, "{value:?}").expect("a digest takes everything");
    digest.0
}

/// FNV-1a.
struct Digest(u64);

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let byte = if byte.is_ascii_digit() { b'0' } else { byte };
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_the_kind_of_outcome_and_not_its_numbers() {
        let error = |place: &str, number: u32| Outcome::refused((place, number));
        assert_eq!(error("map", 12), error("map", 98));
        assert_ne!(error("map", 12), error("series", 12));
        assert_ne!(error("map", 12), error("map", 123));
        assert!(Outcome::accepted(0).accepted && !error("map", 1).accepted);
    }
}
