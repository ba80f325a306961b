//! What a client can say to a P2PS, in RWF and in JSON.

use std::sync::Arc;

use market::backbone::LinkUp;
use market::p2ps::{
    ClientId, ClientProfile, PointToPoint, ServerConfig, ServerNotice, ServerSink, SourceId, UpstreamSink,
    Watcher,
};
use rdm::ToVec;
use rdm::login::LoginRequest;
use rwf::dictionary::Dictionary;
use rwf::{Msg, walk};
use rwf_json::{Converter, Incoming, NoServices, Options, Reader};
use units::Nanos;

use crate::case::{Case, Layer, be, case, hex, join};

pub(crate) fn layers() -> Vec<Layer> {
    vec![
        Layer {
            title: "A client's messages",
            about: "To a P2PS that knows no service, behind a login but for those with `no-login`.",
            reaction: served,
            cases: messages(),
        },
        Layer { title: "JSON", about: "The text of one WebSocket frame.", reaction: read, cases: texts() },
    ]
}

const CLIENT: ClientId = ClientId(7);

/// What goes back to the client.
#[derive(Default)]
struct Answers(Vec<String>);

impl ServerSink for Answers {
    fn send(&mut self, _: ClientId, msg: &[u8]) {
        self.0.push(match Msg::parse(msg).expect("what is sent is legal") {
            Msg::Status(status) => match status.state {
                Some(state) => format!("status: {state}"),
                None => "status without a state".to_owned(),
            },
            Msg::Refresh(refresh) => format!("refresh of {}: {}", refresh.domain, refresh.state),
            Msg::Ack(ack) => {
                let text = String::from_utf8_lossy(ack.text.unwrap_or_default());
                format!("nak {}: {text}", ack.nak_code.map_or(0, |code| code.0))
            }
            other => format!("{:?}", other.class()),
        });
    }

    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]) {
        watchers.iter().for_each(|watcher| self.send(watcher.client, msg));
    }
}

impl UpstreamSink for Answers {
    fn subscribe(&mut self, _: &str) {}
    fn unsubscribe(&mut self, _: &str) {}
    fn connect(&mut self, _: u64, _: SourceId) {}
    fn disconnect_link(&mut self, _: u64) {}
    fn to_instance(&mut self, _: u64, _: &LinkUp<'_>) {}
    fn notice(&mut self, _: &ServerNotice<'_>) {}
}

/// Input: `L` for messages that come without a login; messages behind `u16` lengths.
fn served(bytes: &[u8]) -> String {
    let mut core = PointToPoint::new(1, ServerConfig::default(), Arc::new(Dictionary::new()), Arc::default());
    let mut answers = Answers::default();
    core.on_client_connected(CLIENT, ClientProfile::default());
    let (first, mut rest) = bytes.split_first().expect("which kind");
    if *first != b'L' {
        let login = LoginRequest::consumer(b"someone").to_vec().expect("legal");
        core.on_client_message(Nanos::ZERO, CLIENT, &login, &mut answers).expect("a good login");
        answers.0.clear();
    }
    let mut end = None;
    while let (Some((length, more)), None) = (rest.split_first_chunk(), &end) {
        let (message, more) = more.split_at(u16::from_be_bytes(*length).into());
        end = core.on_client_message(Nanos::ZERO, CLIENT, message, &mut answers).err();
        rest = more;
    }
    let mut told = answers.0;
    let count = told.len();
    if count > 3 {
        told.truncate(2);
        told.push(format!("{count} answers in all"));
    }
    told.extend(end.map(|error| format!("closed: {error}")));
    if told.is_empty() { "no answer".to_owned() } else { told.join("; ") }
}

/// One message behind a login.
fn one(header: &str, payload: &str) -> Vec<u8> {
    several(b'+', &[(header, payload)])
}

fn several(kind: u8, messages: &[(&str, &str)]) -> Vec<u8> {
    let whole = messages.iter().map(|(header, payload)| {
        let header = hex(header);
        let message = join(&[&be(header.len()), &header, &hex(payload)]);
        join(&[&be(message.len()), &message])
    });
    join(&[&[kind], &whole.collect::<Vec<_>>().concat()])
}

fn messages() -> Vec<Case> {
    const ITEM: &str = "01 06 00000005 04 00 8005 03 01 02 4142"; // service 1, name AB
    let list = "08 0001 09 3a4974656d4c697374 0f"; // one element, :ItemList, an array
    vec![
        case("no-login-item", "a request for an item without a login", several(b'L', &[(ITEM, "")])),
        case(
            "no-login-directory",
            "a request for the directory without a login",
            several(b'L', &[("01 04 00000002 04 00 8005 08 0000003f", "")]),
        ),
        case(
            "no-login-post",
            "a post without a login",
            several(b'L', &[("08 06 00000005 62 00 0000000000000000 00000001", "")]),
        ),
        case(
            "no-login-name",
            "a login without a name",
            several(b'L', &[("01 01 00000001 04 00 8001 00", "")]),
        ),
        case(
            "no-login-refresh",
            "a login refresh from a client",
            several(b'L', &[("02 01 00000001 60 00 09 00 00 00", "")]),
        ),
        case("no-login-logout", "a logout before any login", several(b'L', &[("05 01 00000001 00 00", "")])),
        case("not-a-message", "bytes that are no message", hex("2b 0003 010203")),
        case("empty-message", "a message of no bytes", hex("2b 0000")),
        case("update", "an update from a client", one("04 06 00000005 00 04 00", "08 0000")),
        case("item-of-no-service", "a request for an item of a service that does not exist", one(ITEM, "")),
        case("item-stream-0", "a request on stream 0", one("01 06 00000000 04 00 8005 03 01 02 4142", "")),
        case(
            "item-stream-negative",
            "a request on a negative stream",
            one("01 06 ffffffff 04 00 8005 03 01 02 4142", ""),
        ),
        case(
            "item-on-login-stream",
            "a request on the stream of the login",
            one("01 06 00000001 04 00 8005 03 01 02 4142", ""),
        ),
        case("item-without-name", "a request without a name", one("01 06 00000005 04 00 8002 01 01", "")),
        case(
            "item-with-empty-name",
            "a request with a name of no bytes",
            one("01 06 00000005 04 00 8003 03 01 00", ""),
        ),
        case("item-domain-0", "a request in domain 0", one("01 00 00000005 04 00 8005 03 01 02 4142", "")),
        case(
            "batch-without-list",
            "a batch request without a list",
            one("01 06 00000005 8804 05 8002 01 01", "08 0000"),
        ),
        case(
            "batch-of-nothing",
            "a batch request for no item",
            one("01 06 00000005 8804 05 8002 01 01", &format!("{list} 04 11 00 0000")),
        ),
        case(
            "batch-of-numbers",
            "a batch request for numbers in place of names",
            one("01 06 00000005 8804 05 8002 01 01", &format!("{list} 06 04 01 0002 01 02")),
        ),
        case(
            "batch-65535",
            "a batch request that announces 65,535 names in one byte",
            one("01 06 00000005 8804 05 8002 01 01", &format!("{list} 05 11 00 ffff 00")),
        ),
        case(
            "batch-stream-ids-end",
            "a batch whose stream ids would run past the last one",
            one("01 06 7fffffff 8804 05 8002 01 01", &format!("{list} 08 11 00 0002 01 41 01 42")),
        ),
        case(
            "view-type-9",
            "a view of a type that does not exist",
            one("01 06 00000005 8404 05 8005 03 01 02 4142", "08 0001 09 3a5669657754797065 04 01 09"),
        ),
        case(
            "view-without-data",
            "a view without data",
            one("01 06 00000005 8404 05 8005 03 01 02 4142", "08 0001 09 3a5669657754797065 04 01 01"),
        ),
        case(
            "dictionary-unknown",
            "a dictionary that does not exist",
            one("01 05 00000003 04 00 800b 0b 01 04 58585858 00000007", ""),
        ),
        case("dictionary-refresh", "a dictionary from a client", one("02 05 00000003 60 00 09 00 00 00", "")),
        case("directory-refresh", "a directory from a client", one("02 04 00000002 60 00 09 00 00 00", "")),
        case("close-unknown", "a close of a stream that is not open", one("05 06 00000063 00 00", "")),
        case(
            "close-batch-without-list",
            "a batch close without a list",
            one("05 06 00000005 04 05", "08 0000"),
        ),
        case(
            "post-without-key",
            "a post off stream, without a key",
            one("08 06 00000001 62 00 0000000000000000 00000001", ""),
        ),
        case(
            "post-to-nobody",
            "a post to a service that does not exist",
            one("08 06 00000001 66 00 0000000000000000 00000001 8005 03 01 02 4142", ""),
        ),
        case(
            "generic-on-nothing",
            "a generic message on a stream that is not open",
            one("07 c8 00000063 10 00", ""),
        ),
        case(
            "round-trip-unasked",
            "an answer to a round trip that nobody asked for",
            one("07 01 00000001 c010 05", "08 0001 05 5469636b73 04 01 01"),
        ),
        case(
            "logged-out-and-on",
            "a message behind a logout",
            several(b'+', &[("05 01 00000001 00 00", ""), (ITEM, "")]),
        ),
    ]
}

fn read(text: &[u8]) -> String {
    let options = Options { default_service_id: Some(257), ..Options::default() };
    let dictionary = Dictionary::new();
    let converter = Converter::new(&dictionary, &NoServices, options);
    let mut count = 0;
    let mut reader = Reader::new();
    let refusal = reader.read_frame(&converter, text, |incoming| {
        count += 1;
        if let Incoming::Message { rwf, .. } = incoming {
            walk(rwf, None, |_, _| ()).expect("what is made is legal");
        }
    });
    let Err(refusal) = refusal else {
        return match count {
            1 => "1 message taken".to_owned(),
            count => format!("{count} messages taken"),
        };
    };
    let mut answer = Vec::new();
    refusal.write(&mut answer);
    assert!(answer.starts_with(b"{\"ID\":") && answer.ends_with(b"}"));
    let before = if count > 0 { format!("{count} taken, then ") } else { String::new() };
    format!("{before}answered with an error: {:?}, stream {}", refusal.kind(), refusal.stream_id)
}

fn texts() -> Vec<Case> {
    let text = |text: &str| text.as_bytes().to_vec();
    let nested = |open: &str, middle: &str, close: &str, depth: usize| {
        text(&[&open.repeat(depth), middle, &close.repeat(depth)].concat())
    };
    let message = |member: &str| text(&format!("{{\"ID\":2,\"Key\":{{\"Name\":\"A\"}}{member}}}"));
    vec![
        case("nothing", "no text", []),
        case("blanks", "blanks alone", text("   ")),
        case("a-word", "text that is no JSON", text("hello")),
        case("a-number", "a number", text("5")),
        case("array-open", "an array that is not closed", text("[{\"Type\":\"Ping\"}")),
        case("string-open", "a string that is not closed", text("{\"ID\":2,\"Key\":{\"Name\":\"A")),
        case("comma-behind", "a comma behind the last member", text("{\"Type\":\"Ping\",}")),
        case("two-objects", "two objects without an array", text("{\"Type\":\"Ping\"}{\"Type\":\"Ping\"}")),
        case("arrays-100000-deep", "100,000 arrays in each other", nested("[", "", "]", 100_000)),
        case("objects-10000-deep", "10,000 objects in each other", nested("{\"A\":", "1", "}", 10_000)),
        case(
            "messages-10000",
            "10,000 pings in one frame",
            text(&format!("[{}{{\"Type\":\"Ping\"}}]", "{\"Type\":\"Ping\"},".repeat(9_999))),
        ),
        case("array-of-nothing", "an empty array", text("[]")),
        case("object-of-nothing", "an empty object", text("{}")),
        case("null-message", "null in place of a message", text("[null]")),
        case("id-text", "a text for an id", text("{\"ID\":\"two\",\"Key\":{\"Name\":\"A\"}}")),
        case("id-fraction", "a fraction for an id", text("{\"ID\":2.5,\"Key\":{\"Name\":\"A\"}}")),
        case(
            "id-2-to-the-40",
            "an id that does not fit",
            text("{\"ID\":1099511627776,\"Key\":{\"Name\":\"A\"}}"),
        ),
        case(
            "id-of-1000-digits",
            "an id of 1,000 digits",
            text(&format!("{{\"ID\":{},\"Key\":{{\"Name\":\"A\"}}}}", "9".repeat(1000))),
        ),
        case("id-missing", "no id", text("{\"Key\":{\"Name\":\"A\"}}")),
        case("type-unknown", "a type that does not exist", text("{\"ID\":2,\"Type\":\"Shout\"}")),
        case("domain-unknown", "a domain that does not exist", message(",\"Domain\":\"Weather\"")),
        case("key-missing", "a request without a key", text("{\"ID\":2}")),
        case("key-number", "a number for a key", text("{\"ID\":2,\"Key\":5}")),
        case(
            "name-of-300",
            "a name of 300 bytes",
            text(&format!("{{\"ID\":2,\"Key\":{{\"Name\":\"{}\"}}}}", "N".repeat(300))),
        ),
        case("name-number", "a number for a name", text("{\"ID\":2,\"Key\":{\"Name\":7}}")),
        case("names-of-nothing", "a batch of no item", text("{\"ID\":2,\"Key\":{\"Name\":[]}}")),
        case("names-mixed", "a batch of texts and numbers", text("{\"ID\":2,\"Key\":{\"Name\":[\"A\",5]}}")),
        case(
            "names-70000",
            "a batch of 70,000 names",
            text(&format!("{{\"ID\":2,\"Key\":{{\"Name\":[{}\"A\"]}}}}", "\"A\",".repeat(69_999))),
        ),
        case(
            "service-unknown",
            "a service that does not exist",
            text("{\"ID\":2,\"Key\":{\"Name\":\"A\",\"Service\":\"NOBODY\"}}"),
        ),
        case(
            "service-70000",
            "a service id of 70,000",
            text("{\"ID\":2,\"Key\":{\"Name\":\"A\",\"Service\":70000}}"),
        ),
        case("view-of-objects", "a view of objects", message(",\"View\":[{}]")),
        case(
            "view-unknown-field",
            "a view of a field that does not exist",
            message(",\"View\":[\"NO_SUCH_FIELD\"]"),
        ),
        case("streaming-text", "a text where true or false belongs", message(",\"Streaming\":\"yes\"")),
        case(
            "escape-wrong",
            "an escape that does not exist",
            text("{\"ID\":2,\"Key\":{\"Name\":\"\\x41\"}}"),
        ),
        case("surrogate-alone", "half a surrogate pair", text("{\"ID\":2,\"Key\":{\"Name\":\"\\ud800\"}}")),
        case("control-character", "a line feed in a string", text("{\"ID\":2,\"Key\":{\"Name\":\"A\nB\"}}")),
        case("not-utf-8", "bytes that are not UTF-8", b"{\"ID\":2,\"Key\":{\"Name\":\"\xff\"}}".to_vec()),
        case("post-without-message", "a post without a message", text("{\"ID\":2,\"Type\":\"Post\"}")),
        case(
            "field-unknown",
            "a post of a field that does not exist",
            text(r#"{"ID":2,"Type":"Post","Message":{"ID":0,"Type":"Update","Fields":{"NO_SUCH":1}}}"#),
        ),
        case(
            "messages-in-messages",
            "posts in each other, 100 levels",
            nested("{\"ID\":2,\"Type\":\"Post\",\"Message\":", "{\"ID\":0,\"Type\":\"Update\"}", "}", 100),
        ),
        case("close-of-nothing", "a close of no stream", text("{\"ID\":[],\"Type\":\"Close\"}")),
        case(
            "good-then-bad",
            "a good message, then one that is not",
            text("[{\"Type\":\"Ping\"},{\"ID\":6}]"),
        ),
    ]
}
