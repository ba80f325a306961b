//! Clients: their connections, and who takes which of their messages.

use std::collections::{BTreeMap, HashMap, VecDeque};

use rdm::Reply;
use rdm::directory::DirectoryRequest;
use rdm::item::has_items;
use rdm::login::StandbyRole;
use rwf::{DecodeError, Domain, Msg, StateCode};
use units::Nanos;

use super::audience::Form;
use super::errands::Errand;
use super::login::Login;
use super::{ClientId, PointToPoint, ServerSink};
use crate::users::Denial;

/// What is to be known of a client's connection: how it takes what is long, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientProfile {
    /// About how many bytes a part of a dictionary may have; `usize::MAX` for all in one message.
    pub dictionary_part_bytes: usize,
    /// About how many bytes a part of a refresh may have; `usize::MAX` for all in one message.
    pub refresh_part_bytes: usize,
    /// The client's IPv4 address as a number, 0 if it has none: who posts.
    pub address: u32,
}

impl Default for ClientProfile {
    /// Parts that fit one RSSL message.
    fn default() -> Self {
        ClientProfile { dictionary_part_bytes: 60_000, refresh_part_bytes: 60_000, address: 0 }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) profile: ClientProfile,
    pub(super) login: Option<Login>,
    /// Open directory streams.
    pub(super) directories: Vec<DirectoryRequest>,
    /// Open item streams.
    pub(super) streams: HashMap<i32, Stream>,
    /// Open private streams, with their conversations.
    pub(super) private: HashMap<i32, u64>,
    /// Streams for which an image is due, in order; some may be closed, or have had one.
    pub(super) due: VecDeque<i32>,
    /// What is left of its last message.
    pub(super) errand: Option<Errand>,
    /// What the services here are to it, if it has several servers for them.
    pub(super) service_roles: BTreeMap<u16, StandbyRole>,
}

/// An open item stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// The place of the item in the table.
    pub(super) index: usize,
    /// Its serial number.
    pub(super) serial: u64,
    /// How the stream wants it.
    pub(super) form: Form,
    /// The client has paused this stream.
    pub(super) is_paused: bool,
    /// The number under which instances answer what went up on it.
    pub(super) conversation: Option<u64>,
}

impl Client {
    /// Open item streams, private ones among them.
    pub(super) fn stream_count(&self) -> usize {
        self.streams.len() + self.private.len()
    }
}

/// Why a client's connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientError {
    /// Bytes that are not an RWF message.
    Malformed(DecodeError),
    /// The login was refused; the answer says why.
    LoginRefused,
    /// The user may not log in; the answer says why.
    LoginDenied(Denial),
    /// It has logged out.
    LoggedOut,
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::Malformed(e) => write!(f, "not an RWF message: {e}"),
            ClientError::LoginRefused => f.write_str("the login was refused"),
            ClientError::LoginDenied(why) => write!(f, "the login is denied: {why}"),
            ClientError::LoggedOut => f.write_str("logged out"),
        }
    }
}

impl std::error::Error for ClientError {}

/// What a status page shows of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo<'a> {
    /// The connection.
    pub client: ClientId,
    /// The user's name; empty before the login.
    pub user: &'a str,
    /// Where the user is, as the client says.
    pub position: &'a str,
    /// What the client says it is.
    pub application: &'a str,
    /// Open item streams.
    pub streams: usize,
    /// It has paused all its streams.
    pub is_paused: bool,
    /// The round trip to the client's application as measured last, in microseconds.
    pub round_trip_us: Option<u64>,
    /// What this server is to it, if it has several for the same data and has said so on the login stream.
    pub role: Option<StandbyRole>,
    /// The same of services by name, as said on a directory stream.
    pub service_roles: Vec<(&'a str, StandbyRole)>,
}

/// Connections.
impl PointToPoint {
    /// A client has completed its handshake.
    pub fn on_client_connected(&mut self, client: ClientId, profile: ClientProfile) {
        self.forget_rest(client);
        let (login, directories) = (None, Vec::new());
        let (streams, private) = (HashMap::new(), HashMap::new());
        let (errand, service_roles) = (None, BTreeMap::new());
        let due = VecDeque::new();
        let new = Client { profile, login, directories, streams, private, due, errand, service_roles };
        self.clients.insert(client, new);
    }

    /// A connection is gone. While [`PointToPoint::is_leaving`] its number is not to be given to another one.
    pub fn on_client_closed(&mut self, now: Nanos, client: ClientId, sink: &mut impl ServerSink) {
        let Some(gone) = self.clients.remove(&client) else { return };
        self.count_clients(-i64::from(gone.login.is_some()));
        gone.login.as_ref().and_then(|login| login.conversation).map(|number| self.conversations.end(number));
        self.forget_client(now, (client, gone), sink);
    }

    /// Whether a client has logged in.
    #[must_use]
    pub fn is_logged_in(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|c| c.login.is_some())
    }

    /// Whether a client has an item stream of that id open.
    #[must_use]
    pub fn has_stream(&self, client: ClientId, stream_id: i32) -> bool {
        let client = self.clients.get(&client);
        client.is_some_and(|c| c.streams.contains_key(&stream_id) || c.private.contains_key(&stream_id))
    }

    /// The connections, for status pages.
    pub fn clients(&self) -> impl Iterator<Item = ClientInfo<'_>> + '_ {
        self.clients.iter().map(|(&client, c)| ClientInfo {
            client,
            user: c.login.as_ref().map_or("", |l| &l.claim.user),
            position: c.login.as_ref().map_or("", |l| &l.claim.position),
            application: c.login.as_ref().map_or("", |l| &l.application),
            streams: c.stream_count(),
            is_paused: c.login.as_ref().is_some_and(|l| l.is_paused),
            round_trip_us: c.login.as_ref().and_then(Login::round_trip_us),
            role: c.login.as_ref().and_then(|l| l.role),
            service_roles: c
                .service_roles
                .iter()
                .filter_map(|(id, role)| Some((self.services.get(id)?.definition.info.name.as_str(), *role)))
                .collect(),
        })
    }

    /// What a client's connection takes.
    pub(super) fn profile(&self, client: ClientId) -> ClientProfile {
        self.clients.get(&client).map_or_else(ClientProfile::default, |c| c.profile)
    }

    /// A message of a client.
    ///
    /// # Errors
    /// The connection has to be closed, after what was sent to it is out.
    pub fn on_client_message(
        &mut self,
        now: Nanos,
        client: ClientId,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), ClientError> {
        let result = self.client_message(now, client, bytes, sink);
        if matches!(result, Err(ClientError::Malformed(_))) {
            self.counters.client_messages_refused.inc();
        }
        result
    }

    fn client_message(
        &mut self,
        now: Nanos,
        client: ClientId,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), ClientError> {
        let msg = Msg::parse(bytes).map_err(ClientError::Malformed)?;
        let Some(known) = self.clients.get(&client) else { return Ok(()) };
        if msg.domain() != Domain::LOGIN && known.login.is_none() {
            self.refuse(client, &Reply::to(&msg), StateCode::USAGE_ERROR, "log in first", sink);
            return Ok(());
        }
        let result = match (&msg, msg.domain()) {
            (Msg::Post(post), _) => {
                self.on_post(now, client, post, sink);
                Ok(())
            }
            // The domain of what is said on an item's stream is anything.
            (Msg::Generic(generic), _) if self.has_stream(client, generic.stream_id) => {
                self.on_generic(client, generic, bytes, sink);
                Ok(())
            }
            (_, Domain::LOGIN) => return self.on_login(now, client, &msg, sink),
            (_, Domain::SOURCE) => self.on_directory_msg(client, &msg, sink),
            (_, Domain::DICTIONARY) => self.on_dictionary_msg(client, &msg, bytes, sink),
            (Msg::Request(request), domain) if has_items(domain) => {
                self.on_item_request(now, client, request, sink)
            }
            (Msg::Close(close), _) => self.on_item_close(now, client, close, sink),
            _ => {
                self.counters.client_messages_refused.inc();
                Ok(())
            }
        };
        if let Err(error) = result {
            self.counters.client_messages_refused.inc();
            if let (Msg::Request(_), Ok(answer)) = (&msg, Reply::to(&msg).refuse(&error)) {
                self.counters.requests_refused.inc();
                sink.send(client, &answer);
            }
        }
        Ok(())
    }

    /// Answers what is out of place with a closed stream.
    pub(super) fn refuse(
        &mut self,
        client: ClientId,
        reply: &Reply<'_>,
        code: StateCode,
        text: &str,
        sink: &mut impl ServerSink,
    ) {
        self.counters.client_messages_refused.inc();
        let answer = reply.closed(code, text);
        sink.send(client, self.encoding.encode(|w| answer.encode(w)));
    }

    /// So many clients more, or less, are logged in. A sum over all of them would cost who loses ten thousand at
    /// once a hundred million steps.
    pub(super) fn count_clients(&self, change: i64) {
        self.counters.clients.set(self.counters.clients.get().saturating_add_signed(change));
    }

    /// So many item streams more, or less, are open.
    pub(super) fn count_watchers(&self, change: i64) {
        self.counters.watchers.set(self.counters.watchers.get().saturating_add_signed(change));
    }
}
