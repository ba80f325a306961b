use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddrV4;

use market::p2ps::{SourceId, Topic};
use messaging::{
    ConnectionId, Context, ContextCounters, End, Handler, Message, MessagingConfig, Receiver,
    ReceiverOptions, SecurityEvent, SourceInfo, StreamId,
};
use net::{Ready, Registrar};
use units::Nanos;

use super::notices::{Limit, Unsigned, notice, unanswered};
use super::to_io;
use crate::{DIRECTORY_TOPIC, Inlet, InletCommand, InletEvents, Notice, SERVICE_TOPIC_PREFIX};

/// A point-to-point server's side of the multicast backbone.
pub struct MulticastInlet {
    context: Context,
    state: State,
    unsigned: Unsigned,
}

/// What the inlet knows besides its context, which is at work while events come.
#[derive(Default)]
struct State {
    /// The service of each receiver; the directory's has none.
    topics: HashMap<Receiver, Option<String>>,
    /// Where the instance behind a directory takes links.
    requests: HashMap<SourceId, SocketAddrV4>,
    links: BTreeMap<u64, Link>,
    /// Links are encrypted.
    is_secured: bool,
    limit: Limit,
}

struct Link {
    connection: ConnectionId,
    is_up: bool,
    /// The instance has said something.
    is_answered: bool,
}

impl MulticastInlet {
    /// Begins to listen for the directories of all instances. See [`Context::new`].
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
    ) -> io::Result<MulticastInlet> {
        let unsigned = Unsigned::new(counters.clone());
        let mut context = Context::new(config, registrar, token_space, seed, now, counters).map_err(to_io)?;
        let mut state = State { is_secured: config.request_tcp_tls, ..State::default() };
        let receiver =
            context.create_receiver(DIRECTORY_TOPIC, &ReceiverOptions::default()).map_err(to_io)?;
        state.topics.insert(receiver, None);
        Ok(MulticastInlet { context, state, unsigned })
    }

    fn subscribe(&mut self, service: String) {
        let topic = format!("{SERVICE_TOPIC_PREFIX}{service}");
        // A name that cannot be sent is not one that an instance could have published.
        if let Ok(receiver) = self.context.create_receiver(&topic, &ReceiverOptions::default()) {
            self.state.topics.insert(receiver, Some(service));
        }
    }
}

impl Inlet for MulticastInlet {
    fn execute(&mut self, now: Nanos, command: InletCommand, events: &mut impl InletEvents) {
        self.context.advance(now);
        match command {
            InletCommand::Subscribe(service) => self.subscribe(service),
            InletCommand::Unsubscribe(service) => {
                let topics = &mut self.state.topics;
                let found = topics.iter().find(|(_, t)| t.as_ref() == Some(&service)).map(|(r, _)| *r);
                if let Some(receiver) = found {
                    topics.remove(&receiver);
                    self.context.delete_receiver(receiver);
                }
            }
            InletCommand::Connect { instance, directory } => {
                let address = self.state.requests.get(&directory);
                match address.map(|a| self.context.connect(*a)) {
                    Some(Ok(connection)) => {
                        let link = Link { connection, is_up: false, is_answered: false };
                        self.state.links.insert(instance, link);
                    }
                    Some(Err(_)) | None => events.on_link_down(now, instance),
                }
            }
            InletCommand::Disconnect(instance) => {
                if let Some(link) = self.state.links.remove(&instance) {
                    self.context.disconnect(link.connection);
                }
            }
            InletCommand::Send { instance, bytes } => {
                if let Some(link) = self.state.links.get(&instance) {
                    self.context.send_direct(link.connection, &bytes);
                }
            }
        }
    }

    #[inline]
    fn on_ready(&mut self, now: Nanos, ready: Ready, events: &mut impl InletEvents) -> bool {
        self.context.on_ready(now, ready, &mut Adapter { state: &mut self.state, events, now })
    }

    fn on_wakeup(&mut self, now: Nanos, events: &mut impl InletEvents) {
        self.context.on_wakeup(now, &mut Adapter { state: &mut self.state, events, now });
        if let Some(notice) = self.unsigned.look(now) {
            events.on_notice(&notice);
        }
    }

    fn next_wakeup(&self) -> Nanos {
        self.context.next_wakeup()
    }

    fn flush(&mut self, now: Nanos) {
        self.context.advance(now);
        self.context.flush();
    }
}

/// Translates what the context says into what a point-to-point server understands.
struct Adapter<'a, E> {
    state: &'a mut State,
    events: &'a mut E,
    now: Nanos,
}

impl<E: InletEvents> Adapter<'_, E> {
    #[cold]
    fn report(&mut self, notice: Notice) {
        if let Some(notice) = self.state.limit.admit(self.now, notice) {
            self.events.on_notice(&notice);
        }
    }

    fn link_of(&mut self, connection: ConnectionId) -> Option<(u64, &mut Link)> {
        let mut links = self.state.links.iter_mut();
        links.find(|(_, link)| link.connection == connection).map(|(instance, link)| (*instance, link))
    }
}

impl<E: InletEvents> Handler for Adapter<'_, E> {
    fn on_source(&mut self, receiver: Receiver, stream: StreamId, info: &SourceInfo<'_>) {
        let Some(topic) = self.state.topics.get(&receiver) else { return };
        let source = SourceId(stream.0);
        match topic {
            Some(name) => self.events.on_source(self.now, source, Topic::Service(name), info.session),
            None => {
                if let Some(request) = info.request {
                    self.state.requests.insert(source, request);
                }
                self.events.on_source(self.now, source, Topic::Directory, info.session);
            }
        }
    }

    #[inline]
    fn on_message(&mut self, message: &Message<'_>) {
        // Of loss nothing is told: the jump of the sequence in the next message, or in a heartbeat, says the same
        // to the message.
        self.events.on_stream_message(self.now, SourceId(message.stream.0), message.payload);
    }

    fn on_end(&mut self, _: Receiver, stream: StreamId, _: &End) {
        self.state.requests.remove(&SourceId(stream.0));
        self.events.on_source_ended(self.now, SourceId(stream.0));
    }

    fn on_connected(&mut self, connection: ConnectionId) {
        if let Some((instance, link)) = self.link_of(connection) {
            link.is_up = true;
            self.events.on_link_up(self.now, instance);
        }
    }

    fn on_direct(&mut self, connection: ConnectionId, payload: &[u8]) {
        if let Some((instance, link)) = self.link_of(connection) {
            link.is_answered = true;
            self.events.on_link_message(self.now, instance, payload);
        }
    }

    fn on_closed(&mut self, connection: ConnectionId, reason: &str) {
        let Some((instance, link)) = self.link_of(connection) else { return };
        if link.is_up && !link.is_answered && !self.state.is_secured {
            self.report(unanswered(reason));
        }
        self.state.links.remove(&instance);
        self.events.on_link_down(self.now, instance);
    }

    fn on_security(&mut self, event: SecurityEvent, text: &str) {
        self.report(notice(event, text));
    }
}
