//! The head of test messages: their number and when they were meant to leave.
//!
//! ```text
//! 0   8  "tickcast"
//! 8   8  which clock: FNV-1a of the host's boot id; times of two messages compare where it is the same
//! 16  8  number, from 0
//! 24  8  CLOCK_MONOTONIC, nanoseconds
//! ```
//!
//! All big-endian. Zeros follow up to the wanted size.

use units::Nanos;

/// Bytes of the head.
pub(super) const STAMP_LEN: usize = 32;

const MAGIC: &[u8; 8] = b"tickcast";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) clock: u64,
    pub(super) number: u64,
    pub(super) at: Nanos,
}

impl Stamp {
    /// Writes it to the front of a payload; one that is too short stays as it is.
    pub(super) fn write(&self, payload: &mut [u8]) {
        let Some(head) = payload.first_chunk_mut::<STAMP_LEN>() else { return };
        head[..8].copy_from_slice(MAGIC);
        head[8..16].copy_from_slice(&self.clock.to_be_bytes());
        head[16..24].copy_from_slice(&self.number.to_be_bytes());
        head[24..].copy_from_slice(&self.at.0.to_be_bytes());
    }

    /// The head of a payload, if it is a test message.
    pub(super) fn read(payload: &[u8]) -> Option<Stamp> {
        let (magic, rest) = payload.split_first_chunk::<8>()?;
        let (clock, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let at = rest.first_chunk()?;
        (magic == MAGIC).then(|| Stamp {
            clock: u64::from_be_bytes(*clock),
            number: u64::from_be_bytes(*number),
            at: Nanos(u64::from_be_bytes(*at)),
        })
    }
}

/// Which clock the processes of this host share until it is started anew; 0 if that cannot be known.
pub(super) fn clock_id() -> u64 {
    let boot_id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if boot_id.is_empty() {
        return 0;
    }
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    boot_id.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let stamp = Stamp { clock: 1, number: 2, at: Nanos(3) };
        let mut payload = [0; 40];
        stamp.write(&mut payload);
        assert_eq!(Stamp::read(&payload), Some(stamp));
        assert_eq!(Stamp::read(&payload[..STAMP_LEN]), Some(stamp));
    }

    #[test]
    fn what_is_no_test_message_has_none() {
        let mut short = [0; STAMP_LEN - 1];
        Stamp { clock: 1, number: 2, at: Nanos(3) }.write(&mut short);
        assert_eq!(short, [0; STAMP_LEN - 1]);
        assert_eq!(Stamp::read(&short), None);
        assert_eq!(Stamp::read(&[b't'; 64]), None);
    }

    #[test]
    fn the_clock_of_a_host_is_the_same_for_all_who_ask() {
        assert_eq!(clock_id(), clock_id());
    }
}
