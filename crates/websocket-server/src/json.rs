//! Between clients that speak JSON and a service that speaks RWF.

use std::io::Write;
use std::sync::Arc;

use counters::table::JsonClients as Counters;
use listener::{ConnectionId, Outbox, Staged};
use rdm::{Reply, ToVec};
use rwf::{DataType, Dictionary, Domain, Msg, MsgClass, StateCode};
use rwf_json::{Converter, Incoming, KeyPart, Options, Reader, Refusal, RefusalKind};

use crate::{Kind, Names, WebSocketConfig, stage};

/// More than any dictionary or image in use has: about so many bytes go into one message to a client, since
/// some take the first part of either for all of it.
pub const PART_BYTES: usize = 16 << 20;

/// Makes messages into JSON, each once for all clients that get it, and what clients say into RWF.
///
/// Messages are made by the dictionary and the services that the service behind the port has now
/// ([`Json::set_dictionary`], [`Json::update_services`]).
#[derive(Debug)]
pub struct Json {
    dictionary: Arc<Dictionary>,
    names: Names,
    default_service: Option<String>,
    /// What the login refresh announces: ping timeout and longest message.
    ping_timeout_s: u8,
    message_max_bytes: u32,
    counters: Arc<Counters>,
}

/// Serves one client in RWF.
pub trait RwfService {
    /// Why its connection is to be closed.
    type Fault;

    /// A message of the client.
    ///
    /// # Errors
    /// Its connection is to be closed.
    fn on_rwf(&mut self, rwf: &[u8]) -> Result<(), Self::Fault>;

    /// The outbox of the port.
    fn outbox(&mut self) -> &mut Outbox;
}

impl Json {
    /// For a port without services so far. A request that names no service means `default_service`, or the
    /// only one that there is if that is not set.
    #[must_use]
    pub fn new(
        config: &WebSocketConfig,
        default_service: Option<String>,
        dictionary: Arc<Dictionary>,
        counters: Arc<Counters>,
    ) -> Json {
        Json {
            dictionary,
            names: Names::default(),
            default_service,
            ping_timeout_s: config.ping_timeout_s,
            message_max_bytes: config.message_max_bytes,
            counters,
        }
    }

    /// From now on fields are those of this dictionary.
    pub fn set_dictionary(&mut self, dictionary: Arc<Dictionary>) {
        self.dictionary = dictionary;
    }

    /// Takes over which services there are now, by id and name.
    pub fn update_services<'n>(&mut self, services: impl Iterator<Item = (u16, &'n str)>) {
        self.names.update(services);
    }

    /// What is counted.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Puts a message for any number of clients into the outbox; `None` if it cannot be made into JSON.
    #[inline]
    pub fn stage(&self, outbox: &mut Outbox, msg: &[u8]) -> Option<Staged> {
        let mut is_written = false;
        let staged = stage(outbox, Kind::Body, |json| is_written = self.write(msg, json).is_some());
        self.count(is_written);
        is_written.then_some(staged)
    }

    /// Sends a message to one client, on the stream that it names; whether it could be made into JSON. The
    /// answer to a login travels alone and says what the client has to know of the connection.
    pub fn send(&self, outbox: &mut Outbox, to: ConnectionId, msg: &[u8]) -> bool {
        let head = rwf::peek(msg).ok();
        let is_login = head.is_some_and(|head| head.domain == Domain::LOGIN);
        let kind = if is_login { Kind::Alone } else { Kind::Body };
        let mut is_written = false;
        let staged = stage(outbox, kind, |json| {
            let container = self.write(msg, json);
            is_written = container.is_some();
            let is_refresh = head.is_some_and(|head| head.class == MsgClass::Refresh);
            if is_login && is_refresh && container == Some(DataType::NO_DATA) {
                self.announce(json);
            }
        });
        self.count(is_written);
        if let Some(head) = head.filter(|_| is_written) {
            outbox.deliver(to, staged, head.stream_id);
        }
        is_written
    }

    /// Reads what a client says in one frame: its messages go to the service in order, pings are answered,
    /// and what cannot be used is refused.
    ///
    /// # Errors
    /// The service wants the connection closed. It has seen nothing of what comes behind.
    pub fn read<S: RwfService>(
        &self,
        reader: &mut Reader,
        text: &str,
        from: ConnectionId,
        service: &mut S,
    ) -> Result<(), S::Fault> {
        let mut result = Ok(());
        let read = reader.read_frame(&self.input_converter(), text.as_bytes(), |incoming| {
            if result.is_ok() {
                result = self.on_incoming(incoming, from, service);
            }
        });
        if let (Err(refusal), Ok(())) = (read, &result) {
            self.refuse(&refusal, from, service.outbox());
        }
        result
    }

    fn on_incoming<S: RwfService>(
        &self,
        incoming: Incoming<'_>,
        from: ConnectionId,
        service: &mut S,
    ) -> Result<(), S::Fault> {
        match incoming {
            Incoming::Ping => {
                self.counters.pings_in.inc();
                answer(service.outbox(), from, rwf_json::write_pong);
            }
            Incoming::Pong => {}
            Incoming::Error(_) => self.counters.errors_in.inc(),
            Incoming::Message { rwf, .. } => {
                self.counters.messages_read.inc();
                service.on_rwf(rwf)?;
            }
        }
        Ok(())
    }

    /// What cannot be used is answered by an error; a request that names an unknown service by a status, for
    /// which clients wait.
    fn refuse(&self, refusal: &Refusal<'_>, to: ConnectionId, outbox: &mut Outbox) {
        if refusal.kind() != RefusalKind::UnknownService || refusal.stream_id == 0 {
            self.counters.messages_refused.inc();
            answer(outbox, to, |json| refusal.write(json));
            return;
        }
        self.counters.unknown_services.inc();
        let text = refusal.to_string();
        let (domain, stream_id) = (refusal.domain, refusal.stream_id);
        let reply = Reply { domain, stream_id, key: None, private_stream: false };
        if let Ok(bytes) = reply.closed(StateCode::SOURCE_UNKNOWN, &text).to_vec() {
            self.send(outbox, to, &bytes);
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

/// Sends an object that has all it needs.
fn answer(outbox: &mut Outbox, to: ConnectionId, write: impl FnOnce(&mut Vec<u8>)) {
    let staged = stage(outbox, Kind::Whole, write);
    outbox.deliver(to, staged, 0);
}

#[cfg(test)]
mod tests {
    use rdm::login::{LoginRefresh, LoginRequest};

    use super::*;
    use crate::message::Message;

    const CLIENT: ConnectionId = ConnectionId(0);

    /// What a service was asked, and what its client was answered.
    struct Scene {
        json: Json,
        outbox: Outbox,
        heard: Vec<Vec<u8>>,
    }

    /// A service that wants no second message.
    struct Once<'a>(&'a mut Outbox, &'a mut Vec<Vec<u8>>);

    impl RwfService for Once<'_> {
        type Fault = ();

        fn on_rwf(&mut self, rwf: &[u8]) -> Result<(), ()> {
            self.1.push(rwf.to_vec());
            if self.1.len() < 2 { Ok(()) } else { Err(()) }
        }

        fn outbox(&mut self) -> &mut Outbox {
            self.0
        }
    }

    impl Scene {
        fn new() -> Scene {
            let config = WebSocketConfig::default();
            let mut json = Json::new(&config, None, Arc::new(Dictionary::new()), Arc::default());
            json.update_services([(7, "S")].into_iter());
            let mut outbox = Outbox::default();
            outbox.add(CLIENT);
            Scene { json, outbox, heard: Vec::new() }
        }

        fn say(&mut self, text: &str) -> Result<(), ()> {
            let mut service = Once(&mut self.outbox, &mut self.heard);
            self.json.read(&mut Reader::new(), text, CLIENT, &mut service)
        }

        /// What waits for the client: kind, stream, text.
        fn sent(&mut self) -> Vec<(Kind, i32, String)> {
            let (log, entries) = self.outbox.parts(CLIENT);
            let text = |entry: &listener::Entry| {
                let message = Message::read(&log[entry.place()]);
                let json = String::from_utf8_lossy(message.json).into_owned();
                (message.kind, entry.stream_id, json)
            };
            entries.iter().map(text).collect()
        }
    }

    #[test]
    fn a_message_that_cannot_be_json_is_counted_and_sent_to_nobody() {
        let mut scene = Scene::new();
        assert!(scene.json.stage(&mut scene.outbox, b"no message").is_none());
        assert!(!scene.json.send(&mut scene.outbox, CLIENT, &[0, 7, 2]));
        let counters = scene.json.counters();
        assert_eq!((counters.messages_unwritable.get(), counters.messages_written.get()), (2, 0));
        assert!(scene.sent().is_empty());
    }

    #[test]
    fn messages_come_as_rwf_with_the_only_service_until_the_service_has_enough() {
        let mut scene = Scene::new();
        let request = |id| format!(r#"{{"ID":{id},"Key":{{"Name":"A"}}}}"#);
        let frame = format!("[{},{},{}]", request(5), request(6), request(7));
        assert_eq!(scene.say(&frame), Err(()));
        let keys = scene.heard.iter().map(|rwf| match Msg::parse(rwf) {
            Ok(Msg::Request(request)) => (request.stream_id, request.key.service_id),
            other => panic!("{other:?}"),
        });
        assert_eq!(keys.collect::<Vec<_>>(), [(5, Some(7)), (6, Some(7))]);
        assert_eq!(scene.json.counters().messages_read.get(), 2);
    }

    #[test]
    fn pings_are_answered_and_errors_counted() {
        let mut scene = Scene::new();
        assert_eq!(scene.say(r#"[{"Type":"Ping"},{"Type":"Pong"},{"Type":"Error","ID":5}]"#), Ok(()));
        assert_eq!(scene.sent(), [(Kind::Whole, 0, r#"{"Type":"Pong"}"#.to_owned())]);
        let counters = scene.json.counters();
        assert_eq!((counters.pings_in.get(), counters.errors_in.get()), (1, 1));
    }

    #[test]
    fn what_cannot_be_used_is_an_error_and_an_unknown_service_a_status() {
        let mut scene = Scene::new();
        assert_eq!(scene.say("{"), Ok(()));
        assert_eq!(scene.say(r#"{"ID":5,"Key":{"Name":"A","Service":"T"}}"#), Ok(()));
        let sent = scene.sent();
        assert_eq!((sent[0].0, sent[1].0, sent[1].1), (Kind::Whole, Kind::Body, 5));
        assert!(sent[0].2.contains(r#""Type":"Error""#), "{sent:?}");
        assert!(
            sent[1].2.contains(r#""Stream":"Closed","Data":"Suspect","Code":"SourceUnknown""#),
            "{sent:?}"
        );
        let counters = scene.json.counters();
        assert_eq!((counters.messages_refused.get(), counters.unknown_services.get()), (1, 1));
        assert!(scene.heard.is_empty());
    }

    #[test]
    fn the_answer_to_a_login_is_alone_and_announces_the_connection() {
        let mut scene = Scene::new();
        let refresh = LoginRefresh::accept(&LoginRequest::consumer(b"ada")).to_vec().expect("legal");
        assert!(scene.json.send(&mut scene.outbox, CLIENT, &refresh));
        let sent = scene.sent();
        assert_eq!((sent.len(), sent[0].0, sent[0].1), (1, Kind::Alone, 1));
        assert!(sent[0].2.ends_with(r#","Elements":{"PingTimeout":30,"MaxMsgSize":61440}}"#), "{sent:?}");
    }
}
