//! The WebSocket port: what its clients say becomes RWF for the core, what the core says becomes JSON for
//! them.

mod clients;
mod ids;
mod names;
mod stand_in;
mod streams;

use std::io::Write;
use std::sync::Arc;

use counters::Registry;
use counters::table::JsonClients as Counters;
use market::server::{ClientId, PointToPoint};
use rssl_server::{ConnectionId, Outbox, Staged};
use rwf::{DataType, Dictionary, Domain, Msg, MsgClass, MsgHead};
use rwf_json::{Converter, KeyPart, Options, Reader, ToJsonError};
use tracing::debug;
use websocket_server::{Kind, stage};

use crate::P2psConfig;
use names::Names;

pub(crate) use clients::WebSocketClients;
pub(crate) use streams::{Means, Streams};

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
            default_service: config.default_service.clone(),
            ping_timeout_s: config.websocket.ping_timeout_s,
            message_max_bytes: config.websocket.message_max_bytes,
            counters,
        }
    }

    /// Takes over which services there are now.
    pub(crate) fn update_services(&mut self, core: &PointToPoint) {
        self.names.update(core.services().map(|(id, name, ..)| (id, name)));
    }

    /// Puts an item's message for any number of clients into the outbox; one that cannot be made into JSON is
    /// stood in for. `None` if it is no message at all.
    #[inline]
    pub(crate) fn stage(&self, outbox: &mut Outbox, msg: &[u8]) -> Option<Shown> {
        let mut written = Ok(DataType::NO_DATA);
        let staged = stage(outbox, Kind::Body, |json| written = self.write(msg, json));
        match written {
            Ok(_) => Some(Shown { staged, means: Means::of(msg) }),
            Err(why) => self.stand_in(outbox, msg, why),
        }
    }

    /// Sends a message that is not about items to one client, on the stream that it names. The answer to a
    /// login travels alone and says what the client has to know of the connection.
    pub(crate) fn send(&self, outbox: &mut Outbox, to: ConnectionId, head: MsgHead, msg: &[u8]) {
        let is_login = head.domain == Domain::LOGIN;
        let mut written = Ok(DataType::NO_DATA);
        let staged = stage(outbox, if is_login { Kind::Alone } else { Kind::Body }, |json| {
            written = self.write(msg, json);
            if is_login && head.class == MsgClass::Refresh && written == Ok(DataType::NO_DATA) {
                self.announce(json);
            }
        });
        let shown = match written {
            Ok(_) => Some(staged),
            Err(why) => self.stand_in(outbox, msg, why).map(|shown| shown.staged),
        };
        if let Some(staged) = shown {
            outbox.deliver(to, staged, head.stream_id);
        }
    }

    /// Puts what stands in for a message into the outbox.
    #[cold]
    fn stand_in(&self, outbox: &mut Outbox, msg: &[u8], why: ToJsonError) -> Option<Shown> {
        self.counters.messages_unwritable.inc();
        let head = rwf::peek(msg).ok()?;
        let (means, instead) = stand_in::stand_in(head, Msg::parse(msg).ok().as_ref(), &why);
        debug!(domain = %head.domain, class = ?head.class, %why, "a message cannot be written as JSON");
        let mut is_written = false;
        let staged = stage(outbox, Kind::Body, |json| is_written = self.write(&instead, json).is_ok());
        is_written.then_some(Shown { staged, means })
    }

    /// Appends the body of a message; tells the type of its payload.
    #[inline]
    fn write(&self, msg: &[u8], json: &mut Vec<u8>) -> Result<DataType, ToJsonError> {
        let msg = Msg::parse(msg)?;
        let converter = Converter::new(&self.dictionary, &self.names, Options::default());
        converter.write_body(&msg, KeyPart::Own, json)?;
        self.counters.messages_written.inc();
        Ok(msg.container_type())
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

    /// What is counted of the port's messages.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }
}

/// A message in the outbox, and what it means for the item streams that get it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) staged: Staged,
    pub(crate) means: Means,
}

/// What the port keeps between messages.
#[derive(Default)]
pub(crate) struct Input {
    reader: Reader,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json() -> Json {
        Json::new(&P2psConfig::default(), Arc::new(Dictionary::new()), &Registry::default())
    }

    /// The header of a message of each class, on stream 7, and nothing that belongs behind it.
    fn headers(domain: Domain) -> impl Iterator<Item = Vec<u8>> {
        (1..=8).map(move |class| vec![0, 8, class, domain.0, 0, 0, 0, 7, 0x7F, 0x7F])
    }

    #[test]
    fn whatever_cannot_be_json_is_stood_in_for_by_what_can() {
        let json = json();
        let mut outbox = Outbox::default();
        for msg in headers(Domain::MARKET_PRICE) {
            let shown = json.stage(&mut outbox, &msg).expect("something is said");
            let update = rwf::peek(&msg).expect("a header").class == MsgClass::Update;
            assert_eq!(shown.means == Means::Missed(Domain::MARKET_PRICE), update);
        }
        assert!(json.stage(&mut outbox, b"no message").is_none());
        assert_eq!(json.counters.messages_unwritable.get(), 9);
    }

    #[test]
    fn what_is_not_about_items_is_stood_in_for_too() {
        let json = json();
        let mut outbox = Outbox::default();
        outbox.add(ConnectionId(0));
        for domain in [Domain::LOGIN, Domain::SOURCE, Domain::DICTIONARY] {
            for msg in headers(domain) {
                json.send(&mut outbox, ConnectionId(0), rwf::peek(&msg).expect("a header"), &msg);
            }
        }
        let (log, entries) = outbox.parts(ConnectionId(0));
        assert_eq!(entries.len(), 24);
        for entry in entries {
            let text = std::str::from_utf8(&log[entry.place()][1..]).expect("JSON");
            assert!(entry.stream_id == 7 && text.starts_with(r#""Type":"Status","Domain":"#), "{text}");
        }
    }
}
