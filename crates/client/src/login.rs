//! What consumer and provider log in with.

use rdm::ToVec;
use rdm::login::{LOGIN_STREAM_ID, LoginRequest, NameType};
use rssl::Outbound;
use rwf::{State, StreamState};

use crate::DisconnectReason;

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
