//! Which images are here and which are asked for again, of those that another keeps ([`kept`](super::kept)).

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use units::Nanos;

use super::base::Watcher;
use super::held::{Held, HeldMessage};
use crate::backbone::Kind;
use crate::cached::CachedItem;

/// An image that nobody has needed for so long is given up.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// While an image takes its time, this part of the bytes that may be held of an item are kept at first.
const AWAITED_PART: usize = 64;

/// Which images are here, and which are asked for again.
#[derive(Debug)]
pub(super) struct KeptImages {
    /// The most that nobody needs at present, of services with a cache; without it none of these is given up.
    pub(super) max: Option<usize>,
    /// Place and serial number of items whose image is here, since when or when they were looked at last; oldest first.
    pub(super) here: VecDeque<(Nanos, usize, u64)>,
    /// Those whose image is to be asked for.
    pub(super) wanted: VecDeque<(usize, u64)>,
    /// Images that were asked for and have not come.
    pub(super) outstanding: usize,
    /// Images that have come before the messages that they have.
    pub(super) early: BTreeSet<Early>,
}

/// Which image has come before the messages that it has: service, number that it was taken after, place of the item.
pub(super) type Early = (u16, u64, usize);

/// How far a recalled image is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// It is to be asked for.
    #[default]
    Wanted,
    /// It is asked for, and counts as on its way.
    Asked,
    /// The instance has said that it takes its time: nobody else waits for it.
    Awaited,
}

/// The image of an item is away and wanted.
#[derive(Debug, Default)]
pub(super) struct Recall {
    pub(super) step: Step,
    /// Since it was asked for first: an image taken before this number lacks something that is not kept.
    needs_after: Option<u64>,
    /// How often an image has lacked something that was not kept.
    attempts: u32,
    /// What has come since then; the image may be older.
    held: Held,
    /// The number that the image was taken after whose parts are coming, and those that are here.
    pub(super) incoming: Option<(u64, CachedItem)>,
    /// All of it is here, while messages that it has are not.
    pub(super) early: Option<(Early, CachedItem)>,
    /// Streams that an image is due for as soon as it is here.
    pub(super) streams: Vec<Watcher>,
}

/// What is known of an item's image for deciding whether it stays.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ImageUse {
    /// Its service is served without a cache: the image stays only while it is needed.
    pub(super) is_uncached: bool,
    /// It is in [`KeptImages::here`].
    pub(super) is_listed: bool,
    /// It was sent to somebody since it was looked at last.
    pub(super) was_sent: bool,
}

impl Recall {
    /// It is asked for, after the item's message of a number has come.
    pub(super) fn begin(&mut self, last: u64) {
        self.step = Step::Asked;
        self.needs_after.get_or_insert(last);
    }

    /// A message has come that the image may lack. Only what changes the image matters. There is no telling how long an
    /// image takes that waits for its provider: of such an item fewer messages are kept, and more each time that they
    /// turn out to be too few.
    #[cold]
    pub(super) fn note(&mut self, sequence: u64, kind: Kind, body: &[u8], bytes_max: usize) {
        if self.needs_after.is_none() || !matches!(kind, Kind::Update | Kind::Status) {
            return;
        }
        let part = match self.step {
            Step::Awaited => AWAITED_PART >> (2 * self.attempts).min(AWAITED_PART.ilog2()),
            Step::Asked | Step::Wanted => 1,
        };
        self.held.push_newest(sequence, kind, body, bytes_max / part);
    }

    /// Whether an image taken after `sequence`, with what was kept, has everything that has come.
    pub(super) fn accepts_image(&self, sequence: u64) -> bool {
        units::planted(units::Bug::TakesOldRecalls)
            || self.needs_after.is_some_and(|number| sequence >= number) && self.held.fits(sequence)
    }

    /// What has come and is not in an image taken after `sequence`, oldest first.
    pub(super) fn take_after(&mut self, sequence: u64) -> impl Iterator<Item = HeldMessage> + use<> {
        self.held.take_after(if units::planted(units::Bug::DropsKept) { u64::MAX } else { sequence })
    }
}

impl KeptImages {
    pub(super) fn new(max: Option<usize>) -> KeptImages {
        KeptImages {
            max,
            here: VecDeque::new(),
            wanted: VecDeque::new(),
            outstanding: 0,
            early: BTreeSet::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn set_max(&mut self, max: Option<usize>) {
        self.max = max;
    }

    /// When the oldest is to be looked at.
    pub(super) fn next_look(&self) -> Nanos {
        self.here.front().map_or(Nanos::NEVER, |(at, ..)| *at + KEPT_FOR)
    }

    /// An item is gone, or its image has come.
    pub(super) fn forget(&mut self, recall: &Recall) {
        self.outstanding -= usize::from(recall.step == Step::Asked);
        if let Some((early, _)) = &recall.early {
            self.early.remove(early);
        }
    }

    /// What has come of an image is of no use, and another is to be asked for. What is kept fits to that too: for an
    /// item that is updated all the time each new question would else make the answer to the one before useless.
    pub(super) fn ask_again(&mut self, recall: &mut Recall) {
        self.forget(recall);
        (recall.step, recall.incoming, recall.early) = (Step::Wanted, None, None);
        recall.attempts += 1;
    }

    /// The instance has said that an image takes its time.
    pub(super) fn let_wait(&mut self, recall: &mut Recall) {
        if recall.step == Step::Asked {
            self.outstanding -= 1;
            recall.step = Step::Awaited;
        }
    }

    /// It begins from nothing: what has come of an image, and what was kept for it, is of no use.
    pub(super) fn restart(&mut self, recall: &mut Recall) {
        self.forget(recall);
        *recall = Recall { streams: std::mem::take(&mut recall.streams), ..Recall::default() };
    }

    /// Whether there are more than there may be.
    pub(super) fn is_over(&self) -> bool {
        self.max.is_some_and(|max| self.here.len() > max)
    }
}
