//! WebSocket connections: upgrade and frames.

use std::ops::ControlFlow;
use std::sync::Arc;

use units::Nanos;
use websocket::{Handler, Limits, Message, Outbound, ServerConfig, ServerConnection, Session, Stop};

use crate::case::{Case, Layer, be, case, hex, join};

const LIMITS: Limits =
    Limits { head_bytes_max: 16 << 10, message_bytes_max: 1 << 20, backlog_bytes_max: 1 << 20 };
const DEFLATE: &str = "Sec-WebSocket-Extensions: permessage-deflate\r\n";

pub(crate) fn layers() -> Vec<Layer> {
    vec![
        Layer {
            title: "WebSocket upgrade",
            about: "The first bytes of a connection to port 15000. A head may have 16 KiB and 100 lines.",
            reaction: |bytes| fed(None, bytes),
            cases: upgrades(),
        },
        Layer {
            title: "WebSocket frames",
            about: "Behind an upgrade without compression; messages of up to 1 MiB are taken here.",
            reaction: |bytes| fed(Some(""), bytes),
            cases: frames(),
        },
        Layer {
            title: "WebSocket frames, compressed",
            about: "Behind an upgrade with permessage-deflate; likewise.",
            reaction: |bytes| fed(Some(DEFLATE), bytes),
            cases: compressed(),
        },
    ]
}

fn head(more: &str) -> Vec<u8> {
    format!(
        "GET /WebSocket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: tr_json2\r\n{more}\r\n"
    )
    .into_bytes()
}

/// The good request with a piece of it replaced.
fn instead(piece: &str, other: &str) -> Vec<u8> {
    let head = String::from_utf8(head("")).expect("ASCII");
    assert!(head.contains(piece), "{piece}");
    head.replace(piece, other).into_bytes()
}

/// What a server does with bytes: from the first on, or behind an upgrade with these header lines.
fn fed(more: Option<&str>, bytes: &[u8]) -> String {
    let config = Arc::new(ServerConfig { limits: LIMITS, ..ServerConfig::default() });
    let mut server = ServerConnection::new(Nanos::ZERO, &config, &Arc::default());
    let mut counter = Counter(0, false);
    if let Some(more) = more {
        server.on_bytes(Nanos::ZERO, &head(more), &mut counter).expect("a good request");
        let answered = server.outbound().pending().len();
        server.outbound().consume(answered);
    }
    let end = server.on_bytes(Nanos::ZERO, bytes, &mut counter);
    assert!(server.memory_bytes() < 4 << 20, "{} bytes", server.memory_bytes());
    let delivered = match counter.0 {
        0 => String::new(),
        1 => "1 message delivered, ".to_owned(),
        count => format!("{count} messages delivered, "),
    };
    match end {
        Err(reason) => format!("{delivered}{}closed: {reason}", answer(server.outbound().pending())),
        Ok(()) if counter.1 => format!("{delivered}stays"),
        Ok(()) => "waits".to_owned(),
    }
}

/// What goes out before the connection is closed.
fn answer(pending: &[u8]) -> String {
    match pending {
        [0x88, _, high, low, ..] => format!("close frame {}, ", u16::from_be_bytes([*high, *low])),
        [b'H', b'T', b'T', b'P', ..] => {
            let line = pending.split(|byte| *byte == b'\r').next().unwrap_or_default();
            format!("`{}`, ", String::from_utf8_lossy(line))
        }
        _ => String::new(),
    }
}

/// Messages, and whether the upgrade is complete.
struct Counter(usize, bool);

impl Handler for Counter {
    fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        self.1 = true;
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, _: Message<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

fn upgrades() -> Vec<Case> {
    let lines = |count: usize| (0..count).map(|n| format!("X-{n}: y\r\n")).collect::<String>();
    vec![
        case("post", "another method", instead("GET", "POST")),
        case("http-1-0", "HTTP/1.0", instead("HTTP/1.1", "HTTP/1.0")),
        case("path", "another path", instead("/WebSocket", "/other")),
        case(
            "path-of-20-KiB",
            "a path of 20 KiB",
            instead("/WebSocket", &format!("/{}", "w".repeat(20 << 10))),
        ),
        case("no-upgrade", "no upgrade header", instead("Upgrade: websocket\r\n", "")),
        case("no-key", "no key", instead("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "")),
        case("key-short", "a key of 3 characters", instead("dGhlIHNhbXBsZSBub25jZQ==", "abc")),
        case("key-twice", "two keys", head("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")),
        case("version-8", "WebSocket version 8", instead("Version: 13", "Version: 8")),
        case("sub-protocol", "a sub-protocol nobody speaks", instead("tr_json2", "mqtt")),
        case("sub-protocol-missing", "no sub-protocol", instead("Sec-WebSocket-Protocol: tr_json2\r\n", "")),
        case("header-of-20-KiB", "a header of 20 KiB", head(&format!("X: {}\r\n", "y".repeat(20 << 10)))),
        case("headers-101", "101 header lines and more", head(&lines(101))),
        case("header-folded", "a folded header line", head("X: a\r\n b\r\n")),
        case("header-without-colon", "a line that is no header", head("nonsense\r\n")),
        case("header-nul", "a NUL byte in a header", head("X: \0\r\n")),
        case(
            "bare-line-feeds",
            "lines that end in line feeds alone",
            String::from_utf8(head("")).expect("ASCII").replace("\r\n", "\n"),
        ),
        case("drips", "a head without its end", head("")[..150].to_vec()),
        case(
            "extension-nonsense",
            "an offer of deflate with a window of 99 bits: not agreed, the upgrade stands",
            head("Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=99\r\n"),
        ),
        case("rssl", "an RSSL client", hex("004b 00 00000017 08 20 00 1e 00 00 0e 01")),
        case("tls", "TLS on a plain port", hex("160301 007a 01 000076 0303")),
        case("binary", "bytes of any value", (128..=255).collect::<Vec<u8>>()),
    ]
}

/// A client's frame; its mask is 0.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = match payload.len() {
        short @ 0..126 => vec![0x80 | short as u8],
        long @ 126..0x1_0000 => join(&[&[0xFE], &be(long)]),
        huge => join(&[&[0xFF], &(huge as u64).to_be_bytes()]),
    };
    join(&[&[first], &length, &[0; 4], payload])
}

fn frames() -> Vec<Case> {
    vec![
        case("not-masked", "a frame that is not masked", hex("81 02 5b5d")),
        case("reserved-bits", "reserved bits", frame(0xB1, b"[]")),
        case("compressed-bit", "the bit of compression, which was not agreed", frame(0xC1, b"[]")),
        case("opcode-3", "an opcode that does not exist", frame(0x83, b"")),
        case("opcode-15", "a control opcode that does not exist", frame(0x8F, b"")),
        case("length-not-shortest", "a length of 1 in its long form", hex("81 fe 0001 00000000 61")),
        case("length-of-64-bits", "a length with its top bit set", hex("81 ff 8000000000000000 00000000")),
        case("length-of-8-EiB", "the largest length", hex("81 ff 7fffffffffffffff 00000000")),
        case(
            "length-above-limit",
            "a message one byte longer than allowed",
            hex("81 ff 0000000000100001 00000000"),
        ),
        case(
            "fragments-above-limit",
            "fragments that are longer than allowed together",
            join(&[&frame(0x01, &vec![b'a'; 600_000]), &frame(0x80, &vec![b'a'; 600_000])]),
        ),
        case(
            "fragments-100000",
            "a message of 100,000 empty fragments: one message",
            join(&[&frame(0x01, b"[]"), &frame(0x00, b"").repeat(100_000), &frame(0x80, b"")]),
        ),
        case("ping-of-126", "a ping of 126 bytes", frame(0x89, &[0; 126])),
        case("ping-in-fragments", "a ping in fragments", frame(0x09, b"")),
        case("pings-1000", "a thousand pings at once: answered", frame(0x89, b"x").repeat(1000)),
        case("nothing-to-continue", "a continuation of nothing", frame(0x80, b"x")),
        case(
            "interleaved",
            "a message between the fragments of another",
            join(&[&frame(0x01, b"["), &frame(0x81, b"[]")]),
        ),
        case("utf-8-spoilt", "text that is not UTF-8", frame(0x81, &[0xC3, 0x28])),
        case("utf-8-surrogate", "half a surrogate pair", frame(0x81, &[0xED, 0xA0, 0x80])),
        case("utf-8-cut", "a character that ends with the message", frame(0x81, &[0xE2, 0x82])),
        case("close-of-one-byte", "a close frame of one byte", frame(0x88, b"x")),
        case("close-1005", "a close code that must not be sent", frame(0x88, &1005u16.to_be_bytes())),
        case("close-65535", "a close code that does not exist", frame(0x88, &[0xFF, 0xFF])),
        case("close-reason-spoilt", "a close reason that is not UTF-8", frame(0x88, &[0x03, 0xE8, 0xFF])),
        case(
            "behind-close",
            "a message behind a close frame: not read",
            join(&[&frame(0x88, &[0x03, 0xE8]), &frame(0x81, b"[]")]),
        ),
        case("half-a-frame", "a frame that does not go on", hex("81 fe 0100 0000 0000 61")),
    ]
}

fn compressed() -> Vec<Case> {
    vec![
        case("garbage", "compressed data that is none", frame(0xC1, &[0xFF; 9])),
        case("bomb", "7 KiB that decompress to more than 1 MiB", frame(0xC1, &bomb(1100))),
        case(
            "bomb-in-fragments",
            "the same in fragments",
            join(&[&frame(0x41, &bomb(1100)[..40]), &frame(0x80, &bomb(1100)[40..])]),
        ),
        case("just-fits", "data that decompresses to just under 1 MiB", frame(0xC1, &bomb(1015))),
        case("block-type-3", "a block of a type that does not exist", frame(0xC1, &[0x07])),
        case(
            "distance-before-begin",
            "a copy from before the begin of the window",
            frame(0xC1, &[0x03, 0x02]),
        ),
        case(
            "stored-length-wrong",
            "a stored block whose lengths do not agree",
            frame(0xC1, &hex("00 0500 0000 68656c6c6f")),
        ),
        case(
            "compressed-continuation",
            "the bit of compression in a continuation",
            join(&[&frame(0x41, b"\0"), &frame(0xC0, b"\0")]),
        ),
        case("compressed-ping", "the bit of compression in a ping", frame(0xC9, b"x")),
        case("empty", "no byte of compressed data: an empty message", frame(0xC1, b"")),
        case(
            "utf-8-spoilt",
            "text that is not UTF-8 once decompressed",
            frame(0xC1, &hex("00 0200 fdff c328")),
        ),
    ]
}

/// Fixed Huffman codes for one literal and then copies of 258 bytes, each in 13 bits: 7 KiB stand for 1 MiB.
fn bomb(copies_of_kib: usize) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(0b010, 3); // not the last block, fixed codes; bits are put lowest first
    bits.code(0x30 + u32::from(b'a'), 8);
    for _ in 0..copies_of_kib * 1024 / 258 {
        bits.code(0b1100_0101, 8); // length 258
        bits.code(0, 5); // distance 1
    }
    bits.code(0, 7); // end of block
    bits.put(0, 3); // an empty stored block, as a flush writes it, without its last four bytes
    bits.bytes()
}

/// Bits as deflate packs them.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    held: u32,
    count: u32,
}

impl Bits {
    /// Numbers: lowest bit first.
    fn put(&mut self, value: u32, width: u32) {
        self.held |= value << self.count;
        self.count += width;
        while self.count >= 8 {
            self.bytes.push(self.held as u8);
            self.held >>= 8;
            self.count -= 8;
        }
    }

    /// Huffman codes: highest bit first.
    fn code(&mut self, value: u32, width: u32) {
        (0..width).rev().for_each(|bit| self.put(value >> bit & 1, 1));
    }

    fn bytes(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.held as u8);
        }
        self.bytes
    }
}
