use units::Sqn;

/// Sent and unsent datagrams in a ring of bytes, each whole and in one piece, one right behind the other.
///
/// That way a run of datagrams of equal length is one slice, which the driver can hand to the kernel to be
/// cut into datagrams (UDP segmentation offload). Numbers run from `trail` (oldest) over `unsent` (first
/// not sent) to `next` (not yet closed). Offsets and lengths are arrays beside the bytes, indexed by the
/// number's low bits.
pub(crate) struct Window {
    bytes: Box<[u8]>,
    offsets: Box<[u32]>,
    lens: Box<[u16]>,
    mask: u32,
    trail: Sqn,
    unsent: Sqn,
    next: Sqn,
    /// Where the next datagram begins.
    tail: usize,
    live_bytes: u64,
    unsent_bytes: u64,
    /// Behind this byte nothing was written yet: the system has not given its pages.
    committed: usize,
}

/// Datagrams that lie behind one another and are equally long, except that the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) at: usize,
    pub(crate) bytes: usize,
    pub(crate) segment_len: usize,
    pub(crate) count: u32,
}

/// Mean datagram length that the arrays beside the bytes are sized for; shorter ones make the window shorter.
const MEAN_DATAGRAM_BYTES: usize = 128;

/// Cache lines that are fetched ahead at most: a datagram that fills an Ethernet frame.
const WARM_LINES: usize = 24;

const PAGE_BYTES: usize = 4_096;
/// More than a datagram has.
const DATAGRAM_MAX: usize = 1 << 16;
/// Memory that is had at once in the first round of the ring.
const COMMIT_BYTES: usize = 2 * DATAGRAM_MAX;

/// How many datagrams a window of `capacity` bytes has numbers for.
pub(crate) fn slots(capacity: usize) -> usize {
    (capacity / MEAN_DATAGRAM_BYTES).next_power_of_two()
}

impl Window {
    /// An empty window of `capacity` bytes whose first datagram gets number `first`.
    pub(crate) fn new(capacity: usize, first: Sqn) -> Window {
        let slots = slots(capacity);
        Window {
            bytes: vec![0; capacity].into_boxed_slice(),
            offsets: vec![0; slots].into_boxed_slice(),
            lens: vec![0; slots].into_boxed_slice(),
            mask: (slots - 1) as u32,
            trail: first,
            unsent: first,
            next: first,
            tail: 0,
            live_bytes: 0,
            unsent_bytes: 0,
            committed: 0,
        }
    }

    pub(super) fn capacity(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let slot = size_of::<u32>() + size_of::<u16>();
        self.bytes.len() + self.offsets.len() * slot
    }

    /// Writes every page once, so that none is first touched while sending.
    pub(crate) fn prefault(&mut self) {
        self.commit(self.bytes.len());
        let slots = self.lens.len();
        for i in (0..slots).step_by(PAGE_BYTES / size_of::<u32>()) {
            self.offsets[i] = std::hint::black_box(0);
            self.lens[i] = std::hint::black_box(0);
        }
    }

    /// Has the pages up to `end` given that nothing was written to yet.
    #[cold]
    #[inline(never)]
    fn commit(&mut self, end: usize) {
        let virgin = self.bytes[self.committed..].iter_mut().take(end.saturating_sub(self.committed));
        virgin.step_by(PAGE_BYTES).for_each(|b| *b = std::hint::black_box(0));
        self.committed = self.committed.max(end);
    }

    pub(crate) fn trail(&self) -> Sqn {
        self.trail
    }

    pub(crate) fn unsent(&self) -> Sqn {
        self.unsent
    }

    pub(crate) fn next(&self) -> Sqn {
        self.next
    }

    pub(crate) fn count(&self) -> u32 {
        self.next.0.wrapping_sub(self.trail.0)
    }

    pub(crate) fn unsent_count(&self) -> u32 {
        self.next.0.wrapping_sub(self.unsent.0)
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(super) fn unsent_bytes(&self) -> u64 {
        self.unsent_bytes
    }

    /// Whether `count` more datagrams of up to `len` bytes fit beside what is unsent.
    pub(super) fn can_hold(&self, count: u64, len: u64) -> bool {
        // two datagrams more than asked: one may be wasted where the ring wraps, one is the opening margin
        let slots = u64::from(self.mask) + 1;
        let bytes = count.saturating_add(2).saturating_mul(len).saturating_add(self.unsent_bytes);
        bytes <= self.capacity() && count.saturating_add(u64::from(self.unsent_count())) < slots
    }

    /// Finds `len` bytes for the next datagram, giving up the oldest sent ones; `None` if unsent ones are
    /// in the way.
    pub(super) fn open(&mut self, len: usize) -> Option<usize> {
        loop {
            if let Some(at) = self.free_at(len) {
                self.tail = at;
                return Some(at);
            }
            if self.trail == self.unsent {
                return None;
            }
            self.evict();
        }
    }

    fn free_at(&self, len: usize) -> Option<usize> {
        let fits_at_tail = self.tail + len <= self.bytes.len();
        if self.count() == 0 {
            return Some(if fits_at_tail { self.tail } else { 0 });
        }
        if self.count() > self.mask {
            return None;
        }
        let oldest = self.offsets[self.slot(self.trail)] as usize;
        if oldest >= self.tail {
            // the live part wraps; a tail that has reached the oldest is a full ring
            return (self.tail + len <= oldest).then_some(self.tail);
        }
        if fits_at_tail { Some(self.tail) } else { (len <= oldest).then_some(0) }
    }

    fn evict(&mut self) {
        self.live_bytes -= u64::from(self.lens[self.slot(self.trail)]);
        self.trail = self.trail.next();
    }

    /// The bytes of the ring from `at`, for the datagram being filled.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        &mut self.bytes[at..at + len]
    }

    /// Closes the datagram that was opened at `at`; it has the number [`Window::next`] had.
    pub(super) fn close(&mut self, at: usize, len: usize) {
        debug_assert_eq!(at, self.tail, "a datagram is closed where it was opened");
        let slot = self.slot(self.next);
        self.offsets[slot] = at as u32;
        self.lens[slot] = len as u16;
        self.next = self.next.next();
        self.tail = at + len;
        self.committed = self.committed.max(self.tail);
        self.live_bytes += len as u64;
        self.unsent_bytes += len as u64;
    }

    /// The longest run that begins at `first` within `count_max` datagrams and `bytes_max` bytes.
    ///
    /// `first` is in the window. `None` if not even the first fits.
    pub(crate) fn run(&self, first: Sqn, count_max: u32, bytes_max: u64) -> Option<Run> {
        let slot = self.slot(first);
        let (at, segment_len) = (self.offsets[slot] as usize, usize::from(self.lens[slot]));
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        if count_max == 0 || segment_len > bytes_max {
            return None;
        }
        let (mut bytes, mut count) = (segment_len, 1);
        while count < count_max {
            let slot = self.slot(first.plus(count));
            let len = usize::from(self.lens[slot]);
            let behind = self.offsets[slot] as usize == at + bytes;
            if !behind || len > segment_len || bytes + len > bytes_max {
                break;
            }
            bytes += len;
            count += 1;
            if len < segment_len {
                break;
            }
        }
        Some(Run { at, bytes, segment_len, count })
    }

    pub(crate) fn slice(&self, at: usize, len: usize) -> &[u8] {
        &self.bytes[at..at + len]
    }

    /// Marks the oldest `count` unsent datagrams as sent and returns their length.
    pub(crate) fn mark_sent(&mut self, count: u32) -> u64 {
        debug_assert!(count <= self.unsent_count(), "only what is in the window is handed out");
        let bytes = (0..count).map(|i| self.len_of(self.unsent.plus(i))).sum();
        self.unsent = self.unsent.plus(count);
        self.unsent_bytes -= bytes;
        bytes
    }

    /// Gives up everything, sent or not; the numbers stay used.
    pub(super) fn clear(&mut self) {
        (self.trail, self.unsent) = (self.next, self.next);
        (self.live_bytes, self.unsent_bytes) = (0, 0);
    }

    /// Everything that is there is to be sent, though it was.
    pub(super) fn rewind(&mut self) {
        (self.unsent, self.unsent_bytes) = (self.trail, self.live_bytes);
    }

    /// Reads where a datagram of `len` bytes will lie, as the last one was: the next is often like it. The ring has left
    /// the caches when it comes round again; what is read here, where nothing waits for it, need not be fetched
    /// between a message and its datagram. In the first round of the ring its pages are not there either: then the
    /// next of them are had here.
    pub(super) fn warm(&mut self, len: u64) {
        const LINE: usize = 64;
        if self.tail + DATAGRAM_MAX > self.committed && self.committed < self.bytes.len() {
            self.commit((self.tail + COMMIT_BYTES).min(self.bytes.len()));
        }
        // One more, as datagrams do not begin with a line.
        let lines = (len as usize / LINE + 2).min(WARM_LINES);
        for at in (self.tail..self.bytes.len()).step_by(LINE).take(lines) {
            std::hint::black_box(self.bytes[at]);
        }
    }

    /// Whether the number was sent and is still there.
    pub(crate) fn holds_sent(&self, sqn: Sqn) -> bool {
        let age = sqn.0.wrapping_sub(self.trail.0);
        age < self.unsent.0.wrapping_sub(self.trail.0)
    }

    pub(crate) fn len_of(&self, sqn: Sqn) -> u64 {
        u64::from(self.lens[self.slot(sqn)])
    }

    /// Where the datagram of `sqn` lies.
    pub(crate) fn offset_of(&self, sqn: Sqn) -> usize {
        self.offsets[self.slot(sqn)] as usize
    }

    #[inline]
    fn slot(&self, sqn: Sqn) -> usize {
        (sqn.0 & self.mask) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    fn push(window: &mut Window, len: usize, max: usize) -> bool {
        let Some(at) = window.open(max) else { return false };
        let value = window.next().0 as u8;
        window.bytes_mut(at, len).fill(value);
        window.close(at, len);
        true
    }

    #[test]
    fn what_is_in_the_window_is_whole_and_its_bytes_are_bounded() {
        testkit::for_each_seed!(0..10, |seed| {
            let mut rng = Rng::new(seed);
            let mut window = Window::new(65_536, Sqn(u32::MAX - 50));
            for _ in 0..500 {
                let len = 20 + rng.below(1_480) as usize;
                if !push(&mut window, len, 1_500) {
                    window.mark_sent(1);
                }
                if rng.chance(0.6) && window.unsent_count() > 0 {
                    window.mark_sent(1);
                }
                let mut total = 0;
                for i in 0..window.count() {
                    let sqn = window.trail().plus(i);
                    let run = window.run(sqn, 1, u64::MAX).expect("in the window");
                    assert!(window.slice(run.at, run.bytes).iter().all(|&b| b == sqn.0 as u8), "{sqn}");
                    total += run.bytes as u64;
                }
                assert_eq!(total, window.live_bytes());
                assert!(total <= window.capacity());
            }
        });
    }

    #[test]
    fn memory_is_had_ahead_of_the_datagrams_and_what_they_hold_stays() {
        testkit::for_each_seed!(0..4, |seed| {
            let mut rng = Rng::new(seed);
            let mut window = Window::new(1 << 18, Sqn(0));
            assert_eq!(window.committed, 0, "an idle window has nothing");
            for _ in 0..1_000 {
                let len = 20 + rng.below(1_480) as usize;
                if !push(&mut window, len, 1_500) {
                    window.mark_sent(1);
                }
                if rng.chance(0.9) && window.unsent_count() > 0 {
                    window.mark_sent(1);
                }
                if rng.chance(0.5) {
                    window.warm(len as u64);
                    let ahead = (window.tail + DATAGRAM_MAX).min(1 << 18);
                    assert!(window.committed >= ahead, "the next datagram finds its pages");
                }
                assert!(window.committed <= 1 << 18 && window.committed >= window.tail);
                if window.count() > 0 {
                    let sqn = window.trail().plus(rng.below(window.count().into()) as u32);
                    let run = window.run(sqn, 1, u64::MAX).expect("in the window");
                    assert!(window.slice(run.at, run.bytes).iter().all(|&b| b == sqn.0 as u8), "{sqn}");
                }
            }
            assert_eq!(window.committed, 1 << 18, "the ring went round");
        });
    }

    #[test]
    fn unsent_datagrams_are_never_given_up() {
        let mut window = Window::new(65_536, Sqn(0));
        while push(&mut window, 1_000, 1_000) {}
        assert_eq!(window.unsent_count(), 65);
        assert_eq!(window.mark_sent(1), 1_000);
        assert!(push(&mut window, 1_000, 1_000), "the sent one makes room");
        assert_eq!((window.trail(), window.unsent()), (Sqn(1), Sqn(1)));
    }

    #[test]
    fn a_run_ends_at_a_longer_one_after_a_shorter_one_at_the_wrap_and_at_its_limits() {
        let mut window = Window::new(65_536, Sqn(0));
        for len in [100, 100, 100, 60, 100, 120, 100] {
            assert!(push(&mut window, len, 1_000));
        }
        let run = |first, count, bytes| window.run(Sqn(first), count, bytes).map(|r| (r.count, r.bytes));
        assert_eq!(run(0, 10, u64::MAX), Some((4, 360)), "the shorter one is the last");
        assert_eq!(run(4, 3, u64::MAX), Some((1, 100)), "the next is longer");
        assert_eq!(run(0, 2, u64::MAX), Some((2, 200)));
        assert_eq!(run(0, 10, 299), Some((2, 200)));
        assert_eq!(run(0, 10, 99), None);
    }

    #[test]
    fn room_is_promised_only_if_it_can_be_made() {
        let mut window = Window::new(65_536, Sqn(0));
        while window.can_hold(1, 1_000) {
            assert!(push(&mut window, 1_000, 1_000), "promised");
        }
        assert!(window.unsent_count() >= 62);
        assert!(window.can_hold(0, 0));
    }
}
