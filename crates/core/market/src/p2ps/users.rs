//! The list of users, when it changes.

use rdm::ToVec;
use rdm::login::LoginStatus;

use super::PointToPoint;
use super::base::ClientId;
use super::sink::ServerSink;
use crate::users::{Credentials, Users};

impl PointToPoint {
    /// From now on these may log in. Who is logged in and may not be is told so; returned is who that is, for
    /// their connections are to be closed.
    pub fn set_users(&mut self, users: Users, sink: &mut impl ServerSink) -> Vec<ClientId> {
        self.gate.set(users);
        let logins = self.items.clients.iter().filter_map(|(client, c)| Some((client, c.login.as_ref()?)));
        let logins = logins.map(|(client, login)| (client, login.stream_id, login.credentials.clone()));
        let mut revoked = Vec::new();
        for (client, stream_id, credentials) in logins.collect::<Vec<(ClientId, i32, Credentials)>>() {
            if let Err(denial) = self.gate.admit(&credentials) {
                let text = denial.to_string();
                self.deny(client, LoginStatus::ended(stream_id, denial.code(), &text), sink);
                self.counters.logins_revoked.inc();
                revoked.push(client);
            }
        }
        revoked
    }

    pub(super) fn deny(&mut self, client: ClientId, status: LoginStatus<'_>, sink: &mut impl ServerSink) {
        self.counters.logins_denied.inc();
        if let Ok(answer) = status.to_vec() {
            sink.send(client, &answer);
        }
    }
}
