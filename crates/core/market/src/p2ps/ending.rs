//! The end of a server, or of single connections by an operator or in a drain: clients are notified, so that they move on at once.

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
            part_from(client, stream_id, "the server is shutting down", sink);
        }
    }

    /// Tells a client that it is disconnected, and why, in the same way. Its connection is to be closed behind that.
    /// Returns whether there is such a client.
    pub fn announce_disconnect(&mut self, client: ClientId, why: &str, sink: &mut impl ServerSink) -> bool {
        let Some(known) = self.items.clients.get(client) else { return false };
        if let Some(login) = &known.login {
            part_from(client, login.stream_id, why, sink);
        }
        self.counters.clients_disconnected.inc();
        true
    }

    /// Tells a client that it is to go to another server, in the same way. Its connection is to be closed behind that.
    pub fn announce_move(&mut self, client: ClientId, sink: &mut impl ServerSink) {
        if let Some(login) = self.items.clients.get(client).and_then(|known| known.login.as_ref()) {
            part_from(client, login.stream_id, "the server is drained: connect to another one", sink);
            self.counters.clients_drained.inc();
        }
    }
}

/// The login is open and suspect: the SDKs hand that to the application, and connect again by themselves.
fn part_from(client: ClientId, stream_id: i32, why: &str, sink: &mut impl ServerSink) {
    let state = State::new(StreamState::Open, DataState::Suspect).because(StateCode::NONE, why);
    let status = LoginStatus { stream_id, state: Some(state), ..LoginStatus::default() };
    if let Ok(message) = status.to_vec() {
        sink.send(client, &message);
    }
}
