use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use counters::Registry;
use net::agent::Agent;
use net::{Poller, Ready, Token, clock};
use rwf::Dictionary;
use serde_json::Value;
use tickcast_p2ps::{P2psConfig, PointToPointServer};
use websocket::{ClientConfig, ClientConnection, CloseReason, Handler, Message, Outbound, Session, Stop};

use scripted::Script;

const FIELDS: &[u8] = include_bytes!("../../../../../data/dictionary/tickcast-fields.dic");

/// A server and what drives it.
/// Free ports of which one stays so until it is listened on.
const PORTS_TRIED: usize = 20;

pub(crate) struct Rig {
    poller: Poller,
    pub(crate) backbone: Script,
    server: PointToPointServer<Script>,
    registry: Registry,
    port: u16,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        Rig::with(|_| {})
    }

    /// One whose configuration is changed before.
    pub(crate) fn with(change: impl FnOnce(&mut P2psConfig)) -> Rig {
        Rig::with_fields(FIELDS, change)
    }

    /// One with a dictionary of its own.
    pub(crate) fn with_fields(fields: &[u8], change: impl FnOnce(&mut P2psConfig)) -> Rig {
        let backbone = Script::new("TESTS");
        let poller = Poller::new().expect("descriptors are left");
        let registry = Registry::default();
        let mut config = P2psConfig { rssl_port: 0, ..P2psConfig::default() };
        change(&mut config);
        let mut dictionary = Dictionary::new();
        dictionary.load_fields(fields).expect("it is part of the program");
        let dictionary = Arc::new(dictionary);
        let open = || {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("some port is free");
            let port = free.local_addr().expect("it is bound").port();
            drop(free);
            let config = P2psConfig { websocket_port: port, ..config.clone() };
            let (inlet, registrar, dictionary) =
                (backbone.clone(), poller.registrar(), Arc::clone(&dictionary));
            let server = PointToPointServer::new(&config, dictionary, inlet, registrar, 1, 7, &registry);
            server.map(|server| (server, port))
        };
        // Somebody else on the host may get the port that was free.
        let opened = (0..PORTS_TRIED)
            .map(|_| open())
            .find(|opened| !matches!(opened, Err(error) if error.kind() == std::io::ErrorKind::AddrInUse));
        let (server, port) = opened.expect("not all ports are taken").expect("it can listen");
        Rig { poller, backbone, server, registry, port }
    }

    /// A client past its upgrade, with further header lines for the request.
    pub(crate) fn client(&mut self, config: ClientConfig, more: &str) -> Client {
        let mut client = self.connect(config, more);
        self.drive(&mut client, |seen| seen.is_connected);
        client
    }

    /// The server's answer to a request that it refuses.
    pub(crate) fn refused(&mut self, config: &ClientConfig, more: &str) -> String {
        let mut client = self.connect(config.clone(), more);
        let mut answer = Vec::new();
        for _ in 0..10_000 {
            self.turn();
            let mut bytes = [0; 4096];
            match client.stream.read(&mut bytes) {
                Ok(0) => return String::from_utf8(answer).expect("HTTP"),
                Ok(count) => answer.extend_from_slice(&bytes[..count]),
                Err(_) => (),
            }
        }
        panic!("not closed after {}", answer.escape_ascii());
    }

    /// A client that has sent its request.
    fn connect(&mut self, config: ClientConfig, more: &str) -> Client {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        stream.set_nonblocking(true).expect("a socket");
        let config = Arc::new(config);
        let connection = ClientConnection::new(clock::monotonic(), &config, &Arc::default(), 5);
        let mut client = Client { stream, connection, seen: Seen::default() };
        let request = String::from_utf8(client.connection.outbound().pending().to_vec()).expect("HTTP");
        client.connection.outbound().consume(request.len());
        let request = request.replacen("\r\n\r\n", &format!("\r\n{more}\r\n"), 1);
        client.stream.write_all(request.as_bytes()).expect("the socket has room");
        client
    }

    /// Lets the server work once.
    pub(crate) fn turn(&mut self) {
        let ready: Vec<Ready> =
            self.poller.wait(Some(Duration::from_millis(1))).expect("sockets of this test").collect();
        let now = clock::monotonic();
        ready.iter().for_each(|ready| self.server.on_ready(now, *ready));
        self.server.turn(now);
    }

    /// A socket of the backbone has something.
    pub(crate) fn backbone_is_ready(&mut self) {
        let ready = Ready { token: Token(2 << 32), readable: true, writable: false };
        self.server.on_ready(clock::monotonic(), ready);
    }

    /// Lets both sides work until the client has seen what it should.
    pub(crate) fn drive(&mut self, client: &mut Client, is_enough: impl Fn(&Seen) -> bool) {
        for _ in 0..10_000 {
            self.turn();
            client.read();
            if is_enough(&client.seen) {
                return;
            }
        }
        panic!("the client saw no more than {:?}", client.seen);
    }

    /// Lets both sides work as long as a condition holds.
    pub(crate) fn drive_while(
        &mut self,
        client: &mut Client,
        mut goes_on: impl FnMut(&Rig, &Client) -> bool,
    ) {
        for _ in 0..100_000 {
            if !goes_on(self, client) {
                return;
            }
            self.turn();
            client.read();
        }
        panic!("it goes on for ever");
    }

    /// Sends a text and returns the next frame.
    pub(crate) fn ask(&mut self, client: &mut Client, text: &str) -> Value {
        let count = client.seen.frames.len();
        client.send(Message::Text(text));
        self.drive(client, |seen| seen.frames.len() > count);
        client.seen.frames[count].clone()
    }

    /// The messages, one after the other, until there are `count` behind the first `seen`.
    pub(crate) fn messages(&mut self, client: &mut Client, seen: usize, count: usize) -> Vec<Value> {
        let all =
            |seen: &Seen| seen.frames.iter().map(|frame| frame.as_array().map_or(0, Vec::len)).sum::<usize>();
        self.drive(client, |now| all(now) >= seen + count);
        let messages = client.seen.frames.iter().flat_map(|frame| frame.as_array().expect("an array"));
        messages.skip(seen).cloned().collect()
    }

    /// What is counted under this name, at all ports.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let sets = self.registry.snapshot().into_iter();
        let found = sets.flat_map(|set| {
            let mut values = Vec::new();
            set.set.values(&mut values);
            set.set.descriptors().iter().map(|d| d.name).zip(values).collect::<Vec<_>>()
        });
        let mut found = found.into_iter().filter(|(known, _)| *known == name).peekable();
        assert!(found.peek().is_some(), "{name} is exported");
        found.map(|(_, value)| value).sum()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    is_connected: bool,
    pub(crate) frames: Vec<Value>,
    pub(crate) end: Option<CloseReason>,
}

impl Handler for Seen {
    fn on_connected(&mut self, session: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        assert_eq!(session.protocol, "tr_json2");
        self.is_connected = true;
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: Message<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        let Message::Text(text) = message else { panic!("JSON goes in text frames") };
        let frame: Value = serde_json::from_str(text).expect("JSON");
        assert!(frame.is_array(), "every frame is an array: {text}");
        self.frames.push(frame);
        ControlFlow::Continue(())
    }
}

pub(crate) struct Client {
    stream: TcpStream,
    connection: ClientConnection,
    pub(crate) seen: Seen,
}

impl Client {
    pub(crate) fn send(&mut self, message: Message<'_>) {
        self.connection.outbound().push(message).expect("it is open");
        let bytes = self.connection.outbound().pending().to_vec();
        self.stream.write_all(&bytes).expect("the socket has room");
        self.connection.outbound().consume(bytes.len());
    }

    pub(crate) fn read(&mut self) {
        let mut bytes = [0; 65_536];
        if let Ok(count) = self.stream.read(&mut bytes)
            && let Err(reason) = self.connection.on_bytes(clock::monotonic(), &bytes[..count], &mut self.seen)
        {
            self.seen.end = Some(reason);
        }
    }
}

pub(crate) const LOGIN: &str =
    r#"{"ID":2,"Domain":"Login","Key":{"Name":"user","Elements":{"Position":"1.2.3.4/net"}}}"#;

pub(crate) fn logged_in(rig: &mut Rig) -> Client {
    let mut client = rig.client(ClientConfig::new("h"), "");
    let answer = rig.ask(&mut client, LOGIN);
    assert_eq!(answer[0]["State"]["Stream"], "Open");
    client
}
