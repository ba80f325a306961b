//! The last items about which a message could not be read.

use std::collections::VecDeque;

use rwf::DecodeError;
use units::Nanos;

use crate::key::OwnedKey;
use crate::ration::Ration;

/// The last ones, and how many may be reported.
#[derive(Debug, Default)]
pub(super) struct Spoilt {
    last: VecDeque<(OwnedKey, DecodeError)>,
    ration: Ration,
}

/// How many a status page lists.
const LISTED: usize = 20;

impl Spoilt {
    /// A message about an item could not be read.
    pub(super) fn note(&mut self, key: OwnedKey, error: DecodeError) {
        self.last.retain(|(before, _)| *before != key);
        self.last.push_back((key, error));
        if self.last.len() > LISTED {
            self.last.pop_front();
        }
    }

    /// Whether one more may be reported, and how many were not.
    pub(super) fn take_ration(&mut self, now: Nanos) -> Option<u64> {
        self.ration.take(now)
    }

    /// The last items, oldest first.
    pub(super) fn last(&self) -> impl Iterator<Item = (&OwnedKey, &DecodeError)> + '_ {
        self.last.iter().map(|(key, error)| (key, error))
    }
}

/// An item about which a message could not be read, for status pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoiltItem<'a> {
    /// Which one.
    pub key: &'a OwnedKey,
    /// What was wrong with the message.
    pub error: &'a DecodeError,
    /// No image has come since.
    pub is_suspect: bool,
}
