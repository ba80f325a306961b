//! Messages, containers and values.

use rwf::{DataType, DecodeError, Value, walk, walk_container};

use crate::case::{Case, Layer, be, case, hex, join};

pub(crate) fn layers() -> Vec<Layer> {
    vec![
        Layer {
            title: "RWF messages",
            about: "Read with everything in them. Whoever sends what is refused here is told so on the \
                    stream, where there is one, or loses the connection; nobody else is concerned.",
            reaction: |bytes| told(walk(bytes, None, |_, _| ()), bytes),
            cases: messages(),
        },
        containers("field list", DataType::FIELD_LIST, field_lists()),
        containers("element list", DataType::ELEMENT_LIST, element_lists()),
        containers("filter list", DataType::FILTER_LIST, filter_lists()),
        containers("map", DataType::MAP, maps()),
        containers("series", DataType::SERIES, series()),
        containers("vector", DataType::VECTOR, vectors()),
        Layer {
            title: "RWF values",
            about: "A type number and the content of a value.",
            reaction: value,
            cases: values(),
        },
    ]
}

fn containers(title: &'static str, data_type: DataType, cases: Vec<Case>) -> Layer {
    let (title, reaction): (_, fn(&[u8]) -> String) = match data_type {
        DataType::FIELD_LIST => ("RWF field lists", |b| container(DataType::FIELD_LIST, b)),
        DataType::ELEMENT_LIST => ("RWF element lists", |b| container(DataType::ELEMENT_LIST, b)),
        DataType::FILTER_LIST => ("RWF filter lists", |b| container(DataType::FILTER_LIST, b)),
        DataType::MAP => ("RWF maps", |b| container(DataType::MAP, b)),
        DataType::SERIES => ("RWF series", |b| container(DataType::SERIES, b)),
        DataType::VECTOR => ("RWF vectors", |b| container(DataType::VECTOR, b)),
        _ => panic!("no layer of {title}"),
    };
    Layer { title, about: "", reaction, cases }
}

fn container(data_type: DataType, bytes: &[u8]) -> String {
    told(walk_container(data_type, bytes, None, |_, _| ()), bytes)
}

fn told(walked: Result<(), DecodeError>, bytes: &[u8]) -> String {
    match walked {
        Ok(()) if bytes.is_empty() => "read as empty".to_owned(),
        Ok(()) => "read".to_owned(),
        Err(error) => format!("refused: {error}"),
    }
}

fn value(bytes: &[u8]) -> String {
    match Value::decode(DataType(bytes[0]), &bytes[1..]) {
        Ok(value) if value.is_blank() => "read as blank".to_owned(),
        Ok(Value::Array(array)) => told(array.values().try_for_each(|item| item.map(|_| ())), bytes),
        Ok(_) => "read".to_owned(),
        Err(error) => format!("refused: {error}"),
    }
}

/// A message: what stands behind the length of its header, and its payload.
fn message(header: &str, payload: &[u8]) -> Vec<u8> {
    let header = hex(header);
    join(&[&be(header.len()), &header, payload])
}

/// An update of market price on stream 5.
fn update(container: u8, payload: &[u8]) -> Vec<u8> {
    join(&[&hex("0009 04 06 00000005 00"), &[container, 0], payload])
}

const FIELDS: &[u8] = &[8, 0, 1, 0, 22, 3, 12, 15, 150];

/// So many element lists in each other; each but the innermost has one element.
fn nested_lists(depth: usize) -> Vec<u8> {
    (1..depth).fold(vec![8, 0, 0], |inner, _| {
        let length =
            if inner.len() < 0xFE { vec![inner.len() as u8] } else { join(&[&[0xFE], &be(inner.len())]) };
        join(&[&[8, 0, 1, 1, b'L', 133], &length, &inner])
    })
}

/// So many messages in each other.
fn nested_messages(depth: usize) -> Vec<u8> {
    (1..depth).fold(update(4, FIELDS), |inner, _| update(13, &inner))
}

fn messages() -> Vec<Case> {
    vec![
        case("empty", "no bytes", []),
        case("one-byte", "one byte", [0]),
        case("header-0", "a header of 0 bytes", hex("0000 04 06 00000005 00 04 00")),
        case(
            "header-65535",
            "a header of 65,535 bytes in a message of 11",
            hex("ffff 04 06 00000005 00 04 00"),
        ),
        case("class-0", "message class 0", message("00 06 00000005 00 04 00", FIELDS)),
        case("class-9", "message class 9", message("09 06 00000005 00 04 00", FIELDS)),
        case("class-31", "message class 31", message("1f 06 00000005 00 04 00", FIELDS)),
        case("flags-cut", "flags of two bytes, of which one is there", message("04 06 00000005 80", &[])),
        case(
            "container-byte-128",
            "a container type that no byte can name",
            message("04 06 00000005 00 80 00", FIELDS),
        ),
        case("container-unknown", "an update of a container type nobody knows", update(99, FIELDS)),
        case("stream-id-least", "the least stream id there is", message("04 06 80000000 00 04 00", FIELDS)),
        case(
            "update-without-type",
            "an update whose header ends before its type",
            message("04 06 00000005 00 04", &[]),
        ),
        case("sequence-cut", "a sequence number of two bytes", message("04 06 00000005 10 04 00 0001", &[])),
        case("refresh-without-state", "a refresh without a state", message("02 06 00000005 60 04", &[])),
        case(
            "state-text-32767",
            "a state text of 32,767 bytes, none there",
            message("02 06 00000005 60 04 09 00 ffff", &[]),
        ),
        case(
            "state-values-open",
            "a state with numbers that no state has",
            message("02 06 00000005 60 04 ff ff 00 00", FIELDS),
        ),
        case(
            "group-id-255",
            "a group id of 255 bytes, one there",
            message("02 06 00000005 60 04 09 00 00 ff 01", &[]),
        ),
        case(
            "permission-32767",
            "permission data of 32,767 bytes, none there",
            message("04 06 00000005 02 04 00 ffff", &[]),
        ),
        case(
            "key-32767",
            "a key of 32,767 bytes, two there",
            message("04 06 00000005 08 04 00 ffff 0000", &[]),
        ),
        case("key-empty", "a key of no bytes", message("01 06 00000005 04 00 8000", &[])),
        case(
            "key-name-255",
            "a name of 255 bytes, one there",
            message("01 06 00000005 04 00 8003 02 ff 41", &[]),
        ),
        case(
            "key-filter-cut",
            "a key filter of two bytes",
            message("01 06 00000005 04 00 8003 08 0000", &[]),
        ),
        case(
            "key-attributes-32767",
            "key attributes of 32,767 bytes",
            message("01 06 00000005 04 00 8004 20 05 ffff", &[]),
        ),
        case(
            "priority-missing",
            "a request that ends before its priority",
            message("01 06 00000005 06 00", &[]),
        ),
        case(
            "qos-cut",
            "a quality of service with rate information that is cut off",
            message("01 06 00000005 40 00 27 00", &[]),
        ),
        case(
            "extended-header-255",
            "an extended header of 255 bytes, none there",
            message("05 06 00000005 01 00 ff", &[]),
        ),
        case(
            "post-user-cut",
            "a post whose user information is cut off",
            message("08 06 00000005 00 04 00000001", &[]),
        ),
        case(
            "ack-text-65535",
            "an ack with a text of 65,535 bytes",
            message("06 06 00000005 02 00 00000001 fe ffff", &[]),
        ),
        case(
            "ack-text-length-255",
            "a length that begins with 0xFF, which no encoder writes",
            message("06 06 00000005 02 00 00000001 ff 0001", &[]),
        ),
        case(
            "conflation-cut",
            "conflation information that is cut off",
            message("04 06 00000005 20 04 00 05", &[]),
        ),
        case(
            "part-number-cut",
            "a part number of two bytes, of which one is there",
            message("07 06 00000005 40 04 80", &[]),
        ),
        case("payload-of-message-type", "a message as payload, cut off after one byte", update(13, &[0])),
        case("messages-31-deep", "messages in each other, 31 levels, then fields", nested_messages(31)),
        case("messages-40-deep", "messages in each other, 40 levels", nested_messages(40)),
        case("messages-1000-deep", "messages in each other, 1,000 levels", nested_messages(1000)),
        case(
            "lists-in-lists-30-deep",
            "element lists in each other, 30 levels",
            update(5, &nested_lists(30)),
        ),
        case(
            "lists-in-lists-1000-deep",
            "element lists in each other, 1,000 levels",
            update(5, &nested_lists(1000)),
        ),
        case(
            "view-of-nothing",
            "a request with the view flag and no payload",
            message("01 06 00000005 8404 00 8000", &[]),
        ),
    ]
}

fn field_lists() -> Vec<Case> {
    vec![
        case("count-65535", "65,535 fields announced, one there", hex("08 ffff 0016 01 00")),
        case("count-0", "no field announced, one there", hex("08 0000 0016 01 00")),
        case("count-cut", "a count of one byte", hex("08 00")),
        case("flags-all", "all flags, and nothing else", hex("ff")),
        case("length-65535", "a field of 65,535 bytes, two there", hex("08 0001 0016 fe ffff 0000")),
        case("length-byte-255", "a length that begins with 0xFF", hex("08 0001 0016 ff 0000")),
        case("length-in-long-form", "a short length in its long form: legal", hex("08 0001 0016 fe 0001 00")),
        case("information-255", "information of 255 bytes, none there", hex("09 ff")),
        case("information-0", "information of no bytes", hex("09 00 0000")),
        case("set-data-32767", "set data of 32,767 bytes, none there", hex("0a ffff")),
        case("set-unknown", "set data of a set that nobody defined: passed over", hex("06 0f 010203")),
        case("field-id-cut", "half a field id", hex("08 0001 00")),
    ]
}

fn element_lists() -> Vec<Case> {
    vec![
        case("count-65535", "65,535 elements announced, none there", hex("08 ffff")),
        case("name-32767", "a name of 32,767 bytes, one there", hex("08 0001 ffff 41")),
        case("type-missing", "a name without a type", hex("08 0001 01 41")),
        case("type-unknown", "a value of type 2, which does not exist", hex("08 0001 01 41 02 01 00")),
        case(
            "type-of-set-data",
            "a type that only set data has: read as what it is",
            hex("08 0001 01 41 40 01 00"),
        ),
        case("length-65535", "an element of 65,535 bytes, none there", hex("08 0001 01 41 03 fe ffff")),
        case("integer-of-9-bytes", "an integer of nine bytes", hex("08 0001 01 41 03 09 000000000000000001")),
        case("array-of-arrays", "an array of arrays", hex("08 0001 01 41 0f 04 0f 00 0001")),
        case(
            "array-65535",
            "an array that announces 65,535 items in two bytes",
            hex("08 0001 01 41 0f 06 03 00 ffff 01 00"),
        ),
        case(
            "array-item-65535",
            "an array of items of 65,535 bytes",
            hex("08 0001 01 41 0f 06 03 fe ffff 0001"),
        ),
        case("lists-33-deep", "element lists in each other, 33 levels", nested_lists(33)),
        case("lists-5000-deep", "element lists in each other, 5,000 levels", nested_lists(5000)),
    ]
}

fn filter_lists() -> Vec<Case> {
    vec![
        case("count-255", "255 entries announced, none there", hex("00 05 ff")),
        case("action-0", "an entry with action 0", hex("00 05 01 00 01")),
        case("action-15", "an entry with action 15", hex("00 05 01 0f 01")),
        case(
            "entry-type-128",
            "an entry of a container type that no byte can name",
            hex("00 05 01 22 01 ff 00"),
        ),
        case("permission-32767", "permission data of 32,767 bytes, none there", hex("01 05 01 12 01 ffff")),
        case("length-65535", "an entry of 65,535 bytes, none there", hex("00 05 01 02 01 fe ffff")),
        case("hint-missing", "a total count hint that is not there", hex("02 05")),
        case(
            "clear-with-data",
            "an entry that clears, with bytes behind it",
            hex("00 05 01 03 01 05 0800000000"),
        ),
    ]
}

fn maps() -> Vec<Case> {
    vec![
        case("count-65535", "65,535 entries announced, none there", hex("00 10 04 ffff")),
        case("key-type-array", "arrays as keys", hex("00 0f 04 0000")),
        case("key-type-container", "maps as keys", hex("00 89 04 0000")),
        case("key-type-0", "keys of type 0", hex("00 00 04 0000")),
        case("container-128", "entries of a container type that no byte can name", hex("00 10 80 0000")),
        case("action-0", "an entry with action 0", hex("00 10 04 0001 00 01 41 00")),
        case("action-4", "an entry with action 4", hex("00 10 04 0001 04 01 41 00")),
        case("key-32767", "a key of 32,767 bytes, one there", hex("00 10 04 0001 02 ffff 41")),
        case(
            "key-empty",
            "a key without content: read, but no image takes it",
            hex("00 10 04 0001 02 00 00"),
        ),
        case(
            "delete-with-data",
            "an entry that deletes, with bytes behind it",
            hex("00 10 04 0001 03 01 41 ff"),
        ),
        case("summary-32767", "summary data of 32,767 bytes, none there", hex("02 10 04 ffff")),
        case("summary-spoilt", "summary data that is no field list", hex("02 10 04 03 08ffff 0000")),
        case("set-definitions-16", "a set definition with id 16", hex("01 10 04 05 0001 10 00 00 0000")),
        case(
            "set-definitions-255",
            "255 set definitions announced, none there",
            hex("01 10 04 02 00ff 0000"),
        ),
        case(
            "set-definition-of-no-type",
            "a set definition of a type that set data cannot hold",
            hex("01 10 04 07 0001 00 01 0016 80 0000"),
        ),
        case(
            "set-data-too-short",
            "set data shorter than its definition",
            hex("01 10 04 07 0001 00 01 0016 46 0001 02 01 41 03 0200 00"),
        ),
        case("hint-cut", "a total count hint of four bytes, of which two are there", hex("08 10 04 c000")),
        case("hint-30-bits", "a total count hint of 2^30 - 1 for no entry", hex("08 10 04 ffffffff 0000")),
        case("key-field-cut", "half the id of the key field", hex("10 10 04 00")),
    ]
}

fn series() -> Vec<Case> {
    vec![
        case("count-65535", "65,535 entries announced, none there", hex("00 05 ffff")),
        case(
            "no-data-65535",
            "65,535 entries of no data in four bytes: legal, and no work",
            hex("00 00 ffff"),
        ),
        case("length-65535", "an entry of 65,535 bytes, none there", hex("00 05 0001 fe ffff")),
        case("set-definitions-cut", "set definitions that are cut off", hex("01 05 03 000100 0000")),
        case("series-40-deep", "series in each other, 40 levels", nested_series(40)),
        case("count-cut", "half a count", hex("00 05 00")),
    ]
}

fn nested_series(depth: usize) -> Vec<u8> {
    (1..depth).fold(hex("00 0a 0000"), |inner, _| join(&[&hex("00 0a 0001"), &[inner.len() as u8], &inner]))
}

fn vectors() -> Vec<Case> {
    vec![
        case("count-65535", "65,535 entries announced, none there", hex("00 05 ffff")),
        case("action-0", "an entry with action 0", hex("00 05 0001 00 00")),
        case("action-6", "an entry with action 6", hex("00 05 0001 06 00")),
        case("index-cut", "an index of four bytes, of which one is there", hex("00 05 0001 02 c0")),
        case("index-30-bits", "the largest index", hex("00 05 0001 02 ffffffff 03 080000")),
        case(
            "insert-unsorted",
            "an insertion into a vector that says it is not sorted",
            hex("00 05 0001 04 00 03 080000"),
        ),
        case("permission-32767", "permission data of 32,767 bytes, none there", hex("04 05 0001 12 00 ffff")),
        case("length-65535", "an entry of 65,535 bytes, none there", hex("00 05 0001 02 00 fe ffff")),
    ]
}

fn values() -> Vec<Case> {
    vec![
        case("type-2", "type 2, which does not exist", hex("02 00")),
        case("integer-9", "an integer of nine bytes", hex("03 000000000000000001")),
        case("unsigned-9", "an unsigned integer of nine bytes", hex("04 ffffffffffffffffff")),
        case("float-3", "a float of three bytes", hex("05 000000")),
        case("double-9", "a double of nine bytes", hex("06 000000000000000000")),
        case("real-hint-63", "a real with hint 63", hex("08 3f 01")),
        case("real-10", "a real of ten bytes", hex("08 0c 000000000000000001")),
        case("date-3", "a date of three bytes", hex("09 010101")),
        case("date-39-13", "the 39th of the 13th month: carried as it is", hex("09 27 0d 07e8")),
        case("time-4", "a time of four bytes", hex("0a 01020304")),
        case("time-255", "a time of blank parts but one: not taken for a blank", hex("0a ffffff0000")),
        case("datetime-13", "a date and time of 13 bytes", hex("0b 01010101010101010101010101")),
        case("qos-rate-cut", "a quality of service whose rate is cut off", hex("0c 27 00")),
        case("state-text-cut", "a state text longer than the content", hex("0d 09 00 ff 41")),
        case("enum-3", "an enumeration of three bytes", hex("0e 000001")),
        case("array-cut", "an array of three bytes", hex("0f 03 00 00")),
        case("array-of-nothing-60000", "60,000 items of an array in no byte", hex("0f 03 00 ea60")),
        case("utf8-spoilt", "a UTF-8 string that is none: carried as it is", hex("12 c3 28")),
        case(
            "rmtes-command-cut",
            "an RMTES partial update that is cut off: carried as it is",
            hex("13 1b 5b 31"),
        ),
        case("fixed-int-2-of-3", "a two-byte integer of three bytes: read as an integer", hex("42 000001")),
    ]
}
