//! Contexts on the loopback interface, driven by a test, and what they hear.
#![allow(dead_code, reason = "each test file uses its part of it")]

pub(crate) mod handmade;
pub(crate) mod scratch;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

pub(crate) use testkit::watchdog::Patience;

use tickcast_messaging::{
    Asked, ConnectionId, Context, ContextCounters, End, Handler, Interface, LbtrmConfig, LbtruConfig, Loss,
    Message, MessagingConfig, Receiver, ReceiverOptions, RequestId, SecurityEvent, Source, SourceEvent,
    SourceInfo, SourceOptions, Sqn, StreamId, TcpConfig, TopicResolutionConfig,
};

/// What a context has told. Each stream is checked: every number is a message, or lost in its place.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) begun: Option<Sqn>,
    next: HashMap<(Receiver, StreamId), Sqn>,
    pub(crate) payloads: Vec<Vec<u8>>,
    pub(crate) lost: u32,
    pub(crate) bursts: u32,
    pub(crate) ends: Vec<End>,
    /// `TOPIC SOURCE STRING`
    pub(crate) sources: Vec<String>,
    pub(crate) events: Vec<(Source, SourceEvent)>,
    pub(crate) security: Vec<(SecurityEvent, String)>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) responses: Vec<Vec<u8>>,
    pub(crate) connected: Vec<ConnectionId>,
    pub(crate) accepted: Vec<ConnectionId>,
    pub(crate) closed: Vec<(ConnectionId, String)>,
}

impl Heard {
    /// Another stream is going to be the one that is heard.
    pub(crate) fn forget(&mut self) {
        self.payloads.clear();
        self.next.clear();
    }

    /// The number that comes next in the one stream that is heard.
    pub(crate) fn next(&self) -> Sqn {
        assert_eq!(self.next.len(), 1);
        *self.next.values().next().expect("one stream")
    }

    /// The numbers with which payloads begin.
    pub(crate) fn numbers(&self) -> impl DoubleEndedIterator<Item = u32> {
        let number = |payload: &Vec<u8>| u32::from_be_bytes(*payload.first_chunk().expect("a number"));
        self.payloads.iter().map(number)
    }
}

impl Handler for Heard {
    fn on_message(&mut self, message: &Message<'_>) {
        let stream = (message.receiver, message.stream);
        if let Some(next) = self.next.insert(stream, message.sqn.next()) {
            assert_eq!(message.first_sqn, next, "every number is a message or told as lost");
        }
        self.asked.extend(message.request());
        self.payloads.push(message.payload.to_vec());
    }
    fn on_source(&mut self, _: Receiver, _: StreamId, info: &SourceInfo<'_>) {
        self.sources.push(format!("{} {}", info.topic, info.transport));
    }
    fn on_begin(&mut self, receiver: Receiver, stream: StreamId, first: Sqn) {
        self.begun = Some(first);
        self.next.insert((receiver, stream), first);
    }
    fn on_loss(&mut self, receiver: Receiver, stream: StreamId, loss: Loss) {
        let next = self.next.insert((receiver, stream), loss.first.plus(loss.count));
        assert_eq!(Some(loss.first), next, "loss stands where it is missing");
        self.lost += loss.count;
        self.bursts += u32::from(loss.is_burst);
    }
    fn on_end(&mut self, _: Receiver, _: StreamId, end: &End) {
        self.ends.push(*end);
    }
    fn on_source_event(&mut self, source: Source, event: SourceEvent) {
        self.events.push((source, event));
    }
    fn on_security(&mut self, event: SecurityEvent, text: &str) {
        // Files of tests are as the umask has them.
        if event != SecurityEvent::Exposed {
            self.security.push((event, text.to_owned()));
        }
    }
    fn on_response(&mut self, _: RequestId, payload: &[u8]) {
        self.responses.push(payload.to_vec());
    }
    fn on_connected(&mut self, connection: ConnectionId) {
        self.connected.push(connection);
    }
    fn on_accepted(&mut self, connection: ConnectionId, _: SocketAddr) {
        self.accepted.push(connection);
    }
    fn on_closed(&mut self, connection: ConnectionId, reason: &str) {
        self.closed.push((connection, reason.to_owned()));
    }
}

/// A context and what it has told, as a test file takes it down.
pub(crate) struct Party<H = Heard> {
    pub(crate) context: Context,
    pub(crate) heard: H,
    pub(crate) counters: ContextCounters,
}

/// Loopback, with groups and ports that no other test has at this moment.
pub(crate) fn config(test: u8) -> MessagingConfig {
    apart(test, MessagingConfig::default())
}

/// The same, with the settings of `toml` besides.
pub(crate) fn config_with(test: u8, toml: &str) -> MessagingConfig {
    let config = MessagingConfig::load(Some(("test.toml", toml.as_bytes())), [""; 0]).expect("sound");
    apart(test, config)
}

fn apart(test: u8, config: MessagingConfig) -> MessagingConfig {
    testkit::watchdog::watch();
    let (low, high) = (30_000, 45_000);
    MessagingConfig {
        interface: Interface::Address(Ipv4Addr::LOCALHOST),
        request_tcp_port_low: low,
        request_tcp_port_high: high,
        resolver: TopicResolutionConfig {
            multicast_address: group(250, test),
            multicast_port: group_port(),
            unicast_port_low: low,
            unicast_port_high: high,
            ..config.resolver
        },
        lbtrm: LbtrmConfig {
            multicast_address: group(249, test),
            destination_port: group_port(),
            source_port_low: low,
            source_port_high: high,
            ..config.lbtrm
        },
        tcp: TcpConfig { port_low: low, port_high: high, ..config.tcp },
        lbtru: LbtruConfig {
            port_low: low,
            port_high: high,
            receiver_port_low: low,
            receiver_port_high: high,
            ..config.lbtru
        },
        ..config
    }
}

/// A file of the test certificates.
pub(crate) fn certificate(name: &str) -> Option<String> {
    Some(format!("{}/../../io/net/testdata/tls/{name}", env!("CARGO_MANIFEST_DIR")))
}

/// The same with TLS for TCP sessions and direct connections; each end shows a certificate and asks for one.
pub(crate) fn certified(config: MessagingConfig) -> MessagingConfig {
    MessagingConfig {
        request_tcp_tls: true,
        tcp: TcpConfig {
            tls_certificate_file: certificate("server.pem"),
            tls_key_file: certificate("server.key"),
            tls_ca_file: certificate("ca.pem"),
            tls_client_ca_file: certificate("ca.pem"),
            tls_client_certificate_file: certificate("client.pem"),
            tls_client_key_file: certificate("client.key"),
            ..config.tcp
        },
        ..config
    }
}

/// The same with keys for the messages of LBT-RM and LBT-RU.
pub(crate) fn encrypted(config: MessagingConfig) -> MessagingConfig {
    let keys = Some(format!("{}/tests/common/payload.keys", env!("CARGO_MANIFEST_DIR")));
    MessagingConfig {
        lbtrm: LbtrmConfig { encryption_key_file: keys.clone(), ..config.lbtrm },
        lbtru: LbtruConfig { encryption_key_file: keys, ..config.lbtru },
        ..config
    }
}

/// A multicast group of this process and this test.
pub(crate) fn group(kind: u8, test: u8) -> Ipv4Addr {
    Ipv4Addr::new(239, kind, (std::process::id() / 2_000) as u8, test)
}

/// The port of its groups.
pub(crate) fn group_port() -> u16 {
    24_000 + (std::process::id() % 2_000) as u16
}

pub(crate) fn party(config: &MessagingConfig) -> Party {
    Party::new(config)
}

impl<H: Handler + Default> Party<H> {
    pub(crate) fn new(config: &MessagingConfig) -> Party<H> {
        let counters = ContextCounters::default();
        let context =
            Context::standalone_with(config, counters.clone()).expect("the loopback interface has multicast");
        Party { context, heard: H::default(), counters }
    }

    pub(crate) fn source(&mut self, topic: &str) -> Source {
        self.context.create_source(topic, &SourceOptions::default()).expect("a port is free")
    }

    pub(crate) fn receiver(&mut self, topic: &str) -> Receiver {
        self.context.create_receiver(topic, &ReceiverOptions::default()).expect("a legal name")
    }

    pub(crate) fn turn(&mut self) {
        self.context.wait(Some(Duration::from_millis(1)), &mut self.heard).expect("the poller works");
    }
}

/// Drives the parties until `done`.
pub(crate) fn until<H: Handler + Default>(
    parties: &mut [&mut Party<H>],
    mut done: impl FnMut(&mut [&mut Party<H>]) -> bool,
) {
    let patience = Patience::new();
    while !done(parties) {
        assert!(patience.lasts(), "hangs");
        parties.iter_mut().for_each(|party| party.turn());
    }
}

/// Sends until the receiver has heard something.
pub(crate) fn meet(a: &mut Party, source: Source, b: &mut Party) {
    let patience = Patience::new();
    while b.heard.payloads.is_empty() {
        assert!(patience.lasts(), "they do not meet");
        a.context.send(source, &[b"hello"]).expect("there is room");
        a.turn();
        b.turn();
    }
}
