//! What stands where in the file: `docs/protocol/ipc.md`.

use std::fmt;

use super::sync::AtomicU64;

/// The first bytes of every file.
pub(super) const MAGIC: [u8; 8] = *b"TICKIPC\0";
/// Files of another version are refused.
pub(super) const VERSION: u32 = 1;
/// Bytes before the ring: whole pages, so that receivers can map the ring without the right to write.
pub(super) const CONTROL_BYTES: usize = 16_384;
/// Bytes of a frame before its message.
pub(super) const HEADER_BYTES: u64 = 8;

/// Segments of a ring.
pub(super) const SEGMENT_COUNT: u64 = if cfg!(loom) { 4 } else { 16 };
/// Receivers a ring can have at once.
pub(super) const SLOT_COUNT: usize = if cfg!(loom) { 1 } else { 64 };
/// Answers that wait for the source.
pub(super) const ANSWER_COUNT: usize = if cfg!(loom) { 1 } else { 256 };
/// The smallest ring, bytes: a segment is a page.
pub(super) const RING_BYTES_MIN: u64 = if cfg!(loom) { 4 * 16 } else { 65_536 };
/// The largest ring, bytes.
pub(super) const RING_BYTES_MAX: u64 = 1 << 34;

/// What stands where the next frame will begin.
pub(super) const NO_FRAME: u64 = 0;
/// In every header.
const FRAME: u64 = 1 << 31;
/// In a header: not a message, but room to be skipped.
const PADDING: u64 = 1 << 30;

/// The header of a message: length in bytes, and the tag its writer gave it.
#[inline]
pub(super) fn message_header(bytes: u64, tag: u32) -> u64 {
    FRAME | bytes | u64::from(tag) << 32
}

/// The header of `room` bytes to be skipped, itself among them.
pub(super) fn padding_header(room: u64) -> u64 {
    FRAME | PADDING | (room - HEADER_BYTES)
}

/// A header taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes behind it.
    pub(super) bytes: u64,
    pub(super) tag: u32,
    pub(super) is_padding: bool,
}

impl Header {
    /// Of a word that is not [`NO_FRAME`]. What no source writes has a length that is nowhere allowed.
    #[inline]
    pub(super) fn parse(word: u64) -> Header {
        let bytes = (word ^ FRAME) & (FRAME | (PADDING - 1));
        Header { bytes, tag: (word >> 32) as u32, is_padding: word & PADDING != 0 }
    }
}

/// Bytes a message of `bytes` takes in the ring: its header, and itself in whole words.
#[inline]
pub(super) fn frame_bytes(bytes: u64) -> u64 {
    bytes.saturating_add(HEADER_BYTES + 7) & !7
}

/// A number on cache lines of its own, so that its writer does not disturb others.
#[repr(C, align(128))]
pub(super) struct Line(pub(super) AtomicU64);

/// What the source says seldom.
#[repr(C, align(128))]
pub(super) struct SourceState {
    /// Source-paced: everything more than a ring's length before it may have been overwritten.
    pub(super) reserved: AtomicU64,
    /// 1 when the source has ended in order; nothing is published behind it.
    pub(super) closed: AtomicU64,
    /// 1 when every publication from now on looks for sleepers.
    pub(super) looks_for_sleepers: AtomicU64,
}

/// One receiver.
#[repr(C, align(128))]
pub(super) struct Slot {
    /// Generation and state, see `slots`.
    pub(super) state: AtomicU64,
    /// Everything before it was read. Written by the receiver.
    pub(super) position: AtomicU64,
    /// Process of the receiver, to name it.
    pub(super) pid: AtomicU64,
}

/// The part before the ring.
#[repr(C)]
pub(super) struct Control {
    /// [`Identity`]; complete before the file has a name, and read as bytes.
    _identity: [u64; 32],
    /// Everything before it may be read. Receivers look at it where they begin and between two segments;
    /// within one they look at the header of the next frame.
    pub(super) published: Line,
    pub(super) source: SourceState,
    /// 1 when some receiver may sleep.
    pub(super) wake_wanted: Line,
    /// One bit a slot: its receiver sleeps.
    pub(super) sleepers: Line,
    /// Messages before each segment.
    pub(super) segment_frames: [AtomicU64; SEGMENT_COUNT as usize],
    _reserved: [u64; 16],
    pub(super) slots: [Slot; SLOT_COUNT],
    /// See `answers`: who answers, and what.
    pub(super) answers: [[AtomicU64; 2]; ANSWER_COUNT],
}

impl Control {
    /// All zero: nothing was published, nobody is there.
    pub(super) fn new() -> Control {
        let zero = || AtomicU64::new(0);
        Control {
            _identity: [0; 32],
            published: Line(zero()),
            source: SourceState { reserved: zero(), closed: zero(), looks_for_sleepers: zero() },
            wake_wanted: Line(zero()),
            sleepers: Line(zero()),
            segment_frames: std::array::from_fn(|_| zero()),
            _reserved: [0; 16],
            slots: std::array::from_fn(|_| Slot { state: zero(), position: zero(), pid: zero() }),
            answers: std::array::from_fn(|_| [zero(), zero()]),
        }
    }
}

/// Where in the ring a position is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    ring_bytes: u64,
    segment_bits: u32,
}

impl Geometry {
    /// Of a ring with so many bytes.
    ///
    /// # Errors
    /// Not a power of two, or outside the range.
    pub(super) fn new(ring_bytes: u64) -> Result<Geometry, LayoutError> {
        if !ring_bytes.is_power_of_two() || !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(&ring_bytes) {
            return Err(LayoutError::RingBytes(ring_bytes));
        }
        Ok(Geometry { ring_bytes, segment_bits: (ring_bytes / SEGMENT_COUNT).trailing_zeros() })
    }

    #[inline]
    pub(super) fn ring_bytes(self) -> u64 {
        self.ring_bytes
    }

    #[inline]
    pub(super) fn segment_bytes(self) -> u64 {
        1 << self.segment_bits
    }

    /// Offset in the ring.
    #[inline]
    pub(super) fn offset(self, position: u64) -> usize {
        (position & (self.ring_bytes - 1)) as usize
    }

    /// Which segment of the ring it is in.
    #[inline]
    pub(super) fn segment(self, position: u64) -> usize {
        self.offset(position) >> self.segment_bits
    }

    /// The end of the segment in which the byte at `position` lies.
    #[inline]
    pub(super) fn segment_end(self, position: u64) -> u64 {
        (position | (self.segment_bytes() - 1)).saturating_add(1)
    }

    /// The longest message, bytes.
    #[inline]
    pub(super) fn message_max_bytes(self) -> u64 {
        self.segment_bytes() - HEADER_BYTES
    }
}

/// What a file says of itself in its first bytes, little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) ring_bytes: u64,
    pub(super) session_id: u32,
    pub(super) transport_id: u16,
    pub(super) is_receiver_paced: bool,
    /// Process of the source, to name it.
    pub(super) source_pid: u32,
    /// When the file was made, nanoseconds since 1970.
    pub(super) created_ns: u64,
}

impl Identity {
    pub(super) const BYTES: usize = 64;

    pub(super) fn emit(&self) -> [u8; Identity::BYTES] {
        let mut to = [0; Identity::BYTES];
        to[..8].copy_from_slice(&MAGIC);
        to[8..12].copy_from_slice(&VERSION.to_le_bytes());
        to[12..16].copy_from_slice(&(CONTROL_BYTES as u32).to_le_bytes());
        to[16..24].copy_from_slice(&self.ring_bytes.to_le_bytes());
        to[24..28].copy_from_slice(&(SEGMENT_COUNT as u32).to_le_bytes());
        to[28..32].copy_from_slice(&(SLOT_COUNT as u32).to_le_bytes());
        to[32..36].copy_from_slice(&self.session_id.to_le_bytes());
        to[36..38].copy_from_slice(&self.transport_id.to_le_bytes());
        to[38] = u8::from(self.is_receiver_paced);
        to[40..44].copy_from_slice(&self.source_pid.to_le_bytes());
        to[48..56].copy_from_slice(&self.created_ns.to_le_bytes());
        to
    }

    /// Checks that a file of `file_bytes` that begins with `from` is a ring as this version knows it.
    ///
    /// # Errors
    /// [`LayoutError`] names what is otherwise.
    pub(super) fn parse(from: &[u8], file_bytes: u64) -> Result<Identity, LayoutError> {
        let Some(from) = from.first_chunk::<{ Identity::BYTES }>() else {
            return Err(LayoutError::FileBytes { have: file_bytes, need: CONTROL_BYTES as u64 });
        };
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| from[at + i]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| from[at + i]));
        if from[..8] != MAGIC {
            return Err(LayoutError::NoRing);
        }
        if word(8) != VERSION {
            return Err(LayoutError::Version(word(8)));
        }
        let shape = [word(12), word(24), word(28)];
        if shape != [CONTROL_BYTES as u32, SEGMENT_COUNT as u32, SLOT_COUNT as u32] || from[38] > 1 {
            return Err(LayoutError::Shape);
        }
        let ring_bytes = Geometry::new(long(16))?.ring_bytes();
        let need = CONTROL_BYTES as u64 + ring_bytes;
        if file_bytes != need {
            return Err(LayoutError::FileBytes { have: file_bytes, need });
        }
        Ok(Identity {
            ring_bytes,
            session_id: word(32),
            transport_id: u16::from_le_bytes([from[36], from[37]]),
            is_receiver_paced: from[38] == 1,
            source_pid: word(40),
            created_ns: long(48),
        })
    }
}

/// Why a file is not the ring it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// It does not begin as rings do.
    NoRing,
    /// A version that is not known here.
    Version(u32),
    /// Sizes of its parts that are not those of its version.
    Shape,
    /// The ring's size is not a power of two between 64 KiB and 16 GiB.
    RingBytes(u64),
    /// The file is longer or shorter than its parts.
    FileBytes {
        /// Bytes of the file.
        have: u64,
        /// Bytes of its parts.
        need: u64,
    },
    /// It says that it is another session than its name.
    OtherSession {
        /// Session in the file.
        session_id: u32,
        /// Transport in the file.
        transport_id: u16,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::NoRing => f.write_str("it does not begin as rings do"),
            LayoutError::Version(found) => {
                write!(f, "its version is {found}, version {VERSION} is known here")
            }
            LayoutError::Shape => f.write_str("its parts are not as large as its version has them"),
            LayoutError::RingBytes(bytes) => write!(
                f,
                "a ring of {bytes} bytes: a power of two from {RING_BYTES_MIN} to {RING_BYTES_MAX} is allowed"
            ),
            LayoutError::FileBytes { have, need } => {
                write!(f, "the file has {have} bytes, its parts have {need}")
            }
            LayoutError::OtherSession { session_id, transport_id } => {
                write!(f, "inside it says that it is session {session_id:x}, transport {transport_id}")
            }
        }
    }
}

impl std::error::Error for LayoutError {}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    fn sample() -> Identity {
        Identity {
            ring_bytes: 1 << 20,
            session_id: 0xfeed_beef,
            transport_id: 7,
            is_receiver_paced: true,
            source_pid: 4711,
            created_ns: 1_700_000_000_000_000_001,
        }
    }

    #[test]
    fn everything_stands_where_the_document_says() {
        assert_eq!(offset_of!(Control, published), 256);
        assert_eq!(offset_of!(Control, source), 384);
        assert_eq!(offset_of!(SourceState, closed), 8);
        assert_eq!(offset_of!(SourceState, looks_for_sleepers), 16);
        assert_eq!(offset_of!(Control, wake_wanted), 512);
        assert_eq!(offset_of!(Control, sleepers), 640);
        assert_eq!(offset_of!(Control, segment_frames), 768);
        assert_eq!(offset_of!(Control, slots), 1024);
        assert_eq!(offset_of!(Control, answers), 9216);
        assert_eq!(size_of::<Slot>(), 128);
        assert_eq!((offset_of!(Slot, position), offset_of!(Slot, pid)), (8, 16));
        assert!(size_of::<Control>() <= CONTROL_BYTES);
    }

    #[test]
    fn an_identity_survives_its_bytes() {
        let bytes = sample().emit();
        assert_eq!(Identity::parse(&bytes, CONTROL_BYTES as u64 + (1 << 20)), Ok(sample()));
    }

    #[test]
    fn files_that_are_no_rings_are_refused() {
        let whole = CONTROL_BYTES as u64 + (1 << 20);
        let changed = |at: usize, to: u8| {
            let mut bytes = sample().emit();
            bytes[at] = to;
            Identity::parse(&bytes, whole)
        };
        assert_eq!(changed(0, b'x'), Err(LayoutError::NoRing));
        assert_eq!(changed(8, 2), Err(LayoutError::Version(2)));
        assert_eq!(changed(12, 1), Err(LayoutError::Shape));
        assert_eq!(changed(24, 15), Err(LayoutError::Shape));
        assert_eq!(changed(28, 65), Err(LayoutError::Shape));
        assert_eq!(changed(38, 2), Err(LayoutError::Shape));
        assert_eq!(changed(16, 1), Err(LayoutError::RingBytes((1 << 20) + 1)));
        assert_eq!(changed(23, 0x80), Err(LayoutError::RingBytes((1 << 63) + (1 << 20))));
        let bytes = sample().emit();
        let short = Identity::parse(&bytes, whole - 1);
        assert_eq!(short, Err(LayoutError::FileBytes { have: whole - 1, need: whole }));
        assert!(Identity::parse(&bytes[..40], 40).is_err());
        assert!(Identity::parse(&[], 0).is_err());
    }

    #[test]
    fn a_header_tells_message_and_padding() {
        let message = Header::parse(message_header(1500, 0xabcd_ef01));
        assert_eq!(message, Header { bytes: 1500, tag: 0xabcd_ef01, is_padding: false });
        let padding = Header::parse(padding_header(64));
        assert_eq!(padding, Header { bytes: 56, tag: 0, is_padding: true });
        assert_ne!(message_header(0, 0), NO_FRAME);
        let nonsense = Header::parse(1500);
        assert!(frame_bytes(nonsense.bytes) > RING_BYTES_MAX / SEGMENT_COUNT, "longer than any segment");
        assert_eq!([0, 1, 8, 9].map(frame_bytes), [8, 16, 16, 24]);
        assert!(frame_bytes(u64::MAX) > u64::MAX / 2, "no length wraps to a small frame");
    }
}
