//! `[messaging.tcp]`: TCP sessions, and TLS of all connections.

use std::net::SocketAddr;
use std::time::Duration;

use config::Ipv4Cidr;
use lbt::ordered::OrderedConfig;

use super::strangers::{admits_peer, limit};
use super::{ReceiverBehavior, watch};
use crate::MessagingConfig;

config::section! {
    /// TCP: receivers connect to the source. Certificates are those of direct connections too.
    pub struct TcpConfig {
        /// Lowest TCP port at which a session takes receivers.
        port_low: u16 = 14371, range 1..=65535;
        /// Highest TCP port at which a session takes receivers.
        port_high: u16 = 14390, range 1..=65535;
        /// What a slow receiver means for the others.
        multiple_receiver_behavior: ReceiverBehavior = ReceiverBehavior::Normal;
        /// Bytes that wait for the slowest receiver before sends are refused, or it is
        /// passed over.
        session_maximum_buffer_bytes: u32 = 1_048_576, range 65_536..=268_435_456;
        /// Longest LBMC message; longer ones travel in fragments.
        datagram_max_size_bytes: u32 = 65_535, range 500..=65_535;
        /// Receivers that one TCP session takes.
        maximum_clients: u32 = 1_000, range 1..=60_000;
        /// Those of one address.
        maximum_clients_per_address: u32 = 250, range 1..=60_000;
        /// Connections to one TCP session whose TLS handshake is under way. Beyond it the oldest of the address
        /// that has most of them is closed.
        maximum_handshakes: u32 = 64, range 1..=4_096;
        /// A connection to a TCP session whose TLS handshake takes longer is closed. Until then it is no
        /// receiver, and no message waits for it. The same holds for direct connections (`request_tcp_tls`).
        handshake_timeout_us: u64 = 5_000_000, range 1_000..=600_000_000;
        /// How long a TCP session whose buffer is full waits for a receiver that takes less than 32 KiB. It is
        /// passed over then, and told what it lost, until it takes that much again; 0 for never.
        receiver_stopped_timeout_us: u64 = 5_000_000, range 0..=3_600_000_000;
        /// Networks from which receivers may connect to TCP sessions; all if there are none.
        allowed_networks: Vec<Ipv4Cidr> = [], length 0..=1_000;
        /// A TCP session's peer that answers nothing for so long is taken to have vanished, and so is a receiver
        /// that takes nothing for so long of what waits for it; whole seconds, two at least, 0 for never.
        activity_timeout_us: u64 = 60_000_000, range 0..=32_000_000_000;
        /// Certificate (PEM) of sources' TCP sessions, which are then encrypted; the key goes with it.
        tls_certificate_file: Option<String> = None, length 1..=4_096;
        /// Private key (PEM) of that certificate.
        tls_key_file: Option<String> = None, length 1..=4_096;
        /// Authorities (PEM) of sources whose TCP sessions are encrypted; receivers then take no others.
        tls_ca_file: Option<String> = None, length 1..=4_096;
        /// Authorities (PEM) of receivers of sources' encrypted TCP sessions, who then have to show a certificate;
        /// without it they are not asked for one.
        tls_client_ca_file: Option<String> = None, length 1..=4_096;
        /// Certificate (PEM) that this process shows to sources that ask for one; the key goes with it.
        tls_client_certificate_file: Option<String> = None, length 1..=4_096;
        /// Private key (PEM) of that certificate.
        tls_client_key_file: Option<String> = None, length 1..=4_096;
        /// Names, DNS names or IP addresses, of which the certificate of every peer has to be for one: of those who
        /// connect, if they are asked for one, and of sources and request ports, in place of the address at which they
        /// are reached. Without names the authority is enough for those who connect.
        tls_peer_names: Vec<String> = [], length 0..=1_000;
        /// A session to which no connection is made in so long, TLS included, is given up, and tried again
        /// later.
        connect_timeout_us: u64 = 10_000_000, range 1_000..=600_000_000;
    }
}

impl TcpConfig {
    /// Whether a receiver may connect to our sessions from there.
    pub(crate) fn admits_client(&self, peer: SocketAddr) -> bool {
        admits_peer(&self.allowed_networks, peer)
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_micros(self.connect_timeout_us)
    }

    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_micros(self.handshake_timeout_us)
    }

    /// How long a full session waits for a receiver that has stopped; none for ever.
    pub(crate) fn stopped_timeout(&self) -> Option<Duration> {
        limit(self.receiver_stopped_timeout_us)
    }

    /// Lets a connection of a session notice that its peer has vanished.
    pub(crate) fn watch(&self, stream: &std::net::TcpStream) -> std::io::Result<()> {
        watch(stream, self.activity_timeout_us)
    }

    /// Complaints about certificates that do not go together; their keys are those of `[messaging]`.
    pub(super) fn check_certificates(&self, encrypts_requests: bool) -> Vec<config::Complaint> {
        let has = [
            ("tcp.tls_certificate_file", self.tls_certificate_file.is_some()),
            ("tcp.tls_key_file", self.tls_key_file.is_some()),
            ("tcp.tls_ca_file", self.tls_ca_file.is_some()),
            ("tcp.tls_client_ca_file", self.tls_client_ca_file.is_some()),
            ("tcp.tls_client_certificate_file", self.tls_client_certificate_file.is_some()),
            ("tcp.tls_client_key_file", self.tls_client_key_file.is_some()),
        ];
        let [certificate, key, ca, client_ca, client_certificate, client_key] = has;
        let complaint = |keys: [&str; 2], text: &str| Some(config::Complaint::new(keys, text));
        let twins = [(certificate, key), (client_certificate, client_key)];
        let alone = twins.into_iter().filter(|(one, other)| one.1 != other.1);
        let alone = alone
            .filter_map(|(one, other)| complaint([one.0, other.0], "a certificate and its key go together"));
        let needs = [
            (client_ca, certificate, "only who shows a certificate can ask for one"),
            (client_certificate, ca, "only to sources of known authorities a certificate is shown"),
        ];
        let missing = needs.into_iter().filter(|(what, needed, _)| what.1 && !needed.1);
        let missing = missing.filter_map(|(what, needed, text)| complaint([what.0, needed.0], text));
        let is_bare = encrypts_requests && !certificate.1 && !ca.1;
        let bare = is_bare.then(|| {
            let keys = ["request_tcp_tls", certificate.0, ca.0];
            config::Complaint::new(
                keys,
                "encrypted direct connections need a certificate, authorities, or both",
            )
        });
        alone.chain(missing).chain(bare).collect()
    }
}

/// A complaint about the names of peers under a key, if no certificate can be for one of them.
#[must_use]
pub fn check_peer_names(key: &str, names: &[String]) -> Option<config::Complaint> {
    let wrong = names.iter().find(|name| !net::tls::is_peer_name(name))?;
    let text =
        format!("{wrong:?} is no name that a certificate can be for: a DNS name without *, or an IP address");
    Some(config::Complaint::new([key], text))
}

impl MessagingConfig {
    /// What a sender of a TCP session goes by.
    #[must_use]
    pub fn tcp_source(&self) -> OrderedConfig {
        let standard = OrderedConfig::default();
        OrderedConfig {
            datagram_max_size: self.tcp.datagram_max_size_bytes,
            maximum_message_size: self.message_max(standard.maximum_message_size),
            ..standard
        }
    }
}
