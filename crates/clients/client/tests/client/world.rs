//! A core and a server without a network, under virtual time.

use std::ops::{ControlFlow, Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use counters::table::RsslConnections;
use rdm::ToVec;
use rdm::dictionary::{DictionaryParts, DictionaryRequest, PartSizes};
use rdm::directory::{
    DirectoryRefresh, DirectoryRequest, DirectoryUpdate, Filter, Info, Service, ServiceDelta, ServiceState,
};
use rdm::item::{ItemClose, ItemRequest};
use rdm::login::{Features, LoginRefresh, LoginRequest};
use rssl::{Disconnect, Handler, Outbound, ServerConfig, ServerConnection, Session, Stop};
use rwf::dictionary::{Field, FieldType};
use rwf::{
    DataType, Dictionary, Domain, Key, Msg, Qos, Real, RefreshMsg, RequestMsg, State, StatusMsg, UpdateMsg,
    encode_to_vec,
};
use tickcast_client::{ConnectFailure, Endpoint, Identity, Socket};
use units::Nanos;

/// What becomes of TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Open,
    /// Refused at once.
    Shut,
    /// Neither made nor refused.
    Silent,
    /// Made, and closed by the server before it says anything.
    Slammed,
}

/// One core, the server that it is connected to, and what it has told.
pub(crate) struct World<C, T> {
    pub(crate) now: Nanos,
    pub(crate) core: C,
    pub(crate) told: Vec<T>,
    /// The hosts that were looked for beside the connection.
    pub(crate) probes: Vec<String>,
    end: End,
}

/// The other end of a core's connection.
pub(crate) struct End {
    pub(crate) door: Door,
    /// The hosts of all attempts to connect.
    pub(crate) connects: Vec<String>,
    pub(crate) server: Option<Server>,
    pub(crate) manners: Manners,
    /// What servers that are gone had received and not dealt with.
    pub(crate) lost: usize,
}

impl Default for End {
    fn default() -> Self {
        End { door: Door::Open, connects: Vec::new(), server: None, manners: Manners::default(), lost: 0 }
    }
}

impl<C, T> Deref for World<C, T> {
    type Target = End;

    fn deref(&self) -> &End {
        &self.end
    }
}

impl<C, T> DerefMut for World<C, T> {
    fn deref_mut(&mut self) -> &mut End {
        &mut self.end
    }
}

/// How the server answers by itself.
#[derive(Clone)]
pub(crate) struct Manners {
    pub(crate) logs_in: bool,
    pub(crate) features: Features,
    pub(crate) services: Vec<Service>,
    pub(crate) sends_directory: bool,
    /// What it sends to who asks for a dictionary; `None`: nothing.
    pub(crate) dictionary: Option<Arc<Dictionary>>,
    /// Images for all item requests: fields 22 and 25.
    pub(crate) sends_images: bool,
    pub(crate) server: ServerConfig,
}

impl Default for Manners {
    fn default() -> Self {
        Manners {
            logs_in: true,
            features: Features::default(),
            services: vec![service(1, "S")],
            sends_directory: true,
            dictionary: Some(Arc::new(dictionary())),
            sends_images: true,
            server: ServerConfig::default(),
        }
    }
}

/// The server's end.
pub(crate) struct Server {
    pub(crate) connection: ServerConnection,
    /// Messages that were not answered by themselves.
    pub(crate) inbox: Vec<Vec<u8>>,
    heard: Heard,
    /// The core's socket does not take anything from us, or gives nothing to us.
    pub(crate) is_deaf: bool,
}

#[derive(Default)]
struct Heard(Vec<Vec<u8>>);

impl Handler for Heard {
    fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
        self.0.push(message.to_vec());
        ControlFlow::Continue(())
    }
}

impl<C: Endpoint, T> World<C, T>
where
    T: for<'a> FromEvent<C::Event<'a>>,
{
    pub(crate) fn new(core: C) -> World<C, T> {
        World { now: Nanos(1_000_000_000), core, told: Vec::new(), probes: Vec::new(), end: End::default() }
    }

    /// Everything that happens without time going by.
    pub(crate) fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "the two ends never come to rest");
            if !self.follow() & !self.carry() & !self.wake() {
                return;
            }
        }
    }

    /// Lets time go by.
    pub(crate) fn advance(&mut self, span: Duration) {
        let end = self.now.after(span);
        self.settle();
        loop {
            let of_server = self.server.as_ref().map_or(Nanos::NEVER, |s| s.connection.next_wakeup());
            let due = self.core.next_wakeup().min(of_server);
            if due > end {
                break;
            }
            self.now = due.max(self.now);
            if let Some(server) = &mut self.end.server {
                let _ = server.connection.on_wakeup(self.now);
            }
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    /// The server ends the TCP connection.
    pub(crate) fn cut(&mut self) {
        self.server = None;
        let told = &mut self.told;
        self.core.on_disconnected(self.now, Disconnect::EndOfStream, &mut |e| told.push(T::from_event(e)));
    }

    pub(crate) fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("a connection stands")
    }

    /// Sends a message of the server and lets the core take it.
    pub(crate) fn say(&mut self, message: &impl ToVec) {
        let bytes = message.to_vec().expect("legal");
        self.say_bytes(&bytes);
    }

    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        self.server().connection.outbound().push(bytes).expect("room");
        self.settle();
    }

    /// Changes one of the server's services, and says so.
    pub(crate) fn change_service(&mut self, id: u16, change: impl FnOnce(&mut Service)) {
        let service =
            self.manners.services.iter_mut().find(|service| service.id == id).expect("it has the service");
        let old = service.clone();
        change(service);
        let delta = ServiceDelta::between(&old, service).expect("something changes");
        self.say_directory(vec![delta]);
    }

    pub(crate) fn say_directory(&mut self, services: Vec<ServiceDelta>) {
        let filter = Some(Filter::ALL);
        self.say(&DirectoryUpdate { stream_id: 2, filter, services });
    }

    /// What was told since this was last asked.
    pub(crate) fn take_told(&mut self) -> Vec<T> {
        std::mem::take(&mut self.told)
    }

    fn follow(&mut self) -> bool {
        let told = &mut self.told;
        self.end.follow(&mut self.core, self.now, &mut |e| told.push(T::from_event(e)))
    }

    fn carry(&mut self) -> bool {
        let told = &mut self.told;
        self.end.carry(&mut self.core, self.now, &mut |e: C::Event<'_>| told.push(T::from_event(e)))
    }

    fn wake(&mut self) -> bool {
        self.probes.extend(self.core.probe(self.now).map(|attempt| attempt.host.to_string()));
        if self.core.next_wakeup() > self.now {
            return false;
        }
        let told = &mut self.told;
        self.core.on_wakeup(self.now, &mut |e| told.push(T::from_event(e)));
        true
    }
}

impl End {
    /// Does with the TCP connection what the core wants; returns whether that was something.
    pub(crate) fn follow<C: Endpoint>(
        &mut self,
        core: &mut C,
        now: Nanos,
        sink: &mut dyn FnMut(C::Event<'_>),
    ) -> bool {
        match core.socket(now) {
            Socket::Present => return false,
            Socket::Absent => {
                let gone = self.server.take();
                self.lost += gone.as_ref().map_or(0, |server| server.inbox.len());
                return gone.is_some();
            }
            Socket::Connect(attempt) => self.connects.push(attempt.host.to_string()),
        }
        self.server = None;
        match self.door {
            Door::Open => {
                core.on_established(now);
                self.server = Some(Server::new(now, &self.manners.server));
            }
            Door::Shut => {
                let failure = ConnectFailure::Io(std::io::ErrorKind::ConnectionRefused);
                core.on_connect_failed(now, failure, sink);
            }
            Door::Silent => {}
            Door::Slammed => {
                core.on_established(now);
                core.on_disconnected(now, Disconnect::EndOfStream, sink);
            }
        }
        true
    }

    /// Carries what waits at either end; returns whether that was something.
    pub(crate) fn carry<C: Endpoint, F: FnMut(C::Event<'_>)>(
        &mut self,
        core: &mut C,
        now: Nanos,
        sink: &mut F,
    ) -> bool {
        let Some(server) = &mut self.server else { return false };
        if server.is_deaf {
            return false;
        }
        let to_server = core.pending().to_vec();
        core.consume(now, to_server.len());
        let ended = server.connection.on_bytes(now, &to_server, &mut server.heard).is_err();
        server.answer(&self.manners);
        let to_client = server.connection.outbound().flush().to_vec();
        server.connection.outbound().consume(to_client.len());
        if !to_client.is_empty() {
            core.on_bytes(now, &to_client, sink);
        }
        if ended {
            self.server = None;
        }
        !to_server.is_empty() || !to_client.is_empty()
    }
}

/// A type that events are remembered as.
pub(crate) trait FromEvent<E> {
    fn from_event(event: E) -> Self;
}

impl Server {
    fn new(now: Nanos, config: &ServerConfig) -> Server {
        let params = Arc::new(config.clone().check().expect("a good configuration"));
        let connection = ServerConnection::new(now, &params, &Arc::new(RsslConnections::default()), 7);
        Server { connection, inbox: Vec::new(), heard: Heard::default(), is_deaf: false }
    }

    fn answer(&mut self, manners: &Manners) {
        for bytes in std::mem::take(&mut self.heard.0) {
            let msg = Msg::parse(&bytes).expect("our own messages are legal");
            let answers = manners.answers(&msg);
            if answers.is_empty() {
                self.inbox.push(bytes);
            }
            for answer in answers {
                self.connection.outbound().push(&answer).expect("room");
            }
        }
    }

    /// The item requests that were not answered, with their stream ids.
    pub(crate) fn requests(&mut self) -> Vec<(i32, String)> {
        let (requests, rest) = std::mem::take(&mut self.inbox).into_iter().partition(|bytes| {
            matches!(Msg::parse(bytes), Ok(Msg::Request(request)) if rdm::item::has_items(request.domain))
        });
        self.inbox = rest;
        let requests: Vec<Vec<u8>> = requests;
        requests.iter().map(|bytes| request_of(bytes)).collect()
    }

    /// The streams of items that were closed.
    pub(crate) fn closes(&mut self) -> Vec<i32> {
        let mut streams = Vec::new();
        self.inbox.retain(|bytes| {
            let Ok(Msg::Close(close)) = Msg::parse(bytes) else { return true };
            let Ok(close) = ItemClose::parse(&close) else { return true };
            streams.extend(close.streams());
            false
        });
        streams
    }
}

fn request_of(bytes: &[u8]) -> (i32, String) {
    let request = RequestMsg::parse(bytes).expect("it was seen to be one");
    let request = ItemRequest::parse(&request).expect("legal");
    let single = request.singles().next().expect("no batch");
    let rdm::item::Target::Item(key) = single.target else { panic!("a single has a key") };
    (single.stream_id, String::from_utf8_lossy(key.name).into_owned())
}

impl Manners {
    /// What the server answers to a message by itself.
    pub(crate) fn answers(&self, msg: &Msg<'_>) -> Vec<Vec<u8>> {
        match msg {
            Msg::Request(request) if request.domain == Domain::LOGIN && self.logs_in => {
                let request = LoginRequest::parse(request).expect("legal");
                let refresh = LoginRefresh { features: self.features, ..LoginRefresh::accept(&request) };
                vec![refresh.to_vec().expect("legal")]
            }
            Msg::Request(request) if request.domain == Domain::SOURCE && self.sends_directory => {
                let request = DirectoryRequest::parse(request).expect("legal");
                let refresh = DirectoryRefresh::answer(&request, &self.services).expect("legal");
                vec![refresh.to_vec().expect("legal")]
            }
            Msg::Request(request) if request.domain == Domain::DICTIONARY => {
                let Some(dictionary) = &self.dictionary else { return Vec::new() };
                let request = DictionaryRequest::parse(request).expect("legal");
                let parts = DictionaryParts::new(&request, dictionary, PartSizes::default()).expect("known");
                parts.map(|part| part.expect("legal")).collect()
            }
            Msg::Request(request) if rdm::item::has_items(request.domain) && self.sends_images => {
                let image = image(request.stream_id, 1);
                let key = Some(request.key);
                vec![
                    RefreshMsg { solicited: true, key, payload: &fields(1), ..image }
                        .to_vec()
                        .expect("legal"),
                ]
            }
            _ => Vec::new(),
        }
    }
}

/// A service that is up, with dictionaries and the domains of items.
pub(crate) fn service(id: u16, name: &str) -> Service {
    let both = || vec!["RWFFld".to_owned(), "RWFEnum".to_owned()];
    Service {
        id,
        info: Info {
            name: name.to_owned(),
            capabilities: vec![Domain::DICTIONARY, Domain::MARKET_PRICE, Domain::MARKET_BY_PRICE],
            dictionaries_provided: both(),
            dictionaries_used: both(),
            ..Info::default()
        },
        state: ServiceState { up: true, accepting_requests: Some(true), status: None },
        ..Service::default()
    }
}

pub(crate) fn dictionary() -> Dictionary {
    let mut dictionary = Dictionary::new();
    for (id, name, data_type) in
        [(22, "BID", DataType::REAL), (25, "ASK", DataType::REAL), (15, "CURRENCY", DataType::ENUM)]
    {
        let field = Field {
            id,
            name: name.into(),
            dde_acronym: name.into(),
            ripples_to: None,
            field_type: FieldType::PRICE,
            length: 10,
            enum_length: 0,
            data_type,
            rwf_length: 9,
        };
        dictionary.add_field(field).expect("each once");
    }
    dictionary
}

/// The payload with BID `n` and ASK `n + 1`, in hundredths.
pub(crate) fn fields(n: i64) -> Vec<u8> {
    encode_to_vec(|w| {
        w.field_list(|f| {
            f.put(22, Real::decimal(n, 2));
            f.put(25, Real::decimal(n + 1, 2));
        });
    })
    .expect("legal")
}

/// An image without its payload.
pub(crate) fn image(stream_id: i32, seq_num: u32) -> RefreshMsg<'static> {
    RefreshMsg {
        complete: true,
        seq_num: Some(seq_num),
        qos: Some(Qos::REAL_TIME),
        ..RefreshMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST)
    }
}

pub(crate) fn update(stream_id: i32, payload: &[u8]) -> UpdateMsg<'_> {
    UpdateMsg { payload, ..UpdateMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST) }
}

pub(crate) fn status(stream_id: i32, state: State<'_>) -> StatusMsg<'_> {
    let key = Some(Key::item(1, b"I"));
    StatusMsg {
        state: Some(state),
        key,
        ..StatusMsg::new(Domain::MARKET_PRICE, stream_id, DataType::NO_DATA)
    }
}

pub(crate) fn identity() -> Identity {
    Identity {
        user: "ada".into(),
        host_name: "apphost".into(),
        ip_address: "10.1.2.3".into(),
        password: None,
    }
}
