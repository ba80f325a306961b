//! What consumer and provider log in with.

use rdm::login::LoginRequest;

/// The texts of a login, kept for each connection.
#[derive(Clone)]
pub(crate) struct LoginTexts {
    pub(crate) user: String,
    pub(crate) application_id: String,
    pub(crate) application_name: String,
    pub(crate) position: String,
    pub(crate) password: Option<String>,
}

impl LoginTexts {
    /// The request, begun by `of_user`: as a consumer or as a provider.
    pub(crate) fn request<'t>(&'t self, of_user: fn(&'t [u8]) -> LoginRequest<'t>) -> LoginRequest<'t> {
        LoginRequest {
            application_id: self.application_id.as_bytes(),
            application_name: Some(self.application_name.as_bytes()),
            position: Some(self.position.as_bytes()),
            password: self.password.as_ref().map(String::as_bytes),
            ..of_user(self.user.as_bytes())
        }
    }
}
