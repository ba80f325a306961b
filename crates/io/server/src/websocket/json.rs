//! Between clients that speak JSON and a service that speaks RWF.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;

use counters::table::JsonClients as Counters;
use rdm::directory::Filter;
use rdm::{Reply, ToVec};
use rwf::{DataType, Dictionary, Domain, Key, Msg, MsgClass, RefreshMsg, RequestMsg, StateCode};
use rwf_json::{Converter, Incoming, KeyPart, Options, PeerError, Reader, Refusal, RefusalKind, ToJsonError};

use super::dictionaries::Dictionaries;
use super::fallback_status::fallback_status;
use super::{Kind, MessageEffect, Names, WebSocketConfig, stage};
use crate::{ConnectionId, Outbox, Staged};

/// More than any dictionary or image in use has: about so many bytes go into one message to a client, since
/// some take the first part of either for all of it.
pub const PART_BYTES: usize = 16 << 20;

/// Makes messages into JSON, each once for all clients that get it, and what clients say into RWF.
///
/// A message that cannot be made into JSON is stood in for by one that can and says so: nothing is lost without
/// its streams being told.
///
/// Messages are made by the dictionary and the services that the service behind the port has now
/// ([`Json::set_dictionary`], [`Json::update_services`]).
#[derive(Debug)]
pub struct Json {
    dictionary: Arc<Dictionary>,
    names: Names,
    /// Of the services when `names` were taken over.
    services_version: u64,
    default_service: Option<String>,
    /// What the login refresh announces: ping timeout and longest message.
    ping_timeout_s: u8,
    message_max_bytes: u32,
    counters: Arc<Counters>,
    /// Dictionaries that were made into JSON before.
    dictionaries: RefCell<Dictionaries>,
}

/// A message in the outbox, and what it means for the item streams that get it.
#[derive(Clone, Copy, Debug)]
pub struct StagedJson {
    /// Where it is.
    pub staged: Staged,
    /// What it means; of a message that stands in for another, what that is.
    pub effect: MessageEffect,
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

    /// Sends a message to the client, on the stream that it names.
    fn send(&mut self, rwf: &[u8]);

    /// The outbox of the port.
    fn outbox(&mut self) -> &mut Outbox;

    /// The client could not use a message.
    fn on_error(&mut self, error: PeerError<'_>) {
        let _ = error;
    }
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
            services_version: 0,
            default_service,
            ping_timeout_s: config.ping_timeout_s,
            message_max_bytes: config.message_max_bytes,
            counters,
            dictionaries: RefCell::default(),
        }
    }

    /// From now on fields are those of this dictionary.
    pub fn set_dictionary(&mut self, dictionary: Arc<Dictionary>) {
        self.dictionary = dictionary;
        self.dictionaries = RefCell::default();
    }

    /// Takes over which services there are now, by id and name.
    pub fn update_services<'n>(&mut self, services: impl Iterator<Item = (u16, &'n str)>) {
        self.names.update(services);
    }

    /// The same if this is another version of them than the last time; the first one, without services, is 0.
    #[inline]
    pub fn update_services_to<'n, S: Iterator<Item = (u16, &'n str)>>(
        &mut self,
        version: u64,
        services: impl FnOnce() -> S,
    ) {
        if self.services_version != version {
            self.services_version = version;
            self.names.update(services());
        }
    }

    /// What is counted.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Puts an item's message for any number of clients into the outbox, or what stands in for it. `None` if it
    /// is no message at all.
    #[inline]
    pub fn stage(&self, outbox: &mut Outbox, msg: &[u8]) -> Option<StagedJson> {
        let mut written = Ok(DataType::NO_DATA);
        let staged = stage(outbox, Kind::Body, |json| written = self.write(msg, json));
        match written {
            Ok(_) => Some(StagedJson { staged, effect: MessageEffect::of(msg) }),
            Err(why) => self.fallback_status(outbox, msg, why),
        }
    }

    /// Sends a message to one client, on the stream that it names, or what stands in for it. The answer to a
    /// login travels alone and says what the client has to know of the connection.
    pub fn send(&self, outbox: &mut Outbox, to: ConnectionId, msg: &[u8]) {
        let Ok(head) = rwf::peek(msg) else { return self.counters.messages_unwritable.inc() };
        let is_login = head.domain == Domain::LOGIN;
        let is_dictionary = head.domain == Domain::DICTIONARY && head.class == MsgClass::Refresh;
        let mut written = Ok(DataType::NO_DATA);
        let staged = stage(outbox, if is_login { Kind::Alone } else { Kind::Body }, |json| {
            written = if is_dictionary { self.write_dictionary(msg, json) } else { self.write(msg, json) };
            if is_login && head.class == MsgClass::Refresh && written == Ok(DataType::NO_DATA) {
                self.announce(json);
            }
        });
        let staged = match written {
            Ok(_) => Some(staged),
            Err(why) => self.fallback_status(outbox, msg, why).map(|shown| shown.staged),
        };
        if let Some(staged) = staged {
            outbox.deliver(to, staged, head.stream_id);
        }
    }

    /// Puts what stands in for a message into the outbox.
    #[cold]
    fn fallback_status(&self, outbox: &mut Outbox, msg: &[u8], why: ToJsonError) -> Option<StagedJson> {
        self.counters.messages_unwritable.inc();
        let head = rwf::peek(msg).ok()?;
        let (effect, instead) = fallback_status(head, Msg::parse(msg).ok().as_ref(), &why);
        let mut is_written = false;
        let staged = stage(outbox, Kind::Body, |json| is_written = self.write(&instead, json).is_ok());
        is_written.then_some(StagedJson { staged, effect })
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
            self.refuse(&refusal, from, service);
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
            Incoming::Error(error) => {
                self.counters.errors_in.inc();
                service.on_error(error);
            }
            Incoming::Message { rwf, .. } => {
                self.counters.messages_read.inc();
                match whole_directory(rwf) {
                    Some(rwf) => service.on_rwf(&rwf)?,
                    None => service.on_rwf(rwf)?,
                }
            }
        }
        Ok(())
    }

    /// What cannot be used is answered by an error; a request that names an unknown service by a status, for
    /// which clients wait.
    fn refuse<S: RwfService>(&self, refusal: &Refusal<'_>, to: ConnectionId, service: &mut S) {
        if refusal.kind() != RefusalKind::UnknownService || refusal.stream_id == 0 {
            self.counters.messages_refused.inc();
            return answer(service.outbox(), to, |json| refusal.write(json));
        }
        self.counters.unknown_services.inc();
        let text = refusal.to_string();
        let (domain, stream_id) = (refusal.domain, refusal.stream_id);
        let reply = Reply { domain, stream_id, key: None, private_stream: false };
        if let Ok(bytes) = reply.closed(StateCode::SOURCE_UNKNOWN, &text).to_vec() {
            service.send(&bytes);
        }
    }

    /// Appends the body of a message; tells the type of its payload.
    #[inline]
    fn write(&self, msg: &[u8], json: &mut Vec<u8>) -> Result<DataType, ToJsonError> {
        let container_type = self.convert(msg, json)?;
        self.counters.messages_written.inc();
        Ok(container_type)
    }

    #[inline]
    fn convert(&self, msg: &[u8], json: &mut Vec<u8>) -> Result<DataType, ToJsonError> {
        let msg = Msg::parse(msg)?;
        let converter = Converter::new(&self.dictionary, &self.names, Options::default());
        converter.write_body(&msg, KeyPart::Own, json)?;
        Ok(msg.container_type())
    }

    /// The same of a dictionary: its payload is the same for all who ask, and as JSON it has megabytes.
    fn write_dictionary(&self, msg: &[u8], json: &mut Vec<u8>) -> Result<DataType, ToJsonError> {
        let Ok(Msg::Refresh(refresh)) = Msg::parse(msg) else { return self.write(msg, json) };
        let bare = RefreshMsg { container_type: DataType::NO_DATA, payload: &[], ..refresh };
        let Ok(bare) = Msg::Refresh(bare).to_vec() else { return self.write(msg, json) };
        let start = json.len();
        self.convert(&bare, json)?;
        let mut known = self.dictionaries.borrow_mut();
        if let Some(payload) = known.find(refresh.payload) {
            json.pop();
            json.extend_from_slice(payload);
            self.counters.messages_written.inc();
        } else {
            // What stands before the payload, but for the end of the object.
            let head_bytes = json.len() - start - 1;
            json.truncate(start);
            self.write(msg, json)?;
            known.keep(refresh.payload, &json[start + head_bytes..]);
        }
        Ok(refresh.container_type)
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
}

/// A request of the source directory that leaves open what it wants of it, which is everything on this port.
fn whole_directory(rwf: &[u8]) -> Option<Vec<u8>> {
    let head = rwf::peek(rwf).ok()?;
    if (head.domain, head.class) != (Domain::SOURCE, MsgClass::Request) {
        return None;
    }
    let request = RequestMsg::parse(rwf).ok().filter(|request| request.key.filter.is_none())?;
    let key = Key { filter: Some(Filter::ALL.0), ..request.key };
    Msg::Request(RequestMsg { key, ..request }).to_vec().ok()
}

/// Sends an object that has all it needs.
pub fn answer(outbox: &mut Outbox, to: ConnectionId, write: impl FnOnce(&mut Vec<u8>)) {
    let staged = stage(outbox, Kind::Whole, write);
    outbox.deliver(to, staged, 0);
}

#[cfg(test)]
mod tests {
    use rdm::login::{LoginRefresh, LoginRequest};

    use super::*;
    use crate::websocket::message::Message;

    const CLIENT: ConnectionId = ConnectionId(0);

    /// What a service was asked, and what its client was answered.
    struct Scene {
        json: Json,
        outbox: Outbox,
        heard: Vec<Vec<u8>>,
    }

    /// A service that wants no second message.
    struct Once<'a>(&'a Json, &'a mut Outbox, &'a mut Vec<Vec<u8>>);

    impl RwfService for Once<'_> {
        type Fault = ();

        fn on_rwf(&mut self, rwf: &[u8]) -> Result<(), ()> {
            self.2.push(rwf.to_vec());
            if self.2.len() < 2 { Ok(()) } else { Err(()) }
        }

        fn send(&mut self, rwf: &[u8]) {
            self.0.send(self.1, CLIENT, rwf);
        }

        fn outbox(&mut self) -> &mut Outbox {
            self.1
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
            let mut service = Once(&self.json, &mut self.outbox, &mut self.heard);
            self.json.read(&mut Reader::new(), text, CLIENT, &mut service)
        }

        /// What waits for the client: kind, stream, text.
        fn sent(&mut self) -> Vec<(Kind, i32, String)> {
            let (log, entries) = self.outbox.parts(CLIENT);
            let text = |entry: &crate::Entry| {
                let message = Message::read(&log[entry.place()]);
                let json = String::from_utf8_lossy(message.json).into_owned();
                (message.kind, entry.stream_id, json)
            };
            entries.iter().map(text).collect()
        }
    }

    /// The header of a message of each class, on stream 7, and nothing that belongs behind it.
    fn headers(domain: Domain) -> impl Iterator<Item = Vec<u8>> {
        (1..=8).map(move |class| vec![0, 8, class, domain.0, 0, 0, 0, 7, 0x7F, 0x7F])
    }

    #[test]
    fn whatever_cannot_be_json_is_stood_in_for_by_what_can() {
        let mut scene = Scene::new();
        for msg in headers(Domain::MARKET_PRICE) {
            let shown = scene.json.stage(&mut scene.outbox, &msg).expect("something is said");
            let update = rwf::peek(&msg).expect("a header").class == MsgClass::Update;
            assert_eq!(shown.effect == MessageEffect::Missed(Domain::MARKET_PRICE), update);
        }
        assert!(scene.json.stage(&mut scene.outbox, b"no message").is_none());
        scene.json.send(&mut scene.outbox, CLIENT, b"no message");
        assert_eq!(scene.json.counters().messages_unwritable.get(), 10);
        assert!(scene.sent().is_empty());
    }

    #[test]
    fn what_is_not_about_items_is_stood_in_for_too() {
        let mut scene = Scene::new();
        for domain in [Domain::LOGIN, Domain::SOURCE, Domain::DICTIONARY] {
            headers(domain).for_each(|msg| scene.json.send(&mut scene.outbox, CLIENT, &msg));
        }
        let sent = scene.sent();
        assert_eq!(sent.len(), 24);
        for (kind, stream_id, text) in sent {
            assert_eq!((kind, stream_id), (Kind::Body, 7));
            assert!(text.starts_with(r#""Type":"Status","Domain":"#), "{text}");
        }
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
    fn a_directory_request_that_says_nothing_wants_everything() {
        let mut scene = Scene::new();
        assert_eq!(scene.say(r#"{"ID":2,"Domain":"Source","Key":{}}"#), Ok(()));
        assert_eq!(scene.say(r#"{"ID":3,"Domain":"Source","Key":{"Filter":2}}"#), Err(()));
        let filters = scene.heard.iter().map(|rwf| RequestMsg::parse(rwf).expect("a request").key.filter);
        assert_eq!(filters.collect::<Vec<_>>(), [Some(Filter::ALL.0), Some(2)]);
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
        scene.json.send(&mut scene.outbox, CLIENT, &refresh);
        let sent = scene.sent();
        assert_eq!((sent.len(), sent[0].0, sent[0].1), (1, Kind::Alone, 1));
        assert!(sent[0].2.ends_with(r#","Elements":{"PingTimeout":30,"MaxMsgSize":61440}}"#), "{sent:?}");
    }
}
