use crate::error::clip;
use crate::{DecodeError, Place};

type Result<T> = std::result::Result<T, DecodeError>;

/// A cursor over bytes from the wire. Every step checks its length; none can panic.
///
/// The names of the length forms are those of the format: `u15rb` (one byte below 0x80, else two with the top
/// bit set), `u16ob` (one byte below 0xFE, else 0xFE and two bytes), `u30rb` (two bits of size, 1 to 4
/// bytes). Long forms of short lengths are legal and common.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    /// What has not been read yet.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize, place: Place) -> Result<&'a [u8]> {
        match self.bytes.split_at_checked(length) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => Err(self.truncated(length, place)),
        }
    }

    #[inline]
    pub(crate) fn chunk<const N: usize>(&mut self, place: Place) -> Result<&'a [u8; N]> {
        match self.bytes.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => Err(self.truncated(N, place)),
        }
    }

    #[cold]
    pub(crate) fn truncated(&self, need: usize, place: Place) -> DecodeError {
        DecodeError::Truncated { place, need_bytes: clip(need), have_bytes: clip(self.bytes.len()) }
    }

    #[inline]
    pub(crate) fn u8(&mut self, place: Place) -> Result<u8> {
        Ok(self.chunk::<1>(place)?[0])
    }

    #[inline]
    pub(crate) fn u16(&mut self, place: Place) -> Result<u16> {
        Ok(u16::from_be_bytes(*self.chunk(place)?))
    }

    #[inline]
    pub(crate) fn i16(&mut self, place: Place) -> Result<i16> {
        Ok(i16::from_be_bytes(*self.chunk(place)?))
    }

    #[inline]
    pub(crate) fn u32(&mut self, place: Place) -> Result<u32> {
        Ok(u32::from_be_bytes(*self.chunk(place)?))
    }

    #[inline]
    pub(crate) fn i32(&mut self, place: Place) -> Result<i32> {
        Ok(i32::from_be_bytes(*self.chunk(place)?))
    }

    #[inline]
    pub(crate) fn u15rb(&mut self, place: Place) -> Result<u16> {
        let first = self.u8(place)?;
        if first < 0x80 {
            return Ok(u16::from(first));
        }
        let second = self.u8(place)?;
        Ok(u16::from_be_bytes([first & 0x7F, second]))
    }

    /// 0xFF in front is not in use; it is read as the one-byte value that no encoder writes, and refused.
    #[inline]
    pub(crate) fn u16ob(&mut self, place: Place) -> Result<u16> {
        match self.u8(place)? {
            0xFE => self.u16(place),
            0xFF => Err(DecodeError::BadLength { place, length: 0xFF, max: 0xFE }),
            short => Ok(u16::from(short)),
        }
    }

    #[inline]
    pub(crate) fn u30rb(&mut self, place: Place) -> Result<u32> {
        let first = self.u8(place)?;
        let top = first & 0x3F;
        Ok(match first >> 6 {
            0 => u32::from(top),
            2 => u32::from_be_bytes([0, 0, top, self.u8(place)?]),
            1 => {
                let [b, c] = *self.chunk(place)?;
                u32::from_be_bytes([0, top, b, c])
            }
            _ => {
                let [b, c, d] = *self.chunk(place)?;
                u32::from_be_bytes([top, b, c, d])
            }
        })
    }

    #[inline]
    pub(crate) fn buf8(&mut self, place: Place) -> Result<&'a [u8]> {
        let length = self.u8(place)?;
        self.take(usize::from(length), place)
    }

    #[inline]
    pub(crate) fn buf15(&mut self, place: Place) -> Result<&'a [u8]> {
        let length = self.u15rb(place)?;
        self.take(usize::from(length), place)
    }

    #[inline]
    pub(crate) fn buf16(&mut self, place: Place) -> Result<&'a [u8]> {
        let length = self.u16ob(place)?;
        self.take(usize::from(length), place)
    }

    /// A container type named by a header byte.
    #[inline]
    pub(crate) fn container_type(&mut self, place: Place) -> Result<crate::DataType> {
        let byte = self.u8(place)?;
        crate::DataType::from_container_byte(byte).ok_or(DecodeError::BadValue {
            place,
            value: u32::from(byte),
            max: 0x7F,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Place = Place::Content;

    #[test]
    fn short_and_long_forms_of_a_length_mean_the_same() {
        for bytes in [&[5u8][..], &[0x80, 5]] {
            assert_eq!(Reader::new(bytes).u15rb(P), Ok(5));
        }
        for bytes in [&[5u8][..], &[0xFE, 0, 5]] {
            assert_eq!(Reader::new(bytes).u16ob(P), Ok(5));
        }
        for bytes in [&[5u8][..], &[0x80, 5], &[0x40, 0, 5], &[0xC0, 0, 0, 5]] {
            assert_eq!(Reader::new(bytes).u30rb(P), Ok(5));
        }
    }

    #[test]
    fn the_unused_length_byte_ff_is_refused() {
        let refused = Err(DecodeError::BadLength { place: P, length: 0xFF, max: 0xFE });
        assert_eq!(Reader::new(&[0xFF, 0, 1]).u16ob(P), refused);
    }

    #[test]
    fn a_length_past_the_end_is_an_error_that_says_how_much_is_missing() {
        let mut reader = Reader::new(&[4, 1, 2, 3]);
        assert_eq!(reader.buf8(P), Err(DecodeError::Truncated { place: P, need_bytes: 4, have_bytes: 3 }));
        for bytes in [&[][..], &[0x80], &[0xFE, 1], &[0x40, 0]] {
            assert!(Reader::new(bytes).u30rb(P).is_err(), "{bytes:?}");
        }
    }
}
