//! Ids of services: clients see one id for a name as long as the server runs, whatever ids the instances give.

use std::collections::{BTreeMap, BTreeSet};

use rdm::directory::Service as Definition;

use super::upstream::Instance;
use super::{PointToPoint, ServerNotice, ServerSink};
use crate::backbone::{LinkUp, can_be_topic};

use units::Nanos;

/// The ids that clients see, by name. Those of services that are gone are remembered, so that they come back
/// under the same id.
#[derive(Debug, Default)]
pub(super) struct ServiceIds {
    by_name: BTreeMap<String, u16>,
    taken: BTreeSet<u16>,
}

/// Names that are remembered; beyond that those without a service are forgotten.
const NAMES_MAX: usize = 10_000;

impl ServiceIds {
    /// The id of a name: that which it has had, else `proposed` if no other name has it, else the highest one
    /// that is free; `None` if there is none.
    fn of(&mut self, name: &str, proposed: u16) -> Option<u16> {
        if let Some(&id) = self.by_name.get(name) {
            return Some(id);
        }
        let is_free = |id: &u16| !self.taken.contains(id);
        let id = Some(proposed).filter(is_free).or_else(|| (0..=u16::MAX).rev().find(is_free))?;
        self.taken.insert(id);
        self.by_name.insert(name.to_owned(), id);
        Some(id)
    }

    /// The id of a name that has had one and is remembered.
    pub(super) fn known(&self, name: &str) -> Option<u16> {
        self.by_name.get(name).copied()
    }

    fn forget_unused(&mut self, is_used: impl Fn(u16) -> bool) {
        if self.by_name.len() > NAMES_MAX {
            self.by_name.retain(|_, id| is_used(*id));
            self.taken = self.by_name.values().copied().collect();
        }
    }
}

/// Which id of ours stands for which one of an instance, and the other way.
#[derive(Debug, Default)]
pub(super) struct Renumbering {
    ours: BTreeMap<u16, u16>,
    theirs: BTreeMap<u16, u16>,
}

impl Renumbering {
    pub(super) fn ours(&self, theirs: u16) -> Option<u16> {
        self.ours.get(&theirs).copied()
    }

    pub(super) fn theirs(&self, ours: u16) -> Option<u16> {
        self.theirs.get(&ours).copied()
    }
}

impl PointToPoint {
    /// The services of an instance under our ids, and how its own ones are to be read.
    pub(super) fn renumber(
        &mut self,
        now: Nanos,
        instance: u64,
        services: Vec<Definition>,
        sink: &mut impl ServerSink,
    ) -> (BTreeMap<u16, Definition>, Renumbering) {
        let (mut offers, mut ids) = (BTreeMap::new(), Renumbering::default());
        for mut definition in services {
            let theirs = definition.id;
            if !can_be_topic(&definition.info.name) {
                self.counters.services_unnamable.inc();
                if self.ration.take(now).is_some() {
                    sink.notice(&ServerNotice::Unnamable { service: &definition.info.name, instance });
                }
                continue;
            }
            let Some(ours) = self.service_ids.of(&definition.info.name, theirs) else {
                self.counters.messages_refused.inc();
                continue;
            };
            let known = self.instances.get(&instance).and_then(|i| i.ids.theirs(ours));
            if ours != theirs && known != Some(theirs) {
                self.counters.services_renumbered.inc();
                if self.ration.take(now).is_some() {
                    let service = &definition.info.name;
                    sink.notice(&ServerNotice::Renumbered { service, instance, theirs, ours });
                }
            }
            definition.id = ours;
            ids.ours.insert(theirs, ours);
            ids.theirs.insert(ours, theirs);
            offers.insert(ours, definition);
        }
        let services = &self.services;
        self.service_ids.forget_unused(|id| services.contains_key(&id) || offers.contains_key(&id));
        (offers, ids)
    }
}

/// Sends a message to an instance, with its own ids. What it has no service for is not sent.
pub(super) fn tell(
    instances: &BTreeMap<u64, Instance>,
    instance: u64,
    msg: LinkUp<'_>,
    sink: &mut impl ServerSink,
) {
    let known = instances.get(&instance);
    if let Some(msg) = msg.renumbered(|ours| known?.ids.theirs(ours)) {
        sink.to_instance(instance, &msg);
    }
}
