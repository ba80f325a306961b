//! Updates, which are most of what comes.

use rwf::{Msg, UpdateMsg};
use units::Nanos;

use super::Distributor;
use super::base::ProviderId;
use super::errors::ProviderError;
use super::provider::Target;
use super::sink::DistributorSink;
use crate::backbone::Kind;

/// What providers say of items.
impl Distributor {
    #[inline]
    pub(super) fn on_update(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        self.counters.updates_in.inc();
        self.items.ledger.received += 1;
        let msg = match UpdateMsg::parse(bytes) {
            Ok(msg) => msg,
            Err(error) => {
                self.items.ledger.unreadable += 1;
                return Err(error.into());
            }
        };
        let index = match self.items.target_of(provider, msg.stream_id, msg.domain, msg.key) {
            Some(Target::Item(index)) => index,
            Some(Target::Private(place)) => {
                self.items.ledger.private += 1;
                self.privates.on_private_answer(&mut self.items, now, place, &Msg::Update(msg), bytes, sink);
                return Ok(());
            }
            None => {
                self.counters.updates_without_image.inc();
                self.items.ledger.of_no_item += 1;
                return Ok(());
            }
        };
        let item = &mut self.items.table[index];
        if item.stands_by(provider) {
            self.items.on_standby_update(now, (provider, index), &msg, sink);
            return Ok(());
        }
        if item.supply.is_pending() {
            self.items.on_early_update(now, (provider, index), &msg, sink);
            return Ok(());
        }
        if item.cached.is_spoilt() && !item.cached.is_known() {
            // What could not be read was its image.
            self.counters.updates_without_image.inc();
            let service = item.key.service;
            self.items.count(service, |ledger| ledger.without_image += 1);
            return Ok(());
        }
        if let Err(error) = item.cached.on_update(&msg, &self.items.rules) {
            let service = item.key.service;
            self.items.count(service, |ledger| ledger.unusable += 1);
            self.items.spoil(now, (provider, index), error, sink);
            return Ok(());
        }
        if item.peers.is_empty() {
            self.counters.updates_unwanted.inc();
            let service = item.key.service;
            self.items.count(service, |ledger| ledger.unwanted += 1);
            return Ok(());
        }
        let (Some(service), Some(id)) = (self.items.suppliers.services.get_mut(&item.key.service), item.id)
        else {
            let service = item.key.service;
            self.items.count(service, |ledger| ledger.unwanted += 1);
            return Ok(());
        };
        // Consumers find the item by their stream; a key would hold the provider's service id.
        let body = match msg.key {
            None => bytes,
            Some(_) => self.encoding.encode(|w| UpdateMsg { key: None, ..msg }.encode(w)),
        };
        service.stream.send(now, Kind::Update, id, body, sink);
        service.ledger.published += 1;
        self.counters.stream_messages_out.inc();
        Ok(())
    }
}
