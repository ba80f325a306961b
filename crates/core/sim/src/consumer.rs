use std::collections::BTreeMap;

use rdm::ToVec;
use rdm::directory::{DirectoryMsg, DirectoryRequest};
use rdm::item::{ItemRequest, View};
use rdm::login::LoginRequest;
use rwf::{DataState, Decode, Domain, FieldList, Msg, Qos, Rate, Real, StreamState};

use crate::provider::{COUNT, Item, OTHER, SERVICE, key_of, label_of};

/// What a consumer does with its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// It watches them.
    Watches,
    /// It watches one of their fields.
    Views(i16),
    /// It pauses now this, now that stream for a while.
    Pauses,
    /// It wants an update of each at most once in [`INTERVAL_MS`].
    Paces,
}

/// An interval that the server offers.
pub(crate) const INTERVAL_MS: u16 = 300;

/// A consumer that watches items and checks that what it sees is legal.
pub(crate) struct Consumer {
    wanted: Vec<String>,
    habit: Habit,
    /// How many messages of items it has had.
    message_count: u32,
    /// The stream that is paused now.
    paused: Option<i32>,
    service: Option<u16>,
    /// By stream id, from 5 on.
    watched: BTreeMap<i32, Watched>,
    /// What it has had of updates, over all its connections.
    tally: Tally,
    /// Its items may come from another source distributor, which is not as far: as they may after a time in which they
    /// were suspect.
    pub(crate) may_go_back: bool,
}

/// What became of the updates of an item, as its consumer sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Received as themselves.
    pub(crate) delivered: u64,
    /// Received updates stood for them, as these said.
    pub(crate) conflated: u64,
    /// Images stood for them.
    in_images: u64,
    /// Its view shows nothing of them.
    outside_view: u64,
}

impl Tally {
    fn sum(self) -> u64 {
        self.delivered + self.conflated + self.in_images + self.outside_view
    }
}

/// What it knows of one item.
#[derive(Debug)]
struct Watched {
    name: String,
    habit: Habit,
    image: Option<Item>,
    is_good: bool,
    /// It was told that the item is suspect and has had no refresh since.
    awaits_refresh: bool,
    /// A number was skipped and has not been made good yet.
    skipped: bool,
    /// After a time in which it was suspect it may be older than before.
    may_go_back: bool,
    /// The number of its first image.
    first: u32,
    /// What became of everything since.
    tally: Tally,
}

/// The first stream of an item.
const FIRST_STREAM: i32 = 5;
/// After so many messages a stream is paused, or goes on.
const PAUSE_EVERY: u32 = 25;

impl Consumer {
    pub(crate) fn new(wanted: Vec<String>, habit: Habit) -> Consumer {
        let (message_count, paused) = (0, None);
        let (service, watched, tally) = (None, BTreeMap::new(), Tally::default());
        Consumer { wanted, habit, message_count, paused, service, watched, tally, may_go_back: false }
    }

    /// What it has had in all.
    pub(crate) fn tally(&self) -> Tally {
        let mut sum = self.tally;
        for watched in self.watched.values() {
            sum.delivered += watched.tally.delivered;
            sum.conflated += watched.tally.conflated;
        }
        sum
    }

    /// What it sends when it has connected.
    pub(crate) fn greeting(&mut self) -> Vec<Vec<u8>> {
        self.service = None;
        self.paused = None;
        self.tally = self.tally();
        self.watched.clear();
        vec![
            LoginRequest::consumer(b"sim").to_vec().expect("short"),
            DirectoryRequest::all(2).to_vec().expect("short"),
        ]
    }

    /// Takes a message and returns what it sends in answer.
    pub(crate) fn on_message(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let msg = Msg::parse(bytes).expect("a server sends whole messages");
        match msg.domain() {
            Domain::SOURCE => self.on_directory(&msg),
            Domain::MARKET_PRICE => {
                let watched = self.watched.get_mut(&msg.stream_id()).expect("only streams that were opened");
                watched.on_message(&msg);
                self.message_count += 1;
                let is_time = self.habit == Habit::Pauses && self.message_count.is_multiple_of(PAUSE_EVERY);
                if is_time { self.pause_or_go_on() } else { Vec::new() }
            }
            _ => Vec::new(),
        }
    }

    /// Lets the paused stream go on, or pauses one.
    fn pause_or_go_on(&mut self) -> Vec<Vec<u8>> {
        if self.paused.is_some() {
            return self.go_on();
        }
        let stream_id = FIRST_STREAM + (self.message_count / PAUSE_EVERY % self.wanted.len() as u32) as i32;
        self.paused = Some(stream_id);
        let pause = ItemRequest { pause: true, no_refresh: true, ..self.request(stream_id) };
        vec![pause.to_vec().expect("short")]
    }

    /// Pauses nothing any more; what lets the paused stream go on.
    pub(crate) fn settle(&mut self) -> Vec<Vec<u8>> {
        let last = self.go_on();
        if self.habit == Habit::Pauses {
            self.habit = Habit::Watches;
        }
        last
    }

    /// What lets the paused stream go on, if there is one: with a refresh, whether it is wanted or not.
    fn go_on(&mut self) -> Vec<Vec<u8>> {
        let Some(stream_id) = self.paused.take() else { return Vec::new() };
        let no_refresh = self.message_count.is_multiple_of(2 * PAUSE_EVERY);
        vec![ItemRequest { no_refresh, ..self.request(stream_id) }.to_vec().expect("short")]
    }

    /// The request for the item of a stream.
    fn request(&self, stream_id: i32) -> ItemRequest<'_> {
        let name = &self.wanted[(stream_id - FIRST_STREAM) as usize];
        let key = key_of(self.service.expect("it was found"), name);
        let view = if let Habit::Views(id) = self.habit { Some(View::Fields([id].into())) } else { None };
        let paces = self.habit == Habit::Paces;
        let rate = if paces { Rate::TimeConflated(INTERVAL_MS) } else { Rate::TickByTick };
        let qos = Some(Qos { rate, ..Qos::REAL_TIME });
        let conflation_info_in_updates = true;
        ItemRequest {
            view,
            qos,
            conflation_info_in_updates,
            ..ItemRequest::streaming(Domain::MARKET_PRICE, stream_id, key)
        }
    }

    /// Asks for its items when the service appears.
    fn on_directory(&mut self, msg: &Msg<'_>) -> Vec<Vec<u8>> {
        let services = match DirectoryMsg::parse(msg).expect("a server's directory has a meaning") {
            DirectoryMsg::Refresh(refresh) => refresh.services,
            DirectoryMsg::Update(update) => update.services,
            _ => Vec::new(),
        };
        let mut directory = rdm::directory::Directory::default();
        let update = rdm::directory::DirectoryUpdate { stream_id: 2, filter: None, services };
        // Updates of a service that is known already name it by its id alone.
        let Ok(_) = directory.apply_update(&update) else { return Vec::new() };
        let Some(service) = directory.service_by_name(SERVICE).map(|s| s.id) else { return Vec::new() };
        if self.service.replace(service).is_some() {
            return Vec::new();
        }
        let mut requests = Vec::new();
        for (stream_id, name) in (FIRST_STREAM..).zip(&self.wanted) {
            requests.push(self.request(stream_id).to_vec().expect("short"));
            let watched = Watched {
                name: name.clone(),
                habit: self.habit,
                image: None,
                is_good: false,
                awaits_refresh: false,
                skipped: false,
                may_go_back: self.may_go_back,
                first: 0,
                tally: Tally::default(),
            };
            self.watched.insert(stream_id, watched);
        }
        requests
    }

    /// What is wrong with what it knows, compared with the truth; nothing if all is well.
    pub(crate) fn faults(&self, truth: &BTreeMap<String, Item>) -> Vec<String> {
        if self.watched.len() < self.wanted.len() {
            return vec![format!("watches {} of {} items", self.watched.len(), self.wanted.len())];
        }
        self.watched
            .values()
            .filter(|w| {
                let truth = truth.get(&w.name).copied();
                !w.agrees(truth) || !w.is_good || w.awaits_refresh || w.skipped || !w.accounts_for(truth)
            })
            .map(|w| format!("{w:?} instead of {:?}", truth.get(&w.name)))
            .collect()
    }
}

impl Watched {
    /// Whether what it knows is the truth, as far as it has asked for it.
    fn agrees(&self, truth: Option<Item>) -> bool {
        let (Some(image), Some(truth)) = (self.image, truth) else { return false };
        match self.habit {
            Habit::Watches | Habit::Pauses | Habit::Paces => image == truth,
            Habit::Views(COUNT) => (image.seq_num, image.count) == (truth.seq_num, truth.count),
            // Changes of the other field alone are not sent, with their numbers.
            Habit::Views(_) => image.other == truth.other,
        }
    }

    /// Whether each message of the provider since the first image was received, or something stood for it.
    fn accounts_for(&self, truth: Option<Item>) -> bool {
        let Some(truth) = truth else { return false };
        // Of the last ones its view may show nothing.
        let last = if self.habit == Habit::Views(OTHER) { self.image } else { Some(truth) };
        last.is_some_and(|last| u64::from(last.seq_num - self.first) == self.tally.sum())
    }

    fn on_message(&mut self, msg: &Msg<'_>) {
        match msg {
            Msg::Refresh(refresh) => {
                assert!(refresh.complete, "{}: images of two fields come whole", self.name);
                assert_eq!(label_of(&refresh.key.expect("a refresh says what it is of")), self.name);
                let seq_num = refresh.seq_num.expect("the provider numbers its messages");
                let went_back = self.image.is_some_and(|before| seq_num < before.seq_num);
                if went_back && self.may_go_back {
                    assert!(!self.is_good, "{}: the image went back while it was good", self.name);
                    let is_good = refresh.state.data == DataState::Ok;
                    assert!(is_good, "{}: the image went back to one that is suspect", self.name);
                    (self.first, self.tally) = (seq_num, Tally::default());
                } else if let Some(before) = self.image {
                    assert!(seq_num >= before.seq_num, "{}: the image went back: {before:?}", self.name);
                    self.tally.in_images += u64::from(seq_num - before.seq_num);
                } else {
                    self.first = seq_num;
                }
                let mut image = Item { seq_num, count: 0, other: 0 };
                image.apply(refresh.payload);
                self.image = Some(image);
                self.is_good = refresh.state.data == DataState::Ok;
                self.awaits_refresh = false;
                self.skipped = false;
            }
            Msg::Update(update) => {
                let name = &self.name;
                let image =
                    self.image.as_mut().unwrap_or_else(|| panic!("{name}: update before any refresh"));
                let seq_num = update.seq_num.expect("the provider numbers its messages");
                assert!(seq_num > image.seq_num, "{name}: update {seq_num} after {image:?}");
                assert!(!self.awaits_refresh, "{name}: update {seq_num} after suspect, before a refresh");
                // A conflated update stands for several; only those say that nothing is to ripple here.
                let conflated = update.conflation.map(|conflation| u32::from(conflation.count));
                assert_eq!(conflated.is_some(), update.do_not_ripple, "{name}: conflated updates say so");
                let stands_for = conflated.unwrap_or(1);
                let is_next = seq_num == image.seq_num + stands_for;
                let is_view = self.habit == Habit::Views(OTHER) && seq_num > image.seq_num + stands_for;
                let follows = is_next || is_view;
                assert!(follows || !self.is_good, "{name}: update {seq_num} behind a hole after {image:?}");
                self.skipped |= !follows;
                match conflated {
                    Some(updates) => self.tally.conflated += u64::from(updates),
                    None => self.tally.delivered += 1,
                }
                if follows {
                    self.tally.outside_view += u64::from(seq_num - image.seq_num - stands_for);
                } else {
                    // What was skipped is in the image that makes it good.
                    self.tally.in_images += u64::from(seq_num - image.seq_num - stands_for);
                }
                image.seq_num = seq_num;
                image.apply(update.payload);
                if let Habit::Views(id) = self.habit {
                    let list = FieldList::parse(update.payload).expect("a field list");
                    assert!(list.entries().all(|field| field.expect("whole fields").id == id), "{name}");
                    assert!(list.standard_count() > 0, "{name}: an update that shows nothing");
                }
            }
            Msg::Status(status) => {
                let state = status.state.expect("a server's status has a state");
                assert_eq!(state.stream, StreamState::Open, "{}: no item is ever closed here", self.name);
                assert_eq!(state.data, DataState::Suspect, "{}: only a refresh makes good", self.name);
                self.is_good = false;
                // Items whose provider is away are suspect and go on as soon as it publishes again.
                self.awaits_refresh |= self.image.is_some() && !state.text_lossy().contains("provider");
            }
            other => panic!("{}: {other:?}", self.name),
        }
    }
}

/// The fields of an item of a simulator: their ids and whole numbers.
///
/// # Panics
/// There is something else.
pub fn numbers(payload: &[u8]) -> impl Iterator<Item = (i16, i64)> {
    FieldList::parse(payload).expect("a field list").entries().map(|field| {
        let field = field.expect("whole fields");
        let value: Option<Real> = Real::decode(field.content).expect("a real");
        (field.id, value.expect("not blank").to_f64() as i64)
    })
}

impl Item {
    fn apply(&mut self, payload: &[u8]) {
        for (id, value) in numbers(payload) {
            match id {
                COUNT => self.count = value,
                OTHER => self.other = value,
                other => panic!("field {other} was never published"),
            }
        }
    }
}
