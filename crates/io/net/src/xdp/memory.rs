//! Memory that the kernel shares: the rings of a socket, and the frames.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use super::ring::{Consumer, Producer};
use crate::fork;

/// A mapping, unmapped when dropped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(bytes: usize, flags: libc::c_int, fd: libc::c_int, at: libc::off_t) -> io::Result<Mapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice touches no memory in use.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, fd, at) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        fork::unshare_pages(start.as_ptr() as usize, bytes);
        Ok(Mapping { start, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        fork::share_pages(self.start.as_ptr() as usize);
        // SAFETY: start and length are those of the mapping, which nothing refers to any more: what was lent
        // of it borrowed its owner.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// One ring of a socket, with entries of type `T`: 64-bit places of frames, or descriptors.
#[derive(Debug)]
struct Shared<T> {
    mapping: Mapping,
    places: libc::xdp_ring_offset,
    entries: PhantomData<T>,
}

impl<T: Copy> Shared<T> {
    /// Maps the ring of `size` entries at `offset` of the socket.
    fn new(fd: BorrowedFd<'_>, size: u32, places: libc::xdp_ring_offset, offset: u64) -> io::Result<Self> {
        let bytes = places.desc as usize + size as usize * size_of::<T>();
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let mapping = Mapping::new(bytes, flags, fd.as_raw_fd(), offset as libc::off_t)?;
        let count_end = places.producer.max(places.consumer).max(places.flags) as usize + 4;
        assert!(
            count_end <= bytes,
            "the kernel places the counts outside of the ring: {count_end} of {bytes}"
        );
        Ok(Shared { mapping, places, entries: PhantomData })
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        // SAFETY: `new` has checked that the places of the three words, which the kernel aligns to four
        // bytes, lie inside the mapping, which lives as long as `self`. Both sides use them atomically.
        unsafe { &*self.mapping.start.as_ptr().add(at as usize).cast::<AtomicU32>() }
    }

    #[inline]
    fn written(&self) -> &AtomicU32 {
        self.word(self.places.producer)
    }

    #[inline]
    fn read(&self) -> &AtomicU32 {
        self.word(self.places.consumer)
    }

    #[inline]
    fn entry(&self, slot: u32) -> *mut T {
        // SAFETY: slots are below the size of the ring, for which `new` has mapped room behind `desc`.
        unsafe { self.mapping.start.as_ptr().add(self.places.desc as usize).cast::<T>().add(slot as usize) }
    }

    fn needs_wakeup(&self) -> bool {
        let flags = self.word(self.places.flags).load(std::sync::atomic::Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring that we write: frames to be filled, or to be sent.
#[derive(Debug)]
pub(super) struct ToKernel<T> {
    shared: Shared<T>,
    position: Producer,
}

impl<T: Copy> ToKernel<T> {
    pub(super) fn new(
        fd: BorrowedFd<'_>,
        size: u32,
        places: libc::xdp_ring_offset,
        offset: u64,
    ) -> io::Result<Self> {
        Ok(ToKernel { shared: Shared::new(fd, size, places, offset)?, position: Producer::new(size) })
    }

    /// Adds an entry, to be shown by [`ToKernel::publish`]; false when the ring is full.
    #[inline]
    pub(super) fn push(&mut self, entry: T) -> bool {
        let Some(slot) = self.position.next(self.shared.read()) else { return false };
        // SAFETY: the position gives out slots below the size only, and this one the kernel has read and
        // released, or never had.
        unsafe { self.shared.entry(slot).write(entry) };
        true
    }

    #[inline]
    pub(super) fn publish(&self) {
        self.position.publish(self.shared.written());
    }

    /// Whether the kernel has taken all that was published.
    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.position.is_drained(self.shared.read())
    }

    /// Whether the kernel looks at the ring only after a system call.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }
}

/// A ring that the kernel writes: frames that were filled, or were sent.
#[derive(Debug)]
pub(super) struct FromKernel<T> {
    shared: Shared<T>,
    position: Consumer,
}

impl<T: Copy> FromKernel<T> {
    pub(super) fn new(
        fd: BorrowedFd<'_>,
        size: u32,
        places: libc::xdp_ring_offset,
        offset: u64,
    ) -> io::Result<Self> {
        Ok(FromKernel { shared: Shared::new(fd, size, places, offset)?, position: Consumer::new(size) })
    }

    /// Takes an entry, whose room [`FromKernel::release`] gives back.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let slot = self.position.next(self.shared.written())?;
        // SAFETY: the position gives out slots below the size only, and this one the kernel has written and
        // published, and does not write again before it is released. Any bits are a valid entry.
        Some(unsafe { self.shared.entry(slot).read() })
    }

    #[inline]
    pub(super) fn release(&self) {
        self.position.release(self.shared.read());
    }
}

/// The frames that a socket receives into and sends from, all of one size.
///
/// A frame is named by its offset. It is the kernel's from when it is put into the fill or transmit ring
/// until it comes out of the receive or completion ring; only frames that are ours may be looked at.
#[derive(Debug)]
pub(super) struct Umem {
    mapping: Mapping,
    frame_bytes: usize,
}

impl Umem {
    pub(super) fn new(frame_count: usize, frame_bytes: usize) -> io::Result<Umem> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mapping = Mapping::new(frame_count * frame_bytes, flags, -1, 0)?;
        // SAFETY: the range is the mapping's own. Huge pages are a matter of speed alone, so a refusal is
        // passed over.
        #[cfg(not(miri))]
        unsafe {
            libc::madvise(mapping.start.as_ptr().cast(), mapping.bytes, libc::MADV_HUGEPAGE)
        };
        // SAFETY: as above; nothing refers to the memory yet. Every page is touched once, before traffic.
        unsafe { std::ptr::write_bytes(mapping.start.as_ptr(), 0, mapping.bytes) };
        // SAFETY: as for huge pages. The kernel goes on with the pages that it knows, of which a parent would get
        // copies as it writes them.
        #[cfg(not(miri))]
        unsafe {
            libc::madvise(mapping.start.as_ptr().cast(), mapping.bytes, libc::MADV_DONTFORK)
        };
        Ok(Umem { mapping, frame_bytes })
    }

    pub(super) fn registration(&self) -> libc::xdp_umem_reg {
        libc::xdp_umem_reg {
            addr: self.mapping.start.as_ptr() as u64,
            len: self.mapping.bytes as u64,
            chunk_size: self.frame_bytes as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        }
    }

    /// The start of the frame that holds the byte at `at`.
    #[inline]
    pub(super) fn frame_of(&self, at: u64) -> u64 {
        at & !(self.frame_bytes as u64 - 1)
    }

    /// `len` bytes from `at` of a frame that is ours.
    ///
    /// # Panics
    /// If they do not lie in one frame.
    #[inline]
    pub(super) fn bytes(&self, at: u64, len: usize) -> &[u8] {
        self.check(at, len);
        // SAFETY: the bytes lie in one frame of the mapping (checked) that is ours: the kernel writes no
        // frame that it has handed over until it gets it back, which takes `&mut` of the socket. All pages
        // are initialised.
        unsafe { std::slice::from_raw_parts(self.mapping.start.as_ptr().add(at as usize), len) }
    }

    /// The first `len` bytes of a frame that is ours.
    ///
    /// # Panics
    /// If they do not lie in one frame.
    #[inline]
    pub(super) fn bytes_mut(&mut self, at: u64, len: usize) -> &mut [u8] {
        self.check(at, len);
        // SAFETY: as for `bytes`; `&mut self` makes it the only view.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.start.as_ptr().add(at as usize), len) }
    }

    #[inline]
    fn check(&self, at: u64, len: usize) {
        let in_frame = at as usize & (self.frame_bytes - 1);
        let fits = in_frame + len <= self.frame_bytes && at < self.mapping.bytes as u64;
        assert!(fits, "{len} bytes at {at} are not in one frame of {}", self.frame_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::{Acquire, Release};

    use super::*;

    const SIZE: u32 = 4;

    /// A ring whose other side is this test.
    fn shared() -> Shared<u64> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mapping = Mapping::new(4096, flags, -1, 0).expect("there is memory");
        let places = libc::xdp_ring_offset { producer: 0, consumer: 64, desc: 256, flags: 128 };
        Shared { mapping, places, entries: PhantomData }
    }

    #[test]
    fn entries_are_where_the_other_side_looks_for_them() {
        let mut ring = ToKernel { shared: shared(), position: Producer::new(SIZE) };
        for lap in 0..3 {
            for i in 0..SIZE {
                assert!(ring.push(u64::from(lap * SIZE + i)));
            }
            assert!(!ring.push(0), "it is full");
            assert_eq!(ring.shared.written().load(Acquire), lap * SIZE);
            ring.publish();
            for i in 0..SIZE {
                // SAFETY: a slot below the size, which was written and published.
                assert_eq!(unsafe { ring.shared.entry(i).read() }, u64::from(lap * SIZE + i));
            }
            assert!(!ring.is_drained());
            ring.shared.read().store((lap + 1) * SIZE, Release);
            assert!(ring.is_drained());
        }
        assert!(!ring.needs_wakeup());
        ring.shared.word(128).store(libc::XDP_RING_NEED_WAKEUP, Release);
        assert!(ring.needs_wakeup());
    }

    #[test]
    fn entries_of_the_other_side_are_taken_once_each() {
        let mut ring = FromKernel { shared: shared(), position: Consumer::new(SIZE) };
        assert_eq!(ring.pop(), None);
        for count in 0..10u32 {
            // SAFETY: a slot below the size, which was released or never written.
            unsafe { ring.shared.entry(count % SIZE).write(count.into()) };
            ring.shared.written().store(count + 1, Release);
            assert_eq!(ring.pop(), Some(count.into()));
            assert_eq!(ring.pop(), None);
            ring.release();
            assert_eq!(ring.shared.read().load(Acquire), count + 1);
        }
    }

    #[test]
    fn frames_are_apart() {
        let mut umem = Umem::new(4, 2048).expect("there is memory");
        for frame in 0..4 {
            umem.bytes_mut(frame * 2048, 2048).fill(frame as u8 + 1);
        }
        assert_eq!(umem.bytes(2048 + 2000, 48), [2; 48]);
        assert_eq!(umem.bytes(3 * 2048, 1), [4]);
        assert_eq!(umem.frame_of(2 * 2048 + 77), 2 * 2048);
        for (at, len) in [(0, 2049), (2047, 2), (4 * 2048, 0)] {
            let look = std::panic::AssertUnwindSafe(|| umem.bytes(at, len).len());
            assert!(std::panic::catch_unwind(look).is_err(), "{len} bytes at {at}");
        }
    }
}
