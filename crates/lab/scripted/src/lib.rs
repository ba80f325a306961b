//! A source distributor of one service, at the other end of a backbone that is memory: it says what a test or a
//! measurement scripts. Tests of the P2PS and `tickcast bench cost` share it.
//!
//! ```
//! use tickcast_scripted::{BID, Script, image};
//!
//! let script = Script::new("TESTS");
//! script.serve(&[("EUR=", image(&[(BID, 7)]))]);
//! assert_eq!(script.taken_of_sent(), (0, 0));
//! ```

use std::cell::RefCell;
use std::rc::Rc;

use backbone::{Inlet, InletCommand, InletEvents};
use market::backbone::{Features, HopPart, HopTimes, Kind, LinkDown, LinkUp, Passage, StreamMsg};
use market::p2ps::{SourceId, Topic};
use net::{Ready, clock};
use rdm::ToVec;
use rdm::directory::{DirectoryRefresh, Filter, Info, Service, ServiceState};
use rwf::{Buffer, DataType, Domain, Msg, Real, RefreshMsg, UpdateMsg};
use units::Nanos;

const INSTANCE: u64 = 77;
const DIRECTORY: SourceId = SourceId(0);
const STREAM: SourceId = SourceId(1);
const SERVICE: u16 = 1;

/// The field of the bid.
pub const BID: i16 = 22;
/// The field of the ask.
pub const ASK: i16 = 25;
/// A real that none can read, for want of such a format and length.
pub const GARBAGE: i64 = i64::MIN;

/// What comes on the backbone, shared with the server that it comes to.
#[derive(Clone)]
pub struct Script(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    /// The name of the service.
    name: String,
    is_there: bool,
    sequence: u64,
    /// Updates carry hop stamps.
    stamps: bool,
    /// Items, their images, and whether their topic has opened them.
    items: Vec<(String, Vec<u8>)>,
    /// Stream messages that are to come.
    coming: Vec<Vec<u8>>,
    links: Vec<Vec<u8>>,
    /// The conversation of the private stream that was asked for last.
    private: Option<u64>,
    /// What clients have said that is no request.
    private_messages: usize,
    /// What was reported last: service and sequence.
    taken: Option<(u16, u64)>,
    /// So often a socket fills a batch, and how often it was looked at.
    batches: usize,
    looks: usize,
}

impl Script {
    /// A distributor of a service of this name. It is not there until it serves something.
    #[must_use]
    pub fn new(service: &str) -> Script {
        Script(Rc::new(RefCell::new(State { name: service.to_owned(), ..State::default() })))
    }

    /// The service is there from now on, with these items.
    pub fn serve(&self, items: &[(&str, Vec<u8>)]) {
        let mut state = self.0.borrow_mut();
        state.items = items.iter().map(|(name, image)| ((*name).to_owned(), image.clone())).collect();
    }

    /// Updates carry hop stamps from now on: of a source distributor that has read and published them at this moment.
    pub fn stamp(&self) {
        self.0.borrow_mut().stamps = true;
    }

    /// Something is said of the first item.
    pub fn say(&self, kind: Kind, body: &[u8]) {
        self.0.borrow_mut().publish(kind, 1, body);
    }

    /// Something is said of an item, counted from one.
    pub fn say_of(&self, item: u32, kind: Kind, body: &[u8]) {
        self.0.borrow_mut().publish(kind, item, body);
    }

    /// Something comes on the private stream.
    ///
    /// # Panics
    /// Nobody has asked for one.
    pub fn say_privately(&self, message: &[u8]) {
        let mut state = self.0.borrow_mut();
        let conversation = state.private.expect("a private stream was asked for");
        state.answer(&LinkDown::PrivateMessage { conversation, message });
    }

    /// Up to which number the server has said that it has taken the stream, and up to which it was sent.
    #[must_use]
    pub fn taken_of_sent(&self) -> (u64, u64) {
        let state = self.0.borrow();
        (state.taken.map_or(0, |(_, sequence)| sequence), state.sequence)
    }

    /// A socket of the backbone holds so many batches, each with an update of the first item.
    pub fn fill_socket(&self, batches: usize) {
        let mut state = self.0.borrow_mut();
        (state.batches, state.looks) = (batches, 0);
    }

    /// How often that socket was looked at, and how many batches it still holds.
    #[must_use]
    pub fn looks_and_batches(&self) -> (usize, usize) {
        let state = self.0.borrow();
        (state.looks, state.batches)
    }

    /// How many messages came on private streams.
    #[must_use]
    pub fn private_messages(&self) -> usize {
        self.0.borrow().private_messages
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script").finish_non_exhaustive()
    }
}

impl State {
    fn publish(&mut self, kind: Kind, item: u32, body: &[u8]) {
        self.sequence += 1;
        let part = if self.stamps && kind == Kind::Update {
            let now = clock::wall_ns();
            Some(HopTimes { distributor: Passage { came: now, left: now }, relay: None }.part())
        } else {
            None
        };
        let parts = part.as_ref().map_or(&[][..], HopPart::bytes);
        let msg = StreamMsg { kind, instance: INSTANCE, sequence: self.sequence, item, parts, body };
        self.coming.push([&msg.header()[..], parts, body].concat());
    }

    fn answer(&mut self, msg: &LinkDown<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.links.push(bytes);
    }

    fn on_link(&mut self, msg: &LinkUp<'_>) {
        match *msg {
            LinkUp::Hello { .. } => {
                self.answer(&LinkDown::HelloAck { instance: INSTANCE, features: Features::OURS })
            }
            LinkUp::Interest { key } | LinkUp::ImageRequest { key } | LinkUp::Resume { key } => {
                let place = self.items.iter().position(|(known, _)| known.as_bytes() == key.name);
                let place = place.expect("a test asks for what it serves");
                let (item, refresh) = (place as u32 + 1, self.items[place].1.clone());
                let open = [&[key.domain.0, key.name.len() as u8], key.name].concat();
                self.publish(Kind::Open, item, &open);
                let after = self.sequence;
                self.answer(&LinkDown::Image { item, after, key, refresh: &refresh });
            }
            LinkUp::PrivateRequest { conversation, .. } => self.private = Some(conversation),
            LinkUp::PrivateMessage { .. } => self.private_messages += 1,
            LinkUp::Progress { positions } => self.taken = LinkUp::positions(positions).last(),
            LinkUp::NoInterest { .. } | LinkUp::GapQuery { .. } | LinkUp::ClientMessage { .. } => {}
        }
    }
}

impl Inlet for Script {
    fn execute(&mut self, now: Nanos, command: InletCommand, events: &mut impl InletEvents) {
        match command {
            InletCommand::Subscribe(name) => events.on_source(now, STREAM, Topic::Service(&name), INSTANCE),
            InletCommand::Connect { instance, .. } => events.on_link_up(now, instance),
            InletCommand::Send { bytes, .. } => {
                self.0.borrow_mut().on_link(&LinkUp::parse(&bytes).expect("of the server"));
            }
            InletCommand::Unsubscribe(_) | InletCommand::Disconnect(_) => {}
        }
    }

    fn on_ready(&mut self, now: Nanos, _: Ready, events: &mut impl InletEvents) -> bool {
        let mut state = self.0.borrow_mut();
        state.looks += 1;
        let is_full = state.batches > 0;
        let message = is_full.then(|| {
            state.batches -= 1;
            state.publish(Kind::Update, 1, &update(&[(BID, 1)]));
            state.coming.pop().expect("just made")
        });
        drop(state);
        if let Some(message) = message {
            events.on_stream_message(now, STREAM, &message);
        }
        is_full
    }

    fn on_wakeup(&mut self, now: Nanos, events: &mut impl InletEvents) {
        let mut state = self.0.borrow_mut();
        let is_new = !std::mem::replace(&mut state.is_there, true);
        let (coming, links) = (std::mem::take(&mut state.coming), std::mem::take(&mut state.links));
        let name = if is_new { state.name.clone() } else { String::new() };
        drop(state);
        if is_new {
            events.on_source(now, DIRECTORY, Topic::Directory, INSTANCE);
            events.on_stream_message(now, DIRECTORY, &directory(&name));
        }
        coming.iter().for_each(|bytes| events.on_stream_message(now, STREAM, bytes));
        links.iter().for_each(|bytes| events.on_link_message(now, INSTANCE, bytes));
    }

    fn next_wakeup(&self) -> Nanos {
        let state = self.0.borrow();
        let is_idle =
            state.items.is_empty() || state.is_there && state.coming.is_empty() && state.links.is_empty();
        if is_idle { Nanos::NEVER } else { Nanos::ZERO }
    }

    fn flush(&mut self, _: Nanos) {}
}

fn directory(name: &str) -> Vec<u8> {
    let service = Service {
        id: SERVICE,
        info: Info { name: name.to_owned(), capabilities: vec![Domain::MARKET_PRICE], ..Info::default() },
        state: ServiceState { up: true, ..ServiceState::default() },
        ..Service::default()
    };
    let refresh = DirectoryRefresh::publish(0, Filter::ALL, &[service]).expect("unique");
    let body = refresh.to_vec().expect("legal");
    let msg = StreamMsg {
        kind: Kind::Directory,
        instance: INSTANCE,
        sequence: 1,
        item: 0,
        parts: &[],
        body: &body,
    };
    [&msg.header()[..], &body].concat()
}

fn fields(all: &[(i16, i64)]) -> Vec<u8> {
    rwf::encode_to_vec(|w| {
        w.field_list(|f| {
            for &(id, value) in all {
                match value {
                    GARBAGE => f.put(id, Buffer(&[0xFF; 12])),
                    value => f.put(id, Real::decimal(value, 0)),
                }
            }
        });
    })
    .expect("legal")
}

/// An image of these fields, with whole numbers.
#[must_use]
pub fn image(all: &[(i16, i64)]) -> Vec<u8> {
    image_of(&fields(all))
}

/// An image with this list of fields.
#[must_use]
pub fn image_of(payload: &[u8]) -> Vec<u8> {
    let msg = RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
    Msg::Refresh(RefreshMsg { complete: true, payload, ..msg }).to_vec().expect("legal")
}

/// An update of these fields, with whole numbers.
#[must_use]
pub fn update(all: &[(i16, i64)]) -> Vec<u8> {
    update_of(&fields(all))
}

/// An update with this list of fields.
#[must_use]
pub fn update_of(payload: &[u8]) -> Vec<u8> {
    let msg = UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
    Msg::Update(UpdateMsg { payload, ..msg }).to_vec().expect("legal")
}
