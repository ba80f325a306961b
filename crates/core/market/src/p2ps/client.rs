//! A client: its login, its streams, and what is left of its last message.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use rdm::directory::DirectoryRequest;
use rdm::login::{LoginRequest, StandbyRole};
use units::{Hashing, Nanos};

use super::audience::{Form, OnSuspect};
use super::base::ClientId;
use super::item::Item;
use super::ledger::{before, updates_between};
use super::paced::PacedStream;
use crate::users::Credentials;

/// What is to be known of a client's connection: how it takes what is long, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientProfile {
    /// About how many bytes a part of a dictionary may have; `usize::MAX` for all in one message.
    pub dictionary_part_bytes: usize,
    /// About how many bytes a part of a refresh may have; `usize::MAX` for all in one message.
    pub refresh_part_bytes: usize,
    /// The client's IPv4 address as a number, 0 if it has none: who posts.
    pub address: u32,
}

impl Default for ClientProfile {
    /// Parts that fit one RSSL message.
    fn default() -> Self {
        ClientProfile { dictionary_part_bytes: 60_000, refresh_part_bytes: 60_000, address: 0 }
    }
}

/// One connection.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) profile: ClientProfile,
    pub(super) login: Option<Login>,
    /// The place of its user's class.
    pub(super) class: Option<usize>,
    /// Open directory streams.
    pub(super) directories: Vec<DirectoryRequest>,
    /// Open item streams. Their order is seen by others when the client leaves.
    pub(super) streams: HashMap<i32, Stream, Hashing>,
    /// Open private streams, with their conversations.
    pub(super) private: BTreeMap<i32, u64>,
    /// Streams for which an image is due or that were not sent the last updates, in order; some may be closed, or have had
    /// an image.
    pub(super) due: VecDeque<i32>,
    /// How it is served if it does not keep up.
    pub(super) conflation: Conflation,
    /// Streams that are sent one update in an interval.
    pub(super) paced: BTreeMap<i32, PacedStream>,
    /// What is left of its last message.
    pub(super) continuation: Option<Box<Continuation>>,
    /// What few clients have.
    seldom: Option<Box<Seldom>>,
}

/// What few clients have.
#[derive(Debug, Default)]
pub(super) struct Seldom {
    /// Streams that the client has paused one by one.
    pub(super) paused: BTreeSet<i32>,
    /// The numbers under which instances answer what went up on a stream, of those on which something did.
    pub(super) conversations: BTreeMap<i32, u64>,
    /// Of streams that wait for an image, the number of the item's last update before those that they were not sent.
    pub(super) due_after: BTreeMap<i32, NonZeroU32>,
    /// What the services here are to it, if it has several servers for them.
    pub(super) service_roles: BTreeMap<u16, StandbyRole>,
}

/// An open item stream: what every one of them has. There are millions, so what few have stands beside them, in maps of
/// the [`Client`].
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// How the stream wants its item.
    pub(super) form: Arc<Form>,
    /// The place of the item in the table.
    index: u32,
    /// The lower half of its serial number. A stream outlives its item for some turns at most.
    serial: u32,
}

impl Stream {
    /// A stream of the item at a place of the table, of which there are fewer than 4 billion.
    pub(super) fn new(form: Arc<Form>, index: usize, item: &Item) -> Stream {
        Stream { form, index: index as u32, serial: item.serial as u32 }
    }

    /// Whether it is of this item, which is in its place, and not of an earlier one there.
    pub(super) fn is_of(&self, item: &Item) -> bool {
        self.serial == item.serial as u32
    }

    /// The place of the item in the table.
    #[inline]
    pub(super) fn index(&self) -> usize {
        self.index as usize
    }
}

/// A stream that was taken off its client's list.
pub(super) struct ClosedStream {
    pub(super) stream: Stream,
    /// The number under which instances answer what went up on it.
    pub(super) conversation: Option<u64>,
    /// The number of the item's last update before those that it was not sent and waited for, if it did.
    owed_after: Option<NonZeroU32>,
}

impl ClosedStream {
    /// How many of the last updates of its item it was not sent and waited for, `last` being the number of the last one.
    pub(super) fn owed(&self, last: NonZeroU32) -> u64 {
        self.owed_after.map_or(0, |from| updates_between(from, last))
    }
}

/// What a stream was not sent first, of the updates that it was not sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changed {
    /// The number of that update of the item.
    pub(super) from: NonZeroU32,
    /// When it came, in milliseconds of a clock that begins again at 0 after 49 days.
    pub(super) at_ms: u32,
}

/// The time as [`Changed::at_ms`] has it.
pub(super) fn clock_ms(now: Nanos) -> u32 {
    (now.0 / 1_000_000) as u32
}

/// How a client is served that does not keep up.
#[derive(Clone, Debug, Default)]
pub(super) struct Conflation {
    /// Since when its updates are conflated, if they are.
    pub(super) since: Option<Nanos>,
    /// Since when it is sent the newest values in rounds, if it is.
    pub(super) at_interval_since: Option<Nanos>,
    /// Streams that are to be served before its round is over.
    pub(super) round_left: usize,
    /// Streams that were not sent the last updates of their items.
    pub(super) changed: BTreeMap<i32, Changed>,
    /// Updates that it was not sent because it was sent later values.
    pub(super) updates: u64,
}

impl Client {
    /// A connection that is new. Clients do not know `seed`.
    pub(super) fn new(profile: ClientProfile, seed: u64) -> Client {
        Client { profile, streams: HashMap::with_hasher(Hashing::of(seed)), ..Client::default() }
    }

    /// Takes a stream off the list.
    pub(super) fn take_stream(&mut self, stream_id: i32) -> Option<ClosedStream> {
        let stream = self.streams.remove(&stream_id)?;
        Some(self.close(stream_id, stream))
    }

    /// A stream is off the list: what stands beside it goes with it.
    pub(super) fn close(&mut self, stream_id: i32, stream: Stream) -> ClosedStream {
        let owed_after = self.owed_after(stream_id);
        self.conflation.changed.remove(&stream_id);
        self.paced.remove(&stream_id);
        let conversation = self.seldom.as_mut().and_then(|seldom| {
            seldom.paused.remove(&stream_id);
            seldom.due_after.remove(&stream_id);
            seldom.conversations.remove(&stream_id)
        });
        ClosedStream { stream, conversation, owed_after }
    }

    fn owed_after(&self, stream_id: i32) -> Option<NonZeroU32> {
        let due_after = self.seldom().and_then(|seldom| seldom.due_after.get(&stream_id)).copied();
        due_after.or_else(|| self.conflation.changed.get(&stream_id).map(|changed| before(changed.from)))
    }

    /// How many of the last updates of its item a stream was not sent and waits for, `last` being the number of the last
    /// one.
    pub(super) fn owed(&self, stream_id: i32, last: NonZeroU32) -> u64 {
        self.owed_after(stream_id).map_or(0, |from| updates_between(from, last))
    }

    /// Notes whether a stream is paused by itself.
    pub(super) fn set_paused(&mut self, stream_id: i32, is_paused: bool) {
        if is_paused {
            self.seldom_mut().paused.insert(stream_id);
        } else if let Some(seldom) = &mut self.seldom {
            seldom.paused.remove(&stream_id);
        }
    }

    /// Whether a stream is paused by itself.
    pub(super) fn has_paused(&self, stream_id: i32) -> bool {
        self.seldom.as_ref().is_some_and(|seldom| seldom.paused.contains(&stream_id))
    }

    /// What few clients have, if this one has any of it.
    pub(super) fn seldom(&self) -> Option<&Seldom> {
        self.seldom.as_deref()
    }

    /// The number of the item's last update before those that a stream was not sent because it waits for an image; it
    /// waits no longer.
    pub(super) fn take_due_after(&mut self, stream_id: i32) -> Option<NonZeroU32> {
        self.seldom.as_mut()?.due_after.remove(&stream_id)
    }

    /// Whether a stream waits for an image after one that it has had.
    pub(super) fn is_due(&self, stream_id: i32) -> bool {
        self.seldom().is_some_and(|seldom| seldom.due_after.contains_key(&stream_id))
    }

    /// Where what few clients have is put.
    pub(super) fn seldom_mut(&mut self) -> &mut Seldom {
        self.seldom.get_or_insert_default()
    }

    /// Whether a stream is paused, by itself or with all others.
    pub(super) fn pauses(&self, stream_id: i32) -> bool {
        self.has_paused(stream_id) || self.login.as_ref().is_some_and(|login| login.is_paused)
    }

    /// Open item streams, private ones among them.
    pub(super) fn stream_count(&self) -> usize {
        self.streams.len() + self.private.len()
    }
}

/// What a status page shows of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo<'a> {
    /// The connection.
    pub client: ClientId,
    /// The user's name; empty before the login.
    pub user: &'a str,
    /// Where the user is, as the client says.
    pub position: &'a str,
    /// What the client says it is.
    pub application: &'a str,
    /// The id of the application, as the client says.
    pub application_id: &'a str,
    /// It has logged in.
    pub is_logged_in: bool,
    /// Open item streams.
    pub streams: usize,
    /// It has paused all its streams.
    pub is_paused: bool,
    /// The class of its user; empty if it has none.
    pub class: &'a str,
    /// Since when its updates are conflated because it reads too slowly, if they are.
    pub conflated_since: Option<Nanos>,
    /// Since when it is sent the newest values in rounds because it is too slow for that, if it is.
    pub at_interval_since: Option<Nanos>,
    /// Streams that have changed and are sent the newest values when there is room.
    pub changed_streams: usize,
    /// Updates that it was not sent because it was sent later values.
    pub updates_conflated: u64,
    /// The round trip to the client's application as measured last, in microseconds.
    pub round_trip_us: Option<u64>,
    /// What this server is to it, if it has several for the same data and has said so on the login stream.
    pub role: Option<StandbyRole>,
    /// The same of services by name, as said on a directory stream.
    pub service_roles: Vec<(&'a str, StandbyRole)>,
}

/// What is left of a client's message.
#[derive(Debug)]
pub(super) enum Continuation {
    /// A dictionary, from a part on.
    Dictionary { request: Box<[u8]>, next: usize },
    /// A batch, from an item or stream of it on.
    Batch { request: Box<[u8]>, form: Arc<Form>, next: usize },
    /// Streams that pause or go on, the last first.
    Pause { stream_ids: Vec<i32>, is_paused: bool },
    /// Streams that get the present image unasked, the last first.
    Images { stream_ids: Vec<i32> },
}

/// What a client has said about itself.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) stream_id: i32,
    pub(super) credentials: Credentials,
    pub(super) application: String,
    /// What becomes of the streams it opens from now on when their data is suspect.
    pub(super) on_suspect: OnSuspect,
    /// All its streams are paused.
    pub(super) is_paused: bool,
    /// It lets the round trip be measured.
    pub(super) round_trip: Option<Measurement>,
    /// The number under which instances answer what went up on the login stream.
    pub(super) conversation: Option<u64>,
    /// What this server is to it, if it has several for the same data.
    pub(super) role: Option<StandbyRole>,
}

/// The measurement of a client's round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measurement {
    /// When the next one begins.
    pub(super) next_at: Nanos,
    /// When the one under way began.
    pub(super) sent_at: Option<Nanos>,
    pub(super) last_us: Option<u64>,
}

impl Login {
    pub(super) fn of(request: &LoginRequest<'_>, credentials: Credentials) -> Login {
        Login {
            stream_id: request.stream_id,
            credentials,
            application: String::from_utf8_lossy(request.application_name.unwrap_or_default()).into_owned(),
            on_suspect: match (request.allow_suspect_data, request.single_open) {
                (false, _) => OnSuspect::Close,
                (true, false) => OnSuspect::CloseIfLost,
                (true, true) => OnSuspect::Report,
            },
            is_paused: request.pause,
            round_trip: None,
            conversation: None,
            role: None,
        }
    }

    pub(super) fn round_trip_us(&self) -> Option<u64> {
        self.round_trip?.last_us
    }
}
