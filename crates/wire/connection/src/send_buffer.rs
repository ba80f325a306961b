use std::sync::Arc;

use counters::Flow;
use counters::table::ConnectionCounters;

/// Least allocation.
const START_BYTES: usize = 512;

/// A buffer up to this size is left alone while its connection is in use.
const KEEP_BYTES: usize = 64 << 10;

/// What was written to a connection and waits for its socket: the backlog, bounded and counted.
#[derive(Debug)]
pub struct SendBuffer<C: ConnectionCounters> {
    bytes: Vec<u8>,
    /// Bytes at the front that the socket has taken.
    head: usize,
    limit_bytes: usize,
    high_water_bytes: usize,
    /// The part of the gauge of all backlogs that is this one's.
    gauged_bytes: usize,
    /// Most bytes held since the last trim.
    peak_bytes: usize,
    /// Something that counts as a sign of life was written since [`SendBuffer::take_written`] was asked last.
    is_written: bool,
    flow: Flow,
    counters: Arc<C>,
}

impl<C: ConnectionCounters> SendBuffer<C> {
    /// An empty one, in which `limit_bytes` may wait.
    #[must_use]
    pub fn new(limit_bytes: usize, counters: Arc<C>) -> SendBuffer<C> {
        SendBuffer {
            bytes: Vec::new(),
            head: 0,
            limit_bytes,
            high_water_bytes: 0,
            gauged_bytes: 0,
            peak_bytes: 0,
            is_written: false,
            flow: Flow::default(),
            counters,
        }
    }

    /// What waits for the socket.
    #[inline]
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.head..]
    }

    /// What waits for the socket before `end`, a place in [`SendBuffer::bytes`].
    #[inline]
    #[must_use]
    pub fn pending_before(&self, end: usize) -> &[u8] {
        &self.bytes[self.head..end]
    }

    /// Bytes that wait for the socket.
    #[inline]
    #[must_use]
    pub fn depth_bytes(&self) -> usize {
        self.bytes.len() - self.head
    }

    /// The most bytes that ever waited.
    #[must_use]
    pub fn high_water_bytes(&self) -> usize {
        self.high_water_bytes
    }

    /// The most bytes that may wait.
    #[inline]
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// How much waits.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        Backlog {
            depth_bytes: self.depth_bytes(),
            high_water_bytes: self.high_water_bytes,
            limit_bytes: self.limit_bytes,
        }
    }

    /// What has gone out. Its bytes are those that the socket has taken.
    #[inline]
    #[must_use]
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// To count what has gone out, but for its bytes.
    #[inline]
    pub fn flow_mut(&mut self) -> &mut Flow {
        &mut self.flow
    }

    /// What is counted of all connections.
    #[inline]
    #[must_use]
    pub fn counters(&self) -> &C {
        &self.counters
    }

    /// All bytes held, those that the socket has taken included: to append to, after a look at
    /// [`SendBuffer::room_bytes`]. [`SendBuffer::publish`] follows.
    #[inline]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes that may be appended.
    #[inline]
    #[must_use]
    pub fn room_bytes(&self) -> usize {
        self.limit_bytes.saturating_sub(self.depth_bytes())
    }

    /// Whether `bytes` more may wait.
    ///
    /// # Errors
    /// They may not; the refusal is counted.
    #[inline]
    pub fn check_room(&self, bytes: usize) -> Result<(), BacklogFull> {
        if bytes > self.room_bytes() { Err(self.refuse()) } else { Ok(()) }
    }

    /// Counts that something found no room.
    #[cold]
    #[must_use]
    pub fn refuse(&self) -> BacklogFull {
        self.counters.backlog_refusals().inc();
        BacklogFull { pending_bytes: self.depth_bytes(), limit_bytes: self.limit_bytes }
    }

    /// Appends what there is room for.
    ///
    /// # Errors
    /// There is no room for it; the refusal is counted.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), BacklogFull> {
        self.check_room(bytes.len())?;
        self.reserve(bytes.len(), |_| ());
        self.bytes.extend_from_slice(bytes);
        self.publish();
        Ok(())
    }

    /// Makes room in memory for `bytes` more, which the limit allows. `before_move` is called if bytes are going to
    /// change their places.
    #[inline]
    pub fn reserve(&mut self, bytes: usize, before_move: impl FnOnce(&mut Vec<u8>)) {
        if bytes > self.bytes.capacity() - self.bytes.len() {
            self.make_room(bytes, before_move);
        }
    }

    /// Bytes that were taken are moved out only when they are at least half of all, so that each byte is moved once at
    /// most; then twice the limit is always enough.
    #[cold]
    fn make_room(&mut self, bytes: usize, before_move: impl FnOnce(&mut Vec<u8>)) {
        if self.head > 0 && self.head >= self.bytes.len() / 2 {
            before_move(&mut self.bytes);
            self.bytes.drain(..self.head);
            self.head = 0;
        }
        let needed = self.bytes.len() + bytes;
        let most = self.limit_bytes.saturating_mul(2);
        let target = (2 * self.bytes.capacity()).min(most).max(START_BYTES).max(needed);
        if needed > self.bytes.capacity() {
            self.bytes.reserve_exact(target - self.bytes.len());
        }
    }

    /// The socket has taken the first `count_bytes` of what waits.
    ///
    /// # Panics
    /// If that is more than waits.
    pub fn consume(&mut self, count_bytes: usize) {
        assert!(count_bytes <= self.depth_bytes(), "a socket cannot accept more than was pending");
        self.count_taken(count_bytes);
        self.head += count_bytes;
        if self.head == self.bytes.len() {
            self.bytes.clear();
            self.head = 0;
        }
        self.publish();
    }

    /// Counts bytes that the socket has taken without their being here before.
    pub fn count_taken(&mut self, bytes: usize) {
        self.flow.bytes += bytes as u64;
        self.counters.bytes_out().add(bytes as u64);
    }

    /// Something was written, here or past this buffer, that shows the peer that this side lives.
    #[inline]
    pub fn note_written(&mut self) {
        self.is_written = true;
    }

    /// Whether anything was written since this was last asked.
    pub fn take_written(&mut self) -> bool {
        std::mem::take(&mut self.is_written)
    }

    /// Brings the gauge of all backlogs and the high-water marks up to date.
    pub fn publish(&mut self) {
        let depth = self.depth_bytes();
        self.gauge(depth);
        self.peak_bytes = self.peak_bytes.max(self.bytes.len());
        if depth > self.high_water_bytes {
            self.high_water_bytes = depth;
            self.counters.backlog_high_water_bytes().raise(depth as u64);
        }
    }

    fn gauge(&mut self, depth: usize) {
        let gauge = self.counters.backlog_bytes();
        gauge.set(gauge.get().wrapping_sub(self.gauged_bytes as u64).wrapping_add(depth as u64));
        self.gauged_bytes = depth;
    }

    /// Gives memory back: all but room for a ping of `ping_bytes` if nothing waits and nothing longer was here since
    /// the last call, the greater part if the buffer has become far larger than needed.
    pub fn trim(&mut self, ping_bytes: usize) {
        if self.bytes.is_empty() && self.peak_bytes <= ping_bytes {
            self.bytes.shrink_to(self.peak_bytes);
        } else if self.bytes.capacity() > KEEP_BYTES.max(4 * self.peak_bytes) {
            self.bytes.shrink_to(KEEP_BYTES.max(self.peak_bytes));
        }
        self.peak_bytes = self.bytes.len();
    }

    /// Heap memory in use.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

impl<C: ConnectionCounters> Drop for SendBuffer<C> {
    fn drop(&mut self) {
        self.gauge(0);
    }
}

/// How much waits for the socket of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes now.
    pub depth_bytes: usize,
    /// The most there ever were.
    pub high_water_bytes: usize,
    /// The most there may be.
    pub limit_bytes: usize,
}

/// A peer keeps up as long as less than this part of the limit waits for it.
const KEEP_UP_PART: usize = 8;

impl Backlog {
    /// Whether the peer takes what it is sent about as fast as it comes. From others nothing had better be read, so
    /// that their answers come first.
    #[must_use]
    pub fn keeps_up(&self) -> bool {
        self.depth_bytes < self.limit_bytes / KEEP_UP_PART
    }
}

/// The backlog has no room for what was to be written; nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogFull {
    /// Bytes waiting.
    pub pending_bytes: usize,
    /// The limit.
    pub limit_bytes: usize,
}

#[cfg(test)]
mod tests {
    use counters::table::RsslConnections;

    use super::*;

    const LIMIT_BYTES: usize = 4096;

    fn buffer() -> SendBuffer<RsslConnections> {
        SendBuffer::new(LIMIT_BYTES, Arc::default())
    }

    #[test]
    fn at_the_limit_nothing_is_appended_and_the_refusal_is_counted() {
        let mut buffer = buffer();
        buffer.append(&[1; LIMIT_BYTES - 1]).expect("there is room");
        let full = BacklogFull { pending_bytes: LIMIT_BYTES - 1, limit_bytes: LIMIT_BYTES };
        assert_eq!(buffer.append(&[2; 2]), Err(full));
        assert_eq!((buffer.depth_bytes(), buffer.counters().backlog_refusals.get()), (LIMIT_BYTES - 1, 1));
        buffer.append(&[3]).expect("there is room for one");
        buffer.consume(1);
        assert_eq!(buffer.room_bytes(), 1);
    }

    #[test]
    fn bytes_come_out_in_order_and_memory_stays_below_twice_the_limit() {
        let mut buffer = buffer();
        let (mut next_in, mut next_out) = (0_u8, 0_u8);
        for step in 0..2_000_usize {
            let count = step * 7 % 300;
            if count <= buffer.room_bytes() {
                let piece: Vec<u8> = (0..count).map(|at| next_in.wrapping_add(at as u8)).collect();
                next_in = next_in.wrapping_add(count as u8);
                buffer.append(&piece).expect("there is room");
            }
            let taken = (step * 11 % 290).min(buffer.depth_bytes());
            for &byte in &buffer.pending()[..taken] {
                assert_eq!(byte, next_out);
                next_out = next_out.wrapping_add(1);
            }
            buffer.consume(taken);
            assert!(buffer.memory_bytes() <= 2 * LIMIT_BYTES, "{}", buffer.memory_bytes());
        }
        assert!(buffer.high_water_bytes() > LIMIT_BYTES / 2 && buffer.flow().bytes > 100_000);
    }

    #[test]
    fn who_keeps_places_in_it_is_asked_before_bytes_move() {
        let mut buffer = buffer();
        buffer.append(&[1; 500]).expect("there is room");
        buffer.consume(400);
        buffer.reserve(10, |_| panic!("nothing moves"));
        buffer.reserve(100, |bytes| bytes.extend_from_slice(&[2; 3]));
        assert_eq!(buffer.pending(), [[1; 100].as_slice(), &[2; 3]].concat());
    }

    #[test]
    fn the_gauge_is_the_sum_of_all_and_the_mark_that_of_the_deepest() {
        let counters = Arc::<RsslConnections>::default();
        let mut buffers = [1, 2].map(|_| SendBuffer::new(LIMIT_BYTES, Arc::clone(&counters)));
        buffers[0].append(&[0; 100]).expect("there is room");
        buffers[1].append(&[0; 30]).expect("there is room");
        buffers[0].consume(90);
        let gauge = |counters: &RsslConnections| counters.backlog_bytes.get();
        assert_eq!((gauge(&counters), counters.backlog_high_water_bytes.get()), (40, 100));
        let backlog = Backlog { depth_bytes: 10, high_water_bytes: 100, limit_bytes: LIMIT_BYTES };
        assert_eq!((buffers[0].backlog(), counters.bytes_out.get()), (backlog, 90));
        let [first, second] = buffers;
        drop(first);
        assert_eq!(gauge(&counters), 30);
        drop(second);
        assert_eq!(gauge(&counters), 0);
    }

    #[test]
    fn an_idle_buffer_keeps_room_for_a_ping_at_most() {
        let mut buffer = buffer();
        buffer.append(&[0; 1000]).expect("there is room");
        buffer.consume(1000);
        buffer.trim(3);
        assert!(buffer.memory_bytes() >= 1000, "it was needed since the last time");
        buffer.bytes().extend_from_slice(&[0; 3]);
        buffer.publish();
        buffer.consume(3);
        buffer.trim(3);
        assert!(buffer.memory_bytes() < 16, "{}", buffer.memory_bytes());
        buffer.trim(3);
        assert_eq!(buffer.memory_bytes(), 0);
    }
}
