use market::image::{Image, PartStart};
use market::{CachedItem, Conflated, ItemKey, Scratch};
use rwf::{Domain, Msg, RefreshMsg, UpdateMsg, encode_to_vec};

use super::updates::{RULES, TYPES};
use crate::Outcome;
use crate::input::Input;

const READERS_MAX: usize = 4;

/// Input: for each message a byte (low three bits its type, 0x08 a refresh, 0x10 no ripples, 0x20 a reader has
/// everything before it, 0x40 changes are noted from it on, 0x80 they are noted no more), then the payload behind its
/// `u16` length. The first is a refresh.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let (mut item, mut readers) = (CachedItem::new(true), Vec::<CachedItem>::new());
    let (mut is_first, mut last) = (true, Ok(()));
    let mut sent = [0_u16; 3];
    while !input.is_empty() {
        let head = input.u8();
        let (container_type, payload) = (TYPES[usize::from(head & 7)], input.chunk());
        if head & 0x20 != 0 && !is_first {
            readers.truncate(READERS_MAX - 1);
            readers.insert(0, item.clone());
        }
        if head & 0x80 != 0 {
            item.forget_changes();
        }
        if is_first || head & 0x08 != 0 {
            let msg = RefreshMsg {
                complete: true,
                payload,
                ..RefreshMsg::new(Domain::MARKET_PRICE, 0, container_type)
            };
            last = item.on_refresh(&msg, &RULES).map(drop);
        } else {
            let do_not_ripple = head & 0x10 != 0;
            let msg = UpdateMsg {
                do_not_ripple,
                payload,
                ..UpdateMsg::new(Domain::MARKET_PRICE, 0, container_type)
            };
            last = item.on_update(&msg, &RULES);
            if head & 0x40 != 0 && last.is_ok() {
                item.track_changes(Some(&msg));
            }
        }
        is_first = false;
        readers.iter().for_each(|reader| sent[assert_comes_to(reader, &item)] += 1);
    }
    Outcome::of(&last, |()| (item.image().container_type(), sent.map(|count| count > 0)))
}

/// A reader that had the item as it was is brought to the item as it is, unless it needs an image.
fn assert_comes_to(reader: &CachedItem, item: &CachedItem) -> usize {
    let mut scratch = Scratch::default();
    let key = ItemKey::named(1, Domain::MARKET_PRICE, b"A");
    match item.encode_changes(key, reader.version(), Some(1), &mut scratch) {
        Conflated::NeedsImage => 0,
        Conflated::Nothing => {
            // A list without fields may have come where nothing was.
            let had_any = !matches!(reader.image(), Image::Empty);
            assert!(!had_any || content(reader.image()) == content(item.image()));
            1
        }
        Conflated::Update(bytes) => {
            let mut reader = reader.clone();
            reader.forget_changes();
            let Ok(Msg::Update(msg)) = Msg::parse(bytes) else { panic!("it was just written") };
            reader.on_update(&msg, &RULES).expect("it was just written");
            assert!(reader.is_current());
            assert_eq!(payload(reader.image()), payload(item.image()));
            2
        }
    }
}

fn payload(image: &Image) -> Vec<u8> {
    let written = encode_to_vec(|w| drop(image.write_part(&PartStart::First, usize::MAX, w)));
    written.expect("an image can be written")
}

/// Without what a head says of entries that are not there.
fn content(image: &Image) -> Vec<(Vec<u8>, Vec<u8>)> {
    match image {
        Image::Map(map) => map.entries().map(|(key, entry)| (key.to_vec(), payload(entry))).collect(),
        _ => vec![(Vec::new(), payload(image))],
    }
}
