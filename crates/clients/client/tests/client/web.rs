//! A consumer that speaks WebSocket, against a scripted server.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use counters::table::WebSocketConnections;
use rdm::directory::Directory;
use rssl::Disconnect;
use rwf::Msg;
use rwf_json::{Converter, Incoming, Options, Reader};
use tickcast_client::{
    ConsumerConfig, ConsumerCore, ConsumerEvent, DisconnectReason, Endpoint, ItemRequestSpec, OwnedEvent,
    PostSpec, Socket, WebSocketConfig,
};
use units::Nanos;
use websocket::{Handler, Message, Outbound, ServerConfig, ServerConnection, Session, Stop};

use crate::world::{Manners, dictionary, fields, identity, service, update};

struct Web {
    now: Nanos,
    core: ConsumerCore,
    server: Option<ServerConnection>,
    config: ServerConfig,
    manners: Manners,
    /// What the server has got and not answered.
    inbox: Vec<Vec<u8>>,
    /// Texts of the server's end.
    texts: Vec<String>,
    told: Vec<OwnedEvent>,
    attempts: usize,
}

#[derive(Default)]
struct Heard(Vec<String>);

impl Handler for Heard {
    fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: Message<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        let Message::Text(text) = message else { panic!("{message:?}") };
        self.0.push(text.to_owned());
        ControlFlow::Continue(())
    }
}

impl Web {
    fn new() -> Web {
        let websocket = Some(WebSocketConfig::default());
        let config = ConsumerConfig { websocket, ..ConsumerConfig::default() };
        Web {
            now: Nanos(1_000_000_000),
            core: ConsumerCore::new(&config, &identity(), 1).expect("a good configuration"),
            server: None,
            config: ServerConfig::default(),
            manners: Manners::default(),
            inbox: Vec::new(),
            texts: Vec::new(),
            told: Vec::new(),
            attempts: 0,
        }
    }

    /// Everything that happens without time going by.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 1_000, "the two ends never come to rest");
            if !self.follow() & !self.carry() & !self.wake() {
                return;
            }
        }
    }

    fn advance(&mut self, span: Duration) {
        let end = self.now.after(span);
        while self.core.next_wakeup() <= end {
            self.now = self.core.next_wakeup().max(self.now);
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    fn follow(&mut self) -> bool {
        match self.core.socket(self.now) {
            Socket::Present => return false,
            Socket::Absent => return self.server.take().is_some(),
            Socket::Connect(_) => {}
        }
        self.attempts += 1;
        let params = Arc::new(self.config.clone());
        let counters = Arc::new(WebSocketConnections::default());
        self.server = Some(ServerConnection::new(self.now, &params, &counters));
        self.core.on_established(self.now);
        true
    }

    fn wake(&mut self) -> bool {
        if self.core.next_wakeup() > self.now {
            return false;
        }
        let told = &mut self.told;
        self.core.on_wakeup(self.now, &mut |event| told.push(event.into()));
        true
    }

    fn carry(&mut self) -> bool {
        let Some(server) = &mut self.server else { return false };
        let to_server = self.core.pending().to_vec();
        self.core.consume(self.now, to_server.len());
        let mut heard = Heard::default();
        let ended = server.on_bytes(self.now, &to_server, &mut heard).is_err();
        for text in heard.0 {
            self.answer(&text);
        }
        let Some(server) = &mut self.server else { return false };
        let to_client = server.outbound().pending().to_vec();
        server.outbound().consume(to_client.len());
        let (now, told) = (self.now, &mut self.told);
        if !to_client.is_empty() {
            self.core.on_bytes(now, &to_client, &mut |event: ConsumerEvent<'_>| told.push(event.into()));
        }
        if ended {
            self.cut();
        }
        !to_server.is_empty() || !to_client.is_empty()
    }

    fn answer(&mut self, text: &str) {
        self.texts.push(text.to_owned());
        let mut messages = Vec::new();
        let (dictionary, services) = (dictionary(), directory());
        let converter = Converter::new(&dictionary, &services, Options::default());
        let mut reader = Reader::new();
        let read = reader.read_frame(&converter, text.as_bytes(), |incoming| {
            if let Incoming::Message { rwf, .. } = incoming {
                messages.push(rwf.to_vec());
            }
        });
        assert!(read.is_ok(), "{text}");
        for message in messages {
            let answers = self.manners.answers(&Msg::parse(&message).expect("legal"));
            if answers.is_empty() {
                self.inbox.push(message);
            }
            for answer in answers {
                self.say(&answer);
            }
        }
    }

    /// Says a message, as JSON.
    fn say(&mut self, rwf: &[u8]) {
        let (dictionary, services, mut text) = (dictionary(), directory(), Vec::new());
        let converter = Converter::new(&dictionary, &services, Options::default());
        converter.write(&Msg::parse(rwf).expect("legal"), &mut text).expect("it can be said");
        self.say_text(std::str::from_utf8(&text).expect("JSON"));
    }

    fn say_text(&mut self, text: &str) {
        let server = self.server.as_mut().expect("a connection stands");
        server.outbound().push(Message::Text(text)).expect("room");
    }

    fn cut(&mut self) {
        self.server = None;
        let told = &mut self.told;
        self.core.on_disconnected(self.now, Disconnect::EndOfStream, &mut |event| told.push(event.into()));
    }

    fn reasons(&self) -> Vec<DisconnectReason> {
        let reason = |event: &OwnedEvent| match event {
            OwnedEvent::Disconnected { reason, .. } => Some(*reason),
            _ => None,
        };
        self.told.iter().filter_map(reason).collect()
    }

    /// What was told of items: whether it is an update, the state, field 22.
    fn items(&self) -> Vec<String> {
        let items = self.told.iter().filter_map(|event| match event {
            OwnedEvent::Item(item) => Some(item),
            _ => None,
        });
        items.map(|item| format!("{} {:?}", item.state.borrow(), item.field("BID"))).collect()
    }
}

fn directory() -> Directory {
    let mut directory = Directory::default();
    directory.insert(service(1, "S")).expect("the only one");
    directory
}

/// A world in which the item I of service S has its image.
fn open() -> (Web, tickcast_client::ItemHandle) {
    let mut web = Web::new();
    let handle = web.core.subscribe(&ItemRequestSpec::new("S", "I")).expect("new");
    web.settle();
    let bid = "Ok(Some(Real(Finite { mantissa: 1, hint: 12 })))";
    assert_eq!(web.items(), [format!("open/ok {bid}")]);
    web.told.clear();
    (web, handle)
}

#[test]
fn login_directory_dictionary_and_items_come_over_websocket_as_over_rssl() {
    let (mut web, _) = open();
    assert!(web.texts[0].contains(r#""Domain":"Login""#), "{:?}", web.texts);
    let payload = fields(7);
    web.say(&rdm::ToVec::to_vec(&update(5, &payload)).expect("legal"));
    web.settle();
    assert_eq!(web.items(), ["open/ok Ok(Some(Real(Finite { mantissa: 7, hint: 12 })))"]);
    let counts = web.core.counters();
    assert_eq!((counts.logins.get(), counts.dictionary_downloads.get(), counts.json_faults.get()), (1, 1, 0));
    let messages = web.core.websocket_counters().expect("it is spoken").messages_in.get();
    assert!(messages >= 5, "login, directory, two dictionaries, image, update: {messages}");
}

#[test]
fn a_ping_is_answered_and_hours_of_silence_are_bridged() {
    let (mut web, _) = open();
    web.texts.clear();
    web.say_text(r#"{"Type":"Ping"}"#);
    web.settle();
    assert_eq!(web.texts, [r#"{"Type":"Pong"}"#]);
    web.advance(Duration::from_secs(20));
    assert!(web.texts.iter().any(|text| text.contains("Ping")), "{:?}", web.texts);
}

#[test]
fn a_post_goes_out_as_json_and_its_ack_comes_back() {
    let mut web = Web::new();
    web.manners.features.omm_post = Some(true);
    let handle = web.core.subscribe(&ItemRequestSpec::new("S", "I")).expect("new");
    web.settle();
    web.core.post(web.now, handle, &PostSpec::default(), |w| w.bytes(&fields(9))).expect("open");
    web.settle();
    let Ok(Msg::Post(post)) = Msg::parse(web.inbox.last().expect("a post")) else {
        panic!("{:?}", web.texts)
    };
    assert_eq!(post.payload, fields(9));
    let ack = rdm::ToVec::to_vec(&rdm::post::ack(&post).expect("wanted")).expect("legal");
    web.say(&ack);
    web.settle();
    assert!(web.told.iter().any(|event| matches!(event, OwnedEvent::Posted { .. })));
    assert_eq!(web.core.counters().posts_taken.get(), 1);
}

#[test]
fn a_lost_connection_makes_items_suspect_and_they_come_back() {
    let (mut web, _) = open();
    web.cut();
    web.settle();
    assert!(web.items()[0].starts_with("open/suspect"), "{:?}", web.items());
    web.advance(Duration::from_secs(2));
    assert!(web.items()[1].starts_with("open/ok"), "{:?}", web.items());
    assert_eq!(web.attempts, 2);
}

#[test]
fn what_is_no_message_costs_the_connection_and_is_counted() {
    let (mut web, _) = open();
    web.say_text(r#"{"ID":5,"Type":"Refresh","Fields":["#);
    web.settle();
    assert_eq!(web.reasons(), [DisconnectReason::Json]);
    assert_eq!(web.core.counters().json_faults.get(), 1);
    web.advance(Duration::from_secs(2));
    assert!(web.core.is_logged_in());
}

#[test]
fn an_upgrade_that_is_refused_is_told_and_tried_again() {
    let mut web = Web::new();
    web.config.protocols = vec!["something.else"];
    web.settle();
    let refused = DisconnectReason::Connect(tickcast_client::ConnectFailure::Upgrade);
    assert_eq!(web.reasons(), [refused]);
    web.config = ServerConfig::default();
    web.advance(Duration::from_secs(2));
    assert!(web.core.is_logged_in() && web.attempts == 2);
}
