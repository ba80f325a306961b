//! The links from point-to-point servers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use counters::table::Distributor as Counters;

use super::base::{DistributorConfig, PeerId};
use super::peer::{FlowControl, Peer};

/// The links, and those of them that wait for their turn to be served.
pub(super) struct Links {
    pub(super) config: Arc<DistributorConfig>,
    pub(super) peers: BTreeMap<PeerId, Peer>,
    pub(super) row: VecDeque<PeerId>,
    pub(super) flow: FlowControl,
    pub(super) counters: Arc<Counters>,
}

impl Links {
    pub(super) fn new(config: Arc<DistributorConfig>, counters: Arc<Counters>) -> Links {
        Links { config, peers: BTreeMap::new(), row: VecDeque::new(), flow: FlowControl::default(), counters }
    }
}

impl Links {
    pub(super) fn has_kept(&self, peer: PeerId) -> bool {
        self.peers.get(&peer).is_some_and(|known| !known.kept.is_empty())
    }

    pub(super) fn put_in_row(&mut self, peer: PeerId) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        if known.kept.enter_row() {
            self.row.push_back(peer);
            self.counters.peers_waiting.set(self.row.len() as u64);
        }
    }
}
