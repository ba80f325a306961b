use std::num::NonZeroU32;

use rwf::DataState;
use units::Nanos;

use super::audience::Audience;
use super::ledger::AccountId;
use super::life::{Life, Phase};
use super::merge::Merge;
use super::recall::{ImageUse, Recall};
use crate::ahead::Prefetch;
use crate::busiest::Counted;
use crate::cached::CachedItem;
use crate::key::{ItemKey, OwnedKey};
use crate::key_index::Keyed;

/// One item that clients watch.
pub(super) struct Item {
    pub(super) key: OwnedKey,
    /// Tells this item from an earlier one in the same place of the table.
    pub(super) serial: u64,
    /// Sweeps up to this number are done with it.
    pub(super) swept: u64,
    pub(super) cached: CachedItem,
    /// Where it stands with the source distributor.
    pub(super) life: Life,
    /// It had an image once: it exists, whoever does not publish it yet.
    pub(super) was_live: bool,
    /// Its id in the active stream of its service.
    pub(super) id: Option<u32>,
    /// The number of its last update; never 0, and begins again after the highest.
    pub(super) updates: NonZeroU32,
    /// What that was when a sweep for the busiest items looked last.
    pub(super) updates_seen: NonZeroU32,
    /// Who watches it.
    pub(super) audience: Audience,
    /// Updates that streams of it were not sent and wait for, each as often as there are such streams.
    pub(super) waiting: u64,
    /// The account of its service.
    pub(super) account: AccountId,
    /// When nobody watches it any more, it is given up then.
    pub(super) lingers_until: Option<Nanos>,
    /// It counts as suspect at present.
    pub(super) is_counted_suspect: bool,
    /// Images that were asked for at the instance and have not come, at most: it may answer two questions with one.
    pub(super) answers_due: u8,
    /// Its image is away and wanted.
    pub(super) recall: Option<Box<Recall>>,
    /// Whether its image stays.
    pub(super) image_use: ImageUse,
    /// Of a hot service: what is taken of which side.
    pub(super) hot: Option<Box<Merge>>,
}

impl Keyed for Item {
    fn key(&self) -> ItemKey<'_> {
        self.key.as_key()
    }
}

impl Prefetch for Item {
    #[inline]
    fn prefetch_behind(&self) {
        self.cached.prefetch();
        if let Some(group) = self.audience.active().first() {
            prefetch::value(group);
        }
    }

    #[inline]
    fn prefetch_far_behind(&self) {
        if let Some(watcher) = self.audience.active().first().and_then(|group| group.watchers.first()) {
            prefetch::value(watcher);
        }
    }
}

impl Item {
    pub(super) fn new(key: OwnedKey, (serial, swept): (u64, u64), ripples: bool, account: AccountId) -> Item {
        Item {
            key,
            serial,
            swept,
            cached: CachedItem::new(ripples),
            life: Life::default(),
            was_live: false,
            id: None,
            updates: NonZeroU32::MIN,
            updates_seen: NonZeroU32::MIN,
            audience: Audience::default(),
            waiting: 0,
            account,
            lingers_until: None,
            is_counted_suspect: false,
            answers_due: 0,
            recall: None,
            image_use: ImageUse::default(),
            hot: None,
        }
    }

    /// Gives up its image, of which there is another elsewhere.
    pub(super) fn give_up_image(&mut self) {
        if self.life.phase() == Phase::Live {
            self.forget_changes();
            self.cached.give_up_image();
        }
    }

    /// Whether its image is missing or not to be trusted.
    pub(super) fn is_suspect(&self) -> bool {
        !self.cached.is_known() || self.cached.state().data == DataState::Suspect
    }
}

impl Counted for Item {
    fn take_moved(&mut self) -> u32 {
        let before = std::mem::replace(&mut self.updates_seen, self.updates);
        self.updates.get().wrapping_sub(before.get())
    }
}
