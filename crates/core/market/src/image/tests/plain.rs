//! Field images against one that is a list of ids and contents, and nothing else.

use rwf::{
    DecodeError, FieldList, FieldListHead, FieldSetDef, FieldSetDefs, FieldSetEntry, Map, MapAction, MapHead,
    SetDefinitions, SetHead, encode_to_vec, rmtes,
};
use units::Rng;

use super::super::fields::{FieldImage, SetValueRoom, set_value};
use super::super::rules::FieldRules;
use super::*;

/// What [`FieldImage`] was before it had a shape.
#[derive(Clone, Default)]
struct Plain(Vec<(i16, Vec<u8>)>);

const RIPPLE_MAX: usize = 16;

impl Plain {
    fn merge(
        &mut self,
        list: &FieldList<'_>,
        defs: Option<&FieldSetDefs<'_>>,
        ripple: bool,
        rules: &FieldRules,
    ) -> Result<(), DecodeError> {
        let mut room = SetValueRoom::default();
        for entry in list.all_entries(defs) {
            let entry = entry?;
            self.merge_one(entry.id, set_value(&entry, &mut room)?, ripple, rules)?;
        }
        Ok(())
    }

    fn position(&self, id: i16) -> Option<usize> {
        self.0.iter().position(|(known, _)| *known == id)
    }

    fn merge_one(
        &mut self,
        id: i16,
        content: &[u8],
        ripple: bool,
        rules: &FieldRules,
    ) -> Result<(), DecodeError> {
        let found = self.position(id);
        if ripple && let Some(place) = found {
            let mut chain = vec![place];
            while chain.len() < RIPPLE_MAX
                && let Some(to) = rules.fields().ripples_to(self.0[chain[chain.len() - 1]].0)
                && let Some(place) = self.position(to)
            {
                chain.push(place);
            }
            for pair in chain.windows(2).rev() {
                self.0[pair[1]].1 = self.0[pair[0]].1.clone();
            }
        }
        let mut value = found.map_or(Vec::new(), |place| self.0[place].1.clone());
        if rmtes::is_partial_update(content) && rules.fields().is_rmtes(id) {
            rmtes::apply(&mut value, content, rmtes::VALUE_BYTES_MAX)?;
        } else {
            value = content.to_vec();
        }
        match found {
            Some(place) => self.0[place].1 = value,
            None => self.0.push((id, value)),
        }
        Ok(())
    }
}

fn rules(rng: &mut Rng) -> FieldRules {
    let mut rules = FieldRules::default();
    let id = |rng: &mut Rng| rng.below(40) as i16;
    for _ in 0..rng.below(12) {
        let from = id(rng);
        // Mostly chains, sometimes rings.
        rules.set_ripple(from, if rng.chance(0.8) { from + 1 } else { id(rng) });
        rules.set_rmtes(id(rng));
    }
    rules
}

fn content(rng: &mut Rng) -> Vec<u8> {
    let length = match rng.below(20) {
        0 => rng.below(300),
        1 => rng.below(3_000),
        2..6 => rng.below(20),
        _ => rng.below(7),
    };
    let mut content: Vec<u8> = (0..length).map(|_| rng.below(256) as u8).collect();
    if rng.chance(0.1) {
        let column = [&b"\x1b["[..], rng.below(30).to_string().as_bytes(), b"`"].concat();
        content = [&column[..], b"text"].concat();
    }
    content
}

const SET: [FieldSetEntry; 3] = [
    FieldSetEntry { id: 3, data_type: DataType::UINT_4 },
    FieldSetEntry { id: 50, data_type: DataType::REAL_4RB },
    FieldSetEntry { id: 4, data_type: DataType::UINT_1 },
];

/// A field list of ids below `ids`, perhaps with set data, perhaps cut, perhaps with a length in its long form.
fn list(rng: &mut Rng, ids: u64, has_set: bool) -> Vec<u8> {
    let set = has_set.then_some(SetHead { explicit_id: None, entries: &SET[..] });
    let fields: Vec<(i16, Vec<u8>)> =
        (0..rng.below(12)).map(|_| (rng.below(ids) as i16, content(rng))).collect();
    let number = rng.below(256);
    let mut bytes = encode_to_vec(|w| {
        w.field_list_with(&FieldListHead { info: None, set }, |f| {
            if has_set {
                f.put_set(number);
                f.put_set(rwf::Real::decimal(number as i64 * 1_000, 2));
                f.put_set(number);
            }
            fields.iter().for_each(|(id, content)| f.encoded(*id, content));
        });
    })
    .expect("legal");
    if !has_set && let Some(length) = bytes.get(5).copied().filter(|length| *length < 0xFE && rng.chance(0.2))
    {
        bytes.splice(5..6, [0xFE, 0, length]);
    }
    if rng.chance(0.05) {
        bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
    }
    bytes
}

/// The definitions of [`SET`], as a container around the list has them.
fn definitions() -> Vec<u8> {
    let defs = [FieldSetDef { id: 0, entries: &SET }];
    let head = MapHead {
        set_definitions: Some(SetDefinitions::Fields(&defs)),
        ..MapHead::new(DataType::BUFFER, DataType::FIELD_LIST)
    };
    let bytes = encode_to_vec(|w| w.map(&head, |m| m.entry(MapAction::Add, rwf::Buffer(b"k"), None, |_| ())));
    let bytes = bytes.expect("legal");
    Map::parse(&bytes).expect("legal").set_definitions.expect("they are there").to_vec()
}

fn assert_same(image: &FieldImage, plain: &Plain, place: &str) {
    let fields: Vec<(i16, Vec<u8>)> = image.entries().map(|(id, content)| (id, content.to_vec())).collect();
    assert_eq!(fields, plain.0, "{place}");
    for (id, content) in &plain.0 {
        assert_eq!(image.field(*id), Some(&**content), "{place}");
    }
    let written = encode_to_vec(|w| image.write(w)).expect("legal");
    let plainly = encode_to_vec(|w| w.field_list(|f| plain.0.iter().for_each(|(id, c)| f.encoded(*id, c))));
    assert_eq!(Ok(&written), plainly.as_ref(), "{place}");
    assert!(written.len() <= image.wire_bytes() && image.wire_bytes() <= image.bound_bytes(), "{place}");
}

#[test]
fn images_are_what_a_list_of_ids_and_contents_is_whatever_comes() {
    let definitions = definitions();
    let defs = FieldSetDefs::parse(&definitions).expect("legal");
    let (mut shared, mut faults) = (0, 0);
    testkit::for_each_seed!(0..1_000, |seed| {
        let mut rng = Rng::new(seed);
        let mut by = rules(&mut rng);
        let ids = [8, 60, 600][rng.below(3) as usize];
        let mut pairs = vec![(FieldImage::default(), Plain::default()); 1 + rng.below(4) as usize];
        for step in 0..40 {
            let at = rng.below(pairs.len() as u64) as usize;
            let has_set = rng.chance(0.1);
            let (bytes, ripple) = (list(&mut rng, ids, has_set), rng.chance(0.7));
            let Ok(list) = FieldList::parse(&bytes) else { continue };
            let place = format!("seed {seed}, step {step}");
            if rng.chance(0.05) {
                pairs[at] = Default::default();
            }
            if rng.chance(0.05) {
                pairs[at] = pairs[rng.below(pairs.len() as u64) as usize].clone();
            }
            if rng.chance(0.01) {
                by = if rng.chance(0.5) { rules(&mut rng) } else { by.clone() };
            }
            let everybody = rng.chance(0.2);
            for (_, (image, plain)) in pairs.iter_mut().enumerate().filter(|(i, _)| everybody || *i == at) {
                let result = image.merge_with(&list, Some(&defs), ripple, &by);
                assert_eq!(result, plain.merge(&list, Some(&defs), ripple, &by), "{place}");
                faults += usize::from(result.is_err());
            }
            pairs.iter().for_each(|(image, plain)| assert_same(image, plain, &place));
            shared += pairs.windows(2).filter(|pair| pair[0].0.has_shape_of(&pair[1].0)).count();
        }
    });
    if testkit::repeat::is_one_seed() {
        return;
    }
    assert!(shared > 1_000 && faults > 500, "{shared} shapes shared, {faults} faults");
}

/// A list of these fields, all with this content.
fn list_of(ids: impl Iterator<Item = i16> + Clone, content: &[u8]) -> Vec<u8> {
    encode_to_vec(|w| w.field_list(|f| ids.clone().for_each(|id| f.encoded(id, content)))).expect("legal")
}

fn image_of(bytes: &[u8], rules: &FieldRules) -> FieldImage {
    let mut image = FieldImage::default();
    merge(&mut image, bytes, rules);
    image
}

fn merge(image: &mut FieldImage, bytes: &[u8], rules: &FieldRules) {
    image.merge(&FieldList::parse(bytes).expect("legal"), true, rules).expect("legal");
}

#[test]
fn items_of_a_template_share_a_shape_whose_rooms_grow_to_what_their_values_need() {
    let mut rules = FieldRules::default();
    rules.set_ripple(22, 25);
    let first = list_of(0..86, b"ab");
    let mut images: Vec<FieldImage> = (0..50).map(|_| image_of(&first, &rules)).collect();
    assert!(images.windows(2).all(|pair| pair[0].has_shape_of(&pair[1])));
    for image in &mut images {
        for length in 0..15 {
            merge(image, &list_of(20..26, &[b'x'; 15][..length]), &rules);
        }
    }
    assert!(images.windows(2).all(|pair| pair[0].has_shape_of(&pair[1])));
    assert_eq!(rules.shape_count(), 1, "those with less room are gone");
    let one = images[0].memory_bytes();
    assert!(one < 86 * 4 + 6 * 12 + 20, "{one} bytes for {} of content", 2 * 80 + 6 * 14);
}

#[test]
fn shapes_of_images_that_are_gone_go_too() {
    let rules = FieldRules::default();
    for n in 0..2_000 {
        drop(image_of(&list_of(n..n + 50, b"x"), &rules));
    }
    assert!(rules.shape_count() < 200, "{}", rules.shape_count());
}

#[test]
fn a_provider_with_a_new_shape_for_each_item_takes_no_more_than_it_could_without_shapes() {
    let rules = FieldRules::default();
    let ids = |n: i16| (0..100).map(move |at| (n % 300).wrapping_mul(109).wrapping_add(at * (1 + n / 300)));
    let images: Vec<FieldImage> = (0..3_000).map(|n| image_of(&list_of(ids(n), b"price"), &rules)).collect();
    assert!(rules.shape_count() <= (1 << 18) / 100, "{}", rules.shape_count());
    let alone: Vec<usize> =
        images.iter().map(FieldImage::memory_bytes).filter(|bytes| *bytes > 100 * 8 + 12).collect();
    // Ids, places and values took 2, 8 and 8 bytes a field, and as much again while they grew.
    assert!(alone.len() > 300 && alone.iter().all(|bytes| *bytes < 100 * 36), "{alone:?}");
}

#[test]
fn fields_that_come_one_by_one_are_taken_in_a_time_that_does_not_grow_with_their_square() {
    let rules = FieldRules::default();
    let mut image = FieldImage::default();
    for id in 0..i16::MAX {
        merge(&mut image, &list_of(id..id + 1, b"x"), &rules);
    }
    assert_eq!(image.entries().count(), i16::MAX as usize);
    assert!(image.memory_bytes() < 32_767 * 40, "{}", image.memory_bytes());
    let whole = image_of(&list_of(i16::MIN..i16::MAX, b"x"), &rules);
    assert_eq!(whole.entries().count(), usize::from(u16::MAX));
    let one_more = encode_to_vec(|w| w.field_list(|f| f.encoded(i16::MAX, b"x"))).expect("legal");
    let refused = whole.clone().merge(&FieldList::parse(&one_more).expect("legal"), true, &rules);
    let (value, max) = (65_536, 65_535);
    assert_eq!(refused, Err(DecodeError::BadValue { place: rwf::Place::EntryCount, value, max }));
}

#[test]
fn a_merge_in_the_steady_state_leaves_block_and_shape_where_they_are() {
    let mut rules = FieldRules::default();
    (10..14).for_each(|id| rules.set_ripple(id, id + 1));
    let mut image = image_of(&list_of(0..86, b"12345"), &rules);
    merge(&mut image, &list_of(60..62, b"a value that is too long for a slot"), &rules);
    let before = image.addresses();
    for length in 0..40 {
        let value = [b'x'; 40];
        merge(&mut image, &list_of(5..16, &value[..length % 8]), &rules);
        merge(&mut image, &list_of(60..62, &value[..length]), &rules);
    }
    assert_eq!(image.addresses(), before, "nothing was allocated for the image");
}
