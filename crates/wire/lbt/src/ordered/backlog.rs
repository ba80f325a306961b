use super::source::{Room, Slot};
use crate::wire::lbmc;

/// The messages of a session that not every connection has taken yet: a ring of bytes, each message in one
/// piece.
///
/// Positions count bytes since the begin of the session. A connection's place is a [`Cursor`]; the driver
/// tells the backlog what the slowest of them still needs. When all have everything, the next message goes
/// to the begin of the memory again, so that a session whose connections keep up stays in the cache.
pub struct Backlog {
    bytes: Box<[u8]>,
    /// Messages are refused while more than this waits for the slowest connection.
    bytes_max: u64,
    /// Everything before it is needed no more.
    oldest: u64,
    /// The position that lies at the begin of the memory now, and the one that did before it wrapped.
    lap: u64,
    previous_lap: u64,
    /// Where the next message goes.
    head: u64,
}

/// How far a connection is.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    /// The begin of the message that goes out now.
    kept: u64,
    /// The next byte.
    at: u64,
    /// The rest of a message that was passed over in the middle; it goes first.
    rest: Vec<u8>,
    rest_at: usize,
}

impl Backlog {
    /// A backlog that refuses messages once `bytes_max` wait, with memory for one message of `message_max`
    /// bytes beside that.
    #[must_use]
    pub fn new(bytes_max: usize, message_max: usize) -> Backlog {
        // A message in fragments has headers beside its bytes; a ring whose pieces do not wrap loses up to a
        // piece at each end.
        let capacity = bytes_max + message_max + message_max / 8 + 4 * lbmc::MESSAGE_LEN_MAX;
        Backlog {
            bytes: vec![0; capacity].into_boxed_slice(),
            bytes_max: bytes_max as u64,
            oldest: 0,
            lap: 0,
            previous_lap: 0,
            head: 0,
        }
    }

    /// Where a connection begins that hears what is sent from now on.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor { kept: self.head, at: self.head, rest: Vec::new(), rest_at: 0 }
    }

    /// The same for a connection that is first given `first`.
    #[must_use]
    pub fn cursor_after(&self, first: Vec<u8>) -> Cursor {
        Cursor { rest: first, ..self.cursor() }
    }

    /// Bytes written so far.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.head
    }

    /// Bytes that wait for the slowest connection.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        self.head - self.oldest
    }

    /// Bytes that a connection has still to be given.
    #[must_use]
    pub fn pending(&self, cursor: &Cursor) -> u64 {
        self.head - cursor.at + (cursor.rest.len() - cursor.rest_at) as u64
    }

    /// Whether a connection holds up new messages.
    #[must_use]
    pub fn is_laggard(&self, cursor: &Cursor) -> bool {
        self.head - cursor.kept >= self.bytes_max / 2
    }

    /// Messages that a connection has not been given whole. Looks at each.
    #[must_use]
    pub fn messages_after(&self, cursor: &Cursor) -> u64 {
        let (mut at, mut count) = (cursor.kept, u64::from(cursor.rest_at < cursor.rest.len()));
        while at < self.head {
            let message = lbmc::Message::parse(self.slice(at), 0);
            count += u64::from(message.is_ok_and(|m| m.kind == lbmc::Kind::Message));
            at += self.message_len(at);
        }
        count
    }

    /// The next bytes for a connection, in one piece; empty if it has all.
    #[must_use]
    pub fn next_bytes<'a>(&'a self, cursor: &'a Cursor) -> &'a [u8] {
        if cursor.rest_at < cursor.rest.len() {
            return &cursor.rest[cursor.rest_at..];
        }
        self.slice(cursor.at)
    }

    /// A connection has taken `count` of those bytes.
    pub fn taken(&self, cursor: &mut Cursor, count: usize) {
        if cursor.rest_at < cursor.rest.len() {
            cursor.rest_at += count;
            if cursor.rest_at == cursor.rest.len() {
                cursor.rest.clear();
                cursor.rest_at = 0;
            }
            return;
        }
        let piece_end = cursor.at + self.slice(cursor.at).len() as u64;
        cursor.at += count as u64;
        if cursor.at == piece_end {
            cursor.kept = piece_end;
        }
        while cursor.kept < cursor.at {
            let next = cursor.kept + self.message_len(cursor.kept);
            if next > cursor.at {
                break;
            }
            cursor.kept = next;
        }
    }

    /// Passes over everything that a connection has not taken, except for the rest of the message that is
    /// under way; returns how many messages that are.
    pub fn pass_over(&self, cursor: &mut Cursor) -> u64 {
        let mut from = cursor.kept;
        if cursor.at > cursor.kept {
            let len = self.message_len(cursor.kept);
            let done = (cursor.at - cursor.kept) as usize;
            cursor.rest.extend_from_slice(&self.slice(cursor.kept)[done..len as usize]);
            from += len;
        }
        let mut count = 0;
        while from < self.head {
            from += self.message_len(from);
            count += 1;
        }
        (cursor.kept, cursor.at) = (self.head, self.head);
        count
    }

    /// What any of the connections still needs begins at the slowest of these; with none of them nothing is
    /// needed.
    #[inline]
    pub fn release<'a>(&mut self, cursors: impl Iterator<Item = &'a Cursor>) {
        self.oldest = cursors.map(|c| c.kept).min().unwrap_or(self.head);
    }

    fn slice(&self, at: u64) -> &[u8] {
        let (start, end) = if at < self.lap {
            (at - self.previous_lap, self.lap - self.previous_lap)
        } else {
            (at - self.lap, self.head - self.lap)
        };
        &self.bytes[start as usize..end as usize]
    }

    fn message_len(&self, at: u64) -> u64 {
        let len = lbmc::stream_len(self.slice(at)).ok().flatten();
        len.expect("the backlog holds whole messages") as u64
    }

    /// Where a message of `len` bytes may go, and whether the memory begins anew for it.
    #[inline]
    fn place(&self, len: u64) -> Option<bool> {
        let (capacity, tail) = (self.bytes.len() as u64, self.head - self.lap);
        if self.oldest == self.head {
            return (len <= capacity).then_some(true);
        }
        if self.oldest < self.lap {
            return (tail + len <= self.oldest - self.previous_lap).then_some(false);
        }
        if tail + len <= capacity {
            return Some(false);
        }
        (len <= self.oldest - self.lap).then_some(true)
    }
}

impl Room for Backlog {
    type Slot<'a> = BacklogSlot<'a>;

    #[inline]
    fn is_blocked(&self) -> bool {
        self.waiting_bytes() >= self.bytes_max
    }

    #[inline]
    fn slot(&mut self, len: usize) -> Option<BacklogSlot<'_>> {
        if self.place(len as u64)? && self.head != self.lap {
            self.previous_lap = self.lap;
            self.lap = self.head;
        }
        Some(BacklogSlot { backlog: self, len })
    }

    fn can_hold(&self, count: usize, len: usize) -> bool {
        ((count + 2) * len) as u64 + self.waiting_bytes() <= self.bytes.len() as u64
    }
}

/// Room for the next message of a [`Backlog`].
pub struct BacklogSlot<'a> {
    backlog: &'a mut Backlog,
    len: usize,
}

impl Slot for BacklogSlot<'_> {
    #[inline]
    fn bytes(&mut self) -> &mut [u8] {
        let start = (self.backlog.head - self.backlog.lap) as usize;
        &mut self.backlog.bytes[start..start + self.len]
    }

    #[inline]
    fn commit(self) {
        self.backlog.head += self.len as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::lbmc::{Chain, Kind, Message, emit_message};
    use units::{Rng, Sqn};

    /// Writes a message whose number and length can be told from its bytes.
    fn push(backlog: &mut Backlog, number: u32, len: usize) -> bool {
        let mut message = Vec::new();
        let payload = vec![number as u8; len];
        emit_message(&mut message, Kind::Message, Some((1, Sqn(number))), &Chain::default(), Some(&payload));
        if backlog.is_blocked() {
            return false;
        }
        let Some(mut slot) = backlog.slot(message.len()) else { return false };
        slot.bytes().copy_from_slice(&message);
        slot.commit();
        true
    }

    /// A connection and what it was given.
    #[derive(Default)]
    struct Peer {
        cursor: Cursor,
        bytes: Vec<u8>,
    }

    impl Peer {
        fn take(&mut self, backlog: &Backlog, most: usize) {
            let next = backlog.next_bytes(&self.cursor);
            let count = next.len().min(most);
            self.bytes.extend_from_slice(&next[..count]);
            backlog.taken(&mut self.cursor, count);
        }

        fn numbers(&self) -> Vec<u32> {
            let (mut at, mut numbers) = (0, Vec::new());
            while at < self.bytes.len() {
                let message = Message::parse(&self.bytes, at).expect("whole messages one behind the other");
                assert!(message.data().iter().all(|&b| b == message.sqn.0 as u8), "{}", message.sqn);
                numbers.push(message.sqn.0);
                at += message.len;
            }
            numbers
        }
    }

    #[test]
    fn every_connection_gets_every_message_whole_at_its_own_speed() {
        let _repeat = testkit::repeat!();
        let mut rng = Rng::new(3);
        let mut backlog = Backlog::new(4_000, 2_000);
        let mut peers = [Peer::default(), Peer::default(), Peer::default()];
        let mut number = 0;
        for _ in 0..50_000 {
            if rng.chance(0.5) && push(&mut backlog, number, rng.below(1_500) as usize) {
                number += 1;
            }
            let peer = &mut peers[rng.below(3) as usize];
            peer.take(&backlog, rng.below(2_000) as usize);
            backlog.release(peers.iter().map(|p| &p.cursor));
        }
        for peer in &mut peers {
            while backlog.pending(&peer.cursor) > 0 {
                peer.take(&backlog, usize::MAX);
            }
            assert!(peer.numbers().into_iter().eq(0..number));
        }
        assert!(number > 1_000);
    }

    #[test]
    fn a_laggard_that_is_passed_over_goes_on_with_a_whole_message() {
        let _repeat = testkit::repeat!();
        let mut rng = Rng::new(4);
        let mut backlog = Backlog::new(4_000, 2_000);
        let (mut fast, mut slow) = (Peer::default(), Peer::default());
        let (mut number, mut skipped) = (0, 0);
        for _ in 0..20_000 {
            while !push(&mut backlog, number, rng.below(1_500) as usize) {
                assert!(backlog.is_laggard(&slow.cursor));
                skipped += backlog.pass_over(&mut slow.cursor);
                backlog.release([&fast.cursor, &slow.cursor].into_iter());
            }
            number += 1;
            while backlog.pending(&fast.cursor) > 0 {
                fast.take(&backlog, usize::MAX);
            }
            slow.take(&backlog, rng.below(700) as usize);
            backlog.release([&fast.cursor, &slow.cursor].into_iter());
        }
        while backlog.pending(&slow.cursor) > 0 {
            slow.take(&backlog, usize::MAX);
        }
        assert!(fast.numbers().into_iter().eq(0..number));
        let got = slow.numbers();
        assert!(got.is_sorted() && skipped > 0);
        assert_eq!(got.len() as u64 + skipped, u64::from(number));
    }

    #[test]
    fn without_connections_nothing_waits_and_a_message_of_the_greatest_length_fits() {
        let mut backlog = Backlog::new(1_000, 1 << 20);
        assert!(backlog.can_hold(17, lbmc::MESSAGE_LEN_MAX));
        assert!(push(&mut backlog, 0, 2_000));
        assert!(!push(&mut backlog, 1, 1), "above the limit");
        backlog.release(std::iter::empty());
        assert_eq!(backlog.waiting_bytes(), 0);
        assert!(push(&mut backlog, 1, 1));
    }
}
