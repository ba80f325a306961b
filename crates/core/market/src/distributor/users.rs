//! The list of users, when it changes.

use rdm::ToVec;
use rdm::login::LoginStatus;

use super::Distributor;
use super::base::ProviderId;
use super::sink::DistributorSink;
use crate::users::{Credentials, Gate, Users};

impl Distributor {
    /// These may log in, before anybody has.
    pub fn admit_only(&mut self, users: Users) {
        self.gate.set(users);
    }

    /// From now on these may log in. Who is logged in and may not be is told so; returned is who that is, for
    /// their connections are to be closed. Providers that this side has dialled are not asked.
    pub fn set_users(&mut self, users: Users, sink: &mut impl DistributorSink) -> Vec<ProviderId> {
        self.gate.set(users);
        let logins = self
            .items
            .suppliers
            .providers
            .iter()
            .filter_map(|(provider, p)| Some((*provider, p.login.clone()?)));
        let mut revoked = Vec::new();
        for (provider, (stream_id, credentials)) in logins.collect::<Vec<(ProviderId, (i32, Credentials))>>()
        {
            if let Err(denial) = self.gate.admit(&credentials) {
                let text = denial.to_string();
                self.deny(provider, LoginStatus::ended(stream_id, denial.code(), &text), sink);
                self.counters.logins_revoked.inc();
                revoked.push(provider);
            }
        }
        revoked
    }

    pub(super) fn deny(
        &mut self,
        provider: ProviderId,
        status: LoginStatus<'_>,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.logins_denied.inc();
        if let Ok(answer) = status.to_vec() {
            sink.to_provider(provider, &answer);
        }
    }

    /// Who may log in, and who was denied last.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}
