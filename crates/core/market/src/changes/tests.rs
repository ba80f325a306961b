use std::collections::BTreeMap;

use rwf::{
    Buffer, DataType, Domain, Encoded, FieldList, Map, MapAction, MapHead, Msg, RefreshMsg, UpdateMsg,
    UpdateType, encode_to_vec, rmtes,
};
use units::Rng;

use super::*;
use crate::image::FieldRules;
use crate::{CachedItem, Conflated, ItemKey, RefreshForm, Scratch};

/// Chains of ripples among the first fields, and RMTES text.
const RIPPLES: [(i16, i16); 5] = [(0, 1), (1, 2), (3, 4), (5, 6), (6, 5)];
const TEXT: i16 = 7;
const FIELDS: i16 = 12;

/// A consumer as an SDK's is: it keeps fields by id in the order in which they came, and entries by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Consumer {
    fields: Fields,
    summary: Fields,
    entries: BTreeMap<Vec<u8>, Fields>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fields(Vec<(i16, Vec<u8>)>);

impl Fields {
    fn merge(&mut self, payload: &[u8], ripple: bool) {
        for entry in FieldList::parse(payload).expect("legal").entries() {
            let entry = entry.expect("legal");
            let found = self.0.iter().position(|(id, _)| *id == entry.id);
            if ripple && let Some(place) = found {
                self.ripple(entry.id, self.0[place].1.clone(), 0);
            }
            let mut value = found.map_or(Vec::new(), |place| self.0[place].1.clone());
            match entry.id == TEXT && rmtes::is_partial_update(entry.content) {
                true => rmtes::apply(&mut value, entry.content, rmtes::VALUE_BYTES_MAX).expect("legal"),
                false => value = entry.content.to_vec(),
            }
            match found {
                Some(place) => self.0[place].1 = value,
                None => self.0.push((entry.id, value)),
            }
        }
    }

    /// An old value moves on, and those before it.
    fn ripple(&mut self, from: i16, value: Vec<u8>, depth: usize) {
        let Some((_, to)) = RIPPLES.iter().find(|(id, _)| *id == from).filter(|_| depth < 15) else { return };
        let Some(place) = self.0.iter().position(|(id, _)| id == to) else { return };
        let old = self.0[place].1.clone();
        self.ripple(*to, old, depth + 1);
        self.0[place].1 = value;
    }
}

impl Consumer {
    fn take(&mut self, bytes: &[u8]) {
        match Msg::parse(bytes).expect("legal") {
            Msg::Refresh(msg) => {
                if msg.part_num.unwrap_or(0) == 0 {
                    *self = Consumer::default();
                }
                self.merge(msg.container_type, msg.payload, false, true);
            }
            Msg::Update(msg) => self.merge(msg.container_type, msg.payload, !msg.do_not_ripple, false),
            other => panic!("{other:?}"),
        }
    }

    fn merge(&mut self, container_type: DataType, payload: &[u8], ripple: bool, is_image: bool) {
        if container_type == DataType::FIELD_LIST {
            return self.fields.merge(payload, ripple);
        }
        let map = Map::parse(payload).expect("legal");
        if let Some(summary) = map.summary {
            self.summary.merge(summary, false);
        }
        for entry in map.entries() {
            let entry = entry.expect("legal");
            if entry.action == MapAction::Delete {
                self.entries.remove(entry.key);
                continue;
            }
            let is_known = self.entries.contains_key(entry.key);
            assert!(!is_image || !is_known, "twice in an image");
            assert!(entry.action == MapAction::Add || is_known, "an update of an entry that is not there");
            let kept = self.entries.entry(entry.key.to_vec()).or_default();
            if entry.action == MapAction::Add {
                *kept = Fields::default();
            }
            kept.merge(entry.data.expect("not deleted"), false);
        }
    }
}

/// A consumer that is sent something now and then.
#[derive(Clone, Default)]
struct Reader {
    has: Consumer,
    since: u64,
    last_seq: u32,
}

/// An item, what its provider sends, and the readers of it.
struct World {
    rng: Rng,
    rules: FieldRules,
    item: CachedItem,
    container_type: DataType,
    keys: u64,
    /// What a consumer has that misses nothing.
    newest: Consumer,
    readers: Vec<Reader>,
    scratch: Scratch,
    sent: u32,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    updates: usize,
    images: usize,
    nothing: usize,
    adds: usize,
    changes: usize,
    deletes: usize,
    forgotten: usize,
}

fn key() -> ItemKey<'static> {
    ItemKey::named(7, Domain::MARKET_PRICE, b"IBM")
}

impl World {
    fn new(seed: u64) -> World {
        let (mut rng, mut rules) = (Rng::new(seed), FieldRules::default());
        RIPPLES.iter().for_each(|(from, to)| rules.set_ripple(*from, *to));
        rules.set_rmtes(TEXT);
        let container_type = if rng.chance(0.5) { DataType::FIELD_LIST } else { DataType::MAP };
        let (keys, count) = (1 + rng.below(30), 1 + rng.below(5) as usize);
        World {
            rng,
            rules,
            item: CachedItem::new(true),
            container_type,
            keys,
            newest: Consumer::default(),
            readers: vec![Reader::default(); count],
            scratch: Scratch::default(),
            sent: 0,
            counts: Counts::default(),
        }
    }

    fn field_list(&mut self) -> Vec<u8> {
        let fields: Vec<(i16, Vec<u8>)> = (0..self.rng.below(5))
            .map(|_| {
                let id = self.rng.below(FIELDS as u64) as i16;
                self.sent += 1;
                let value = match (id, self.rng.below(4)) {
                    (TEXT, 0..2) => [&b"\x1b["[..], self.rng.below(5).to_string().as_bytes(), b"`x"].concat(),
                    (_, 0) => Vec::new(),
                    (_, 1) => vec![b'a'; self.rng.below(40) as usize],
                    _ => self.sent.to_be_bytes().to_vec(),
                };
                (id, value)
            })
            .collect();
        encode_to_vec(|w| w.field_list(|f| fields.iter().for_each(|(id, value)| f.encoded(*id, value))))
            .expect("legal")
    }

    /// A map that updates and deletes what is there only, or an image.
    fn map(&mut self, is_image: bool) -> Vec<u8> {
        let mut known: Vec<Vec<u8>> = self.newest.entries.keys().cloned().collect();
        if is_image {
            known.clear();
        }
        let mut entries = Vec::new();
        for _ in 0..self.rng.below(6) {
            let key = vec![b'k', self.rng.below(self.keys) as u8];
            let is_known = known.contains(&key);
            let action = match self.rng.below(4) {
                _ if is_image && is_known => continue,
                _ if is_image || !is_known => MapAction::Add,
                0 => MapAction::Add,
                1 => MapAction::Delete,
                _ => MapAction::Update,
            };
            known.retain(|other| *other != key);
            if action != MapAction::Delete {
                known.push(key.clone());
            }
            entries.push((action, key, self.field_list()));
        }
        let summary = self.rng.chance(0.2).then(|| self.field_list());
        let head = MapHead::new(DataType::BUFFER, DataType::FIELD_LIST);
        let written = encode_to_vec(|w| {
            w.map(&head, |m| {
                if let Some(summary) = &summary {
                    m.summary(|w| w.bytes(summary));
                }
                for (action, key, content) in &entries {
                    match action {
                        MapAction::Delete => m.delete(Buffer(key)),
                        _ => m.entry(
                            *action,
                            Encoded { data_type: DataType::BUFFER, content: key },
                            None,
                            |w| {
                                w.bytes(content);
                            },
                        ),
                    }
                }
            });
        });
        written.expect("legal")
    }

    fn payload(&mut self, is_image: bool) -> Vec<u8> {
        if self.container_type == DataType::FIELD_LIST { self.field_list() } else { self.map(is_image) }
    }

    /// A new image, which all readers get.
    fn refresh(&mut self) {
        let payload = self.payload(true);
        let msg = RefreshMsg {
            complete: true,
            clear_cache: true,
            seq_num: Some(self.sent),
            payload: &payload,
            ..RefreshMsg::new(Domain::MARKET_PRICE, 0, self.container_type)
        };
        assert_eq!(self.item.on_refresh(&msg, &self.rules), Ok(true));
        self.newest.take(&encode_to_vec(|w| msg.encode(w)).expect("legal"));
        let (mut at_end, version) = (self.readers.clone(), self.item.version());
        for reader in &mut at_end {
            if reader.since < version - 1 {
                assert!(!matches!(self.conflated(reader.since), Conflated::Update(_)), "of another image");
            }
            reader.take_image(self);
        }
        self.readers = at_end;
    }

    /// An update, which some of the readers that lack none get as it is.
    fn update(&mut self) {
        let payload = self.payload(false);
        let msg = UpdateMsg {
            payload: &payload,
            seq_num: Some(self.sent),
            update_type: UpdateType::QUOTE,
            do_not_ripple: self.rng.chance(0.1),
            ..UpdateMsg::new(Domain::MARKET_PRICE, 0, self.container_type)
        };
        let bytes = encode_to_vec(|w| msg.encode(w)).expect("legal");
        let before = self.item.version();
        self.item.on_update(&msg, &self.rules).expect("legal");
        self.newest.take(&bytes);
        for reader in self.readers.iter_mut().filter(|reader| reader.since == before) {
            if self.rng.chance(0.5) {
                reader.has.take(&bytes);
                (reader.since, reader.last_seq) = (self.item.version(), self.sent);
            } else {
                self.item.track_changes(Some(&msg));
            }
        }
    }

    fn conflated(&mut self, since: u64) -> Conflated<'_> {
        self.item.encode_changes(key(), since, Some(250), &mut self.scratch)
    }

    /// A reader is sent what it lacks.
    fn read(&mut self, index: usize) {
        let mut reader = self.readers[index].clone();
        let (lacked, version) = (self.item.version() - reader.since, self.item.version());
        match self.conflated(reader.since) {
            Conflated::Update(bytes) => {
                let bytes = bytes.to_vec();
                let Ok(Msg::Update(msg)) = Msg::parse(&bytes) else { panic!("an update") };
                let conflation = msg.conflation.expect("it was asked for");
                assert_eq!((u64::from(conflation.count), conflation.time), (lacked, 250));
                assert!(msg.do_not_ripple && msg.key.is_none() && msg.update_type == UpdateType::UNSPECIFIED);
                assert!(msg.seq_num >= Some(reader.last_seq), "no value goes back");
                self.count(&msg, &reader);
                reader.has.take(&bytes);
                (reader.since, reader.last_seq) = (version, self.sent);
            }
            Conflated::Nothing => {
                self.counts.nothing += 1;
                reader.since = version;
            }
            Conflated::NeedsImage => {
                self.counts.images += 1;
                reader.take_image(self);
            }
        }
        assert_eq!(reader.has, self.newest);
        self.readers[index] = reader;
        if self.readers.iter().all(|reader| reader.since == version) && self.rng.chance(0.8) {
            self.item.forget_changes();
            self.counts.forgotten += 1;
        }
    }

    fn count(&mut self, msg: &UpdateMsg<'_>, reader: &Reader) {
        self.counts.updates += 1;
        if msg.container_type == DataType::FIELD_LIST {
            let ids: Vec<i16> = FieldList::parse(msg.payload)
                .expect("legal")
                .entries()
                .map(|e| e.expect("legal").id)
                .collect();
            let order = self.newest.fields.0.iter().map(|(id, _)| *id).filter(|id| ids.contains(id));
            assert_eq!(ids, order.collect::<Vec<_>>(), "once each, in the order of the image");
            return;
        }
        for entry in Map::parse(msg.payload).expect("legal").entries() {
            let entry = entry.expect("legal");
            match entry.action {
                MapAction::Add => self.counts.adds += 1,
                MapAction::Update => self.counts.changes += 1,
                MapAction::Delete => {
                    assert!(!self.newest.entries.contains_key(entry.key));
                    self.counts.deletes += usize::from(reader.has.entries.contains_key(entry.key));
                }
            }
        }
    }
}

impl Reader {
    fn take_image(&mut self, world: &mut World) {
        let form = RefreshForm { solicited: false, part_bytes: 200 };
        world.item.encode_refresh(key(), form, &mut world.scratch, |bytes| self.has.take(bytes));
        assert_eq!(self.has, world.newest);
        (self.since, self.last_seq) = (world.item.version(), world.sent);
    }
}

#[test]
fn readers_that_lack_updates_come_to_the_image_by_the_newest_values() {
    let mut counts = Counts::default();
    testkit::for_each_seed!(0..600, |seed| {
        let mut world = World::new(seed);
        world.refresh();
        for _ in 0..80 {
            match world.rng.below(100) {
                0 => world.refresh(),
                1..40 => {
                    let index = world.rng.below(world.readers.len() as u64) as usize;
                    world.read(index);
                }
                _ => world.update(),
            }
        }
        (0..world.readers.len()).for_each(|index| world.read(index));
        let Counts { updates, images, nothing, adds, changes, deletes, forgotten } = world.counts;
        assert_eq!(images, 0, "all of these changes can be said by updates");
        counts.updates += updates;
        counts.nothing += nothing;
        counts.adds += adds;
        counts.changes += changes;
        counts.deletes += deletes;
        counts.forgotten += forgotten;
    });
    if testkit::repeat::is_one_seed() || !testkit::repeat::seeds_are_usual() {
        return;
    }
    let Counts { updates, nothing, adds, changes, deletes, forgotten, .. } = counts;
    assert!(updates.min(nothing).min(adds).min(changes).min(deletes).min(forgotten) > 100, "{counts:?}");
}

/// A message of one entry for each key.
fn entries(keys: impl Iterator<Item = u32> + Clone, action: MapAction, value: u8) -> Vec<u8> {
    let head = MapHead::new(DataType::BUFFER, DataType::FIELD_LIST);
    let written = encode_to_vec(|w| {
        w.map(&head, |m| {
            keys.clone().for_each(|key| match action {
                MapAction::Delete => m.delete(Buffer(&key.to_be_bytes())),
                _ => m.entry(action, Buffer(&key.to_be_bytes()), None, |w| {
                    w.field_list(|f| f.encoded(1, &[value]));
                }),
            });
        });
    });
    written.expect("legal")
}

fn refresh(item: &mut CachedItem, container_type: DataType, payload: &[u8], rules: &FieldRules) {
    let head = RefreshMsg::new(Domain::MARKET_PRICE, 0, container_type);
    item.on_refresh(&RefreshMsg { complete: true, payload, ..head }, rules).expect("legal");
}

fn update(item: &mut CachedItem, container_type: DataType, payload: &[u8], rules: &FieldRules) {
    let msg = UpdateMsg { payload, ..UpdateMsg::new(Domain::MARKET_PRICE, 0, container_type) };
    item.on_update(&msg, rules).expect("legal");
}

/// Keys and actions that a reader is sent.
fn sent(item: &CachedItem, since: u64) -> Option<Vec<(u32, MapAction)>> {
    let mut scratch = Scratch::default();
    let bytes = match item.encode_changes(key(), since, None, &mut scratch) {
        Conflated::NeedsImage => return None,
        Conflated::Nothing => return Some(Vec::new()),
        Conflated::Update(bytes) => bytes,
    };
    let Ok(Msg::Update(msg)) = Msg::parse(bytes) else { panic!("an update") };
    assert_eq!(msg.conflation, None);
    let map = Map::parse(msg.payload).expect("legal");
    let entries = map.entries().map(|entry| entry.expect("legal"));
    Some(entries.map(|e| (u32::from_be_bytes(e.key.try_into().expect("four bytes")), e.action)).collect())
}

#[test]
fn actions_of_an_entry_are_merged_to_one_for_each_reader() {
    use MapAction::{Add, Delete, Update};
    let (rules, mut item) = (FieldRules::default(), CachedItem::new(true));
    refresh(&mut item, DataType::MAP, &entries(0..3, Add, 0), &rules);
    item.track_changes(None);
    let begin = item.version();
    let mut step = |key: u32, action| {
        update(&mut item, DataType::MAP, &entries(key..key + 1, action, 1), &rules);
        (begin..item.version()).map(|since| sent(&item, since).expect("known")).collect::<Vec<_>>()
    };
    assert_eq!(step(0, Update), [[(0, Update)]]);
    assert_eq!(step(0, Delete), [[(0, Delete)], [(0, Delete)]]);
    assert_eq!(step(0, Add), [[(0, Add)], [(0, Add)], [(0, Add)]], "it replaces, or comes again");
    assert_eq!(step(0, Update), [vec![(0, Add)], vec![(0, Add)], vec![(0, Add)], vec![(0, Update)]]);
    let after_new = step(9, Add);
    assert_eq!(after_new[3], [(0, Update), (9, Add)]);
    assert_eq!(step(9, Update)[4..], [vec![(9, Add)], vec![(9, Update)]]);
    assert_eq!(step(9, Delete)[4..], [vec![], vec![(9, Delete)], vec![(9, Delete)]]);
    assert_eq!(step(8, Delete)[7..], [vec![]], "it was never there");
}

#[test]
fn of_more_keys_than_are_noted_the_oldest_are_forgotten_and_their_readers_get_images() {
    let (rules, mut item) = (FieldRules::default(), CachedItem::new(true));
    refresh(&mut item, DataType::MAP, &entries(0..1, MapAction::Add, 0), &rules);
    item.track_changes(None);
    let begin = item.version();
    for key in 1..20_000 {
        update(&mut item, DataType::MAP, &entries(key..key + 1, MapAction::Add, 0), &rules);
        update(&mut item, DataType::MAP, &entries(key..key + 1, MapAction::Delete, 0), &rules);
        let changes = item.changes().expect("they are noted");
        assert!(changes.entries.len() <= ENTRIES_MAX && changes.memory_bytes() < 1 << 18);
    }
    assert_eq!(sent(&item, begin), None);
    assert_eq!(sent(&item, item.version() - 1).expect("known"), [(19_999, MapAction::Delete)]);
    // All at once: nothing is left that could be told apart.
    update(&mut item, DataType::MAP, &entries(30_000..36_000, MapAction::Add, 0), &rules);
    assert_eq!(sent(&item, item.version() - 1), None);
    update(&mut item, DataType::MAP, &entries(35_000..35_001, MapAction::Update, 1), &rules);
    assert_eq!(sent(&item, item.version() - 1).expect("known"), [(35_000, MapAction::Update)]);
    assert!(item.changes().expect("they are noted").entries.len() <= ENTRIES_MAX);
}

#[test]
fn a_map_that_changed_more_than_one_message_should_hold_is_sent_as_an_image() {
    let (rules, mut item) = (FieldRules::default(), CachedItem::new(true));
    refresh(&mut item, DataType::MAP, &entries(0..3_000, MapAction::Add, 0), &rules);
    item.track_changes(None);
    let begin = item.version();
    update(&mut item, DataType::MAP, &entries(0..1_000, MapAction::Update, 1), &rules);
    assert_eq!(sent(&item, begin).expect("short enough").len(), 1_000);
    update(&mut item, DataType::MAP, &entries(1_000..3_000, MapAction::Update, 1), &rules);
    assert_eq!(sent(&item, begin), None);
}

#[test]
fn long_keys_are_bounded_too() {
    let (rules, mut item) = (FieldRules::default(), CachedItem::new(true));
    item.track_changes(None);
    for n in 0..100 {
        let head = MapHead::new(DataType::BUFFER, DataType::NO_DATA);
        let long = vec![n; 30_000];
        let payload =
            encode_to_vec(|w| w.map(&head, |m| m.entry(MapAction::Add, Buffer(&long), None, |_| ())));
        update(&mut item, DataType::MAP, &payload.expect("legal"), &rules);
        assert!(item.changes().expect("they are noted").memory_bytes() < KEYS_BYTES_MAX + 4_096);
    }
}

#[test]
fn noting_what_is_known_allocates_nothing() {
    let mut rules = FieldRules::default();
    rules.set_ripple(1, 2);
    let (mut book, mut price) = (CachedItem::new(true), CachedItem::new(true));
    let list = |value: u8| {
        encode_to_vec(|w| w.field_list(|f| (0..40).for_each(|id| f.encoded(id, &[value])))).expect("legal")
    };
    refresh(&mut price, DataType::FIELD_LIST, &list(0), &rules);
    refresh(&mut book, DataType::MAP, &entries(0..50, MapAction::Add, 0), &rules);
    price.track_changes(None);
    book.track_changes(None);
    let room = |item: &CachedItem| {
        let changes = item.changes().expect("they are noted");
        let key = changes.entries.keys().next().map(|key| key.as_ptr());
        (changes.fields.as_ptr(), changes.fields.capacity(), changes.entries.len(), key)
    };
    let mut noted = None;
    for value in 0..100 {
        update(&mut price, DataType::FIELD_LIST, &list(value), &rules);
        update(&mut book, DataType::MAP, &entries(0..50, MapAction::Update, value), &rules);
        let now = (room(&price), room(&book));
        assert_eq!(*noted.get_or_insert(now), now);
    }
    assert_eq!(noted.map(|(price, book)| (price.1, book.2)), Some((40, 50)));
}

#[test]
fn what_cannot_be_said_by_an_update_is_an_image() {
    let rules = FieldRules::default();
    let elements = encode_to_vec(|w| w.element_list(|e| e.put("A", 1u64))).expect("legal");
    let field = encode_to_vec(|w| w.field_list(|f| f.encoded(1, &[1]))).expect("legal");
    let needs_image = |item: &CachedItem, since| {
        item.encode_changes(key(), since, None, &mut Scratch::default()) == Conflated::NeedsImage
    };
    for (container_type, payload) in [(DataType::ELEMENT_LIST, &elements[..]), (DataType::XML, b"<a/>")] {
        let mut item = CachedItem::new(true);
        refresh(&mut item, container_type, payload, &rules);
        item.track_changes(None);
        let since = item.version();
        update(&mut item, container_type, payload, &rules);
        assert!(needs_image(&item, since), "{container_type}");
    }
    let mut item = CachedItem::new(true);
    refresh(&mut item, DataType::FIELD_LIST, &field, &rules);
    let before = item.version();
    update(&mut item, DataType::FIELD_LIST, &field, &rules);
    assert!(needs_image(&item, before), "nobody has noted it");
    item.track_changes(None);
    assert!(needs_image(&item, before), "it began too late");
    let since = item.version();
    update(&mut item, DataType::FIELD_LIST, &field, &rules);
    assert!(!needs_image(&item, since) && !needs_image(&item, item.version()));
    assert!(needs_image(&item.anew(), since), "it may come from elsewhere");
    let mut cut = UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
    cut.payload = &field[..field.len() - 1];
    assert!(item.on_update(&cut, &rules).is_err() && needs_image(&item, since));
    let since = item.version();
    update(&mut item, DataType::FIELD_LIST, &field, &rules);
    assert!(!needs_image(&item, since));
    update(&mut item, DataType::XML, b"<a/>", &rules);
    assert!(needs_image(&item, since), "not all of it is in the image");
    let since = item.version();
    refresh(&mut item, DataType::FIELD_LIST, &field, &rules);
    assert!(needs_image(&item, since) && item.tracks_changes());
    item.forget_changes();
    assert!(!item.tracks_changes());
}

#[test]
fn permission_data_goes_with_the_update_if_it_has_changed() {
    let (rules, mut item) = (FieldRules::default(), CachedItem::new(true));
    let field = encode_to_vec(|w| w.field_list(|f| f.encoded(1, &[1]))).expect("legal");
    refresh(&mut item, DataType::FIELD_LIST, &field, &rules);
    let since = item.version();
    let head = UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
    let msg = UpdateMsg { permission_data: Some(b"p"), do_not_cache: true, payload: &field, ..head };
    item.on_update(&msg, &rules).expect("legal");
    item.track_changes(Some(&msg));
    let after = item.version();
    update(&mut item, DataType::FIELD_LIST, &field, &rules);
    let mut scratch = Scratch::default();
    let mut permission = |since| match item.encode_changes(key(), since, None, &mut scratch) {
        Conflated::Update(bytes) => match Msg::parse(bytes) {
            Ok(Msg::Update(msg)) => msg.permission_data.map(<[u8]>::to_vec),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    assert_eq!((permission(since), permission(after)), (Some(b"p".to_vec()), None));
}

#[test]
fn versions_are_counted_on_beyond_what_a_distance_can_be() {
    let image = |payload: &[u8]| {
        let mut image = Image::default();
        image.update(DataType::FIELD_LIST, payload, false, &FieldRules::default()).expect("legal");
        image
    };
    let field = encode_to_vec(|w| w.field_list(|f| f.encoded(1, &[1]))).expect("legal");
    let (image, mut changes) = (image(&field), Changes::new(5));
    let head = UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
    let msg = UpdateMsg { payload: &field, ..head };
    let update = Merged { msg: &msg, ripples: false };
    changes.note_fields(&image, update, 6);
    assert_eq!((changes.after(5, &image), changes.after(6, &image)), (Lacks::Some, Lacks::Nothing));
    let far = 6 + (1 << 33);
    changes.note_fields(&image, update, far);
    assert_eq!(changes.after(6, &image), Lacks::Image);
    assert_eq!((changes.after(far - 1, &image), changes.after(far, &image)), (Lacks::Some, Lacks::Nothing));
}
