//! Clients that read too slowly: their updates are conflated.
//!
//! The front end refuses updates for such a client ([`ServerSink::fan_out_update`]). The stream is then *changed*: it is
//! noted once, in the queue of its client, and further updates of the item cost nothing for it. When the client has room
//! it is sent the newest values of what has changed in one update ([`CachedItem::encode_changes`]), or an image where no
//! update can say it, and gets updates again, until the next one is refused. Nothing is kept of what it was not sent: the
//! values are in the item's image, which notes what changes while it has such a stream.
//!
//! A client that is too slow for that is sent *rounds*: a round is what is due when it begins, in the same order. The front
//! end says when one may begin, and is told when all of it is put out ([`ServerSink::end_round`]).
//!
//! [`CachedItem::encode_changes`]: crate::CachedItem::encode_changes
//!
//! What is not an update keeps its order. A status of the item, its end, and an update that must not be conflated or
//! that no image holds come behind the newest values. What is said of a whole service does not wait for that: of an
//! item whose data is suspect an image follows, with its state. A new image for all is what a changed stream is sent then
//! ([`due`](super::due)). Answers, generic messages, acknowledgements and private streams do not come this way.

use std::num::NonZeroU32;

use rdm::ToVec;
use rdm::login::LoginStatus;
use rwf::{DataState, State, StateCode, StreamState};
use units::Nanos;

use super::PointToPoint;
use super::base::ClientId;
use super::client_table::Clients;
use super::item::Item;
use super::sink::ServerSink;

/// For the front end.
impl PointToPoint {
    /// The updates of a client are conflated from now on, or no longer: the client is told on its login stream, with
    /// `why`.
    pub fn set_conflated(
        &mut self,
        now: Nanos,
        client: ClientId,
        is_conflated: bool,
        why: &str,
        sink: &mut impl ServerSink,
    ) {
        let Some(known) = self.items.clients.get_mut(client) else { return };
        if known.conflation.since.is_some() == is_conflated {
            return;
        }
        known.conflation.since = is_conflated.then_some(now);
        let (step, change) = match is_conflated {
            true => (&self.counters.conflations_begun, 1),
            false => (&self.counters.conflations_ended, -1),
        };
        step.inc();
        self.items.clients.count_conflated(change);
        self.items.clients.tell_step(client, why, sink);
    }

    /// A client whose updates are conflated is sent the newest values in rounds from now on, or as soon as it has room: it
    /// is told on its login stream, with `why`. A round is what is due when it begins: [`PointToPoint::send_due_images`]
    /// begins it, and [`ServerSink::end_round`] tells of its end.
    pub fn set_at_interval(
        &mut self,
        now: Nanos,
        client: ClientId,
        is_at_interval: bool,
        why: &str,
        sink: &mut impl ServerSink,
    ) {
        let Some(known) = self.items.clients.get_mut(client) else { return };
        if known.conflation.at_interval_since.is_some() == is_at_interval {
            return;
        }
        known.conflation.at_interval_since = is_at_interval.then_some(now);
        known.conflation.round_left = 0;
        let (step, change) = match is_at_interval {
            true => (&self.counters.intervals_begun, 1),
            false => (&self.counters.intervals_ended, -1),
        };
        step.inc();
        self.items.clients.count_at_interval(change);
        self.items.clients.tell_step(client, why, sink);
    }
}

impl Clients {
    /// Tells a client on its login stream that it is served otherwise than before.
    fn tell_step(&self, client: ClientId, why: &str, sink: &mut impl ServerSink) {
        let login = self.get(client).and_then(|known| known.login.as_ref());
        let Some(stream_id) = login.map(|login| login.stream_id) else { return };
        let state = State::new(StreamState::Open, DataState::Ok).because(StateCode::NONE, why);
        let status = LoginStatus { stream_id, state: Some(state), ..LoginStatus::default() };
        if let Ok(message) = status.to_vec() {
            sink.send(client, &message);
        }
    }
}

impl Item {
    /// Another update has come.
    #[inline]
    pub(super) fn count_update(&mut self) {
        self.updates = self.updates.checked_add(1).unwrap_or(NonZeroU32::MIN);
    }

    /// What updates change is noted no longer if all streams have the newest values.
    #[inline]
    pub(super) fn forget_changes(&mut self) {
        if self.cached.tracks_changes() && self.audience.changed_count() == 0 {
            self.cached.forget_changes();
        }
    }
}
