use std::fmt;

/// Version of the connection handshake, which also decides a few details of the frames.
///
/// The request carries one number for it, the ack another ("RIPC version"); they go together. What a version
/// added: 11 compression in both directions, 12 LZ4 and the protocol type, 13 component versions and two-byte
/// fragment ids, 14 the key exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ConnectionVersion {
    /// 0x13 in the request, 5 in the ack.
    V10 = 10,
    /// 0x14 in the request, 6 in the ack.
    V11 = 11,
    /// 0x15 in the request, 7 in the ack.
    V12 = 12,
    /// 0x16 in the request, 8 in the ack.
    V13 = 13,
    /// 0x17 in the request, 9 in the ack. What the SDKs of today offer first.
    V14 = 14,
}

impl ConnectionVersion {
    /// All versions, lowest first.
    pub const ALL: [ConnectionVersion; 5] = [Self::V10, Self::V11, Self::V12, Self::V13, Self::V14];

    /// The version that a connect request names by `number`; `None` for every other number.
    #[must_use]
    pub fn from_request(number: u32) -> Option<ConnectionVersion> {
        Self::ALL.into_iter().find(|v| v.request_number() == number)
    }

    /// The number in a connect request: 0x13..=0x17.
    #[must_use]
    pub fn request_number(self) -> u32 {
        u32::from(self.number()) + 9
    }

    /// The number in a connect ack: 5..=9.
    #[must_use]
    pub fn ripc_number(self) -> u32 {
        u32::from(self.number()) - 5
    }

    /// The usual name: 10..=14.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The version a client offers after this one was not answered.
    #[must_use]
    pub fn lower(self) -> Option<ConnectionVersion> {
        match self {
            Self::V10 => None,
            Self::V11 => Some(Self::V10),
            Self::V12 => Some(Self::V11),
            Self::V13 => Some(Self::V12),
            Self::V14 => Some(Self::V13),
        }
    }

    /// Width of the fragment ids in frames of this version.
    #[must_use]
    pub fn fragment_ids(self) -> FragmentIds {
        if self >= Self::V13 { FragmentIds::TwoBytes } else { FragmentIds::OneByte }
    }

    pub(crate) fn has_compression_level(self) -> bool {
        self >= Self::V11
    }

    pub(crate) fn has_protocol_type(self) -> bool {
        self >= Self::V12
    }

    pub(crate) fn has_component_version(self) -> bool {
        self >= Self::V13
    }

    pub(crate) fn has_key_exchange(self) -> bool {
        self >= Self::V14
    }
}

impl fmt::Display for ConnectionVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

/// Width of fragment ids, which depends on the connection version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentIds {
    /// Versions 12 and below: 1..=255.
    OneByte,
    /// Versions 13 and above: 1..=65535.
    TwoBytes,
}

impl FragmentIds {
    /// Bytes of an id.
    #[must_use]
    pub fn width_bytes(self) -> usize {
        match self {
            Self::OneByte => 1,
            Self::TwoBytes => 2,
        }
    }

    /// Greatest id.
    #[must_use]
    pub fn last(self) -> u16 {
        match self {
            Self::OneByte => 0xff,
            Self::TwoBytes => 0xffff,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_and_ack_numbers_go_together() {
        let numbers = ConnectionVersion::ALL.map(|v| (v.number(), v.request_number(), v.ripc_number()));
        assert_eq!(numbers, [(10, 0x13, 5), (11, 0x14, 6), (12, 0x15, 7), (13, 0x16, 8), (14, 0x17, 9)]);
    }

    #[test]
    fn only_known_request_numbers_have_a_version() {
        for number in 0..100 {
            let known = (0x13..=0x17).contains(&number);
            let version = ConnectionVersion::from_request(number);
            assert_eq!(version.map(ConnectionVersion::request_number), known.then_some(number));
        }
    }

    #[test]
    fn falling_back_ends_at_the_lowest() {
        let mut offered = vec![ConnectionVersion::V14];
        while let Some(lower) = offered.last().and_then(|v| v.lower()) {
            offered.push(lower);
        }
        offered.reverse();
        assert_eq!(offered, ConnectionVersion::ALL);
    }
}
