//! What the targets of images share: by which rules updates are merged, and what they carry.

use std::sync::LazyLock;

use market::image::FieldRules;
use rwf::DataType;

use super::DICTIONARY;

/// Those of the dictionary, a chain of ripples and a ring.
pub(super) static RULES: LazyLock<FieldRules> = LazyLock::new(|| {
    let mut rules = FieldRules::of(&DICTIONARY);
    for (from, to) in [(22, 25), (25, 30), (30, 31), (-2, -3), (-3, -4), (-4, -2)] {
        rules.set_ripple(from, to);
    }
    rules
});

pub(super) const TYPES: [DataType; 8] = [
    DataType::FIELD_LIST,
    DataType::MAP,
    DataType::ELEMENT_LIST,
    DataType::VECTOR,
    DataType::SERIES,
    DataType::FILTER_LIST,
    DataType::OPAQUE,
    DataType::NO_DATA,
];
