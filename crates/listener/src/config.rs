use net::tls::ServerFiles;

use crate::TlsPort;

config::section! {
    /// A port on which connections are encrypted, with TLS 1.3 or 1.2. Changed files are used within seconds, for
    /// new connections.
    pub struct TlsConfig {
        /// The port. If it is the port of plain connections, that one takes encrypted ones alone.
        port: u16, required;
        /// PEM file of the server's certificate, followed by those between it and its authority.
        certificate_file: String, required, length 1..=4096;
        /// PEM file of the certificate's private key, not encrypted.
        key_file: String, required, length 1..=4096;
        /// PEM file of the authorities of clients. With it clients need a certificate of one of them.
        client_ca_file: Option<String> = None, length 1..=4096;
    }
}

impl TlsConfig {
    /// The port as it is to be opened.
    #[must_use]
    pub fn to_port(&self) -> TlsPort {
        TlsPort {
            port: self.port,
            files: ServerFiles {
                certificate: self.certificate_file.clone().into(),
                key: self.key_file.clone().into(),
                client_ca: self.client_ca_file.clone().map(Into::into),
            },
        }
    }
}
