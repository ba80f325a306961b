//! Services: which instance each comes from, and what that means for its items.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use rdm::directory::Service as Definition;
use units::Nanos;

use super::cleanups::{Sweep, What};
use super::{PointToPoint, ServerSink, Source, SourceId};

/// A service, whichever instance it comes from.
pub(super) struct Service {
    /// As clients see it.
    pub(super) definition: Definition,
    /// Where it comes from now.
    pub(super) active: Option<Active>,
    /// Where it could come from: the sources of its topic.
    pub(super) sources: BTreeSet<SourceId>,
    /// The items of it that clients watch.
    pub(super) items: BTreeSet<usize>,
    /// It came up again: items that are still suspect then are asked for.
    pub(super) recheck_at: Nanos,
    /// No instance offers it any more; its items are being closed.
    pub(super) is_withdrawn: bool,
    /// What is to be done with its items, in order.
    pub(super) sweeps: VecDeque<Sweep>,
}

/// How long after a service came up again its items are looked at. Until then the provider's refreshes make
/// most of them good; the others may have had theirs before the directory told that the service was down,
/// since topics are not ordered against each other.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Active {
    pub(super) instance: u64,
    pub(super) source: SourceId,
}

impl Service {
    pub(super) fn active_source(&self) -> Option<SourceId> {
        self.active.map(|a| a.source)
    }
}

impl PointToPoint {
    /// Decides which instance a service comes from, and what follows for its items and for what clients see
    /// of it.
    pub(super) fn choose_active(&mut self, now: Nanos, id: u16, sink: &mut impl ServerSink) {
        let Some(service) = self.services.get(&id) else { return };
        let before = service.active;
        let after = self.best_source(id, before);
        if before != after {
            self.deactivate(now, id, sink);
        }
        self.update_definition(now, id, after, sink);
        let is_new = self.services.get(&id).is_some_and(|service| service.active != after);
        if let Some(active) = after
            && is_new
            && !self.is_being_left(id)
        {
            self.activate(now, id, active, sink);
        }
    }

    /// The present source if it still serves; else one whose provider is up; else any.
    fn best_source(&self, id: u16, present: Option<Active>) -> Option<Active> {
        let candidates = self.services.get(&id)?.sources.iter().filter_map(|&source| {
            self.looks.count();
            let Some(Some(Source::Service { session, .. })) = self.sources.get(source.0 as usize) else {
                return None;
            };
            let instance = *self.sessions.get(session)?;
            let known = self.instances.get(&instance).filter(|i| i.is_alive() && i.session == *session)?;
            let is_up = known.offers.get(&id)?.state.up;
            Some((Active { instance, source }, is_up))
        });
        candidates.max_by_key(|(active, is_up)| (*is_up, Some(*active) == present)).map(|(active, _)| active)
    }

    fn activate(&mut self, now: Nanos, id: u16, active: Active, sink: &mut impl ServerSink) {
        let Some(service) = self.services.get_mut(&id) else { return };
        service.active = Some(active);
        if let Some(Some(Source::Service { stream, .. })) = self.sources.get_mut(active.source.0 as usize) {
            stream.is_active = true;
        }
        self.sweep(now, id, What::Ask, sink);
    }

    fn deactivate(&mut self, now: Nanos, id: u16, sink: &mut impl ServerSink) {
        let Some(service) = self.services.get_mut(&id) else { return };
        let Some(active) = service.active.take() else { return };
        if let Some(Some(Source::Service { stream, .. })) = self.sources.get_mut(active.source.0 as usize) {
            stream.deactivate();
        }
        self.sweep(now, id, What::Lost, sink);
        self.report_not_followed(id, active.instance, sink);
    }

    /// Takes over what the instance says about a service, and tells clients what has changed for them.
    fn update_definition(&mut self, now: Nanos, id: u16, active: Option<Active>, sink: &mut impl ServerSink) {
        let offered = active.and_then(|a| self.instances.get(&a.instance)?.offers.get(&id)).cloned();
        let Some(service) = self.services.get_mut(&id) else { return };
        let was_up = service.definition.state.up;
        let mut definition = offered.unwrap_or_else(|| {
            let mut down = service.definition.clone();
            down.state.up = false;
            down
        });
        std::mem::swap(&mut service.definition, &mut definition);
        let is_up = service.definition.state.up;
        if !was_up && is_up {
            service.recheck_at = now + RECHECK_AFTER;
            self.services_due_at = self.services_due_at.min(service.recheck_at);
        }
        if was_up && !is_up && active.is_some() {
            self.sweep(now, id, What::Down, sink);
        }
        if self.services[&id].definition != definition {
            self.publish_service_changed(id, &definition, sink);
        }
    }

    /// Asks for items that are suspect though their service has been up again for a while.
    pub(super) fn recheck_services(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        let due: Vec<u16> =
            self.services.iter().filter(|(_, s)| now >= s.recheck_at).map(|(id, _)| *id).collect();
        for id in due {
            let Some(service) = self.services.get_mut(&id) else { continue };
            service.recheck_at = Nanos::NEVER;
            self.sweep(now, id, What::Recheck, sink);
        }
    }

    pub(super) fn next_recheck(&self) -> Nanos {
        self.services.values().map(|s| s.recheck_at).min().unwrap_or(Nanos::NEVER)
    }

    /// Whether any instance offers a service.
    pub(super) fn is_offered(&self, id: u16) -> bool {
        self.instances.values().any(|instance| instance.offers.contains_key(&id))
    }

    /// No instance offers the service any more: its items are closed, and then it is gone.
    pub(super) fn remove_service(&mut self, now: Nanos, id: u16, sink: &mut impl ServerSink) {
        let Some(service) = self.services.get_mut(&id) else { return };
        service.is_withdrawn = true;
        if let Some(active) = service.active.take()
            && let Some(Some(Source::Service { stream, .. })) = self.sources.get_mut(active.source.0 as usize)
        {
            stream.deactivate();
        }
        self.sweep(now, id, What::Close, sink);
    }

    /// The items of a service that nobody offers are closed: it is gone.
    pub(super) fn withdraw_service(&mut self, id: u16, sink: &mut impl ServerSink) {
        if let Some(gone) = self.services.remove(&id) {
            for source in gone.sources {
                self.looks.count();
                if let Some(source) = self.sources.get_mut(source.0 as usize) {
                    *source = None;
                }
            }
            sink.unsubscribe(&gone.definition.info.name);
            self.counters.services.set(self.services.len() as u64);
            self.publish_service_removed(id, sink);
        }
    }
}
