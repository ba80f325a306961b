//! Recorded sessions as files: bytes as they were read, and what they mean, told by another implementation.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::Value;

pub(crate) fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

/// Which way bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// Bytes read at once, or the end of a direction.
pub(crate) struct Segment {
    pub(crate) direction: Direction,
    pub(crate) at_ms: u64,
    pub(crate) bytes: Option<Vec<u8>>,
}

/// One TCP connection of a session.
pub(crate) struct Connection {
    pub(crate) segments: Vec<Segment>,
    frames: Vec<Value>,
}

/// What one direction of a connection says, from the recorded list of frames.
#[derive(Default, Debug)]
pub(crate) struct Content {
    pub(crate) handshake_bytes: usize,
    /// Frames after the handshake.
    pub(crate) frames: Vec<Meaning>,
}

/// One frame.
#[derive(Debug)]
pub(crate) struct Meaning {
    pub(crate) bytes: Vec<u8>,
    pub(crate) kind: String,
    /// Messages that are complete with this frame; of a compressed one only those that the list gives.
    pub(crate) messages: Vec<Vec<u8>>,
    /// Lengths of all messages that are complete with this frame.
    pub(crate) lengths: Vec<usize>,
    /// Length of the payload in clear, if it is compressed and whole with this frame.
    pub(crate) expanded_bytes: Option<u64>,
}

impl Content {
    pub(crate) fn messages(&self) -> Vec<Vec<u8>> {
        self.frames.iter().flat_map(|f| f.messages.clone()).collect()
    }

    pub(crate) fn count(&self, kind: &str) -> u64 {
        self.frames.iter().filter(|f| f.kind.starts_with(kind)).count() as u64
    }
}

pub(crate) fn load(name: &str) -> Vec<Connection> {
    let path = directory().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).expect("the vectors are part of the repository");
    let file: Value = serde_json::from_str(&text).expect("a vector is JSON");
    list(&file, "connections").iter().map(Connection::from_json).collect()
}

impl Connection {
    fn from_json(json: &Value) -> Connection {
        let segments = list(json, "segments").iter().map(|s| Segment {
            direction: direction(s),
            at_ms: number(s, "t_ms"),
            bytes: s.get("hex").map(unhex),
        });
        Connection { segments: segments.collect(), frames: list(json, "frames").clone() }
    }

    /// All bytes of one direction.
    pub(crate) fn stream(&self, wanted: Direction) -> Vec<u8> {
        let of_direction = self.segments.iter().filter(|s| s.direction == wanted);
        of_direction.filter_map(|s| s.bytes.as_deref()).flatten().copied().collect()
    }

    /// The connection version of the recorded request.
    pub(crate) fn version_number(&self) -> u32 {
        number(&self.frames[0], "connection_version") as u32
    }

    /// The bytes of the handshake message of this kind, if the connection has one.
    pub(crate) fn handshake_message(&self, kind: &str) -> Option<Vec<u8>> {
        let frame = self.frames.iter().find(|f| f["kind"] == kind)?;
        let (at, length) = (number(frame, "offset") as usize, number(frame, "length") as usize);
        Some(self.stream(direction(frame))[at..at + length].to_vec())
    }

    /// The list of frames of one direction with the bytes they stand for.
    pub(crate) fn content(&self, wanted: Direction) -> Content {
        let stream = self.stream(wanted);
        let mut content = Content::default();
        let mut fragmented: HashMap<u64, Vec<u8>> = HashMap::new();
        for frame in self.frames.iter().filter(|f| direction(f) == wanted && f["kind"] != "tcp_fin") {
            let (at, length) = (number(frame, "offset") as usize, number(frame, "length") as usize);
            let bytes = stream[at..at + length].to_vec();
            let kind = frame["kind"].as_str().expect("a frame has a kind").to_owned();
            if kind.starts_with("connect_") || kind == "client_key" {
                content.handshake_bytes = at + length;
                continue;
            }
            let listed = frame.get("messages").and_then(Value::as_array).cloned().unwrap_or_default();
            let lengths = listed.iter().map(|m| number(m, "length") as usize).collect();
            let is_compressed = frame.get("compressed").is_some();
            let messages = match is_compressed
                || kind == "compressed_part1"
                || follows_a_compressed_one(&fragmented, frame)
            {
                true => listed.iter().filter_map(|m| m.get("hex").map(unhex)).collect(),
                false => messages_of(frame, &kind, &bytes, &mut fragmented),
            };
            let expanded_bytes = is_compressed.then(|| number(frame, "uncompressed_length"));
            content.frames.push(Meaning { bytes, kind, messages, lengths, expanded_bytes });
        }
        content
    }
}

/// Whether a fragment in clear belongs to a message whose first fragment was compressed.
fn follows_a_compressed_one(open: &HashMap<u64, Vec<u8>>, frame: &Value) -> bool {
    frame["kind"] == "fragment_next" && !open.contains_key(&number(frame, "fragment_id"))
}

/// Takes a frame apart by what the list says of it and checks the lengths and bytes given there.
fn messages_of(frame: &Value, kind: &str, bytes: &[u8], open: &mut HashMap<u64, Vec<u8>>) -> Vec<Vec<u8>> {
    let listed = frame.get("messages").and_then(Value::as_array).cloned().unwrap_or_default();
    let messages = match kind {
        "ping" => Vec::new(),
        "data" => vec![bytes[3..].to_vec()],
        "packed" => {
            let mut at = 3;
            let cut = listed.iter().map(|m| {
                let start = at + 2;
                at = start + number(m, "length") as usize;
                bytes[start..at].to_vec()
            });
            cut.collect()
        }
        "fragment_first" => {
            open.insert(number(frame, "fragment_id"), bytes[10..].to_vec());
            Vec::new()
        }
        "fragment_next" => {
            let id = number(frame, "fragment_id");
            open.get_mut(&id).expect("a first fragment came before").extend_from_slice(&bytes[6..]);
            if frame.get("message_complete").is_some() {
                vec![open.remove(&id).expect("it was there a line ago")]
            } else {
                Vec::new()
            }
        }
        other => panic!("unknown kind of frame {other}"),
    };
    assert_eq!(messages.len(), listed.len());
    for (message, listed) in messages.iter().zip(&listed) {
        assert_eq!(message.len() as u64, number(listed, "length"));
        assert!(listed.get("hex").is_none_or(|hex| unhex(hex) == *message));
    }
    messages
}

fn direction(json: &Value) -> Direction {
    match json["dir"].as_str() {
        Some("c2s") => Direction::ToServer,
        Some("s2c") => Direction::ToClient,
        other => panic!("unknown direction {other:?}"),
    }
}

fn list<'a>(json: &'a Value, name: &str) -> &'a Vec<Value> {
    json[name].as_array().expect("the list is there")
}

fn number(json: &Value, name: &str) -> u64 {
    json[name].as_u64().expect("the number is there")
}

fn unhex(json: &Value) -> Vec<u8> {
    let hex = json.as_str().expect("bytes are a text of hexadecimal digits").as_bytes();
    hex.chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16).expect("digits"))
        .collect()
}
