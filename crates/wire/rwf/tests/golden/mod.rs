//! Golden vectors: where they are, what they hold, and what decoded bytes look like in their terms.

pub(crate) mod describe;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tickcast_rwf::DataType;
use tickcast_rwf::dictionary::{Dictionary, Field, FieldType};

/// One case of a vector file.
pub(crate) struct Case {
    /// File and case, as errors name them.
    pub(crate) id: String,
    /// The name in the file.
    pub(crate) name: String,
    /// What the file says about it.
    pub(crate) description: String,
    /// What the bytes are.
    pub(crate) kind: Kind,
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// What they mean.
    pub(crate) decoded: Json,
}

/// What the bytes of a case are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The content of a value.
    Content(DataType),
    /// A value in set data; its type in the set definition.
    SetValue(DataType),
    /// A whole container.
    Container(DataType),
    /// A whole message.
    Message,
}

/// One vector file.
pub(crate) struct File {
    /// The types of the field ids in it.
    pub(crate) dictionary: Dictionary,
    /// All cases.
    pub(crate) cases: Vec<Case>,
}

/// The committed files.
pub(crate) fn committed() -> Vec<File> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    ["primitives", "set_primitives", "containers", "messages", "sdk_messages"]
        .iter()
        .map(|stem| load(&directory.join(format!("{stem}.json"))))
        .collect()
}

/// All files of a directory, named from the root of the workspace. Panics if it cannot be read or has no
/// case.
pub(crate) fn directory(path: &Path) -> Vec<File> {
    let path = &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path);
    let entries = std::fs::read_dir(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap_or_else(|why| panic!("{}: {why}", path.display())).path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let files: Vec<File> = paths.iter().map(|path| load(path)).collect();
    let cases: usize = files.iter().map(|file| file.cases.len()).sum();
    assert!(cases > 0, "{}: no case in it", path.display());
    files
}

fn load(path: &Path) -> File {
    let place = path.display();
    let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{place}: {why}"));
    let file: Json = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{place}: {why}"));
    let stem = path.file_stem().expect("it was read").to_string_lossy().into_owned();
    let cases = file["cases"].as_array().unwrap_or_else(|| panic!("{place}: no cases"));
    assert!(!cases.is_empty(), "{place}: no cases");
    File {
        dictionary: dictionary(&file["field_types"], &stem),
        cases: cases.iter().map(|case| self::case(&stem, case)).collect(),
    }
}

fn case(stem: &str, case: &Json) -> Case {
    let name = text(&case["name"]).to_owned();
    let id = format!("{stem}: {name}");
    let named = case["type"]
        .as_str()
        .map(|name| DataType::from_name(name).unwrap_or_else(|| panic!("{id}: no type {name}")));
    let kind = match (named, case["type_num"].as_u64()) {
        (_, Some(number)) => Kind::SetValue(DataType(number.try_into().expect("type numbers are bytes"))),
        (Some(DataType::MSG), _) => Kind::Message,
        (Some(named), _) if named.is_container() => Kind::Container(named),
        (Some(named), _) => Kind::Content(named),
        (None, _) => Kind::Message,
    };
    Case {
        description: case["description"].as_str().unwrap_or_default().to_owned(),
        bytes: hex(text(&case["hex"])),
        decoded: case["decoded"].clone(),
        kind,
        name,
        id,
    }
}

/// A dictionary that knows the types of a file's fields.
fn dictionary(field_types: &Json, stem: &str) -> Dictionary {
    let mut dictionary = Dictionary::new();
    let types: BTreeMap<String, Json> = match field_types.as_object() {
        Some(types) => types.clone().into_iter().collect(),
        None => BTreeMap::new(),
    };
    for (id, data_type) in types {
        let data_type =
            DataType::from_name(text(&data_type)).unwrap_or_else(|| panic!("{stem}: {data_type}"));
        let field = Field {
            id: id.parse().unwrap_or_else(|_| panic!("{stem}: field id {id}")),
            name: format!("F{id}").into(),
            dde_acronym: Box::default(),
            ripples_to: None,
            field_type: FieldType::NONE,
            length: 0,
            enum_length: 0,
            data_type,
            rwf_length: 0,
        };
        dictionary.add_field(field).unwrap_or_else(|why| panic!("{stem}: {why}"));
    }
    dictionary
}

/// The text of a member that must be one.
pub(crate) fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_else(|| panic!("not a text: {json}"))
}

/// The bytes of a hexadecimal text.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "odd number of digits: {text}");
    let nibble =
        |digit: u8| char::from(digit).to_digit(16).unwrap_or_else(|| panic!("not hexadecimal: {text}"));
    text.as_bytes().chunks(2).map(|pair| (nibble(pair[0]) << 4 | nibble(pair[1])) as u8).collect()
}

/// The hexadecimal text of bytes.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}
