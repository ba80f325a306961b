//! What cannot be merged, and what has no room.

use rwf::{
    AsciiString, Buffer, ElementListHead, ElementSetDef, ElementSetEntry, FilterAction, MapAction, MapHead,
    SeriesHead, SetDefinitions, SetHead, VectorAction, VectorHead,
};

use super::super::series::{SERIES_BYTES_MAX, SERIES_ENTRIES_MAX, SERIES_GROWN_BYTES_MAX};
use super::super::vector::VECTOR_ENTRIES_MAX;
use super::*;

fn encoded(write: impl Fn(&mut Writer<'_>)) -> Vec<u8> {
    encode_to_vec(|w| write(w)).expect("legal")
}

fn refreshed(container_type: DataType, bytes: &[u8]) -> Image {
    let mut image = Image::default();
    assert_eq!(image.refresh(container_type, bytes, true, &FieldRules::default()), Ok(true));
    image
}

fn update(image: &mut Image, container_type: DataType, bytes: &[u8]) -> Result<bool, DecodeError> {
    image.update(container_type, bytes, true, &FieldRules::default())
}

/// A vector with one entry that does this.
fn vector(holds: DataType, sorts: bool, action: VectorAction, index: u32, data: &[u8]) -> Vec<u8> {
    let head = VectorHead { supports_sorting: sorts, ..VectorHead::new(holds) };
    encoded(|w| w.vector(&head, |v| v.entry(action, index, Some(b"lock"), |w| w.bytes(data))))
}

#[test]
fn other_types_and_opaque_updates_change_nothing_and_are_told() {
    let of = |holds, data: &[u8]| vector(holds, false, VectorAction::Set, 0, data);
    let mut image = refreshed(DataType::VECTOR, &of(DataType::OPAQUE, b"one"));
    let before = written(&image);
    assert_eq!(update(&mut image, DataType::XML, b"<a/>"), Ok(false));
    assert_eq!(update(&mut image, DataType::VECTOR, &of(DataType::XML, b"<a/>")), Ok(false));
    let merges = vector(DataType::OPAQUE, false, VectorAction::Update, 0, b"two");
    assert_eq!(update(&mut image, DataType::VECTOR, &merges), Ok(false), "opaque data has no parts");
    assert_eq!(written(&image), before);
    assert_eq!(
        update(&mut image, DataType::VECTOR, &of(DataType::OPAQUE, b"two")),
        Ok(true),
        "it is replaced"
    );
    assert_eq!(written(&image), of(DataType::OPAQUE, b"two"), "with its permission data");
}

#[test]
fn a_filter_changes_its_type_only_when_it_is_set() {
    let filters = |action, own| {
        encoded(|w| {
            w.filter_list(DataType::FIELD_LIST, None, |f| {
                f.entry_with(action, 1, own, Some(b"lock"), |w| w.bytes(b"\0"));
            });
        })
    };
    let lists = filters(FilterAction::Set, None);
    let mut image = refreshed(DataType::FILTER_LIST, &lists);
    let elements = Some(DataType::ELEMENT_LIST);
    assert_eq!(
        update(&mut image, DataType::FILTER_LIST, &filters(FilterAction::Update, elements)),
        Ok(false)
    );
    assert_eq!(update(&mut image, DataType::FILTER_LIST, &filters(FilterAction::Set, elements)), Ok(true));
    let Image::Filters(kept) = &image else { panic!("{image:?}") };
    let types: Vec<_> = kept.entries().map(|(id, content)| (id, content.container_type())).collect();
    assert_eq!(types, [(1, DataType::ELEMENT_LIST)]);
}

#[test]
fn a_list_of_all_256_filters_goes_out_in_two_parts() {
    let mut image = Image::default();
    for ids in [0..200u8, 200..255] {
        let bytes = encoded(|w| {
            w.filter_list(DataType::NO_DATA, None, |f| {
                ids.clone().for_each(|id| f.entry(FilterAction::Set, id, |_| ()));
            });
        });
        assert_eq!(update(&mut image, DataType::FILTER_LIST, &bytes), Ok(true));
    }
    let last =
        encoded(|w| w.filter_list(DataType::NO_DATA, None, |f| f.entry(FilterAction::Set, 255, |_| ())));
    assert_eq!(update(&mut image, DataType::FILTER_LIST, &last), Ok(true));
    let (again, parts) = read_again(&image, usize::MAX, &FieldRules::default());
    let Image::Filters(kept) = &again else { panic!("{again:?}") };
    assert_eq!((parts, kept.entries().count()), (2, 256));
}

#[test]
fn a_vector_has_an_end_to_its_indexes_and_a_limit_to_its_entries() {
    let insert = |index| vector(DataType::NO_DATA, true, VectorAction::Insert, index, b"");
    let mut image = refreshed(DataType::VECTOR, &insert((1 << 30) - 1));
    let refused = update(&mut image, DataType::VECTOR, &insert(0));
    assert_eq!(
        refused,
        Err(DecodeError::BadValue { place: Place::VectorIndex, value: 1 << 30, max: (1 << 30) - 1 })
    );
    let all = encoded(|w| {
        w.vector(&VectorHead::new(DataType::NO_DATA), |v| {
            (0..VECTOR_ENTRIES_MAX as u32).for_each(|i| v.entry(VectorAction::Set, i, None, |_| ()));
        });
    });
    let mut image = refreshed(DataType::VECTOR, &all);
    assert_eq!(update(&mut image, DataType::VECTOR, &all), Ok(true), "they are there");
    let more = vector(DataType::NO_DATA, false, VectorAction::Set, VECTOR_ENTRIES_MAX as u32, b"");
    assert_eq!(update(&mut image, DataType::VECTOR, &more), Ok(false));
    assert_eq!(update(&mut image, DataType::VECTOR, &insert(0)), Ok(false));
    let Image::Vector(kept) = &image else { panic!("{image:?}") };
    assert_eq!((kept.len(), kept.is_empty()), (VECTOR_ENTRIES_MAX, false));
}

#[test]
fn a_series_that_goes_on_and_on_ends_at_its_limits() {
    let row = [7; 60_000];
    let rows = encoded(|w| {
        w.series(&SeriesHead::new(DataType::OPAQUE), |s| (0..10).for_each(|_| s.entry(|w| w.bytes(&row))));
    });
    let mut image = refreshed(DataType::SERIES, &rows);
    assert_eq!(update(&mut image, DataType::SERIES, &rows), Ok(false), "updates end it early");
    let count = |image: &Image| if let Image::Series(kept) = image { kept.len() } else { 0 };
    let fitting = |bytes_max: usize| bytes_max.div_ceil(row.len() + 4) - 1;
    assert_eq!(count(&image), fitting(SERIES_GROWN_BYTES_MAX));
    let (mut image, rules) = (refreshed(DataType::SERIES, &rows), FieldRules::default());
    while image.refresh(DataType::SERIES, &rows, false, &rules) == Ok(true) {}
    let fitting = fitting(SERIES_BYTES_MAX);
    let Image::Series(kept) = &image else { panic!("{image:?}") };
    assert_eq!((kept.len(), kept.is_empty(), kept.entry(fitting)), (fitting, false, None));
    assert_eq!(kept.entry(fitting - 1), Some(&row[..]));
    let blank = encoded(|w| {
        w.series(&SeriesHead::new(DataType::NO_DATA), |s| (0..u16::MAX).for_each(|_| s.entry(|_| ())));
    });
    let mut image = refreshed(DataType::SERIES, &blank);
    while update(&mut image, DataType::SERIES, &blank) == Ok(true) {}
    let Image::Series(kept) = &image else { panic!("{image:?}") };
    assert_eq!((kept.len(), kept.entry(1)), (SERIES_ENTRIES_MAX, Some(&b""[..])));
    assert!(image.memory_bytes() < 1000, "they take nothing");
}

#[test]
fn an_entry_that_grows_too_large_is_refused_and_the_image_can_still_be_written() {
    let inner = |key: u8| {
        let text = [b'x'; 20_000];
        encoded(|w| {
            w.map(&MapHead::new(DataType::BUFFER, DataType::OPAQUE), |m| {
                m.entry(MapAction::Add, Buffer(&[key]), None, |w| w.bytes(&text));
            });
        })
    };
    let of = |key| vector(DataType::MAP, false, VectorAction::Update, 3, &inner(key));
    let mut image = refreshed(DataType::VECTOR, &of(1));
    assert_eq!(update(&mut image, DataType::VECTOR, &of(2)), Ok(true));
    assert_eq!(update(&mut image, DataType::VECTOR, &of(2)), Ok(true), "the same again takes no more");
    assert_eq!(update(&mut image, DataType::VECTOR, &of(3)), Ok(true));
    let refused = update(&mut image, DataType::VECTOR, &of(4));
    assert!(matches!(refused, Err(DecodeError::BadLength { place: Place::VectorEntry, .. })), "{refused:?}");
    assert!(written(&image).len() < 30, "what it held is gone");
    assert_eq!(update(&mut image, DataType::VECTOR, &of(4)), Ok(true));
}

#[test]
fn containers_are_merged_inside_each_other_down_to_a_depth() {
    let nested = |depth: u8, value: &'static [u8]| {
        let mut bytes = encoded(|w| w.element_list(|e| e.put("N", AsciiString(value))));
        let mut holds = DataType::ELEMENT_LIST;
        for _ in 0..depth {
            bytes = vector(holds, false, VectorAction::Update, 0, &bytes);
            holds = DataType::VECTOR;
        }
        bytes
    };
    for (depth, is_merged) in [(1, true), (MERGE_DEPTH_MAX, true), (MERGE_DEPTH_MAX + 1, false)] {
        let mut image = refreshed(DataType::VECTOR, &nested(depth, b"one"));
        assert_eq!(written(&image).len(), nested(depth, b"one").len(), "all of it is kept");
        assert_eq!(update(&mut image, DataType::VECTOR, &nested(depth, b"two")), Ok(is_merged), "{depth}");
    }
}

#[test]
fn elements_of_set_data_are_kept_as_ordinary_ones() {
    let entries = [
        ElementSetEntry { name: b"A", data_type: DataType::UINT_1 },
        ElementSetEntry { name: b"B", data_type: DataType::ASCII_STRING },
    ];
    let defs = [ElementSetDef { id: 3, entries: &entries }];
    let set_definitions = Some(SetDefinitions::Elements(&defs));
    let set = Some(SetHead { explicit_id: Some(3), entries: &entries[..] });
    let bytes = encoded(|w| {
        w.series(&SeriesHead { set_definitions, ..SeriesHead::new(DataType::ELEMENT_LIST) }, |s| {
            s.entry(|w| {
                w.element_list_with(&ElementListHead { list_number: None, set }, |e| {
                    e.put_set(5u64);
                    e.put_set(AsciiString(b"x"));
                    e.put("C", 6u64);
                });
            });
        });
    });
    let plain = encoded(|w| {
        w.series(&SeriesHead::new(DataType::ELEMENT_LIST), |s| {
            s.entry(|w| {
                w.element_list(|e| {
                    e.put("A", 5u64);
                    e.put("B", AsciiString(b"x"));
                    e.put("C", 6u64);
                });
            });
        });
    });
    assert_eq!(written(&refreshed(DataType::SERIES, &bytes)), plain);
}

#[test]
fn an_entry_without_content_stays_one_that_can_be_read() {
    for holds in [DataType::FIELD_LIST, DataType::ELEMENT_LIST, DataType::MAP, DataType::SERIES] {
        let image = refreshed(DataType::VECTOR, &vector(holds, true, VectorAction::Set, 1, b""));
        let (again, _) = read_again(&image, 100, &FieldRules::default());
        assert_eq!(written(&again), written(&image));
    }
}
