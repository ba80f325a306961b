//! A link from a point-to-point server: what it wants, what it waits for, and how far behind it is.

use std::collections::BTreeMap;

use units::Nanos;

use super::kept::Kept;
use super::notices::PeerNotice;
use crate::places::Places;
use crate::ration::Ration;

/// What a server has taken.
#[derive(Debug, Default)]
pub(super) struct PeerFlow {
    /// Of each stream that it follows, in bytes.
    pub(super) taken: BTreeMap<u16, u64>,
    /// Of all streams since it is linked.
    pub(super) total: u64,
    /// It does not lack a window before so much is sent in all.
    pub(super) check_at: u64,
    /// Since when it has been busy without a break, and what it had taken by then.
    pub(super) busy_since: Option<(Nanos, u64)>,
    pub(super) left_at: Option<Nanos>,
    /// Since when providers are held back for it, and whether operators were notified.
    holds: Option<(Nanos, bool)>,
}

impl PeerFlow {
    /// It takes no part in a stream any more.
    pub(super) fn forget(&mut self, service: u16) {
        self.taken.remove(&service);
    }

    /// Providers are held back for it.
    pub(super) fn hold(&mut self, now: Nanos, ration: &mut Ration, report: impl FnOnce(u64)) {
        if self.holds.is_none() {
            let unreported = ration.take(now);
            self.holds = Some((now, unreported.is_some()));
            unreported.map(report);
        }
    }

    /// Providers are not held back for it.
    pub(super) fn let_go(&mut self, now: Nanos, report: impl FnOnce(&PeerNotice)) {
        if let Some((since, true)) = self.holds.take() {
            report(&PeerNotice::LetsGo { after: now.since(since) });
        }
    }

    /// Whether it is waited for.
    pub(super) fn is_counted(&self) -> bool {
        self.left_at.is_none() && !self.taken.is_empty()
    }

    /// What it lacks of the streams that it follows.
    pub(super) fn lacks(&self, sent: impl Fn(u16) -> Option<u64>) -> u64 {
        let each = self
            .taken
            .iter()
            .map(|(service, taken)| sent(*service).map_or(0, |sent| sent.saturating_sub(*taken)));
        each.sum()
    }
}

/// Whether providers are held back.
#[derive(Debug, Default)]
pub(super) struct FlowControl {
    /// Nobody lacks a window before so much is sent in all.
    pub(super) check_at: u64,
    pub(super) held_since: Option<Nanos>,
    /// When they began to be held back, while they are.
    pub(super) held_from: Nanos,
    /// While they are held back: when a server's patience is over.
    pub(super) due_at: Nanos,
    /// How often it may be reported that they are.
    pub(super) ration: Ration,
    /// Servers that have gone, by name, and since when they were left behind.
    pub(super) gone: BTreeMap<String, Nanos>,
}

/// One link.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// It has said Hello.
    pub(super) is_greeted: bool,
    pub(super) name: String,
    /// The items it wants, by their places in the table.
    pub(super) items: Places,
    /// Its private streams, by conversation, by their places in the table.
    pub(super) privates: BTreeMap<u64, usize>,
    pub(super) flow: PeerFlow,
    /// What it has asked for and has not got yet.
    pub(super) kept: Kept,
}
