use std::fmt;

/// What the payloads of both directions are compressed with.
///
/// Compression is agreed in the handshake and not built yet: a server answers [`CompressionType::None`]
/// whatever is asked for, a client offers nothing. The two places where it belongs, between frames and socket
/// bytes:
///
/// - out: each frame is complete in the output buffer when [`Packer`](crate::Packer) closes it
///   (`Packer::seal`); a compressor of the connection rewrites the frame's payload there and splits what
///   outgrew the limit.
/// - in: [`Frame::Compressed`](crate::frame::Frame::Compressed) is what the frame parser makes of a frame
///   with the compressed flag; the active connection turns it into a
///   [`PeerError::CompressedFrame`](crate::PeerError) where a decompressor of the connection would turn it
///   into the frame that was meant.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_up_to_two_are_known() {
        let known = (0..10).filter_map(CompressionType::from_wire).collect::<Vec<_>>();
        assert_eq!(known, [CompressionType::None, CompressionType::Zlib, CompressionType::Lz4]);
    }
}
