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

    /// Tells a client in the same way that its connection is ended, and why. It is to be closed behind that. Returns whether
    /// there is such a client.
    pub fn announce_disconnect(
        &mut self,
        client: ClientId,
        parting: Parting,
        sink: &mut impl ServerSink,
    ) -> bool {
        let Some(known) = self.items.clients.get(client) else { return false };
        let (counter, text) = match parting {
            Parting::Disconnected => {
                (&self.counters.clients_disconnected, "an operator disconnects this client")
            }
            Parting::Moved => {
                (&self.counters.clients_drained, "the server is drained: connect to another one")
            }
        };
        if let Some(login) = &known.login {
            part_from(client, login.stream_id, text, sink);
        }
        counter.inc();
        true
    }
}

/// Why a single connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// An operator wants it.
    Disconnected,
    /// The server is drained, and the client is to go to another one.
    Moved,
}

/// The login is open and suspect: the SDKs hand that to the application, and connect again by themselves.
fn part_from(client: ClientId, stream_id: i32, why: &str, sink: &mut impl ServerSink) {
    let state = State::new(StreamState::Open, DataState::Suspect).because(StateCode::NONE, why);
    let status = LoginStatus { stream_id, state: Some(state), ..LoginStatus::default() };
    if let Ok(message) = status.to_vec() {
        sink.send(client, &message);
    }
}
