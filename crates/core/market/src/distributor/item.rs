//! An item, and where it comes from.

use super::base::{PeerId, ProviderId};
use super::timers::Due;
use crate::ahead::Prefetch;
use crate::busiest::Counted;
use crate::cached::CachedItem;
use crate::key::{ItemKey, OwnedKey};
use crate::key_index::Keyed;

/// An item that a provider publishes, or that is asked for because a peer wants it.
pub(super) struct Item {
    pub(super) key: OwnedKey,
    /// Sweeps up to this number are done with it.
    pub(super) swept: u64,
    pub(super) cached: CachedItem,
    /// The lower half of its version when a sweep for the busiest items looked last.
    pub(super) version_seen: u32,
    /// Its id in the service's stream, once a peer has wanted it.
    pub(super) id: Option<u32>,
    /// Peers that get its updates.
    pub(super) peers: Vec<PeerId>,
    /// Peers that wait for its first whole image, or for their turn to get it.
    pub(super) waiting: Vec<PeerId>,
    /// Where it comes from.
    pub(super) supply: ItemSupply,
    /// Its service has no cache: the image stays only while somebody waits for it.
    pub(super) is_uncached: bool,
    /// Its image was saved by an earlier run, and nobody has published it since.
    pub(super) is_saved: bool,
    /// Its image is away and wanted.
    pub(super) recall: Option<Box<Recall>>,
    /// What others publish of it, in the order in which they came.
    pub(super) standbys: Vec<Standby>,
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
        if let Some(peer) = self.peers.first() {
            prefetch::value(peer);
        }
    }
}

impl Item {
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.peers.retain(|p| *p != peer);
        self.waiting.retain(|p| *p != peer);
        if let Some(recall) = &mut self.recall {
            recall.peers.retain(|p| *p != peer);
        }
    }

    /// Whether a server waits for its image, to get it in its turn.
    pub(super) fn is_awaited_by(&self, peer: PeerId) -> bool {
        self.waiting.contains(&peer)
            || self.recall.as_ref().is_some_and(|recall| recall.peers.contains(&peer))
    }

    /// Whether nobody wants it.
    pub(super) fn is_unwanted(&self) -> bool {
        self.peers.is_empty() && self.waiting.is_empty()
    }
}

impl Counted for Item {
    fn take_moved(&mut self) -> u32 {
        let version = self.cached.version() as u32;
        version.wrapping_sub(std::mem::replace(&mut self.version_seen, version))
    }
}

impl Item {
    /// Whether a provider supplies it, or stands by.
    pub(super) fn is_supplied_by(&self, provider: ProviderId) -> bool {
        self.supply.provider() == Some(provider) || self.standbys.iter().any(|s| s.provider == provider)
    }
}

/// Where an item comes from at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ItemSupply {
    /// Nobody supplies it.
    #[default]
    None,
    /// A provider publishes it of its own accord.
    Published { provider: ProviderId, stream_id: i32 },
    /// It is to be asked for when its turn comes, rather not at `avoid`.
    Queued { ticket: u64, avoid: Option<ProviderId>, is_reported: bool },
    /// It is to be asked for again after a while.
    Resting { due: Due, avoid: Option<ProviderId> },
    /// It is asked for; the whole image is not there.
    Pending { provider: ProviderId, stream_id: i32, due: Due },
    /// It is open there.
    Open { provider: ProviderId, stream_id: i32 },
    /// The same, and nobody wants it: it is closed when the time has come.
    Lingering { provider: ProviderId, stream_id: i32, due: Due },
}

impl ItemSupply {
    /// Whether it belongs to a service whose items are asked for.
    pub(super) fn is_asked_for(&self) -> bool {
        !matches!(self, ItemSupply::None | ItemSupply::Published { .. })
    }

    /// Whether the whole image is on its way.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        matches!(self, ItemSupply::Pending { .. })
    }

    /// Provider and stream where it is open.
    pub(super) fn open_at(&self) -> Option<(ProviderId, i32)> {
        match *self {
            ItemSupply::Open { provider, stream_id } | ItemSupply::Lingering { provider, stream_id, .. } => {
                Some((provider, stream_id))
            }
            _ => None,
        }
    }

    /// The provider that supplies it or is asked for it.
    pub(super) fn provider(&self) -> Option<ProviderId> {
        match *self {
            ItemSupply::None | ItemSupply::Queued { .. } | ItemSupply::Resting { .. } => None,
            ItemSupply::Published { provider, .. }
            | ItemSupply::Pending { provider, .. }
            | ItemSupply::Open { provider, .. }
            | ItemSupply::Lingering { provider, .. } => Some(provider),
        }
    }
}

/// An image that is away and wanted.
#[derive(Debug, Default)]
pub(super) struct Recall {
    /// Who waits for it. All of them are among those who get the item's updates.
    pub(super) peers: Vec<PeerId>,
    /// It is asked for, and has to be there by then. Without it, it comes when the item is supplied again.
    pub(super) due: Option<Due>,
    /// What is coming is for those alone who wait.
    pub(super) is_for_some: bool,
}

/// What a provider publishes of an item that comes from another one.
pub(super) struct Standby {
    pub(super) provider: ProviderId,
    pub(super) stream_id: i32,
    pub(super) cached: CachedItem,
}

impl Item {
    /// What a provider has of the item, if it stands by.
    pub(super) fn standby_of(&mut self, provider: ProviderId) -> Option<&mut Standby> {
        self.standbys.iter_mut().find(|standby| standby.provider == provider)
    }

    /// What a provider says about the item.
    pub(super) fn as_of(&self, provider: ProviderId) -> &CachedItem {
        let standby = self.standbys.iter().find(|standby| standby.provider == provider);
        standby.map_or(&self.cached, |standby| &standby.cached)
    }

    /// Whether what a provider says of the item, but for an image, is about what it has standing by: the item comes
    /// from another one, or from none since that was lost.
    #[inline]
    pub(super) fn stands_by(&self, provider: ProviderId) -> bool {
        match self.supply {
            ItemSupply::Published { provider: owner, .. } => owner != provider,
            ItemSupply::None => self.standbys.iter().any(|standby| standby.provider == provider),
            _ => false,
        }
    }

    /// Whether the item comes from another provider than this one.
    #[inline]
    pub(super) fn is_of_other(&self, provider: ProviderId) -> bool {
        matches!(self.supply, ItemSupply::Published { provider: owner, .. } if owner != provider)
    }
}
