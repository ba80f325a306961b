use std::ptr::NonNull;
use std::slice;

use super::WORD;
use crate::fork;
use crate::shm::layout::{CONTROL_BYTES, Control, Geometry};
use crate::shm::sync::{Acquire, AtomicU64, Relaxed, Release};

/// Where in the file the words begin that are atomics, and where they end.
const CONTROL_READ: usize = std::mem::offset_of!(Control, published);
const CONTROL_END: usize = size_of::<Control>();

/// What holds the memory, and gives it back when dropped.
enum Memory {
    /// The file mapped, the control part and the ring each by itself.
    Mapped {
        /// Readable and writable.
        _control: Mapping,
        /// Writable for the source only.
        _ring: Mapping,
    },
    /// Of this process alone.
    Heap { control: NonNull<Control>, ring: NonNull<[u64]> },
}

/// Mapped pages.
pub(in crate::shm) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` of a file from `offset` on, shared with all who map it, and touches each page.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(in crate::shm) fn new(
        file: &std::fs::File,
        offset: u64,
        bytes: usize,
        is_writable: bool,
    ) -> std::io::Result<Mapping> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let protection = if is_writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses the place, so no other memory of the process is touched. The file's
        // length was checked; that nobody shortens it is assumed of those with the right to write it, and a
        // reader that finds it shortened is ended by the kernel rather than given other memory.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                MapFlags::SHARED | MapFlags::POPULATE,
                file,
                offset,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        fork::unshare_pages(start.as_ptr() as usize, bytes);
        Ok(Mapping { start, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        fork::share_pages(self.start.as_ptr() as usize);
        // SAFETY: these pages are those of `new`; whoever borrows from them borrows from the owner of this.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// A ring in memory that others may change at any time, as the head of this module says.
pub(in crate::shm) struct Region {
    control: NonNull<Control>,
    ring: NonNull<u8>,
    geometry: Geometry,
    memory: Memory,
}

// SAFETY: the control part is atomics. The ring's bytes are touched in the three ways the head of this module
// names, none of which depends on the thread.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// A ring in a file that is `CONTROL_BYTES` and the ring's bytes long.
    pub(in crate::shm) fn mapped(control: Mapping, ring: Mapping, geometry: Geometry) -> Region {
        assert_eq!((control.bytes, ring.bytes as u64), (CONTROL_BYTES, geometry.ring_bytes()));
        let (control_at, ring_at) = (control.start.cast(), ring.start);
        Region {
            control: control_at,
            ring: ring_at,
            geometry,
            memory: Memory::Mapped { _control: control, _ring: ring },
        }
    }

    /// A ring of this process alone.
    pub(in crate::shm) fn on_heap(geometry: Geometry) -> Region {
        let control = NonNull::from(Box::leak(Box::new(Control::new())));
        let words = vec![0u64; geometry.ring_bytes() as usize / WORD].into_boxed_slice();
        let words = NonNull::from(Box::leak(words));
        Region { control, ring: words.cast(), geometry, memory: Memory::Heap { control, ring: words } }
    }

    /// Makes a ring of this process alone as it was in the beginning.
    pub(in crate::shm) fn clear(&mut self) {
        if let Memory::Heap { control, ring } = &mut self.memory {
            // SAFETY: both were leaked in `on_heap`, and who borrows this mutably is the only one who does.
            unsafe {
                *control.as_mut() = Control::new();
                ring.as_mut().fill(0);
            }
        }
    }

    /// Sets a byte that lies `at` bytes from the start of the file, if it belongs to a word that anybody reads.
    pub(in crate::shm) fn set_byte(&self, at: usize, byte: u8) {
        let word = match at {
            // SAFETY: a word of `Control`, all of which from here on are atomics or are read by nobody.
            CONTROL_READ..CONTROL_END => unsafe {
                AtomicU64::from_ptr(self.control.as_ptr().cast::<u64>().add(at / WORD))
            },
            CONTROL_BYTES.. if at - CONTROL_BYTES < self.geometry.ring_bytes() as usize => {
                self.word((at - CONTROL_BYTES) & !(WORD - 1))
            }
            _ => return,
        };
        let mut bytes = word.load(Relaxed).to_ne_bytes();
        bytes[at % WORD] = byte;
        word.store(u64::from_ne_bytes(bytes), Relaxed);
    }

    #[inline]
    pub(in crate::shm) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Asks for the cache line behind that of a position, so that both come at the same time.
    #[inline]
    pub(in crate::shm) fn prefetch_behind(&self, position: u64) {
        let line = self.at(position + 64).as_ptr();
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint that reads nothing and may name any address; this one is inside the ring.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }

    /// Asks for the cache line behind that of a position, to be written: both are fetched at the same time,
    /// and the first is not lost again to a receiver that looks at it while the second comes.
    #[inline]
    pub(in crate::shm) fn prefetch_room_behind(&self, position: u64) {
        let line = self.at(position + 64).as_ptr();
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a hint that changes nothing and may name any address; processors without it do nothing.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = line;
    }

    #[inline]
    pub(in crate::shm) fn control(&self) -> &Control {
        // SAFETY: it points to a whole, aligned `Control` as long as `memory` is held. All its fields that
        // are ever looked at are atomics.
        unsafe { self.control.as_ref() }
    }

    /// One word of the ring; `offset` is a multiple of 8 inside the ring.
    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(WORD) && offset < self.geometry.ring_bytes() as usize);
        // SAFETY: aligned and inside the ring, which the callers' contract says and debug builds check. Who
        // touches this word plainly does not do so at the same time: see the head of this module.
        unsafe { AtomicU64::from_ptr(self.ring.as_ptr().add(offset).cast()) }
    }

    /// The header at a position of a frame.
    #[inline]
    pub(in crate::shm) fn header(&self, position: u64) -> u64 {
        self.word(self.geometry.offset(position)).load(Acquire)
    }

    /// The same for who does not look behind it.
    pub(in crate::shm) fn header_relaxed(&self, position: u64) -> u64 {
        self.word(self.geometry.offset(position)).load(Relaxed)
    }

    /// Writes the header at a position of a frame.
    #[inline]
    pub(in crate::shm) fn set_header(&self, position: u64, word: u64) {
        self.word(self.geometry.offset(position)).store(word, Relaxed);
    }

    /// The byte at a position, to be touched as the head of this module says.
    #[inline]
    pub(in crate::shm) fn at(&self, position: u64) -> NonNull<u8> {
        // SAFETY: an offset is always less than the ring's length.
        unsafe { self.ring.add(self.geometry.offset(position)) }
    }

    /// A message in place.
    ///
    /// # Safety
    /// It lies within one segment and was published, and the source waits for the caller, who has not yet
    /// stored a position behind it.
    #[inline]
    pub(in crate::shm) unsafe fn with_message<R>(
        &self,
        position: u64,
        bytes: usize,
        handle: impl FnOnce(&[u8]) -> R,
    ) -> R {
        debug_assert!(self.geometry.offset(position) + bytes <= self.geometry.ring_bytes() as usize);
        // SAFETY: inside the ring; see above for who may touch it.
        handle(unsafe { slice::from_raw_parts(self.at(position).as_ptr(), bytes) })
    }

    /// Writes the header at a position of a frame, and with it shows all that was written before.
    #[inline]
    pub(in crate::shm) fn publish_header(&self, position: u64, word: u64) {
        self.word(self.geometry.offset(position)).store(word, Release);
    }

    /// Copies whole words into the ring, where receivers may be reading. In bounds by the caller.
    #[inline]
    pub(in crate::shm) fn copy_in(&self, position: u64, words: &[u64]) {
        let ((many, rest), (from_many, from_rest)) =
            (self.words(position, words.len()).as_chunks::<8>(), words.as_chunks::<8>());
        for (to, from) in many.iter().zip(from_many) {
            to.iter().zip(from).for_each(|(to, from)| to.store(*from, Relaxed));
        }
        rest.iter().zip(from_rest).for_each(|(to, from)| to.store(*from, Relaxed));
    }

    /// Copies whole words out of the ring, where the source may be writing. In bounds by the caller.
    #[inline]
    pub(in crate::shm) fn copy_out(&self, position: u64, words: &mut [u64]) {
        let from = self.words(position, words.len()).as_chunks::<8>();
        let (many, rest) = words.as_chunks_mut::<8>();
        for (to, from) in many.iter_mut().zip(from.0) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = from.load(Relaxed));
        }
        rest.iter_mut().zip(from.1).for_each(|(to, from)| *to = from.load(Relaxed));
    }

    /// So many words of the ring, as atomics.
    #[inline]
    fn words(&self, position: u64, count: usize) -> &[AtomicU64] {
        debug_assert!(self.geometry.offset(position) + count * WORD <= self.geometry.ring_bytes() as usize);
        // SAFETY: aligned, as positions of frames and their messages are, and inside the ring by the callers'
        // contract; only atomics touch these words where the source does not wait.
        unsafe { slice::from_raw_parts(self.at(position).as_ptr().cast(), count) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match &self.memory {
            Memory::Mapped { .. } => {}
            Memory::Heap { control, ring } => {
                // SAFETY: both were leaked in `on_heap`, and nothing borrows from them any more.
                unsafe {
                    drop(Box::from_raw(control.as_ptr()));
                    drop(Box::from_raw(ring.as_ptr()));
                }
            }
        }
    }
}
