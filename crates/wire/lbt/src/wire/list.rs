//! What NAKs and NAK confirmations of both transports carry: counted numbers, and reasons.

use super::Reader;
use crate::error::WireError;
use units::Sqn;

/// The counted list of a NAK or NCF: numbers of four bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqnList<'a>(&'a [u8]);

impl<'a> SqnList<'a> {
    pub(super) fn read(r: &mut Reader<'a>, count: u16) -> Result<SqnList<'a>, WireError> {
        r.take(4 * usize::from(count)).map(SqnList)
    }

    /// The list as it stands on the wire.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// How many numbers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / 4
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers in their order.
    pub fn iter(&self) -> impl Iterator<Item = Sqn> + use<'a> {
        self.0.as_chunks::<4>().0.iter().map(|b| Sqn(u32::from_be_bytes(*b)))
    }
}

/// Why a NAK is not, or not yet, answered by a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NcfReason {
    /// It will not come: stop asking.
    DoNotRetry,
    /// It was retransmitted a moment ago.
    Ignored,
    /// It waits for the retransmission rate limit.
    RetransmitDelay,
    /// Limit and queue are full.
    Shed,
    /// Not known to this library; handled like the three above.
    Unknown(u8),
}

impl NcfReason {
    pub(super) fn from_code(code: u8) -> NcfReason {
        match code {
            0 => NcfReason::DoNotRetry,
            1 => NcfReason::Ignored,
            2 => NcfReason::RetransmitDelay,
            3 => NcfReason::Shed,
            other => NcfReason::Unknown(other),
        }
    }

    /// The value on the wire, 0..=15.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            NcfReason::DoNotRetry => 0,
            NcfReason::Ignored => 1,
            NcfReason::RetransmitDelay => 2,
            NcfReason::Shed => 3,
            NcfReason::Unknown(code) => code & 0xF,
        }
    }
}

pub(super) fn list_count(numbers: &[Sqn]) -> u16 {
    u16::try_from(numbers.len()).expect("a NAK or NCF list is cut to one datagram by who fills it")
}

pub(super) fn emit_list(numbers: &[Sqn], out: &mut Vec<u8>) {
    for sqn in numbers {
        out.extend_from_slice(&sqn.0.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_map_to_codes_and_back() {
        for code in 0..16 {
            assert_eq!(NcfReason::from_code(code).code(), code);
        }
    }
}
