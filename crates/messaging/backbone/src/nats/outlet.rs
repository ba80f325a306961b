use std::collections::{BTreeMap, HashMap};
use std::io;

use market::distributor::PeerId;
use net::{Ready, Registrar, Token};
use units::{Nanos, Rng};

use super::link::{Link, NO_ROOM, OVERFULL, Over, Times, Waiting};
use super::packet::{
    self, ASSEMBLED_BYTES_MAX, Body, HEAD_BYTES, Head, Kind, MESSAGE_BYTES_MAX, PIECE_HEAD_BYTES, Packet,
    RECORD_HEAD_BYTES, Subjects, append_record, piece_head, reason,
};
use super::socket::{ConnectionNews, Socket};
use super::{NatsConfig, NatsCounters, TICKS_IN_KEEP_ALIVE, TURN_PACKETS};
use crate::multicast::Limit;
use crate::{DIRECTORY_TOPIC, Outlet, OutletEvent, SERVICE_TOPIC_PREFIX};

/// Links at a time; those beyond are refused.
const PEERS_MAX: usize = 1_024;
/// More than this does not wait for a link if that can be helped.
const LINK_FULL_BYTES: usize = 1 << 20;

const INBOX: u32 = 0;
const QUERIES: u32 = 1;

/// A source distributor's side of the backbone over NATS.
pub struct NatsOutlet {
    socket: Socket,
    origin: u64,
    subjects: Subjects,
    times: Times,
    directory: Stream,
    streams: BTreeMap<u16, Stream>,
    /// Services whose streams have something to send.
    dirty: Vec<u16>,
    /// How many streams were opened.
    runs: u64,
    /// Links by the peer's origin.
    links: HashMap<u64, PeerLink>,
    waiting: Waiting,
    peers: BTreeMap<PeerId, u64>,
    next_peer: u32,
    tick_at: Nanos,
    /// What has happened outside of a call that hands on events.
    events: Vec<OutletEvent>,
    counters: NatsCounters,
    limit: Limit,
    is_ended: bool,
}

struct PeerLink {
    peer: PeerId,
    inbox: String,
    link: Link,
}

/// What is published on one subject.
struct Stream {
    topic: String,
    subject: String,
    origin: u64,
    run: u64,
    /// Number of the last packet.
    number: u64,
    /// Messages for the next one.
    records: Vec<u8>,
    said_at: Nanos,
    /// Somebody has asked who publishes it.
    is_asked: bool,
    is_dirty: bool,
}

impl Stream {
    fn head(&self, kind: Kind) -> [u8; HEAD_BYTES] {
        Head { kind, origin: self.origin, run: self.run, number: self.number, taken: 0 }.bytes()
    }

    #[inline]
    fn add(&mut self, now: Nanos, socket: &mut Socket, parts: [&[u8]; 2]) {
        let length = parts[0].len() + parts[1].len();
        let max = socket.packet_max();
        if HEAD_BYTES + self.records.len() + RECORD_HEAD_BYTES + length > max {
            self.flush(now, socket);
            if HEAD_BYTES + RECORD_HEAD_BYTES + length > max {
                return self.send_in_pieces(now, socket, &parts.concat());
            }
        }
        append_record(&mut self.records, parts);
    }

    /// One that is too long leaves a hole in the sequence of the messages, which tells the receivers.
    #[cold]
    fn send_in_pieces(&mut self, now: Nanos, socket: &mut Socket, message: &[u8]) {
        if message.len() > MESSAGE_BYTES_MAX {
            return;
        }
        let (mut offset, room) = (0, socket.packet_max() - HEAD_BYTES - PIECE_HEAD_BYTES);
        for piece in message.chunks(room) {
            self.number += 1;
            let mut head = self.head(Kind::Piece).to_vec();
            head.extend_from_slice(&piece_head(message.len(), offset));
            socket.publish(&self.subject, [&head, piece]);
            offset += piece.len();
        }
        self.said_at = now;
    }

    fn flush(&mut self, now: Nanos, socket: &mut Socket) {
        if !self.records.is_empty() {
            self.number += 1;
            socket.publish(&self.subject, [&self.head(Kind::Messages), &self.records]);
            self.records.clear();
            (self.said_at, self.is_asked) = (now, false);
        }
        if self.is_asked {
            self.keep_alive(now, socket);
        }
    }

    fn keep_alive(&mut self, now: Nanos, socket: &mut Socket) {
        socket.publish(&self.subject, [&self.head(Kind::KeepAlive), b""]);
        (self.said_at, self.is_asked) = (now, false);
    }

    fn end(&mut self, now: Nanos, socket: &mut Socket) {
        self.flush(now, socket);
        socket.publish(&self.subject, [&self.head(Kind::End), b""]);
    }
}

impl NatsOutlet {
    /// Begins to publish the directory; the connection is made meanwhile. The thread's poller is woken under `token`; a
    /// thread that never sleeps `spins`.
    ///
    /// # Errors
    /// A file of `config` cannot be read or used; the error names it. Or the process is out of descriptors.
    pub fn new(
        config: &NatsConfig,
        (registrar, token): (&Registrar, Token),
        spins: bool,
        seed: u64,
        counters: NatsCounters,
    ) -> io::Result<NatsOutlet> {
        let socket =
            Socket::new(config, "tickcast source-distributor", (registrar, token), spins, counters.clone())?;
        let (origin, subjects) = (Rng::new(seed).next_u64(), Subjects::new(&config.prefix));
        socket.subscribe(INBOX, subjects.inbox(origin));
        socket.subscribe(QUERIES, subjects.query());
        let mut outlet = NatsOutlet {
            socket,
            origin,
            times: config.times(),
            directory: Stream::new(DIRECTORY_TOPIC.to_owned(), subjects.directory(), origin, 0),
            subjects,
            streams: BTreeMap::new(),
            dirty: Vec::new(),
            runs: 0,
            links: HashMap::new(),
            waiting: Waiting::new(config.links_waiting_bytes),
            peers: BTreeMap::new(),
            next_peer: 0,
            tick_at: Nanos::ZERO,
            events: Vec::new(),
            counters,
            limit: Limit::default(),
            is_ended: false,
        };
        outlet.directory.is_asked = true;
        Ok(outlet)
    }

    fn poll(&mut self, now: Nanos) {
        self.look_at_connection();
        // The ring is the socket's, and what comes of it concerns all the rest.
        let mut came = Vec::new();
        self.socket.drain(TURN_PACKETS, |number, bytes| came.push((number, bytes.to_vec())));
        for (number, bytes) in came {
            self.receive(now, number, &bytes);
        }
        if now >= self.tick_at {
            self.tick(now);
        }
        for notice in self.socket.take_notices() {
            self.events.extend(self.limit.admit(now, notice).map(OutletEvent::Notice));
        }
    }

    /// A connection that was broken has lost who knows what: links begin anew.
    fn look_at_connection(&mut self) {
        let Some(news) = self.socket.connection_news() else { return };
        // What there is is said as soon as there is a server.
        for stream in self.streams.values_mut().chain([&mut self.directory]) {
            stream.said_at = Nanos::ZERO;
        }
        self.tick_at = Nanos::ZERO;
        if news == ConnectionNews::Other {
            return;
        }
        for origin in self.links.keys().copied().collect::<Vec<_>>() {
            self.close(origin, "the connection to NATS is broken");
        }
    }

    fn receive(&mut self, now: Nanos, subscription: u32, bytes: &[u8]) {
        let Some(packet) = packet::read(bytes) else { return self.counters.carrier.packets_malformed.inc() };
        match (subscription, packet.body) {
            (QUERIES, Body::Query(topic)) => self.on_query(topic),
            (INBOX, Body::Open) => self.on_open(now, packet.head),
            (INBOX, _) => self.on_link_packet(now, &packet, bytes.len()),
            _ => self.counters.carrier.packets_malformed.inc(),
        }
    }

    fn on_query(&mut self, topic: &str) {
        if self.directory.topic == topic {
            self.directory.is_asked = true;
        }
        if let Some((service, stream)) = self.streams.iter_mut().find(|(_, stream)| stream.topic == topic) {
            stream.is_asked = true;
            if !std::mem::replace(&mut stream.is_dirty, true) {
                self.dirty.push(*service);
            }
        }
    }

    fn on_open(&mut self, now: Nanos, head: Head) {
        let (inbox, open) = (self.subjects.inbox(head.origin), self.links.get(&head.origin));
        match open {
            Some(open) if open.link.run() == head.run => return,
            Some(_) => self.close(head.origin, "the peer has opened another link"),
            None => {}
        }
        if self.links.len() >= PEERS_MAX {
            self.counters.carrier.links_refused.inc();
            return self.say_over((head.origin, head.run), "the source distributor has too many links");
        }
        let link = Link::new(now, self.origin, head.run);
        self.socket.publish(&inbox, [&link.head(Kind::Accept), b""]);
        self.next_peer += 1;
        let peer = PeerId(self.next_peer);
        self.peers.insert(peer, head.origin);
        self.links.insert(head.origin, PeerLink { peer, inbox, link });
        self.counters.carrier.links_opened.inc();
        self.events.push(OutletEvent::Connected(peer));
    }

    fn on_link_packet(&mut self, now: Nanos, packet: &Packet<'_>, bytes: usize) {
        let head = packet.head;
        let is_end = head.kind == Kind::End;
        let Some(open) = self.links.get_mut(&head.origin).filter(|open| open.link.run() == head.run) else {
            // The other end has not noticed that it is over. An end is not answered, or ends would go back and forth.
            if !is_end {
                self.say_over((head.origin, head.run), "there is no such link");
            }
            return;
        };
        let (peer, events) = (open.peer, &mut self.events);
        let message = |bytes: &[u8]| events.push(OutletEvent::Message(peer, bytes.to_vec()));
        let mut result = open.link.receive(now, packet, bytes, message);
        if head.kind == Kind::Piece
            && self.links.values().map(|open| open.link.assembled()).sum::<usize>() > ASSEMBLED_BYTES_MAX
        {
            result = Err(Over(NO_ROOM.to_owned()));
        }
        if let Err(Over(reason)) = result {
            if !is_end {
                self.say_over((head.origin, head.run), &reason);
            }
            self.close(head.origin, &reason);
        }
    }

    /// Tells the other end of a link that it is over.
    fn say_over(&mut self, (to, run): (u64, u64), text: &str) {
        let head = Head { kind: Kind::End, origin: self.origin, run, number: 0, taken: 0 }.bytes();
        self.socket.publish(&self.subjects.inbox(to), [&head, reason(text).as_bytes()]);
    }

    /// Others are not to suffer from a peer that takes nothing.
    #[cold]
    fn end_overfull(&mut self, origin: u64) {
        let Some(run) = self.links.get(&origin).map(|open| open.link.run()) else { return };
        self.counters.carrier.links_overfull.inc();
        self.say_over((origin, run), OVERFULL);
        self.close(origin, OVERFULL);
    }

    fn close(&mut self, origin: u64, reason: &str) {
        if let Some(open) = self.links.remove(&origin) {
            self.counters.carrier.links_closed.inc();
            self.peers.remove(&open.peer);
            self.events.push(OutletEvent::Closed(open.peer, reason.to_owned()));
        }
    }

    fn tick(&mut self, now: Nanos) {
        self.tick_at = now + self.times.keep_alive / TICKS_IN_KEEP_ALIVE;
        let NatsOutlet { directory, streams, socket, times, .. } = self;
        for stream in std::iter::once(directory).chain(streams.values_mut()) {
            if now >= stream.said_at + times.keep_alive {
                stream.flush(now, socket);
                stream.keep_alive(now, socket);
            }
        }
        let silent = self.links.iter().filter_map(|(origin, open)| {
            Some((*origin, open.link.run(), open.link.check(now, self.times).err()?))
        });
        for (origin, run, Over(reason)) in silent.collect::<Vec<_>>() {
            self.say_over((origin, run), &reason);
            self.close(origin, &reason);
        }
    }

    /// Sends what links have, as far as their windows and the ring go.
    fn send_links(&mut self, now: Nanos) {
        let NatsOutlet { links, socket, times, .. } = self;
        for open in links.values_mut() {
            while !socket.is_blocked()
                && let Some(packet) = open.link.next_packet(now, socket.packet_max())
            {
                socket.publish(&open.inbox, [packet, b""]);
            }
            if let Some(head) = open.link.next_keep_alive(now, *times) {
                socket.publish(&open.inbox, [&head, b""]);
            }
        }
    }
}

impl Stream {
    fn new(topic: String, subject: String, origin: u64, run: u64) -> Stream {
        Stream {
            topic,
            subject,
            origin,
            run,
            number: 0,
            records: Vec::new(),
            said_at: Nanos::ZERO,
            is_asked: false,
            is_dirty: false,
        }
    }
}

impl Outlet for NatsOutlet {
    fn open_stream(&mut self, now: Nanos, service: u16, name: &str) -> io::Result<()> {
        self.runs += 1;
        let (topic, subject) = (format!("{SERVICE_TOPIC_PREFIX}{name}"), self.subjects.service(name));
        let mut stream = Stream::new(topic, subject, self.origin, self.runs);
        // Who waits for it hears of it at once.
        stream.keep_alive(now, &mut self.socket);
        self.streams.insert(service, stream);
        Ok(())
    }

    fn close_stream(&mut self, service: u16) {
        if let Some(mut stream) = self.streams.remove(&service) {
            stream.end(stream.said_at, &mut self.socket);
        }
    }

    #[inline]
    fn publish(&mut self, now: Nanos, service: u16, header: &[u8], body: &[u8]) {
        if let Some(stream) = self.streams.get_mut(&service) {
            stream.add(now, &mut self.socket, [header, body]);
            if !std::mem::replace(&mut stream.is_dirty, true) {
                self.dirty.push(service);
            }
        }
    }

    fn publish_directory(&mut self, now: Nanos, header: &[u8], body: &[u8]) {
        self.directory.add(now, &mut self.socket, [header, body]);
    }

    fn to_peer(&mut self, peer: PeerId, bytes: &[u8]) {
        let Some(&origin) = self.peers.get(&peer) else { return };
        let Some(open) = self.links.get_mut(&origin) else { return };
        if let Err(Over(reason)) = open.link.send(bytes) {
            let run = open.link.run();
            self.say_over((origin, run), &reason);
            return self.close(origin, &reason);
        }
        let links = self.links.iter().map(|(origin, open)| (*origin, &open.link));
        if let Some(fullest) = self.waiting.add(bytes.len(), links) {
            self.end_overfull(fullest);
        }
    }

    fn is_full(&self, peer: PeerId) -> bool {
        let open = self.peers.get(&peer).and_then(|origin| self.links.get(origin));
        open.is_some_and(|open| open.link.unsent() > LINK_FULL_BYTES)
    }

    fn close_peer(&mut self, peer: PeerId) {
        if let Some(origin) = self.peers.remove(&peer)
            && let Some(open) = self.links.remove(&origin)
        {
            self.counters.carrier.links_closed.inc();
            self.say_over((origin, open.link.run()), "the source distributor has closed the link");
        }
    }

    fn is_blocked(&self) -> bool {
        self.socket.is_blocked()
    }

    fn on_ready(&mut self, now: Nanos, _: Ready, events: &mut Vec<OutletEvent>) {
        self.socket.acknowledge();
        self.on_wakeup(now, events);
    }

    fn on_wakeup(&mut self, now: Nanos, events: &mut Vec<OutletEvent>) {
        self.poll(now);
        self.socket.idle();
        self.poll(now);
        events.append(&mut self.events);
    }

    /// At once if the ring has something. The thread of NATS wakes this one when there is room again.
    fn next_wakeup(&self) -> Nanos {
        if self.socket.has_work() || !self.events.is_empty() { Nanos::ZERO } else { self.tick_at }
    }

    fn flush(&mut self, now: Nanos) {
        self.directory.flush(now, &mut self.socket);
        for service in std::mem::take(&mut self.dirty) {
            if let Some(stream) = self.streams.get_mut(&service) {
                stream.is_dirty = false;
                stream.flush(now, &mut self.socket);
            }
        }
        self.send_links(now);
        self.socket.flush();
    }

    fn end(&mut self, now: Nanos) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        self.flush(now);
        for origin in self.links.keys().copied().collect::<Vec<_>>() {
            if let Some(open) = self.links.remove(&origin) {
                self.say_over((origin, open.link.run()), "the source distributor ends");
            }
        }
        let NatsOutlet { directory, streams, socket, .. } = self;
        streams.values_mut().chain([directory]).for_each(|stream| stream.end(now, socket));
        self.socket.end();
    }
}
