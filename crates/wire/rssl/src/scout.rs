use crate::frame::{self, FragmentIds, Frame, PackedMessages};

/// Runs ahead of who reads an input: gives the messages in it that are neither fragmented nor compressed. It ends before a
/// frame that is cut off, or that is not what it should be.
#[derive(Debug)]
pub(crate) struct Scout<'a> {
    /// Begins with a frame.
    input: &'a [u8],
    packed: PackedMessages<'a>,
    limit_bytes: u16,
    ids: FragmentIds,
}

impl<'a> Scout<'a> {
    pub(crate) fn new(input: &'a [u8], limit_bytes: u16, ids: FragmentIds) -> Scout<'a> {
        Scout { input, packed: PackedMessages::default(), limit_bytes, ids }
    }

    /// The next message of the packed ones, or the next frame's.
    fn step(&mut self) -> Option<Option<&'a [u8]>> {
        if let Some(message) = self.packed.next() {
            return message.ok().map(Some);
        }
        let length = frame::length_of(*self.input.first_chunk()?, self.limit_bytes).ok()?;
        let (frame, rest) = self.input.split_at_checked(length)?;
        self.input = rest;
        match Frame::parse(frame, self.ids).ok()? {
            Frame::Message(message) => return Some(Some(message)),
            Frame::Packed(messages) => self.packed = messages,
            Frame::Ping | Frame::First { .. } | Frame::Next { .. } | Frame::Compressed { .. } => {}
        }
        Some(None)
    }
}

impl<'a> Iterator for Scout<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if let Some(message) = self.step()? {
                return Some(message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u16 = 64;

    fn seen(input: &[u8]) -> Vec<Vec<u8>> {
        Scout::new(input, LIMIT, FragmentIds::TwoBytes).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn messages_are_seen_alone_and_packed_and_pings_are_passed() {
        let alone = [0, 5, 2, 7, 8];
        let ping = [0, 3, 2];
        let packed = [0, 10, 0x12, 0, 1, 9, 0, 2, 10, 11];
        let input = [&alone[..], &ping, &packed, &ping, &alone].concat();
        assert_eq!(seen(&input), [&[7, 8][..], &[9], &[10, 11], &[7, 8]]);
        for cut in 0..input.len() {
            let whole = seen(&input[..cut]);
            assert_eq!(whole[..], seen(&input)[..whole.len()], "cut at {cut}");
        }
    }

    #[test]
    fn it_ends_where_a_frame_is_not_what_it_should_be() {
        let alone = [0, 4, 2, 7];
        for bad in [&[0, 2, 2][..], &[0, 65, 2], &[0, 3, 0xff], &[0, 7, 0x12, 0, 9, 1, 1]] {
            let input = [&alone[..], bad, &alone].concat();
            assert_eq!(seen(&input), [[7]], "{bad:x?}");
        }
        assert_eq!(seen(&[]), Vec::<Vec<u8>>::new());
    }
}
