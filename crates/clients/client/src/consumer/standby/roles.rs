//! The role of a server among several, as it is announced to that server.

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
    announced: Option<StandbyRole>,
    announced_services: HashMap<u16, StandbyRole>,
}

impl Roles {
    pub(super) fn new(mode: StandbyMode, common: StandbyRole) -> Roles {
        let (services, announced_services) = (HashMap::new(), HashMap::new());
        Roles { mode, common, services, announced: None, announced_services }
    }

    pub(crate) fn set(&mut self, service: Option<&Arc<str>>, role: StandbyRole) {
        match service {
            None => self.common = role,
            Some(service) => drop(self.services.insert(Arc::clone(service), role)),
        }
    }

    /// Whether it was announced to the server that nobody needs its data now.
    pub(crate) fn is_silent(&self, service_id: Option<u16>) -> bool {
        let announced = match self.mode {
            StandbyMode::Login => self.announced,
            StandbyMode::Service => service_id.and_then(|id| self.announced_services.get(&id).copied()),
        };
        announced == Some(StandbyRole::Standby)
    }

    pub(crate) fn on_disconnected(&mut self) {
        self.announced = None;
        self.announced_services.clear();
    }

    /// The message that is due, if the server takes such; `None` if it knows all.
    pub(crate) fn message(&self, features: &Features, directory: &Directory) -> Option<Vec<u8>> {
        match self.mode {
            StandbyMode::Login => {
                let is_due = features.takes_roles(STANDBY_BY_LOGIN) && self.announced != Some(self.common);
                let status = ConnectionStatus { stream_id: LOGIN_STREAM_ID, role: self.common };
                is_due.then(|| status.to_vec().expect("no part of it can be too long"))
            }
            StandbyMode::Service => {
                let services = self.unannounced(directory);
                let is_due = features.takes_roles(STANDBY_BY_SERVICE) && !services.is_empty();
                // More services than a map can hold are not announced.
                let status = is_due.then_some(ConsumerStatus { stream_id: DIRECTORY_STREAM_ID, services })?;
                status.to_vec().ok()
            }
        }
    }

    /// The services whose present role the server does not know.
    fn unannounced(&self, directory: &Directory) -> Vec<(u16, StandbyRole)> {
        let role = |name: &str| self.services.get(name).copied().unwrap_or(self.common);
        let all = directory.services().map(|service| (service.id, role(&service.info.name)));
        all.filter(|(id, role)| self.announced_services.get(id) != Some(role)).collect()
    }

    pub(crate) fn on_announced(&mut self, directory: &Directory) {
        self.announced = Some(self.common);
        let unannounced = self.unannounced(directory);
        self.announced_services.extend(unannounced);
    }
}
