use std::collections::VecDeque;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use counters::table;
use lbt::delivery::Via;
use lbt::resolution::TransportSession;
use lbt::wire::lbmc::Headers;
use net::fork::Home;
use net::ring::{self, Consumer, Producer, PushError};
use units::Sqn;

use crate::event::{End, FailoverLoss, Loss, SecurityEvent, SourceInfo};
use crate::{ConnectionId, Handler, Message, Receiver, RequestEnd, RequestId, Source, SourceEvent, StreamId};

/// An event that is not a message; these do not come often.
enum Other {
    Source { receiver: Receiver, stream: StreamId, topic: Box<str>, origin: Origin },
    Begin(Receiver, StreamId, Sqn),
    Loss(Receiver, StreamId, Loss),
    FailoverLoss(Receiver, Box<str>, FailoverLoss),
    End(Receiver, StreamId, End),
    SourceEvent(Source, SourceEvent),
    Security(SecurityEvent, Box<str>),
    Response(RequestId, Box<[u8]>),
    RequestEnd(RequestId, RequestEnd),
    Accepted(ConnectionId, SocketAddr),
    Connected(ConnectionId),
    Direct(ConnectionId, Box<[u8]>),
    Closed(ConnectionId, Box<str>),
}

/// The rest of a [`SourceInfo`].
struct Origin {
    session: u64,
    transport: TransportSession,
    request: Option<SocketAddrV4>,
}

/// Events that are not messages, and how many bytes they hold: those take no room in the ring.
#[derive(Default)]
struct OtherEvents {
    list: Mutex<VecDeque<Other>>,
    bytes: AtomicU64,
}

type Others = Arc<OtherEvents>;

impl Other {
    /// Bytes that come from others and are held until it is dispatched.
    fn bytes(&self) -> u64 {
        let bytes = match self {
            Other::Response(_, payload) | Other::Direct(_, payload) => payload.len(),
            Other::Source { topic: text, .. } | Other::Closed(_, text) | Other::Security(_, text) => {
                text.len()
            }
            _ => 0,
        };
        (bytes + size_of::<Other>()) as u64
    }
}

impl OtherEvents {
    fn push(&self, event: Other) {
        self.bytes.fetch_add(event.bytes(), Ordering::Relaxed);
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push_back(event);
    }

    fn take(&self, take: impl FnOnce(&mut VecDeque<Other>) -> Option<Other>) -> Option<Other> {
        let event = take(&mut self.list.lock().unwrap_or_else(PoisonError::into_inner))?;
        self.bytes.fetch_sub(event.bytes(), Ordering::Relaxed);
        Some(event)
    }
}

/// Puts events into the queue, on the context's thread.
///
/// An entry of the ring begins with its kind: a message (head of 28 bytes, extension headers, payload), a
/// part of the payload of the next message where that is too long for one entry, or a mark for an event that
/// stands in the list of the others, so that all keep their order.
pub(super) struct Enqueuer {
    ring: Producer,
    others: Others,
    part_max: usize,
    counters: Arc<table::EventQueue>,
    is_abandoned: Arc<AtomicBool>,
    /// Entries that the ring had no room for, oldest first. As long as there are some, the context receives
    /// nothing, so that these are of one turn, and what happens to sources meanwhile.
    held: VecDeque<Vec<u8>>,
    held_bytes: usize,
    /// What may be held of what happens to sources, and what events other than messages may hold before nothing
    /// more is received.
    held_max_bytes: usize,
    /// The others hold more than that.
    is_heavy: bool,
}

/// Events of a context, to be dispatched by a thread of the application.
///
/// When it is full, the context's thread receives nothing until there is room: what arrives meanwhile waits in
/// the kernel or with its sources, as if that thread were slow. It goes on sending, answering NAKs and doing
/// what it is called for. Dropped, it takes no more events. In a child made by `fork` the queue of its parent is
/// over.
pub struct EventQueue {
    ring: Consumer,
    others: Others,
    /// Parts of the payload of the next message.
    parts: Vec<u8>,
    is_abandoned: Arc<AtomicBool>,
    home: Home,
}

const MESSAGE: u8 = 0;
const PART: u8 = 1;
const OTHER: u8 = 2;
/// Bytes before the headers of a message.
const HEAD: usize = 28;

pub(super) fn pair(bytes: usize, counters: Arc<table::EventQueue>) -> (Enqueuer, EventQueue) {
    let (producer, consumer) = ring::ring(bytes);
    let others = Others::default();
    let is_abandoned = Arc::new(AtomicBool::new(false));
    // Headers have their length in two bytes, but no chain comes near that.
    let part_max = producer.message_max_bytes() / 2;
    let queue = EventQueue {
        ring: consumer,
        others: others.clone(),
        parts: Vec::new(),
        is_abandoned: is_abandoned.clone(),
        home: Home::here(),
    };
    let (ring, held, held_bytes, held_max_bytes) = (producer, VecDeque::new(), 0, bytes);
    let enqueuer = Enqueuer {
        ring,
        others,
        part_max,
        counters,
        is_abandoned,
        held,
        held_bytes,
        held_max_bytes,
        is_heavy: false,
    };
    (enqueuer, queue)
}

impl Enqueuer {
    /// Puts an entry in, or holds it until there is room; false if nobody will make room any more.
    #[inline]
    fn push(&mut self, parts: &[&[u8]]) -> bool {
        if self.held.is_empty() && self.ring.push(parts) != Err(PushError::Full) {
            self.ring.publish();
            return true;
        }
        self.hold(parts)
    }

    #[cold]
    #[inline(never)]
    fn hold(&mut self, parts: &[&[u8]]) -> bool {
        self.ring.publish();
        if self.is_abandoned.load(Ordering::Acquire) {
            self.counters.events_dropped.inc();
            return false;
        }
        if self.held.is_empty() {
            self.counters.waits_for_room.inc();
        }
        let entry = parts.concat();
        self.held_bytes += entry.len();
        self.held.push_back(entry);
        true
    }

    /// Puts in what was held, as far as there is room; false if something is held still, and nothing more is
    /// to be received.
    #[inline]
    pub(super) fn push_held(&mut self) -> bool {
        let is_heavy = self.others.bytes.load(Ordering::Relaxed) > self.held_max_bytes as u64;
        self.held.is_empty() && !is_heavy && !self.is_heavy || self.retry()
    }

    #[cold]
    #[inline(never)]
    fn retry(&mut self) -> bool {
        if self.is_abandoned.load(Ordering::Acquire) {
            self.counters.events_dropped.add(self.held.len() as u64);
            self.held.clear();
            self.held_bytes = 0;
            while self.others.take(VecDeque::pop_front).is_some() {}
        }
        while let Some(entry) = self.held.front() {
            if self.ring.push(&[entry]) == Err(PushError::Full) {
                break;
            }
            self.held_bytes -= entry.len();
            self.held.pop_front();
        }
        self.ring.publish();
        let is_heavy = self.others.bytes.load(Ordering::Relaxed) > self.held_max_bytes as u64;
        if is_heavy && !std::mem::replace(&mut self.is_heavy, is_heavy) {
            self.counters.waits_for_room.inc();
        }
        self.is_heavy = is_heavy;
        self.held.is_empty() && !is_heavy
    }

    fn other(&mut self, event: Other) {
        if self.is_abandoned.load(Ordering::Acquire) {
            return self.counters.events_dropped.inc();
        }
        self.others.push(event);
        if !self.push(&[&[OTHER]]) {
            self.others.take(VecDeque::pop_back);
        }
        self.count();
    }

    #[inline]
    fn count(&self) {
        self.counters.events.inc();
        let depth = self.ring.depth_bytes();
        self.counters.depth_bytes.set(depth);
        self.counters.depth_bytes_max.raise(depth);
    }
}

impl Drop for Enqueuer {
    /// The thread ends: what is held is put in as far as there is room, the rest is counted.
    fn drop(&mut self) {
        if !self.retry() {
            // In order, so that what was put in has no gap.
            self.counters.events_dropped.add(self.held.len() as u64);
        }
    }
}

impl Handler for Enqueuer {
    #[inline]
    fn on_message(&mut self, message: &Message<'_>) {
        let mut payload = message.payload;
        while payload.len() > self.part_max {
            let (part, rest) = payload.split_at(self.part_max);
            if !self.push(&[&[PART], part]) {
                return;
            }
            payload = rest;
        }
        let (first, headers) = message.headers.parts();
        let mut head = [0; HEAD];
        head[0] = MESSAGE;
        head[1] = u8::from(message.recovered);
        head[2] = via_code(message.via);
        head[3] = first;
        head[4..12].copy_from_slice(&message.receiver.to_bits().to_ne_bytes());
        head[12..16].copy_from_slice(&message.stream.0.to_ne_bytes());
        head[16..20].copy_from_slice(&message.sqn.0.to_ne_bytes());
        head[20..24].copy_from_slice(&message.first_sqn.0.to_ne_bytes());
        head[24..28].copy_from_slice(&(headers.len() as u32).to_ne_bytes());
        self.push(&[&head, headers, payload]);
        self.count();
    }

    fn on_source(&mut self, receiver: Receiver, stream: StreamId, info: &SourceInfo<'_>) {
        let SourceInfo { topic, session, transport, request } = *info;
        let origin = Origin { session, transport, request };
        self.other(Other::Source { receiver, stream, topic: topic.into(), origin });
    }
    fn on_begin(&mut self, receiver: Receiver, stream: StreamId, first: Sqn) {
        self.other(Other::Begin(receiver, stream, first));
    }
    fn on_loss(&mut self, receiver: Receiver, stream: StreamId, loss: Loss) {
        self.other(Other::Loss(receiver, stream, loss));
    }
    fn on_failover_loss(&mut self, receiver: Receiver, topic: &str, loss: FailoverLoss) {
        self.other(Other::FailoverLoss(receiver, topic.into(), loss));
    }
    fn on_end(&mut self, receiver: Receiver, stream: StreamId, end: &End) {
        self.other(Other::End(receiver, stream, *end));
    }
    fn on_source_event(&mut self, source: Source, event: SourceEvent) {
        // Sources go on while nothing is received.
        if self.held_bytes > self.held_max_bytes {
            return self.counters.events_dropped.inc();
        }
        self.other(Other::SourceEvent(source, event));
    }
    fn on_security(&mut self, event: SecurityEvent, text: &str) {
        self.other(Other::Security(event, text.into()));
    }
    fn on_response(&mut self, request: RequestId, payload: &[u8]) {
        self.other(Other::Response(request, payload.into()));
    }
    fn on_request_end(&mut self, request: RequestId, reason: RequestEnd) {
        self.other(Other::RequestEnd(request, reason));
    }
    fn on_accepted(&mut self, connection: ConnectionId, peer: SocketAddr) {
        self.other(Other::Accepted(connection, peer));
    }
    fn on_connected(&mut self, connection: ConnectionId) {
        self.other(Other::Connected(connection));
    }
    fn on_direct(&mut self, connection: ConnectionId, payload: &[u8]) {
        self.other(Other::Direct(connection, payload.into()));
    }
    fn on_closed(&mut self, connection: ConnectionId, reason: &str) {
        self.other(Other::Closed(connection, reason.into()));
    }
}

impl EventQueue {
    /// Hands up to `max` events to `handler`, oldest first, without waiting; returns how many there were. An event counts as
    /// handed on though the handler panics: where the application catches that, the next one follows.
    pub fn dispatch(&mut self, max: usize, handler: &mut impl Handler) -> usize {
        if !self.home.is_here() {
            return 0;
        }
        let EventQueue { ring, others, parts, .. } = self;
        let mut count = 0;
        while count < max {
            let taken = ring.drain(1, |entry| match entry.split_first() {
                Some((&PART, part)) => parts.extend_from_slice(part),
                Some((&MESSAGE, _)) => {
                    count += 1;
                    // Should the handler panic, they are no part of the next message.
                    let mut whole = std::mem::take(parts);
                    hand_on(entry, &mut whole, handler);
                    whole.clear();
                    *parts = whole;
                }
                _ => {
                    count += 1;
                    let other = others.take(VecDeque::pop_front);
                    other.into_iter().for_each(|event| tell(event, handler));
                }
            });
            if taken == 0 {
                break;
            }
        }
        count
    }

    /// Whether the context's thread has ended and everything was dispatched, so that no event follows. If
    /// nobody has stopped it, [`EmbeddedContext::stop`](crate::EmbeddedContext::stop) says why.
    #[must_use]
    pub fn is_over(&self) -> bool {
        if !self.home.is_here() {
            return true;
        }
        // The other one is the thread's; what was put in before it was dropped is seen after the fence.
        if Arc::strong_count(&self.is_abandoned) > 1 {
            return false;
        }
        fence(Ordering::Acquire);
        self.is_empty()
    }

    /// Whether there is nothing to dispatch at this moment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
}

impl Drop for EventQueue {
    fn drop(&mut self) {
        self.is_abandoned.store(true, Ordering::Release);
    }
}

#[inline]
fn hand_on(entry: &[u8], parts: &mut Vec<u8>, handler: &mut impl Handler) {
    let Some((head, rest)) = entry.split_first_chunk::<HEAD>() else { return };
    let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let receiver = u64::from(word(8)) << 32 | u64::from(word(4));
    let receiver = if cfg!(target_endian = "little") { receiver } else { receiver.rotate_left(32) };
    let (headers, payload) = rest.split_at(word(24) as usize);
    // They were checked before they were put in.
    let headers = Headers::parse(head[3], headers).unwrap_or(Headers::NONE);
    let payload = if parts.is_empty() {
        payload
    } else {
        parts.extend_from_slice(payload);
        &parts[..]
    };
    handler.on_message(&Message {
        receiver: Receiver::from_bits(receiver),
        stream: StreamId(word(12)),
        sqn: Sqn(word(16)),
        first_sqn: Sqn(word(20)),
        payload,
        recovered: head[1] != 0,
        via: via_of(head[2]),
        headers,
    });
}

fn tell(event: Other, handler: &mut impl Handler) {
    match event {
        Other::Source { receiver, stream, topic, origin } => {
            let Origin { session, transport, request } = origin;
            handler.on_source(receiver, stream, &SourceInfo { topic: &topic, session, transport, request });
        }
        Other::Begin(receiver, stream, first) => handler.on_begin(receiver, stream, first),
        Other::Loss(receiver, stream, loss) => handler.on_loss(receiver, stream, loss),
        Other::FailoverLoss(receiver, topic, loss) => handler.on_failover_loss(receiver, &topic, loss),
        Other::End(receiver, stream, end) => handler.on_end(receiver, stream, &end),
        Other::SourceEvent(source, event) => handler.on_source_event(source, event),
        Other::Security(event, text) => handler.on_security(event, &text),
        Other::Response(request, payload) => handler.on_response(request, &payload),
        Other::RequestEnd(request, reason) => handler.on_request_end(request, reason),
        Other::Accepted(connection, peer) => handler.on_accepted(connection, peer),
        Other::Connected(connection) => handler.on_connected(connection),
        Other::Direct(connection, payload) => handler.on_direct(connection, &payload),
        Other::Closed(connection, reason) => handler.on_closed(connection, &reason),
    }
}

fn via_code(via: Via) -> u8 {
    match via {
        Via::Transport => 0,
        Via::LateJoin => 1,
        Via::OffTransport => 2,
    }
}

fn via_of(code: u8) -> Via {
    match code {
        1 => Via::LateJoin,
        2 => Via::OffTransport,
        _ => Via::Transport,
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Notes what it hears, and panics at the event of this number.
    struct Frail {
        heard: Vec<String>,
        panics_at: usize,
    }

    impl Frail {
        fn hear(&mut self, what: String) {
            self.heard.push(what);
            assert!(self.heard.len() != self.panics_at, "of the application");
        }
    }

    impl Handler for Frail {
        fn on_message(&mut self, message: &Message<'_>) {
            let first = message.payload.first().copied().unwrap_or(0);
            assert!(message.payload.iter().all(|byte| *byte == first), "parts of several messages");
            self.hear(format!("{first} x {}", message.payload.len()));
        }
        fn on_begin(&mut self, _: Receiver, _: StreamId, first: Sqn) {
            self.hear(format!("begin {}", first.0));
        }
        fn on_request_end(&mut self, request: RequestId, _: RequestEnd) {
            self.hear(format!("end of request {}", request.0));
        }
    }

    #[test]
    fn an_event_whose_handler_panics_is_taken_and_the_next_one_is_whole_and_in_its_place() {
        let receiver = Receiver::from_bits(1);
        for panics_at in 1..=6 {
            let (mut enqueuer, mut queue) = pair(65_536, Arc::default());
            let payloads = [vec![1; 20], vec![2; 60_000], vec![3; 20]];
            let message = |number: u32| Message {
                receiver,
                stream: StreamId(0),
                sqn: Sqn(number),
                first_sqn: Sqn(number),
                payload: &payloads[number as usize],
                recovered: false,
                via: Via::Transport,
                headers: Headers::NONE,
            };
            let mut frail = Frail { heard: Vec::new(), panics_at };
            let mut take = || {
                let once = AssertUnwindSafe(|| queue.dispatch(100, &mut frail));
                let _ = catch_unwind(once);
                queue.dispatch(100, &mut frail);
            };
            enqueuer.on_message(&message(0));
            enqueuer.on_message(&message(1));
            take();
            enqueuer.on_begin(receiver, StreamId(0), Sqn(5));
            enqueuer.on_message(&message(2));
            enqueuer.on_request_end(RequestId(9), RequestEnd::PeerGone);
            take();
            let whole = ["1 x 20", "2 x 60000", "begin 5", "3 x 20", "end of request 9"];
            assert_eq!(frail.heard, whole, "with a panic at event {panics_at}");
        }
    }
}
