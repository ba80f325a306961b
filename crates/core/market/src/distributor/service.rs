//! A service, and who supplies it.

use std::collections::BTreeMap;

use rdm::directory::Service;
use units::Nanos;

use super::base::{PostRoute, ProviderId};
use super::ledger::ProviderLedger;
use super::notices::RefusedService;
use super::stream::Stream;

/// A service and its stream.
pub(super) struct PublishedService {
    pub(super) definition: Service,
    pub(super) supply: Supply,
    pub(super) stream: Stream,
    /// What became of the updates of providers.
    pub(super) ledger: ProviderLedger,
    /// Updates on the stream that posts have made.
    pub(super) posted: u64,
    /// Requests for unknown items of a published service are answered from then on; never while it is down.
    pub(super) settled_at: Nanos,
    /// What becomes of posts to it.
    pub(super) posts: PostRoute,
    /// Its fields ripple as the dictionary says.
    pub(super) ripples: bool,
    /// Nobody lists it any more: the number of the sweep that closes its items.
    pub(super) withdrawn: Option<u64>,
    /// An earlier run has saved it, and nobody has published it since.
    pub(super) is_saved: bool,
}

/// Where the items of a service come from.
pub(super) enum Supply {
    /// Non-interactive providers publish them; these, in the order in which they came. There is none as long as
    /// all are away.
    Published(Vec<Publisher>),
    /// They are asked for one by one.
    Requested(Requested),
}

/// A non-interactive provider of a service.
pub(super) struct Publisher {
    pub(super) provider: ProviderId,
    /// What it says about the service, with our id.
    pub(super) definition: Service,
}

/// A service whose items are asked for at dialled providers.
#[derive(Default)]
pub(super) struct Requested {
    /// The providers that offer it now, in the order in which they came.
    pub(super) sources: Vec<ProviderId>,
    /// Items whose turn has not come, by domain: those that no provider takes now stand in nobody's way.
    pub(super) queues: BTreeMap<u8, Queue>,
    /// Counts requests, to take turns by.
    pub(super) turn: usize,
}

/// Items of one domain whose turn has not come.
#[derive(Default)]
pub(super) struct Queue {
    /// By ticket, by their places in the table.
    pub(super) items: BTreeMap<u64, usize>,
    /// Up to this ticket, those that wait for the providers' limits were told so.
    pub(super) reported_to: u64,
}

impl PublishedService {
    pub(super) fn is_published_by(&self, provider: ProviderId) -> bool {
        self.publishers().iter().any(|publisher| publisher.provider == provider)
    }

    /// Whether a provider publishes it and says that it is up.
    pub(super) fn is_up_at(&self, provider: ProviderId) -> bool {
        let mut publishers = self.publishers().iter();
        publishers.any(|publisher| publisher.provider == provider && publisher.definition.state.up)
    }

    pub(super) fn publishers(&self) -> &[Publisher] {
        match &self.supply {
            Supply::Published(publishers) => publishers,
            Supply::Requested(_) => &[],
        }
    }

    pub(super) fn requested(&self) -> Option<&Requested> {
        match &self.supply {
            Supply::Requested(requested) => Some(requested),
            Supply::Published(_) => None,
        }
    }

    pub(super) fn requested_mut(&mut self) -> Option<&mut Requested> {
        match &mut self.supply {
            Supply::Requested(requested) => Some(requested),
            Supply::Published(_) => None,
        }
    }
}

/// Why a service of a provider is not taken.
pub(super) enum Untaken {
    /// It does not fit.
    For(RefusedService),
    /// It does not fit until the sweep of this number is done.
    Until(u64),
}

impl PublishedService {
    /// Whether nobody lists it, and its items are being closed.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.withdrawn.is_some()
    }
}
