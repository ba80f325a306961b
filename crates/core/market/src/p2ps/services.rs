//! Services: which instance each comes from, and what that means for its items.

use units::Nanos;

use super::composing;
use super::hot;
use super::items::WatchedItems;
use super::pair::Active;
use super::service::What;
use super::sink::ServerSink;
use super::sources::Source;

impl WatchedItems {
    /// Decides which instance a service comes from, and what follows for its items and for what clients see
    /// of it.
    pub(super) fn choose_active(&mut self, now: Nanos, id: u16, sink: &mut impl ServerSink) {
        let Some(service) = self.sources.services.get(&id) else { return };
        let before = service.active;
        let is_hot = service.hot.is_some();
        let after = match is_hot {
            false => self.sources.best_source(id, before),
            true => hot::choose_sides(self, now, id, sink),
        };
        if is_hot && before.is_some() && after.is_some() {
            // Its items go on; what has no copy goes to the other one from now on.
            self.sources.services.get_mut(&id).iter_mut().for_each(|service| service.active = after);
        } else if before != after {
            self.deactivate(now, id, sink);
        }
        self.update_definition(now, id, after, sink);
        let is_new = self.sources.services.get(&id).is_some_and(|service| service.active != after);
        if let Some(active) = after
            && is_new
            && !self.sources.is_being_left(id)
        {
            self.activate(now, id, active, sink);
        }
        composing::tell_compositions(self, now, id, sink);
    }

    fn activate(&mut self, now: Nanos, id: u16, active: Active, sink: &mut impl ServerSink) {
        let Some(service) = self.sources.services.get_mut(&id) else { return };
        service.active = Some(active);
        let is_hot = service.hot.is_some();
        if let Some(Some(Source::Service { stream, .. })) = self.sources.all.get_mut(active.source.0 as usize)
        {
            stream.is_active = !is_hot;
        }
        self.sweep(now, id, What::Ask, sink);
    }

    fn deactivate(&mut self, now: Nanos, id: u16, sink: &mut impl ServerSink) {
        let Some(service) = self.sources.services.get_mut(&id) else { return };
        let Some(active) = service.active.take() else { return };
        if let Some(Some(Source::Service { stream, .. })) = self.sources.all.get_mut(active.source.0 as usize)
        {
            stream.deactivate();
        }
        hot::leave_sides(self, id);
        self.sweep(now, id, What::Lost, sink);
        self.sources.report_not_followed(id, active.instance, sink);
    }

    /// Takes over what the instance says about a service, and tells clients what has changed for them.
    fn update_definition(&mut self, now: Nanos, id: u16, active: Option<Active>, sink: &mut impl ServerSink) {
        let offered = active.and_then(|a| self.sources.instances.get(&a.instance)?.offers.get(&id)).cloned();
        let Some(service) = self.sources.services.get_mut(&id) else { return };
        let was_up = service.definition.state.up;
        let mut definition = offered.unwrap_or_else(|| {
            let mut down = service.definition.clone();
            down.state.up = false;
            down
        });
        std::mem::swap(&mut service.definition, &mut definition);
        let is_up = service.definition.state.up;
        if !was_up && is_up {
            self.sources.recheck_later(id, now);
        }
        if was_up && !is_up && active.is_some() {
            self.sweep(now, id, What::Down, sink);
        }
        if self.sources.services[&id].definition != definition {
            self.publish_service_changed(id, &definition, sink);
        }
    }

    /// Asks for items that are suspect though their service has been up again for a while.
    pub(super) fn recheck_services(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        let due: Vec<u16> =
            self.sources.services.iter().filter(|(_, s)| now >= s.recheck_at).map(|(id, _)| *id).collect();
        for id in due {
            let Some(service) = self.sources.services.get_mut(&id) else { continue };
            service.recheck_at = Nanos::NEVER;
            if !service.definition.state.up {
                // Again when it is.
                continue;
            }
            self.sweep(now, id, What::Recheck, sink);
        }
    }

    /// No instance offers the service any more: its items are closed, and then it is gone.
    pub(super) fn remove_service(&mut self, now: Nanos, id: u16, sink: &mut impl ServerSink) {
        let Some(service) = self.sources.services.get_mut(&id) else { return };
        service.is_withdrawn = true;
        if let Some(active) = service.active.take()
            && let Some(Some(Source::Service { stream, .. })) =
                self.sources.all.get_mut(active.source.0 as usize)
        {
            stream.deactivate();
        }
        hot::leave_sides(self, id);
        composing::tell_compositions(self, now, id, sink);
        self.sweep(now, id, What::Close, sink);
    }

    /// The items of a service that nobody offers are closed: it is gone.
    pub(super) fn withdraw_service(&mut self, now: Nanos, id: u16, sink: &mut impl ServerSink) {
        if let Some(gone) = self.sources.services.remove(&id) {
            self.sources.pairs_due.remove(&id);
            for source in gone.sources {
                self.sources.looks.count();
                let gone = self.sources.all.get_mut(source.0 as usize).and_then(Option::take);
                if let Some(Source::Service { stream, .. }) = gone {
                    self.close_account(stream);
                }
            }
            sink.unsubscribe(&gone.definition.info.name);
            self.counters.services.set(self.sources.services.len() as u64);
            self.publish_service_removed(id, sink);
            composing::on_member_changed(self, now, id, &gone.definition.info.name, sink);
        }
    }
}
