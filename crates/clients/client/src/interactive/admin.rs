//! Login, directory, dictionary: what each client has, before any item.

use rdm::dictionary::{DictionaryMsg, DictionaryParts, PartSizes};
use rdm::directory::{DirectoryMsg, DirectoryRefresh, DirectoryUpdate, ServiceDelta};
use rdm::login::{BatchSupport, Features, LoginMsg, LoginRefresh, LoginRequest, LoginStatus, Role};
use rdm::{RdmError, Reply, ToVec};
use rwf::{Msg, RequestMsg, StateCode};
use server::websocket::PART_BYTES;

use super::client::{Client, Outlet};
use super::core::{Core, Fault};
use super::port_connection::PortConnection;
use super::{ClientId, ClientLogin, InteractiveEvent};

/// A dictionary is one message to clients that speak JSON.
const WHOLE: PartSizes = PartSizes { fields_bytes_max: PART_BYTES, enums_bytes_max: PART_BYTES };

/// Most directory streams that a client may have open.
const DIRECTORIES_MAX: usize = 16;

impl Core {
    pub(super) fn on_login(
        &mut self,
        connection: PortConnection,
        msg: &Msg<'_>,
        bytes: &[u8],
        out: &mut impl Outlet,
    ) -> Result<(), Fault> {
        match LoginMsg::parse(msg) {
            Ok(LoginMsg::Request(request)) => self.on_login_request(connection, &request, bytes, out),
            Ok(LoginMsg::Close(_)) => Err(Fault::LoggedOut),
            Ok(LoginMsg::RoundTrip(_) | LoginMsg::Generic(_)) => Ok(()),
            Ok(LoginMsg::Refresh(_) | LoginMsg::Status(_)) => {
                self.counters.messages_refused.inc();
                Ok(())
            }
            Err(error) => {
                self.counters.messages_refused.inc();
                if let Ok(answer) = Reply::to(msg).refuse(&error) {
                    out.send(connection, &answer);
                }
                Err(Fault::LoggedOut)
            }
        }
    }

    fn on_login_request(
        &mut self,
        connection: PortConnection,
        request: &LoginRequest<'_>,
        bytes: &[u8],
        out: &mut impl Outlet,
    ) -> Result<(), Fault> {
        if request.role == Role::Provider {
            self.counters.logins_refused.inc();
            let text = "this port is for consumers";
            if let Ok(answer) = LoginStatus::reject(request, StateCode::USAGE_ERROR, text).to_vec() {
                out.send(connection, &answer);
            }
            return Err(Fault::LoggedOut);
        }
        let Some(client) = self.clients.get_mut(&connection) else { return Ok(()) };
        let (id, was_let_in) = (client.id, client.is_let_in);
        client.login = Some(bytes.into());
        if was_let_in {
            self.set_client_paused(connection, request.pause, out);
            if !request.no_refresh {
                self.send_login(connection, request, out);
            }
            return Ok(());
        }
        client.is_paused = request.pause;
        self.events.push_back(InteractiveEvent::Login { client: id, login: ClientLogin::of(request) });
        if !self.config.asks_for_logins {
            self.accept_login(id, out);
        }
        Ok(())
    }

    /// Lets a client in; returns whether there is one that has asked for it.
    pub(crate) fn accept_login(&mut self, id: ClientId, out: &mut impl Outlet) -> bool {
        let Some((client, login)) = self.waiting_login(id) else { return false };
        client.is_let_in = true;
        self.counters.logins.inc();
        with_login(&login, |request| self.send_login(id.connection, request, out));
        true
    }

    /// Refuses a login for good; returns whether there was one that waited.
    pub(crate) fn reject_login(
        &mut self,
        id: ClientId,
        code: StateCode,
        text: &str,
        out: &mut impl Outlet,
    ) -> bool {
        let Some((client, login)) = self.waiting_login(id) else { return false };
        client.login = None;
        self.counters.logins_refused.inc();
        with_login(&login, |request| {
            if let Ok(answer) = LoginStatus::reject(request, code, text).to_vec() {
                out.send(id.connection, &answer);
            }
        });
        true
    }

    fn waiting_login(&mut self, id: ClientId) -> Option<(&mut Client, Box<[u8]>)> {
        let client =
            self.clients.get_mut(&id.connection).filter(|client| client.id == id && !client.is_let_in)?;
        let login = client.login.clone()?;
        Some((client, login))
    }

    fn send_login(&mut self, connection: PortConnection, request: &LoginRequest<'_>, out: &mut impl Outlet) {
        let features = Features {
            omm_post: Some(self.config.takes_posts),
            batch_requests: Some(BatchSupport::ALL),
            optimized_pause_resume: Some(true),
            ..Features::default()
        };
        let name = Some(self.config.application_name.as_bytes());
        let refresh = LoginRefresh { features, application_name: name, ..LoginRefresh::accept(request) };
        // What came in a message goes into one.
        if let Ok(bytes) = refresh.to_vec() {
            out.send(connection, &bytes);
        }
    }

    pub(super) fn on_directory(
        &mut self,
        connection: PortConnection,
        msg: &Msg<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), RdmError> {
        let Some(client) = self.clients.get_mut(&connection) else { return Ok(()) };
        let request = match DirectoryMsg::parse(msg)? {
            DirectoryMsg::Request(request) => request,
            DirectoryMsg::Close(close) => {
                client.close_directory(close.stream_id);
                return Ok(());
            }
            // What consumers say about themselves.
            DirectoryMsg::Generic(_) => return Ok(()),
            DirectoryMsg::Refresh(_) | DirectoryMsg::Update(_) | DirectoryMsg::Status(_) => {
                return Err(RdmError::WrongClass { domain: msg.domain(), class: msg.class() });
            }
        };
        client.directories.retain(|open| open.stream_id != request.stream_id);
        if client.directories.len() >= DIRECTORIES_MAX {
            let answer = Reply::to(msg);
            self.refuse(
                connection,
                &answer.closed(StateCode::TOO_MANY_ITEMS, "too many directory streams"),
                out,
            );
            return Ok(());
        }
        if request.streaming {
            client.directories.push(request);
        }
        if !request.no_refresh {
            let refresh = DirectoryRefresh::answer(&request, self.directory.services())?;
            out.send(connection, &refresh.to_vec()?);
        }
        Ok(())
    }

    /// Tells of changes in the directory, to each client what it wants to know.
    pub(super) fn announce_changes(&mut self, deltas: &[ServiceDelta], out: &mut impl Outlet) {
        for (connection, client) in &self.clients {
            for request in &client.directories {
                if let Some(Ok(update)) = DirectoryUpdate::answer(request, deltas).map(|u| u.to_vec()) {
                    out.send(*connection, &update);
                }
            }
        }
    }

    pub(super) fn on_dictionary(
        &mut self,
        connection: PortConnection,
        msg: &Msg<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), RdmError> {
        let DictionaryMsg::Request(request) = DictionaryMsg::parse(msg)? else { return Ok(()) };
        let Some(dictionary) = self.dictionary.clone() else {
            let answer = Reply::to(msg);
            self.refuse(
                connection,
                &answer.closed(StateCode::NOT_FOUND, "this provider has no dictionary"),
                out,
            );
            return Ok(());
        };
        let sizes = if connection.is_websocket() { WHOLE } else { PartSizes::default() };
        for part in DictionaryParts::new(&request, &dictionary, sizes)?.flatten() {
            out.send(connection, &part);
        }
        Ok(())
    }
}

/// Looks at a login request that was read before.
fn with_login(bytes: &[u8], look: impl FnOnce(&LoginRequest<'_>)) {
    if let Ok(request) = RequestMsg::parse(bytes)
        && let Ok(request) = LoginRequest::parse(&request)
    {
        look(&request);
    }
}

impl ClientLogin {
    fn of(request: &LoginRequest<'_>) -> ClientLogin {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let token = request.authentication_token.map(text);
        ClientLogin {
            user: if token.is_some() { String::new() } else { text(request.name) },
            position: text(request.position.unwrap_or_default()),
            application_id: text(request.application_id),
            application_name: text(request.application_name.unwrap_or_default()),
            password: request.password.map(text),
            token,
        }
    }
}
