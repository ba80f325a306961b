//! What one message of NATS carries: a head, and messages of the backbone or a piece of a long one. Pure: bytes in, bytes
//! out. `docs/protocol/nats.md` has the layouts.
//!
//! What is read comes from whoever may publish under the prefix. It is checked as a whole before anything of it is
//! used, and a long message takes memory as its pieces arrive, not as its first piece announces.

/// Bytes of a head.
pub(super) const HEAD_BYTES: usize = 36;
/// Bytes in front of each message of a [`Kind::Messages`].
pub(super) const RECORD_HEAD_BYTES: usize = 4;
/// Bytes in front of a piece.
pub(super) const PIECE_HEAD_BYTES: usize = 8;
/// The longest message that is put together of pieces.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes of all messages that one end puts together at a time.
pub(super) const ASSEMBLED_BYTES_MAX: usize = 256 << 20;
/// The longest reason of an end, bytes; the rest is left out.
const REASON_BYTES_MAX: usize = 200;
const VERSION: u8 = 1;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Whole messages. Takes a number.
    Messages = 1,
    /// A piece of a message that is longer than a packet. Takes a number.
    Piece = 2,
    /// The sender lives; its number is that of the last packet that took one.
    KeepAlive = 3,
    /// The stream or link is over.
    End = 4,
    /// Who publishes this topic is asked for a keep-alive.
    Query = 5,
    /// Opens a link.
    Open = 6,
    /// Answers it.
    Accept = 7,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::*;
        [Messages, Piece, KeepAlive, End, Query, Open, Accept].into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Whether it has a number of its own.
    pub(super) fn is_numbered(self) -> bool {
        matches!(self, Kind::Messages | Kind::Piece)
    }
}

/// What stands at the beginning of each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    /// The carrier's end that sends it: a random number, new at each start.
    pub(super) origin: u64,
    /// The link, or of a stream how many times its sender had opened streams before.
    pub(super) run: u64,
    /// Packets that took a number are counted from 1 on, for each stream and each direction of a link.
    pub(super) number: u64,
    /// On a link, the number up to which the sender has everything of the other direction.
    pub(super) taken: u64,
}

impl Head {
    pub(super) fn bytes(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = VERSION;
        bytes[1] = self.kind as u8;
        for (at, value) in [(4, self.origin), (12, self.run), (20, self.number), (28, self.taken)] {
            bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
        }
        bytes
    }
}

/// A packet as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    pub(super) head: Head,
    pub(super) body: Body<'a>,
}

/// What follows the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body<'a> {
    /// Messages, each behind its length. They are known to fill it.
    Messages(Records<'a>),
    Piece {
        /// Bytes of the whole message.
        total: usize,
        /// How many of them come before this piece.
        offset: usize,
        bytes: &'a [u8],
    },
    KeepAlive,
    /// Why.
    End(&'a str),
    /// The name of the topic.
    Query(&'a str),
    Open,
    Accept,
}

/// Reads a packet; `None` for one that is malformed or of another version.
pub(super) fn read(bytes: &[u8]) -> Option<Packet<'_>> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let number_at = |at: usize| Some(u64::from_be_bytes(*head[at..].first_chunk()?));
    if head[0] != VERSION {
        return None;
    }
    let kind = Kind::of(head[1])?;
    let head = Head {
        kind,
        origin: number_at(4)?,
        run: number_at(12)?,
        number: number_at(20)?,
        taken: number_at(28)?,
    };
    let text = || std::str::from_utf8(rest).ok();
    let empty = |body| rest.is_empty().then_some(body);
    let body = match kind {
        Kind::Messages => Body::Messages(Records::check(rest)?),
        Kind::Piece => piece(rest)?,
        Kind::KeepAlive => empty(Body::KeepAlive)?,
        Kind::End => Body::End(text().filter(|text| text.len() <= REASON_BYTES_MAX)?),
        Kind::Query => Body::Query(text()?),
        Kind::Open => empty(Body::Open)?,
        Kind::Accept => empty(Body::Accept)?,
    };
    let is_sound = !kind.is_numbered() || head.number > 0;
    is_sound.then_some(Packet { head, body })
}

fn piece(rest: &[u8]) -> Option<Body<'_>> {
    let (lengths, bytes) = rest.split_first_chunk::<PIECE_HEAD_BYTES>()?;
    let total = u32::from_be_bytes(*lengths.first_chunk()?) as usize;
    let offset = u32::from_be_bytes(*lengths[4..].first_chunk()?) as usize;
    let is_sound = total <= MESSAGE_BYTES_MAX && !bytes.is_empty() && offset + bytes.len() <= total;
    is_sound.then_some(Body::Piece { total, offset, bytes })
}

/// What is in front of a piece.
pub(super) fn piece_head(total: usize, offset: usize) -> [u8; PIECE_HEAD_BYTES] {
    let [a, b, c, d] = (total as u32).to_be_bytes();
    let [e, f, g, h] = (offset as u32).to_be_bytes();
    [a, b, c, d, e, f, g, h]
}

/// As much of a reason as an end carries.
pub(super) fn reason(text: &str) -> &str {
    &text[..text.floor_char_boundary(REASON_BYTES_MAX)]
}

/// Messages of a packet, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    /// All of it must be messages, and one at least.
    fn check(bytes: &'a [u8]) -> Option<Records<'a>> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = split_record(rest)?.1;
        }
        (!bytes.is_empty()).then_some(Records(bytes))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (record, rest) = split_record(self.0)?;
        self.0 = rest;
        Some(record)
    }
}

#[inline]
fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<RECORD_HEAD_BYTES>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// Appends a message to a packet's messages.
#[inline]
pub(super) fn append_record(into: &mut Vec<u8>, parts: [&[u8]; 2]) {
    let bytes = parts[0].len() + parts[1].len();
    into.reserve(RECORD_HEAD_BYTES + bytes);
    into.extend_from_slice(&(bytes as u32).to_be_bytes());
    into.extend_from_slice(parts[0]);
    into.extend_from_slice(parts[1]);
}

/// Puts a long message together. Its pieces come one behind the other; whoever misses a packet says so.
#[derive(Default)]
pub(super) struct Assembly {
    bytes: Vec<u8>,
    total: usize,
}

impl Assembly {
    /// A packet is missing: what was begun will not be whole.
    pub(super) fn reset(&mut self) {
        *self = Assembly::default();
    }

    /// Takes a piece. Returns the message with its last one; an error if it is not what has to follow.
    pub(super) fn add(&mut self, total: usize, offset: usize, piece: &[u8]) -> Result<Option<Vec<u8>>, ()> {
        if offset == 0 {
            *self = Assembly { bytes: Vec::new(), total };
        }
        if offset != self.bytes.len() || total != self.total {
            self.reset();
            return Err(());
        }
        self.bytes.extend_from_slice(piece);
        let is_whole = self.bytes.len() == self.total;
        Ok(is_whole.then(|| std::mem::take(self).bytes))
    }

    /// Bytes of the message that is begun.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether a message is begun. Messages that are whole do not come between its pieces.
    pub(super) fn is_begun(&self) -> bool {
        self.total > 0
    }
}

/// The names of subjects under a prefix.
#[derive(Clone, Debug)]
pub(super) struct Subjects {
    prefix: String,
}

impl Subjects {
    pub(super) fn new(prefix: &str) -> Subjects {
        Subjects { prefix: prefix.to_owned() }
    }

    /// All instances publish their directories there.
    pub(super) fn directory(&self) -> String {
        format!("{}.directory", self.prefix)
    }

    /// Who looks for streams asks there.
    pub(super) fn query(&self) -> String {
        format!("{}.query", self.prefix)
    }

    /// The stream of a service. Bytes that a subject cannot have are written as `=` and two hexadecimal digits.
    pub(super) fn service(&self, name: &str) -> String {
        let mut subject = format!("{}.service.", self.prefix);
        for byte in name.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => subject.push(byte as char),
                _ => subject.push_str(&format!("={byte:02X}")),
            }
        }
        // A subject has no empty token. An `=` by itself stands for nothing else.
        if name.is_empty() {
            subject.push('=');
        }
        subject
    }

    /// What is for one end alone.
    pub(super) fn inbox(&self, origin: u64) -> String {
        format!("{}.inbox.{origin:016x}", self.prefix)
    }

    /// Where the answers of JetStream to one end go.
    pub(super) fn answers(&self, origin: u64) -> String {
        format!("{}.stored.{origin:016x}.*", self.prefix)
    }

    /// Where the answer to one request goes.
    pub(super) fn answer(&self, origin: u64, token: u64) -> String {
        format!("{}.stored.{origin:016x}.{token:016x}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use market::backbone::SERVICE_NAME_BYTES_MAX;
    use units::Rng;

    use super::*;

    fn head(kind: Kind) -> Head {
        Head { kind, origin: 1, run: 2, number: 3, taken: 4 }
    }

    fn packet(kind: Kind, body: &[u8]) -> Vec<u8> {
        [&head(kind).bytes()[..], body].concat()
    }

    fn samples() -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        append_record(&mut records, [b"he", b"llo"]);
        append_record(&mut records, [b"", b""]);
        let mut piece = piece_head(10, 4).to_vec();
        piece.extend_from_slice(b"bytes");
        vec![
            packet(Kind::Messages, &records),
            packet(Kind::Piece, &piece),
            packet(Kind::KeepAlive, b""),
            packet(Kind::End, "späť".as_bytes()),
            packet(Kind::Query, b"tickcast.directory"),
            packet(Kind::Open, b""),
            packet(Kind::Accept, b""),
        ]
    }

    #[test]
    fn packets_are_read_as_they_were_written() {
        let bodies: Vec<String> =
            samples().iter().map(|bytes| format!("{:?}", read(bytes).expect("sound").body)).collect();
        assert!(bodies[1].starts_with("Piece { total: 10, offset: 4"), "{bodies:?}");
        assert_eq!(
            bodies[2..],
            ["KeepAlive", "End(\"späť\")", "Query(\"tickcast.directory\")", "Open", "Accept"]
        );
        let samples = samples();
        let Some(Packet { head, body: Body::Messages(records) }) = read(&samples[0]) else {
            panic!("messages")
        };
        assert_eq!(head, self::head(Kind::Messages));
        assert_eq!(records.collect::<Vec<_>>(), [&b"hello"[..], b""]);
    }

    /// The layout of the page, byte by byte.
    #[test]
    fn a_packet_has_the_documented_bytes() {
        let mut records = Vec::new();
        append_record(&mut records, [b"a", b"b"]);
        let head =
            Head { kind: Kind::Messages, origin: 0x0102_0304_0506_0708, run: 9, number: 10, taken: 11 };
        let expected = [
            1, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0,
            0, 0, 0, 11, 0, 0, 0, 2, b'a', b'b',
        ];
        assert_eq!([&head.bytes()[..], &records].concat(), expected);
        assert_eq!(piece_head(0x0102_0304, 5), [1, 2, 3, 4, 0, 0, 0, 5]);
    }

    #[test]
    fn truncations_are_refused_or_mean_less_and_nothing_panics() {
        for whole in samples() {
            for length in 0..whole.len() {
                let Some(read) = read(&whole[..length]) else { continue };
                // A text or a piece that is shorter is one all the same, and a message less is a packet too.
                let is_open_ended = matches!(
                    read.body,
                    Body::End(_) | Body::Query(_) | Body::Piece { .. } | Body::Messages(_)
                );
                assert!(is_open_ended && length >= HEAD_BYTES, "{whole:?} {length}");
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        testkit::for_each_seed!(0..5_000, |seed| {
            let mut rng = Rng::new(seed);
            let samples = samples();
            let mut bytes = samples[rng.below(samples.len() as u64) as usize].clone();
            for _ in 0..rng.below(4) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
            let Some(packet) = read(&bytes) else { return };
            let head = packet.head.bytes();
            assert_eq!((&head[..2], &head[4..]), (&bytes[..2], &bytes[4..HEAD_BYTES]));
            match packet.body {
                Body::Messages(records) => {
                    let length: usize = records.map(|record| record.len() + RECORD_HEAD_BYTES).sum();
                    assert_eq!(length, bytes.len() - HEAD_BYTES);
                }
                Body::Piece { total, offset, bytes } => {
                    let mut assembly = Assembly::default();
                    assert_eq!(assembly.add(total, offset, bytes).is_err(), offset != 0);
                    assert!(assembly.bytes.capacity() <= 2 * bytes.len().max(8), "as much as has come");
                }
                _ => {}
            }
        });
    }

    #[test]
    fn a_message_comes_out_of_its_pieces_as_it_went_in_or_not_at_all() {
        testkit::for_each_seed!(0..300, |seed| {
            let mut rng = Rng::new(seed);
            let whole: Vec<u8> = (0..1 + rng.below(5_000)).map(|_| rng.next_u64() as u8).collect();
            let (mut assembly, mut offset, mut came) = (Assembly::default(), 0, None);
            let missing = (rng.below(2) == 0).then(|| rng.below(whole.len() as u64) as usize);
            while offset < whole.len() {
                let length = (1 + rng.below(1_000) as usize).min(whole.len() - offset);
                if missing.is_none_or(|at| !(offset..offset + length).contains(&at)) {
                    came = assembly.add(whole.len(), offset, &whole[offset..offset + length]).ok().flatten();
                }
                offset += length;
            }
            assert_eq!(came, missing.is_none().then_some(whole));
        });
    }

    #[test]
    fn every_service_has_a_subject_of_its_own_that_nats_takes() {
        let subjects = Subjects::new("tickcast");
        assert_eq!(subjects.service("BINANCE_1"), "tickcast.service.BINANCE_1");
        assert_eq!(subjects.service("a.b *>=é"), "tickcast.service.a=2Eb=20=2A=3E=3D=C3=A9");
        assert_eq!(subjects.service(""), "tickcast.service.=");
        assert_eq!(subjects.inbox(0xAB), "tickcast.inbox.00000000000000ab");
        assert_eq!(subjects.answers(0xAB), "tickcast.stored.00000000000000ab.*");
        assert_eq!(subjects.answer(0xAB, 0x1C), "tickcast.stored.00000000000000ab.000000000000001c");
        let longest = subjects.service(&".".repeat(SERVICE_NAME_BYTES_MAX));
        assert!(longest.len() < 1_024, "a server takes lines of 4,096 bytes: {}", longest.len());
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        assert_eq!(reason("short"), "short");
        assert_eq!(reason(&"é".repeat(150)).len(), 200);
        assert_eq!(reason(&format!("a{}", "é".repeat(150))).len(), 199);
    }
}
