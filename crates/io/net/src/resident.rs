//! Memory that is there before it is used: a store to it costs no page fault.

use std::io;
use std::ptr::NonNull;
use std::slice;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};

use crate::fork;

/// Huge pages of the usual size; smaller areas are not worth one.
const HUGE_BYTES: usize = 2 << 20;
/// Of this much of what the system has left, the rest stays for others.
const MOST_OF_AVAILABLE: f64 = 0.9;

/// Zeroed words of this process alone, every page of which is in memory from the start.
///
/// In a child made by `fork` they are zero again and the child's own.
#[derive(Debug)]
pub struct Resident {
    start: NonNull<u64>,
    words: usize,
    mapped_bytes: usize,
    is_locked: bool,
    pages: Pages,
}

/// Pages that a [`Resident`] lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Huge ones, of those that the operator has set aside (`vm.nr_hugepages`).
    Reserved,
    /// Huge ones are asked for (`MADV_HUGEPAGE`); the kernel takes them where it finds them.
    Transparent,
    /// The usual ones: the area is small, or the kernel has no others.
    Small,
}

// SAFETY: the mapping belongs to the process, and who borrows a `Resident` mutably is the only one who writes.
unsafe impl Send for Resident {}
// SAFETY: through a shared reference it is only read.
unsafe impl Sync for Resident {}

impl Resident {
    /// So many words, each zero.
    ///
    /// # Errors
    /// None are asked for, more than nine tenths of what the system has available, or the kernel refuses.
    pub fn new(words: usize) -> io::Result<Resident> {
        let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let bytes = words.checked_mul(8).filter(|bytes| *bytes > 0 && *bytes <= isize::MAX as usize / 2);
        let bytes = bytes.ok_or_else(|| wrong(format!("{words} words of memory cannot be had")))?;
        if let Some(available) = available_bytes()
            && bytes as f64 > available as f64 * MOST_OF_AVAILABLE
        {
            let (want, have) = (bytes >> 20, available >> 20);
            let text = format!(
                "{want} MiB of memory are more than nine tenths of the {have} MiB that are available"
            );
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
        }
        let (start, mapped_bytes, pages) = map(bytes)?;
        fork::unshare_pages(start.as_ptr() as usize, mapped_bytes);
        let mut resident = Resident { start, words, mapped_bytes, is_locked: false, pages };
        // One word of each page, so that the kernel has to give them all now.
        resident.words_mut().iter_mut().step_by(512).for_each(|word| {
            // SAFETY: a reference to a word of ours. The store must happen, though it writes what is there.
            unsafe { std::ptr::write_volatile(word, 0) };
        });
        // SAFETY: locking pages changes nothing of what they hold.
        resident.is_locked = unsafe { mlock(start.as_ptr().cast(), mapped_bytes) }.is_ok();
        Ok(resident)
    }

    /// The words.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[u64] {
        // SAFETY: the mapping has so many words, lives as long as `self`, and any bits are a word.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// The words, to be written.
    #[inline]
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.words) }
    }

    /// Whether the kernel never takes the pages away, which the limit of locked memory may forbid.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// What pages they are.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.pages
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        fork::share_pages(self.start.as_ptr() as usize);
        // SAFETY: the pages are those of `map`; whoever borrows from them borrows from `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// Where the mapping begins, how long it is, and of which pages.
fn map(bytes: usize) -> io::Result<(NonNull<u64>, usize, Pages)> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let anonymous = |bytes: usize, more: MapFlags| {
        // SAFETY: a new mapping at a place of the kernel's choice touches no memory in use.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                access,
                MapFlags::PRIVATE | MapFlags::POPULATE | more,
            )?
        };
        NonNull::new(start.cast::<u64>()).ok_or(io::Error::from(io::ErrorKind::OutOfMemory))
    };
    if bytes >= HUGE_BYTES {
        let whole = bytes.next_multiple_of(HUGE_BYTES);
        if let Ok(start) = anonymous(whole, MapFlags::HUGETLB) {
            // MAP_POPULATE does not say so where a limit of a control group leaves no such page: the first store would be the
            // end of the process.
            // SAFETY: the pages are those of the mapping above, and nobody has them yet.
            match unsafe { madvise(start.as_ptr().cast(), whole, Advice::LinuxPopulateWrite) } {
                Ok(()) => return Ok((start, whole, Pages::Reserved)),
                // SAFETY: as above; nothing refers to them.
                Err(_) => unsafe { munmap(start.as_ptr().cast(), whole)? },
            }
        }
    }
    // Not filled yet: the advice comes first.
    // SAFETY: as above.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE)? };
    // SAFETY: both only tell the kernel how to treat pages of ours, which are all zero still.
    let (wiped, huge) = unsafe {
        (madvise(start, bytes, Advice::LinuxWipeOnFork), madvise(start, bytes, Advice::LinuxHugepage))
    };
    // A kernel that does not know it copies the pages to a child, whose handler of `fork` replaces them.
    let _ = wiped;
    let is_huge = bytes >= HUGE_BYTES && huge.is_ok();
    let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
    Ok((start, bytes, if is_huge { Pages::Transparent } else { Pages::Small }))
}

fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_zero_writable_and_of_this_process() {
        let mut small = Resident::new(1000).expect("8 KB are there");
        assert!(small.words().iter().all(|word| *word == 0) && small.words().len() == 1000);
        assert_eq!(small.pages(), Pages::Small);
        small.words_mut()[999] = 7;
        let child = testkit::child::fork(|| small.words().iter().all(|word| *word == 0));
        assert!(child.expect("processes are left").has_ended_well(), "a child has pages of its own");
        assert_eq!(small.words()[999], 7);
        let large = Resident::new(3 << 18).expect("6 MiB are there");
        assert!(large.words().iter().all(|word| *word == 0));
    }

    #[test]
    fn what_cannot_be_had_is_refused_and_nothing_is_taken() {
        for (words, said) in [(0, "0 words"), (usize::MAX, "words"), (1 << 50, "available")] {
            let refused = Resident::new(words).expect_err("too much or nothing").to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
