use backbone::InletCommand;
use market::backbone::LinkUp;
use market::server::{ClientId, ServerSink, SourceId, Watcher};
use rssl_server::{ConnectionId, Outbox, Staged};
use rwf::Domain;

use crate::websocket::{self, Json, Means, Opened};

/// Carries out what the core decides: for clients at once, for the backbone after what is being handled.
pub(crate) struct Sink<'a> {
    pub(crate) rssl: &'a mut Outbox,
    /// None if there is no WebSocket port, and so no such client.
    pub(crate) websocket: Option<&'a mut Outbox>,
    pub(crate) json: &'a Json,
    pub(crate) opened: &'a mut Opened,
    pub(crate) commands: &'a mut Vec<InletCommand>,
}

/// What is said of these is not about items.
const NO_ITEMS: [Domain; 3] = [Domain::LOGIN, Domain::SOURCE, Domain::DICTIONARY];

impl ServerSink for Sink<'_> {
    fn send(&mut self, client: ClientId, msg: &[u8]) {
        match (websocket::connection_of(client), &mut self.websocket) {
            (Some(connection), Some(outbox)) => {
                let head = rwf::peek(msg).ok();
                let is_item = head.is_some_and(|head| !NO_ITEMS.contains(&head.domain));
                let means = if is_item { Means::of(msg) } else { Means::Other };
                if self.opened.admits(client, head.map_or(0, |head| head.stream_id), means) {
                    self.json.send(outbox, connection, msg);
                }
            }
            (Some(_), None) => {}
            (None, _) => rssl_server::send(self.rssl, ConnectionId(client.0), msg),
        }
    }

    #[inline]
    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]) {
        let mut as_it_is: Option<Staged> = None;
        let mut as_json: Option<(Option<Staged>, Means)> = None;
        for watcher in watchers {
            match (websocket::connection_of(watcher.client), &mut self.websocket) {
                (None, _) => {
                    let staged = *as_it_is.get_or_insert_with(|| self.rssl.stage(msg));
                    self.rssl.deliver(ConnectionId(watcher.client.0), staged, watcher.stream_id);
                }
                (Some(connection), Some(outbox)) => {
                    let (staged, means) =
                        *as_json.get_or_insert_with(|| (self.json.stage(outbox, msg), Means::of(msg)));
                    if let Some(staged) = staged
                        && self.opened.admits(watcher.client, watcher.stream_id, means)
                    {
                        outbox.deliver(connection, staged, watcher.stream_id);
                    }
                }
                (Some(_), None) => {}
            }
        }
    }

    fn subscribe(&mut self, service: &str) {
        self.commands.push(InletCommand::Subscribe(service.to_owned()));
    }

    fn unsubscribe(&mut self, service: &str) {
        self.commands.push(InletCommand::Unsubscribe(service.to_owned()));
    }

    fn connect(&mut self, instance: u64, directory: SourceId) {
        self.commands.push(InletCommand::Connect { instance, directory });
    }

    fn disconnect_link(&mut self, instance: u64) {
        self.commands.push(InletCommand::Disconnect(instance));
    }

    fn to_instance(&mut self, instance: u64, msg: &LinkUp<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.commands.push(InletCommand::Send { instance, bytes });
    }
}
