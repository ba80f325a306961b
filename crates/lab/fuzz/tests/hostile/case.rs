//! A case is bytes with a name; a layer says what becomes of bytes.

/// Hostile input.
pub(crate) struct Case {
    /// Its name in the table, within its layer.
    pub(crate) name: &'static str,
    /// What it is, for the table.
    pub(crate) comes: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// Where input arrives.
pub(crate) struct Layer {
    /// The heading in the table.
    pub(crate) title: &'static str,
    /// What stands under it.
    pub(crate) about: &'static str,
    /// What becomes of bytes, in words.
    pub(crate) reaction: fn(&[u8]) -> String,
    pub(crate) cases: Vec<Case>,
}

pub(crate) fn case(name: &'static str, comes: &'static str, bytes: impl Into<Vec<u8>>) -> Case {
    Case { name, comes, bytes: bytes.into() }
}

/// Bytes from digits, between which there may be blanks.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits
        .bytes()
        .filter(|byte| *byte != b' ')
        .map(|digit| (digit as char).to_digit(16))
        .map(nibble)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn nibble(digit: Option<u32>) -> u8 {
    digit.expect("a hexadecimal digit") as u8
}

pub(crate) fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A number on the wire.
pub(crate) fn be(value: usize) -> [u8; 2] {
    u16::try_from(value).expect("of 16 bits").to_be_bytes()
}
