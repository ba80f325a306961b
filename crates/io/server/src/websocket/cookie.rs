use rdm::ToVec;
use rdm::login::{LoginRequest, NameType};
use websocket::upgrade::Headers;

/// The stream on which a client is logged in that brought its token with the upgrade.
pub const COOKIE_LOGIN_STREAM_ID: i32 = -1;

/// A cookie of this name holds the token of a login.
const TOKEN: &str = "AuthToken";

/// Whether an upgrade brings a login.
pub(crate) fn has_login_cookie(headers: Headers<'_>) -> bool {
    headers.cookie(TOKEN).is_some()
}

/// The login of a client that came with the token that it got from elsewhere, as a message; its first own
/// message need not be one.
#[must_use]
pub fn cookie_login(headers: Headers<'_>) -> Option<Vec<u8>> {
    let token = headers.cookie(TOKEN)?.as_bytes();
    let position = headers.cookie("AuthPosition").or_else(|| headers.cookie("position"));
    let application = headers.cookie("applicationId").map(str::as_bytes);
    let everybody = LoginRequest::consumer(&[0]);
    let login = LoginRequest {
        stream_id: COOKIE_LOGIN_STREAM_ID,
        name_type: NameType::AUTHENTICATION_TOKEN,
        authentication_token: Some(token),
        position: position.map(str::as_bytes),
        application_id: application.unwrap_or(everybody.application_id),
        ..everybody
    };
    login.to_vec().ok()
}
