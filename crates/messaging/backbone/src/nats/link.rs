//! One link over NATS: messages in order, or an end. Pure: packets and the time in, packets out.
//!
//! NATS drops what a subscriber does not take, and says nothing to the sender. So packets have numbers, and a link on
//! which one is missing is over; both ends notice it by themselves. The receiver says how far it has taken them, and the
//! sender has no more than a window under way: images for a server that has just come do not make the servers of NATS
//! drop what they hold for it.

use std::collections::VecDeque;
use std::time::Duration;

use units::Nanos;

use super::packet::{
    Assembly, Body, HEAD_BYTES, Head, Kind, MESSAGE_BYTES_MAX, PIECE_HEAD_BYTES, Packet, RECORD_HEAD_BYTES,
    append_record, piece_head,
};

/// Bytes under way in one direction of a link: beyond it the next packet waits.
pub(super) const WINDOW_BYTES: usize = 1 << 20;
/// The receiver reports when it has taken so much.
const REPORT_BYTES: usize = WINDOW_BYTES / 4;
/// Bytes that wait for the window; a link whose peer takes nothing is over when there are more.
pub(super) const WAITING_BYTES_MAX: usize = 128 << 20;

/// What is said of a link that ends because all of them hold too much.
pub(super) const OVERFULL: &str = "too much waits for peers that do not take it";
/// What is said of a link that would take more memory than is left for messages in pieces.
pub(super) const NO_ROOM: &str = "too many long messages are under way at a time";

/// Why a link is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Over(pub(super) String);

fn over(text: &str) -> Over {
    Over(text.to_owned())
}

/// The bound on what waits in all links of an end together.
#[derive(Debug)]
pub(super) struct Waiting {
    max: usize,
    /// What waits, or more: it is counted anew when it comes to matter.
    at_most: usize,
}

impl Waiting {
    pub(super) fn new(max: u64) -> Waiting {
        Waiting { max: usize::try_from(max).unwrap_or(usize::MAX), at_most: 0 }
    }

    /// Takes note that a link has been given so many bytes more. If all hold too much, returns the key of the one that
    /// holds the most, which has to end.
    pub(super) fn add<'l, K: Copy>(
        &mut self,
        bytes: usize,
        links: impl Iterator<Item = (K, &'l Link)> + Clone,
    ) -> Option<K> {
        self.at_most += bytes;
        if self.at_most <= self.max {
            return None;
        }
        self.at_most = links.clone().map(|(_, link)| link.waiting()).sum();
        let fullest = links.max_by_key(|(_, link)| link.waiting())?;
        (self.at_most > self.max).then_some(fullest.0)
    }
}

/// How long what takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// An end that has said nothing for so long says that it lives.
    pub(super) keep_alive: Duration,
    /// An end that has heard nothing for so long takes the other one for gone.
    pub(super) timeout: Duration,
}

/// One end of a link.
pub(super) struct Link {
    origin: u64,
    run: u64,
    /// Messages that wait, and how far the first one has been sent in pieces.
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    offset: usize,
    /// Number of the last packet sent, and the bytes of those that are not known to be taken.
    sent: u64,
    under_way: VecDeque<(u64, usize)>,
    under_way_bytes: usize,
    /// Number of the last packet taken, and of the last one that this was reported of.
    taken: u64,
    reported: u64,
    unreported_bytes: usize,
    assembly: Assembly,
    heard_at: Nanos,
    said_at: Nanos,
    packet: Vec<u8>,
}

impl Link {
    /// The end of `origin` of link `run`, which has just been opened.
    pub(super) fn new(now: Nanos, origin: u64, run: u64) -> Link {
        Link {
            origin,
            run,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            offset: 0,
            sent: 0,
            under_way: VecDeque::new(),
            under_way_bytes: 0,
            taken: 0,
            reported: 0,
            unreported_bytes: 0,
            assembly: Assembly::default(),
            heard_at: now,
            said_at: now,
            packet: Vec::new(),
        }
    }

    pub(super) fn run(&self) -> u64 {
        self.run
    }

    /// Takes a message to be sent.
    pub(super) fn send(&mut self, message: &[u8]) -> Result<(), Over> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(Over(format!(
                "a message has {} bytes, the most is {MESSAGE_BYTES_MAX}",
                message.len()
            )));
        }
        if self.waiting_bytes + message.len() > WAITING_BYTES_MAX {
            return Err(Over(format!(
                "the peer does not take messages: {WAITING_BYTES_MAX} bytes wait for it"
            )));
        }
        self.waiting_bytes += message.len();
        self.waiting.push_back(message.to_vec());
        Ok(())
    }

    /// Bytes that wait for the window.
    pub(super) fn waiting(&self) -> usize {
        self.waiting_bytes
    }

    /// Bytes that the other end is not known to have.
    pub(super) fn unsent(&self) -> usize {
        self.waiting_bytes + self.under_way_bytes
    }

    /// Bytes of a message that has not come in whole.
    pub(super) fn assembled(&self) -> usize {
        self.assembly.bytes()
    }

    /// Makes the next packet of at most `max` bytes, if something waits that may be sent now.
    pub(super) fn next_packet(&mut self, now: Nanos, max: usize) -> Option<&[u8]> {
        let first = self.waiting.front()?;
        if self.under_way_bytes >= WINDOW_BYTES {
            return None;
        }
        let is_whole = HEAD_BYTES + RECORD_HEAD_BYTES + first.len() <= max;
        self.packet.clear();
        self.sent += 1;
        let kind = if is_whole { Kind::Messages } else { Kind::Piece };
        let head = self.head(kind);
        self.packet.extend_from_slice(&head);
        if is_whole {
            self.append_messages(max)
        } else {
            self.append_piece(max)
        }
        self.under_way.push_back((self.sent, self.packet.len()));
        self.under_way_bytes += self.packet.len();
        self.said(now);
        Some(&self.packet)
    }

    fn append_messages(&mut self, max: usize) {
        while let Some(message) = self.waiting.front() {
            if self.packet.len() + RECORD_HEAD_BYTES + message.len() > max {
                return;
            }
            append_record(&mut self.packet, [message, b""]);
            self.waiting_bytes -= message.len();
            self.waiting.pop_front();
        }
    }

    fn append_piece(&mut self, max: usize) {
        let Some(message) = self.waiting.front() else { return };
        let room = max.saturating_sub(HEAD_BYTES + PIECE_HEAD_BYTES).max(1);
        let end = (self.offset + room).min(message.len());
        self.packet.extend_from_slice(&piece_head(message.len(), self.offset));
        self.packet.extend_from_slice(&message[self.offset..end]);
        self.waiting_bytes -= end - self.offset;
        self.offset = end;
        if end == message.len() {
            self.waiting.pop_front();
            self.offset = 0;
        }
    }

    /// A head of this link as it stands.
    pub(super) fn head(&self, kind: Kind) -> [u8; HEAD_BYTES] {
        Head { kind, origin: self.origin, run: self.run, number: self.sent, taken: self.taken }.bytes()
    }

    /// A keep-alive, if one is due: for the time, or to report what was taken.
    pub(super) fn next_keep_alive(&mut self, now: Nanos, times: Times) -> Option<[u8; HEAD_BYTES]> {
        let is_due = now >= self.said_at + times.keep_alive || self.unreported_bytes >= REPORT_BYTES;
        is_due.then(|| {
            self.said(now);
            self.head(Kind::KeepAlive)
        })
    }

    fn said(&mut self, now: Nanos) {
        self.said_at = now;
        self.reported = self.taken;
        self.unreported_bytes = 0;
    }

    /// When something is due next if nothing else happens.
    pub(super) fn check(&self, now: Nanos, times: Times) -> Result<(), Over> {
        if now < self.heard_at + times.timeout {
            return Ok(());
        }
        Err(Over(format!("nothing was heard for {} ms", times.timeout.as_millis())))
    }

    /// Takes a packet of the other end, and delivers what it brings.
    pub(super) fn receive(
        &mut self,
        now: Nanos,
        packet: &Packet<'_>,
        bytes: usize,
        mut deliver: impl FnMut(&[u8]),
    ) -> Result<(), Over> {
        self.heard_at = now;
        self.forget_taken(packet.head.taken)?;
        let number = packet.head.number;
        let expected = self.taken + u64::from(packet.head.kind.is_numbered());
        match packet.body {
            Body::Messages(_) | Body::Piece { .. } | Body::KeepAlive if number != expected => {
                return Err(Over(format!("packets are lost: {number} follows {}", self.taken)));
            }
            Body::Messages(_) if self.assembly.is_begun() => return Err(over("a message is not whole")),
            Body::Messages(records) => records.for_each(&mut deliver),
            Body::Piece { total, offset, bytes } => match self.assembly.add(total, offset, bytes) {
                Ok(whole) => whole.iter().for_each(|message| deliver(message)),
                Err(()) => return Err(over("pieces of a message do not fit")),
            },
            Body::End(reason) => return Err(over(reason)),
            Body::KeepAlive | Body::Query(_) | Body::Open | Body::Accept => {}
        }
        if packet.head.kind.is_numbered() {
            self.taken = number;
            self.unreported_bytes += bytes;
        }
        Ok(())
    }

    fn forget_taken(&mut self, taken: u64) -> Result<(), Over> {
        if taken > self.sent {
            return Err(Over(format!("the peer has taken packet {taken}, {} were sent", self.sent)));
        }
        while let Some((number, bytes)) = self.under_way.front()
            && *number <= taken
        {
            self.under_way_bytes -= bytes;
            self.under_way.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use units::Rng;

    use super::super::packet;
    use super::*;

    const TIMES: Times =
        Times { keep_alive: Duration::from_millis(500), timeout: Duration::from_millis(2_000) };
    const MAX: usize = 1_000;

    fn pair(now: Nanos) -> (Link, Link) {
        (Link::new(now, 1, 9), Link::new(now, 2, 9))
    }

    /// Hands a packet over.
    fn take(to: &mut Link, now: Nanos, bytes: &[u8], heard: &mut Vec<Vec<u8>>) -> Result<(), Over> {
        let packet = packet::read(bytes).expect("a link makes sound packets");
        to.receive(now, &packet, bytes.len(), |message| heard.push(message.to_vec()))
    }

    #[test]
    fn what_is_sent_arrives_in_order_or_the_link_is_over() {
        let mut broken = 0;
        testkit::for_each_seed!(0..500, |seed| {
            let (mut rng, mut now) = (Rng::new(seed), Nanos(1));
            let (mut a, mut b) = pair(now);
            let (mut sent, mut heard, mut result) = (Vec::new(), Vec::new(), Ok(()));
            let loses = rng.below(2) == 0;
            let mut steps = 0;
            while result.is_ok() && (steps < 60 || heard.len() < sent.len()) {
                steps += 1;
                assert!(steps < 20_000, "what waits is sent");
                now += Duration::from_millis(rng.below(300));
                if steps < 60 {
                    let message: Vec<u8> = (0..rng.below(3_000)).map(|_| rng.next_u64() as u8).collect();
                    a.send(&message).expect("there is room");
                    sent.push(message);
                }
                let keep_alive = a.next_keep_alive(now, TIMES).map(|head| head.to_vec());
                let next = a.next_packet(now, MAX).map(<[u8]>::to_vec);
                for bytes in keep_alive.into_iter().chain(next) {
                    assert!(bytes.len() <= MAX);
                    let is_lost = loses && rng.below(20) == 0;
                    result = if is_lost { Ok(()) } else { result.and(take(&mut b, now, &bytes, &mut heard)) };
                }
                if let Some(head) = b.next_keep_alive(now, TIMES) {
                    take(&mut a, now, &head, &mut Vec::new()).expect("nothing goes up but reports");
                }
            }
            assert_eq!(heard, sent[..heard.len()]);
            assert!(loses || result.is_ok(), "{result:?}");
            broken += u32::from(result.is_err());
        });
        assert!(broken > 100, "{broken}");
    }

    #[test]
    fn when_all_links_hold_too_much_the_fullest_one_has_to_end() {
        let (mut links, mut waiting) = (BTreeMap::new(), Waiting::new(1_000));
        let mut send = |links: &mut BTreeMap<u32, Link>, to: u32, bytes: usize| {
            let link = links.entry(to).or_insert_with(|| Link::new(Nanos(1), 1, 9));
            link.send(&vec![0; bytes]).expect("there is room for one");
            waiting.add(bytes, links.iter().map(|(key, link)| (*key, link)))
        };
        assert_eq!([(1, 300), (2, 500), (3, 200)].map(|(to, bytes)| send(&mut links, to, bytes)), [None; 3]);
        assert_eq!(send(&mut links, 3, 1), Some(2), "not the one that was given the last message");
        links.remove(&2);
        assert_eq!(send(&mut links, 3, 499), None, "what has ended does not count");
        // Nor does what was sent.
        while links.get_mut(&3).and_then(|link| link.next_packet(Nanos(1), MAX)).is_some() {}
        assert_eq!((send(&mut links, 1, 700), send(&mut links, 1, 1)), (None, Some(1)));
    }

    #[test]
    fn no_more_than_a_window_is_under_way_and_a_report_makes_room() {
        let now = Nanos(1);
        let (mut a, mut b) = pair(now);
        let message = vec![7; 100_000];
        for _ in 0..40 {
            a.send(&message).expect("there is room");
        }
        let (mut heard, max) = (Vec::new(), 64 << 10);
        let fill = |a: &mut Link, b: &mut Link, heard: &mut Vec<Vec<u8>>| {
            let mut bytes = 0;
            while let Some(packet) = a.next_packet(now, max).map(<[u8]>::to_vec) {
                take(b, now, &packet, heard).expect("nothing is lost");
                bytes += packet.len();
            }
            bytes
        };
        let first = fill(&mut a, &mut b, &mut heard);
        assert!((WINDOW_BYTES..WINDOW_BYTES + max).contains(&first), "{first}");
        assert!(a.unsent() >= 40 * message.len(), "nothing is known to be taken");
        let report = b.next_keep_alive(now, TIMES).expect("so much was taken");
        assert!(b.next_keep_alive(now, TIMES).is_none(), "it is reported once");
        take(&mut a, now, &report, &mut Vec::new()).expect("a report");
        let second = fill(&mut a, &mut b, &mut heard);
        assert!((WINDOW_BYTES..WINDOW_BYTES + max).contains(&second), "{second}");
        assert_eq!(heard, vec![message; heard.len()]);
        assert!(heard.len() >= 2 * (WINDOW_BYTES / 100_000) - 1, "{}", heard.len());
    }

    #[test]
    fn a_peer_that_takes_nothing_ends_the_link() {
        let (mut a, _) = pair(Nanos(1));
        let message = vec![7; 32 << 20];
        let sent = (0..10).take_while(|_| a.send(&message).is_ok()).count();
        assert_eq!(sent, WAITING_BYTES_MAX / message.len());
        let refused = a.send(&message).expect_err("too much waits");
        assert!(refused.0.contains("134217728 bytes wait"), "{refused:?}");
        assert!(a.send(&vec![0; MESSAGE_BYTES_MAX + 1]).is_err_and(|e| e.0.contains("the most is 67108864")));
    }

    #[test]
    fn silence_and_ends_and_lies_end_the_link() {
        let now = Nanos(1);
        let (mut a, mut b) = pair(now);
        assert_eq!(a.check(now + Duration::from_millis(1_999), TIMES), Ok(()));
        let silent = a.check(now + TIMES.timeout, TIMES).expect_err("silence");
        assert_eq!(silent.0, "nothing was heard for 2000 ms");
        let end = [&b.head(Kind::End)[..], b"stopped"].concat();
        assert_eq!(take(&mut a, now, &end, &mut Vec::new()), Err(over("stopped")));
        let lie = Head { kind: Kind::KeepAlive, origin: 1, run: 9, number: 0, taken: 5 }.bytes();
        let error = take(&mut b, now, &lie, &mut Vec::new()).expect_err("it was not sent so much");
        assert_eq!(error.0, "the peer has taken packet 5, 0 were sent");
        // The last packet is lost, and a keep-alive says so.
        let ahead = Head { kind: Kind::KeepAlive, origin: 1, run: 9, number: 1, taken: 0 }.bytes();
        let error = take(&mut b, now, &ahead, &mut Vec::new()).expect_err("one is missing");
        assert_eq!(error.0, "packets are lost: 1 follows 0");
    }
}
