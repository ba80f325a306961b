//! RSSL connections: handshake, frames, time.

use std::ops::ControlFlow;
use std::sync::Arc;

use counters::table::RsslConnections;
use rssl::handshake::{ClientKey, ConnectRequest};
use rssl::{ConnectionVersion, Handler, Outbound, ServerConfig, ServerConnection, Session, Stop, Text};
use units::Nanos;

use crate::case::{Case, Layer, be, case, hex, join};

pub(crate) fn layers() -> Vec<Layer> {
    vec![
        Layer {
            title: "RSSL handshake",
            about: "The first bytes of a connection to port 14002 or 14003. What is not complete waits, up \
                    to the handshake timeout.",
            reaction: |bytes| fed(&[], bytes),
            cases: handshakes(),
        },
        Layer {
            title: "RSSL frames",
            about: "Behind a handshake of version 13 with maximum user message size 6,144.",
            reaction: |bytes| fed(&request(ConnectionVersion::V13), bytes),
            cases: frames(),
        },
        Layer {
            title: "RSSL keys",
            about: "Behind a connect request of version 14 with key exchange, before the client's key.",
            reaction: |bytes| fed(&request(ConnectionVersion::V14), bytes),
            cases: keys(),
        },
    ]
}

fn request(version: ConnectionVersion) -> Vec<u8> {
    let mut bytes = Vec::new();
    ConnectRequest::new(version, 30).emit(&mut bytes);
    bytes
}

/// What a server does with `bytes` behind those that lead up to them.
fn fed(before: &[u8], bytes: &[u8]) -> String {
    let params = Arc::new(ServerConfig::default().check().expect("defaults hold"));
    let mut server = ServerConnection::new(Nanos::ZERO, &params, &Arc::new(RsslConnections::default()), 7);
    let mut counter = Counter(0);
    server.on_bytes(Nanos::ZERO, before, &mut counter).expect("a good beginning");
    let end = server.on_bytes(Nanos::ZERO, bytes, &mut counter);
    let delivered = match counter.0 {
        0 => String::new(),
        1 => "1 message delivered, ".to_owned(),
        count => format!("{count} messages delivered, "),
    };
    match end {
        Err(reason) => format!("{delivered}closed: {reason}"),
        Ok(()) if server.negotiated().is_some() => format!("{delivered}stays"),
        Ok(()) => "waits".to_owned(),
    }
}

struct Counter(usize);

impl Handler for Counter {
    fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, _: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

/// A good request of version 12, with one byte changed.
fn changed(at: usize, value: u8) -> Vec<u8> {
    let mut bytes = request(ConnectionVersion::V12);
    bytes[at] = value;
    bytes
}

fn long_host() -> Vec<u8> {
    let host = [b'h'; 200];
    let mut bytes = Vec::new();
    ConnectRequest { host: Text::new(&host), ..ConnectRequest::new(ConnectionVersion::V13, 30) }
        .emit(&mut bytes);
    bytes
}

fn handshakes() -> Vec<Case> {
    vec![
        case("length-0", "a length of 0", hex("0000 00")),
        case("length-13", "a length below that of any request", hex("000d 00")),
        case("length-514", "a length above that of any request", hex("0202 00")),
        case("length-65535", "a length of 65,535", hex("ffff ff")),
        case("one-byte", "one byte", hex("00")),
        case("half", "half a request", request(ConnectionVersion::V12)[..12].to_vec()),
        case(
            "twice",
            "a request, and another where frames belong",
            join(&[&request(ConnectionVersion::V12), &request(ConnectionVersion::V12)]),
        ),
        case("flags", "flags in a request", changed(2, 0x80)),
        case(
            "version-0",
            "connection version 0",
            join(&[&hex("0011 00 00000000"), &request(ConnectionVersion::V12)[7..]]),
        ),
        case(
            "version-of-all-bits",
            "connection version 0xFFFFFFFF",
            join(&[&hex("0011 00 ffffffff"), &request(ConnectionVersion::V12)[7..]]),
        ),
        case("header-longer", "a header longer than the request", changed(8, 0xff)),
        case("header-0", "a header of 0 bytes", changed(8, 0)),
        case("bitmap-255", "a compression bitmap of 255 bytes", changed(9, 0xff)),
        case("host-255", "a host name that is longer than the request", changed(15, 0xff)),
        case("ping-timeout-0", "a ping timeout of 0: the least one is answered", changed(10, 0)),
        case(
            "ping-timeout-255",
            "a ping timeout of 255 s: the largest allowed is answered",
            changed(10, 0xff),
        ),
        case("protocol-unknown", "a protocol other than RWF", changed(12, 9)),
        case("host-of-200", "a host name of 200 bytes: legal", long_host()),
        case("component-cut", "a component version longer than its container", component_cut()),
        case(
            "garbage-behind",
            "a request whose parts do not make up its length",
            join(&[&hex("0014 00"), &request(ConnectionVersion::V12)[3..], &[0; 3]]),
        ),
        case("http-get", "an HTTP request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        case("http-post", "an HTTP request of another kind", b"POST /login HTTP/1.1\r\n\r\n".to_vec()),
        case("tls", "TLS on a plain port", join(&[&hex("160301 007a 01 000076 0303"), &[0x5a; 116]])),
        case("ssh", "an SSH client", b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()),
        case("frame-first", "a frame before any handshake", hex("0004 02 01")),
        case("zeros", "a kilobyte of zeros", vec![0; 1024]),
    ]
}

fn component_cut() -> Vec<u8> {
    let mut bytes = request(ConnectionVersion::V13);
    let at = bytes.len() - 1;
    bytes[at] = 9;
    bytes
}

fn first_fragment(id: u16, total_bytes: u32, data: &[u8]) -> Vec<u8> {
    join(&[&be(10 + data.len()), &[3, 8], &total_bytes.to_be_bytes(), &id.to_be_bytes(), data])
}

fn next_fragment(id: u16, data: &[u8]) -> Vec<u8> {
    join(&[&be(6 + data.len()), &[3, 4], &id.to_be_bytes(), data])
}

fn frames() -> Vec<Case> {
    let many = |count: u16, total_bytes| {
        (1..=count).flat_map(move |id| first_fragment(id, total_bytes, b"x")).collect::<Vec<u8>>()
    };
    vec![
        case("length-0", "a frame of 0 bytes", hex("0000 02")),
        case("length-2", "a frame of 2 bytes", hex("0002 02")),
        case("length-6148", "a frame one byte longer than agreed", hex("1804 02")),
        case("length-65535", "a frame of 65,535 bytes", hex("ffff 02")),
        case("half-a-frame", "a frame that does not go on", hex("0400 02 01")),
        case("flags-0", "no flags", hex("0004 00 01")),
        case("flags-packed-alone", "packed without data", hex("0004 10 01")),
        case("flags-compressed", "compressed, where no compression was agreed", hex("0008 04 789c 0300 00")),
        case("flags-all", "all flags", hex("0005 ff ff 00")),
        case("extended-unknown", "extended flags that do not exist", hex("0005 03 40 01")),
        case("packed-empty", "a packed frame without a message", hex("0003 12")),
        case("packed-overrun", "a packed message longer than its frame", hex("0008 12 00ff 010203")),
        case("packed-length-cut", "half a length at the end of a packed frame", hex("0007 12 0001 aa 00")),
        case(
            "packed-zero-lengths",
            "packed messages of no bytes: passed over",
            hex("0009 12 0000 0000 0000"),
        ),
        case(
            "messages-before-fault",
            "two good messages before a frame of 0 bytes",
            hex("0004 02 01 0004 02 02 0000 02"),
        ),
        case("pings-1000", "a thousand pings at once", hex("0003 02").repeat(1000)),
        case("fragment-total-0", "a fragmented message of 0 bytes", first_fragment(1, 0, b"x")),
        case("fragment-total-4-GiB", "a fragmented message of 4 GiB", first_fragment(1, u32::MAX, b"x")),
        case(
            "fragment-total-above-ceiling",
            "one byte more than the ceiling of 16 MiB",
            first_fragment(1, (16 << 20) + 1, b"x"),
        ),
        case("fragment-header-cut", "a fragment whose header is cut off", hex("0009 03 08 00000001 01")),
        case(
            "fragment-more-than-total",
            "more bytes than announced, in one fragment",
            first_fragment(1, 2, b"xyz"),
        ),
        case(
            "fragments-more-than-total",
            "more bytes than announced, in two fragments",
            join(&[&first_fragment(1, 5, b"xyz"), &next_fragment(1, b"abc")]),
        ),
        case(
            "fragment-unknown",
            "a fragment of a message that nobody began: passed over, counted",
            next_fragment(7, b"xyz"),
        ),
        case(
            "fragment-replaced",
            "a message begun again under its number: the first is given up, counted",
            join(&[&first_fragment(1, 5, b"abc"), &first_fragment(1, 3, b"new")]),
        ),
        case("fragments-17-open", "17 fragmented messages at once", many(17, 100)),
        case("fragments-of-32-MiB", "three fragmented messages of 16 MiB announced", many(3, 16 << 20)),
        case("garbage", "bytes of any value", (0..=255).rev().collect::<Vec<u8>>()),
    ]
}

fn keys() -> Vec<Case> {
    let mut whole = Vec::new();
    ClientKey { key: Some(5) }.emit(&mut whole);
    vec![
        case("length-3", "a key message of 3 bytes", hex("0003 08")),
        case("length-65535", "a key message of 65,535 bytes", hex("ffff 08")),
        case("flags", "flags that do not exist", hex("0004 02 00")),
        case("key-missing", "a key message that says it has a key, and has none", hex("0004 08 08")),
        case("frame-first", "a frame in place of the key", hex("0004 02 01")),
        case("half-a-key", "half a key message", whole[..6].to_vec()),
        case("key-0", "a key of 0: taken, no message depends on it", key_of_zero()),
    ]
}

fn key_of_zero() -> Vec<u8> {
    let mut bytes = Vec::new();
    ClientKey { key: Some(0) }.emit(&mut bytes);
    bytes
}
