//! Packets as bytes: views that are checked once, and their emitters.
//!
//! Every integer on the wire is big-endian. A view borrows the datagram; what a view was built from has
//! been checked to the last length, so its accessors cannot fail. Emitting a parsed value gives the same
//! bytes again (`tests/golden.rs`). The layouts are those that Wireshark's dissectors for the family
//! accept.

pub mod extension;
pub mod lbmc;
pub mod lbmr;
pub mod lbtrm;
pub mod lbtru;
pub mod list;

use crate::error::{Part, WireError};

/// The four bytes of a header from `at` on.
#[inline]
pub(crate) fn word<const N: usize>(header: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// Copies of a datagram, cut anywhere, with up to three bits flipped.
#[cfg(test)]
pub(crate) fn damaged(whole: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut rng = units::Rng::new(1);
    (0..20_000).map(move |round| {
        let mut datagram = whole[..rng.below(whole.len() as u64 + 1) as usize].to_vec();
        for _ in 0..round % 4 {
            let at = rng.below(datagram.len().max(1) as u64) as usize;
            if let Some(byte) = datagram.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        datagram
    })
}

/// Reads a part of a packet front to back; every read is checked.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    part: Part,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], part: Part) -> Reader<'a> {
        Reader { bytes, at: 0, part }
    }

    /// Names the part that the next reads belong to.
    pub(crate) fn part(&mut self, part: Part) {
        self.part = part;
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    #[inline]
    pub(crate) fn take(&mut self, need: usize) -> Result<&'a [u8], WireError> {
        let have = self.left();
        if need > have {
            return Err(WireError::Truncated { part: self.part, at: self.at, need, have });
        }
        let taken = &self.bytes[self.at..self.at + need];
        self.at += need;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        Ok(*self.take(N)?.first_chunk().expect("take returns as many bytes as asked"))
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A string that ends with a zero byte; the zero is consumed and not returned.
    pub(crate) fn zero_terminated(&mut self) -> Result<&'a [u8], WireError> {
        let rest = self.rest();
        let Some(len) = rest.iter().position(|&b| b == 0) else {
            return Err(WireError::Unterminated { part: self.part, at: self.at });
        };
        self.at += len + 1;
        Ok(&rest[..len])
    }

    /// Refuses bytes after the last read.
    pub(crate) fn end(&self) -> Result<(), WireError> {
        match self.left() {
            0 => Ok(()),
            extra => Err(WireError::Trailing { part: self.part, at: self.at, extra }),
        }
    }
}
