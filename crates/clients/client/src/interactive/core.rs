//! The interactive provider without its sockets.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use counters::table::InteractiveSession;
use market::image::FieldRules;
use market::{Encoding, Scratch};
use rdm::directory::{Directory, DirectoryLimits, Service};
use rdm::{RdmError, Reply};
use rwf::{Dictionary, Domain, Msg, StateCode};

use super::client::{Client, Outlet};
use super::items::Items;
use super::port_connection::PortConnection;
use super::{ClientId, InteractiveEvent};
use crate::InteractiveConfig;

/// Why a client's connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// What came is no message.
    Malformed(rwf::DecodeError),
    /// The login was refused, or has ended.
    LoggedOut,
}

/// All of an interactive provider but its sockets: messages of clients in, messages to them and events out.
pub(crate) struct Core {
    pub(super) config: InteractiveConfig,
    pub(super) directory: Directory,
    pub(super) dictionary: Option<Arc<Dictionary>>,
    pub(super) rules: FieldRules,
    /// By their connections.
    pub(super) clients: HashMap<PortConnection, Client>,
    last_serial: u64,
    pub(super) items: Items,
    /// Item streams of all clients.
    pub(super) stream_count: u64,
    pub(super) events: VecDeque<InteractiveEvent>,
    pub(super) message: Encoding,
    pub(super) scratch: Scratch,
    pub(super) counters: Arc<InteractiveSession>,
}

impl Core {
    pub(crate) fn new(config: &InteractiveConfig) -> Result<Core, RdmError> {
        let mut directory = Directory::new(DirectoryLimits::default());
        for service in &config.services {
            directory.insert(service.service())?;
        }
        let counters = Arc::new(InteractiveSession::default());
        Ok(Core {
            config: config.clone(),
            directory,
            dictionary: None,
            rules: FieldRules::default(),
            clients: HashMap::new(),
            last_serial: 0,
            items: Items::new(config.items_max, Arc::clone(&counters)),
            stream_count: 0,
            events: VecDeque::new(),
            message: Encoding::default(),
            scratch: Scratch::default(),
            counters,
        })
    }

    /// Takes the dictionary that clients can download. Its services announce it.
    pub(crate) fn set_dictionary(&mut self, dictionary: Arc<Dictionary>) {
        self.rules = FieldRules::of(&dictionary);
        self.dictionary = Some(dictionary);
        let names = [rdm::dictionary::FIELDS_NAME, rdm::dictionary::ENUMS_NAME].map(str::to_owned);
        let ids: Vec<u16> = self.directory.services().map(|service| service.id).collect();
        for id in ids {
            let add = |service: &mut Service| {
                service.info.dictionaries_provided = names.to_vec();
                if !service.info.capabilities.contains(&Domain::DICTIONARY) {
                    service.info.capabilities.push(Domain::DICTIONARY);
                }
            };
            // Nobody has seen the directory yet, and neither id nor name changes.
            let _ = self.directory.change(id, add);
        }
    }

    pub(crate) fn on_connected(&mut self, connection: PortConnection, peer: SocketAddr, component: String) {
        self.last_serial += 1;
        let client = ClientId { connection, serial: self.last_serial };
        self.clients.insert(connection, Client::new(client));
        self.counters.clients.set(self.clients.len() as u64);
        self.events.push_back(InteractiveEvent::Connected { client, peer, component });
    }

    pub(crate) fn on_closed(&mut self, connection: PortConnection, reason: String) {
        let Some(client) = self.clients.remove(&connection) else { return };
        self.counters.clients.set(self.clients.len() as u64);
        self.drop_streams(connection, client.streams.into_iter());
        self.events.push_back(InteractiveEvent::Disconnected { client: client.id, reason });
    }

    /// The name of a service, shared by the events that tell it.
    pub(super) fn service_name(&self, service_id: u16) -> Arc<str> {
        let service = self.directory.service(service_id);
        service.map_or_else(|| "".into(), |service| service.info.name.as_str().into())
    }

    /// Whether a client's connection still stands.
    pub(crate) fn is_present(&self, id: ClientId) -> bool {
        self.clients.get(&id.connection).is_some_and(|client| client.id == id)
    }

    pub(crate) fn is_logged_in(&self, connection: PortConnection) -> bool {
        // One that waits for the application's word has done what it could.
        self.clients.get(&connection).is_some_and(|client| client.login.is_some())
    }

    pub(crate) fn take_event(&mut self) -> Option<InteractiveEvent> {
        self.events.pop_front()
    }

    /// A message of a client.
    pub(crate) fn on_message(
        &mut self,
        connection: PortConnection,
        bytes: &[u8],
        out: &mut impl Outlet,
    ) -> Result<(), Fault> {
        self.counters.messages_in.inc();
        let msg = Msg::parse(bytes).map_err(|error| {
            self.counters.messages_refused.inc();
            Fault::Malformed(error)
        })?;
        let Some(client) = self.clients.get(&connection) else { return Ok(()) };
        if msg.domain() != Domain::LOGIN && !client.is_let_in {
            let answer = Reply::to(&msg).closed_recover(StateCode::USAGE_ERROR, "log in first");
            self.refuse(connection, &answer, out);
            return Ok(());
        }
        let result = match (&msg, msg.domain()) {
            (Msg::Post(post), _) => {
                self.on_post(connection, post, bytes, out);
                Ok(())
            }
            (_, Domain::LOGIN) => return self.on_login(connection, &msg, bytes, out),
            (_, Domain::SOURCE) => self.on_directory(connection, &msg, out),
            (_, Domain::DICTIONARY) => self.on_dictionary(connection, &msg, out),
            (Msg::Request(request), _) => self.on_item_request(connection, request, out),
            (Msg::Close(close), _) => self.on_close(connection, close, out),
            (Msg::Generic(generic), _) => {
                self.on_generic(connection, generic, bytes);
                Ok(())
            }
            (other, domain) => Err(RdmError::WrongClass { domain, class: other.class() }),
        };
        if let Err(error) = result {
            self.counters.messages_refused.inc();
            if let (Msg::Request(_), Ok(answer)) = (&msg, Reply::to(&msg).refuse(&error)) {
                self.counters.requests_refused.inc();
                out.send(connection, &answer);
            }
        }
        Ok(())
    }

    /// Answers a request that is not met.
    pub(super) fn refuse(
        &mut self,
        connection: PortConnection,
        answer: &rwf::StatusMsg<'_>,
        out: &mut impl Outlet,
    ) {
        self.counters.requests_refused.inc();
        if let Ok(bytes) = self.message.try_encode(|w| answer.encode(w)) {
            out.send(connection, bytes);
        }
    }

    /// Changes what the directory says about a service, and tells who listens.
    pub(crate) fn change_service(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Service),
        out: &mut impl Outlet,
    ) -> Result<(), RdmError> {
        let unknown = RdmError::UnknownService { service_id: 0 };
        let service_id = self.directory.service_by_name(name).ok_or(unknown)?.id;
        if let Some(delta) = self.directory.change(service_id, change)? {
            self.announce_changes(&[delta], out);
        }
        Ok(())
    }
}
