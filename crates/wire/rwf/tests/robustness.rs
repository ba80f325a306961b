//! Bytes from a hostile network: whatever they are, decoding ends with a result. A panic fails these tests.

#[allow(dead_code, reason = "this test needs the bytes only")]
mod golden;

use golden::{Case, File, Kind};
use tickcast_rwf::dictionary::Dictionary;
use tickcast_rwf::print::Pretty;
use tickcast_rwf::{DataType, DecodeError, Msg, encode_to_vec, peek, set_stream_id, walk, walk_container};

/// Cases longer than this are changed near their beginning only.
const LONG_BYTES: usize = 4096;

fn every_case(mut test: impl FnMut(&Case, &Dictionary)) -> usize {
    let files: Vec<File> = golden::committed();
    let cases = files.iter().flat_map(|file| file.cases.iter().map(|case| (case, &file.dictionary)));
    cases.map(|(case, dictionary)| test(case, dictionary)).count()
}

/// Decodes everything there is to decode.
fn decode(kind: Kind, bytes: &[u8], dictionary: &Dictionary) -> Result<(), DecodeError> {
    match kind {
        Kind::Message => walk(bytes, Some(dictionary), |_, _| ()),
        Kind::Container(data_type) => walk_container(data_type, bytes, Some(dictionary), |_, _| ()),
        Kind::Content(_) | Kind::SetValue(_) => golden::describe::case(kind, bytes, dictionary).map(|_| ()),
    }
}

/// What holds for all bytes: decoding ends, and a message that parses encodes to one that parses the same.
fn survives(kind: Kind, bytes: &[u8], dictionary: &Dictionary, case: &str) {
    let decoded = decode(kind, bytes, dictionary);
    if kind != Kind::Message {
        return;
    }
    let parsed = Msg::parse(bytes);
    assert!(peek(bytes).is_ok() || parsed.is_err(), "{case}: parses without a head");
    match parsed {
        Err(error) => assert_eq!(decoded, Err(error), "{case}"),
        Ok(msg) => {
            let again =
                encode_to_vec(|w| msg.encode(w)).unwrap_or_else(|why| panic!("{case}: {why}: {msg:?}"));
            assert_eq!(Msg::parse(&again), Ok(msg), "{case}");
        }
    }
}

/// The positions of a case at which it is changed.
fn positions(bytes: &[u8]) -> std::ops::Range<usize> {
    0..if bytes.len() > LONG_BYTES { 64 } else { bytes.len() }
}

#[test]
fn a_message_cut_anywhere_is_an_error_or_the_same_message_with_less_payload() {
    let mut shorter = 0;
    every_case(|case, dictionary| {
        if case.kind != Kind::Message {
            return;
        }
        let whole = Msg::parse(&case.bytes).expect("golden");
        let header = case.bytes.len() - whole.payload().len();
        for length in 0..case.bytes.len() {
            let cut = &case.bytes[..length];
            survives(case.kind, cut, dictionary, &case.id);
            match Msg::parse(cut) {
                Err(_) => {
                    assert!(length < header, "{}: cut at {length} behind the header of {header}", case.id)
                }
                Ok(msg) => {
                    assert!(length >= header, "{}: cut at {length} in the header of {header}", case.id);
                    assert_eq!(msg.payload(), &case.bytes[header..length], "{}", case.id);
                    assert_eq!(
                        (msg.class(), msg.domain(), msg.key()),
                        (whole.class(), whole.domain(), whole.key())
                    );
                    assert_eq!(peek(cut), peek(&case.bytes), "{}", case.id);
                    shorter += 1;
                }
            }
            assert_eq!(set_stream_id(&mut cut.to_vec(), 1).is_ok(), length >= 8);
        }
    });
    assert!(shorter > 5_000, "{shorter}");
}

#[test]
fn a_container_cut_anywhere_is_an_error_unless_it_has_no_structure() {
    every_case(|case, dictionary| {
        let Kind::Container(data_type) = case.kind else { return };
        let structured = matches!(
            data_type,
            DataType::FIELD_LIST
                | DataType::ELEMENT_LIST
                | DataType::FILTER_LIST
                | DataType::MAP
                | DataType::SERIES
                | DataType::VECTOR
        );
        for length in 1..case.bytes.len() {
            let decoded = decode(case.kind, &case.bytes[..length], dictionary);
            assert_eq!(decoded.is_err(), structured, "{} cut at {length}", case.id);
        }
    });
}

#[test]
fn a_flipped_bit_anywhere_never_panics() {
    let cases = every_case(|case, dictionary| {
        let mut bytes = case.bytes.clone();
        for at in positions(&case.bytes) {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                survives(case.kind, &bytes, dictionary, &case.id);
                bytes[at] ^= 1 << bit;
            }
        }
        assert_eq!(bytes, case.bytes);
    });
    assert_eq!(cases, 921);
}

#[test]
fn a_length_of_nothing_one_or_the_largest_anywhere_never_panics() {
    every_case(|case, dictionary| {
        for at in positions(&case.bytes) {
            for wrong in [
                &[0][..],
                &[1],
                &[0x7F],
                &[0xFD],
                &[0xFF],
                &[0, 0],
                &[0x80, 0],
                &[0xFF; 2],
                &[0xFE, 0xFF, 0xFF],
            ] {
                let mut bytes = case.bytes.clone();
                let end = bytes.len().min(at + wrong.len());
                bytes[at..end].copy_from_slice(&wrong[..end - at]);
                survives(case.kind, &bytes, dictionary, &case.id);
            }
        }
    });
}

/// xorshift64: the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Changes bytes in one of the ways in which they go wrong.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len());
    match random.below(7) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, random.next() as u8),
        2 if !bytes.is_empty() => drop(bytes.remove(at)),
        3 if !bytes.is_empty() => bytes[at] = random.next() as u8,
        4 if !bytes.is_empty() => bytes[at] = bytes[at].wrapping_add(1),
        5 => {
            let from = random.below(other.len());
            let length = random.below((other.len() - from).min(32));
            bytes.splice(at..at, other[from..from + length].iter().copied());
        }
        _ => {
            let length = random.below((bytes.len() - at).min(32));
            let copied = bytes[at..at + length].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, copied);
        }
    }
}

#[test]
fn random_changes_never_panic() {
    let _repeat = testkit::repeat!();
    let files = golden::committed();
    let cases: Vec<_> = files
        .iter()
        .flat_map(|file| file.cases.iter().map(|case| (case, &file.dictionary)))
        .filter(|(case, _)| case.bytes.len() <= LONG_BYTES)
        .collect();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut errors, mut decoded) = (0, 0);
    for round in 0..60_000 {
        let (case, dictionary) = cases[random.below(cases.len())];
        let (other, _) = cases[random.below(cases.len())];
        let mut bytes = case.bytes.clone();
        for _ in 0..=random.below(4) {
            mutate(&mut bytes, &other.bytes, &mut random);
        }
        survives(case.kind, &bytes, dictionary, &case.id);
        match decode(case.kind, &bytes, dictionary) {
            Ok(()) => decoded += 1,
            Err(_) => errors += 1,
        }
        if round % 16 == 0 {
            assert!(!Pretty(&bytes, Some(dictionary)).to_string().is_empty());
        }
    }
    assert!(
        errors > 10_000 && decoded > 10_000,
        "{errors} errors, {decoded} decoded: the changes are one-sided"
    );
}

#[test]
fn random_bytes_as_dictionaries_never_panic() {
    let _repeat = testkit::repeat!();
    let fields = include_bytes!("vectors/fields.dic");
    let enums = include_bytes!("vectors/enums.def");
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let (mut loaded, mut refused) = (0, 0);
    for round in 0..400 {
        let mut file = if round % 2 == 0 { fields.to_vec() } else { enums.to_vec() };
        for _ in 0..=random.below(3) {
            mutate(&mut file, enums, &mut random);
        }
        let mut dictionary = Dictionary::new();
        let result =
            if round % 2 == 0 { dictionary.load_fields(&file) } else { dictionary.load_enums(&file) };
        match result {
            Ok(()) => loaded += 1,
            Err(error) => {
                assert!(error.line > 0 && error.column > 0, "{error}");
                refused += 1;
            }
        }
    }
    assert!(loaded > 50 && refused > 50, "{loaded} loaded, {refused} refused");
}
