use market::image::{Image, PartStart};
use rwf::{Writer, encode_to_vec};

use super::updates::{RULES, TYPES};
use crate::Outcome;
use crate::input::Input;

const PART_BYTES: usize = 200;
/// What an image may take beyond what it was sent: room for values to grow, tables of fields, and some 130
/// bytes for an entry of a vector, which has two.
const MEMORY_FACTOR: usize = 96;

/// Input: for each message a byte (low three bits its type, 0x08 a part of a refresh, 0x10 ripple), then
/// the payload behind its `u16` length. The first is a refresh.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let length = input.len();
    let mut input = Input::new(input);
    let mut image = Image::default();
    let (mut is_first, mut last) = (true, Ok(true));
    while !input.is_empty() {
        let head = input.u8();
        let container_type = TYPES[usize::from(head & 7)];
        let payload = input.chunk();
        last = match is_first || head & 0x08 != 0 {
            true => image.refresh(container_type, payload, is_first, &RULES),
            false => image.update(container_type, payload, head & 0x10 != 0, &RULES),
        };
        is_first = false;
    }
    assert!(image.memory_bytes() <= MEMORY_FACTOR * length + 4096, "{} for {length}", image.memory_bytes());
    assert_reads_again(&image);
    Outcome::of(&last, |is_merged| (image.container_type(), *is_merged, parts(&image).len()))
}

/// A client that gets the parts of an image has that image.
fn assert_reads_again(image: &Image) {
    let parts = parts(image);
    let mut again = Image::default();
    for (index, part) in parts.iter().enumerate() {
        let taken = again.refresh(image.container_type(), part, index == 0, &RULES);
        assert_eq!(taken, Ok(true), "it was just written");
    }
    assert_eq!(self::parts(&again), parts);
}

fn parts(image: &Image) -> Vec<Vec<u8>> {
    let (mut at, mut parts) = (PartStart::First, Vec::new());
    loop {
        let mut next = None;
        let part = encode_to_vec(|w: &mut Writer<'_>| next = image.write_part(&at, PART_BYTES, w));
        parts.push(part.expect("an image can be written"));
        match next {
            Some(more) => at = more,
            None => return parts,
        }
    }
}
