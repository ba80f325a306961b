use std::collections::{BTreeMap, HashMap};
use std::io;

use market::p2ps::{SourceId, Topic};
use net::{Ready, Registrar, Token};
use units::{Nanos, Rng};

use super::link::{Link, NO_ROOM, OVERFULL, Over, Times, Waiting};
use super::packet::{self, ASSEMBLED_BYTES_MAX, Body, Head, Kind, Packet, Subjects, reason};
use super::socket::{ANSWERS, ConnectionNews, Socket};
use super::sources::{Found, Outcome, Sources};
use super::{NatsConfig, NatsCounters, TICKS_IN_KEEP_ALIVE, TURN_PACKETS};
use crate::multicast::Limit;
use crate::{DIRECTORY_TOPIC, Inlet, InletCommand, InletEvents, SERVICE_TOPIC_PREFIX};

const INBOX: u32 = 0;
const DIRECTORY: u32 = 1;

/// A point-to-point server's side of the backbone over NATS.
pub struct NatsInlet {
    socket: Socket,
    state: State,
    tick_at: Nanos,
    limit: Limit,
}

/// What packets change, while the socket hands them out.
struct State {
    origin: u64,
    subjects: Subjects,
    times: Times,
    /// Services by the number of their subscription, and the other way round.
    services: HashMap<u32, String>,
    subscriptions: BTreeMap<String, u32>,
    next_subscription: u32,
    sources: Sources,
    /// Links by the instance they lead to.
    links: BTreeMap<u64, InstanceLink>,
    waiting: Waiting,
    next_run: u64,
    /// Where packets are fetched that are missing.
    stored: Option<String>,
    /// When it is asked again who publishes what is not heard.
    query_at: Nanos,
    /// Ends of links that are still to be said: to whom, of which link, why.
    over: Vec<(u64, u64, String)>,
    counters: NatsCounters,
}

struct InstanceLink {
    /// The other end's.
    origin: u64,
    inbox: String,
    link: Link,
    is_up: bool,
}

impl NatsInlet {
    /// Begins to listen for the directories of all instances; the connection is made meanwhile. The thread's poller is
    /// woken under `token`; a thread that never sleeps `spins`.
    ///
    /// # Errors
    /// A file of `config` cannot be read or used; the error names it. Or the process is out of descriptors.
    pub fn new(
        config: &NatsConfig,
        (registrar, token): (&Registrar, Token),
        spins: bool,
        seed: u64,
        counters: NatsCounters,
    ) -> io::Result<NatsInlet> {
        let socket = Socket::new(config, "tickcast p2ps", (registrar, token), spins, counters.clone())?;
        let mut rng = Rng::new(seed);
        let (origin, subjects) = (rng.next_u64(), Subjects::new(&config.prefix));
        socket.subscribe(INBOX, subjects.inbox(origin));
        socket.subscribe(DIRECTORY, subjects.directory());
        let mut sources = Sources::recovering(config.jetstream.recovery());
        if let Some(recovery) = sources.recovery() {
            socket.subscribe(ANSWERS, subjects.answers(origin));
            recovery.name(DIRECTORY, subjects.directory());
        }
        let state = State {
            origin,
            subjects,
            times: config.times(),
            services: HashMap::new(),
            subscriptions: BTreeMap::new(),
            next_subscription: DIRECTORY + 1,
            sources,
            links: BTreeMap::new(),
            waiting: Waiting::new(config.links_waiting_bytes),
            next_run: 1,
            stored: config.jetstream.stream.as_ref().map(|stream| format!("$JS.API.DIRECT.GET.{stream}")),
            query_at: Nanos::ZERO,
            over: Vec::new(),
            counters,
        };
        Ok(NatsInlet { socket, state, tick_at: Nanos::ZERO, limit: Limit::default() })
    }

    fn poll(&mut self, now: Nanos, events: &mut impl InletEvents) {
        self.look_at_connection(now, events);
        let NatsInlet { socket, state, .. } = self;
        socket.drain(TURN_PACKETS, |number, bytes| state.receive(now, number, bytes, events));
        state.recover(now, socket, events);
        if now >= self.tick_at {
            self.tick(now, events);
        }
        for notice in self.socket.take_notices() {
            if let Some(notice) = self.limit.admit(now, notice) {
                events.on_notice(&notice);
            }
        }
    }

    /// A connection that was broken has lost who knows what: links begin anew.
    fn look_at_connection(&mut self, now: Nanos, events: &mut impl InletEvents) {
        let Some(news) = self.socket.connection_news() else { return };
        // Who publishes what is asked as soon as there is a server.
        (self.tick_at, self.state.query_at) = (Nanos::ZERO, Nanos::ZERO);
        if news == ConnectionNews::Other {
            return;
        }
        if let Some(recovery) = self.state.sources.recovery() {
            recovery.on_broken();
        }
        for instance in self.state.links.keys().copied().collect::<Vec<_>>() {
            self.state.close(now, instance, events);
        }
    }

    fn tick(&mut self, now: Nanos, events: &mut impl InletEvents) {
        let NatsInlet { socket, state, tick_at, .. } = self;
        *tick_at = now + state.times.keep_alive / TICKS_IN_KEEP_ALIVE;
        let lost = state.sources.expire(now, state.times.timeout, |found| hand_on(now, found, events));
        state.counters.carrier.packets_lost.add(lost);
        state.counters.carrier.sources.set(state.sources.len() as u64);
        let silent = state
            .links
            .iter()
            .filter_map(|(instance, open)| Some((*instance, open.link.check(now, state.times).err()?)));
        for (instance, Over(reason)) in silent.collect::<Vec<_>>() {
            state.end(now, instance, reason, events);
        }
        // Who has no stream of a service yet asks again: the question may have been lost, or nobody was connected.
        if now >= state.query_at {
            state.query_at = now + state.times.keep_alive;
            state.unheard().iter().for_each(|topic| state.query(socket, topic));
        }
    }
}

/// Hands on what a stream brings that is known.
fn hand_on(now: Nanos, found: Found<'_>, events: &mut impl InletEvents) {
    match found {
        Found::Message(source, bytes) => events.on_stream_message(now, source, bytes),
        Found::Ended(source) => events.on_source_ended(now, source),
        // It comes with a packet only, which names the topic.
        Found::New(_) => {}
    }
}

impl State {
    #[inline]
    fn receive(&mut self, now: Nanos, subscription: u32, bytes: &[u8], events: &mut impl InletEvents) {
        if subscription == ANSWERS {
            let lost = self.sources.on_answer(now, bytes, |found| hand_on(now, found, events));
            return self.counters.carrier.packets_lost.add(lost);
        }
        let Some(packet) = packet::read(bytes) else { return self.counters.carrier.packets_malformed.inc() };
        match subscription {
            INBOX => self.on_link_packet(now, &packet, bytes.len(), events),
            _ => self.on_stream_packet(now, subscription, (&packet, bytes), events),
        }
    }

    /// Ends the wait for packets that have not come in time, and asks for others.
    fn recover(&mut self, now: Nanos, socket: &mut Socket, events: &mut impl InletEvents) {
        let lost = self.sources.poll(now, |found| hand_on(now, found, events));
        let counters = &self.counters.carrier;
        counters.packets_lost.add(lost);
        let (Some(recovery), Some(stored)) = (self.sources.recovery(), &self.stored) else { return };
        for request in recovery.take_requests(now) {
            let reply = self.subjects.answer(self.origin, request.token);
            socket.request(stored, &reply, request.body.as_bytes());
        }
        let tally = recovery.take_tally();
        counters.jetstream_holes.add(tally.holes);
        counters.jetstream_holes_given_up.add(tally.given_up);
        counters.jetstream_holes_too_large.add(tally.too_large);
        counters.jetstream_packets_recovered.add(tally.recovered);
        counters.jetstream_requests.add(tally.requests);
        counters.jetstream_requests_unanswered.add(tally.unanswered);
        counters.jetstream_requests_refused.add(tally.refused);
        counters.jetstream_held_bytes.set(recovery.held_bytes() as u64);
        recovery.take_notices().into_iter().for_each(|text| socket.report_now_and_then(text));
    }

    #[inline]
    fn on_stream_packet(
        &mut self,
        now: Nanos,
        subscription: u32,
        (packet, bytes): (&Packet<'_>, &[u8]),
        events: &mut impl InletEvents,
    ) {
        let topic = match self.services.get(&subscription) {
            Some(name) => Topic::Service(name),
            None if subscription == DIRECTORY => Topic::Directory,
            // It was under way when the service was left.
            None => return,
        };
        if matches!(packet.body, Body::Query(_) | Body::Open | Body::Accept) {
            return self.counters.carrier.packets_malformed.inc();
        }
        let session = packet.head.origin;
        let Outcome { lost, is_late, is_refused } =
            self.sources.receive(now, subscription, (packet, bytes), |found| match found {
                Found::New(source) => events.on_source(now, source, topic, session),
                known => hand_on(now, known, events),
            });
        let counters = &self.counters.carrier;
        counters.packets_lost.add(lost);
        counters.packets_late.add(is_late.into());
        counters.sources_refused.add(is_refused.into());
    }

    fn on_link_packet(
        &mut self,
        now: Nanos,
        packet: &Packet<'_>,
        bytes: usize,
        events: &mut impl InletEvents,
    ) {
        let head = packet.head;
        let is_of = |open: &InstanceLink| open.origin == head.origin && open.link.run() == head.run;
        let Some((&instance, open)) = self.links.iter_mut().find(|(_, open)| is_of(open)) else {
            if head.kind != Kind::End {
                self.over.push((head.origin, head.run, "there is no such link".to_owned()));
            }
            return;
        };
        if !open.is_up && head.kind == Kind::Accept {
            open.is_up = true;
            self.counters.carrier.links_opened.inc();
            events.on_link_up(now, instance);
        }
        let deliver = |bytes: &[u8]| events.on_link_message(now, instance, bytes);
        let mut result = open.link.receive(now, packet, bytes, deliver);
        if head.kind == Kind::Piece
            && self.links.values().map(|open| open.link.assembled()).sum::<usize>() > ASSEMBLED_BYTES_MAX
        {
            result = Err(Over(NO_ROOM.to_owned()));
        }
        if let Err(Over(reason)) = result {
            if head.kind == Kind::End {
                self.close(now, instance, events);
            } else {
                self.end(now, instance, reason, events);
            }
        }
    }

    /// A link is over, and the other end is told.
    fn end(&mut self, now: Nanos, instance: u64, reason: String, events: &mut impl InletEvents) {
        if let Some(open) = self.links.get(&instance) {
            self.over.push((open.origin, open.link.run(), reason));
        }
        self.close(now, instance, events);
    }

    fn close(&mut self, now: Nanos, instance: u64, events: &mut impl InletEvents) {
        if let Some(open) = self.links.remove(&instance) {
            self.counters.carrier.links_closed.add(open.is_up.into());
            events.on_link_down(now, instance);
        }
    }

    /// Topics that are subscribed to and have no source.
    fn unheard(&self) -> Vec<String> {
        let heard = self.sources.heard();
        let directory = (!heard.contains(&DIRECTORY)).then(|| DIRECTORY_TOPIC.to_owned());
        let services = self.services.iter().filter(|(number, _)| !heard.contains(number));
        directory
            .into_iter()
            .chain(services.map(|(_, name)| format!("{SERVICE_TOPIC_PREFIX}{name}")))
            .collect()
    }

    fn query(&self, socket: &mut Socket, topic: &str) {
        let head = Head { kind: Kind::Query, origin: self.origin, run: 0, number: 0, taken: 0 }.bytes();
        socket.publish(&self.subjects.query(), [&head, topic.as_bytes()]);
    }

    fn subscribe(&mut self, socket: &mut Socket, service: String) {
        if self.subscriptions.contains_key(&service) {
            return;
        }
        let number = self.next_subscription;
        self.next_subscription += 1;
        socket.subscribe(number, self.subjects.service(&service));
        if let Some(recovery) = self.sources.recovery() {
            recovery.name(number, self.subjects.service(&service));
        }
        self.query(socket, &format!("{SERVICE_TOPIC_PREFIX}{service}"));
        self.services.insert(number, service.clone());
        self.subscriptions.insert(service, number);
    }

    fn connect(&mut self, now: Nanos, socket: &mut Socket, instance: u64, directory: SourceId) -> bool {
        let Some(origin) = self.sources.origin_of(directory).filter(|_| socket.is_connected()) else {
            return false;
        };
        let (run, inbox) = (self.next_run, self.subjects.inbox(origin));
        self.next_run += 1;
        let link = Link::new(now, self.origin, run);
        socket.publish(&inbox, [&link.head(Kind::Open), b""]);
        if let Some(before) = self.links.insert(instance, InstanceLink { origin, inbox, link, is_up: false })
        {
            self.over.push((before.origin, before.link.run(), "another link is opened".to_owned()));
        }
        true
    }
}

impl Inlet for NatsInlet {
    fn execute(&mut self, now: Nanos, command: InletCommand, events: &mut impl InletEvents) {
        let NatsInlet { socket, state, .. } = self;
        match command {
            InletCommand::Subscribe(service) => state.subscribe(socket, service),
            InletCommand::Unsubscribe(service) => {
                if let Some(number) = state.subscriptions.remove(&service) {
                    state.services.remove(&number);
                    state.sources.forget(number);
                    socket.unsubscribe(number);
                }
            }
            InletCommand::Connect { instance, directory } => {
                if !state.connect(now, socket, instance, directory) {
                    events.on_link_down(now, instance);
                }
            }
            InletCommand::Disconnect(instance) => {
                if let Some(open) = state.links.remove(&instance) {
                    state.counters.carrier.links_closed.add(open.is_up.into());
                    state.over.push((open.origin, open.link.run(), "the peer has ended the link".to_owned()));
                }
            }
            InletCommand::Send { instance, bytes } => {
                let sent = state.links.get_mut(&instance).map(|open| open.link.send(&bytes));
                if let Some(Err(Over(reason))) = sent {
                    return state.end(now, instance, reason, events);
                }
                let links = state.links.iter().map(|(instance, open)| (*instance, &open.link));
                if let Some(fullest) = state.waiting.add(bytes.len(), links) {
                    state.counters.carrier.links_overfull.inc();
                    state.end(now, fullest, OVERFULL.to_owned(), events);
                }
            }
        }
    }

    fn on_ready(&mut self, now: Nanos, _: Ready, events: &mut impl InletEvents) -> bool {
        self.socket.acknowledge();
        self.on_wakeup(now, events);
        self.socket.has_work()
    }

    fn on_wakeup(&mut self, now: Nanos, events: &mut impl InletEvents) {
        self.poll(now, events);
        self.socket.idle();
    }

    /// At once if the ring has something.
    fn next_wakeup(&self) -> Nanos {
        let due = self.state.sources.due();
        if self.socket.has_work() { Nanos::ZERO } else { self.tick_at.min(due) }
    }

    fn flush(&mut self, now: Nanos) {
        let NatsInlet { socket, state, .. } = self;
        for (origin, run, text) in std::mem::take(&mut state.over) {
            let head = Head { kind: Kind::End, origin: state.origin, run, number: 0, taken: 0 }.bytes();
            socket.publish(&state.subjects.inbox(origin), [&head, reason(&text).as_bytes()]);
        }
        for open in state.links.values_mut().filter(|open| open.is_up) {
            while !socket.is_blocked()
                && let Some(packet) = open.link.next_packet(now, socket.packet_max())
            {
                socket.publish(&open.inbox, [packet, b""]);
            }
            if let Some(head) = open.link.next_keep_alive(now, state.times) {
                socket.publish(&open.inbox, [&head, b""]);
            }
        }
        socket.flush();
    }
}

impl Drop for NatsInlet {
    fn drop(&mut self) {
        for (_, open) in std::mem::take(&mut self.state.links) {
            self.state.over.push((open.origin, open.link.run(), "the peer has ended".to_owned()));
        }
        self.flush(Nanos::ZERO);
    }
}
