//! The source directory, as clients ask for it.

use std::collections::BTreeSet;

use rdm::directory::{
    ConsumerStatus, DirectoryMsg, DirectoryRefresh, DirectoryUpdate, Service as Definition, ServiceDelta,
};
use rdm::{RdmError, Reply, ToVec};
use rwf::{Msg, StateCode};

use super::PointToPoint;
use super::base::ClientId;
use super::items::WatchedItems;
use super::service::Service;
use super::sink::ServerSink;

/// Most streams of the source directory that one client may have open: each is looked at when a service
/// changes. Applications have one, or one for each service that they follow.
pub(super) const DIRECTORY_STREAMS_MAX: usize = 1_000;

/// Requests.
impl PointToPoint {
    pub(super) fn on_directory_msg(
        &mut self,
        client: ClientId,
        msg: &Msg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), RdmError> {
        let request = match DirectoryMsg::parse(msg)? {
            DirectoryMsg::Request(request) => request,
            DirectoryMsg::Close(close) => {
                if let Some(known) = self.items.clients.get_mut(client) {
                    known.directories.retain(|d| d.stream_id != close.stream_id);
                }
                return Ok(());
            }
            DirectoryMsg::Generic(generic) => {
                if let Some(said) = ConsumerStatus::parse(&generic)? {
                    self.on_service_roles(client, &said, sink);
                }
                return Ok(());
            }
            DirectoryMsg::Refresh(_) | DirectoryMsg::Update(_) | DirectoryMsg::Status(_) => {
                self.counters.client_messages_refused.inc();
                return Ok(());
            }
        };
        if let Some(known) = self.items.clients.get_mut(client) {
            known.directories.retain(|d| d.stream_id != request.stream_id);
            if request.streaming && known.directories.len() >= DIRECTORY_STREAMS_MAX {
                self.counters.requests_refused.inc();
                let text = "too many streams of the source directory on this connection";
                if let Ok(answer) = Reply::to(msg).closed(StateCode::TOO_MANY_ITEMS, text).to_vec() {
                    sink.send(client, &answer);
                }
                return Ok(());
            }
            if request.streaming {
                known.directories.push(request);
            }
        }
        if !request.no_refresh {
            let services = self.items.sources.services.values().map(|s| &s.definition);
            if let Ok(answer) = DirectoryRefresh::answer(&request, services)?.to_vec() {
                sink.send(client, &answer);
            }
        }
        Ok(())
    }
}

/// Changes.
impl PointToPoint {
    /// A client that has several servers tells what services of this one are to it. Ids of no service are passed
    /// over, so that nobody fills the table. Of services that it becomes the active one for it sends the images.
    fn on_service_roles(&mut self, client: ClientId, said: &ConsumerStatus, sink: &mut impl ServerSink) {
        let Some(known) = self.items.clients.get_mut(client) else { return };
        let mut taken_over = BTreeSet::new();
        for &(id, role) in said.services.iter().filter(|(id, _)| self.items.sources.services.contains_key(id))
        {
            if role.takes_over_from(known.seldom_mut().service_roles.insert(id, role)) {
                taken_over.insert(id);
            }
        }
        if !taken_over.is_empty() {
            self.take_over(client, |id| taken_over.contains(&id), sink);
        }
    }
}

/// Changes.
impl WatchedItems {
    /// There is a service more, and clients are told.
    pub(super) fn add_service(&mut self, id: u16, service: Service, sink: &mut impl ServerSink) {
        let delta = ServiceDelta::added(&service.definition);
        self.sources.services.insert(id, service);
        self.counters.services.set(self.sources.services.len() as u64);
        self.publish_directory_change(delta, sink);
    }

    pub(super) fn publish_service_changed(
        &mut self,
        id: u16,
        before: &Definition,
        sink: &mut impl ServerSink,
    ) {
        if let Some(delta) = ServiceDelta::between(before, &self.sources.services[&id].definition) {
            self.publish_directory_change(delta, sink);
        }
    }

    pub(super) fn publish_service_removed(&mut self, id: u16, sink: &mut impl ServerSink) {
        self.publish_directory_change(ServiceDelta::removed(id), sink);
    }

    fn publish_directory_change(&mut self, delta: ServiceDelta, sink: &mut impl ServerSink) {
        self.services_version += 1;
        let deltas = [delta];
        for (client, known) in self.clients.iter() {
            for request in &known.directories {
                if let Some(Ok(update)) = DirectoryUpdate::answer(request, &deltas).map(|u| u.to_vec()) {
                    sink.send(client, &update);
                }
            }
        }
    }
}
