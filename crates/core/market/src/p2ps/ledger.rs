//! The ledger: what became of each update, by service.
//!
//! Two equations hold at every moment, however many updates are on their way:
//!
//! - of the backbone: what was received = what was taken for an item, by what became of it + what waits behind gaps;
//!   and of each stream: the numbers from its first to its last = received + lost;
//! - of clients: what was due = delivered + conflated + in images + outside views + unusable + ended + waiting.
//!
//! Each side is counted for itself. What is due is counted by how many streams watch, when an update comes; what became
//! of it where that happens. [`PointToPoint::audit`](super::PointToPoint::audit) compares what waits with the streams themselves. The simulator asks
//! it in each world.
//!
//! An item knows how much of its streams waits (`Item::waiting`). A stream of a client that is gone may be served or
//! taken off an item before its clean-up: its share is settled with the rest, when no stream of the item waits.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU32;

/// What became of the updates that were due to streams of clients. An update is due once to each stream that has had an
/// image and is not paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientLedger {
    /// Updates, each as often as there were streams for it.
    pub due: u64,
    /// Handed to the client's connection as themselves.
    pub delivered: u64,
    /// Left out, and a later update stood for them.
    pub conflated: u64,
    /// Left out, and an image stood for them.
    pub in_images: u64,
    /// The stream's view shows nothing of them.
    pub outside_views: u64,
    /// They could not be read, or not be put into the form that the stream wants: an image was asked for.
    pub unusable: u64,
    /// The stream was closed or paused, or its client ended, before they were sent.
    pub ended: u64,
    /// They are still to be sent, conflated or in an image.
    pub waiting: u64,
}

impl ClientLedger {
    /// What became of all that was due, what waits included.
    #[must_use]
    pub fn accounted(&self) -> u64 {
        let ClientLedger { delivered, conflated, in_images, outside_views, unusable, ended, waiting, .. } =
            *self;
        delivered + conflated + in_images + outside_views + unusable + ended + waiting
    }

    /// So many of those that wait have come to an end.
    pub(super) fn settle(&mut self, updates: u64, fate: Fate) {
        self.waiting -= updates;
        *match fate {
            Fate::Conflated => &mut self.conflated,
            Fate::InImage => &mut self.in_images,
            Fate::OutsideView => &mut self.outside_views,
            Fate::Unusable => &mut self.unusable,
            Fate::Ended => &mut self.ended,
        } += updates;
    }
}

/// What becomes of updates that have waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Conflated,
    InImage,
    OutsideView,
    Unusable,
    Ended,
}

/// What became of the messages that were received of a service, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenLedger {
    /// Updates of items that are watched here.
    pub applied: u64,
    /// Updates that an image holds, or will hold that is asked for.
    pub in_images: u64,
    /// Updates of items that nobody watches here.
    pub unwatched: u64,
    /// Updates that could not be read: their items are suspect until the next image.
    pub unusable: u64,
    /// Messages that are no updates.
    pub others: u64,
}

impl TakenLedger {
    /// All of them.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let TakenLedger { applied, in_images, unwatched, unusable, others } = *self;
        applied + in_images + unwatched + unusable + others
    }
}

/// What came of one stream of the backbone, or of several that are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Numbers from the first that this server followed to the last.
    pub numbers: u64,
    /// Messages received, in order or behind a gap.
    pub received: u64,
    /// Messages not received: the carrier could not recover them.
    pub lost: u64,
    /// Those among the received that came while the service was taken from elsewhere.
    pub standby: u64,
    /// Those that wait behind a gap.
    pub behind_gaps: u64,
    /// Those dropped behind a gap, because too many waited or the service came from elsewhere: images were asked for.
    pub dropped_behind_gaps: u64,
}

impl std::ops::AddAssign for StreamCounts {
    fn add_assign(&mut self, other: StreamCounts) {
        self.numbers += other.numbers;
        self.received += other.received;
        self.lost += other.lost;
        self.standby += other.standby;
        self.behind_gaps += other.behind_gaps;
        self.dropped_behind_gaps += other.dropped_behind_gaps;
    }
}

/// Numbers that were lost, both included, of a stream of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// The run of the source distributor.
    pub instance: u64,
    /// The first number.
    pub first: u64,
    /// The last number.
    pub last: u64,
}

/// The newest losses; so many are kept of a stream, and of all those of a service that are gone.
pub(super) const RANGES_MAX: usize = 16;

/// The newest losses of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    pub(super) messages: u64,
    pub(super) ranges: VecDeque<(u64, u64)>,
}

impl Losses {
    #[cold]
    pub(super) fn note(&mut self, first: u64, last: u64) {
        self.messages += last - first + 1;
        if self.ranges.len() >= RANGES_MAX {
            self.ranges.pop_front();
        }
        self.ranges.push_back((first, last));
    }
}

/// A stream in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamLedger {
    /// The run of the source distributor, once a message has come.
    pub instance: Option<u64>,
    /// The service comes from here now.
    pub is_followed: bool,
    /// The first number that this server followed; 0 before anything is known.
    pub first: u64,
    /// What came of it.
    pub counts: StreamCounts,
    /// Its newest losses, oldest first; at most 16.
    pub lost: Vec<LostRange>,
}

/// What is known of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceLedger<'a> {
    /// Its name; empty for services beyond the 1,024th, which are counted together.
    pub service: &'a str,
    /// Its streams, one for each run of a source distributor that publishes it now.
    pub streams: Vec<StreamLedger>,
    /// Those that are gone, together.
    pub ended: StreamCounts,
    /// The newest losses of these, oldest first; at most 16.
    pub ended_lost: Vec<LostRange>,
    /// What became of the messages of all streams.
    pub taken: TakenLedger,
    /// What became of the updates that were due to clients.
    pub clients: ClientLedger,
}

impl ServiceLedger<'_> {
    /// What came of all streams, those that are gone included.
    #[must_use]
    pub fn counts(&self) -> StreamCounts {
        let mut sum = self.ended;
        self.streams.iter().for_each(|stream| sum += stream.counts);
        sum
    }

    /// What does not add up, in words; nothing if all does.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let (counts, mut faults) = (self.counts(), Vec::new());
        let mut compare = |what: &str, left: u64, right: u64| {
            if left != right {
                faults.push(format!("{}: {what}: {left} are not {right}", self.service));
            }
        };
        compare("numbers of the streams = received + lost", counts.numbers, counts.received + counts.lost);
        let taken = self.taken.sum() + counts.standby + counts.behind_gaps + counts.dropped_behind_gaps;
        compare("received = taken + standby + behind gaps", counts.received, taken);
        compare("due to clients = accounted for", self.clients.due, self.clients.accounted());
        faults
    }
}

/// What is counted of a service.
#[derive(Debug, Default)]
pub(super) struct Account {
    name: String,
    pub(super) taken: TakenLedger,
    pub(super) clients: ClientLedger,
    ended: StreamCounts,
    ended_lost: VecDeque<LostRange>,
}

/// The accounts of all services. They outlive their services, so that nothing that was counted is forgotten.
#[derive(Debug)]
pub(super) struct Ledger {
    accounts: Vec<Account>,
    by_name: HashMap<String, AccountId>,
}

/// The place of an account.
pub(super) type AccountId = u32;

/// More services than this are counted together, in the first account.
const ACCOUNTS_MAX: usize = 1_024;

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger { accounts: vec![Account::default()], by_name: HashMap::new() }
    }
}

impl Ledger {
    /// The account of a service, opened if there is none.
    pub(super) fn open(&mut self, name: &str) -> AccountId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        if self.accounts.len() > ACCOUNTS_MAX {
            return 0;
        }
        let id = self.accounts.len() as AccountId;
        self.accounts.push(Account { name: name.to_owned(), ..Account::default() });
        self.by_name.insert(name.to_owned(), id);
        id
    }

    /// An account that was opened; the one of all others if there is none.
    #[inline]
    pub(super) fn account(&mut self, id: AccountId) -> &mut Account {
        let id = if (id as usize) < self.accounts.len() { id as usize } else { 0 };
        &mut self.accounts[id]
    }

    /// A stream is gone: its counts and losses go to those of the others.
    pub(super) fn close_stream(
        &mut self,
        id: AccountId,
        counts: StreamCounts,
        lost: impl Iterator<Item = LostRange>,
    ) {
        let account = self.account(id);
        account.ended += counts;
        account.ended_lost.extend(lost);
        while account.ended_lost.len() > RANGES_MAX {
            account.ended_lost.pop_front();
        }
    }

    /// All accounts, with the streams of each.
    pub(super) fn services(
        &self,
        streams: impl Iterator<Item = (AccountId, StreamLedger)>,
    ) -> impl Iterator<Item = ServiceLedger<'_>> + '_ {
        let mut lists: Vec<Vec<StreamLedger>> = Vec::new();
        lists.resize_with(self.accounts.len(), Vec::new);
        for (account, stream) in streams {
            if let Some(list) = lists.get_mut(account as usize) {
                list.push(stream);
            }
        }
        self.accounts.iter().zip(lists).map(|(account, streams)| ServiceLedger {
            service: &account.name,
            streams,
            ended: account.ended,
            ended_lost: account.ended_lost.iter().copied().collect(),
            taken: account.taken,
            clients: account.clients,
        })
    }
}

/// The number of the update before one.
pub(super) fn before(number: NonZeroU32) -> NonZeroU32 {
    NonZeroU32::new(number.get() - 1).unwrap_or(NonZeroU32::MAX)
}

/// How many updates came after the one of a number, up to another one: numbers begin again at 1.
pub(super) fn updates_between(from: NonZeroU32, to: NonZeroU32) -> u64 {
    match to.get().checked_sub(from.get()) {
        Some(count) => count.into(),
        None => u64::from(u32::MAX - from.get()) + u64::from(to.get()),
    }
}
