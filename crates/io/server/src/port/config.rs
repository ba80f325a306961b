use config::Complaint;
use net::tls::ServerFiles;

use crate::TlsPort;

config::choice! {
    /// Whether clients of an encrypted port show a certificate.
    pub enum ClientCertificates {
        /// They are not asked for one.
        None = "none",
        /// They are asked for one and served without it too; one of an unknown authority is refused.
        Optional = "optional",
        /// They are asked for one and refused without it.
        Required = "required",
    }
}

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
        /// PEM file of the authorities of clients, by one of which their certificates have to be.
        client_ca_file: Option<String> = None, length 1..=4096;
        /// Whether clients show a certificate. Without this it is required if client_ca_file is set, and not asked
        /// for otherwise.
        client_certificates: Option<ClientCertificates> = None;
    }
    check = TlsConfig::check;
}

impl TlsConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        if self.client_ca_file.is_some() || self.mode() == ClientCertificates::None {
            return Ok(());
        }
        let keys = ["client_certificates", "client_ca_file"];
        Err(vec![Complaint::new(
            keys,
            "certificates of clients are judged by client_ca_file, which is not set",
        )])
    }

    fn mode(&self) -> ClientCertificates {
        let is_required = self.client_ca_file.is_some();
        let by_file = if is_required { ClientCertificates::Required } else { ClientCertificates::None };
        self.client_certificates.unwrap_or(by_file)
    }

    fn clients(&self) -> net::tls::ClientCertificates {
        use net::tls::ClientCertificates as Clients;
        match (self.mode(), self.client_ca_file.clone().map(Into::into)) {
            (ClientCertificates::None, _) | (_, None) => Clients::NotAsked,
            (ClientCertificates::Optional, Some(file)) => Clients::Optional(file),
            (ClientCertificates::Required, Some(file)) => Clients::Required(file),
        }
    }

    /// The port as it is to be opened.
    #[must_use]
    pub fn to_port(&self) -> TlsPort {
        TlsPort {
            port: self.port,
            files: ServerFiles {
                certificate: self.certificate_file.clone().into(),
                key: self.key_file.clone().into(),
                clients: self.clients(),
            },
        }
    }
}

/// What the section of each protocol says of its port itself.
macro_rules! port_settings {
    ($section:ty) => {
        impl $section {
            /// The ports to open; 0 for any free one in place of the plain one.
            fn ports(&self, port: u16) -> $crate::Ports {
                let tls = self.tls.as_ref().map($crate::TlsConfig::to_port);
                $crate::Ports {
                    interface: self.interface,
                    port,
                    tls,
                    unsent_bytes_max: self.unsent_max_bytes,
                }
            }

            /// What the port allows, of whose connections `read_bytes` are taken at a time.
            fn limits(&self, read_bytes: usize) -> $crate::Limits {
                $crate::Limits {
                    connections_max: self.connections_max as usize,
                    connections_per_address_max: self.connections_per_address_max as usize,
                    login_timeout: std::time::Duration::from_millis(self.login_timeout_ms.into()),
                    read_bytes,
                    backlogs_bytes_max: self.backlogs_max_bytes,
                }
            }
        }
    };
}

pub(crate) use port_settings;

#[cfg(test)]
mod tests {
    use net::tls::ClientCertificates as Clients;

    use super::*;

    fn load(more: &str) -> Result<Clients, String> {
        let text = format!("port = 1\ncertificate_file = \"c\"\nkey_file = \"k\"\n{more}");
        let loaded = config::Loader::new::<TlsConfig>().file("tls.toml", text).load();
        loaded.map(|loaded| loaded.value.to_port().files.clients).map_err(|errors| errors.to_string())
    }

    #[test]
    fn the_declaration_is_sound() {
        assert_eq!(config::audit::<TlsConfig>(), Vec::<String>::new());
    }

    #[test]
    fn certificates_of_clients_are_required_where_their_authorities_are_named_unless_told_otherwise() {
        let ca = "client_ca_file = \"ca\"\n";
        let mode = |mode: &str| load(&format!("{ca}client_certificates = \"{mode}\"\n"));
        assert_eq!(load(""), Ok(Clients::NotAsked));
        assert_eq!(load(ca), Ok(Clients::Required("ca".into())));
        assert_eq!(mode("none"), Ok(Clients::NotAsked));
        assert_eq!(mode("optional"), Ok(Clients::Optional("ca".into())));
        assert_eq!(mode("required"), Ok(Clients::Required("ca".into())));
    }

    #[test]
    fn certificates_are_not_asked_for_without_authorities_to_judge_them_by() {
        for mode in ["optional", "required"] {
            let error = load(&format!("client_certificates = \"{mode}\"\n")).expect_err("no file");
            assert!(error.contains("client_ca_file, which is not set"), "{error}");
        }
        assert_eq!(load("client_certificates = \"none\"\n"), Ok(Clients::NotAsked));
    }
}
