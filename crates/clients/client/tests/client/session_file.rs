//! Recorded sessions, as `crates/wire/rssl/tests/vectors/README.md` describes them.

use std::path::PathBuf;

use serde_json::Value;

/// Which way bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// Bytes read at once; `None` is the end of the direction.
pub(crate) struct Segment {
    pub(crate) direction: Direction,
    pub(crate) bytes: Option<Vec<u8>>,
}

/// The segments of the first connection of a session.
pub(crate) fn load(name: &str) -> Vec<Segment> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../wire/rssl/tests/vectors");
    let path = directory.join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).expect("the vectors are part of the repository");
    let file: Value = serde_json::from_str(&text).expect("a vector is JSON");
    let segments = file["connections"][0]["segments"].as_array().expect("a connection has segments");
    segments.iter().map(segment).collect()
}

fn segment(json: &Value) -> Segment {
    let direction = match json["dir"].as_str() {
        Some("c2s") => Direction::ToServer,
        Some("s2c") => Direction::ToClient,
        other => panic!("unknown direction {other:?}"),
    };
    Segment { direction, bytes: json["hex"].as_str().map(unhex) }
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16).expect("digits");
    hex.as_bytes().chunks(2).map(digits).collect()
}
