//! The certificates of a context: of its TCP sessions, and of its direct connections where these are encrypted.

use net::tls::{ClientCertificates, ClientFiles, ClientTls, ServerFiles, ServerTls};

use crate::MessagingConfig;
use crate::error::ContextError;

/// Both ends of TLS, as far as the configuration has them.
pub(crate) struct Tls {
    /// Of our sources and of the request port; without one their connections are plain.
    pub(crate) server: Option<ServerTls>,
    /// Of sources that we receive and of ports that we connect to; without it they are taken to be plain.
    pub(crate) client: Option<ClientTls>,
}

impl Tls {
    pub(crate) fn load(config: &MessagingConfig) -> Result<Tls, ContextError> {
        Ok(Tls { server: Tls::server(config)?, client: Tls::client(config)? })
    }

    /// What its files say now.
    pub(crate) fn server(config: &MessagingConfig) -> Result<Option<ServerTls>, ContextError> {
        let files = (&config.tcp.tls_certificate_file, &config.tcp.tls_key_file);
        let (Some(certificate), Some(key)) = files else { return Ok(None) };
        let names = &config.tcp.tls_peer_names;
        let clients = match &config.tcp.tls_client_ca_file {
            None => ClientCertificates::NotAsked,
            Some(ca) if names.is_empty() => ClientCertificates::Required(ca.into()),
            Some(ca) => ClientCertificates::Named(ca.into(), names.clone()),
        };
        let files = ServerFiles { certificate: certificate.into(), key: key.into(), clients };
        Ok(Some(ServerTls::load(files)?))
    }

    /// The same.
    pub(crate) fn client(config: &MessagingConfig) -> Result<Option<ClientTls>, ContextError> {
        let Some(ca) = &config.tcp.tls_ca_file else { return Ok(None) };
        let own = (&config.tcp.tls_client_certificate_file, &config.tcp.tls_client_key_file);
        let identity = match own {
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            _ => None,
        };
        let files = ClientFiles { ca: ca.into(), identity };
        Ok(Some(ClientTls::load_named(&files, &config.tcp.tls_peer_names)?))
    }
}
