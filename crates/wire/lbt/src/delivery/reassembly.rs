use crate::wire::lbmc::Headers;

/// A message that arrives fragment by fragment.
#[derive(Default)]
pub(crate) struct Assembly {
    /// Topic number of the first fragment.
    pub(crate) first: u64,
    /// Topic number of the latest fragment.
    pub(crate) last: u64,
    /// Bytes of the whole message.
    pub(crate) length: u32,
    /// Bytes that have arrived.
    pub(crate) received: u32,
    pub(crate) recovered: bool,
    /// Topic numbers and bytes of the fragments that have arrived, if they come in any order.
    pub(crate) pieces: Vec<(u64, u32)>,
    first_header: u8,
    headers: Vec<u8>,
    data: Vec<u8>,
}

/// Where a fragment belongs.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) first: u64,
    pub(crate) number: u64,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    pub(crate) data: &'a [u8],
    pub(crate) headers: Headers<'a>,
    pub(crate) recovered: bool,
}

impl Piece<'_> {
    /// Whether the fragment lies within its message.
    pub(crate) fn is_sound(&self) -> bool {
        let end = u64::from(self.offset) + self.data.len() as u64;
        self.first <= self.number && end <= u64::from(self.length) && !self.data.is_empty()
    }
}

impl Assembly {
    pub(crate) fn is_complete(&self) -> bool {
        self.received == self.length
    }

    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }

    pub(crate) fn headers(&self) -> Headers<'_> {
        Headers::from_checked(self.first_header, &self.headers)
    }

    /// Whether it is not more than the message has, with what has arrived.
    pub(crate) fn has_room_for(&self, piece: &Piece<'_>) -> bool {
        piece.data.len() as u64 + u64::from(self.received) <= u64::from(self.length)
    }

    /// Takes out a fragment of those that come in any order; false if it has not arrived.
    pub(crate) fn take_out(&mut self, number: u64) -> bool {
        let Some(at) = self.pieces.iter().position(|piece| piece.0 == number) else { return false };
        let (_, len) = self.pieces.swap_remove(at);
        self.received = self.received.saturating_sub(len);
        true
    }

    /// Whether the fragment is the next one of this message, front to back.
    pub(crate) fn continues_with(&self, piece: &Piece<'_>) -> bool {
        piece.first == self.first && piece.length == self.length && piece.offset == self.received
    }
}

/// The buffers of all messages being put together, within a bound on their sum.
pub(crate) struct AssemblyPool {
    message_max: u32,
    bytes_max: u64,
    bytes: u64,
    spare: Vec<Assembly>,
}

/// Buffers kept for later use, and the largest that is kept.
const SPARE_MAX: usize = 4;
const SPARE_BYTES_MAX: usize = 1 << 20;

impl AssemblyPool {
    pub(crate) fn new(message_max: u32, bytes_max: u64) -> AssemblyPool {
        AssemblyPool { message_max, bytes_max, bytes: 0, spare: Vec::new() }
    }

    /// Bytes of the messages being put together and of the buffers kept.
    pub(crate) fn memory_bytes(&self) -> usize {
        let spare: usize = self
            .spare
            .iter()
            .map(|a| a.data.capacity() + a.headers.capacity() + 16 * a.pieces.capacity())
            .sum();
        self.bytes as usize + spare
    }

    /// Begins a message. `None` if it is too long or the bound is reached.
    ///
    /// With `whole`, its full length is taken at once, for fragments that come in any order.
    pub(crate) fn begin(&mut self, piece: &Piece<'_>, whole: bool) -> Option<Assembly> {
        let taken = if whole { u64::from(piece.length) } else { 0 };
        if piece.length > self.message_max || self.bytes + taken > self.bytes_max {
            return None;
        }
        let mut assembly = self.spare.pop().unwrap_or_default();
        assembly.first = piece.first;
        assembly.last = piece.number;
        assembly.length = piece.length;
        assembly.received = 0;
        assembly.recovered = false;
        assembly.pieces.clear();
        assembly.headers.clear();
        assembly.data.clear();
        if whole {
            assembly.data.resize(piece.length as usize, 0);
            self.bytes += taken;
        }
        Some(assembly)
    }

    /// Appends the next fragment; false if the bound on all messages is reached.
    pub(crate) fn append(&mut self, assembly: &mut Assembly, piece: &Piece<'_>) -> bool {
        let len = piece.data.len() as u64;
        if self.bytes + len > self.bytes_max {
            return false;
        }
        self.bytes += len;
        assembly.data.extend_from_slice(piece.data);
        note(assembly, piece);
        true
    }

    /// Puts a fragment in its place in a message that was begun whole.
    pub(crate) fn place(&mut self, assembly: &mut Assembly, piece: &Piece<'_>) {
        let start = piece.offset as usize;
        assembly.data[start..start + piece.data.len()].copy_from_slice(piece.data);
        assembly.pieces.push((piece.number, piece.data.len() as u32));
        note(assembly, piece);
    }

    /// Takes a buffer back, complete or not.
    pub(crate) fn end(&mut self, assembly: Assembly) {
        self.bytes -= assembly.data.len() as u64;
        if self.spare.len() < SPARE_MAX && assembly.data.capacity() <= SPARE_BYTES_MAX {
            self.spare.push(assembly);
        }
    }
}

fn note(assembly: &mut Assembly, piece: &Piece<'_>) {
    assembly.received = assembly.received.saturating_add(piece.data.len() as u32);
    assembly.last = assembly.last.max(piece.number);
    assembly.recovered |= piece.recovered;
    if piece.offset == 0 {
        let (first, bytes) = piece.headers.parts();
        assembly.first_header = first;
        assembly.headers.clear();
        assembly.headers.extend_from_slice(bytes);
    }
}
