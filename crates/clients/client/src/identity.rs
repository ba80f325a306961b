//! Who this process says it is.

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};
use std::{env, fmt, fs, io};

/// Who connects: what the blanks of a configuration are filled with, and the password.
///
/// The cores take it as an argument; [`Identity::of_process`] asks the system.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Name of the user, where the configuration names none.
    pub user: String,
    /// Name of this host.
    pub host_name: String,
    /// Address of this host, as text.
    pub ip_address: String,
    /// The password to log in with.
    pub password: Option<String>,
}

impl Identity {
    /// The user that runs the process, name and address of the host, and the first line of `password_file`.
    ///
    /// # Errors
    /// The password file cannot be read; the error names it.
    pub fn of_process(password_file: Option<&str>) -> io::Result<Identity> {
        let host_name = host_name();
        Ok(Identity {
            user: user_name(),
            ip_address: address_of(&host_name).to_string(),
            host_name,
            password: password_file.map(first_line).transpose()?,
        })
    }

    /// `configured`, or the name of the user if that is empty.
    #[must_use]
    pub fn user_or(&self, configured: &str) -> String {
        if configured.is_empty() { self.user.clone() } else { configured.to_owned() }
    }

    /// `configured`, or address and host name if that is empty.
    #[must_use]
    pub fn position_or(&self, configured: &str) -> String {
        if configured.is_empty() {
            format!("{}/{}", self.ip_address, self.host_name)
        } else {
            configured.to_owned()
        }
    }
}

fn user_name() -> String {
    let named =
        ["USER", "LOGNAME"].iter().find_map(|name| env::var(name).ok().filter(|user| !user.is_empty()));
    named.unwrap_or_else(|| "tickcast".to_owned())
}

fn host_name() -> String {
    let known = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let known = known.trim();
    if known.is_empty() { "localhost".to_owned() } else { known.to_owned() }
}

/// The address that the host's own name stands for, as other applications in the field find it.
fn address_of(host_name: &str) -> IpAddr {
    let addresses = (host_name, 0).to_socket_addrs().into_iter().flatten().map(|address| address.ip());
    addresses.into_iter().find(IpAddr::is_ipv4).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

fn first_line(path: &str) -> io::Result<String> {
    let text = fs::read_to_string(path)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot read the password file {path}: {e}")))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("user", &self.user)
            .field("host_name", &self.host_name)
            .field("ip_address", &self.ip_address)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_filled_and_what_is_configured_stays() {
        let identity = Identity {
            user: "ada".into(),
            host_name: "apphost".into(),
            ip_address: "10.1.2.3".into(),
            password: Some("secret".into()),
        };
        assert_eq!((identity.user_or("").as_str(), identity.user_or("bob").as_str()), ("ada", "bob"));
        assert_eq!(identity.position_or(""), "10.1.2.3/apphost");
        assert_eq!(identity.position_or("here"), "here");
        assert!(!format!("{identity:?}").contains("secret"));
    }

    #[test]
    fn the_process_has_a_user_a_host_and_an_address() {
        let identity = Identity::of_process(None).expect("no file is read");
        assert!(!identity.user.is_empty() && !identity.host_name.is_empty());
        assert!(identity.ip_address.parse::<IpAddr>().is_ok(), "{identity:?}");
        let error = Identity::of_process(Some("/nonexistent/password")).expect_err("no such file");
        assert!(error.to_string().contains("/nonexistent/password"));
    }
}
