use std::fmt;
use std::io;

/// Why a context, or a part of it, could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum ContextError {
    /// A socket, a file or a thread; the error says which.
    Io(io::Error),
    /// An option of the protocol.
    Config(lbt::config::ConfigError),
    /// A topic's name or a pattern.
    Topic(lbt::resolution::ResolveError),
    /// Certificates of the TCP transport.
    Tls(net::tls::TlsError),
    /// The context is one of the process that this one was forked from; a child makes its own.
    Forked(net::fork::Forked),
    /// A source whose messages are encrypted retains them, and would answer who asks for them in clear.
    PlainRetention,
    /// A receiver with hot failover has topic order, not that of arrival.
    FailoverOrder,
    /// The context was closed, or its sources were ended.
    Closed,
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContextError::Io(e) => e.fmt(f),
            ContextError::Config(e) => e.fmt(f),
            ContextError::Topic(e) => e.fmt(f),
            ContextError::Tls(e) => e.fmt(f),
            ContextError::Forked(e) => e.fmt(f),
            ContextError::Closed => Closed.fmt(f),
            ContextError::PlainRetention => f.write_str(
                "late_join of a source whose messages are encrypted takes request_tcp_tls: what is retained would be \
                 sent again in clear",
            ),
            ContextError::FailoverOrder => {
                f.write_str("hot_failover goes with the order `topic` alone, not with `arrival`")
            }
        }
    }
}

impl std::error::Error for ContextError {}

/// What a closed context was asked for. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl Closed {
    /// Whether this is what an error says.
    #[must_use]
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Closed>())
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the context is closed, or its sources were ended")
    }
}

impl std::error::Error for Closed {}

impl From<Closed> for io::Error {
    fn from(closed: Closed) -> io::Error {
        io::Error::new(io::ErrorKind::NotConnected, closed)
    }
}

impl From<io::Error> for ContextError {
    fn from(e: io::Error) -> Self {
        if Closed::is(&e) {
            return ContextError::Closed;
        }
        ContextError::Io(e)
    }
}

impl From<lbt::config::ConfigError> for ContextError {
    fn from(e: lbt::config::ConfigError) -> Self {
        ContextError::Config(e)
    }
}

impl From<lbt::resolution::ResolveError> for ContextError {
    fn from(e: lbt::resolution::ResolveError) -> Self {
        ContextError::Topic(e)
    }
}

impl From<net::tls::TlsError> for ContextError {
    fn from(e: net::tls::TlsError) -> Self {
        ContextError::Tls(e)
    }
}
