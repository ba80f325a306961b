//! Contexts of one process against each other.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tickcast_messaging::{
    Asked, BatchEdge, Context, ContextCounters, End, FailoverLoss, Handler, Interface, IpcBehavior, Loss,
    Message, MessagingConfig, Receiver, ReceiverOptions, RequestEnd, RequestId, SendError, Source,
    SourceEvent, SourceInfo, SourceOptions, Sqn, StreamId, Transport, Via,
};

/// Everything that a context has said, in its order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Source(Receiver, StreamId, String),
    Begin(Receiver, StreamId, Sqn),
    Message(Receiver, StreamId, Sqn, Vec<u8>),
    Loss(Receiver, StreamId, Loss),
    FailoverLoss(Receiver, String, FailoverLoss),
    End(Receiver, StreamId, End),
    Told(Source, SourceEvent),
    Response(RequestId, Vec<u8>),
    RequestEnd(RequestId, RequestEnd),
}

#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) events: Vec<Event>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) batches: Vec<(Vec<u8>, BatchEdge)>,
    pub(crate) ways: Vec<Via>,
    /// Hot failover numbers, of messages that have one.
    pub(crate) numbers: Vec<u64>,
}

impl Handler for Heard {
    fn on_message(&mut self, message: &Message<'_>) {
        self.asked.extend(message.request());
        self.ways.push(message.via);
        self.numbers.extend(message.failover_number());
        self.batches.extend(message.batch().map(|edge| (message.payload.to_vec(), edge)));
        let Message { receiver, stream, sqn, payload, .. } = *message;
        self.events.push(Event::Message(receiver, stream, sqn, payload.to_vec()));
    }
    fn on_source(&mut self, receiver: Receiver, stream: StreamId, info: &SourceInfo<'_>) {
        self.events.push(Event::Source(receiver, stream, info.topic.to_owned()));
    }
    fn on_begin(&mut self, receiver: Receiver, stream: StreamId, first: Sqn) {
        self.events.push(Event::Begin(receiver, stream, first));
    }
    fn on_loss(&mut self, receiver: Receiver, stream: StreamId, loss: Loss) {
        self.events.push(Event::Loss(receiver, stream, loss));
    }
    fn on_failover_loss(&mut self, receiver: Receiver, topic: &str, loss: FailoverLoss) {
        self.events.push(Event::FailoverLoss(receiver, topic.to_owned(), loss));
    }
    fn on_end(&mut self, receiver: Receiver, stream: StreamId, end: &End) {
        self.events.push(Event::End(receiver, stream, *end));
    }
    fn on_source_event(&mut self, source: Source, event: SourceEvent) {
        self.events.push(Event::Told(source, event));
    }
    fn on_response(&mut self, request: RequestId, payload: &[u8]) {
        self.events.push(Event::Response(request, payload.to_vec()));
    }
    fn on_request_end(&mut self, request: RequestId, reason: RequestEnd) {
        self.events.push(Event::RequestEnd(request, reason));
    }
}

impl Heard {
    pub(crate) fn messages(&self) -> impl Iterator<Item = (Receiver, StreamId, Sqn, &[u8])> {
        self.events.iter().filter_map(|event| match event {
            Event::Message(receiver, stream, sqn, bytes) => Some((*receiver, *stream, *sqn, &bytes[..])),
            _ => None,
        })
    }

    pub(crate) fn payloads(&self) -> Vec<&[u8]> {
        self.messages().map(|(.., bytes)| bytes).collect()
    }

    pub(crate) fn topics(&self) -> Vec<&str> {
        let topics = self.events.iter().filter_map(|event| match event {
            Event::Source(_, _, topic) => Some(topic.as_str()),
            _ => None,
        });
        topics.collect()
    }

    pub(crate) fn count(&self, of: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| of(event)).count()
    }

    pub(crate) fn losses(&self) -> usize {
        self.count(|e| matches!(e, Event::Loss(..)))
    }
}

/// A context and what it has heard.
pub(crate) struct Party {
    pub(crate) context: Context,
    pub(crate) heard: Heard,
    pub(crate) counters: ContextCounters,
}

impl Party {
    pub(crate) fn source(&mut self, topic: &str) -> Source {
        self.context.create_source(topic, &SourceOptions::default()).expect("a port is free")
    }

    pub(crate) fn receiver(&mut self, topic: &str) -> Receiver {
        self.context.create_receiver(topic, &ReceiverOptions::default()).expect("a legal name")
    }

    pub(crate) fn turn(&mut self) {
        self.context.wait(Some(Duration::from_millis(1)), &mut self.heard).expect("the poller works");
    }

    pub(crate) fn send(&mut self, source: Source, payload: &[u8]) -> Result<Sqn, SendError> {
        let (front, back) = payload.split_at(payload.len() / 2);
        self.context.send(source, &[front, back])
    }
}

/// What the parties of one test have in common: a transport, and addresses of their own.
pub(crate) struct World {
    pub(crate) transport: Transport,
    test: u16,
}

static TESTS: AtomicU16 = AtomicU16::new(0);
/// Long enough for a machine that has much else to do.
const WATCHDOG: Duration = Duration::from_secs(40);

impl World {
    pub(crate) fn new(transport: Transport) -> World {
        World { transport, test: TESTS.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn config(&self) -> MessagingConfig {
        let process = std::process::id();
        let port = 20_000 + (process % 5_000) as u16;
        let [a, b] = [(process / 5_000 % 64) as u8 * 4, self.test as u8];
        MessagingConfig {
            interface: Interface::Address(Ipv4Addr::LOCALHOST),
            transport: self.transport,
            resolver_multicast_address: Ipv4Addr::new(239, 255, a, b),
            resolver_multicast_port: port,
            transport_lbtrm_multicast_address: Ipv4Addr::new(239, 255, a + 1, b),
            transport_lbtrm_destination_port: port,
            transport_lbtrm_source_port_low: 30_000,
            transport_lbtrm_source_port_high: 45_000,
            transport_lbtipc_behavior: IpcBehavior::ReceiverPaced,
            transport_lbtru_port_low: 30_000,
            transport_lbtru_port_high: 45_000,
            transport_lbtru_receiver_port_low: 30_000,
            transport_lbtru_receiver_port_high: 45_000,
            transport_tcp_port_low: 30_000,
            transport_tcp_port_high: 45_000,
            request_tcp_port_low: 30_000,
            request_tcp_port_high: 45_000,
            ..MessagingConfig::default()
        }
    }

    pub(crate) fn party(&self) -> Party {
        self.party_with(|_| {})
    }

    pub(crate) fn party_with(&self, change: impl FnOnce(&mut MessagingConfig)) -> Party {
        let mut config = self.config();
        change(&mut config);
        let counters = ContextCounters::default();
        let context = Context::standalone_with(&config, counters.clone())
            .expect("the loopback interface has multicast");
        Party { context, heard: Heard::default(), counters }
    }
}

/// Drives the parties until `done`.
pub(crate) fn until<const N: usize>(
    mut parties: [&mut Party; N],
    mut done: impl FnMut(&mut [&mut Party; N]) -> bool,
) {
    let begun = Instant::now();
    while !done(&mut parties) {
        assert!(begun.elapsed() < WATCHDOG, "hangs; heard last: {:?}", parties.map(|p| last(&p.heard)));
        parties.iter_mut().for_each(|party| party.turn());
    }
}

fn last(heard: &Heard) -> String {
    let mut text = format!("{} events, {:?}", heard.events.len(), heard.events.last());
    text.truncate(300);
    text
}

/// Drives the parties until a source and all receivers have found each other: until what the source sends
/// arrives at each. Forgets what was heard.
pub(crate) fn meet<const N: usize>(from: &mut Party, source: Source, to: [&mut Party; N]) {
    let begun = Instant::now();
    let mut to = to;
    to.iter_mut().for_each(|p| p.heard = Heard::default());
    while to.iter().any(|p| p.heard.messages().next().is_none()) {
        assert!(begun.elapsed() < WATCHDOG, "they do not meet");
        from.context.send(source, &[b"hello"]).expect("there is room");
        from.turn();
        to.iter_mut().for_each(|p| p.turn());
    }
    // What is still under way.
    let next = from.context.send(source, &[b"hello"]).expect("there is room");
    let arrived = |p: &Party| p.heard.messages().any(|(_, _, sqn, _)| sqn == next);
    while !to.iter().all(|p| arrived(p)) {
        assert!(begun.elapsed() < WATCHDOG, "they do not meet");
        from.turn();
        to.iter_mut().for_each(|p| p.turn());
    }
    to.iter_mut().for_each(|p| p.heard = Heard::default());
    from.heard = Heard::default();
}
