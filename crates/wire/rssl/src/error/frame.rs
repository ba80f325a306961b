use std::error::Error;
use std::fmt;

use crate::CompressionType;

/// A frame that no RSSL peer may send. Fatal for the connection: the stream cannot be trusted after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// A frame length below the frame header or above what the ack allows.
    Length {
        /// Length in the header.
        bytes: u16,
        /// Greatest length allowed; the least is 3.
        limit_bytes: u16,
    },
    /// Flags that stand for no kind of frame: neither data nor compressed, both at once, or an unknown bit.
    Flags {
        /// Flags of the frame.
        flags: u8,
        /// Extended flags, 0 where the frame has none.
        extended: u8,
    },
    /// A compressed frame on a connection without compression.
    Compressed {
        /// Flags of the frame.
        flags: u8,
        /// What was agreed.
        agreed: CompressionType,
    },
    /// A compressed payload that cannot be decompressed.
    Corrupt {
        /// Length of the compressed payload.
        bytes: u32,
        /// What it was to be decompressed with.
        agreed: CompressionType,
    },
    /// A compressed payload that is longer than a payload may be when it is decompressed.
    Oversized {
        /// Length of the compressed payload.
        bytes: u32,
        /// Most bytes that may come out.
        limit_bytes: u32,
    },
    /// A compressed frame where the second part of a compressed payload has to be.
    Continuation {
        /// Flags of the frame.
        flags: u8,
    },
    /// A frame that is not a ping and has no payload, or one that is empty when it is decompressed.
    Empty {
        /// Flags of the frame.
        flags: u8,
    },
    /// A message in a packed frame runs past the end of the frame.
    PackedLength {
        /// Length of the message; 1 if only one byte is left where a length has to be.
        bytes: u16,
        /// Bytes left in the frame.
        left_bytes: u16,
    },
    /// A fragment too short for its own header.
    FragmentHeader {
        /// Length of the frame.
        bytes: u16,
        /// Least length of such a frame.
        least_bytes: u16,
    },
    /// A fragmented message with a total length of zero or above the ceiling.
    FragmentTotal {
        /// Announced length of the message.
        total_bytes: u32,
        /// The ceiling.
        limit_bytes: u32,
    },
    /// More bytes than announced for a fragmented message.
    FragmentOverrun {
        /// Fragment id.
        id: u16,
        /// Bytes with this fragment.
        bytes: u32,
        /// Bytes announced.
        total_bytes: u32,
    },
    /// One fragmented message more than may be open at once.
    FragmentCount {
        /// Messages open already.
        limit_count: u16,
    },
    /// The open fragmented messages announce more bytes in total than allowed.
    FragmentBytes {
        /// Announced total of all, the one refused included.
        bytes: u64,
        /// Most allowed.
        limit_bytes: u64,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Length { bytes, limit_bytes } => {
                write!(f, "frame of {bytes} bytes, 3 to {limit_bytes} allowed")
            }
            Self::Flags { flags, extended } => write!(f, "frame with flags {flags:#04x} {extended:#04x}"),
            Self::Compressed { flags, agreed } => {
                write!(f, "compressed frame with flags {flags:#04x}, agreed compression is {agreed}")
            }
            Self::Corrupt { bytes, agreed } => {
                write!(f, "compressed payload of {bytes} bytes is no {agreed}")
            }
            Self::Oversized { bytes, limit_bytes } => {
                write!(f, "compressed payload of {bytes} bytes holds more than {limit_bytes}")
            }
            Self::Continuation { flags } => {
                write!(f, "frame with flags {flags:#04x} in place of a second part")
            }
            Self::Empty { flags } => write!(f, "empty frame with flags {flags:#04x}"),
            Self::PackedLength { bytes, left_bytes } => {
                write!(f, "packed message of {bytes} bytes with {left_bytes} left in its frame")
            }
            Self::FragmentHeader { bytes, least_bytes } => {
                write!(f, "fragment of {bytes} bytes, its header needs {least_bytes}")
            }
            Self::FragmentTotal { total_bytes, limit_bytes } => {
                write!(f, "fragmented message of {total_bytes} bytes, 1 to {limit_bytes} allowed")
            }
            Self::FragmentOverrun { id, bytes, total_bytes } => {
                write!(f, "fragmented message {id} has {bytes} of {total_bytes} announced bytes")
            }
            Self::FragmentCount { limit_count } => {
                write!(f, "more than {limit_count} fragmented messages open")
            }
            Self::FragmentBytes { bytes, limit_bytes } => {
                write!(f, "open fragmented messages of {bytes} bytes, {limit_bytes} allowed")
            }
        }
    }
}

impl Error for FrameError {}
