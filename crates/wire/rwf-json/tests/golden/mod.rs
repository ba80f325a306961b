//! Golden vectors: where they are, what they hold, and how their JSON and RWF is compared.

pub(crate) mod any;
pub(crate) mod content;
pub(crate) mod value;

use std::path::{Path, PathBuf};

use rwf::Dictionary;
use serde_json::Value as Json;
use tickcast_rwf_json::{Options, Services};

/// One vector.
pub(crate) struct Case {
    /// Folder and name, as failures name it.
    pub(crate) id: String,
    /// The whole vector.
    pub(crate) json: Json,
}

/// The vectors of a directory with the dictionary that they use.
pub(crate) struct Vectors {
    pub(crate) dictionary: Dictionary,
    pub(crate) cases: Vec<Case>,
}

impl Case {
    pub(crate) fn text(&self) -> &str {
        self.json["json_text"].as_str().unwrap_or_default()
    }

    /// Whether the reference does here what it should not.
    pub(crate) fn is_quirk(&self) -> bool {
        self.json["reference_quirk"] == true
    }

    pub(crate) fn rwf(&self) -> Vec<u8> {
        hex(self.json["rwf_hex"].as_str().unwrap_or_default())
    }

    pub(crate) fn options(&self) -> Options {
        let given = &self.json["options"];
        let option = |name: &str, default| given[name].as_bool().unwrap_or(default);
        let defaults = Options::default();
        Options {
            expand_enum_fields: option("expand_enum_fields", false),
            catch_unknown_keys: option("catch_unknown_keys", defaults.catch_unknown_keys),
            catch_unknown_fields: option("catch_unknown_fields", defaults.catch_unknown_fields),
            allow_enum_display_strings: option("allow_enum_display_strings", true),
            default_service_id: given["default_service_id"].as_u64().map(|id| id as u16),
            ..defaults
        }
    }
}

/// The services that all vectors use.
pub(crate) struct VectorServices;

impl Services for VectorServices {
    fn name(&self, service_id: u16) -> Option<&str> {
        match service_id {
            257 => Some("ELEKTRON_DD"),
            8090 => Some("DIRECT_FEED"),
            _ => None,
        }
    }

    fn id(&self, name: &str) -> Option<u16> {
        [257, 8090].into_iter().find(|id| self.name(*id) == Some(name))
    }
}

/// The committed vectors of a direction.
pub(crate) fn committed(direction: &str) -> Vectors {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let stem = if direction == "json_error" { "errors" } else { direction };
    let mut cases = Vec::new();
    load(&directory.join(format!("{stem}.json")), &mut cases);
    Vectors { dictionary: shared_dictionary(), cases }
}

/// All vectors of a direction in the directories that `TICKCAST_VECTORS` names, from the workspace's root.
pub(crate) fn further(direction: &str) -> Vec<Vectors> {
    let Some(directories) = std::env::var_os("TICKCAST_VECTORS") else { return Vec::new() };
    let directories: Vec<PathBuf> =
        std::env::split_paths(&directories).filter(|d| !d.as_os_str().is_empty()).collect();
    assert!(!directories.is_empty(), "TICKCAST_VECTORS names no directory");
    let mut found = Vec::new();
    for directory in directories {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(directory);
        let before = found.len();
        walk(&directory, None, &mut found);
        let cases: usize = found[before..].iter().map(|vectors: &Vectors| vectors.cases.len()).sum();
        assert!(cases > 0, "{}: no vector in it", directory.display());
    }
    for vectors in &mut found {
        vectors.cases.retain(|case| case.json["direction"] == direction);
    }
    found
}

/// Finds the vectors below a directory. A `dictionary` is used for all beside and below it.
fn walk(directory: &Path, dictionary: Option<&Path>, found: &mut Vec<Vectors>) {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|why| panic!("{}: {why}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    let own = directory.join("dictionary");
    let dictionary = if own.is_dir() { Some(own.as_path()) } else { dictionary };
    let mut cases = Vec::new();
    for path in paths {
        if path.is_dir() {
            walk(&path, dictionary, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            load(&path, &mut cases);
        }
    }
    if !cases.is_empty() {
        let dictionary = dictionary.map_or_else(shared_dictionary, self::dictionary);
        found.push(Vectors { dictionary, cases });
    }
}

/// A file holds one vector, or an array of them. What has no direction is none.
fn load(path: &Path, cases: &mut Vec<Case>) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let json: Json = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let vectors = if json.is_array() { json.as_array().cloned().unwrap_or_default() } else { vec![json] };
    for json in vectors {
        let Some(direction) = json["direction"].as_str() else { continue };
        let name = json["name"].as_str().unwrap_or_else(|| panic!("{}: no name", path.display()));
        cases.push(Case { id: format!("{direction}: {name}"), json });
    }
}

/// The dictionary that vectors without one of their own use.
pub(crate) fn shared_dictionary() -> Dictionary {
    dictionary(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wire/rwf/tests/vectors"))
}

fn dictionary(directory: &Path) -> Dictionary {
    let read = |name: &str| {
        let path = directory.join(name);
        std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
    };
    let mut dictionary = Dictionary::new();
    dictionary.load_fields(&read("RDMFieldDictionary")).expect("a field dictionary");
    dictionary.load_enums(&read("enumtype.def")).expect("enumerations");
    dictionary
}

/// A text of a recorded session.
pub(crate) struct Frame {
    pub(crate) session: String,
    pub(crate) from_client: bool,
    pub(crate) text: String,
}

/// The texts of the recorded sessions.
pub(crate) fn sessions() -> Vec<Frame> {
    let text = include_str!("../vectors/websocket.json");
    let frames: Vec<Json> = serde_json::from_str(text).expect("committed");
    let text = |json: &Json| json.as_str().expect("committed").to_owned();
    let frame = |json: &Json| Frame {
        session: text(&json["session"]),
        from_client: json["from"] == "client",
        text: text(&json["text"]),
    };
    frames.iter().map(frame).collect()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let nibble = |at: usize| char::from(text.as_bytes()[at]).to_digit(16).expect("a hexadecimal digit") as u8;
    (0..text.len() / 2).map(|at| nibble(2 * at) << 4 | nibble(2 * at + 1)).collect()
}
