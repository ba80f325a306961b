use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use rwf::{
    Buffer, Conflation, DataState, DataType, Dictionary, Domain, Encoded, FieldList, GenericMsg, Map,
    MapAction, MapHead, RefreshMsg, State, StateCode, StatusMsg, StreamState, UpdateMsg, encode_to_vec,
    rmtes,
};
use units::{Nanos, Rng};

use super::*;
use crate::consumer::ItemMsg;
use crate::consumer::fields::FieldScan;

/// Fields 1 to 3 ripple, 4 is RMTES text.
const DICTIONARY: &[u8] = b"A \"A\" 1 B INTEGER 10 UINT64 8\nB \"B\" 2 C INTEGER 10 UINT64 8\n\
    C \"C\" 3 NULL INTEGER 10 UINT64 8\nT \"T\" 4 NULL ALPHANUMERIC 30 RMTES_STRING 30\n\
    D \"D\" 5 NULL INTEGER 10 UINT64 8\nE \"E\" 6 NULL INTEGER 10 UINT64 8\n";
const RIPPLES: [(i16, i16); 2] = [(1, 2), (2, 3)];
const TEXT: i16 = 4;
const FIELDS: u64 = 6;

/// With `more` it has a field that nobody sends, by other rules than all the others.
fn dictionary(more: bool) -> Arc<Dictionary> {
    let mut dictionary = Dictionary::new();
    dictionary.load_fields(DICTIONARY).expect("well written");
    if more {
        let field = b"F \"F\" 9 NULL ALPHANUMERIC 30 RMTES_STRING 30\n";
        dictionary.load_fields(field).expect("well written");
    }
    Arc::new(dictionary)
}

/// What an application has of an item: fields by id, entries by key, or bytes. It knows nothing of how images are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    fields: BTreeMap<i16, Vec<u8>>,
    entries: BTreeMap<Vec<u8>, BTreeMap<i16, Vec<u8>>>,
    summary: BTreeMap<i16, Vec<u8>>,
    raw: Vec<u8>,
}

fn merge_fields(into: &mut BTreeMap<i16, Vec<u8>>, payload: &[u8], ripples: bool) {
    for entry in FieldList::parse(payload).expect("legal").entries() {
        let entry = entry.expect("legal");
        let old = into.get(&entry.id).cloned();
        if ripples && let Some(old) = &old {
            ripple(into, entry.id, old.clone());
        }
        let mut value = old.unwrap_or_default();
        match entry.id == TEXT && rmtes::is_partial_update(entry.content) {
            true => rmtes::apply(&mut value, entry.content, rmtes::VALUE_BYTES_MAX).expect("legal"),
            false => value = entry.content.to_vec(),
        }
        into.insert(entry.id, value);
    }
}

fn ripple(fields: &mut BTreeMap<i16, Vec<u8>>, from: i16, value: Vec<u8>) {
    let Some((_, to)) = RIPPLES.iter().find(|(id, _)| *id == from) else { return };
    let Some(old) = fields.get(to).cloned() else { return };
    ripple(fields, *to, old);
    fields.insert(*to, value);
}

impl Seen {
    fn take(&mut self, msg: ItemMsg<'_>) {
        match msg {
            ItemMsg::Refresh(msg) => {
                if msg.part_num.unwrap_or(0) == 0 {
                    *self = Seen::default();
                }
                self.merge(msg.container_type, msg.payload, false);
            }
            ItemMsg::Update(msg) if !msg.do_not_cache => {
                self.merge(msg.container_type, msg.payload, !msg.do_not_ripple);
            }
            _ => {}
        }
    }

    fn merge(&mut self, container_type: DataType, payload: &[u8], ripples: bool) {
        match container_type {
            DataType::FIELD_LIST => merge_fields(&mut self.fields, payload, ripples),
            DataType::MAP => {
                let map = Map::parse(payload).expect("legal");
                if let Some(summary) = map.summary {
                    merge_fields(&mut self.summary, summary, false);
                }
                for entry in map.entries() {
                    let entry = entry.expect("legal");
                    if entry.action == MapAction::Delete {
                        self.entries.remove(entry.key);
                        continue;
                    }
                    let is_known = self.entries.contains_key(entry.key);
                    assert!(entry.action == MapAction::Add || is_known, "an update of what is not there");
                    let kept = self.entries.entry(entry.key.to_vec()).or_default();
                    if entry.action == MapAction::Add {
                        kept.clear();
                    }
                    merge_fields(kept, entry.data.expect("not deleted"), false);
                }
            }
            _ => self.raw = payload.to_vec(),
        }
    }
}

/// What the server sends of an item, and what the two applications have of it.
struct Item {
    handle: ItemHandle,
    container_type: DataType,
    is_private: bool,
    name: Arc<str>,
    /// Of one that is given everything.
    all: Seen,
    /// Of one that takes events from the queue.
    taken: Seen,
    /// What it has to have with a message of that number.
    at: HashMap<u32, Seen>,
    /// What must not be merged, in words, and what it has to have then.
    single: VecDeque<(String, Seen)>,
    is_subscribed: bool,
}

struct World {
    rng: Rng,
    queue: EventQueue,
    service: Arc<str>,
    dictionary: Arc<Dictionary>,
    items: Vec<Item>,
    now: Nanos,
    sent: u32,
    next_handle: u64,
    updates: u64,
    taken_updates: u64,
    taken_merged: u64,
    kinds: [u64; 3],
}

const NAMES: [&str; 3] = ["private", "alone", "opaque"];

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let bounds = Bounds {
            when_full: WhenFull::Conflate,
            events_max: 1 + rng.below(12) as usize,
            bytes_max: if rng.chance(0.3) { 1_000 } else { 1 << 20 },
        };
        let mut world = World {
            rng,
            queue: EventQueue::new(bounds),
            service: "S".into(),
            dictionary: dictionary(false),
            items: Vec::new(),
            now: Nanos(1),
            sent: 0,
            next_handle: 0,
            updates: 0,
            taken_updates: 0,
            taken_merged: 0,
            kinds: [0; 3],
        };
        for _ in 0..1 + world.rng.below(5) {
            world.subscribe();
        }
        world
    }

    fn subscribe(&mut self) {
        let container_type = match self.rng.below(10) {
            0 => DataType::XML,
            1..6 => DataType::FIELD_LIST,
            _ => DataType::MAP,
        };
        self.items.push(Item {
            handle: ItemHandle::from_u64(self.next_handle),
            container_type,
            is_private: self.rng.chance(0.1),
            name: format!("I{}", self.next_handle).into(),
            all: Seen::default(),
            taken: Seen::default(),
            at: HashMap::new(),
            single: VecDeque::new(),
            is_subscribed: true,
        });
        self.next_handle += 1;
        self.refresh(self.items.len() - 1);
    }

    fn fields(&mut self) -> Vec<u8> {
        let fields: Vec<(i16, Vec<u8>)> = (0..self.rng.below(4))
            .map(|_| {
                let id = 1 + self.rng.below(FIELDS) as i16;
                let value = match (id, self.rng.below(3)) {
                    (TEXT, 0) => [&b"\x1b["[..], self.rng.below(5).to_string().as_bytes(), b"`x"].concat(),
                    (TEXT, _) => vec![b'a'; self.rng.below(20) as usize],
                    _ => vec![self.rng.below(250) as u8],
                };
                (id, value)
            })
            .collect();
        encode_to_vec(|w| w.field_list(|f| fields.iter().for_each(|(id, value)| f.encoded(*id, value))))
            .expect("legal")
    }

    fn map(&mut self, known: &BTreeMap<Vec<u8>, BTreeMap<i16, Vec<u8>>>) -> Vec<u8> {
        let mut known: Vec<Vec<u8>> = known.keys().cloned().collect();
        let mut entries = Vec::new();
        for _ in 0..self.rng.below(5) {
            let key = vec![b'k', self.rng.below(6) as u8];
            let is_known = known.contains(&key);
            let action = match self.rng.below(4) {
                _ if !is_known => MapAction::Add,
                0 => MapAction::Add,
                1 => MapAction::Delete,
                _ => MapAction::Update,
            };
            known.retain(|other| *other != key);
            if action != MapAction::Delete {
                known.push(key.clone());
            }
            entries.push((action, key, self.fields()));
        }
        let summary = self.rng.chance(0.2).then(|| self.fields());
        let head = MapHead::new(DataType::BUFFER, DataType::FIELD_LIST);
        let written = encode_to_vec(|w| {
            w.map(&head, |m| {
                if let Some(summary) = &summary {
                    m.summary(|w| w.bytes(summary));
                }
                for (action, key, content) in &entries {
                    let encoded = Encoded { data_type: DataType::BUFFER, content: key };
                    match action {
                        MapAction::Delete => m.delete(Buffer(key)),
                        _ => m.entry(*action, encoded, None, |w| w.bytes(content)),
                    }
                }
            });
        });
        written.expect("legal")
    }

    fn payload(&mut self, index: usize, is_image: bool) -> Vec<u8> {
        match self.items[index].container_type {
            DataType::FIELD_LIST => self.fields(),
            DataType::MAP => {
                let known = if is_image { BTreeMap::new() } else { self.items[index].all.entries.clone() };
                self.map(&known)
            }
            _ => self.sent.to_be_bytes().to_vec(),
        }
    }

    /// A message of the server goes to both.
    fn send(
        &mut self,
        index: usize,
        msg: ItemMsg<'_>,
        single: Option<String>,
        state: State<'_>,
        is_final: bool,
    ) {
        let item = &mut self.items[index];
        item.all.take(msg);
        if let Some(single) = single {
            item.single.push_back((single, item.all.clone()));
        }
        item.at.insert(self.sent, item.all.clone());
        self.queue.push(
            self.now,
            ConsumerEvent::Item(ItemEvent {
                handle: item.handle,
                tag: 7,
                name: &item.name,
                service: &self.service,
                domain: Domain::MARKET_PRICE,
                msg,
                bytes: None,
                state,
                is_final,
                image: None,
                dictionary: Some(&self.dictionary),
                index: None,
                scan: FieldScan::default(),
            }),
        );
    }

    fn refresh(&mut self, index: usize) {
        // One with parts is whole with its last.
        let parts = if self.rng.chance(0.2) { 2 } else { 1 };
        for part in 0..parts {
            self.sent += 1;
            let payload = if part == 0 { self.payload(index, true) } else { self.payload(index, false) };
            let item = &self.items[index];
            let msg = RefreshMsg {
                complete: part == parts - 1,
                part_num: (parts > 1).then_some(part),
                private_stream: item.is_private,
                seq_num: Some(self.sent),
                payload: &payload,
                ..RefreshMsg::new(Domain::MARKET_PRICE, 5, item.container_type)
            };
            let words = format!("image {}", self.sent);
            self.send(index, ItemMsg::Refresh(&msg), Some(words), State::OPEN_OK, false);
        }
    }

    fn update(&mut self, index: usize) {
        self.sent += 1;
        self.updates += 1;
        let payload = self.payload(index, false);
        let item = &self.items[index];
        let msg = UpdateMsg {
            payload: &payload,
            seq_num: Some(self.sent),
            do_not_conflate: self.rng.chance(0.05),
            do_not_cache: self.rng.chance(0.02),
            do_not_ripple: self.rng.chance(0.1),
            ..UpdateMsg::new(Domain::MARKET_PRICE, 5, item.container_type)
        };
        let reasons =
            [item.is_private, msg.do_not_conflate || msg.do_not_cache, msg.container_type == DataType::XML];
        let single = reasons.iter().position(|reason| *reason).map(|kind| {
            self.kinds[kind] += 1;
            format!("{} update {}", NAMES[kind], self.sent)
        });
        let state = State::OPEN_OK;
        self.send(index, ItemMsg::Update(&msg), single, state, false);
    }

    fn status(&mut self, index: usize, is_final: bool) {
        self.sent += 1;
        let words = format!("status {}", self.sent);
        let stream = if is_final { StreamState::Closed } else { StreamState::Open };
        let state = State::new(stream, DataState::Suspect).because(StateCode::NONE, &words);
        let msg =
            StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA) };
        self.send(index, ItemMsg::Status(&msg), Some(words.clone()), state, is_final);
    }

    fn generic(&mut self, index: usize) {
        self.sent += 1;
        let msg = GenericMsg {
            seq_num: Some(self.sent),
            ..GenericMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA)
        };
        let words = format!("generic {}", self.sent);
        self.send(index, ItemMsg::Generic(&msg), Some(words), State::OPEN_OK, false);
    }

    fn step(&mut self) {
        self.now = Nanos(self.now.0 + self.rng.below(1_000_000));
        let index = self.rng.below(self.items.len() as u64) as usize;
        if !self.items[index].is_subscribed {
            return;
        }
        match self.rng.below(100) {
            0..3 => self.refresh(index),
            3..6 => self.status(index, false),
            6..8 => self.generic(index),
            8 => {
                self.status(index, true);
                self.queue.forget(self.items[index].handle);
                self.items[index].is_subscribed = false;
                self.subscribe();
            }
            9 => {
                self.queue.forget(self.items[index].handle);
                self.items[index].is_subscribed = false;
                // What waits of it may come or not.
                self.items[index].single.clear();
                self.subscribe();
            }
            10 if self.rng.chance(0.5) => self.dictionary = dictionary(self.rng.chance(0.3)),
            _ => self.update(index),
        }
    }

    /// The application takes an event; returns whether there was one.
    fn take(&mut self) -> bool {
        let Some(event) = self.queue.pop(self.now) else { return false };
        let OwnedEvent::Item(event) = event else { panic!("{event}") };
        let item = self.items.iter_mut().find(|item| item.handle == event.handle).expect("known");
        assert_eq!((event.tag, &*event.name), (7, &*item.name));
        event.view(|view| {
            item.taken.take(view.msg());
            // Whatever it is made of: who has it has what the server had sent up to its number.
            if let Some(seq_num) = view.seq_num().filter(|_| !view.is_refresh() || view.is_complete()) {
                assert_eq!(item.taken, item.at[&seq_num], "{event}");
            }
            let words = match view.msg() {
                ItemMsg::Refresh(msg) if event.merged.is_none() => {
                    format!("image {}", msg.seq_num.expect("numbered"))
                }
                ItemMsg::Status(msg) => msg.state.expect("one").text_lossy().into_owned(),
                ItemMsg::Generic(msg) => format!("generic {}", msg.seq_num.expect("numbered")),
                ItemMsg::Update(msg) if event.merged.is_none() => {
                    self.taken_updates += 1;
                    let number = msg.seq_num.expect("numbered");
                    match item.single.front() {
                        Some((words, _)) if words.ends_with(&format!(" update {number}")) => words.clone(),
                        _ => return,
                    }
                }
                msg => {
                    let merged = event.merged.expect("it was made here");
                    assert!(
                        !item.is_private && (merged.updates > 0 || view.is_refresh() && !view.is_complete())
                    );
                    self.taken_merged += merged.updates;
                    if let ItemMsg::Update(msg) = msg {
                        let said = Conflation {
                            count: merged.updates as u16,
                            time: merged.waited.as_millis() as u16,
                        };
                        assert_eq!((msg.conflation, msg.stream_id), (Some(said), 5));
                    }
                    return;
                }
            };
            if item.is_subscribed || !item.single.is_empty() {
                let (expected, seen) = item.single.pop_front().expect("nothing more was sent");
                assert_eq!((words, &item.taken), (expected, &seen));
            }
        });
        true
    }

    fn run(mut self) -> (QueueStats, [u64; 3]) {
        for _ in 0..30 {
            let (sends, takes) = (self.rng.below(40), self.rng.below(40));
            (0..sends).for_each(|_| self.step());
            (0..takes).all(|_| self.take());
        }
        while self.take() {}
        for item in self.items.iter().filter(|item| item.is_subscribed) {
            assert_eq!(item.taken, item.all, "{}", item.name);
            assert!(item.single.is_empty(), "{:?}", item.single);
        }
        let stats = self.queue.stats();
        let waiting = (stats.events_waiting, stats.items_waiting, stats.bytes_waiting, stats.is_conflating);
        assert_eq!(waiting, (0, 0, 0, false));
        assert_eq!(stats.updates_in, self.updates);
        assert_eq!(stats.updates_in - stats.updates_merged, self.taken_updates);
        assert_eq!(stats.updates_merged - stats.updates_without_effect, self.taken_merged);
        let live = self.items.iter().filter(|item| item.is_subscribed).count();
        assert_eq!(self.queue.images.as_ref().map(Images::len), Some(live), "images of items that are gone");
        (stats, self.kinds)
    }
}

#[test]
fn an_application_that_takes_late_has_what_one_has_that_is_given_everything() {
    let (mut merged, mut void, mut single, mut kinds) = (0, 0, 0, [0; 3]);
    testkit::for_each_seed!(0..400, |seed| {
        let (stats, of_kind) = World::new(seed).run();
        merged += stats.merged_events;
        void += stats.updates_without_effect;
        single += stats.updates_not_merged;
        (0..3).for_each(|kind| kinds[kind] += of_kind[kind]);
    });
    if testkit::repeat::is_one_seed() || !testkit::repeat::seeds_are_usual() {
        return;
    }
    let least = kinds.into_iter().chain([merged, void, single]).min();
    assert!(least > Some(100), "{merged} {void} {single} {kinds:?}");
}

/// A queue in which updates are merged from the second event on, and items in it.
struct Small {
    world: World,
}

impl Small {
    fn new(types: &[DataType], bounds: Bounds) -> Small {
        let mut world = World::new(0);
        world.items.clear();
        world.queue = EventQueue::new(bounds);
        for container_type in types {
            let handle = ItemHandle::from_u64(1_000 + world.items.len() as u64);
            let name = format!("N{}", world.items.len()).into();
            world.items.push(Item {
                handle,
                container_type: *container_type,
                is_private: false,
                name,
                all: Seen::default(),
                taken: Seen::default(),
                at: HashMap::new(),
                single: VecDeque::new(),
                is_subscribed: true,
            });
        }
        Small { world }
    }

    fn refresh(&mut self, index: usize, payload: &[u8]) {
        self.world.sent += 1;
        let msg = RefreshMsg {
            complete: true,
            seq_num: Some(self.world.sent),
            payload,
            ..RefreshMsg::new(Domain::MARKET_PRICE, 5, self.world.items[index].container_type)
        };
        let words = format!("image {}", self.world.sent);
        self.world.send(index, ItemMsg::Refresh(&msg), Some(words), State::OPEN_OK, false);
    }

    fn update(&mut self, index: usize, payload: &[u8]) {
        self.world.sent += 1;
        let msg = UpdateMsg {
            seq_num: Some(self.world.sent),
            payload,
            ..UpdateMsg::new(Domain::MARKET_PRICE, 5, self.world.items[index].container_type)
        };
        self.world.send(index, ItemMsg::Update(&msg), None, State::OPEN_OK, false);
    }
}

fn conflating(events_max: usize) -> Bounds {
    Bounds { when_full: WhenFull::Conflate, events_max, bytes_max: 1 << 30 }
}

fn field(id: i16, value: u8) -> Vec<u8> {
    encode_to_vec(|w| w.field_list(|f| f.encoded(id, &[value]))).expect("small")
}

fn shown(queue: &mut EventQueue) -> Vec<String> {
    std::iter::from_fn(|| queue.pop(Nanos(5_000_001))).map(|event| event.to_string()).collect()
}

#[test]
fn changes_come_in_the_order_in_which_items_changed_first_and_say_how_many_updates_they_are() {
    let mut small = Small::new(&[DataType::FIELD_LIST; 2], conflating(2));
    (0..2).for_each(|index| small.refresh(index, &field(5, 0)));
    assert!(small.world.queue.stats().is_conflating);
    for (index, id, value) in [(1, 5, 1), (0, 5, 2), (1, 6, 3), (1, 5, 4)] {
        small.update(index, &field(id, value));
    }
    let lines = shown(&mut small.world.queue);
    assert_eq!(
        lines[2..],
        [
            "(3 updates, 5 ms) S N1 update: D=4 E=3".to_owned(),
            "(1 updates, 5 ms) S N0 update: D=2".to_owned()
        ]
    );
    small.update(0, &field(5, 9));
    assert_eq!(shown(&mut small.world.queue), ["S N0 update: D=9"], "each update is an event again");
}

#[test]
fn a_dictionary_that_says_the_same_of_fields_lets_merging_go_on_and_another_waits_for_the_next_image() {
    let mut small = Small::new(&[DataType::FIELD_LIST], conflating(1));
    small.refresh(0, &field(5, 0));
    small.world.dictionary = dictionary(false);
    small.update(0, &field(5, 1));
    small.world.dictionary = dictionary(true);
    small.update(0, &field(5, 2));
    small.refresh(0, &field(5, 3));
    small.update(0, &field(5, 4));
    let stats = small.world.queue.stats();
    assert_eq!((stats.updates_merged, stats.updates_not_merged), (2, 1), "{stats:?}");
}

#[test]
fn changes_of_a_large_map_come_as_an_image_in_parts() {
    let map = |action, value: u8| {
        let content = vec![value; 200];
        let head = MapHead::new(DataType::BUFFER, DataType::FIELD_LIST);
        let written = encode_to_vec(|w| {
            w.map(&head, |m| {
                (0_u32..500).for_each(|key| {
                    m.entry(action, Buffer(&key.to_be_bytes()), None, |w| {
                        w.field_list(|f| f.encoded(5, &content))
                    });
                });
            });
        });
        written.expect("legal")
    };
    let mut small = Small::new(&[DataType::MAP], conflating(1));
    small.refresh(0, &map(MapAction::Add, 1));
    small.update(0, &map(MapAction::Update, 2));
    small.update(0, &map(MapAction::Update, 3));
    small.world.updates = 2;
    let mut events = 0;
    while small.world.take() {
        events += 1;
    }
    let stats = small.world.queue.stats();
    assert!(events > 2, "the image, and one in parts");
    assert_eq!((stats.images_made, stats.merged_events, small.world.taken_merged), (1, 1, 2));
    assert_eq!(small.world.items[0].taken, small.world.items[0].all);
}

#[test]
fn what_cannot_be_read_comes_as_it_is_behind_what_waits_and_nothing_more_is_merged_before_an_image() {
    let mut small = Small::new(&[DataType::FIELD_LIST], conflating(1));
    small.refresh(0, &field(5, 1));
    small.update(0, &field(5, 2));
    let cut = [&field(6, 3)[..], &[]].concat();
    let cut = &cut[..cut.len() - 1];
    let msg = UpdateMsg { payload: cut, ..UpdateMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST) };
    let item = &small.world.items[0];
    small.world.queue.push(
        Nanos(1),
        ConsumerEvent::Item(ItemEvent {
            handle: item.handle,
            tag: 7,
            name: &item.name,
            service: &small.world.service,
            domain: Domain::MARKET_PRICE,
            msg: ItemMsg::Update(&msg),
            bytes: None,
            state: State::OPEN_OK,
            is_final: false,
            image: None,
            dictionary: Some(&small.world.dictionary),
            index: None,
            scan: FieldScan::default(),
        }),
    );
    small.update(0, &field(5, 4));
    small.update(0, &field(5, 5));
    let lines = shown(&mut small.world.queue);
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert_eq!(lines[1], "(1 updates, 0 ms) S N0 update: D=2");
    assert!(lines[2].contains("truncated") || lines[2].contains("update:"), "{lines:?}");
    assert_eq!(lines[3..], ["S N0 update: D=4", "S N0 update: D=5"]);
    assert_eq!(small.world.queue.stats().updates_not_merged, 3);
}

#[test]
fn twice_the_bound_stops_reading_and_half_of_that_is_room() {
    let mut small = Small::new(&[DataType::FIELD_LIST], conflating(3));
    for value in 0..6 {
        assert!(!small.world.queue.is_full());
        small.refresh(0, &field(5, value));
    }
    small.update(0, &field(5, 9));
    assert!(small.world.queue.is_full() && !small.world.queue.has_room());
    (0..3).for_each(|_| assert!(small.world.queue.pop(Nanos(1)).is_some()));
    assert!(small.world.queue.has_room());
    let stats = small.world.queue.stats();
    assert_eq!((stats.events_waiting, stats.items_waiting, stats.events_waiting_max), (3, 1, 6));
}

#[test]
fn a_queue_that_fails_gives_what_came_up_to_its_bound_and_names_it() {
    let events = Bounds { when_full: WhenFull::Fail, events_max: 2, bytes_max: 1 << 20 };
    let bytes = Bounds { events_max: 100, bytes_max: 600, ..events };
    for (bounds, name) in [(events, "events_max = 2"), (bytes, "bytes_max = 600")] {
        let mut small = Small::new(&[DataType::FIELD_LIST], bounds);
        (0..5).for_each(|value| small.refresh(0, &field(5, value)));
        let overrun = small.world.queue.overrun().expect("it is full").to_string();
        assert!(overrun.contains(name), "{overrun}");
        let lines = shown(&mut small.world.queue);
        assert_eq!(lines.last(), Some(&overrun));
        assert!(lines[..lines.len() - 1].iter().all(|line| line.contains("refresh")), "{lines:?}");
        assert!(lines.len() >= 3 && lines.len() < 5, "{lines:?}");
    }
}
