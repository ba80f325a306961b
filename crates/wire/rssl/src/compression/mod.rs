mod compressor;
mod decompressor;

use std::fmt;

pub(crate) use compressor::Compressor;
pub(crate) use decompressor::Decompressor;

use crate::ConnectionVersion;

/// What the payloads of both directions are compressed with.
///
/// - zlib: one deflate stream for each direction and the life of the connection. Each compressed payload ends
///   with a sync flush and is inflated by itself, with the history of those before it.
/// - LZ4: each payload a block by itself.
///
/// A payload below the [threshold](Thresholds) goes in clear; so does one that LZ4 does not make shorter. A
/// payload that zlib has made longer than a frame may be goes in two parts. Pings and the headers of
/// fragments are never compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum CompressionType {
    /// Payloads are in clear.
    #[default]
    None,
    /// One deflate stream a direction, flushed at each payload.
    Zlib,
    /// One LZ4 block a payload.
    Lz4,
}

impl CompressionType {
    /// The number in a connect ack.
    #[must_use]
    pub fn wire(self) -> u16 {
        match self {
            Self::None => 0,
            Self::Zlib => 1,
            Self::Lz4 => 2,
        }
    }

    /// The type a connect ack names by `number`; `None` for every other number.
    #[must_use]
    pub fn from_wire(number: u16) -> Option<CompressionType> {
        [Self::None, Self::Zlib, Self::Lz4].into_iter().find(|t| t.wire() == number)
    }

    /// The bit in the bitmap of a connect request; none for [`CompressionType::None`].
    #[must_use]
    pub fn request_bit(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Zlib => 0x01,
            Self::Lz4 => 0x02,
        }
    }

    /// Whether a connection of `version` can have it: zlib from 11 on, LZ4 from 12 on.
    #[must_use]
    pub fn is_known_to(self, version: ConnectionVersion) -> bool {
        match self {
            Self::None => true,
            Self::Zlib => version >= ConnectionVersion::V11,
            Self::Lz4 => version >= ConnectionVersion::V12,
        }
    }
}

impl fmt::Display for CompressionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Zlib => "zlib",
            Self::Lz4 => "lz4",
        })
    }
}

/// Shortest payloads that are compressed on the way out: below, compression costs more than it saves. What
/// comes in is taken either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// With zlib, 1 or more. Default 30 as everywhere in the field.
    pub zlib_bytes: u16,
    /// With LZ4, 1 or more. Default 300 as everywhere in the field.
    pub lz4_bytes: u16,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds { zlib_bytes: 30, lz4_bytes: 300 }
    }
}

/// How one side compresses what it sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compression {
    pub(crate) kind: CompressionType,
    /// Of zlib, 0 to 9.
    pub(crate) level: u8,
    pub(crate) thresholds: Thresholds,
}

/// Memory of both directions but for buffers in proportion to a frame.
pub(crate) const COMPRESSION_STATE_BYTES: u64 =
    (compressor::ZLIB_BYTES + compressor::KEEP_BYTES + decompressor::ZLIB_BYTES + 1024) as u64;

/// Greatest level of zlib.
pub(crate) const ZLIB_LEVEL_MAX: u8 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_up_to_two_are_known() {
        let known = (0..10).filter_map(CompressionType::from_wire).collect::<Vec<_>>();
        assert_eq!(known, [CompressionType::None, CompressionType::Zlib, CompressionType::Lz4]);
    }

    #[test]
    fn each_type_has_come_with_its_version() {
        let oldest = |kind: CompressionType| {
            ConnectionVersion::ALL
                .into_iter()
                .filter(|v| kind.is_known_to(*v))
                .min()
                .expect("the newest has all")
        };
        assert_eq!(oldest(CompressionType::None), ConnectionVersion::V10);
        assert_eq!(oldest(CompressionType::Zlib), ConnectionVersion::V11);
        assert_eq!(oldest(CompressionType::Lz4), ConnectionVersion::V12);
    }
}
