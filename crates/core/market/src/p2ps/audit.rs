//! The ledger as it is shown, and whether it agrees with the streams of clients.

use std::collections::HashMap;

use super::PointToPoint;
use super::ledger::ServiceLedger;
use super::sources::Source;

/// The ledger.
impl PointToPoint {
    /// The name that source distributors know this server by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What became of the messages of each service, one that is gone included; at most 1,025 services.
    pub fn ledger(&self) -> impl Iterator<Item = ServiceLedger<'_>> + '_ {
        let streams = self.items.sources.all.iter().filter_map(|source| match source {
            Some(Source::Service { stream, .. }) => Some((stream.account, stream.to_ledger())),
            _ => None,
        });
        self.items.ledger.services(streams)
    }

    /// What of the ledger does not add up, in words; nothing if all does. Compares it with each stream of each client, so
    /// it is for tests.
    #[must_use]
    pub fn audit(&self) -> Vec<String> {
        let mut faults: Vec<String> = self.ledger().flat_map(|service| service.faults()).collect();
        let mut owed: HashMap<usize, u64> = HashMap::new();
        for client in self.items.clients.all.values() {
            for (stream_id, stream) in &client.streams {
                if let Some(item) = self.items.table.get(stream.index()) {
                    *owed.entry(stream.index()).or_default() += client.owed(*stream_id, item.updates);
                }
            }
        }
        let (mut waiting, mut of_items) = (0, 0);
        for (index, item) in self.items.table.iter() {
            of_items += item.waiting;
            let owed = owed.remove(&index).unwrap_or_default();
            // What is more is of streams of clients that are gone.
            if owed > item.waiting || owed < item.waiting && item.audience.owed_count() == 0 {
                faults.push(format!("{:?}: {} wait, streams lack {owed}", item.key, item.waiting));
            }
        }
        self.ledger().for_each(|service| waiting += service.clients.waiting);
        if waiting != of_items {
            faults.push(format!("{waiting} wait, of items {of_items}"));
        }
        faults
    }
}
