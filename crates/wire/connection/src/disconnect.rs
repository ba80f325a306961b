use std::fmt;

/// How a TCP connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disconnect {
    /// The peer has closed it.
    EndOfStream,
    /// The socket failed.
    SocketError,
}

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EndOfStream => "peer closed the connection",
            Self::SocketError => "socket failed",
        })
    }
}

impl std::error::Error for Disconnect {}
