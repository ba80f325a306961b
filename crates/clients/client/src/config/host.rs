//! Where a server listens.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A host, by name or address, and a port: `ads1:14002`, `10.1.2.3:14002`, `[::1]:14002`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    host: String,
    port: u16,
}

/// Why a text is no [`HostPort`].
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostPortError {
    /// There is no `:` with a port behind it.
    NoPort,
    /// What stands behind the last `:` is no port.
    BadPort,
    /// Nothing stands before the port.
    NoHost,
    /// An IPv6 address without brackets.
    NoBrackets,
}

impl HostPort {
    /// A host and a port. An IPv6 address has no brackets here.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> HostPort {
        HostPort { host: host.into(), port }
    }

    /// Name or address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address, if the host is one and no name.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, self.port))
    }
}

impl FromStr for HostPort {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<HostPort, HostPortError> {
        let (host, port) = text.rsplit_once(':').ok_or(HostPortError::NoPort)?;
        let port = port.parse::<u16>().ok().filter(|port| *port > 0).ok_or(HostPortError::BadPort)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        match bare.unwrap_or(host) {
            "" => Err(HostPortError::NoHost),
            host if bare.is_none() && host.contains(':') => Err(HostPortError::NoBrackets),
            host => Ok(HostPort::new(host, port)),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for HostPortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HostPortError::NoPort => "a port must follow, as in localhost:14002",
            HostPortError::BadPort => "the port must be a number from 1 to 65535",
            HostPortError::NoHost => "a host must stand before the port",
            HostPortError::NoBrackets => "an IPv6 address needs brackets, as in [::1]:14002",
        })
    }
}

impl fmt::Debug for HostPortError {
    /// As it is shown: `main` prints the error that it returns so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for HostPortError {}

config::text_type!(HostPort, "a host and port", "host and port", example "localhost:14002");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_is_shown() {
        for text in ["localhost:14002", "10.1.2.3:1", "[::1]:65535", "ads-1.example.org:14003"] {
            let host: HostPort = text.parse().expect("a host and port");
            assert_eq!(host.to_string(), text);
        }
        assert_eq!("[::1]:14002".parse::<HostPort>().expect("an address").host(), "::1");
    }

    #[test]
    fn an_address_is_told_from_a_name() {
        for (text, is_address) in
            [("10.1.2.3:1", true), ("[::1]:2", true), ("localhost:3", false), ("10.1:4", false)]
        {
            let host: HostPort = text.parse().expect("a host and port");
            assert_eq!(
                host.address().map(|address| address.to_string()),
                is_address.then(|| text.to_owned())
            );
        }
    }

    #[test]
    fn what_is_no_host_and_port_is_refused_with_the_reason() {
        for (text, error) in [
            ("localhost", HostPortError::NoPort),
            ("", HostPortError::NoPort),
            ("localhost:", HostPortError::BadPort),
            ("localhost:0", HostPortError::BadPort),
            ("localhost:65536", HostPortError::BadPort),
            (":14002", HostPortError::NoHost),
            ("[]:14002", HostPortError::NoHost),
            ("::1:14002", HostPortError::NoBrackets),
        ] {
            assert_eq!(text.parse::<HostPort>(), Err(error), "{text}");
        }
    }
}
