//! A connection to servers of NATS on a thread of its own, and the two rings between it and the thread of the data.
//!
//! The thread of the data never waits for it. What it publishes goes into a ring; when that is full it waits outside, and
//! [`Socket::is_blocked`] says so. What arrives goes into the other ring; when that is full it is dropped and counted,
//! as NATS itself would do: packets have numbers, so what is missing shows. While no server is connected, what is
//! published is dropped: nobody could want it later.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Event, Message, ReconnectToServer, Subscriber};
use counters::table::{NatsCarrier, NatsConnection};
use futures_util::{FutureExt, StreamExt};
use net::ring::{Consumer, Producer, PushError, ring};
use net::{Registrar, Token, Waker, clock};
use tokio::sync::Notify;
use tokio::task::JoinHandle as Task;
use tokio::time::{sleep, timeout};

use super::NatsCounters;
use super::choice::Choice;
use super::config::NatsConfig;
use super::jetstream::answer;
use super::repeats::Repeats;
use crate::Notice;

/// Room in the ring to NATS, and in that from it.
const TO_NATS_BYTES: usize = 16 << 20;
const FROM_NATS_BYTES: usize = 32 << 20;
/// Packets taken from the ring at a time.
const TAKEN_AT_A_TIME: usize = 64;
/// Packets handed on from one subscription before others have a turn.
const HANDED_AT_A_TIME: usize = 256;
/// Notices that wait to be taken; of more some are left out.
const NOTICES_MAX: usize = 32;
/// How long before a server is tried again that has refused, or was not there.
const RETRY: Duration = Duration::from_secs(1);
/// How long the end waits for what was published to be written.
const END: Duration = Duration::from_secs(2);

/// The number of a subscription whose messages are answers of JetStream.
pub(super) const ANSWERS: u32 = u32::MAX;

/// The end of the thread of the data.
pub(super) struct Socket {
    to: Producer,
    from: Consumer,
    shared: Arc<Shared>,
    /// Packets that the ring had no room for, oldest first.
    waiting: VecDeque<Vec<u8>>,
    thread: Option<JoinHandle<()>>,
    /// How many connections had broken when it was asked last, and whether there was one.
    connection: (u64, bool),
    counters: Arc<NatsCarrier>,
    packet_bytes: usize,
}

/// What has become of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionNews {
    /// It has lost who knows what, whether or not there is another one by now.
    Broken,
    /// Nothing was lost.
    Other,
}

/// What both threads see.
struct Shared {
    waker: Waker,
    /// The thread of the data never sleeps.
    spins: bool,
    /// It has found nothing to do, and may sleep.
    wants_wake: AtomicBool,
    /// It waits for room in the ring.
    wants_room: AtomicBool,
    is_closed: AtomicBool,
    /// The same, to be waited for.
    closed: Notify,
    is_connected: AtomicBool,
    /// How many connections have broken.
    breaks: AtomicU64,
    /// The longest message that the server takes.
    payload_max: AtomicUsize,
    /// What the thread of the data wants to hear, and not any more.
    asked: Mutex<Vec<Asked>>,
    notices: Mutex<Vec<Notice>>,
    /// Errors that come again with each attempt.
    repeats: Mutex<Repeats>,
    /// As configured, for what operators are told.
    servers: String,
    /// Something was asked or published, or it is over.
    news: Notify,
    /// The server refuses this connection: another one is made, with files as they are now.
    refused: Notify,
    /// Into the ring to the thread of the data. The thread of NATS alone locks it.
    inbound: Mutex<Producer>,
    counters: Arc<NatsConnection>,
}

/// What is published.
struct Packet {
    subject: String,
    /// Where the answer goes, of one that is a request.
    reply: Option<String>,
    payload: Vec<u8>,
}

/// In the length of a subject: the subject for the answer follows, with its length.
const HAS_REPLY: u16 = 1 << 15;

impl Packet {
    /// Of the ring: the length of the subject, the subject, the same of that for the answer, the payload.
    fn of(bytes: &[u8]) -> Option<Packet> {
        let (length, rest) = split_u16(bytes)?;
        let (subject, mut rest) = split_text(rest, length & !HAS_REPLY)?;
        let mut reply = None;
        if length & HAS_REPLY != 0 {
            let (length, behind) = split_u16(rest)?;
            let (text, behind) = split_text(behind, length)?;
            (reply, rest) = (Some(text), behind);
        }
        Some(Packet { subject, reply, payload: rest.to_vec() })
    }
}

fn split_u16(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*number), rest))
}

fn split_text(bytes: &[u8], length: u16) -> Option<(String, &[u8])> {
    let (text, rest) = bytes.split_at_checked(length.into())?;
    Some((std::str::from_utf8(text).ok()?.to_owned(), rest))
}

enum Asked {
    Subscribe(u32, String),
    Unsubscribe(u32),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Socket {
    /// Starts the thread, which connects and keeps trying. `name` is what servers show of the connection.
    pub(super) fn new(
        config: &NatsConfig,
        name: &'static str,
        (registrar, token): (&Registrar, Token),
        spins: bool,
        counters: NatsCounters,
    ) -> io::Result<Socket> {
        let wrong =
            |text: String| io::Error::new(io::ErrorKind::InvalidInput, format!("backbone.nats: {text}"));
        // Files that are missing are an error of the start.
        config.options(name).map_err(wrong)?;
        config.addresses().map_err(wrong)?;
        let (to, from_data) = ring(TO_NATS_BYTES);
        let (inbound, from) = ring(FROM_NATS_BYTES);
        let shared = Arc::new(Shared {
            waker: Waker::new(registrar, token)?,
            spins,
            wants_wake: AtomicBool::new(false),
            wants_room: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            closed: Notify::new(),
            is_connected: AtomicBool::new(false),
            breaks: AtomicU64::new(0),
            payload_max: AtomicUsize::new(usize::MAX),
            asked: Mutex::default(),
            notices: Mutex::new(config.exposed_files()),
            repeats: Mutex::default(),
            servers: config.servers.join(", "),
            news: Notify::new(),
            refused: Notify::new(),
            inbound: Mutex::new(inbound),
            counters: counters.connection,
        });
        let pump = Pump {
            shared: shared.clone(),
            config: config.clone(),
            name,
            from_data,
            heard: BTreeMap::new(),
            connects: 0,
        };
        let thread = std::thread::Builder::new().name("nats".to_owned());
        let thread = thread.spawn(move || {
            net::affinity::step_aside();
            pump.run()
        })?;
        Ok(Socket {
            to,
            from,
            shared,
            waiting: VecDeque::new(),
            thread: Some(thread),
            connection: (0, false),
            counters: counters.carrier,
            packet_bytes: config.packet_bytes as usize,
        })
    }

    /// Hears a subject; what comes has this number.
    pub(super) fn subscribe(&self, number: u32, subject: String) {
        lock(&self.shared.asked).push(Asked::Subscribe(number, subject));
        self.shared.news.notify_one();
    }

    pub(super) fn unsubscribe(&self, number: u32) {
        lock(&self.shared.asked).push(Asked::Unsubscribe(number));
        self.shared.news.notify_one();
    }

    /// Publishes a packet, gathered of two parts. [`Socket::flush`] shows it to the thread of NATS.
    #[inline]
    pub(super) fn publish(&mut self, subject: &str, parts: [&[u8]; 2]) {
        if !self.is_connected() {
            return self.counters.packets_unconnected.inc();
        }
        self.counters.packets_sent.inc();
        self.counters.bytes_sent.add((parts[0].len() + parts[1].len()) as u64);
        let length = (subject.len() as u16).to_be_bytes();
        self.push(&[&length, subject.as_bytes(), parts[0], parts[1]]);
    }

    /// Publishes a request. The answer comes with the subscription that hears `reply`.
    pub(super) fn request(&mut self, subject: &str, reply: &str, body: &[u8]) {
        if !self.is_connected() {
            return self.counters.packets_unconnected.inc();
        }
        let length = (subject.len() as u16 | HAS_REPLY).to_be_bytes();
        let reply_length = (reply.len() as u16).to_be_bytes();
        self.push(&[&length, subject.as_bytes(), &reply_length, reply.as_bytes(), body]);
    }

    #[inline]
    fn push(&mut self, parts: &[&[u8]]) {
        if !self.waiting.is_empty() || self.to.push(parts).is_err() {
            self.waiting.push_back(parts.concat());
        }
    }

    pub(super) fn flush(&mut self) {
        if !self.waiting.is_empty() {
            self.push_waiting();
        }
        if self.to.publish() {
            self.shared.news.notify_one();
        }
    }

    #[cold]
    fn push_waiting(&mut self) {
        if !self.is_connected() {
            self.counters.packets_unconnected.add(self.waiting.len() as u64);
            return self.waiting.clear();
        }
        // Before a look at the ring: one of the two threads sees what the other has written.
        self.shared.wants_room.store(true, Relaxed);
        fence(SeqCst);
        while let Some(packet) = self.waiting.front() {
            if self.to.push(&[packet]) == Err(PushError::Full) {
                return;
            }
            self.waiting.pop_front();
        }
        self.shared.wants_room.store(false, Relaxed);
    }

    /// Packets wait outside the ring.
    pub(super) fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.shared.is_connected.load(Acquire)
    }

    /// Whether the connection has broken, or another one is made, since this was asked last.
    pub(super) fn connection_news(&mut self) -> Option<ConnectionNews> {
        let now = (self.shared.breaks.load(Acquire), self.is_connected());
        let before = std::mem::replace(&mut self.connection, now);
        let news = if now.0 == before.0 { ConnectionNews::Other } else { ConnectionNews::Broken };
        (now != before).then_some(news)
    }

    /// The longest packet.
    #[inline]
    pub(super) fn packet_max(&self) -> usize {
        self.packet_bytes.min(self.shared.payload_max.load(Relaxed))
    }

    /// Hands on packets that have come, each with the number of its subscription. Returns how many there were.
    pub(super) fn drain(&mut self, max: usize, mut handle: impl FnMut(u32, &[u8])) -> usize {
        let counters = &self.counters;
        self.from.drain_numbered(max, |number, packet| {
            counters.packets_rcved.inc();
            counters.bytes_rcved.add(packet.len() as u64);
            handle(number.unwrap_or_default() as u32, packet);
        })
    }

    pub(super) fn has_work(&self) -> bool {
        !self.from.is_empty()
    }

    pub(super) fn acknowledge(&self) {
        self.shared.waker.acknowledge();
    }

    /// Says that the thread of the data has nothing to do; the caller looks once more afterwards.
    pub(super) fn idle(&self) {
        if !self.shared.spins {
            self.shared.wants_wake.store(true, Relaxed);
            fence(SeqCst);
        }
    }

    /// Tells operators of an error that may come again and again.
    pub(super) fn report_now_and_then(&self, text: String) {
        self.shared.report_now_and_then(text);
    }

    pub(super) fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut lock(&self.shared.notices))
    }

    /// Writes what was published, and ends the connection. Waits for that, some seconds at most.
    pub(super) fn end(&mut self) {
        self.flush();
        self.shared.is_closed.store(true, Release);
        self.shared.closed.notify_one();
        self.shared.news.notify_one();
        // A thread that has panicked has said so.
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn nudge(&self) {
        if !self.spins {
            fence(SeqCst);
            if self.wants_wake.swap(false, Relaxed) {
                self.waker.wake();
            }
        }
    }

    /// Waits until it is over and what was published has had its time to be written: a server that takes nothing keeps
    /// nobody waiting.
    async fn overdue(&self) {
        self.closed.notified().await;
        sleep(END).await;
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Acquire)
    }

    fn report(&self, is_fault: bool, text: String) {
        let mut notices = lock(&self.notices);
        if notices.len() < NOTICES_MAX {
            notices.push(Notice { is_fault, text });
        }
        drop(notices);
        self.nudge();
    }

    /// Reports an error that may come again with each attempt.
    fn report_now_and_then(&self, text: String) {
        let admitted = lock(&self.repeats).admit(clock::monotonic(), text);
        admitted.into_iter().for_each(|text| self.report(true, text));
    }

    /// `server` is asked which one it is.
    fn set_connected(&self, is_connected: bool, server: impl FnOnce() -> String) {
        if self.is_connected.load(Relaxed) == is_connected {
            return;
        }
        self.counters.connected.set(is_connected.into());
        if is_connected {
            self.counters.connects.inc();
            self.report(false, format!("connected to {}", server()));
        } else {
            self.breaks.fetch_add(1, Release);
            self.report(true, "the connection to NATS is broken; another server is tried".to_owned());
        }
        self.is_connected.store(is_connected, Release);
        self.nudge();
    }

    fn on_event(&self, event: &Event) {
        match event {
            // The state of the client says it in order; this is to look.
            Event::Connected | Event::Disconnected => self.news.notify_one(),
            Event::ServerError(error) => {
                self.counters.errors.inc();
                let advice = advice(&error.to_string());
                self.report_now_and_then(format!("the server of NATS says: {error}{advice}"));
            }
            Event::ClientError(error) => {
                self.counters.errors.inc();
                let (text, advice) = (error.to_string(), advice(&error.to_string()));
                self.report_now_and_then(format!("NATS at {}: {text}{advice}", self.servers));
                if !advice.is_empty() {
                    self.refused.notify_one();
                }
            }
            Event::LameDuckMode => {
                self.report(
                    false,
                    "the server of NATS is about to end; another one is tried then".to_owned(),
                );
            }
            Event::SlowConsumer(_) | Event::Draining | Event::Closed => {}
        }
    }

    /// Puts a packet into the ring to the thread of the data.
    fn deliver(&self, inbound: &mut Producer, number: u32, message: &Message) {
        let payload: &[u8] = &message.payload;
        let is_full = if number == ANSWERS {
            inbound.push_numbered(number.into(), &[&answer_of(message)]).is_err()
        } else {
            inbound.push_numbered(number.into(), &[payload]).is_err()
        };
        if is_full {
            self.counters.packets_unread.inc();
        }
    }
}

/// What the thread of the data is to know of an answer of JetStream.
fn answer_of(message: &Message) -> Vec<u8> {
    let header = |name: &str| message.headers.as_ref()?.get(name).map(|value| value.as_str());
    answer::write(&message.subject, message.status.map(|status| status.as_u16()), header, &message.payload)
}

/// What to do about an error of a server.
fn advice(error: &str) -> &'static str {
    let error = error.to_lowercase();
    if error.contains("permissions violation") {
        ". The user needs to publish and subscribe to PREFIX.>, and with backbone.nats.jetstream.stream to publish to \
         $JS.API.DIRECT.GET.STREAM (docs/guides/nats.md)"
    } else if error.contains("authorization") || error.contains("authentication") {
        ". Look at backbone.nats.user, password_file, token_file, nkey_file and credentials_file"
    } else {
        ""
    }
}

/// The thread of NATS.
struct Pump {
    shared: Arc<Shared>,
    config: NatsConfig,
    name: &'static str,
    from_data: Consumer,
    /// What is subscribed to, and who hands it on while there is a connection.
    heard: BTreeMap<u32, (String, Option<Task<()>>)>,
    /// How often the client has connected.
    connects: u64,
}

impl Pump {
    /// A client that was given up goes on trying with what it was given, and says so. So each has a runtime of its own,
    /// and ends with it.
    fn run(mut self) {
        while !self.shared.is_closed() {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => {
                    self.shared.report_now_and_then(format!("NATS cannot be spoken with: {error}"));
                    std::thread::sleep(RETRY);
                    continue;
                }
            };
            runtime.block_on(self.run_once());
        }
    }

    async fn run_once(&mut self) {
        if let Some(client) = self.connect().await {
            let shared = self.shared.clone();
            tokio::select! {
                () = self.serve(&client) => {}
                () = shared.overdue() => {}
            }
            self.shared.set_connected(false, String::new);
            self.heard
                .values_mut()
                .for_each(|(_, task)| task.take().into_iter().for_each(|task| task.abort()));
        }
        if !self.shared.is_closed() {
            let _ = timeout(RETRY, self.closing()).await;
        }
    }

    /// Waits until it is over. Packets that come meanwhile go nowhere.
    async fn closing(&mut self) {
        while !self.shared.is_closed() {
            self.from_data.drain(usize::MAX, |_| {});
            self.make_room();
            self.shared.news.notified().await;
        }
    }

    async fn connect(&mut self) -> Option<Client> {
        match self.try_connect().await {
            Ok(client) => client,
            Err(text) => {
                self.shared.counters.errors.inc();
                let advice = advice(&text);
                let servers = &self.shared.servers;
                self.shared
                    .report_now_and_then(format!("cannot connect to NATS at {servers}: {text}{advice}"));
                None
            }
        }
    }

    async fn try_connect(&mut self) -> Result<Option<Client>, String> {
        let (options, addresses) = (self.config.options(self.name)?, self.config.addresses()?);
        let shared = self.shared.clone();
        let options = options.event_callback(move |event| {
            let shared = shared.clone();
            async move { shared.on_event(&event) }
        });
        let choice = Mutex::new(Choice::new(clock::seed()));
        let options = options.reconnect_to_server_callback(move |servers, _| {
            let next = lock(&choice).next(&servers);
            // Without a delay of its own it waits longer from one attempt to the next.
            std::future::ready(next.map(|addr| ReconnectToServer { addr, delay: None }))
        });
        // An order to begin anew was about the connection before.
        let _ = self.shared.refused.notified().now_or_never();
        let connecting = options.connect(addresses);
        tokio::select! {
            result = connecting => {
                let client = result.map_err(|error| in_full(&error))?;
                self.take_payload_max(&client)?;
                self.connects = client.statistics().connects.load(Relaxed);
                Ok(Some(client))
            }
            () = self.closing() => Ok(None),
        }
    }

    /// Learns what the server takes. One that takes too little is refused.
    fn take_payload_max(&self, client: &Client) -> Result<(), String> {
        const LEAST: usize = 1_024;
        let max = client.server_info().max_payload;
        if max < LEAST {
            return Err(format!(
                "the server takes messages of {max} bytes (max_payload), the least is {LEAST}"
            ));
        }
        self.shared.payload_max.store(max, Relaxed);
        Ok(())
    }

    async fn serve(&mut self, client: &Client) {
        self.hear_again(client).await;
        loop {
            self.look(client);
            if self.take_payload_max(client).is_err() {
                return;
            }
            let mut packets = Vec::new();
            let is_closed = self.shared.is_closed();
            self.from_data.drain(TAKEN_AT_A_TIME, |packet| packets.extend(Packet::of(packet)));
            self.make_room();
            // What was asked before a packet was published is there when the packet is seen.
            let is_asked = self.take_asked(client).await;
            if packets.is_empty() && !is_asked {
                if is_closed {
                    let _ = timeout(END, client.flush()).await;
                    return;
                }
                tokio::select! {
                    () = self.shared.news.notified() => {}
                    () = self.shared.refused.notified() => return,
                    () = sleep(RETRY / 2) => {}
                }
            }
            for packet in packets {
                if !self.publish(client, packet).await && client.connection_state() != State::Connected {
                    // Nor would anybody take the others.
                    self.from_data.drain(usize::MAX, |_| {});
                    break;
                }
            }
        }
    }

    /// Says whether there is a connection, and that another one has broken even if there is one again.
    fn look(&mut self, client: &Client) {
        let connects = client.statistics().connects.load(Relaxed);
        if std::mem::replace(&mut self.connects, connects) != connects {
            self.shared.set_connected(false, String::new);
        }
        let server = || {
            let info = client.server_info();
            format!("NATS {} at {}:{}", info.version, info.host, info.port)
        };
        self.shared.set_connected(client.connection_state() == State::Connected, server);
    }

    /// Wakes the thread of the data if it waits for room.
    fn make_room(&self) {
        fence(SeqCst);
        if self.shared.wants_room.swap(false, Relaxed) {
            self.shared.nudge();
        }
    }

    /// Returns whether the client has taken a packet.
    async fn publish(&self, client: &Client, packet: Packet) -> bool {
        let publishing = async {
            match packet.reply {
                None => client.publish(packet.subject, packet.payload.into()).await,
                Some(reply) => client.publish_with_reply(packet.subject, reply, packet.payload.into()).await,
            }
        };
        let mut publishing = Box::pin(publishing);
        let result = loop {
            if let Some(result) = (&mut publishing).now_or_never() {
                break result.map_err(|error| error.to_string());
            }
            // The client's queue is full: its socket is, or there is none.
            if let Ok(result) = timeout(RETRY / 10, &mut publishing).await {
                break result.map_err(|error| error.to_string());
            }
            if self.shared.is_closed() || client.connection_state() != State::Connected {
                break Err("no server is connected".to_owned());
            }
        };
        if result.is_err() {
            self.shared.counters.packets_refused.inc();
        }
        result.is_ok()
    }

    async fn hear_again(&mut self, client: &Client) {
        for number in self.heard.keys().copied().collect::<Vec<_>>() {
            if let Some((subject, _)) = self.heard.remove(&number) {
                self.hear(client, number, subject).await;
            }
        }
    }

    async fn take_asked(&mut self, client: &Client) -> bool {
        let asked = std::mem::take(&mut *lock(&self.shared.asked));
        let is_any = !asked.is_empty();
        for one in asked {
            match one {
                Asked::Subscribe(number, subject) => self.hear(client, number, subject).await,
                Asked::Unsubscribe(number) => {
                    if let Some((_, Some(task))) = self.heard.remove(&number) {
                        task.abort();
                    }
                }
            }
        }
        is_any
    }

    async fn hear(&mut self, client: &Client, number: u32, subject: String) {
        let task = match client.subscribe(subject.clone()).await {
            Ok(subscriber) => Some(tokio::spawn(hand_on(self.shared.clone(), number, subscriber))),
            Err(error) => {
                self.shared.report(true, format!("NATS: cannot subscribe to {subject}: {error}"));
                None
            }
        };
        self.heard.insert(number, (subject, task));
    }
}

/// Hands on what one subscription brings.
async fn hand_on(shared: Arc<Shared>, number: u32, mut subscriber: Subscriber) {
    while let Some(message) = subscriber.next().await {
        let mut inbound = lock(&shared.inbound);
        shared.deliver(&mut inbound, number, &message);
        for _ in 1..HANDED_AT_A_TIME {
            let Some(Some(message)) = subscriber.next().now_or_never() else { break };
            shared.deliver(&mut inbound, number, &message);
        }
        inbound.publish();
        drop(inbound);
        shared.nudge();
    }
}

/// An error with what it comes from.
pub(super) fn in_full(error: &dyn std::error::Error) -> String {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
