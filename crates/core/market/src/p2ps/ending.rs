//! The end of a server: its clients are notified, so that they move on at once.

use rdm::ToVec;
use rdm::login::LoginStatus;
use rwf::{DataState, State, StateCode, StreamState};

use super::PointToPoint;
use super::base::ClientId;
use super::sink::ServerSink;

impl PointToPoint {
    /// Tells every client that is logged in that this server ends: the login is open and suspect, which the SDKs hand
    /// to the application; what the application has open becomes suspect when the connection ends.
    pub fn announce_end(&mut self, sink: &mut impl ServerSink) {
        let logins = self
            .items
            .clients
            .all
            .iter()
            .filter_map(|(client, c)| Some((*client, c.login.as_ref()?.stream_id)));
        for (client, stream_id) in logins.collect::<Vec<(ClientId, i32)>>() {
            let state = State::new(StreamState::Open, DataState::Suspect);
            let state = state.because(StateCode::NONE, "the server is shutting down");
            let status = LoginStatus { stream_id, state: Some(state), ..LoginStatus::default() };
            if let Ok(message) = status.to_vec() {
                sink.send(client, &message);
            }
        }
    }
}
