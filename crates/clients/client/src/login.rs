//! What consumer and provider log in with.

use rdm::login::{LOGIN_STREAM_ID, LoginMsg, LoginRefresh, LoginRequest, LoginStatus, NameType};
use rdm::{RdmError, ToVec};
use rssl::Outbound;
use rwf::{Domain, Msg, State, StreamState};

use crate::{DisconnectReason, Identity};

/// The texts of a login, kept for each connection.
#[derive(Clone)]
pub(crate) struct LoginTexts {
    pub(crate) user: String,
    pub(crate) application_id: String,
    pub(crate) application_name: String,
    pub(crate) position: String,
    pub(crate) password: Option<String>,
    /// Stands for user and password.
    pub(crate) token: Option<String>,
}

impl LoginTexts {
    /// Texts of a configuration, whose blanks are filled by `identity`. `application` are its id and name.
    pub(crate) fn new(
        identity: &Identity,
        (user, position): (&str, &str),
        application: (&str, &str),
    ) -> LoginTexts {
        LoginTexts {
            user: identity.user_or(user),
            application_id: application.0.to_owned(),
            application_name: application.1.to_owned(),
            position: identity.position_or(position),
            password: identity.password.clone(),
            token: None,
        }
    }

    /// The request, begun by `of_user`: as a consumer or as a provider.
    pub(crate) fn request<'t>(&'t self, of_user: fn(&'t [u8]) -> LoginRequest<'t>) -> LoginRequest<'t> {
        let request = match &self.token {
            None => of_user(self.user.as_bytes()),
            Some(token) => LoginRequest {
                name_type: NameType::AUTHENTICATION_TOKEN,
                authentication_token: Some(token.as_bytes()),
                ..of_user(TOKEN_USER)
            },
        };
        LoginRequest {
            application_id: self.application_id.as_bytes(),
            application_name: Some(self.application_name.as_bytes()),
            position: Some(self.position.as_bytes()),
            password: self.password.as_ref().map(String::as_bytes),
            ..request
        }
    }
}

/// The name of who logs in with a token.
const TOKEN_USER: &[u8] = &[0];

/// Logs in on a connection over which nothing else goes yet.
pub(crate) fn send(request: LoginRequest<'_>, out: &mut Outbound) -> Result<(), DisconnectReason> {
    let bytes = request.to_vec().map_err(RdmError::from)?;
    // The backlog is empty, and far larger than a login.
    let _ = out.push(&bytes);
    Ok(())
}

/// What a message of the server's says about the login.
pub(crate) enum LoginAnswer<'a> {
    /// It is accepted, perhaps once more.
    Accepted(Box<LoginRefresh<'a>>),
    /// Its state is this one.
    State(State<'a>),
    /// The round trip is measured: the message goes back.
    RoundTrip,
    /// Nothing.
    Silent,
}

impl<'a> LoginAnswer<'a> {
    /// Reads a message of the login stream.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<LoginAnswer<'a>, DisconnectReason> {
        let msg = Msg::parse(bytes)?;
        Ok(match LoginMsg::parse(&msg)? {
            LoginMsg::Refresh(refresh) if refresh.state.stream == StreamState::Open => {
                LoginAnswer::Accepted(Box::new(refresh))
            }
            LoginMsg::Refresh(LoginRefresh { state, .. })
            | LoginMsg::Status(LoginStatus { state: Some(state), .. }) => LoginAnswer::State(state),
            LoginMsg::RoundTrip(_) => LoginAnswer::RoundTrip,
            LoginMsg::Status(_) | LoginMsg::Generic(_) => LoginAnswer::Silent,
            LoginMsg::Request(_) | LoginMsg::Close(_) => {
                return Err(RdmError::WrongClass { domain: Domain::LOGIN, class: msg.class() }.into());
            }
        })
    }
}

/// What a login that is not open means: whether to try again, and why the connection ends.
pub(crate) fn ended(state: State<'_>) -> Option<(bool, DisconnectReason)> {
    let code = state.code;
    match state.stream {
        StreamState::Open => None,
        StreamState::ClosedRecover | StreamState::NonStreaming => {
            Some((true, DisconnectReason::LoginEnded { code }))
        }
        StreamState::Closed | StreamState::Redirected => {
            Some((false, DisconnectReason::LoginRefused { code }))
        }
    }
}

/// Ends a login.
pub(crate) fn log_out(out: &mut Outbound) {
    let bytes = rdm::login::logout(LOGIN_STREAM_ID).to_vec();
    // A server that does not take it sees the end of the connection.
    let _ = out.push(&bytes.expect("no part of a close can be too long"));
}
