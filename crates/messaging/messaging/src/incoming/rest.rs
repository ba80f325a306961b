//! What is left of a connection's bytes when all whole messages are taken.
//!
//! All connections are read into one buffer. Only the beginning of a message that is cut is kept for its connection,
//! which so has memory while it waits for the end of a message, and little otherwise.

/// The beginning of a message.
#[derive(Default)]
pub(super) struct Rest(Vec<u8>);

/// Memory that a connection keeps though nothing is left of its bytes.
const SPARE_BYTES: usize = 4 << 10;

impl Rest {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts what was left in front of what was read behind it.
    #[cold]
    #[inline(never)]
    pub(crate) fn put_before(&mut self, buffer: &mut [u8]) {
        buffer[..self.0.len()].copy_from_slice(&self.0);
        self.0.clear();
    }

    /// Keeps what is left now.
    #[inline]
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.0.extend_from_slice(bytes);
        } else if self.0.capacity() > SPARE_BYTES {
            self.0 = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Rng;

    use super::*;

    #[test]
    fn bytes_come_through_in_order_however_they_are_cut_and_memory_is_given_back() {
        let _repeat = testkit::repeat!();
        let mut rng = Rng::new(1);
        let (mut rest, mut buffer) = (Rest::default(), vec![0_u8; 40_000]);
        let (mut read, mut taken) = (0_u32, 0_u32);
        for _ in 0..10_000 {
            let mut filled = rest.len();
            let count_max = if rng.chance(0.1) { 20_000 } else { 200 };
            let count = rng.below(count_max) as usize;
            for place in &mut buffer[filled..filled + count] {
                *place = read as u8;
                read = read.wrapping_add(1);
            }
            if !rest.is_empty() {
                rest.put_before(&mut buffer);
            }
            filled += count;
            // A reader that takes all, or leaves something, but never more than the buffer has room for.
            let left = if rng.chance(0.5) { 0 } else { filled.min(10_000).min(rng.below(20_000) as usize) };
            for byte in &buffer[..filled - left] {
                assert_eq!(*byte, taken as u8);
                taken = taken.wrapping_add(1);
            }
            buffer.copy_within(filled - left..filled, 0);
            rest.keep(&buffer[..left]);
            buffer.fill(0xAA);
            assert_eq!(rest.len(), left);
            assert!(left > 0 || rest.0.capacity() <= SPARE_BYTES);
        }
    }
}
