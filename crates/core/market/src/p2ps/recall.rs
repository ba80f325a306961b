//! Which images are here and which are asked for again, of those that another keeps ([`kept`](super::kept)).

use std::collections::VecDeque;
use std::time::Duration;

use units::Nanos;

use super::base::Watcher;
use crate::cached::CachedItem;

/// An image that nobody has needed for so long is given up.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// Which images are here, and which are asked for again.
#[derive(Debug)]
pub(super) struct KeptImages {
    /// The most that nobody needs at present; without it none is given up.
    pub(super) max: Option<usize>,
    /// Place and serial number of items whose image is here, since when or when they were looked at last; oldest first.
    pub(super) here: VecDeque<(Nanos, usize, u64)>,
    /// Those whose image is to be asked for.
    pub(super) wanted: VecDeque<(usize, u64)>,
    /// Images that were asked for and have not come.
    pub(super) outstanding: usize,
}

/// The image of an item is away and wanted.
#[derive(Debug, Default)]
pub(super) struct Recall {
    pub(super) is_asked: bool,
    /// The number that the image was taken after whose parts are coming, and those that are here.
    pub(super) incoming: Option<(u64, CachedItem)>,
    /// Streams that an image is due for as soon as it is here.
    pub(super) streams: Vec<Watcher>,
}

/// What is known of an item's image for deciding whether it stays.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ImageUse {
    /// It is in [`KeptImages::here`].
    pub(super) is_listed: bool,
    /// It was sent to somebody since it was looked at last.
    pub(super) was_sent: bool,
}

impl KeptImages {
    pub(super) fn new(max: Option<usize>) -> KeptImages {
        KeptImages { max, here: VecDeque::new(), wanted: VecDeque::new(), outstanding: 0 }
    }

    #[cfg(test)]
    pub(super) fn set_max(&mut self, max: Option<usize>) {
        self.max = max;
    }

    /// When the oldest is to be looked at.
    pub(super) fn next_wakeup(&self) -> Nanos {
        self.here.front().map_or(Nanos::NEVER, |(at, ..)| *at + KEPT_FOR)
    }

    /// An item is gone, or its image has come.
    pub(super) fn forget(&mut self, recall: &Recall) {
        self.outstanding -= usize::from(recall.is_asked);
    }

    /// What has come of an image is of no use: nothing of it is here or on its way.
    pub(super) fn restart(&mut self, recall: &mut Recall) {
        self.forget(recall);
        (recall.is_asked, recall.incoming) = (false, None);
    }

    /// Whether there are more than there may be.
    pub(super) fn is_over(&self) -> bool {
        self.max.is_some_and(|max| self.here.len() > max)
    }
}
