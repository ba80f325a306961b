use crate::PeerError;
use crate::frame::HEADER_BYTES;

/// Cuts a byte stream into its frames, straight from the bytes the driver has read.
///
/// Only the piece of a frame whose rest has not arrived is copied, so what is held is never more than one
/// frame. The messages of the handshake start with a length as frames do and are cut the same way.
#[derive(Debug, Default)]
pub(crate) struct CarryOver {
    held: Vec<u8>,
    /// `held` is a whole frame that was handed out: it goes with the next call.
    handed_out: bool,
    /// Something was held since the last [`CarryOver::trim`].
    used: bool,
    carried_bytes: u64,
}

impl CarryOver {
    /// The next whole frame; `None` when all of `input` is used up.
    ///
    /// `length_of` tells the length of a frame from its first bytes, at least [`HEADER_BYTES`] and at most
    /// what may be held. Bytes that belong to the frame are taken from `input`.
    #[inline]
    pub(crate) fn next<'f, 'i: 'f>(
        &'f mut self,
        input: &mut &'i [u8],
        length_of: impl Fn([u8; HEADER_BYTES]) -> Result<usize, PeerError>,
    ) -> Result<Option<&'f [u8]>, PeerError> {
        if !self.held.is_empty() {
            if !self.handed_out {
                return self.next_from_held(input, length_of);
            }
            self.held.clear();
            self.handed_out = false;
        }
        let Some(&start) = input.first_chunk() else { return Ok(self.hold(input, 0)) };
        let length = length_of(start)?;
        let Some((frame, rest)) = input.split_at_checked(length) else { return Ok(self.hold(input, length)) };
        *input = rest;
        Ok(Some(frame))
    }

    /// Whether nothing of an unfinished frame is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty() || self.handed_out
    }

    /// Bytes copied since this was last asked.
    pub(crate) fn take_carried_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.carried_bytes)
    }

    /// Gives the memory back if it was not needed since the last call.
    pub(crate) fn trim(&mut self) {
        if self.is_empty() && !self.used {
            *self = CarryOver { carried_bytes: self.carried_bytes, ..CarryOver::default() };
        }
        self.used = false;
    }

    /// Heap memory in use.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Keeps all of `input`, the start of a frame of `length` bytes (0: not known yet).
    fn hold(&mut self, input: &mut &[u8], length: usize) -> Option<&'static [u8]> {
        if units::planted(units::Bug::DropsCutHeaders) && length == 0 {
            *input = &[];
        }
        if !input.is_empty() {
            self.held.reserve_exact(length);
            self.take(input, input.len());
        }
        None
    }

    fn next_from_held(
        &mut self,
        input: &mut &[u8],
        length_of: impl Fn([u8; HEADER_BYTES]) -> Result<usize, PeerError>,
    ) -> Result<Option<&[u8]>, PeerError> {
        self.take(input, HEADER_BYTES);
        let Some(&start) = self.held.first_chunk() else { return Ok(None) };
        let length = length_of(start)?;
        self.held.reserve_exact(length - self.held.len());
        self.take(input, length);
        if self.held.len() < length {
            return Ok(None);
        }
        self.handed_out = true;
        Ok(Some(&self.held))
    }

    /// Moves bytes from `input` until `length` are held or the input is used up.
    fn take(&mut self, input: &mut &[u8], length: usize) {
        let missing = length.saturating_sub(self.held.len());
        let (piece, rest) = input.split_at(missing.min(input.len()));
        self.held.extend_from_slice(piece);
        *input = rest;
        self.used = true;
        self.carried_bytes += piece.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::length_of;

    fn limit_64(start: [u8; 3]) -> Result<usize, PeerError> {
        length_of(start, 64).map_err(PeerError::from)
    }

    fn cut(carry: &mut CarryOver, mut input: &[u8]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(frame) = carry.next(&mut input, limit_64).expect("the lengths are within the limit") {
            frames.push(frame.to_vec());
        }
        assert!(input.is_empty());
        frames
    }

    const STREAM: [u8; 12] = [0, 5, 2, 1, 1, 0, 3, 2, 0, 4, 2, 9];

    #[test]
    fn whole_frames_are_not_copied() {
        let mut carry = CarryOver::default();
        assert_eq!(cut(&mut carry, &STREAM), [&STREAM[..5], &STREAM[5..8], &STREAM[8..]]);
        assert_eq!((carry.take_carried_bytes(), carry.memory_bytes()), (0, 0));
    }

    #[test]
    fn every_cut_into_three_pieces_gives_the_same_frames() {
        for first in 0..=STREAM.len() {
            for second in first..=STREAM.len() {
                let mut carry = CarryOver::default();
                let mut frames = cut(&mut carry, &STREAM[..first]);
                frames.extend(cut(&mut carry, &STREAM[first..second]));
                frames.extend(cut(&mut carry, &STREAM[second..]));
                assert_eq!(frames, [&STREAM[..5], &STREAM[5..8], &STREAM[8..]], "cut at {first}, {second}");
                assert!(carry.is_empty());
            }
        }
    }

    #[test]
    fn what_is_held_is_at_most_one_frame_and_is_given_back_when_idle() {
        let mut carry = CarryOver::default();
        let mut frame = vec![0, 64, 2];
        frame.resize(63, 7);
        cut(&mut carry, &frame);
        assert!(!carry.is_empty());
        assert_eq!(carry.memory_bytes(), 64);
        carry.trim();
        carry.trim();
        assert_eq!(carry.memory_bytes(), 64, "an unfinished frame is kept");
        assert_eq!(cut(&mut carry, &[7]).len(), 1);
        carry.trim();
        assert_eq!(carry.memory_bytes(), 64, "used since the last call");
        carry.trim();
        assert_eq!(carry.memory_bytes(), 0);
    }

    #[test]
    fn a_frame_that_comes_byte_by_byte_takes_its_length_and_no_more() {
        let mut carry = CarryOver::default();
        let mut frame = vec![0, 50, 2];
        frame.resize(49, 7);
        for byte in &frame {
            cut(&mut carry, std::slice::from_ref(byte));
        }
        assert_eq!(carry.memory_bytes(), 50);
    }

    #[test]
    fn an_impossible_length_is_found_as_soon_as_three_bytes_are_there() {
        let mut carry = CarryOver::default();
        cut(&mut carry, &[0xff, 0xff]);
        let mut input = &[2u8][..];
        let error = carry.next(&mut input, limit_64).expect_err("65535 is above the limit");
        assert_eq!(error, PeerError::Frame(crate::FrameError::Length { bytes: 65535, limit_bytes: 64 }));
    }
}
