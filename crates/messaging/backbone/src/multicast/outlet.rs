use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;

use market::distributor::PeerId;
use messaging::{
    ConnectionId, Context, ContextCounters, Handler, Message, MessagingConfig, SecurityEvent, SendError,
    Source, SourceOptions,
};
use net::{Ready, Registrar};
use units::Nanos;

use super::notices::{Limit, LostFiles, Unsigned, notice};
use super::to_io;
use crate::{DIRECTORY_TOPIC, Notice, Outlet, OutletEvent, SERVICE_TOPIC_PREFIX};

/// A source distributor's side of the multicast backbone.
pub struct MulticastOutlet {
    context: Context,
    directory: Source,
    streams: BTreeMap<u16, Source>,
    /// Messages that the transport had no room for, oldest first.
    waiting: VecDeque<(Source, Vec<u8>)>,
    peers: BTreeMap<PeerId, ConnectionId>,
    next_peer: u32,
    inbox: Inbox,
    unsigned: Unsigned,
    lost_files: LostFiles,
    limit: Limit,
}

/// More than this does not wait for a link if that can be helped: about what its socket takes in some turns.
const LINK_FULL_BYTES: usize = 1 << 20;

impl MulticastOutlet {
    /// Opens the request port and begins to publish the directory. See [`Context::new`].
    ///
    /// # Errors
    /// A socket cannot be opened or an option is out of range; the error names it.
    pub fn new(
        config: &MessagingConfig,
        registrar: &Registrar,
        token_space: u32,
        seed: u64,
        now: Nanos,
        counters: ContextCounters,
    ) -> io::Result<MulticastOutlet> {
        let (unsigned, lost_files) = (Unsigned::new(counters.clone()), LostFiles::new(counters.clone()));
        let mut context = Context::new(config, registrar, token_space, seed, now, counters).map_err(to_io)?;
        context.listen().map_err(to_io)?;
        let directory = context.create_source(DIRECTORY_TOPIC, &SourceOptions::default()).map_err(to_io)?;
        Ok(MulticastOutlet {
            context,
            directory,
            streams: BTreeMap::new(),
            waiting: VecDeque::new(),
            peers: BTreeMap::new(),
            next_peer: 0,
            inbox: Inbox::default(),
            unsigned,
            lost_files,
            limit: Limit::default(),
        })
    }

    #[inline]
    fn send(&mut self, now: Nanos, topic: Source, header: &[u8], body: &[u8]) {
        if self.waiting.is_empty() {
            self.context.advance(now);
            match self.context.send(topic, &[header, body]) {
                // Too long for the transport: the hole in the sequence tells the receivers.
                Ok(_) | Err(SendError::TooLong { .. } | SendError::UnknownTopic | SendError::Ended) => {
                    return;
                }
                Err(_) => {}
            }
        }
        self.waiting.push_back((topic, [header, body].concat()));
    }

    fn send_waiting(&mut self, now: Nanos) {
        self.context.advance(now);
        while let Some((topic, bytes)) = self.waiting.front() {
            if self.context.send(*topic, &[bytes]) == Err(SendError::WouldBlock) {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// Turns what came over links into events of peers.
    fn hand_on(&mut self, now: Nanos, events: &mut Vec<OutletEvent>) {
        for event in std::mem::take(&mut self.inbox.0) {
            match event {
                Event::Accepted(connection) => {
                    self.next_peer += 1;
                    let peer = PeerId(self.next_peer);
                    self.peers.insert(peer, connection);
                    events.push(OutletEvent::Connected(peer));
                }
                Event::Message(connection, bytes) => {
                    events.extend(self.peer_of(connection).map(|peer| OutletEvent::Message(peer, bytes)));
                }
                Event::Closed(connection, reason) => {
                    if let Some(peer) = self.peer_of(connection) {
                        self.peers.remove(&peer);
                        events.push(OutletEvent::Closed(peer, reason));
                    }
                }
                Event::Notice(notice) => {
                    events.extend(self.limit.admit(now, notice).map(OutletEvent::Notice));
                }
            }
        }
    }

    fn peer_of(&self, connection: ConnectionId) -> Option<PeerId> {
        self.peers.iter().find(|(_, c)| **c == connection).map(|(peer, _)| *peer)
    }
}

impl Outlet for MulticastOutlet {
    fn open_stream(&mut self, now: Nanos, service: u16, name: &str) -> io::Result<()> {
        let topic = format!("{SERVICE_TOPIC_PREFIX}{name}");
        self.context.advance(now);
        let source = self.context.create_source(&topic, &SourceOptions::default()).map_err(to_io)?;
        self.streams.insert(service, source);
        Ok(())
    }

    fn close_stream(&mut self, service: u16) {
        if let Some(topic) = self.streams.remove(&service) {
            self.context.delete_source(topic);
        }
    }

    #[inline]
    fn publish(&mut self, now: Nanos, service: u16, header: &[u8], body: &[u8]) {
        if let Some(&topic) = self.streams.get(&service) {
            self.send(now, topic, header, body);
        }
    }

    fn publish_directory(&mut self, now: Nanos, header: &[u8], body: &[u8]) {
        self.send(now, self.directory, header, body);
    }

    fn to_peer(&mut self, peer: PeerId, bytes: &[u8]) {
        if let Some(&connection) = self.peers.get(&peer) {
            self.context.send_direct(connection, bytes);
        }
    }

    fn is_full(&self, peer: PeerId) -> bool {
        let connection = self.peers.get(&peer);
        connection.is_some_and(|connection| self.context.unsent(*connection) > LINK_FULL_BYTES)
    }

    fn close_peer(&mut self, peer: PeerId) {
        if let Some(connection) = self.peers.remove(&peer) {
            self.context.disconnect(connection);
        }
    }

    fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn on_ready(&mut self, now: Nanos, ready: Ready, events: &mut Vec<OutletEvent>) {
        self.context.on_ready(now, ready, &mut self.inbox);
        self.hand_on(now, events);
    }

    fn on_wakeup(&mut self, now: Nanos, events: &mut Vec<OutletEvent>) {
        self.context.on_wakeup(now, &mut self.inbox);
        self.send_waiting(now);
        self.hand_on(now, events);
        events.extend(self.unsigned.look(now).map(OutletEvent::Notice));
        events.extend(self.lost_files.look().map(OutletEvent::Notice));
    }

    fn next_wakeup(&self) -> Nanos {
        self.context.next_wakeup()
    }

    fn flush(&mut self, now: Nanos) {
        self.send_waiting(now);
        self.context.flush();
    }

    fn end(&mut self, now: Nanos) {
        self.context.advance(now);
        self.context.end();
    }
}

/// What came over links while the context was at work. Requests are few; streams do not come here.
#[derive(Default)]
struct Inbox(Vec<Event>);

enum Event {
    Accepted(ConnectionId),
    Message(ConnectionId, Vec<u8>),
    Closed(ConnectionId, String),
    Notice(Notice),
}

impl Handler for Inbox {
    fn on_message(&mut self, _: &Message<'_>) {}
    fn on_accepted(&mut self, connection: ConnectionId, _: SocketAddr) {
        self.0.push(Event::Accepted(connection));
    }
    fn on_direct(&mut self, connection: ConnectionId, payload: &[u8]) {
        self.0.push(Event::Message(connection, payload.to_vec()));
    }
    fn on_closed(&mut self, connection: ConnectionId, reason: &str) {
        self.0.push(Event::Closed(connection, reason.to_owned()));
    }
    fn on_security(&mut self, event: SecurityEvent, text: &str) {
        self.0.push(Event::Notice(notice(event, text)));
    }
}
