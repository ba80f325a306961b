use std::fmt;

use flate2::{Decompress, FlushDecompress};
use lz4_flex::block::{DecompressError, decompress_into};

use super::CompressionType;
use crate::FrameError;
use crate::frame::{Frame, Shape, flag};

/// Decompresses the payloads of one connection.
///
/// What comes out of a payload is at most one byte longer than allowed before it is refused, so that no input
/// can make this side hold more than it agreed to. Memory: one payload, two frames of a payload in parts, and
/// the state of inflate, [`ZLIB_BYTES`].
pub(crate) struct Decompressor {
    codec: Codec,
    /// Longest payload.
    limit_bytes: usize,
    /// The payload that is handed out, at its start.
    plain: Vec<u8>,
    /// The first part of a payload whose second has to follow.
    pending: Option<(Shape, u8)>,
    parts: Vec<u8>,
    /// Something was decompressed since the last [`Decompressor::trim`].
    used: bool,
}

enum Codec {
    Zlib(Option<Box<Decompress>>),
    Lz4,
}

enum Fault {
    Corrupt,
    Oversized,
}

/// A payload in clear.
pub(crate) struct Expanded<'a> {
    pub(crate) frame: Frame<'a>,
    /// Length as it came.
    pub(crate) compressed_bytes: usize,
    /// Length in clear.
    pub(crate) expanded_bytes: usize,
}

/// Memory of an inflate stream: window and tables.
pub(crate) const ZLIB_BYTES: usize = 48 << 10;

impl Decompressor {
    /// For payloads up to `limit_bytes`; `None` if none is compressed.
    pub(crate) fn new(kind: CompressionType, limit_bytes: usize) -> Option<Box<Decompressor>> {
        let codec = match kind {
            CompressionType::None => return None,
            CompressionType::Zlib => Codec::Zlib(None),
            CompressionType::Lz4 => Codec::Lz4,
        };
        let (plain, parts) = (Vec::new(), Vec::new());
        Some(Box::new(Decompressor { codec, limit_bytes, plain, pending: None, parts, used: false }))
    }

    /// Takes a compressed frame; `None` if its second part has to come first.
    pub(crate) fn expand(
        &mut self,
        flags: u8,
        shape: Shape,
        data: &[u8],
    ) -> Result<Option<Expanded<'_>>, FrameError> {
        self.used = true;
        let Some((shape, flags)) = self.gather(flags, shape, data)? else { return Ok(None) };
        let compressed = if self.parts.is_empty() { data } else { &self.parts };
        let bytes = compressed.len() as u32;
        self.plain.resize(self.limit_bytes + 1, 0);
        let expanded = match self.codec.expand(compressed, &mut self.plain) {
            Ok(0) => return Err(FrameError::Empty { flags }),
            Ok(count) if count <= self.limit_bytes => count,
            Ok(_) | Err(Fault::Oversized) => {
                return Err(FrameError::Oversized { bytes, limit_bytes: self.limit_bytes as u32 });
            }
            Err(Fault::Corrupt) => return Err(FrameError::Corrupt { bytes, agreed: self.codec.kind() }),
        };
        let frame = shape.frame(&self.plain[..expanded]);
        Ok(Some(Expanded { frame, compressed_bytes: bytes as usize, expanded_bytes: expanded }))
    }

    /// Gives memory back if nothing was decompressed since the last call. The history of zlib stays.
    pub(crate) fn trim(&mut self) {
        if !self.used && self.pending.is_none() {
            self.plain = Vec::new();
            self.parts = Vec::new();
        }
        self.used = false;
    }

    /// Memory in use, this value's own included.
    pub(crate) fn memory_bytes(&self) -> usize {
        let codec = if let Codec::Zlib(Some(_)) = self.codec { ZLIB_BYTES } else { 0 };
        size_of::<Decompressor>() + self.plain.capacity() + self.parts.capacity() + codec
    }

    /// Keeps a first part; tells shape and flags of a payload that is whole. If it came in parts they are in
    /// `parts`, else that is empty.
    fn gather(&mut self, flags: u8, shape: Shape, data: &[u8]) -> Result<Option<(Shape, u8)>, FrameError> {
        if let Some(first) = self.pending.take() {
            if flags != flag::COMPRESSED {
                return Err(FrameError::Continuation { flags });
            }
            self.parts.extend_from_slice(data);
            return Ok(Some(first));
        }
        self.parts.clear();
        if flags & flag::CONTINUED != 0 {
            self.parts.extend_from_slice(data);
            self.pending = Some((shape, flags));
            return Ok(None);
        }
        Ok(Some((shape, flags)))
    }
}

impl Codec {
    /// Decompresses to the start of `into` and tells how much came out.
    fn expand(&mut self, compressed: &[u8], into: &mut [u8]) -> Result<usize, Fault> {
        match self {
            Codec::Zlib(stream) => {
                inflate(stream.get_or_insert_with(|| Box::new(Decompress::new(true))), compressed, into)
            }
            Codec::Lz4 => decompress_into(compressed, into).map_err(|error| match error {
                DecompressError::OutputTooSmall { .. } => Fault::Oversized,
                _ => Fault::Corrupt,
            }),
        }
    }

    fn kind(&self) -> CompressionType {
        match self {
            Codec::Zlib(_) => CompressionType::Zlib,
            Codec::Lz4 => CompressionType::Lz4,
        }
    }
}

/// Inflates until the input is used up or `into` is full. With room left all is out that the input holds.
fn inflate(stream: &mut Decompress, mut input: &[u8], into: &mut [u8]) -> Result<usize, Fault> {
    let mut filled = 0;
    loop {
        let (in_before, out_before) = (stream.total_in(), stream.total_out());
        let done = stream.decompress(input, &mut into[filled..], FlushDecompress::Sync);
        done.map_err(|_| Fault::Corrupt)?;
        let used = (stream.total_in() - in_before) as usize;
        let made = (stream.total_out() - out_before) as usize;
        input = &input[used..];
        filled += made;
        if filled == into.len() {
            return Err(Fault::Oversized);
        }
        if input.is_empty() {
            return Ok(filled);
        }
        if used == 0 && made == 0 {
            return Err(Fault::Corrupt);
        }
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor").field("kind", &self.codec.kind()).finish_non_exhaustive()
    }
}
