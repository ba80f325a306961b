//! What a server is told of its place among several.

use std::collections::HashMap;
use std::sync::Arc;

use rdm::ToVec;
use rdm::directory::{ConsumerStatus, Directory};
use rdm::login::{
    ConnectionStatus, Features, LOGIN_STREAM_ID, STANDBY_BY_LOGIN, STANDBY_BY_SERVICE, StandbyRole,
};

use crate::StandbyMode;
use crate::consumer::streams::DIRECTORY_STREAM_ID;

/// The roles of one server, and what it knows of them on the connection that stands.
pub(crate) struct Roles {
    mode: StandbyMode,
    /// Of all services that have none of their own.
    common: StandbyRole,
    services: HashMap<Arc<str>, StandbyRole>,
    told: Option<StandbyRole>,
    told_services: HashMap<u16, StandbyRole>,
}

impl Roles {
    pub(super) fn new(mode: StandbyMode, common: StandbyRole) -> Roles {
        let (services, told_services) = (HashMap::new(), HashMap::new());
        Roles { mode, common, services, told: None, told_services }
    }

    pub(crate) fn set(&mut self, service: Option<&Arc<str>>, role: StandbyRole) {
        match service {
            None => self.common = role,
            Some(service) => drop(self.services.insert(Arc::clone(service), role)),
        }
    }

    /// Whether the server was told that nobody needs its data now.
    pub(crate) fn is_silent(&self, service_id: Option<u16>) -> bool {
        let told = match self.mode {
            StandbyMode::Login => self.told,
            StandbyMode::Service => service_id.and_then(|id| self.told_services.get(&id).copied()),
        };
        told == Some(StandbyRole::Standby)
    }

    pub(crate) fn on_disconnected(&mut self) {
        self.told = None;
        self.told_services.clear();
    }

    /// The message that is due, if the server takes such; `None` if it knows all.
    pub(crate) fn message(&self, features: &Features, directory: &Directory) -> Option<Vec<u8>> {
        match self.mode {
            StandbyMode::Login => {
                let is_due = features.takes_roles(STANDBY_BY_LOGIN) && self.told != Some(self.common);
                let status = ConnectionStatus { stream_id: LOGIN_STREAM_ID, role: self.common };
                is_due.then(|| status.to_vec().expect("no part of it can be too long"))
            }
            StandbyMode::Service => {
                let services = self.untold(directory);
                let is_due = features.takes_roles(STANDBY_BY_SERVICE) && !services.is_empty();
                // More services than a map can hold are not told.
                let status = is_due.then_some(ConsumerStatus { stream_id: DIRECTORY_STREAM_ID, services })?;
                status.to_vec().ok()
            }
        }
    }

    /// The services whose present role the server does not know.
    fn untold(&self, directory: &Directory) -> Vec<(u16, StandbyRole)> {
        let role = |name: &str| self.services.get(name).copied().unwrap_or(self.common);
        let all = directory.services().map(|service| (service.id, role(&service.info.name)));
        all.filter(|(id, role)| self.told_services.get(id) != Some(role)).collect()
    }

    pub(crate) fn on_told(&mut self, directory: &Directory) {
        self.told = Some(self.common);
        let untold = self.untold(directory);
        self.told_services.extend(untold);
    }
}
