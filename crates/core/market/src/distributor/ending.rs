//! The end of an instance: the providers that are connected are notified, those that it has dialled are logged out of.

use rdm::ToVec;
use rdm::login::{LOGIN_STREAM_ID, LoginStatus, logout};
use rwf::{DataState, State, StateCode, StreamState};

use super::Distributor;
use super::base::ProviderId;
use super::sink::DistributorSink;

impl Distributor {
    /// Tells every provider that is logged in that this instance ends: the login is open and suspect. One that was
    /// dialled gets the close of the login that this instance has there.
    pub fn announce_end(&mut self, sink: &mut impl DistributorSink) {
        let logins = self
            .items
            .suppliers
            .providers
            .iter()
            .filter_map(|(provider, p)| Some((*provider, p.login.as_ref()?.0)));
        for (provider, stream_id) in logins.collect::<Vec<(ProviderId, i32)>>() {
            let state = State::new(StreamState::Open, DataState::Suspect);
            let state = state.because(StateCode::NONE, "the source distributor is shutting down");
            let status = LoginStatus { stream_id, state: Some(state), ..LoginStatus::default() };
            if let Ok(message) = status.to_vec() {
                sink.to_provider(provider, &message);
            }
        }
        let dialled = self
            .items
            .suppliers
            .providers
            .iter()
            .filter_map(|(provider, p)| p.dialled.as_ref().map(|_| *provider));
        for provider in dialled.collect::<Vec<ProviderId>>() {
            if let Ok(message) = logout(LOGIN_STREAM_ID).to_vec() {
                sink.to_provider(provider, &message);
            }
        }
    }
}
