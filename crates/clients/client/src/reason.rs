//! Why things end.

use std::fmt;
use std::io;

use rdm::RdmError;
use rssl::{CloseReason, PeerError};
use rwf::StateCode;

/// Why there is no session with a server (any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisconnectReason {
    /// The TCP connection, or the TLS session on it, could not be made.
    Connect(ConnectFailure),
    /// The connection ended, below the messages.
    Connection(CloseReason),
    /// No answer to the login.
    LoginTimeout {
        /// Time allowed.
        limit_ms: u32,
    },
    /// The server ended the login, and will take another one later.
    LoginEnded {
        /// The code of the server's state.
        code: StateCode,
    },
    /// The server refused or ended the login for good. Nothing more is tried.
    LoginRefused {
        /// The code of the server's state.
        code: StateCode,
    },
    /// No source directory.
    DirectoryTimeout {
        /// Time allowed.
        limit_ms: u32,
    },
    /// The server ended the directory stream.
    DirectoryEnded {
        /// The code of the server's state.
        code: StateCode,
    },
    /// The server sent a message that is malformed or out of place.
    Message(RdmError),
    /// The server sent JSON that is no message.
    Json,
    /// The preferred server, the first one, takes connections again: the session moves to it.
    Preferred,
    /// The application's wish.
    Stopped,
}

/// Why a TCP connection, or a TLS session on it, could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// The host's name stands for no address, or it could not be found out for which.
    UnknownHost,
    /// The host's name was not resolved in time.
    LookupTimeout {
        /// Time allowed.
        limit_ms: u32,
    },
    /// It was refused, or failed otherwise.
    Io(io::ErrorKind),
    /// The TLS session could not be made: one end's certificate is missing, or not acceptable to the other.
    Certificate,
    /// The TLS session could not be made for another reason: the server does not speak TLS, say.
    Tls,
    /// The WebSocket upgrade was refused, or not answered as it must be.
    Upgrade,
    /// It was neither made nor refused in time.
    Timeout {
        /// Time allowed.
        limit_ms: u32,
    },
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(failure) => failure.fmt(f),
            Self::Connection(reason) => reason.fmt(f),
            Self::LoginTimeout { limit_ms } => write!(f, "login not answered within {limit_ms} ms"),
            Self::LoginEnded { code } => write!(f, "login ended by the server ({code})"),
            Self::LoginRefused { code } => write!(f, "login refused by the server ({code})"),
            Self::DirectoryTimeout { limit_ms } => write!(f, "no source directory within {limit_ms} ms"),
            Self::DirectoryEnded { code } => write!(f, "source directory ended by the server ({code})"),
            Self::Message(error) => write!(f, "message refused: {error}"),
            Self::Json => f.write_str("JSON that is no message"),
            Self::Preferred => f.write_str("the preferred server is back"),
            Self::Stopped => f.write_str("stopped by the application"),
        }
    }
}

impl std::error::Error for DisconnectReason {}

impl DisconnectReason {
    /// What to look at, where one can say; `None` where the reason says all there is.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::Connect(ConnectFailure::Io(io::ErrorKind::ConnectionRefused)) => {
                "nothing listens there: is the port right, and does the server run?"
            }
            Self::Connect(ConnectFailure::UnknownHost | ConnectFailure::LookupTimeout { .. }) => {
                "is the name right, and does this machine know it?"
            }
            Self::Connect(ConnectFailure::Timeout { .. } | ConnectFailure::Io(_)) => {
                "is the host right, and does a firewall let the connection through?"
            }
            Self::Connect(ConnectFailure::Tls | ConnectFailure::Certificate) => {
                "is it an encrypted port, and do the `tls` settings fit its certificate?"
            }
            Self::Connect(ConnectFailure::Upgrade) => "is it a WebSocket port, such as 15000?",
            Self::Connection(CloseReason::Peer(PeerError::Silent { .. })) => return None,
            Self::Connection(CloseReason::Unanswered { next: None, .. } | CloseReason::Peer(_)) => {
                "is it an RSSL port? Consumers connect to 14002, providers to 14003, WebSocket has a port of its own"
            }
            Self::LoginTimeout { .. } | Self::DirectoryTimeout { .. } => {
                "is it the right port of the server?"
            }
            Self::LoginRefused { .. } => {
                "the server's words stand in the event before; `restart` tries the login again"
            }
            _ => return None,
        })
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownHost => f.write_str("host name cannot be resolved"),
            Self::LookupTimeout { limit_ms } => write!(f, "host name not resolved within {limit_ms} ms"),
            Self::Io(kind) => write!(f, "cannot connect: {kind}"),
            Self::Certificate => f.write_str("TLS: a certificate is missing or not acceptable"),
            Self::Tls => f.write_str("TLS: handshake failed"),
            Self::Upgrade => f.write_str("WebSocket: upgrade refused or not understood"),
            Self::Timeout { limit_ms } => write!(f, "not connected within {limit_ms} ms"),
        }
    }
}

impl std::error::Error for ConnectFailure {}

impl From<ConnectFailure> for DisconnectReason {
    fn from(failure: ConnectFailure) -> Self {
        DisconnectReason::Connect(failure)
    }
}

impl From<CloseReason> for DisconnectReason {
    fn from(reason: CloseReason) -> Self {
        DisconnectReason::Connection(reason)
    }
}

impl From<RdmError> for DisconnectReason {
    fn from(error: RdmError) -> Self {
        DisconnectReason::Message(error)
    }
}

impl From<rwf::DecodeError> for DisconnectReason {
    fn from(error: rwf::DecodeError) -> Self {
        DisconnectReason::Message(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_about_what_was_tried_and_where_there_is_none_nothing_is_said() {
        let advice = |reason: DisconnectReason| reason.advice().unwrap_or_default();
        let refused = ConnectFailure::Io(io::ErrorKind::ConnectionRefused);
        assert!(advice(refused.into()).contains("does the server run"));
        assert!(advice(ConnectFailure::UnknownHost.into()).contains("is the name right"));
        assert!(advice(ConnectFailure::Upgrade.into()).contains("WebSocket port"));
        let other_protocol = CloseReason::Peer(PeerError::HandshakeTimeout { limit_ms: 5_000 });
        assert!(advice(other_protocol.into()).contains("14002"));
        let silent = CloseReason::Peer(PeerError::Silent { limit_ms: 90_000 });
        assert_eq!((advice(silent.into()), advice(DisconnectReason::Stopped)), ("", ""));
    }
}
