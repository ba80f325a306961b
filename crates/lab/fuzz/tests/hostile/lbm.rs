//! The packets of the LBM family: LBT-RM, LBT-RU, topic resolution, unicast resolvers, and streams over TCP.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use counters::table::{LbmDelivery, LbmSource, LbmrRelay, LbmrResolver, LbtrmReceiver, LbtrmSource};
use lbt::authentication::Keys;
use lbt::config::{DeliveryConfig, ReceiverConfig, RelayConfig, ResolverConfig, SourceConfig};
use lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, Lost};
use lbt::ordered::{Backlog, Kept, OrderedConfig};
use lbt::presence::{Answer, Query, Taken, Watch};
use lbt::resolution::{QueryId, Relay, Resolver, ResolverSink, SourceRecord, TransportSession};
use lbt::rm::{Receiver, SessionKey, Source};
use lbt::stream::{StreamDecoder, StreamEncoder};
use lbt::wire::lbtrm::SessionHeader;
use lbt::wire::lbtru;
use net::authentication::HmacSha256;
use units::Nanos;

use crate::case::{Case, Layer, case, hex, join};

const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 29, 3, 1);
const FROM: SocketAddrV4 = SocketAddrV4::new(SOURCE, 14_402);
const SESSION: SessionHeader = SessionHeader { ucast_port: 14_380, session_id: 0x5eed_1234 };
const TOPIC: u32 = 7;
const NOW: Nanos = Nanos(1);
/// The longest message of a request port here.
const MESSAGE_MAX: u32 = 1 << 20;
const WINDOW: Duration = Duration::from_secs(60);
const NOON: u64 = 1_700_000_000_000_000_000;

pub(crate) fn layers() -> Vec<Layer> {
    vec![
        Layer {
            title: "LBT-RM",
            about: "Behind `R` a datagram to a receiver of the session, behind `S` one to its source. What is \
                    dropped is counted, and has no effect on the session.",
            reaction: lbtrm,
            cases: lbtrm_cases(),
        },
        Layer {
            title: "Waiting for receivers",
            about: "Behind `S` a datagram to an LBT-RM source that has asked with number 41 who receives its topic, \
                    behind `R` one to a receiver of the topic. Behind `K` one to a source with keys.",
            reaction: presence,
            cases: presence_cases(),
        },
        Layer {
            title: "LBT-RU",
            about: "A datagram, at either end.",
            reaction: |bytes| match lbtru::Packet::parse(bytes) {
                Ok(packet) => format!("taken for its session alone: {}", name(&packet.body)),
                Err(error) => format!("dropped, counted: {error}"),
            },
            cases: lbtru_cases(),
        },
        Layer {
            title: "Topic resolution (LBMR)",
            about: "A datagram to a context that asks for the topic `px`; behind `K` one to a context with keys.",
            reaction: lbmr,
            cases: lbmr_cases(),
        },
        Layer {
            title: "Unicast resolver",
            about: "Behind `C` a datagram of a client, behind `X` one of somebody else, behind `K` one of a client \
                    to a resolver with keys. There is another client.",
            reaction: relayed,
            cases: relay_cases(),
        },
        Layer {
            title: "TCP sessions and request ports",
            about: "Behind `T` the bytes of a TCP session, behind `R` those of a direct connection, where a message may \
                    have 1 MiB.",
            reaction: stream,
            cases: stream_cases(),
        },
    ]
}

/// How much was delivered and lost.
#[derive(Default)]
struct Heard(u32, u32);

impl DeliverySink for Heard {
    fn deliver(&mut self, _: Delivered<'_>) {
        self.0 += 1;
    }
    fn lost(&mut self, lost: Lost) {
        self.1 += lost.count;
    }
    fn begin_of_stream(&mut self, _: BeginOfStream) {}
    fn end_of_stream(&mut self, _: EndOfStream) {}
}

impl Heard {
    fn words(&self) -> String {
        match self {
            Heard(0, 0) => "taken, nothing delivered".to_owned(),
            Heard(count, 0) => format!("delivered: {count}"),
            Heard(count, lost) => format!("delivered: {count}, lost: {lost}"),
        }
    }
}

fn keys() -> Keys {
    Keys::new((3, HmacSha256::coder(b"what nobody else knows")), None)
}

/// Bytes with others in their place.
fn with(bytes: &[u8], at: usize, others: &str) -> Vec<u8> {
    let (mut bytes, others) = (bytes.to_vec(), hex(others));
    bytes[at..at + others.len()].copy_from_slice(&others);
    bytes
}

fn rm_source() -> Source {
    let config = SourceConfig {
        transmission_window_size: 65_536,
        transport_session_maximum_buffer: 32_768,
        maximum_message_size: 8_000,
        ..SourceConfig::default()
    };
    let mut source = Source::new(&config, SESSION, NOW, Arc::new(LbtrmSource::default())).expect("allowed");
    let topic = source.add_topic(NOW, TOPIC);
    source.send(NOW, topic, &[b"a message"]).expect("there is room");
    source.flush();
    source
}

/// A good datagram of one message: header of 20 bytes, message of 12 + 9.
fn data() -> Vec<u8> {
    rm_source().poll_transmit(NOW).expect("flushed").bytes.to_vec()
}

fn lbtrm(bytes: &[u8]) -> String {
    let Some((to, datagram)) = bytes.split_first() else { unreachable!("each case says where it goes") };
    if *to == b'S' {
        let mut source = rm_source();
        let _ = source.poll_transmit(NOW);
        source.sent(NOW, 1);
        return match source.on_datagram(NOW, FROM, datagram) {
            Err(error) => format!("dropped, counted: {error}"),
            Ok(()) if source.poll_transmit(NOW).is_some() => "answered".to_owned(),
            Ok(()) => "no effect".to_owned(),
        };
    }
    let key = SessionKey { source: SOURCE, session: SESSION };
    let (counters, delivery) = (Arc::new(LbtrmReceiver::default()), Arc::new(LbmDelivery::default()));
    let mut receiver =
        Receiver::new(&ReceiverConfig::default(), key, 1, NOW, counters, delivery).expect("allowed");
    receiver.subscribe(TOPIC, 1).expect("free");
    let mut heard = Heard::default();
    match receiver.on_datagram(NOW, FROM, datagram, &mut heard) {
        Ok(()) => heard.words(),
        Err(error) => {
            assert_eq!(heard.0, 0);
            assert_eq!(receiver.on_datagram(NOW, FROM, &data(), &mut heard), Ok(()), "the session goes on");
            assert_eq!(heard.0, 1);
            format!("dropped, counted: {error}")
        }
    }
}

fn lbtrm_cases() -> Vec<Case> {
    let good = data();
    let to = |end: &str, bytes: &[u8]| join(&[end.as_bytes(), bytes]);
    let nak = hex("03 00 382c 5eed1234 0001 0000 00000000");
    vec![
        case("rm-empty", "an empty datagram", to("R", b"")),
        case("rm-7-bytes", "one byte less than a header", to("R", &good[..7])),
        case("rm-data-19-bytes", "one byte less than the header of DATA", to("R", &good[..19])),
        case("rm-version-1", "another version", to("R", &with(&good, 0, "10"))),
        case("rm-type-1", "a type that does not exist", to("R", &with(&good, 0, "01"))),
        case("rm-next-header", "option headers that nobody knows", to("R", &with(&good, 1, "10"))),
        case("rm-other-session", "another session's id", to("R", &with(&good, 4, "00000001"))),
        case(
            "rm-trail-ahead",
            "a trailing edge beyond its own number",
            to("R", &with(&good, 12, "00000009")),
        ),
        case("rm-no-messages", "DATA without a message", to("R", &good[..20])),
        case("rm-message-cut", "DATA whose message is cut off", to("R", &good[..good.len() - 1])),
        case(
            "rm-message-length-3",
            "a message that says it has three bytes",
            to("R", &with(&good, 22, "0003")),
        ),
        case(
            "rm-message-length-65535",
            "a message that says it has 65,535",
            to("R", &with(&good, 22, "ffff")),
        ),
        case("rm-message-type-15", "a message of another version", to("R", &with(&good, 20, "f0"))),
        case("rm-nak-at-receiver", "a NAK, at a receiver", to("R", &nak)),
        case("rm-nak-none", "a NAK that asks for nothing", to("S", &with(&nak[..12], 8, "0000"))),
        case(
            "rm-nak-65535",
            "a NAK that says it has 65,535 numbers, and one there",
            to("S", &with(&nak, 8, "ffff")),
        ),
        case("rm-nak-future", "a NAK for what was never sent", to("S", &with(&nak, 12, "7fffffff"))),
        case("rm-nak-other-session", "a NAK to another session", to("S", &with(&nak, 4, "00000001"))),
        case("rm-data-at-source", "DATA, at the source", to("S", &good)),
    ]
}

/// A source that has asked who receives its topic, and what asks.
fn asking(is_signed: bool) -> (Source, Watch<()>, Vec<u8>) {
    let mut source = Source::new(&SourceConfig::default(), SESSION, NOW, Arc::default()).expect("allowed");
    if is_signed {
        source.authenticate(keys(), SOURCE);
    }
    let mut watch = Watch::new(40);
    watch.watch(NOW, TOPIC, ());
    source.inquiry().ask(watch.poll_query(NOW).expect("somebody waits"));
    let asks = source.poll_transmit(NOW).expect("it asks").bytes.to_vec();
    source.sent(NOW, 1);
    (source, watch, asks)
}

fn presence(bytes: &[u8]) -> String {
    let Some((to, datagram)) = bytes.split_first() else { unreachable!("each case says where it goes") };
    if *to == b'R' {
        let key = SessionKey { source: SOURCE, session: SESSION };
        let (config, counters) = (ReceiverConfig::default(), Arc::<LbtrmReceiver>::default());
        let mut receiver =
            Receiver::new(&config, key, 1, NOW, counters.clone(), Arc::default()).expect("allowed");
        receiver.subscribe(TOPIC, 1).expect("free");
        if let Err(error) = receiver.on_datagram(NOW, FROM, datagram, &mut Heard::default()) {
            return format!("dropped, counted: {error}");
        }
        let later = NOW + Duration::from_secs(1);
        let len = receiver.poll_transmit(later).map(|answer| answer.datagram.len());
        assert_eq!((receiver.poll_transmit(later).is_some(), counters.naks_sent.get()), (false, 0));
        return match len {
            Some(len) if len <= datagram.len() => "answered once, with no more bytes".to_owned(),
            Some(len) => format!("answered with {len} bytes to {}", datagram.len()),
            None => "taken, not answered".to_owned(),
        };
    }
    let (mut source, mut watch, _) = asking(*to == b'K');
    if let Err(error) = source.on_datagram(NOW, FROM, datagram) {
        return format!("dropped, counted: {error}");
    }
    match source.inquiry().poll() {
        None => "dropped, counted".to_owned(),
        Some((_, answer)) => match watch.on_answer(&answer, None) {
            Taken::Counted => format!("receivers: {}", watch.count(TOPIC).unwrap_or(0)),
            other => format!("not counted: {other:?}"),
        },
    }
}

fn presence_cases() -> Vec<Case> {
    let to = |end: &str, bytes: &[u8]| join(&[end.as_bytes(), bytes]);
    let answer = |number, receiver, topics| {
        let mut bytes = hex("03 00 382c 5eed1234 0000 0000");
        bytes[2..4].copy_from_slice(&SESSION.ucast_port.to_be_bytes());
        Answer { number, receiver, topics }.emit(&mut bytes);
        bytes
    };
    let ask = |number, share, topics: &[u32]| {
        let mut source = asking(false).0;
        source.inquiry().ask(Query::new(number, share, 10, topics));
        source.poll_transmit(NOW).expect("it asks").bytes.to_vec()
    };
    let (good, query) = (answer(41, 1, 1), ask(41, 0, &[TOPIC]));
    let at = query.len() - 12;
    vec![
        case("presence-good", "an answer", to("S", &good)),
        case("presence-cut", "one that is cut off", to("S", &good[..good.len() - 1])),
        case("presence-version-2", "another version", to("S", &with(&good, good.len() - 20, "02"))),
        case("presence-number", "one to a query of before", to("S", &answer(40, 1, 1))),
        case("presence-future", "one to a query that was never sent", to("S", &answer(42, 1, 1))),
        case("presence-topic", "one that names a topic that was not asked for", to("S", &answer(41, 1, 2))),
        case("presence-topics", "one that names 32 topics of one", to("S", &answer(41, 1, u32::MAX))),
        case("presence-nobody", "one of receiver 0", to("S", &answer(41, 0, 1))),
        case("presence-keys-none", "an answer without a code", to("K", &good)),
        case("query-good", "a query", to("R", &query)),
        case("query-other-topic", "one for a topic that is not received", to("R", &ask(41, 0, &[TOPIC + 1]))),
        case("query-32", "one for 32 topics", to("R", &ask(41, 0, &[TOPIC; 32]))),
        case("query-version-2", "another version", to("R", &with(&query, at, "02"))),
        case(
            "query-share-32",
            "one for a receiver in 2 to the power of 32",
            to("R", &with(&query, at + 1, "20")),
        ),
        case("query-cut", "one that is cut off", to("R", &query[..query.len() - 1])),
    ]
}

fn name(body: &lbtru::Body<'_>) -> &'static str {
    match body {
        lbtru::Body::Data { .. } => "DATA",
        lbtru::Body::SessionMessage { .. } => "a session message",
        lbtru::Body::Nak { .. } => "a NAK",
        lbtru::Body::Ncf { .. } => "an NCF",
        lbtru::Body::Ack { .. } => "a sign of life",
        lbtru::Body::ConnectRequest => "a connect request",
        lbtru::Body::Reset => "a reset",
    }
}

fn lbtru_cases() -> Vec<Case> {
    let row = |name, comes, digits| case(name, comes, hex(digits));
    vec![
        row("ru-empty", "an empty datagram", ""),
        row("ru-3-bytes", "one byte less than a header", "060000"),
        row("ru-version-1", "another version", "16000000"),
        row("ru-type-1", "a type that does not exist", "01000000"),
        row("ru-data-cut", "DATA whose numbers are cut off", "00000000 00000001 0000"),
        row("ru-option-cut", "an option that is cut off", "06010000 00088000 5eed"),
        row("ru-option-length-0", "an option of no bytes", "06010000 00008000 5eed1234"),
        row("ru-option-length-255", "an option of 255 bytes, eight there", "06010000 00ff8000 5eed1234"),
        row(
            "ru-option-unknown",
            "an option that nobody knows and nobody may skip",
            "06090000 00080000 5eed1234",
        ),
        row("ru-nak-65535", "a NAK that says it has 65,535 numbers, and none there", "03000000 ffff0000"),
        row("ru-ncf-cut", "an NCF whose head is cut off", "04000000 00000001 00"),
        row("ru-sm-cut", "a session message that is cut off", "02000000 00000001"),
        row("ru-ack-cut", "a sign of life that is cut off", "05000000 0000"),
    ]
}

/// The sources that were found.
#[derive(Default)]
struct Found(usize);

impl ResolverSink for Found {
    fn source_found(&mut self, _: QueryId, _: &str, _: &SourceRecord) {
        self.0 += 1;
    }
}

fn resolver(has_keys: bool) -> Resolver {
    let counters = Arc::new(LbmrResolver::default());
    let mut resolver = Resolver::new(&ResolverConfig::default(), NOW, counters).expect("allowed");
    if has_keys {
        resolver.authenticate(keys(), WINDOW);
        resolver.set_wall_clock(NOON);
    }
    resolver
}

fn lbmr(bytes: &[u8]) -> String {
    let (has_keys, datagram) = match bytes {
        [b'K', rest @ ..] => (true, rest),
        bytes => (false, bytes),
    };
    let (mut resolver, mut found) = (resolver(has_keys), Found::default());
    resolver.query(NOW, "px", &mut found).expect("a name");
    match resolver.on_datagram(NOW, datagram, &mut found) {
        Err(error) => format!("dropped, counted: {error}"),
        Ok(()) => format!("taken, sources found: {}", found.0),
    }
}

/// What a context says that has a source of `px`, at a time of day if it has keys.
fn advertisement(signed_at: Option<u64>) -> Vec<u8> {
    let mut resolver = resolver(signed_at.is_some());
    resolver.set_wall_clock(signed_at.unwrap_or(0));
    let session = TransportSession::Tcp { address: FROM, session_id: Some(7) };
    let record = SourceRecord { topic_index: 1, session, request: None, late_join: None, origin: None };
    resolver.advertise(NOW, "px", record).expect("a name");
    resolver.poll_transmit(NOW).expect("it is due").to_vec()
}

fn lbmr_cases() -> Vec<Case> {
    let good = advertisement(None);
    let signed = advertisement(Some(NOON));
    let keyed = |bytes: &[u8]| join(&[b"K", bytes]);
    let long = join(&[&hex("00 01 0000"), &[b'x'; 256], &[0]]);
    vec![
        case("lbmr-empty", "an empty datagram", b""),
        case("lbmr-3-bytes", "one byte less than a header", &good[..3]),
        case("lbmr-good", "an advertisement", good.clone()),
        case("lbmr-cut", "one that is cut off", &good[..good.len() - 1]),
        case("lbmr-behind", "bytes behind the last record", join(&[&good, b"xyz"])),
        case("lbmr-records-65535", "one that says it has 65,535 records", with(&good, 2, "ffff")),
        case("lbmr-queries-255", "255 queries, none there", hex("00 ff 0000")),
        case("lbmr-name-no-end", "a name without its zero", hex("00 01 0000 7078")),
        case("lbmr-name-256", "a name of 256 bytes", long),
        case("lbmr-record-length-0", "a TCP source without an address", with(&good, 8, "00")),
        case("lbmr-transport-9", "a transport that nobody knows", with(&good, 7, "09")),
        case("lbmr-options-none", "packet options that are not there", with(&good, 0, "18")),
        case("lbmr-pattern-open", "a pattern that is none", hex("01 01 0000 01 5b 00")),
        case("lbmr-keys-good", "a signed advertisement", keyed(&signed)),
        case("lbmr-keys-none", "one without a code", keyed(&good)),
        case("lbmr-keys-address", "a signed one whose address was changed", keyed(&with(&signed, 18, "63"))),
        case(
            "lbmr-keys-code",
            "one with a code of zeros",
            keyed(&with(&signed, signed.len() - 20, &"00".repeat(16))),
        ),
        case(
            "lbmr-keys-number",
            "one of a key that is not known",
            keyed(&with(&signed, signed.len() - 30, "0009")),
        ),
        case(
            "lbmr-keys-old",
            "one that was signed more than a minute before",
            keyed(&advertisement(Some(NOON - 60_000_000_001))),
        ),
        case(
            "lbmr-keys-future",
            "one that is signed in more than a minute",
            keyed(&advertisement(Some(NOON + 60_000_000_001))),
        ),
        case("lbmr-keys-cut", "a signed one that is cut off", keyed(&signed[..20])),
    ]
}

fn relayed(bytes: &[u8]) -> String {
    let Some((from, datagram)) = bytes.split_first() else { unreachable!("each case says who sends it") };
    let counters = Arc::new(LbmrRelay::default());
    let mut relay = Relay::new(&RelayConfig::default(), NOW, counters.clone()).expect("allowed");
    let host = |last| SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, last), 14_402);
    for last in [1, 2] {
        relay.on_datagram(NOW, host(last), &hex("02000000"), |_| {}).expect("a sign of life");
    }
    if *from == b'K' {
        relay.authenticate(keys(), WINDOW);
        relay.set_wall_clock(NOON);
    }
    let mut sent = 0;
    let from = host(if *from == b'X' { 9 } else { 1 });
    match relay.on_datagram(NOW, from, datagram, |_| sent += 1) {
        Err(error) => format!("dropped, counted: {error}"),
        Ok(()) if counters.clients.get() > 2 => "becomes a client".to_owned(),
        Ok(()) => format!("sent on to others: {sent}"),
    }
}

fn relay_cases() -> Vec<Case> {
    let (good, signed) = (advertisement(None), advertisement(Some(NOON)));
    let of = |who: &str, bytes: &[u8]| join(&[who.as_bytes(), bytes]);
    vec![
        case("relay-good", "an advertisement", of("C", &good)),
        case("relay-stranger", "one of who is no client", of("X", &good)),
        case("relay-cut", "one that is cut off", of("C", &good[..good.len() - 1])),
        case("relay-type-5", "a type that nobody knows", of("C", &hex("05000000"))),
        case("relay-keepalive", "a resolver's sign of life", of("C", &hex("00000000"))),
        case("relay-joins", "a sign of life of who is no client", of("X", &hex("02000000"))),
        case("relay-keys-good", "a signed advertisement", of("K", &signed)),
        case("relay-keys-none", "one without a code", of("K", &good)),
        case("relay-keys-joins", "a sign of life without a code", of("K", &hex("02000000"))),
        case(
            "relay-keys-old",
            "one that was signed more than a minute before",
            of("K", &advertisement(Some(NOON - 60_000_000_001))),
        ),
    ]
}

fn stream(bytes: &[u8]) -> String {
    let Some((to, bytes)) = bytes.split_first() else { unreachable!("each case says where it goes") };
    if *to == b'T' {
        let delivery = Arc::new(LbmDelivery::default());
        let mut receiver =
            lbt::ordered::Receiver::new(&DeliveryConfig::default(), 1, delivery).expect("allowed");
        receiver.subscribe(TOPIC, 1, None).expect("free");
        let mut heard = Heard::default();
        return match receiver.on_bytes(bytes, &mut heard) {
            Err(error) => format!("the session is over, counted: {error}"),
            Ok(taken) if taken < bytes.len() => "waits for the rest".to_owned(),
            Ok(_) => heard.words(),
        };
    }
    let mut count = 0;
    let mut decoder = StreamDecoder::new(MESSAGE_MAX);
    match decoder.push(bytes, |_| count += 1) {
        Err(error) => format!("closed: {error}"),
        Ok(()) => format!("messages: {count}"),
    }
}

/// A message of a direct connection.
fn direct(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    StreamEncoder::default().message(&mut out, 0, &[], payload).expect("not too long");
    out
}

/// A message of a TCP session.
fn session_message() -> Vec<u8> {
    let options = OrderedConfig::default();
    let mut source = lbt::ordered::Source::new(&options, Arc::new(LbmSource::default())).expect("allowed");
    let mut backlog = Kept::new(Backlog::new(1 << 20, options.maximum_message_size as usize));
    let cursor = backlog.cursor_after(Vec::new());
    let topic = source.add_topic(NOW, TOPIC);
    source.send(NOW, topic, &[b"a message"], &mut backlog).expect("there is room");
    backlog.next_bytes(&cursor).to_vec()
}

fn stream_cases() -> Vec<Case> {
    let (good, whole) = (session_message(), direct(b"a message"));
    let to = |end: &str, bytes: &[u8]| join(&[end.as_bytes(), bytes]);
    let long = direct(&vec![7; MESSAGE_MAX as usize + 1]);
    let pieces = direct(&[7; 100_000]);
    // The second piece in place of the first.
    let first_len = usize::from(u16::from_be_bytes([pieces[2], pieces[3]]));
    vec![
        case("tcp-good", "a message", to("T", &good)),
        case("tcp-cut", "one that is not whole", to("T", &good[..good.len() - 1])),
        case("tcp-length-0", "a message of no bytes", to("T", &with(&good, 2, "0000"))),
        case("tcp-version-15", "one of another version", to("T", &with(&good, 0, "f0"))),
        case(
            "tcp-tls",
            "the begin of TLS, where none is spoken",
            to("T", &hex("16 03 01 0200 01 0001fc 0303")),
        ),
        case("tcp-http", "a request of HTTP", to("T", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")),
        case("direct-good", "a message", to("R", &whole)),
        case("direct-cut", "one that is not whole", to("R", &whole[..whole.len() - 1])),
        case("direct-length-0", "a message of no bytes", to("R", &with(&whole, 2, "0000"))),
        case("direct-1-mib-and-1", "one that is longer than it may be", to("R", &long)),
        case("direct-piece-missing", "a piece whose first is missing", to("R", &pieces[first_len..])),
        case("direct-http", "a request of HTTP", to("R", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")),
    ]
}
