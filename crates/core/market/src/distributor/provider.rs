//! A provider: what it offers, and what its streams are for.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use rdm::directory::{Directory, Service};
use rdm::login::LoginRequest;
use rwf::Domain;
use units::Nanos;

use super::bulk_changes::BulkChange;
use super::notices::DictionaryDifference;
use super::provider_streams::ProviderStreams;
use super::sweep::ItemIndices;
use super::timers::Due;
use crate::users::Credentials;

/// Who this instance says it is at a provider, and what it wants there.
#[derive(Clone, Debug, Default)]
pub struct DialSpec {
    /// What the provider is called in configuration and status pages.
    pub name: String,
    /// The user that logs in, at most 255 bytes.
    pub user: String,
    /// The password, if one is sent.
    pub password: Option<String>,
    /// Id of the application in the permission system.
    pub application_id: String,
    /// Name of the application.
    pub application_name: String,
    /// Where the user sits.
    pub position: String,
    /// The names of the services that are taken from it, as it has them; all that it has if there are none.
    pub services: Vec<String>,
    /// Services that have another name here: by their names there.
    pub renamed: BTreeMap<String, String>,
    /// It is asked for items only while no other provider can be.
    pub is_standby: bool,
}

impl DialSpec {
    fn wants(&self, service: &Service) -> bool {
        self.services.is_empty() || self.services.contains(&service.info.name)
    }

    pub(super) fn login(&self) -> LoginRequest<'_> {
        LoginRequest {
            application_id: self.application_id.as_bytes(),
            application_name: Some(self.application_name.as_bytes()),
            position: Some(self.position.as_bytes()),
            password: self.password.as_ref().map(String::as_bytes),
            round_trip_latency: Some(2),
            ..LoginRequest::consumer(self.user.as_bytes())
        }
    }
}

/// How far a dialled provider has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialStage {
    /// The login waits for its answer.
    LoggingIn,
    /// The directory is asked for.
    AwaitingDirectory,
    /// Items can be asked for.
    Ready,
}

/// A dialled provider, for status pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DialledStatus<'a> {
    /// What configuration calls it.
    pub name: &'a str,
    /// How far it has come.
    pub stage: DialStage,
    /// The services that are taken from it.
    pub services: usize,
    /// Items open at it.
    pub items_open: usize,
    /// Items asked for whose answer is not there.
    pub items_pending: usize,
    /// How its dictionaries differ from those that clients get.
    pub differences: &'a [DictionaryDifference],
}

/// What is known of a dialled provider beside what is known of every provider.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) spec: Arc<DialSpec>,
    pub(super) stage: DialStage,
    /// Until when login and directory have to be answered.
    pub(super) due: Option<Due>,
    /// Its login says that it takes posts.
    pub(super) takes_posts: bool,
    pub(super) next_stream_id: i32,
    pub(super) dictionaries: Comparison,
    /// The services that are taken from it, by our ids.
    pub(super) offers: BTreeMap<u16, Offer>,
}

/// A service at one provider.
#[derive(Debug)]
pub(super) struct Offer {
    /// Its id there.
    pub(super) theirs: u16,
    /// What the provider says about it, with our id.
    pub(super) definition: Service,
    /// It is asked for items only while no other can be.
    pub(super) is_standby: bool,
    /// It has its data from this instance.
    pub(super) is_loop: bool,
    /// Streams open there.
    pub(super) open_count: usize,
    /// Streams asked for there, whose answer has not come.
    pub(super) pending_count: usize,
    /// A number of [`super::items::Items::sweep`]: streams of items that sweeps up to it are done with, and none behind it, are
    /// of an earlier offer, and not counted.
    pub(super) since: u64,
    /// The operators know that its limit makes items wait.
    pub(super) is_limit_reported: bool,
}

impl Offer {
    /// Whether it can be asked for items now.
    pub(super) fn is_available(&self) -> bool {
        self.is_up() && self.definition.state.accepting_requests != Some(false)
    }

    /// Whether its service is up there, and not by way of this instance.
    pub(super) fn is_up(&self) -> bool {
        self.definition.state.up && !self.is_loop
    }

    /// Whether a stream is open there, or asked for.
    pub(super) fn is_used(&self) -> bool {
        self.open_count + self.pending_count > 0
    }

    /// Whether it has items of a domain.
    pub(super) fn has_domain(&self, domain: Domain) -> bool {
        self.definition.info.capabilities.contains(&domain)
    }

    /// Whether it has as many streams open as it takes.
    pub(super) fn is_full(&self) -> bool {
        let open = (self.open_count + self.pending_count) as u64;
        self.definition.load.open_limit.is_some_and(|limit| open >= limit)
    }

    /// Whether one more item can be asked for, with at most `window` waiting for answers.
    pub(super) fn has_room(&self, window: usize) -> bool {
        let load = &self.definition.load;
        let below = |count: usize, limit: Option<u64>| limit.is_none_or(|limit| (count as u64) < limit);
        self.is_available()
            && self.pending_count < window
            && below(self.pending_count, load.open_window)
            && !self.is_full()
    }
}

/// The first stream of an item; login, directory and dictionaries have those before.
pub(super) const FIRST_STREAM_ID: i32 = 5;

pub(super) const DIRECTORY_STREAM_ID: i32 = 2;

impl Dialled {
    /// The services of its directory that are taken from it, by their names there.
    pub(super) fn wanted<'d>(&self, directory: &'d Directory) -> impl Iterator<Item = &'d Service> {
        directory.services().filter(|s| self.spec.wants(s))
    }

    /// The same by their names here.
    pub(super) fn wanted_as_ours(&self, directory: &Directory) -> Vec<Service> {
        let rename = |service: &Service| {
            let mut service = service.clone();
            if let Some(ours) = self.spec.renamed.get(&service.info.name) {
                service.info.name.clone_from(ours);
            }
            service
        };
        self.wanted(directory).map(rename).collect()
    }

    /// An id for a stream, which none of `used` has. Ids are given again only after all others.
    pub(super) fn take_stream_id(&mut self, used: &ProviderStreams) -> i32 {
        loop {
            let id = self.next_stream_id;
            self.next_stream_id = id.checked_add(1).unwrap_or(FIRST_STREAM_ID);
            if !used.contains(id) {
                return id;
            }
        }
    }
}

/// What was found out about the dictionaries of one provider.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// The stream on which each kind was asked for.
    pub(super) asked: [bool; 2],
    pub(super) differences: Vec<DictionaryDifference>,
}

/// One provider connection.
#[derive(Debug, Default)]
pub(super) struct Provider {
    /// The user it has logged in as.
    pub(super) user: Option<String>,
    /// Where it comes from, if it has connected.
    pub(super) address: Option<Ipv4Addr>,
    /// Its login stream and who it has said it is, if it has connected.
    pub(super) login: Option<(i32, Credentials)>,
    /// What it says about its services, under its own ids.
    pub(super) directory: Directory,
    /// Our ids of its services.
    pub(super) service_ids: HashMap<u16, u16>,
    /// When it said something last.
    pub(super) heard_at: Nanos,
    /// When another one has said something first, since then, of an item that comes from this one.
    pub(super) rivalled_at: Option<Nanos>,
    /// The names of its services that are not taken from it.
    pub(super) refused: BTreeSet<String>,
    /// What its streams are for.
    pub(super) streams: ProviderStreams,
    /// The items that it has published, or stood by for, since its service was lost last, by our service id.
    pub(super) places: BTreeMap<u16, ItemIndices>,
    /// It waits until clean-ups are done.
    pub(super) waiting: Option<Box<Waiting>>,
    /// It is gone, and does not wait any more.
    pub(super) is_ending: bool,
    /// What else is known of it if this instance has dialled it.
    pub(super) dialled: Option<Dialled>,
    /// It stands for what an earlier run has saved.
    pub(super) is_saved: bool,
}

/// What a stream at a provider is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// An item, by its place in the table.
    Item(usize),
    /// A private stream, by its place in the table.
    Private(usize),
}

/// A provider that has said nothing at all for so long loses items to those who publish them, however seldom that is. A
/// connection that is dead without its end having come is noticed only later.
const SILENCE: Duration = Duration::from_secs(5);

impl Provider {
    /// It says something.
    pub(super) fn note_heard(&mut self, now: Nanos) {
        (self.heard_at, self.rivalled_at) = (now, None);
    }

    /// It was not read for so long: that it said nothing does not mean that it is silent.
    pub(super) fn excuse(&mut self, now: Nanos, unread: Duration) {
        (self.heard_at, self.rivalled_at) = (self.heard_at.after(unread).min(now), None);
    }

    /// Another one says something of an item that comes from this one.
    pub(super) fn note_rival(&mut self, now: Nanos) {
        self.rivalled_at.get_or_insert(now);
    }

    /// Whether it is to be taken for gone, though its connection stands: nothing came of it while others have said
    /// something for `silence`. Where little happens, one that is a little later than the others is not concerned.
    pub(super) fn is_silent(&self, now: Nanos, silence: Duration) -> bool {
        let is_rivalled = self.rivalled_at.is_some_and(|since| now >= since + silence);
        self.waiting.is_none() && (is_rivalled || now >= self.heard_at + SILENCE)
    }

    /// The items that it supplies, in no order.
    pub(super) fn item_places(&self) -> impl Iterator<Item = usize> + '_ {
        self.streams.iter().filter_map(|(_, target)| match target {
            Target::Item(index) => Some(index),
            Target::Private(_) => None,
        })
    }
}

/// A provider's wait.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) since: Nanos,
    /// It ends when sweeps up to this number are done.
    pub(super) until: u64,
    /// A service of its directory could not be taken yet.
    pub(super) is_untaken: bool,
    /// What it has said of many items.
    pub(super) changes: Vec<BulkChange>,
    /// What came since.
    pub(super) messages: VecDeque<Box<[u8]>>,
    pub(super) bytes: usize,
}
