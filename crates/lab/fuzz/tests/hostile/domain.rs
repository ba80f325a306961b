//! What the domains make of messages, dictionaries in files, and what source distributors and P2PS tell each
//! other.

use market::backbone::{LinkDown, LinkUp, StreamMsg};
use rdm::directory::{Directory, DirectoryLimits, DirectoryMsg};
use rdm::publish::Publication;
use rdm::{RdmError, Reply};
use rwf::dictionary::Dictionary;
use rwf::{Domain, Msg, StateCode};

use crate::case::{Case, Layer, be, case, hex, join};

pub(crate) fn layers() -> Vec<Layer> {
    vec![
        Layer {
            title: "Directories of providers",
            about: "Up to 100 services of 150 bytes each. What is refused is answered with a status of \
                    the code that stands behind it, and changes nothing.",
            reaction: taken,
            cases: messages(),
        },
        Layer {
            title: "Dictionary files",
            about: "A field dictionary, or behind `E` an enumeration dictionary.",
            reaction: file,
            cases: files(),
        },
        Layer {
            title: "Backbone",
            about: "Behind `S` a message of a stream, behind `U` one to a source distributor, behind `D` \
                    one from it.",
            reaction: backbone,
            cases: backbone_messages(),
        },
    ]
}

fn taken(bytes: &[u8]) -> String {
    let msg = Msg::parse(bytes).expect("legal RWF");
    let mut directory = Directory::new(DirectoryLimits { service_count_max: 100, service_bytes_max: 150 });
    match take(&msg, &mut directory) {
        Ok(what) => what.to_owned(),
        Err(error) => {
            assert!(directory.services().next().is_none(), "a directory half taken");
            let answer = Reply::to(&msg).refuse(&error).expect("can be answered");
            let Ok(Msg::Status(status)) = Msg::parse(&answer) else { panic!("{answer:?}") };
            let code = status.state.map_or(StateCode::NONE, |state| state.code);
            format!("refused: {error} ({code:?})")
        }
    }
}

fn take(msg: &Msg<'_>, directory: &mut Directory) -> Result<&'static str, RdmError> {
    match msg.domain() {
        Domain::SOURCE => match DirectoryMsg::parse(msg)? {
            DirectoryMsg::Refresh(refresh) => directory.apply_refresh(&refresh).map(|_| "taken"),
            DirectoryMsg::Update(update) => directory.apply_update(&update).map(|_| "taken"),
            _ => Ok("taken"),
        },
        _ => Publication::parse(msg).map(|_| "taken"),
    }
}

/// A message: what stands behind the length of its header, and its payload.
fn message(header: &str, payload: &str) -> Vec<u8> {
    let header = hex(header);
    join(&[&be(header.len()), &header, &hex(payload)])
}

/// A refresh of the directory with these entries of its map.
fn directory(count: usize, entries: &[u8]) -> Vec<u8> {
    let header = hex("02 04 00000000 60 09 09 00 00 00");
    join(&[&be(header.len()), &header, &hex("00 04 07"), &be(count), entries])
}

/// A service that is added with nothing but a name and a domain.
fn service(id: u8, name: &str) -> Vec<u8> {
    let name = name.as_bytes();
    let capabilities = hex("0c 4361706162696c6974696573 0f 05 04 01 0001 06");
    let element = join(&[&hex("08 0002 04 4e616d65 11"), &[name.len() as u8], name, &capabilities]);
    let info = join(&[&hex("00 05 01 02 01"), &[element.len() as u8], &element]);
    join(&[&[2, 1, id, info.len() as u8], &info])
}

fn messages() -> Vec<Case> {
    let services = |count: u8| (1..=count).flat_map(|id| service(id, &format!("S{id}"))).collect::<Vec<u8>>();
    vec![
        case(
            "directory-of-nothing",
            "a directory refresh of another type than a map",
            message("02 04 00000000 60 05 09 00 00 00", "08 0000"),
        ),
        case(
            "directory-keys-of-text",
            "a directory with texts as keys",
            message("02 04 00000000 60 09 09 00 00 00", "00 11 07 0000"),
        ),
        case(
            "directory-id-65536",
            "a service id of 65,536",
            message("02 04 00000000 60 09 09 00 00 00", "00 04 07 0001 02 03 010000 03 00 05 00"),
        ),
        case(
            "directory-without-name",
            "a service without a name",
            directory(1, &hex("02 01 07 03 00 05 00")),
        ),
        case(
            "directory-same-name",
            "two services of one name",
            directory(2, &join(&[&service(1, "A"), &service(2, "A")])),
        ),
        case(
            "directory-same-id",
            "one service twice",
            directory(2, &join(&[&service(1, "A"), &service(1, "B")])),
        ),
        case("directory-100", "as many services as are allowed", directory(100, &services(100))),
        case("directory-101", "one service more than is allowed", directory(101, &services(101))),
        case(
            "directory-name-of-200",
            "a service with more bytes than are allowed",
            directory(1, &service(1, &"N".repeat(200))),
        ),
        case("directory-cut", "a directory that is cut off", directory(2, &service(1, "A"))),
        case(
            "directory-filter-cut",
            "a service whose filter list is cut off",
            directory(1, &hex("02 01 07 04 00 05 01 02")),
        ),
        case(
            "publication-without-key",
            "a refresh of an item without a key",
            message("02 06 ffffffff 60 00 09 00 00 00", ""),
        ),
    ]
}

fn file(bytes: &[u8]) -> String {
    let mut dictionary = Dictionary::new();
    let loaded = match bytes {
        [b'E', enums @ ..] => dictionary.load_enums(enums),
        fields => dictionary.load_fields(fields),
    };
    match loaded {
        Ok(()) => format!("read, {} fields", dictionary.field_count()),
        Err(error) => format!("refused: {error}"),
    }
}

fn files() -> Vec<Case> {
    let line = |text: &str| text.as_bytes().to_vec();
    vec![
        case("nothing", "an empty file", []),
        case("not-a-file", "text that is no table", line("%%% %%%\n")),
        case("columns-missing", "a line that ends early", line("BID \"BID\" 22 NULL PRICE\n")),
        case("id-99999", "a field id of 99,999", line("BID \"BID\" 99999 NULL PRICE 17 REAL64 7\n")),
        case("id-0", "field id 0, which no field can have", line("BID \"BID\" 0 NULL PRICE 17 REAL64 7\n")),
        case(
            "id-twice",
            "two fields of one id",
            line("BID \"BID\" 22 NULL PRICE 17 REAL64 7\nASK \"ASK\" 22 NULL PRICE 17 REAL64 7\n"),
        ),
        case(
            "name-twice",
            "two fields of one name",
            line("BID \"BID\" 22 NULL PRICE 17 REAL64 7\nBID \"BID\" 23 NULL PRICE 17 REAL64 7\n"),
        ),
        case("type-unknown", "a type that does not exist", line("BID \"BID\" 22 NULL PRICE 17 REAL65 7\n")),
        case(
            "quote-open",
            "a quotation mark that is not closed",
            line("BID \"BID 22 NULL PRICE 17 REAL64 7\n"),
        ),
        case(
            "line-of-1-MiB",
            "a name of 1 MiB",
            [vec![b'B'; 1 << 20], line(" \"B\" 22 NULL PRICE 17 REAL64 7 x\n")].concat(),
        ),
        case(
            "ripples-to-itself",
            "a field that ripples to itself: it does not go round",
            line("BID \"BID\" 22 BID PRICE 17 REAL64 7\n"),
        ),
        case("lines-of-nothing", "a million empty lines", vec![b'\n'; 1_000_000]),
        case("values-without-fields", "enumeration values before any field", line("E  1  \"A\"  \"a\"\n")),
        case("value-65536", "an enumeration value of 65,536", line("EBID 22\n  65536  \"A\"  \"a\"\n")),
        case("fields-without-values", "enumeration fields without values", line("EBID 22\n")),
        case("display-hexadecimal-odd", "half a byte in hexadecimal", line("EBID 22\n  1  #A#  \"a\"\n")),
    ]
}

fn backbone(bytes: &[u8]) -> String {
    let error = match bytes {
        [b'S', message @ ..] => StreamMsg::parse(message).and_then(|msg| msg.opened(1)).err(),
        [b'U', message @ ..] => LinkUp::parse(message).err(),
        [_, message @ ..] => LinkDown::parse(message).err(),
        [] => None,
    };
    error.map_or("read".to_owned(), |error| format!("dropped, counted: {error}"))
}

fn backbone_messages() -> Vec<Case> {
    let stream = |digits: &str| join(&[b"S", &hex(digits)]);
    vec![
        case("stream-empty", "an empty message", stream("")),
        case("stream-23-bytes", "one byte less than a header", stream(&"01".repeat(23))),
        case("stream-version-3", "a version two ahead", stream(&format!("03 01 00 06 {}", "00".repeat(20)))),
        case("stream-header-0", "a header of 0 bytes", stream(&format!("01 01 00 00 {}", "00".repeat(20)))),
        case(
            "stream-header-1020",
            "a header of 1,020 bytes",
            stream(&format!("01 01 00 ff {}", "00".repeat(20))),
        ),
        case(
            "open-name-255",
            "an item name of 255 bytes, one there",
            stream(&format!("01 01 00 06 {} 06 ff 41", "00".repeat(20))),
        ),
        case(
            "open-key-cut",
            "a key in full whose filter is cut off",
            stream(&format!("01 41 00 06 {} 06 0004 0a 0141 00", "00".repeat(20))),
        ),
        case(
            "up-attributes-4097",
            "a key in full with attributes of 4,097 bytes",
            join(&[b"U", &hex("01 42 0001 06 1007 22 0141 02 9001"), &[0; 4097]]),
        ),
        case(
            "up-key-65535",
            "a key in full that announces 65,535 bytes",
            join(&[b"U", &hex("01 42 0001 06 ffff 02 0141")]),
        ),
        case("up-kind-99", "a kind that does not exist", join(&[b"U", &hex("01 63 0001")])),
        case("up-hello-cut", "a Hello that is cut off", join(&[b"U", &hex("01 01 0000 00000000")])),
        case("up-query-cut", "a query that is cut off", join(&[b"U", &hex("01 05 0001 0000000000000001")])),
        case(
            "down-of-the-other-side",
            "a message of the other direction",
            join(&[b"D", &hex("01 01 0000 0000000000000001")]),
        ),
        case(
            "down-image-cut",
            "an image whose name is cut off",
            join(&[b"D", &hex("01 11 0001 00000001 0000000000000001 06 09 41")]),
        ),
    ]
}
