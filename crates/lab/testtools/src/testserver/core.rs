//! Connections of consumers: what each has asked for, and what is sent to it. Without sockets.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;

use net::clock;
use rdm::Reply;
use rdm::directory::{Directory, DirectoryLimits, Info, Service, ServiceState};
use rssl::{CloseReason, Session};
use rwf::{Dictionary, Domain, Msg, Qos, StateCode};
use server::rssl::{Rssl, send};
use server::{ConnectionId, Outbox, Service as PortService};
use units::Nanos;

use super::args::TestServerArgs;
use super::counts::ServerCounts;
use super::templates::{ShapeId, Templates};
use crate::TestToolError;
use crate::messages::MessageSet;
use crate::stamp_clock::StampUnit;
use crate::ticks::{Rate, StampPlan, StampRate};

/// All of a provider but its sockets.
pub(super) struct Core {
    pub(super) directory: Directory,
    pub(super) dictionary: Arc<Dictionary>,
    pub(super) templates: Templates,
    /// By connection.
    pub(super) clients: HashMap<ConnectionId, Client>,
    pub(super) counts: ServerCounts,
    pub(super) rate: Rate,
    pub(super) stamps: StampRate,
    pub(super) unit: StampUnit,
    pub(super) updates_max: u64,
    pub(super) open_limit: usize,
    pub(super) output_bytes: usize,
    pub(super) takes_posts: bool,
    pub(super) answers_generics: bool,
}

/// One connection.
pub(super) struct Client {
    pub(super) has_login: bool,
    /// All its items are paused.
    pub(super) is_paused: bool,
    /// Its streams: first those that get updates now, each of which has its turn.
    pub(super) open: Vec<Open>,
    /// How many of them get updates now.
    pub(super) live: usize,
    /// Where each stream stands among them.
    pub(super) places: HashMap<i32, usize>,
    /// Whose turn it is.
    pub(super) turn: usize,
    pub(super) updates: u64,
    /// Images to be sent.
    pub(super) images: VecDeque<WantedImage>,
    pub(super) plan: StampPlan,
}

/// A stream that gets updates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) stream_id: i32,
    pub(super) shape: ShapeId,
    /// How many updates it has had.
    pub(super) updates: u32,
    /// Its image has not gone out yet: it gets no updates before.
    pub(super) waits: bool,
    pub(super) is_paused: bool,
}

/// An image that somebody waits for.
pub(super) struct WantedImage {
    pub(super) stream_id: i32,
    pub(super) service_id: u16,
    pub(super) name: Box<[u8]>,
    pub(super) shape: ShapeId,
    /// The stream is over with it.
    pub(super) is_snapshot: bool,
    pub(super) private_stream: bool,
}

impl Core {
    pub(super) fn new(
        args: &TestServerArgs,
        set: MessageSet,
        dictionary: Arc<Dictionary>,
    ) -> Result<Core, TestToolError> {
        let mut directory = Directory::new(DirectoryLimits::default());
        directory
            .insert(service(args))
            .map_err(|error| TestToolError::Usage(format!("--service {}: {error}", args.service)))?;
        Ok(Core {
            directory,
            templates: Templates::new(set, &dictionary)?,
            dictionary,
            clients: HashMap::new(),
            counts: ServerCounts::default(),
            rate: Rate { per_second: args.update_rate, ticks_per_second: args.tick_rate },
            stamps: args.latency_rate,
            unit: StampUnit::of(args.nanoseconds),
            updates_max: args.updates.unwrap_or(u64::MAX),
            open_limit: args.open_limit as usize,
            output_bytes: args.output_bytes as usize,
            takes_posts: !args.no_posts,
            answers_generics: !args.no_generic_answers,
        })
    }

    /// Whether a tick has anything to do: a connection has items and may get more updates.
    pub(super) fn has_ticks(&self) -> bool {
        let max = self.updates_max;
        self.rate.per_second > 0
            && self.clients.values().any(|client| client.live > 0 && client.updates < max)
    }
}

impl Client {
    /// A connection that has said nothing yet; `plan` says which of its updates are timed.
    pub(super) fn new(plan: StampPlan) -> Client {
        Client {
            has_login: false,
            is_paused: false,
            open: Vec::new(),
            live: 0,
            places: HashMap::new(),
            turn: 0,
            updates: 0,
            images: VecDeque::new(),
            plan,
        }
    }

    /// A new stream, which waits for its image.
    pub(super) fn add(&mut self, stream: Open) {
        self.places.insert(stream.stream_id, self.open.len());
        self.open.push(stream);
    }

    /// Ends a stream; whether there was one.
    pub(super) fn close(&mut self, stream_id: i32) -> bool {
        if !self.change(stream_id, |stream| stream.is_paused = true) {
            return false;
        }
        let last = self.open.len() - 1;
        let place = self.places[&stream_id];
        self.swap(place, last);
        self.open.pop();
        self.places.remove(&stream_id).is_some()
    }

    /// Changes a stream, and puts it where it then belongs; whether there is such a stream.
    pub(super) fn change(&mut self, stream_id: i32, change: impl FnOnce(&mut Open)) -> bool {
        let Some(&place) = self.places.get(&stream_id) else { return false };
        let stream = &mut self.open[place];
        change(stream);
        let is_live = !stream.waits && !stream.is_paused;
        if is_live && place >= self.live {
            self.swap(place, self.live);
            self.live += 1;
        } else if !is_live && place < self.live {
            self.live -= 1;
            self.swap(place, self.live);
        }
        true
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.open.swap(a, b);
        for place in [a, b] {
            self.places.insert(self.open[place].stream_id, place);
        }
    }
}

/// The service as the directory says it.
fn service(args: &TestServerArgs) -> Service {
    let names = [rdm::dictionary::FIELDS_NAME, rdm::dictionary::ENUMS_NAME].map(str::to_owned);
    Service {
        id: args.service_id,
        info: Info {
            name: args.service.clone(),
            vendor: Some("tickcast testserver".to_owned()),
            is_source: true,
            capabilities: vec![Domain::DICTIONARY, Domain::MARKET_PRICE],
            dictionaries_provided: names.to_vec(),
            dictionaries_used: names.to_vec(),
            qos: vec![Qos::REAL_TIME],
            ..Info::default()
        },
        state: ServiceState { up: true, accepting_requests: Some(true), status: None },
        ..Service::default()
    }
}

impl PortService<Rssl> for Core {
    fn on_connected(
        &mut self,
        _: Nanos,
        connection: ConnectionId,
        _: &Session<'_>,
        _: SocketAddr,
        _: &mut Outbox,
    ) {
        self.counts.connections += 1;
        let plan = StampPlan::new(self.stamps, self.rate, clock::seed());
        self.clients.insert(connection, Client::new(plan));
    }

    fn on_message(
        &mut self,
        _: Nanos,
        connection: ConnectionId,
        message: &[u8],
        outbox: &mut Outbox,
    ) -> ControlFlow<()> {
        let Ok(msg) = Msg::parse(message) else {
            self.counts.unusable += 1;
            return ControlFlow::Break(());
        };
        let Some(client) = self.clients.get(&connection) else { return ControlFlow::Continue(()) };
        if !client.has_login && msg.domain() != Domain::LOGIN {
            let answer = Reply::to(&msg).closed_recover(StateCode::USAGE_ERROR, "log in first");
            self.refuse(connection, &answer, outbox);
            return ControlFlow::Continue(());
        }
        let handled = match (&msg, msg.domain()) {
            (Msg::Post(post), _) => {
                self.on_post(connection, post, outbox);
                Ok(())
            }
            (_, Domain::LOGIN) => return self.on_login(connection, &msg, outbox),
            (_, Domain::SOURCE) => self.on_directory(connection, &msg, outbox),
            (_, Domain::DICTIONARY) => self.on_dictionary(connection, &msg, outbox),
            (Msg::Request(request), _) => self.on_request(connection, request, outbox),
            (Msg::Close(close), _) => self.on_close(connection, close),
            (Msg::Generic(generic), _) => {
                self.on_generic(connection, generic, outbox);
                Ok(())
            }
            (other, domain) => Err(rdm::RdmError::WrongClass { domain, class: other.class() }),
        };
        if let Err(error) = handled {
            self.counts.unusable += 1;
            if let (Msg::Request(_), Ok(answer)) = (&msg, Reply::to(&msg).refuse(&error)) {
                self.counts.refused += 1;
                send(outbox, connection, &answer);
            }
        }
        ControlFlow::Continue(())
    }

    fn on_closed(&mut self, _: Nanos, connection: ConnectionId, _: &CloseReason, _: &mut Outbox) {
        self.clients.remove(&connection);
    }

    fn is_logged_in(&self, connection: ConnectionId) -> bool {
        self.clients.get(&connection).is_some_and(|client| client.has_login)
    }
}
