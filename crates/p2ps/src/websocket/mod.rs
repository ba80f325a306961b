//! The WebSocket port: what its clients say becomes RWF for the core, what the core says becomes JSON for
//! them.

mod clients;
mod names;
mod opened;

use std::io::Write;
use std::sync::Arc;

use counters::Registry;
use counters::table::JsonClients as Counters;
use market::server::{ClientId, PointToPoint};
use rssl_server::{ConnectionId, Outbox, Staged};
use rwf::{DataType, Dictionary, Domain, Msg};
use rwf_json::{Converter, KeyPart, Options, Reader};
use websocket_server::{Kind, stage};

use crate::P2psConfig;
use names::Names;

pub(crate) use clients::WebSocketClients;
pub(crate) use opened::{Means, Opened};

/// Ids of clients on the WebSocket port have this bit, others do not.
const WEBSOCKET: u32 = 1 << 31;

/// The core's number of a client on the WebSocket port.
pub(crate) fn client_of(connection: ConnectionId) -> ClientId {
    ClientId(connection.0 | WEBSOCKET)
}

/// The connection of a client, if it is one of the WebSocket port.
#[inline]
pub(crate) fn connection_of(client: ClientId) -> Option<ConnectionId> {
    (client.0 & WEBSOCKET != 0).then_some(ConnectionId(client.0 & !WEBSOCKET))
}

/// What conversions go by, and how messages are put into the port's outbox.
pub(crate) struct Json {
    dictionary: Arc<Dictionary>,
    names: Names,
    /// Of the core's services when `names` were taken over.
    services_version: u64,
    default_service: Option<String>,
    /// What the login refresh announces: ping timeout and longest message.
    ping_timeout_s: u8,
    message_max_bytes: u32,
    counters: Arc<Counters>,
}

impl Json {
    pub(crate) fn new(config: &P2psConfig, dictionary: Arc<Dictionary>, registry: &Registry) -> Json {
        let counters = Arc::new(Counters::default());
        registry.register(&[], counters.clone());
        Json {
            dictionary,
            names: Names::default(),
            services_version: 0,
            default_service: config.default_service.clone(),
            ping_timeout_s: config.websocket.ping_timeout_s,
            message_max_bytes: config.websocket.message_max_bytes,
            counters,
        }
    }

    /// Takes over which services there are now, if they are others than before.
    #[inline]
    pub(crate) fn update_services(&mut self, core: &PointToPoint) {
        if self.services_version == core.services_version() {
            return;
        }
        self.services_version = core.services_version();
        self.names.update(core.services().map(|(id, name, ..)| (id, name)));
    }

    /// Puts a message for any number of clients into the outbox; `None` if it cannot be made into JSON.
    #[inline]
    pub(crate) fn stage(&self, outbox: &mut Outbox, msg: &[u8]) -> Option<Staged> {
        let mut is_written = false;
        let staged = stage(outbox, Kind::Body, |json| is_written = self.write(msg, json).is_some());
        self.count(is_written);
        is_written.then_some(staged)
    }

    /// Sends a message to one client, on the stream that it names. The answer to a login travels alone and
    /// says what the client has to know of the connection.
    pub(crate) fn send(&self, outbox: &mut Outbox, to: ConnectionId, msg: &[u8]) {
        let Ok(head) = rwf::peek(msg) else { return self.count(false) };
        let kind = if head.domain == Domain::LOGIN { Kind::Alone } else { Kind::Body };
        let mut is_written = false;
        let staged = stage(outbox, kind, |json| {
            let container = self.write(msg, json);
            is_written = container.is_some();
            if head.domain == Domain::LOGIN
                && head.class == rwf::MsgClass::Refresh
                && container == Some(DataType::NO_DATA)
            {
                self.announce(json);
            }
        });
        self.count(is_written);
        if is_written {
            outbox.deliver(to, staged, head.stream_id);
        }
    }

    /// Appends the body of a message; tells the type of its payload.
    #[inline]
    fn write(&self, msg: &[u8], json: &mut Vec<u8>) -> Option<DataType> {
        let msg = Msg::parse(msg).ok()?;
        let converter = Converter::new(&self.dictionary, &self.names, Options::default());
        converter.write_body(&msg, KeyPart::Own, json).ok()?;
        Some(msg.container_type())
    }

    /// Gives a login refresh the payload that it has on this port.
    fn announce(&self, json: &mut Vec<u8>) {
        let closing = json.pop();
        debug_assert_eq!(closing, Some(b'}'));
        let (timeout, longest) = (self.ping_timeout_s, self.message_max_bytes);
        write!(json, r#","Elements":{{"PingTimeout":{timeout},"MaxMsgSize":{longest}}}}}"#)
            .expect("a vector takes what it is given");
    }

    /// What the messages of clients are read by: they may name no service.
    fn input_converter(&self) -> Converter<'_, Names> {
        let default_service_id = self.names.default_id(self.default_service.as_deref());
        let options = Options { default_service_id, ..Options::default() };
        Converter::new(&self.dictionary, &self.names, options)
    }

    #[inline]
    fn count(&self, is_written: bool) {
        if is_written {
            self.counters.messages_written.inc();
        } else {
            self.counters.messages_unwritable.inc();
        }
    }
}

/// What the port keeps between messages.
#[derive(Default)]
pub(crate) struct Input {
    reader: Reader,
    /// Open streams of the source directory: a close need not name their domain.
    directories: Vec<(ConnectionId, i32)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_cannot_be_json_is_counted_and_sent_to_nobody() {
        let config = P2psConfig::default();
        let json = Json::new(&config, Arc::new(Dictionary::new()), &Registry::default());
        let mut outbox = Outbox::default();
        outbox.add(ConnectionId(0));
        assert!(json.stage(&mut outbox, b"no message").is_none());
        json.send(&mut outbox, ConnectionId(0), &[0, 7, 2]);
        let counters = &json.counters;
        assert_eq!((counters.messages_unwritable.get(), counters.messages_written.get()), (2, 0));
        assert!(outbox.parts(ConnectionId(0)).1.is_empty());
    }
}
