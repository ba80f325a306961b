use std::fmt;

use flate2::{Compress, FlushCompress};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use super::{Compression, CompressionType};
use crate::frame::{FragmentIds, HEADER_BYTES, extended_flag, flag};
use crate::packer::Written;

/// Compresses finished frames of one connection.
///
/// Memory: the state of the codec, [`ZLIB_BYTES`] or [`LZ4_BYTES`], from the first compressed payload on;
/// buffers of two frames. While a fragmented message is compressed it is there twice.
pub(crate) struct Compressor {
    codec: Codec,
    threshold_bytes: usize,
    frame_limit_bytes: usize,
    ids: FragmentIds,
    /// Frames before compression.
    plain: Vec<u8>,
    /// One payload after it.
    payload: Vec<u8>,
    /// Something was compressed since the last [`Compressor::trim`].
    used: bool,
}

enum Codec {
    Zlib { level: u8, stream: Option<Compress> },
    Lz4 { table: Option<CompressTable> },
}

/// Memory of a deflate stream: window, hash chains, pending output.
pub(crate) const ZLIB_BYTES: usize = 336 << 10;
/// Memory of the match table of LZ4.
pub(crate) const LZ4_BYTES: usize = 16 << 10;
/// A buffer above this size is not kept.
pub(crate) const KEEP_BYTES: usize = 80 << 10;

impl Compressor {
    /// For frames up to `frame_limit_bytes`; `None` if nothing is to be compressed.
    pub(crate) fn new(
        how: Compression,
        frame_limit_bytes: usize,
        ids: FragmentIds,
    ) -> Option<Box<Compressor>> {
        let (codec, threshold_bytes) = match how.kind {
            CompressionType::None => return None,
            CompressionType::Zlib => {
                (Codec::Zlib { level: how.level, stream: None }, how.thresholds.zlib_bytes)
            }
            CompressionType::Lz4 => (Codec::Lz4 { table: None }, how.thresholds.lz4_bytes),
        };
        Some(Box::new(Compressor {
            codec,
            threshold_bytes: threshold_bytes.into(),
            frame_limit_bytes,
            ids,
            plain: Vec::new(),
            payload: Vec::new(),
            used: false,
        }))
    }

    /// Most bytes that payloads of `bytes` in `frames` frames can grow by.
    pub(crate) fn growth_bytes_max(bytes: usize, frames: usize) -> usize {
        // The quickest levels of deflate spend 9 bits on a byte that they cannot compress; the rest is
        // headers of blocks, the flush, and the header of a second part.
        (bytes / 8).saturating_add(frames.saturating_mul(32))
    }

    /// Replaces the frames from `start` to the end of `out`, which are whole and in clear, with what goes to
    /// the peer.
    pub(crate) fn compress(&mut self, out: &mut Vec<u8>, start: usize, written: &mut Written) {
        self.used = true;
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        plain.extend_from_slice(&out[start..]);
        out.truncate(start);
        let mut rest = plain.as_slice();
        while let Some(&[high, low]) = rest.first_chunk() {
            let (frame, later) = rest.split_at(usize::from(u16::from_be_bytes([high, low])));
            self.compress_frame(frame, out, written);
            rest = later;
        }
        if plain.capacity() <= KEEP_BYTES {
            self.plain = plain;
        }
    }

    /// Gives memory back if nothing was compressed since the last call. The history of zlib stays.
    pub(crate) fn trim(&mut self) {
        if !self.used {
            self.plain = Vec::new();
            self.payload = Vec::new();
        }
        self.used = false;
    }

    /// Memory in use, this value's own included.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Compressor>() + self.plain.capacity() + self.payload.capacity() + self.codec.memory_bytes()
    }

    fn compress_frame(&mut self, frame: &[u8], out: &mut Vec<u8>, written: &mut Written) {
        let (header, payload) = frame.split_at(self.header_bytes(frame));
        if payload.len() < self.threshold_bytes || !self.codec.compress(payload, &mut self.payload) {
            return out.extend_from_slice(frame);
        }
        written.compressed_frames += 1;
        written.expanded_bytes += payload.len() as u64;
        written.compressed_bytes += self.payload.len() as u64;
        let flags = frame[2] & !flag::DATA | flag::COMPRESSED;
        let room = self.frame_limit_bytes - header.len();
        if self.payload.len() <= room {
            put_frame(out, flags, &header[HEADER_BYTES..], &self.payload);
        } else {
            let (first, second) = self.payload.split_at(room);
            put_frame(out, flags | flag::CONTINUED, &header[HEADER_BYTES..], first);
            put_frame(out, flag::COMPRESSED, &[], second);
            written.frames += 1;
            written.split_payloads += 1;
        }
    }

    /// Length of what stays in clear: the header, of a fragment with total and id.
    fn header_bytes(&self, frame: &[u8]) -> usize {
        match (frame[2] & flag::EXTENDED, frame[HEADER_BYTES]) {
            (0, _) => HEADER_BYTES,
            (_, extended_flag::FIRST_FRAGMENT) => self.ids.first_header_bytes(),
            _ => self.ids.next_header_bytes(),
        }
    }
}

impl Codec {
    /// Compresses `payload` into `into`; `false` if it is better sent in clear.
    fn compress(&mut self, payload: &[u8], into: &mut Vec<u8>) -> bool {
        match self {
            Codec::Zlib { level, stream } => {
                let level = flate2::Compression::new((*level).into());
                deflate(stream.get_or_insert_with(|| Compress::new(level, true)), payload, into);
                true
            }
            Codec::Lz4 { table } => {
                into.resize(get_maximum_output_size(payload.len()), 0);
                let compressed = compress_into_with_table(payload, into, table.get_or_insert_default());
                into.truncate(compressed.expect("there is room for the longest output"));
                into.len() < payload.len()
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Codec::Zlib { stream: Some(_), .. } => ZLIB_BYTES,
            Codec::Lz4 { table: Some(_) } => LZ4_BYTES,
            Codec::Zlib { stream: None, .. } | Codec::Lz4 { table: None } => 0,
        }
    }
}

fn deflate(stream: &mut Compress, mut rest: &[u8], into: &mut Vec<u8>) {
    into.clear();
    into.reserve(rest.len() + Compressor::growth_bytes_max(rest.len(), 1));
    loop {
        let before = stream.total_in();
        let done = stream.compress_vec(rest, into, FlushCompress::Sync);
        done.expect("a deflate stream that is never finished takes everything");
        rest = &rest[(stream.total_in() - before) as usize..];
        // With room left the flush is complete, too.
        if rest.is_empty() && into.len() < into.capacity() {
            return;
        }
        into.reserve(1024);
    }
}

fn put_frame(out: &mut Vec<u8>, flags: u8, header: &[u8], payload: &[u8]) {
    let bytes = (HEADER_BYTES + header.len() + payload.len()) as u16;
    out.extend_from_slice(&bytes.to_be_bytes());
    out.push(flags);
    out.extend_from_slice(header);
    out.extend_from_slice(payload);
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.codec {
            Codec::Zlib { .. } => CompressionType::Zlib,
            Codec::Lz4 { .. } => CompressionType::Lz4,
        };
        f.debug_struct("Compressor").field("kind", &kind).finish_non_exhaustive()
    }
}
