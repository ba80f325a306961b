//! Who may take part in a backbone: one place for the keys and certificates of its links and streams.
//!
//! [`BackboneConfig`] becomes options of the messaging library, which does the work: mutual TLS for links, signed and
//! encrypted datagrams for streams. [`exposure`] says of those options what they leave open, whoever has set them.

use std::fmt;

use config::Complaint;
use messaging::{LbtrmConfig, LbtruConfig, MessagingConfig, TcpConfig, TopicResolutionConfig, Transport};

use crate::nats::NatsConfig;

config::choice! {
    /// What carries the backbone.
    pub enum BackboneCarrier {
        /// Reliable multicast, with links over TCP.
        Multicast = "multicast",
        /// Servers of NATS, where there is no multicast.
        Nats = "nats",
    }
}

config::section! {
    /// The backbone between source distributors and P2PSs: what carries it, and its keys and certificates, the same on
    /// all of them. Without keys, everybody who reaches its network takes part (`docs/backbone-security.md`). Changed
    /// files are used within seconds. Keys and certificates of this section are those of multicast; NATS has its own.
    pub struct BackboneConfig {
        /// What carries it.
        carrier: BackboneCarrier = BackboneCarrier::Multicast;
        /// Certificate (PEM) that this daemon shows on links, followed by those between it and its authority. Links are
        /// then encrypted, and both ends have to show one.
        certificate_file: Option<String> = None, length 1..=4_096;
        /// Private key (PEM) of that certificate, not encrypted.
        key_file: Option<String> = None, length 1..=4_096;
        /// Authorities (PEM) of the other daemons' certificates.
        ca_file: Option<String> = None, length 1..=4_096;
        /// Names, DNS names or IP addresses, of which the certificate of each other daemon has to be for one. Without
        /// names a source distributor takes every certificate of the authorities, and a P2PS wants that of a source
        /// distributor to be for its IP address.
        peer_names: Vec<String> = [], length 0..=1_000;
        /// File of the keys with which streams are encrypted: `NUMBER SECRET` a line, the secret in hexadecimal digits.
        /// The first line's key encrypts, a second one's is accepted too.
        encryption_key_file: Option<String> = None, length 1..=4_096;
        /// File of the keys with which packets of streams and topic resolution are signed, of the same form. It is that
        /// of `tickcast resolver` too, unless `resolver.authentication_key_file` is set.
        authentication_key_file: Option<String> = None, length 1..=4_096;
        /// Links are secured and streams are not encrypted on purpose: everybody who reaches the network reads all
        /// updates.
        readable_streams: bool = false;
        /// NATS.
        nats: NatsConfig;
    }
    check = BackboneConfig::check;
}

/// Options of `[messaging]` that `[backbone]` sets.
fn security_options(config: &MessagingConfig) -> [(&'static str, bool); 13] {
    [
        ("request_tcp_tls", config.request_tcp_tls),
        ("tcp.tls_certificate_file", config.tcp.tls_certificate_file.is_some()),
        ("tcp.tls_key_file", config.tcp.tls_key_file.is_some()),
        ("tcp.tls_ca_file", config.tcp.tls_ca_file.is_some()),
        ("tcp.tls_client_ca_file", config.tcp.tls_client_ca_file.is_some()),
        ("tcp.tls_client_certificate_file", config.tcp.tls_client_certificate_file.is_some()),
        ("tcp.tls_client_key_file", config.tcp.tls_client_key_file.is_some()),
        ("tcp.tls_peer_names", !config.tcp.tls_peer_names.is_empty()),
        ("lbtrm.authentication_key_file", config.lbtrm.authentication_key_file.is_some()),
        ("lbtrm.encryption_key_file", config.lbtrm.encryption_key_file.is_some()),
        ("lbtru.authentication_key_file", config.lbtru.authentication_key_file.is_some()),
        ("lbtru.encryption_key_file", config.lbtru.encryption_key_file.is_some()),
        ("resolver.authentication_key_file", config.resolver.authentication_key_file.is_some()),
    ]
}

impl BackboneConfig {
    /// Half a protection is refused: what one way keeps back the other one gives away.
    fn check(&self) -> Result<(), Vec<Complaint>> {
        let files = [&self.certificate_file, &self.key_file, &self.ca_file];
        let set = files.iter().filter(|file| file.is_some()).count();
        let (has_links, encrypts) = (set == files.len(), self.encryption_key_file.is_some());
        let has_keys = encrypts || self.authentication_key_file.is_some();
        let certificate = ["certificate_file", "key_file", "ca_file"];
        let faults = [
            (
                set > 0 && !has_links,
                Complaint::new(
                    certificate,
                    "certificate_file, key_file and ca_file go together: set all or none",
                ),
            ),
            (
                set == 0 && has_keys,
                Complaint::new(
                    ["encryption_key_file", "authentication_key_file"],
                    "streams are protected and links are open: set certificate_file, key_file and ca_file too",
                ),
            ),
            (
                has_links && !encrypts && !self.readable_streams,
                Complaint::new(
                    ["certificate_file", "encryption_key_file", "readable_streams"],
                    "links are protected and streams are not encrypted: set encryption_key_file too, or \
                     readable_streams = true if everybody may read all updates",
                ),
            ),
            (
                self.readable_streams && (encrypts || set == 0),
                Complaint::new(
                    ["readable_streams"],
                    "readable_streams goes with certificate_file, and without encryption_key_file",
                ),
            ),
            (
                set == 0 && !self.peer_names.is_empty(),
                Complaint::new(["peer_names"], "names are those of certificates: set certificate_file too"),
            ),
        ];
        let mut found: Vec<Complaint> = self.check_carrier();
        found.extend(faults.into_iter().filter_map(|(is_found, fault)| is_found.then_some(fault)));
        found.extend(messaging::check_peer_names("peer_names", &self.peer_names));
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// Each carrier has its own protection: what does not protect the one that is chosen is refused.
    fn check_carrier(&self) -> Vec<Complaint> {
        let keys = [
            ("certificate_file", self.certificate_file.is_some()),
            ("key_file", self.key_file.is_some()),
            ("ca_file", self.ca_file.is_some()),
            ("peer_names", !self.peer_names.is_empty()),
            ("encryption_key_file", self.encryption_key_file.is_some()),
            ("authentication_key_file", self.authentication_key_file.is_some()),
            ("readable_streams", self.readable_streams),
        ];
        let servers = self.nats.servers.len();
        match self.carrier {
            BackboneCarrier::Multicast if servers > 0 => vec![Complaint::new(
                ["carrier", "nats.servers"],
                "servers of NATS are given and the carrier is multicast: set carrier = \"nats\" too, or leave them out",
            )],
            BackboneCarrier::Multicast => Vec::new(),
            BackboneCarrier::Nats => {
                let none = Complaint::new(
                    ["carrier", "nats.servers"],
                    "the carrier is NATS and no server is given: set nats.servers = [\"nats://HOST:4222\"]",
                );
                let of_multicast = keys.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| {
                    Complaint::new(
                        ["carrier", key],
                        format!(
                            "{key} is for multicast and protects nothing over NATS: leave it out, and set nats.tls, \
                             nats.ca_file, nats.credentials_file or others of nats"
                        ),
                    )
                });
                (servers == 0).then_some(none).into_iter().chain(of_multicast).collect()
            }
        }
    }

    /// Whether anything is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.certificate_file.is_some()
    }

    /// What of `base` is set beside this, although it is said here: keys of `[messaging]`.
    #[must_use]
    pub fn rivals(&self, base: &MessagingConfig) -> Vec<&'static str> {
        let set = security_options(base).into_iter().filter(|(_, is_set)| *is_set && self.is_set());
        set.map(|(key, _)| key).collect()
    }

    /// The options of a daemon's context: those of `base`, with what is said here.
    #[must_use]
    pub fn applied_to(&self, base: &MessagingConfig) -> MessagingConfig {
        if !self.is_set() {
            return base.clone();
        }
        MessagingConfig {
            request_tcp_tls: true,
            tcp: TcpConfig {
                tls_certificate_file: self.certificate_file.clone(),
                tls_key_file: self.key_file.clone(),
                tls_ca_file: self.ca_file.clone(),
                tls_client_ca_file: self.ca_file.clone(),
                tls_client_certificate_file: self.certificate_file.clone(),
                tls_client_key_file: self.key_file.clone(),
                tls_peer_names: self.peer_names.clone(),
                ..base.tcp.clone()
            },
            lbtrm: LbtrmConfig {
                authentication_key_file: self.authentication_key_file.clone(),
                encryption_key_file: self.encryption_key_file.clone(),
                ..base.lbtrm.clone()
            },
            lbtru: LbtruConfig {
                authentication_key_file: self.authentication_key_file.clone(),
                encryption_key_file: self.encryption_key_file.clone(),
                ..base.lbtru.clone()
            },
            resolver: TopicResolutionConfig {
                authentication_key_file: self.authentication_key_file.clone(),
                ..base.resolver.clone()
            },
            ..base.clone()
        }
    }
}

/// What the options of a context leave open to everybody who reaches the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// A link needs no certificate at one end or at both.
    pub links: bool,
    /// Streams can be read.
    pub readable: bool,
    /// Packets can be forged: with readable streams their contents too, with encrypted ones what disturbs them.
    pub forgeable: bool,
}

impl Exposure {
    /// Whether nothing is.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Exposure { links: false, readable: false, forgeable: false }
    }
}

/// One line for operators: what is open, and the keys that close it.
impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.links && self.readable {
            return f.write_str(
                "the backbone is open: everybody who reaches its network can read all data and take part. Set \
                 backbone.certificate_file, key_file, ca_file, encryption_key_file and authentication_key_file",
            );
        }
        f.write_str("the backbone is open in part:")?;
        let parts = [
            (self.links, "links need no certificate (backbone.certificate_file, key_file, ca_file)"),
            (self.readable, "everybody on its network can read all updates (backbone.encryption_key_file)"),
            (self.forgeable, "packets are not signed (backbone.authentication_key_file)"),
        ];
        let mut separator = " ";
        for (_, part) in parts.into_iter().filter(|(is_open, _)| *is_open) {
            write!(f, "{separator}{part}")?;
            separator = "; ";
        }
        Ok(())
    }
}

/// What a context with these options leaves open. Shared memory is closed: the system says who may open its files.
#[must_use]
pub fn exposure(config: &MessagingConfig) -> Exposure {
    let serves = config.tcp.tls_certificate_file.is_some() && config.tcp.tls_client_ca_file.is_some();
    let asks = config.tcp.tls_ca_file.is_some() && config.tcp.tls_client_certificate_file.is_some();
    let is_mutual = serves || asks;
    let used = config.source_transport.iter().map(|of| of.transport).chain([config.transport]);
    let (mut readable, mut forgeable) = (false, config.resolver.authentication_key_file.is_none());
    for transport in used {
        let (is_encrypted, is_signed) = match transport {
            Transport::LbtRm => {
                (config.lbtrm.encryption_key_file.is_some(), config.lbtrm.authentication_key_file.is_some())
            }
            Transport::LbtRu => {
                (config.lbtru.encryption_key_file.is_some(), config.lbtru.authentication_key_file.is_some())
            }
            Transport::Tcp => (is_mutual, is_mutual),
            Transport::LbtIpc => (true, true),
        };
        readable |= !is_encrypted;
        forgeable |= !is_signed;
    }
    Exposure { links: !(config.request_tcp_tls && is_mutual), readable, forgeable }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    fn links() -> BackboneConfig {
        BackboneConfig {
            certificate_file: text("c"),
            key_file: text("k"),
            ca_file: text("a"),
            ..BackboneConfig::default()
        }
    }

    fn whole() -> BackboneConfig {
        BackboneConfig {
            encryption_key_file: text("e"),
            authentication_key_file: text("s"),
            peer_names: vec!["p2ps.example".to_owned()],
            ..links()
        }
    }

    #[test]
    fn half_a_protection_is_refused_and_says_what_is_missing() {
        let none = BackboneConfig::default;
        let table = [
            (BackboneConfig { key_file: None, ..whole() }, "set all or none"),
            (BackboneConfig { ca_file: text("a"), ..none() }, "set all or none"),
            (links(), "set encryption_key_file too"),
            (BackboneConfig { authentication_key_file: text("s"), ..links() }, "set encryption_key_file too"),
            (BackboneConfig { encryption_key_file: text("e"), ..none() }, "links are open"),
            (BackboneConfig { authentication_key_file: text("s"), ..none() }, "links are open"),
            (BackboneConfig { readable_streams: true, ..whole() }, "without encryption_key_file"),
            (BackboneConfig { readable_streams: true, ..none() }, "goes with certificate_file"),
            (BackboneConfig { peer_names: vec!["a".to_owned()], ..none() }, "set certificate_file too"),
            (
                BackboneConfig { peer_names: vec!["*.example".to_owned()], ..whole() },
                r#"*.example\" is no name"#,
            ),
            (BackboneConfig { peer_names: vec![String::new()], ..whole() }, r#"\"\" is no name"#),
        ];
        for (config, expected) in table {
            let found = config.check().expect_err(expected);
            assert!(format!("{found:?}").contains(expected), "{config:?}: {found:?}");
        }
        let readable = BackboneConfig { readable_streams: true, ..links() };
        let unsigned = BackboneConfig { authentication_key_file: None, ..whole() };
        for config in [none(), whole(), readable, unsigned] {
            assert_eq!(config.check(), Ok(()), "{config:?}");
        }
    }

    #[test]
    fn keys_that_do_not_protect_the_carrier_are_refused() {
        let servers = NatsConfig { servers: vec!["nats://a:4222".to_owned()], ..NatsConfig::default() };
        let nats = |base: BackboneConfig| BackboneConfig {
            carrier: BackboneCarrier::Nats,
            nats: servers.clone(),
            ..base
        };
        assert_eq!(nats(BackboneConfig::default()).check(), Ok(()));
        let found = format!("{:?}", nats(whole()).check().expect_err("keys of multicast"));
        for key in ["certificate_file", "key_file", "ca_file", "peer_names", "encryption_key_file"] {
            assert!(
                found.contains(&format!("{key} is for multicast and protects nothing over NATS")),
                "{found}"
            );
        }
        let none = BackboneConfig { carrier: BackboneCarrier::Nats, ..BackboneConfig::default() };
        assert!(format!("{:?}", none.check()).contains("no server is given"));
        let other = BackboneConfig { nats: servers.clone(), ..BackboneConfig::default() };
        assert!(format!("{:?}", other.check()).contains("the carrier is multicast"));
    }

    #[test]
    fn what_is_set_closes_links_and_every_transport() {
        for transport in [Transport::LbtRm, Transport::LbtRu, Transport::Tcp, Transport::LbtIpc] {
            let base = MessagingConfig { transport, ..MessagingConfig::default() };
            let applied = whole().applied_to(&base);
            assert!(exposure(&applied).is_none(), "{transport:?}");
            assert!(security_options(&applied).iter().all(|(_, is_set)| *is_set), "none is left out");
            assert!(exposure(&base).links && exposure(&base).forgeable);
        }
    }

    #[test]
    fn nothing_set_leaves_the_options_as_they_are() {
        let base = MessagingConfig { linger_us: 7, request_tcp_tls: true, ..MessagingConfig::default() };
        assert_eq!(BackboneConfig::default().applied_to(&base), base);
        assert!(BackboneConfig::default().rivals(&base).is_empty());
        assert_eq!(whole().rivals(&base), ["request_tcp_tls"]);
    }

    #[test]
    fn what_is_open_is_said_with_the_keys_that_close_it() {
        let open = exposure(&MessagingConfig::default()).to_string();
        for part in ["is open:", "certificate_file", "encryption_key_file", "authentication_key_file"] {
            assert!(open.contains(part), "{open}");
        }
        let base = MessagingConfig::default();
        let readable = BackboneConfig { readable_streams: true, ..links() }.applied_to(&base);
        let said = exposure(&readable).to_string();
        assert!(said.contains("in part: everybody on its network can read"), "{said}");
        assert!(said.contains("; packets are not signed"), "{said}");
        // A source distributor's certificate alone lets everybody in.
        let base = whole().applied_to(&base);
        let one_sided = MessagingConfig {
            tcp: TcpConfig { tls_client_ca_file: None, tls_client_certificate_file: None, ..base.tcp },
            ..base
        };
        assert_eq!(exposure(&one_sided), Exposure { links: true, readable: false, forgeable: false });
    }
}
