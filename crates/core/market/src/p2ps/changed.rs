//! Clients that read too slowly: their updates are conflated.
//!
//! The front end refuses updates for such a client ([`ServerSink::fan_out_update`]). The stream is then *changed*: it is
//! noted once, in the queue of its client, and further updates of the item cost nothing for it. When the client has room
//! it is sent the newest state of the item, and gets updates again, until the next one is refused. Nothing is kept of
//! what it was not sent: the values are in the item's image.
//!
//! What is not an update keeps its order. A status of the item, its end, and an update that must not be conflated or
//! that no image holds come behind the newest state. What is said of a whole service does not wait for that: the state
//! of the data is in the image that follows. A new image for all is what a changed stream is sent then
//! ([`due`](super::due)). Answers, generic messages, acknowledgements and private streams do not come this way.

use std::num::NonZeroU32;

use rdm::ToVec;
use rdm::login::LoginStatus;
use rwf::{DataState, State, StateCode, StreamState};
use units::Nanos;

use super::PointToPoint;
use super::base::ClientId;
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
        let login = known.login.as_ref().map(|login| login.stream_id);
        let (step, change) = match is_conflated {
            true => (&self.counters.conflations_begun, 1),
            false => (&self.counters.conflations_ended, -1),
        };
        step.inc();
        self.items.clients.count_conflated(change);
        let Some(stream_id) = login else { return };
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
}
