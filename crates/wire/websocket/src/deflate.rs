//! permessage-deflate, RFC 7692.
//!
//! This side's messages are always compressed each by itself (`server_no_context_takeover`), so that what was
//! compressed once can go to many clients. The peer's may lean on earlier ones; the window it leans on is
//! kept from its first compressed message on.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::FrameError;

/// What the end of each message's compressed data is cut by, RFC 7692, 7.2.1: an empty stored block.
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// What is taken from the decompressor at a time.
const STEP_BYTES: usize = 16 << 10;
/// An output buffer up to this size is left alone.
const KEEP_BYTES: usize = 16 << 10;

/// Decompresses the messages of one peer.
#[derive(Debug, Default)]
pub(crate) struct Inflater {
    state: Option<Box<Decompress>>,
    /// The peer starts each message anew: nothing is kept between two.
    pub(crate) starts_anew: bool,
    output: Vec<u8>,
}

/// What one decompressor keeps: its window and tables, about.
const STATE_BYTES: usize = 48 << 10;

impl Inflater {
    pub(crate) fn new(starts_anew: bool) -> Inflater {
        Inflater { starts_anew, ..Inflater::default() }
    }

    /// The text of a message, at most `limit_bytes`.
    pub(crate) fn inflate(&mut self, message: &[u8], limit_bytes: usize) -> Result<&[u8], FrameError> {
        let mut state = self.state.take().unwrap_or_else(|| Box::new(Decompress::new(false)));
        self.output.clear();
        for piece in [message, &TAIL] {
            if !inflate_piece(&mut state, piece, &mut self.output, limit_bytes)? {
                // A last block ends the stream; the next message starts another.
                state.reset(false);
                break;
            }
        }
        if !self.starts_anew {
            self.state = Some(state);
        }
        Ok(&self.output)
    }

    /// Gives back what a large message took.
    pub(crate) fn trim(&mut self) {
        if self.output.capacity() > KEEP_BYTES {
            self.output = Vec::new();
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.output.capacity() + self.state.as_ref().map_or(0, |_| STATE_BYTES)
    }
}

/// Decompresses a piece of a stream; `false` if the stream has ended in it.
fn inflate_piece(
    state: &mut Decompress,
    mut piece: &[u8],
    output: &mut Vec<u8>,
    limit_bytes: usize,
) -> Result<bool, FrameError> {
    loop {
        output.reserve(STEP_BYTES.min(limit_bytes + 1 - output.len()));
        let (read, written) = (state.total_in(), output.len());
        let status =
            state.decompress_vec(piece, output, FlushDecompress::Sync).map_err(|_| FrameError::Deflate)?;
        if output.len() > limit_bytes {
            return Err(FrameError::MessageLength { limit_bytes });
        }
        piece = &piece[(state.total_in() - read) as usize..];
        let is_stuck = state.total_in() == read && output.len() == written;
        match status {
            Status::StreamEnd => return Ok(false),
            // All is read, and nothing is left inside for want of room.
            _ if piece.is_empty() && output.len() < output.capacity() => return Ok(true),
            _ if is_stuck && output.len() < output.capacity() => return Err(FrameError::Deflate),
            _ => {}
        }
    }
}

/// Compresses pieces of messages so that they can be put together in any order.
///
/// Each piece is compressed by itself, so that it may stand behind anything. A message is made of *shared*
/// pieces, compressed once however many peers get them, and *own* ones, which stand in stored blocks between
/// them:
///
/// ```text
/// 00  | LEN NLEN  own bytes | shared | LEN NLEN  own bytes | shared | ... | 00
/// ```
///
/// A shared piece ends with an empty stored block whose length is cut off, as that of every message is; what
/// stands there instead is the length of the own bytes that follow. So there is no byte between.
pub struct SharedDeflater(Compress);

/// Longest run of own bytes in one stored block.
pub const OWN_BYTES_MAX: usize = 0xffff;

impl SharedDeflater {
    /// A compressor of a level from 1 (fast) to 9 (small).
    #[must_use]
    pub fn new(level: u32) -> SharedDeflater {
        SharedDeflater(Compress::new(Compression::new(level.clamp(1, 9)), false))
    }

    /// Appends a shared piece to `into`.
    pub fn compress(&mut self, piece: &[u8], into: &mut Vec<u8>) {
        self.0.reset();
        let start = into.len();
        let mut rest = piece;
        // A sync flush is complete when there was room left behind it.
        loop {
            into.reserve(64 + rest.len() / 2);
            let read = self.0.total_in();
            self.0
                .compress_vec(rest, into, FlushCompress::Sync)
                .expect("a compressor that is not finished takes everything");
            rest = &rest[(self.0.total_in() - read) as usize..];
            if rest.is_empty() && into.len() < into.capacity() {
                break;
            }
        }
        debug_assert!(into[start..].ends_with(&TAIL));
        into.truncate(into.len() - TAIL.len());
    }
}

impl std::fmt::Debug for SharedDeflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedDeflater")
    }
}

/// Begins a compressed message.
pub fn begin_message(into: &mut Vec<u8>) {
    into.push(0);
}

/// Appends own bytes, at most [`OWN_BYTES_MAX`]: at the beginning or after a shared piece, once.
///
/// # Panics
/// If there are more.
pub fn append_own(own: &[u8], into: &mut Vec<u8>) {
    let length = u16::try_from(own.len()).expect("own bytes are few");
    into.extend_from_slice(&length.to_le_bytes());
    into.extend_from_slice(&(!length).to_le_bytes());
    into.extend_from_slice(own);
}

/// Ends a compressed message whose last part are own bytes.
pub fn end_message(into: &mut Vec<u8>) {
    into.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(n: usize) -> Vec<u8> {
        format!(r#""Type":"Update","Fields":{{"BID":{n}.5,"ASK":{n}.6,"TEXT":"{}"}}}}"#, "ab".repeat(n))
            .into_bytes()
    }

    #[test]
    fn messages_of_shared_and_own_pieces_are_read_whatever_order_they_are_put_in() {
        let mut deflater = SharedDeflater::new(6);
        let mut pieces = Vec::new();
        for n in [0, 1, 50, 3000, 70_000] {
            let mut piece = Vec::new();
            deflater.compress(&body(n), &mut piece);
            pieces.push((body(n), piece));
        }
        let mut inflater = Inflater::new(false);
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 2, 2, 2, 2]] {
            let (mut message, mut text) = (Vec::new(), Vec::new());
            begin_message(&mut message);
            for (at, index) in order.into_iter().enumerate() {
                let own = format!("[{{\"ID\":{at},");
                append_own(own.as_bytes(), &mut message);
                message.extend_from_slice(&pieces[index].1);
                text.extend_from_slice(own.as_bytes());
                text.extend_from_slice(&pieces[index].0);
            }
            append_own(b"]", &mut message);
            end_message(&mut message);
            text.push(b']');
            assert_eq!(inflater.inflate(&message, 1 << 20), Ok(&text[..]));
        }
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let hello = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        let leaning = [0xf2, 0x00, 0x11, 0x00, 0x00];
        let stored = [0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00];
        let last_block = [0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00];
        let mut inflater = Inflater::new(false);
        for message in [&hello[..], &leaning, &stored, &last_block, &hello] {
            assert_eq!(inflater.inflate(message, 5), Ok(&b"Hello"[..]), "{message:02x?}");
        }
        let mut forgetful = Inflater::new(true);
        assert_eq!(forgetful.inflate(&hello, 5), Ok(&b"Hello"[..]));
        assert_eq!(forgetful.inflate(&leaning, 5), Err(FrameError::Deflate));
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        let mut deflater = SharedDeflater::new(9);
        let mut bomb = Vec::new();
        deflater.compress(&vec![b'a'; 8 << 20], &mut bomb);
        assert!(bomb.len() < 10_000);
        let mut inflater = Inflater::new(false);
        let limit_bytes = 100_000;
        let error = inflater.inflate(&bomb, limit_bytes);
        assert_eq!(error, Err(FrameError::MessageLength { limit_bytes }));
        assert!(inflater.memory_bytes() < 2 * limit_bytes + STATE_BYTES + 2 * STEP_BYTES);
    }

    #[test]
    fn damaged_data_is_an_error_or_other_text_but_never_more() {
        let mut deflater = SharedDeflater::new(6);
        let mut good = Vec::new();
        deflater.compress(&body(20), &mut good);
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                if let Ok(text) = Inflater::new(true).inflate(&bad, 4096) {
                    assert!(text.len() <= 4096);
                }
            }
        }
        assert_eq!(Inflater::new(true).inflate(&[0xff; 9], 4096), Err(FrameError::Deflate));
    }
}
