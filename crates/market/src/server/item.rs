use std::collections::VecDeque;

use rwf::DataState;
use units::Nanos;

use super::audience::Audience;
use crate::backbone::Kind;
use crate::cached::CachedItem;
use crate::key::OwnedKey;

/// Where an item stands with the source distributor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No instance to ask.
    Idle,
    /// To be asked for, when it is its turn.
    Queued,
    /// Asked for; the image is on its way.
    Requested,
    /// Asked for; the instance has said that the image has to wait for the provider.
    Awaited,
    /// The image is here, and every update since.
    Live,
}

/// One item that clients watch.
pub(super) struct Item {
    pub(super) key: OwnedKey,
    /// Tells this item from an earlier one in the same place of the table.
    pub(super) serial: u64,
    /// Sweeps up to this number are done with it.
    pub(super) swept: u64,
    pub(super) cached: CachedItem,
    pub(super) phase: Phase,
    /// The instance knows over the present link that the item is wanted.
    pub(super) is_registered: bool,
    /// It had an image once: it exists, whoever does not publish it yet.
    pub(super) was_live: bool,
    /// Its id in the active stream of its service.
    pub(super) id: Option<u32>,
    /// Stream messages up to this number are in the image.
    pub(super) image_after: u64,
    /// An image taken before this number lacks something that was lost on the way here.
    pub(super) needs_after: u64,
    /// The position of the image that is being received, from its first part to its last.
    pub(super) incoming: Option<u64>,
    /// Messages that wait for the image.
    pub(super) held: Held,
    /// Who watches it.
    pub(super) audience: Audience,
    /// When nobody watches it any more, it is given up then.
    pub(super) lingers_until: Option<Nanos>,
    /// It counts as suspect at present.
    pub(super) is_counted_suspect: bool,
}

impl Item {
    pub(super) fn new(key: OwnedKey, (serial, swept): (u64, u64), ripples: bool) -> Item {
        Item {
            key,
            serial,
            swept,
            cached: CachedItem::new(ripples),
            phase: Phase::Idle,
            is_registered: false,
            was_live: false,
            id: None,
            image_after: 0,
            needs_after: 0,
            incoming: None,
            held: Held::default(),
            audience: Audience::default(),
            lingers_until: None,
            is_counted_suspect: false,
        }
    }

    /// Whether its image is missing or not to be trusted.
    pub(super) fn is_suspect(&self) -> bool {
        !self.cached.is_known() || self.cached.state().data == DataState::Suspect
    }

    /// Whether an image taken after `sequence` is at least as new as what is known already, and has what was
    /// lost.
    pub(super) fn accepts_image(&self, sequence: u64) -> bool {
        sequence >= self.image_after.max(self.needs_after) && self.held.fits(sequence)
    }

    /// Forgets where it stood with an instance: id, image position, held messages.
    pub(super) fn detach(&mut self) {
        self.phase = Phase::Idle;
        self.is_registered = false;
        self.id = None;
        self.image_after = 0;
        self.needs_after = 0;
        self.incoming = None;
        self.held.clear();
    }
}

/// Stream messages that wait for the image they belong to.
#[derive(Debug, Default)]
pub(super) struct Held {
    messages: VecDeque<(u64, Kind, Box<[u8]>)>,
    bytes: usize,
    /// The highest number that was dropped for want of room: an older image is of no use.
    dropped: u64,
}

impl Held {
    /// Keeps a message, or drops all if they would be more than `bytes_max`. Returns whether it was kept.
    pub(super) fn push(&mut self, sequence: u64, kind: Kind, body: &[u8], bytes_max: usize) -> bool {
        if self.bytes + body.len() > bytes_max {
            self.messages.clear();
            self.bytes = 0;
            self.dropped = sequence;
            return false;
        }
        self.bytes += body.len();
        self.messages.push_back((sequence, kind, body.into()));
        true
    }

    /// Whether an image taken after `sequence` has everything that was dropped.
    pub(super) fn fits(&self, sequence: u64) -> bool {
        sequence >= self.dropped
    }

    /// The messages behind an image, oldest first.
    pub(super) fn take_after(
        &mut self,
        sequence: u64,
    ) -> impl Iterator<Item = (u64, Kind, Box<[u8]>)> + use<> {
        let all = std::mem::take(&mut self.messages);
        self.clear();
        all.into_iter().filter(move |(s, _, _)| *s > sequence)
    }

    pub(super) fn clear(&mut self) {
        *self = Held::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped_and_asks_for_a_later_image() {
        let mut held = Held::default();
        assert!(held.push(5, Kind::Update, b"12345", 8));
        assert!(held.fits(3));
        assert!(!held.push(6, Kind::Update, b"6789", 8));
        assert!(held.push(7, Kind::Update, b"7", 8));
        assert!(!held.fits(5));
        assert!(held.fits(6));
        let after: Vec<_> = held.take_after(6).map(|(s, _, b)| (s, b)).collect();
        assert_eq!(after, [(7, b"7".as_slice().into())]);
        assert!(held.fits(0), "nothing is held any more");
    }

    #[test]
    fn messages_up_to_the_image_are_not_used_again() {
        let mut held = Held::default();
        for sequence in 1..=5 {
            held.push(sequence, Kind::Update, b"x", 100);
        }
        assert_eq!(held.take_after(3).map(|(s, _, _)| s).collect::<Vec<_>>(), [4, 5]);
    }
}
