//! Contexts of one process against each other.

use std::sync::atomic::{AtomicU8, Ordering};

use tickcast_messaging::{
    Asked, BatchEdge, End, FailoverLoss, Handler, IpcBehavior, IpcConfig, LbtrmConfig, LbtruConfig, Loss,
    Message, MessagingConfig, Receiver, RequestEnd, RequestId, SendError, Source, SourceEvent, SourceInfo,
    Sqn, StreamId, Transport, Via,
};

use crate::common::{self, Patience};

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

    /// Answers to requests, and ends of requests. (Who comes and goes is told whenever that is noticed.)
    pub(crate) fn of_requests(&self) -> usize {
        self.count(|e| matches!(e, Event::Response(..) | Event::RequestEnd(..)))
    }

    pub(crate) fn losses(&self) -> usize {
        self.count(|e| matches!(e, Event::Loss(..)))
    }
}

pub(crate) type Party = common::Party<Heard>;

impl Party {
    pub(crate) fn send(&mut self, source: Source, payload: &[u8]) -> Result<Sqn, SendError> {
        let (front, back) = payload.split_at(payload.len() / 2);
        self.context.send(source, &[front, back])
    }
}

/// What the parties of one test have in common: a transport, and addresses of their own.
pub(crate) struct World {
    pub(crate) transport: Transport,
    is_certified: bool,
    is_encrypted: bool,
    test: u8,
}

/// What carries the messages of a test.
#[derive(Clone, Copy)]
pub(crate) struct Carriage {
    transport: Transport,
    is_certified: bool,
    is_encrypted: bool,
}

impl From<Transport> for Carriage {
    fn from(transport: Transport) -> Carriage {
        Carriage { transport, is_certified: false, is_encrypted: false }
    }
}

/// Connections are encrypted, and both ends show certificates.
pub(crate) fn certified(transport: Transport) -> Carriage {
    Carriage { is_certified: true, ..transport.into() }
}

/// Messages are encrypted.
pub(crate) fn encrypted(carriage: impl Into<Carriage>) -> Carriage {
    Carriage { is_encrypted: true, ..carriage.into() }
}

/// The longest that the options allow: parties whose process is stopped for a while go on.
const SILENCE_MAX_US: u64 = 600_000_000;

static TESTS: AtomicU8 = AtomicU8::new(0);

impl World {
    pub(crate) fn new(carriage: impl Into<Carriage>) -> World {
        let Carriage { transport, is_certified, is_encrypted } = carriage.into();
        World { transport, is_certified, is_encrypted, test: TESTS.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn config(&self) -> MessagingConfig {
        let config = common::config(self.test);
        let config = if self.is_certified { common::certified(config) } else { config };
        let config = if self.is_encrypted { common::encrypted(config) } else { config };
        MessagingConfig {
            transport: self.transport,
            ipc: IpcConfig {
                behavior: IpcBehavior::ReceiverPaced,
                receiver_stopped_timeout_us: SILENCE_MAX_US,
                ..config.ipc
            },
            lbtrm: LbtrmConfig { activity_timeout_us: SILENCE_MAX_US, ..config.lbtrm },
            lbtru: LbtruConfig {
                activity_timeout_us: SILENCE_MAX_US,
                client_activity_timeout_us: SILENCE_MAX_US,
                ..config.lbtru
            },
            ..config
        }
    }

    pub(crate) fn party(&self) -> Party {
        self.party_with(|_| {})
    }

    pub(crate) fn party_with(&self, change: impl FnOnce(&mut MessagingConfig)) -> Party {
        let mut config = self.config();
        change(&mut config);
        Party::new(&config)
    }
}

/// Drives the parties until `done`.
pub(crate) fn until<const N: usize>(
    mut parties: [&mut Party; N],
    mut done: impl FnMut(&mut [&mut Party; N]) -> bool,
) {
    let patience = Patience::new();
    while !done(&mut parties) {
        assert!(patience.lasts(), "hangs; heard last: {:?}", parties.map(|p| last(&p.heard)));
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
    let patience = Patience::new();
    let mut to = to;
    to.iter_mut().for_each(|p| p.heard = Heard::default());
    while to.iter().any(|p| p.heard.messages().next().is_none()) {
        assert!(patience.lasts(), "they do not meet");
        from.context.send(source, &[b"hello"]).expect("there is room");
        from.turn();
        to.iter_mut().for_each(|p| p.turn());
    }
    // What is still under way.
    let next = from.context.send(source, &[b"hello"]).expect("there is room");
    let arrived = |p: &Party| p.heard.messages().any(|(_, _, sqn, _)| sqn == next);
    while !to.iter().all(|p| arrived(p)) {
        assert!(patience.lasts(), "they do not meet");
        from.turn();
        to.iter_mut().for_each(|p| p.turn());
    }
    to.iter_mut().for_each(|p| p.heard = Heard::default());
    from.heard = Heard::default();
}
