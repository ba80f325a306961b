//! What status pages show of items and services.

use std::num::NonZeroU32;

use rwf::Domain;
use units::Nanos;

use super::PointToPoint;
use super::sources::Source;
use crate::busiest::BusyItem;
use crate::cached::CachedItem;
use crate::key::OwnedKey;

/// One item.
pub struct ItemInfo<'a> {
    /// What item it is.
    pub key: &'a OwnedKey,
    /// Its image and state.
    pub cached: &'a CachedItem,
    /// Streams that watch it.
    pub watchers: usize,
    /// Its image is missing or not to be trusted.
    pub is_suspect: bool,
    /// Updates since it is watched here; begins again after the highest.
    pub updates: u32,
}

/// One service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceInfo<'a> {
    /// The id that clients see.
    pub id: u16,
    /// The name.
    pub name: &'a str,
    /// Whether its provider is there.
    pub up: bool,
    /// The instance that it comes from.
    pub instance: Option<u64>,
    /// Items of it that are watched here.
    pub items: usize,
    /// The number in the stream of that instance up to which everything has come, or is known to be lost.
    pub sequence: Option<u64>,
    /// Of a hot service: the instances that it is taken from now, at most two, and whether its provider is there.
    pub sides: Option<[Option<(u64, bool)>; 2]>,
}

impl PointToPoint {
    /// The busiest items, the busiest one first, at most [`crate::BUSIEST_MAX`]. The first call begins to look which ones
    /// they are: there is no answer until two sweeps over all items can be compared.
    pub fn busiest_items(&mut self, now: Nanos) -> Option<&[BusyItem]> {
        self.items.busiest.want(now);
        self.items.busiest.shown()
    }

    /// What else status pages show.
    #[must_use]
    pub fn inspect(&self) -> Inspection<'_> {
        Inspection(self)
    }
}

/// A look at what a server has.
#[derive(Clone, Copy)]
pub struct Inspection<'a>(&'a PointToPoint);

impl<'a> Inspection<'a> {
    /// An item by service, domain and name; of the first service that has it if none is given. Items with a longer key
    /// than that are not found.
    #[must_use]
    pub fn item(self, service: Option<&str>, domain: Domain, name: &[u8]) -> Option<ItemInfo<'a>> {
        let known = self.0.items.sources.services.iter();
        let mut ids = known
            .filter(|(_, known)| service.is_none_or(|service| *known.definition.info.name == *service))
            .map(|(id, _)| *id);
        ids.find_map(|id| {
            let (items, key) = (&self.0.items, crate::ItemKey::named(id, domain, name));
            // One of a composed service is shown as the member's item that it is bound to.
            let bound = items.composed.find(key).map(|place| items.composed.table[place].bound.index);
            self.info_of(bound.or_else(|| items.find(key))?)
        })
    }

    /// How many streams watch an item.
    #[must_use]
    pub fn watcher_count(self, key: &OwnedKey) -> usize {
        self.0.items.find(key.as_key()).map_or(0, |at| self.0.items.table[at].audience.count())
    }

    fn info_of(self, index: usize) -> Option<ItemInfo<'a>> {
        let item = self.0.items.table.get(index)?;
        let updates = item.updates.get() - NonZeroU32::MIN.get();
        let (watchers, is_suspect) = (item.audience.count(), item.is_suspect());
        Some(ItemInfo { key: &item.key, cached: &item.cached, watchers, is_suspect, updates })
    }

    /// The services that clients see.
    pub fn services(self) -> impl Iterator<Item = ServiceInfo<'a>> + 'a {
        let sources = &self.0.items.sources;
        sources.services.iter().map(|(id, known)| {
            let source = known.active_source().and_then(|source| sources.all.get(source.0 as usize));
            let sequence = match source {
                Some(Some(Source::Service { stream, .. })) => Some(stream.taken()),
                _ => None,
            };
            ServiceInfo {
                id: *id,
                name: &known.definition.info.name,
                up: known.definition.state.up,
                instance: known.active.map(|active| active.instance),
                items: known.items.len(),
                sequence,
                sides: known
                    .hot
                    .as_ref()
                    .map(|pair| pair.sides.map(|side| side.map(|side| (side.active.instance, side.is_up)))),
            }
        })
    }

    /// The dictionary that clients get.
    #[must_use]
    pub fn dictionary(self) -> &'a rwf::Dictionary {
        &self.0.dictionary
    }

    /// The name of a service.
    #[must_use]
    pub fn service_name(self, id: u16) -> Option<&'a str> {
        Some(&self.0.items.sources.services.get(&id)?.definition.info.name)
    }

    /// What is counted.
    #[must_use]
    pub fn counters(self) -> &'a counters::table::PointToPoint {
        &self.0.counters
    }
}
