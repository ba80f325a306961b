//! Several messages in a frame.

use std::collections::HashMap;
use std::ops::Range;

use counters::Flow;
use websocket::deflate::{SharedDeflater, append_own, begin_message, end_message};
use websocket::frame::{Opcode, OpenFrame};

use super::dictionaries::Dictionaries;
use super::message::{Kind, Message};
use crate::Entry;

/// About the longest text of several messages in one frame. A single one may be longer.
const FRAME_BYTES: usize = 60_000;

/// Takes messages for one frame off a connection's list.
struct Picker<'a, 'e, 'r> {
    log: &'a [u8],
    rest: &'r mut &'e [Entry],
    text_bytes: usize,
    count: u64,
    is_closed: bool,
}

impl<'a, 'e> Picker<'a, 'e, '_> {
    /// The next message, unless it belongs into another frame.
    #[inline]
    fn next(&mut self) -> Option<(&'e Entry, Message<'a>)> {
        let (entry, following) = self.rest.split_first()?;
        let message = Message::read(&self.log[entry.place()]);
        let is_alone = message.kind == Kind::Alone;
        let is_full = self.text_bytes + message.json.len() > FRAME_BYTES;
        if self.is_closed || self.count > 0 && (is_alone || is_full) {
            return None;
        }
        *self.rest = following;
        self.is_closed = is_alone;
        // With the longest head.
        self.text_bytes += message.json.len() + 24;
        self.count += 1;
        Some((entry, message))
    }

    /// The frame as it is counted.
    fn flow(&self) -> Flow {
        let is_packed = self.count > 1;
        Flow {
            frames: 1,
            messages: self.count,
            packed_frames: u64::from(is_packed),
            packed_messages: if is_packed { self.count } else { 0 },
            ..Flow::default()
        }
    }

    /// What stands before the message that was picked last.
    fn separator(&self) -> u8 {
        if self.count == 1 { b'[' } else { b',' }
    }
}

/// Appends one frame of as many messages as fit; what it holds.
pub(crate) fn plain(log: &[u8], rest: &mut &[Entry], frames: &mut Vec<u8>) -> Flow {
    let frame = OpenFrame::begin(frames);
    let mut picker = Picker { log, rest, text_bytes: 0, count: 0, is_closed: false };
    while let Some((entry, message)) = picker.next() {
        frames.push(picker.separator());
        message.write_head(entry.stream_id, frames);
        frames.extend_from_slice(message.json);
    }
    frames.push(b']');
    let written = picker.flow();
    frame.end(frames, Opcode::Text, false);
    written
}

/// Messages that were compressed once for all connections.
#[derive(Debug)]
pub(crate) struct Compressed {
    deflater: SharedDeflater,
    min_bytes: usize,
    /// By the place of the message in the log.
    pieces: HashMap<usize, Range<usize>>,
    bytes: Vec<u8>,
    own: Vec<u8>,
    /// Payloads of dictionaries, which would take tens of milliseconds each time.
    dictionaries: Dictionaries,
}

impl Compressed {
    pub(crate) fn new(level: u32, min_bytes: usize) -> Compressed {
        Compressed {
            deflater: SharedDeflater::new(level),
            min_bytes,
            pieces: HashMap::new(),
            bytes: Vec::new(),
            own: Vec::new(),
            dictionaries: Dictionaries::default(),
        }
    }

    /// Appends one compressed frame of as many messages as fit; what it holds.
    pub(crate) fn frame(&mut self, log: &[u8], rest: &mut &[Entry], frames: &mut Vec<u8>) -> Flow {
        let frame = OpenFrame::begin(frames);
        begin_message(frames);
        self.own.clear();
        let mut expanded_bytes = 0;
        let mut picker = Picker { log, rest, text_bytes: 0, count: 0, is_closed: false };
        while let Some((entry, message)) = picker.next() {
            self.own.push(picker.separator());
            message.write_head(entry.stream_id, &mut self.own);
            if message.json.len() < self.min_bytes.min(FRAME_BYTES) {
                self.own.extend_from_slice(message.json);
            } else {
                // Of a dictionary the beginning differs from client to client.
                let (head, tail) = message.json.split_at(payload_at(message.json));
                self.own.extend_from_slice(head);
                expanded_bytes += self.own.len() + tail.len();
                append_own(&self.own, frames);
                self.own.clear();
                let piece = self.piece(entry.place().start, tail);
                frames.extend_from_slice(&self.bytes[piece]);
            }
        }
        self.own.push(b']');
        expanded_bytes += self.own.len();
        append_own(&self.own, frames);
        end_message(frames);
        let written = Flow {
            compressed_bytes: frame.payload_bytes(frames) as u64,
            expanded_bytes: expanded_bytes as u64,
            ..picker.flow()
        };
        frame.end(frames, Opcode::Text, true);
        written
    }

    /// What is known of the log is of no use any more.
    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.bytes.clear();
        // A burst of images should not be paid for for ever.
        self.bytes.shrink_to(BYTES_KEPT);
    }

    fn piece(&mut self, place: usize, json: &[u8]) -> Range<usize> {
        let Compressed { deflater, pieces, bytes, dictionaries, .. } = self;
        let piece = pieces.entry(place).or_insert_with(|| {
            let start = bytes.len();
            if json.len() < LONG_BYTES {
                deflater.compress(json, bytes);
            } else if let Some(known) = dictionaries.find(json) {
                bytes.extend_from_slice(known);
            } else {
                deflater.compress(json, bytes);
                if json.starts_with(SERIES) {
                    dictionaries.keep(json, &bytes[start..]);
                }
            }
            start..bytes.len()
        });
        piece.clone()
    }
}

/// Where the payload of a dictionary begins in the JSON of its message; 0 for other messages.
fn payload_at(json: &[u8]) -> usize {
    if json.len() < LONG_BYTES {
        return 0;
    }
    let start = &json[..HEAD_BYTES_MAX];
    start.windows(SERIES.len()).position(|window| window == SERIES).unwrap_or(0)
}

/// The payload of a dictionary begins so.
const SERIES: &[u8] = b"\"Series\":";
/// Dictionaries are longer.
const LONG_BYTES: usize = 64 << 10;
/// The payload of a message of the dictionary domain begins within these.
const HEAD_BYTES_MAX: usize = 2 << 10;

const BYTES_KEPT: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use units::Nanos;
    use websocket::{ClientConfig, ClientConnection, Handler, Outbound, ServerConnection, Session, Stop};

    use super::*;
    use crate::websocket::stage;
    use crate::{ConnectionId, Outbox};

    /// The frames that a client reads.
    #[derive(Default)]
    struct Frames(Vec<String>);

    impl Handler for Frames {
        fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
            ControlFlow::Continue(())
        }
        fn on_message(&mut self, message: websocket::Message<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
            let websocket::Message::Text(text) = message else { panic!("text was sent") };
            self.0.push(text.to_owned());
            ControlFlow::Continue(())
        }
    }

    /// What a client reads that has agreed on compression.
    fn read(frames: &[u8]) -> Vec<String> {
        let config = ClientConfig { compression: true, ..ClientConfig::new("h") };
        let mut client = ClientConnection::new(Nanos::ZERO, &Arc::new(config), &Arc::default(), 1);
        let mut server = ServerConnection::new(Nanos::ZERO, &Arc::default(), &Arc::default());
        let mut seen = Frames::default();
        server.on_bytes(Nanos::ZERO, client.outbound().pending(), &mut seen).expect("our own request");
        client.on_bytes(Nanos::ZERO, server.outbound().pending(), &mut seen).expect("our own answer");
        client.on_bytes(Nanos::ZERO, frames, &mut seen).expect("our own frames");
        seen.0
    }

    /// The frames of these messages, each on the stream of its number, plain and compressed.
    fn frames(messages: &[(Kind, &str)]) -> [Vec<String>; 2] {
        let (mut outbox, to) = (Outbox::default(), ConnectionId(0));
        outbox.add(to);
        for (id, (kind, json)) in (1..).zip(messages) {
            let staged = stage(&mut outbox, *kind, |log| log.extend_from_slice(json.as_bytes()));
            outbox.deliver(to, staged, id);
        }
        let mut compressed = Compressed::new(6, 20);
        let (log, entries) = outbox.parts(to);
        let (mut rest, mut plain_bytes, mut in_clear) = (&entries[..], Vec::new(), Flow::default());
        while !rest.is_empty() {
            in_clear += plain(log, &mut rest, &mut plain_bytes);
        }
        let (mut rest, mut small_bytes, mut small) = (&entries[..], Vec::new(), Flow::default());
        while !rest.is_empty() {
            small += compressed.frame(log, &mut rest, &mut small_bytes);
        }
        let both = [read(&plain_bytes), read(&small_bytes)];
        let text_bytes = both[1].iter().map(String::len).sum::<usize>() as u64;
        assert_eq!((in_clear.messages, in_clear.frames), (messages.len() as u64, both[0].len() as u64));
        let same = Flow { compressed_bytes: small.compressed_bytes, expanded_bytes: text_bytes, ..in_clear };
        assert_eq!(small, same, "frames are the same, and their texts are what was compressed");
        // Heads of frames are four bytes, or ten of a long one.
        let head_bytes = small_bytes.len() as u64 - small.compressed_bytes;
        assert!((2 * small.frames..=10 * small.frames).contains(&head_bytes), "{head_bytes}");
        both
    }

    const UPDATE: &str = r#""Type":"Update","Fields":{"BID":1}}"#;

    #[test]
    fn messages_share_a_frame_but_for_the_one_that_is_alone() {
        let all = [
            (Kind::Body, UPDATE),
            (Kind::Whole, r#"{"Type":"Pong"}"#),
            (Kind::Alone, r#""Domain":"Login"}"#),
            (Kind::Body, UPDATE),
        ];
        let expected = [
            format!(r#"[{{"ID":1,{UPDATE},{{"Type":"Pong"}}]"#),
            r#"[{"ID":3,"Domain":"Login"}]"#.to_owned(),
            format!(r#"[{{"ID":4,{UPDATE}]"#),
        ];
        assert_eq!(frames(&all), [expected.clone(), expected]);
    }

    #[test]
    fn a_long_message_has_a_frame_and_short_ones_fill_theirs() {
        let long = format!(r#""Text":"{}"}}"#, "x".repeat(200_000));
        let half = format!(r#""Text":"{}"}}"#, "y".repeat(25_000));
        let all =
            [(Kind::Body, long.as_str()), (Kind::Body, &half), (Kind::Body, &half), (Kind::Body, &half)];
        for frames in frames(&all) {
            let lengths: Vec<usize> = frames.iter().map(String::len).collect();
            let object = half.len() + r#"{"ID":2,"#.len();
            assert_eq!(lengths, [long.len() + 10, 2 * object + 3, object + 2]);
        }
    }

    #[test]
    fn what_was_compressed_for_one_connection_serves_the_next() {
        let mut outbox = Outbox::default();
        let staged = stage(&mut outbox, Kind::Body, |log| log.extend_from_slice(UPDATE.as_bytes()));
        let mut compressed = Compressed::new(6, 0);
        for id in 0..3 {
            outbox.add(ConnectionId(id));
            outbox.deliver(ConnectionId(id), staged, id as i32);
            let (log, entries) = outbox.parts(ConnectionId(id));
            let mut bytes = Vec::new();
            compressed.frame(log, &mut &entries[..], &mut bytes);
            assert_eq!(read(&bytes), [format!(r#"[{{"ID":{id},{UPDATE}]"#)]);
        }
        assert_eq!(compressed.pieces.len(), 1);
        compressed.clear();
        assert!(compressed.pieces.is_empty() && compressed.bytes.is_empty());
    }
}
