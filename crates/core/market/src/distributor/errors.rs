//! Why a connection is closed, or a message dropped.

use rdm::RdmError;
use rwf::{DecodeError, StateCode};

use crate::backbone::BackboneError;
use crate::users::Denial;

/// What is wrong with a message of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// Bytes that are not a message of the protocol.
    Malformed(BackboneError),
    /// Something else came before Hello.
    NotGreeted,
    /// It asks for more images than can be remembered until it takes them.
    TooMuch,
}

impl LinkError {
    /// Whether the link is to be cut: what comes over it cannot be trusted. Otherwise the message alone is dropped,
    /// for the link keeps the bounds of messages.
    #[must_use]
    pub fn cuts_link(&self) -> bool {
        matches!(
            self,
            LinkError::NotGreeted | LinkError::TooMuch | LinkError::Malformed(BackboneError::Version(_))
        )
    }
}

impl std::fmt::Display for LinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LinkError::Malformed(e) => e.fmt(f),
            LinkError::NotGreeted => f.write_str("the peer asks for something before it has said Hello"),
            LinkError::TooMuch => f.write_str("the peer asks for more images than are remembered for it"),
        }
    }
}

impl std::error::Error for LinkError {}

/// Why a provider's connection is to be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderError {
    /// Bytes of which not even class and stream can be told, or a message about the login, the directory or
    /// the dictionary that cannot be read.
    Malformed(DecodeError),
    /// A directory that does not mean what it has to mean.
    Directory(RdmError),
    /// The login was refused; the answer says why.
    LoginRefused,
    /// The user may not log in; the answer says why.
    LoginDenied(Denial),
    /// It has logged out.
    LoggedOut,
    /// What a dialled provider says about the login is not what it has to be.
    Login(RdmError),
    /// A dialled provider refuses the login, or has ended it: code and text of its state.
    LoginEnded(StateCode, String),
    /// A dialled provider has ended the stream of its directory.
    DirectoryEnded,
    /// A dialled provider has not answered login or directory request in time.
    Silent,
}

impl std::fmt::Display for ProviderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProviderError::Malformed(e) => write!(f, "malformed message: {e}"),
            ProviderError::Directory(e) => write!(f, "source directory: {e}"),
            ProviderError::LoginDenied(why) => write!(f, "the login is denied: {why}"),
            ProviderError::LoginRefused => f.write_str("the login was refused"),
            ProviderError::LoggedOut => f.write_str("logged out"),
            ProviderError::Login(e) => write!(f, "login: {e}"),
            ProviderError::LoginEnded(code, text) => write!(f, "the login is closed ({code}): {text}"),
            ProviderError::DirectoryEnded => f.write_str("the source directory is closed"),
            ProviderError::Silent => f.write_str("login or source directory was not answered in time"),
        }
    }
}

impl std::error::Error for ProviderError {}

impl From<DecodeError> for ProviderError {
    fn from(e: DecodeError) -> Self {
        ProviderError::Malformed(e)
    }
}
