//! Services and what they come from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use counters::table::PointToPoint as Counters;
use rdm::directory::Service as Definition;
use rwf::NakCode;
use units::Nanos;

use super::base::SourceId;
use super::instance::{Instance, Renumbering};
use super::merge::SideNo;
use super::notices::ServerNotice;
use super::pair::{Active, Pair};
use super::posts::PostRefusal;
use super::service::{Service, What};
use super::service_ids::ServiceIds;
use super::sink::ServerSink;
use super::stream::Incoming;
use crate::backbone::{LinkUp, StreamMsg, can_be_topic};
use crate::ration::Ration;

/// How long after a service came up again its items are looked at. Until then the provider's refreshes make
/// most of them good; the others may have had theirs before the directory told that the service was down,
/// since topics are not ordered against each other.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

/// Services, the source distributors that offer them, and the streams that these publish.
pub(super) struct Sources {
    /// By id.
    pub(super) services: BTreeMap<u16, Service>,
    service_ids: ServiceIds,
    /// The names of composed services with their ids: no instance offers a service of such a name here.
    composed: BTreeMap<String, u16>,
    /// Nothing is due for any service before: so that not all of them are asked at each turn.
    pub(super) services_due_at: Nanos,
    /// Hot services of whose pairs something is to be done, now or at a time: the others cost nothing in a turn.
    pub(super) pairs_due: BTreeSet<u16>,
    /// No stream can have become silent before.
    pub(super) streams_due_at: Nanos,
    pub(super) instances: BTreeMap<u64, Instance>,
    /// The instance behind each transport session, as its directory told.
    pub(super) sessions: BTreeMap<u64, u64>,
    /// The sources, by the carrier's numbers.
    pub(super) all: Vec<Option<Source>>,
    /// What may be reported of messages that cannot be used.
    pub(super) ration: Ration,
    pub(super) looks: Looks,
    counters: Arc<Counters>,
}

/// How many services and sources were looked at: tests hold it against how many there are.
#[derive(Debug, Default)]
pub(super) struct Looks {
    #[cfg(test)]
    pub(super) count: std::cell::Cell<usize>,
}

impl Looks {
    #[inline]
    pub(super) fn count(&self) {
        #[cfg(test)]
        self.count.set(self.count.get() + 1);
    }
}

impl Sources {
    pub(super) fn new(counters: Arc<Counters>) -> Sources {
        Sources {
            services: BTreeMap::new(),
            service_ids: ServiceIds::default(),
            composed: BTreeMap::new(),
            services_due_at: Nanos::NEVER,
            pairs_due: BTreeSet::new(),
            streams_due_at: Nanos::NEVER,
            instances: BTreeMap::new(),
            sessions: BTreeMap::new(),
            all: Vec::new(),
            ration: Ration::default(),
            looks: Looks::default(),
            counters,
        }
    }
}

/// One source of one topic.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are of services, and what comes there is on the path of an update"
)]
pub(super) enum Source {
    Directory { session: u64 },
    Service { session: u64, stream: Incoming },
}

impl Sources {
    /// Whether a service is still being left: another source has to wait until its items are free.
    pub(super) fn is_being_left(&self, id: u16) -> bool {
        let service = self.services.get(&id);
        service.is_some_and(|s| s.sweeps.iter().any(|sweep| matches!(sweep.what, What::Lost | What::Close)))
    }
}

impl Sources {
    pub(super) fn active_instance(&self, service: u16) -> Result<u64, PostRefusal> {
        let unknown = || (NakCode::SOURCE_UNKNOWN, "there is no service of this id".into());
        let down = || (NakCode::SOURCE_DOWN, "the service is down".into());
        Ok(self.services.get(&service).ok_or_else(unknown)?.active.ok_or_else(down)?.instance)
    }
}

impl Sources {
    pub(super) fn next_gap_check(&self) -> Nanos {
        self.waiting_streams().map(|(_, (_, answer_until))| answer_until).min().unwrap_or(Nanos::NEVER)
    }

    /// The streams that wait for an answer, and for which.
    pub(super) fn waiting_streams(&self) -> impl Iterator<Item = (SourceId, (u64, Nanos))> + '_ {
        let waiting = |source| self.stream(source).and_then(|stream| stream.behind.front_gap());
        self.services.values().flat_map(|service| service.followed()).filter_map(move |source| {
            let gap = waiting(source)?;
            Some((source, gap))
        })
    }

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
            if self.composed.contains_key(&definition.info.name) {
                self.counters.services_shadowed.inc();
                if self.ration.take(now).is_some() {
                    sink.notice(&ServerNotice::Shadowed { service: &definition.info.name, instance });
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
        let (services, composed) = (&self.services, &self.composed);
        let is_used = |id| {
            services.contains_key(&id)
                || offers.contains_key(&id)
                || composed.values().any(|known| *known == id)
        };
        self.service_ids.forget_unused(is_used);
        (offers, ids)
    }

    /// The id of a composed service: the highest one that is free.
    pub(super) fn reserve(&mut self, name: &str) -> Option<u16> {
        let id = self.service_ids.of(name, u16::MAX)?;
        self.composed.insert(name.to_owned(), id);
        Some(id)
    }

    /// Whether a service is up: an instance offers it, and its provider is there.
    pub(super) fn is_up(&self, id: u16) -> bool {
        let service = self.services.get(&id);
        service
            .is_some_and(|known| known.active.is_some() && known.definition.state.up && !known.is_withdrawn)
    }

    /// Tells an instance that a stream of its is not followed any more.
    pub(super) fn report_not_followed(&self, ours: u16, instance: u64, sink: &mut impl ServerSink) {
        let Some(known) =
            self.instances.get(&instance).filter(|known| known.is_linked() && known.has_progress())
        else {
            return;
        };
        let Some(theirs) = known.ids.theirs(ours) else { return };
        let mut positions = Vec::new();
        LinkUp::put_position(&mut positions, theirs, LinkUp::NOT_FOLLOWED);
        self.counters.progress_out.inc();
        sink.to_instance(instance, &LinkUp::Progress { positions: &positions });
    }

    /// The present source if it still serves; else one whose provider is up, of these one that was heard; else any.
    pub(super) fn best_source(&self, id: u16, present: Option<Active>) -> Option<Active> {
        let was_heard = |active: &Active| self.stream(active.source).is_some_and(Incoming::was_heard);
        let candidates = self.candidates(id).into_iter();
        let best =
            candidates.max_by_key(|(active, is_up)| (*is_up, Some(*active) == present, was_heard(active)));
        best.map(|(active, _)| active)
    }

    /// The sources that a service can come from now, and whether its provider is there.
    pub(super) fn candidates(&self, id: u16) -> Vec<(Active, bool)> {
        let Some(service) = self.services.get(&id) else { return Vec::new() };
        let candidates = service.sources.iter().filter_map(|&source| {
            self.looks.count();
            let Some(Some(Source::Service { session, stream })) = self.all.get(source.0 as usize) else {
                return None;
            };
            if stream.is_silent {
                return None;
            }
            let instance = *self.sessions.get(session)?;
            let known = self.instances.get(&instance).filter(|i| i.is_alive() && i.session == *session)?;
            let is_up = known.offers.get(&id)?.state.up;
            Some((Active { instance, source }, is_up))
        });
        candidates.collect()
    }

    /// Whether a directory comes by another session than the one that its instance is heard by, and that is not silent:
    /// an instance that reaches this server by several sessions keeps to one of them. It changes when the other one has
    /// spoken twice and the present one has not meanwhile.
    pub(super) fn is_by_a_rival(&mut self, instance: u64, source: SourceId) -> bool {
        let Some(known) = self.instances.get_mut(&instance).filter(|known| !known.is_silent) else {
            return false;
        };
        let present = self.all.get(known.directory.0 as usize);
        let is_there =
            matches!(present, Some(Some(Source::Directory { session })) if *session == known.session);
        is_there && known.directory != source && known.rival.replace(source) != Some(source)
    }

    /// Marks the streams from which nothing has come for `timeout` though their instance is heard; the service, the
    /// instance and the time of each.
    pub(super) fn take_silent(&mut self, now: Nanos, timeout: Duration) -> Vec<(u16, u64, Duration)> {
        let (mut found, mut next) = (Vec::new(), now + timeout);
        for (&id, service) in &self.services {
            for source in &service.sources {
                self.looks.count();
                let Some(Some(Source::Service { session, stream })) = self.all.get_mut(source.0 as usize)
                else {
                    continue;
                };
                // Of an instance that is lost as a whole all services are.
                let Some(instance) = self.sessions.get(session).copied().filter(|id| {
                    self.instances.get(id).is_some_and(|i| i.is_alive() && i.session == *session)
                }) else {
                    continue;
                };
                if stream.is_silent {
                    continue;
                }
                let quiet = now.since(stream.heard_at);
                if quiet >= timeout {
                    stream.is_silent = true;
                    found.push((id, instance, quiet));
                } else {
                    next = next.min(stream.heard_at + timeout);
                }
            }
        }
        self.streams_due_at = next;
        found
    }

    /// The streams of a session, or of all, count as heard now: what they have said meanwhile is still to be read.
    pub(super) fn note_heard(&mut self, now: Nanos, of: Option<u64>) {
        for source in self.all.iter_mut().flatten() {
            if let Source::Service { session, stream } = source
                && !stream.is_silent
                && of.is_none_or(|of| of == *session)
            {
                stream.heard_at = now;
            }
        }
    }

    /// Items of a service that are suspect after a while are asked for then.
    pub(super) fn recheck_later(&mut self, id: u16, now: Nanos) {
        if let Some(service) = self.services.get_mut(&id) {
            service.recheck_at = now + RECHECK_AFTER;
            self.services_due_at = self.services_due_at.min(service.recheck_at);
        }
    }

    pub(super) fn next_recheck(&self) -> Nanos {
        self.services.values().map(|s| s.recheck_at).min().unwrap_or(Nanos::NEVER)
    }

    /// Whether any instance offers a service.
    pub(super) fn is_offered(&self, id: u16) -> bool {
        self.instances.values().any(|instance| instance.offers.contains_key(&id))
    }
}

impl Sources {
    #[inline]
    /// The stream of a source of a service.
    pub(super) fn stream(&self, source: SourceId) -> Option<&Incoming> {
        match self.all.get(source.0 as usize) {
            Some(Some(Source::Service { stream, .. })) => Some(stream),
            _ => None,
        }
    }

    pub(super) fn stream_mut(&mut self, source: SourceId) -> Option<&mut Incoming> {
        match self.all.get_mut(source.0 as usize) {
            Some(Some(Source::Service { stream, .. })) => Some(stream),
            _ => None,
        }
    }

    /// The place of the item that a stream message is about.
    #[inline]
    pub(super) fn item_of(&self, source: SourceId, bytes: &[u8]) -> Option<usize> {
        let Some(Some(Source::Service { stream, .. })) = self.all.get(source.0 as usize) else { return None };
        stream.item(StreamMsg::parse(bytes).ok()?.item)
    }

    pub(super) fn service_by_name(&self, name: &str) -> Option<u16> {
        self.service_ids.known(name).filter(|id| self.services.contains_key(id))
    }
}

/// Hot services.
impl Sources {
    pub(super) fn pair_mut(&mut self, service: u16) -> Option<&mut Pair> {
        self.services.get_mut(&service)?.hot.as_deref_mut()
    }

    /// The pair of a hot service of whose items something is about to be noted that is due.
    pub(super) fn due_pair_mut(&mut self, service: u16) -> Option<&mut Pair> {
        let pair = self.services.get_mut(&service)?.hot.as_deref_mut()?;
        self.pairs_due.insert(service);
        Some(pair)
    }

    fn side(&self, service: u16, side: SideNo) -> Option<Active> {
        let pair = self.services.get(&service)?.hot.as_ref()?;
        pair.sides.get(side)?.map(|side| side.active)
    }

    pub(super) fn source_of_side(&self, service: u16, side: SideNo) -> Option<SourceId> {
        self.side(service, side).map(|active| active.source)
    }

    pub(super) fn side_instance(&self, service: u16, side: SideNo) -> Option<u64> {
        self.side(service, side).map(|active| active.instance)
    }

    /// The side of a hot service that an instance is.
    pub(super) fn side_of(&self, service: u16, instance: u64) -> Option<SideNo> {
        self.services.get(&service)?.hot.as_ref()?.side_of(instance)
    }

    /// Whether a side is still being left.
    pub(super) fn is_side_being_left(&self, service: u16, side: SideNo) -> bool {
        let service = self.services.get(&service);
        service.is_some_and(|s| s.sweeps.iter().any(|sweep| sweep.what == What::SideLost(side)))
    }
}

impl Sources {
    /// A source is none of a service any more.
    pub(super) fn forget_source(&mut self, service: u16, source: SourceId) {
        if let Some(service) = self.services.get_mut(&service) {
            service.sources.remove(&source);
        }
    }
}
