//! The ones' complement sum of the Internet protocols (RFC 1071).

/// A sum of 16-bit words as they lie in memory, whatever the byte order of the machine, not yet folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum(u64);

impl Sum {
    /// The sum of the words of `bytes`; a last odd byte is the first of a word whose second is zero.
    #[inline]
    pub(super) fn of(bytes: &[u8]) -> Sum {
        let (words, rest) = bytes.as_chunks::<8>();
        // Two 32-bit halves a turn leave the carries of 65,535 bytes room enough; it vectorises.
        let sum = words.iter().fold(0, |sum: u64, word| {
            let word = u64::from_ne_bytes(*word);
            sum + (word & 0xffff_ffff) + (word >> 32)
        });
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let last = u64::from_ne_bytes(last);
        Sum(sum + (last & 0xffff_ffff) + (last >> 32))
    }

    #[inline]
    pub(super) fn plus(self, other: Sum) -> Sum {
        Sum(self.0 + other.0)
    }

    /// With a word that is given as a number.
    #[inline]
    pub(super) fn plus_word(self, word: u16) -> Sum {
        Sum(self.0 + u64::from(word.to_be()))
    }

    /// The sum in 16 bits, as a number.
    #[inline]
    pub(super) fn folded(self) -> u16 {
        let mut sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        u16::from_be(sum as u16)
    }

    /// What stands in a header: the complement.
    #[inline]
    pub(super) fn checksum(self) -> u16 {
        !self.folded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word_by_word(bytes: &[u8]) -> u16 {
        let sum = bytes.chunks(2).fold(0u64, |sum, pair| {
            sum + u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]))
        });
        let mut sum = sum;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::of(&bytes).folded(), 0xddf2);
        assert_eq!(Sum::of(&bytes).checksum(), 0x220d);
    }

    #[test]
    fn every_length_sums_as_word_by_word() {
        let _repeat = testkit::repeat!();
        let mut rng = units::Rng::new(7);
        let bytes: Vec<u8> = (0..1600).map(|_| rng.next_u64() as u8).collect();
        for len in 0..bytes.len() {
            assert_eq!(Sum::of(&bytes[..len]).folded(), word_by_word(&bytes[..len]), "{len} bytes");
        }
        assert_eq!(Sum::of(&[0xff; 65_535]).folded(), word_by_word(&[0xff; 65_535]));
    }

    #[test]
    fn parts_add_up() {
        let whole = Sum::of(&[1, 2, 3, 4, 0xab, 0xcd]);
        assert_eq!(Sum::of(&[1, 2]).plus(Sum::of(&[3, 4])).plus_word(0xabcd).folded(), whole.folded());
    }
}
