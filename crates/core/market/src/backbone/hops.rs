use super::{BackboneError, Cursor, find_part};

/// When an update came to a hop and left it, by the clock of that host: nanoseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// It was read.
    pub came: u64,
    /// It was handed on.
    pub left: u64,
}

/// The hops that an update has passed: an optional part of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopTimes {
    /// The source distributor.
    pub distributor: Passage,
    /// The relay of a point-to-point server with shards.
    pub relay: Option<Passage>,
}

/// [`HopTimes`] as they stand in a header.
#[derive(Clone, Copy, Debug)]
pub struct HopPart {
    bytes: [u8; HopPart::BYTES_MAX],
    len: usize,
}

/// Type of the part.
const HOPS: u8 = 1;
/// Type and length.
const HEAD_BYTES: usize = 2;
const PASSAGE_BYTES: usize = 16;

impl HopPart {
    /// Bytes of the longest one, whole words.
    pub const BYTES_MAX: usize = (HEAD_BYTES + 2 * PASSAGE_BYTES).next_multiple_of(4);

    /// Bytes of the one that a source distributor writes.
    pub const DISTRIBUTOR_BYTES: usize = (HEAD_BYTES + PASSAGE_BYTES).next_multiple_of(4);

    /// The bytes, padded to words.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl HopTimes {
    /// Those among the optional parts of a header, if they are there.
    ///
    /// # Errors
    /// [`BackboneError::HopStamps`] for a part of another length than one or two hops have,
    /// [`BackboneError::Truncated`] for a part that runs past the header.
    pub fn of(parts: &[u8]) -> Result<Option<HopTimes>, BackboneError> {
        find_part(parts, HOPS)?.map(HopTimes::parse).transpose()
    }

    fn parse(data: &[u8]) -> Result<HopTimes, BackboneError> {
        if ![PASSAGE_BYTES, 2 * PASSAGE_BYTES].contains(&data.len()) {
            return Err(BackboneError::HopStamps(data.len()));
        }
        let mut data = Cursor::new(data);
        let distributor = Passage { came: data.u64()?, left: data.u64()? };
        let relay =
            if data.is_empty() { None } else { Some(Passage { came: data.u64()?, left: data.u64()? }) };
        Ok(HopTimes { distributor, relay })
    }

    /// The part of a header.
    #[inline]
    #[must_use]
    pub fn part(&self) -> HopPart {
        let mut bytes = [0; HopPart::BYTES_MAX];
        let mut put = |at: usize, passage: Passage| {
            bytes[at..at + 8].copy_from_slice(&passage.came.to_be_bytes());
            bytes[at + 8..at + PASSAGE_BYTES].copy_from_slice(&passage.left.to_be_bytes());
        };
        put(HEAD_BYTES, self.distributor);
        let mut len = PASSAGE_BYTES;
        if let Some(relay) = self.relay {
            put(HEAD_BYTES + PASSAGE_BYTES, relay);
            len += PASSAGE_BYTES;
        }
        (bytes[0], bytes[1]) = (HOPS, len as u8);
        HopPart { bytes, len: (HEAD_BYTES + len).next_multiple_of(4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backbone::{Kind, StreamMsg};

    const DISTRIBUTOR: Passage = Passage { came: 0x0102_0304_0506_0708, left: 9 };
    const RELAY: Passage = Passage { came: 10, left: u64::MAX };

    #[test]
    fn stamps_come_back_and_are_whole_words() {
        for relay in [None, Some(RELAY)] {
            let hops = HopTimes { distributor: DISTRIBUTOR, relay };
            let part = hops.part();
            assert_eq!(HopTimes::of(part.bytes()), Ok(Some(hops)));
            let msg = StreamMsg {
                kind: Kind::Update,
                instance: 1,
                sequence: 2,
                item: 3,
                parts: part.bytes(),
                body: b"body",
            };
            let bytes = [&msg.header()[..], msg.parts, msg.body].concat();
            assert_eq!(StreamMsg::parse(&bytes), Ok(msg));
            let mut room = [0; StreamMsg::HEADER_BYTES_MAX];
            assert_eq!([msg.header_and_parts(&mut room), msg.body].concat(), bytes);
        }
        assert_eq!(
            HopTimes { distributor: DISTRIBUTOR, relay: None }.part().bytes(),
            b"\x01\x10\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0\0\0\0\x09\0\0",
            "the bytes are those of the document"
        );
        assert_eq!((HopPart::DISTRIBUTOR_BYTES, HopPart::BYTES_MAX), (20, 36));
    }

    #[test]
    fn stamps_are_found_behind_other_parts() {
        let hops = HopTimes { distributor: DISTRIBUTOR, relay: None };
        let parts = [&b"\x7f\x05hello\0"[..], hops.part().bytes()].concat();
        assert_eq!(HopTimes::of(&parts), Ok(Some(hops)));
        assert_eq!(HopTimes::of(b"\x7f\x05hello\0"), Ok(None));
        assert_eq!((HopTimes::of(b""), HopTimes::of(b"\0\0\0\0")), (Ok(None), Ok(None)));
    }

    #[test]
    fn stamps_that_are_none_are_refused() {
        for len in (0..=255).filter(|len| ![16, 32].contains(len)) {
            let parts = [&[HOPS, len][..], &vec![1; len.into()]].concat();
            assert_eq!(HopTimes::of(&parts), Err(BackboneError::HopStamps(len.into())));
        }
        assert_eq!(HopTimes::of(b"\x01\x10abc"), Err(BackboneError::Truncated { need: 18, have: 5 }));
        assert_eq!(HopTimes::of(b"\x7f"), Err(BackboneError::Truncated { need: 2, have: 1 }));
    }
}
