//! The part of the configuration that is about NATS.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};
use config::Complaint;

use super::jetstream::{Bounds, Recovery};
use super::link::Times;
use crate::Notice;

config::section! {
    /// The backbone over servers of NATS. All daemons of a system have the same prefix and reach the same cluster
    /// (`docs/guides/nats.md`).
    pub struct NatsConfig {
        /// Servers, as `nats://HOST:PORT` or `tls://HOST:PORT`. One of them is tried after the other, and the others of
        /// their cluster are found by themselves.
        servers: Vec<String> = [], length 0..=64;
        /// What all subjects begin with: systems that share a cluster have different ones.
        prefix: String = "tickcast", length 1..=100;
        /// User, with `password_file`.
        user: Option<String> = None, length 1..=255;
        /// File with the password of that user; a line break at its end does not count.
        password_file: Option<String> = None, length 1..=4_096;
        /// File with a token.
        token_file: Option<String> = None, length 1..=4_096;
        /// File with the seed of an NKey.
        nkey_file: Option<String> = None, length 1..=4_096;
        /// File of credentials (JWT and seed), as `nsc` writes it.
        credentials_file: Option<String> = None, length 1..=4_096;
        /// Connections are encrypted, and a server that does not do that is refused. So they are with `ca_file`,
        /// `certificate_file` or a server `tls://` too.
        tls: bool = false;
        /// Authorities (PEM) of the servers' certificates; those of the host if it is not given.
        ca_file: Option<String> = None, length 1..=4_096;
        /// Certificate (PEM) that this daemon shows to servers.
        certificate_file: Option<String> = None, length 1..=4_096;
        /// Private key (PEM) of that certificate, not encrypted.
        key_file: Option<String> = None, length 1..=4_096;
        /// An end of a stream or link that has said nothing for so long says that it lives.
        keep_alive_ms: u32 = 500, range 10..=60_000;
        /// A stream or link of which nothing was heard for so long is over. At least three times `keep_alive_ms`.
        timeout_ms: u32 = 3_000, range 100..=600_000;
        /// A server of which nothing was heard for so long, though it was asked, is left for another one: more than a
        /// busy server takes to answer. An attempt to connect has this time too, but 2 s at least.
        server_timeout_ms: u32 = 2_000, range 300..=600_000;
        /// Bytes that may wait in all links together, at most 134217728 of them in one. If they are more, the link with
        /// the most of them ends.
        links_waiting_bytes: u64 = 536_870_912, range 67_108_864..=1_099_511_627_776;
        /// Longest message of NATS that is made. Longer messages of the backbone go in pieces; if the server takes less,
        /// the pieces are as short as it wants them.
        packet_bytes: u32 = 65_536, range 1_024..=1_048_576;
        /// Repair of what is lost, from a stream of JetStream.
        jetstream: JetStreamConfig;
    }
    check = NatsConfig::check;
}

config::section! {
    /// A P2PS that misses packets fetches them from a stream of JetStream before it tells a gap. Operators create the
    /// stream (`docs/guides/nats.md`); source distributors do not use these keys.
    pub struct JetStreamConfig {
        /// JetStream's name of the stream that stores `PREFIX.directory` and `PREFIX.service.*`. Without it nothing is
        /// fetched.
        stream: Option<String> = None, length 1..=255;
        /// So long packets that are missing are waited for. What is missing after it is told as a gap. It is less than
        /// `p2ps.silence_timeout_ms`, since the stream of the service is silent meanwhile.
        wait_ms: u32 = 300, range 10..=60_000;
        /// Bytes of the packets that may wait behind those that are missing. Of more, the stream of a service with the
        /// most of them waits no longer.
        buffer_bytes: u64 = 67_108_864, range 1_048_576..=17_179_869_184;
        /// Requests to JetStream that may be under way.
        requests: u32 = 32, range 1..=1_024;
    }
    check = JetStreamConfig::check;
}

impl JetStreamConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        let is_name =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        match &self.stream {
            Some(name) if !is_name(name) => Err(vec![Complaint::new(
                ["stream"],
                format!("{name:?} is no name of a stream here: letters, digits, - and _"),
            )]),
            _ => Ok(()),
        }
    }

    /// What fetches packets, if a stream is given.
    pub(super) fn recovery(&self) -> Option<Recovery> {
        let bounds = Bounds {
            wait: Duration::from_millis(self.wait_ms.into()),
            requests: self.requests as usize,
            held_bytes: usize::try_from(self.buffer_bytes).unwrap_or(usize::MAX),
        };
        Some(Recovery::new(self.stream.clone()?, bounds))
    }
}

/// Bytes of the longest file with a secret.
const SECRET_BYTES_MAX: u64 = 64 << 10;
/// The client of NATS asks a silent server so many times, and leaves it at the next one.
const PINGS: u32 = 3;
/// The least time for an attempt to connect.
const CONNECT: Duration = Duration::from_secs(2);
/// Packets that wait for the socket of NATS inside its client.
const CLIENT_PACKETS: usize = 64;

impl NatsConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        let mut found: Vec<Complaint> = self.servers.iter().filter_map(|server| fault_of(server)).collect();
        let is_token = |token: &str| {
            !token.is_empty()
                && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if !self.prefix.split('.').all(is_token) {
            let text = format!(
                "{:?} cannot begin a subject: words of letters, digits, - and _ with a dot between each two",
                self.prefix
            );
            found.push(Complaint::new(["prefix"], text));
        }
        let ways = [&self.user, &self.token_file, &self.nkey_file, &self.credentials_file];
        let faults = [
            (
                self.user.is_some() != self.password_file.is_some(),
                Complaint::new(
                    ["user", "password_file"],
                    "user and password_file go together: set both or neither",
                ),
            ),
            (
                ways.into_iter().flatten().count() > 1,
                Complaint::new(
                    ["user", "token_file", "nkey_file", "credentials_file"],
                    "user, token_file, nkey_file and credentials_file exclude each other: set one of them",
                ),
            ),
            (
                self.certificate_file.is_some() != self.key_file.is_some(),
                Complaint::new(
                    ["certificate_file", "key_file"],
                    "certificate_file and key_file go together: set both or neither",
                ),
            ),
            (
                self.timeout_ms < 3 * self.keep_alive_ms,
                Complaint::new(
                    ["timeout_ms", "keep_alive_ms"],
                    "timeout_ms is at least three times keep_alive_ms: a single packet that is late ends nothing",
                ),
            ),
        ];
        found.extend(faults.into_iter().filter_map(|(is_found, fault)| is_found.then_some(fault)));
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// Whether connections are encrypted.
    fn is_encrypted(&self) -> bool {
        let of_servers = !self.servers.is_empty() && self.servers.iter().all(|s| s.starts_with("tls://"));
        self.tls || self.ca_file.is_some() || self.certificate_file.is_some() || of_servers
    }

    /// Whether this daemon proves to servers who it is.
    fn is_known(&self) -> bool {
        let ways =
            [&self.user, &self.token_file, &self.nkey_file, &self.credentials_file, &self.certificate_file];
        ways.into_iter().any(Option::is_some)
    }

    fn server_timeout(&self) -> Duration {
        Duration::from_millis(self.server_timeout_ms.into())
    }

    pub(super) fn times(&self) -> Times {
        Times {
            keep_alive: Duration::from_millis(self.keep_alive_ms.into()),
            timeout: Duration::from_millis(self.timeout_ms.into()),
        }
    }

    pub(super) fn addresses(&self) -> Result<Vec<ServerAddr>, String> {
        self.servers
            .iter()
            .map(|server| server.parse().map_err(|error| format!("{server:?}: {error}")))
            .collect()
    }

    /// What a connection is made with. The files are read now.
    pub(super) fn options(&self, name: &str) -> Result<ConnectOptions, String> {
        let mut options = ConnectOptions::new()
            .name(name)
            .no_echo()
            .require_tls(self.is_encrypted())
            .client_capacity(CLIENT_PACKETS)
            .read_buffer_capacity(u16::MAX)
            .connection_timeout(self.server_timeout().max(CONNECT))
            .ping_interval(self.server_timeout() / PINGS)
            .max_reconnects(None)
            .reconnect_delay_callback(|attempts| {
                Duration::from_millis(if attempts <= 1 { 0 } else { (20 << attempts.min(6)) as u64 })
            });
        if let (Some(user), Some(file)) = (&self.user, &self.password_file) {
            options = options.user_and_password(user.clone(), secret(file)?);
        }
        if let Some(file) = &self.token_file {
            options = options.token(secret(file)?);
        }
        if let Some(file) = &self.nkey_file {
            options = options.nkey(secret(file)?);
        }
        if let Some(file) = &self.credentials_file {
            // Its last line counts only with the break behind it.
            let text = secret(file)? + "\n";
            options = options.credentials(&text).map_err(|error| format!("{file}: {error}"))?;
        }
        if let Some(file) = &self.ca_file {
            check_readable(file)?;
            options = options.add_root_certificates(file.into());
        }
        if let (Some(certificate), Some(key)) = (&self.certificate_file, &self.key_file) {
            check_readable(certificate)?;
            check_readable(key)?;
            options = options.add_client_certificate(certificate.into(), key.into());
        }
        Ok(options)
    }

    /// What is to be said of files of secrets that others can open.
    pub(super) fn exposed_files(&self) -> Vec<Notice> {
        let files =
            [&self.password_file, &self.token_file, &self.nkey_file, &self.credentials_file, &self.key_file];
        let exposed = files.into_iter().flatten().filter_map(|file| net::exposure_of(Path::new(file)));
        exposed.map(|text| Notice { is_fault: true, text }).collect()
    }

    /// What a backbone with this configuration leaves open; `None` if servers are proved to and connections are
    /// encrypted.
    #[must_use]
    pub fn exposure(&self) -> Option<NatsExposure> {
        let exposure = NatsExposure { readable: !self.is_encrypted(), unknown: !self.is_known() };
        (exposure.readable || exposure.unknown).then_some(exposure)
    }
}

/// What a backbone over NATS leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatsExposure {
    /// Connections are not encrypted.
    pub readable: bool,
    /// Daemons prove nothing to the servers.
    pub unknown: bool,
}

/// One line for operators: what is open, and the keys that close it.
impl fmt::Display for NatsExposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the backbone is open:")?;
        let parts = [
            (self.readable, " connections to NATS are not encrypted (backbone.nats.tls, ca_file)"),
            (
                self.unknown,
                " daemons do not prove who they are, so the servers let in everybody (backbone.nats.user, token_file, \
                 nkey_file, credentials_file, certificate_file)",
            ),
        ];
        let mut separator = "";
        for (_, part) in parts.into_iter().filter(|(is_open, _)| *is_open) {
            write!(f, "{separator}{part}")?;
            separator = ";";
        }
        Ok(())
    }
}

/// What is wrong with the address of a server.
fn fault_of(server: &str) -> Option<Complaint> {
    let complain = |text: String| Some(Complaint::new(["servers"], text));
    if !["nats://", "tls://"].iter().any(|scheme| server.starts_with(scheme)) {
        return complain(format!("{server:?} is no server: nats://HOST:PORT or tls://HOST:PORT"));
    }
    match server.parse::<ServerAddr>() {
        Err(error) => complain(format!("{server:?} is no server: {error}")),
        Ok(address) if address.host().is_empty() => complain(format!("{server:?} is no server: it has no host")),
        Ok(address) if address.has_user_pass() || address.username().is_some() => complain(
            "the address of a server has a secret in it, which `config show` and logs would show: set user and \
             password_file, or token_file"
                .to_owned(),
        ),
        Ok(address) if address.port() == 0 => {
            complain(format!("{server:?} is no server: port 0, 1 to 65535 are possible"))
        }
        Ok(address) if !matches!(address.clone().into_inner().path(), "" | "/") => {
            complain(format!("{server:?} is no server: nothing may follow HOST:PORT"))
        }
        Ok(_) => None,
    }
}

fn secret(file: &str) -> Result<String, String> {
    let bytes =
        net::small_file::read(Path::new(file), SECRET_BYTES_MAX).map_err(|e| format!("{file}: {e}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{file}: it is no text"))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(format!("{file}: it is empty")),
        text => Ok(text.to_owned()),
    }
}

fn check_readable(file: &str) -> Result<(), String> {
    net::small_file::read(Path::new(file), 1 << 20).map(drop).map_err(|error| format!("{file}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn what_does_not_go_together_is_refused_and_says_what_to_do() {
        let base = || NatsConfig { servers: vec!["nats://a:4222".to_owned()], ..NatsConfig::default() };
        let server = |server: &str| NatsConfig { servers: vec![server.to_owned()], ..base() };
        let prefix = |prefix: &str| NatsConfig { prefix: prefix.to_owned(), ..base() };
        let table = [
            (server("a:4222"), "nats://HOST:PORT or tls://HOST:PORT"),
            (server("ws://a:80"), "nats://HOST:PORT or tls://HOST:PORT"),
            (server("nats://"), "is no server"),
            (server("nats://a:0"), "port 0, 1 to 65535 are possible"),
            (server("nats://a:4222/b"), "nothing may follow HOST:PORT"),
            (server("nats://u:secret@a"), "set user and password_file"),
            (server("nats://token@a"), "or token_file"),
            (prefix("a b"), "cannot begin a subject"),
            (prefix("a..b"), "cannot begin a subject"),
            (prefix("a.>"), "cannot begin a subject"),
            (NatsConfig { user: text("u"), ..base() }, "set both or neither"),
            (NatsConfig { password_file: text("p"), ..base() }, "set both or neither"),
            (NatsConfig { key_file: text("p"), ..base() }, "set both or neither"),
            (NatsConfig { token_file: text("t"), nkey_file: text("n"), ..base() }, "set one of them"),
            (NatsConfig { keep_alive_ms: 500, timeout_ms: 1_499, ..base() }, "at least three times"),
        ];
        for (config, expected) in table {
            let found = format!("{:?}", config.check().expect_err(expected));
            assert!(found.contains(expected), "{config:?}: {found}");
            assert!(!found.contains("secret@"), "{found}");
        }
        for config in [base(), prefix("prod.eu-1"), server("tls://a"), NatsConfig::default()] {
            assert_eq!(config.check(), Ok(()), "{config:?}");
        }
    }

    #[test]
    fn a_name_that_no_stream_has_is_refused() {
        let with = |name: &str| JetStreamConfig { stream: text(name), ..JetStreamConfig::default() };
        for name in ["a.b", "a b", "a*", ">", "a/b", "\u{e9}"] {
            let found = format!("{:?}", with(name).check().expect_err(name));
            assert!(found.contains("letters, digits, - and _"), "{found}");
        }
        assert_eq!((with("TICKCAST-1_a").check(), JetStreamConfig::default().check()), (Ok(()), Ok(())));
        assert!(with("TICKCAST").recovery().is_some() && JetStreamConfig::default().recovery().is_none());
    }

    #[test]
    fn what_is_open_is_said_with_the_keys_that_close_it() {
        let open = NatsConfig::default().exposure().expect("all of it").to_string();
        assert!(
            open.contains("not encrypted (backbone.nats.tls") && open.contains("; daemons do not"),
            "{open}"
        );
        let known = NatsConfig { token_file: text("t"), ..NatsConfig::default() };
        assert_eq!(known.exposure(), Some(NatsExposure { readable: true, unknown: false }));
        assert_eq!(NatsConfig { tls: true, ..known }.exposure(), None);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let refused = |config: NatsConfig| config.options("x").map(drop).expect_err("refused");
        let config = NatsConfig { token_file: text("/nowhere/token"), ..NatsConfig::default() };
        assert!(refused(config).starts_with("/nowhere/token: "));
        let config = NatsConfig { token_file: text("/dev/null"), ..NatsConfig::default() };
        assert_eq!(refused(config), "/dev/null: it is no regular file");
        let config = NatsConfig { ca_file: text("/nowhere/ca"), ..NatsConfig::default() };
        assert!(refused(config).starts_with("/nowhere/ca: "));
    }
}
