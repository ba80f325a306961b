//! Items to ask for, and those asked for.

use std::collections::VecDeque;

use units::Nanos;

use super::life::Phase;

/// Items to ask for, and those asked for.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Place and serial number of each item whose turn has not come.
    pub(super) queue: VecDeque<(usize, u64)>,
    /// Images on their way.
    pub(super) outstanding: usize,
    /// When each request was sent, oldest first.
    pub(super) sent: VecDeque<(Nanos, usize, u64)>,
}

impl Requests {
    /// Counts images on their way, as an item goes from one state to another.
    pub(super) fn count(&mut self, before: Phase, after: Phase) {
        self.outstanding -= usize::from(before == Phase::Requested);
        self.outstanding += usize::from(after == Phase::Requested);
    }
}
