use net::tls::{ClientCertificates, ClientFiles, ClientTls, ServerFiles, ServerTls};

use crate::MessagingConfig;
use crate::error::ContextError;

/// The certificates of the TCP transport.
pub(crate) struct Tls {
    /// Of our sources; without one their sessions are plain.
    pub(crate) server: Option<ServerTls>,
    /// Of sources that we receive; without it they are taken to be plain.
    pub(crate) client: Option<ClientTls>,
}

impl Tls {
    pub(crate) fn load(config: &MessagingConfig) -> Result<Tls, ContextError> {
        let files = (&config.transport_tcp_tls_certificate_file, &config.transport_tcp_tls_key_file);
        let server = match files {
            (Some(certificate), Some(key)) => Some(ServerTls::load(ServerFiles {
                certificate: certificate.into(),
                key: key.into(),
                clients: ClientCertificates::NotAsked,
            })?),
            _ => None,
        };
        let client = match &config.transport_tcp_tls_ca_file {
            Some(ca) => Some(ClientTls::load(&ClientFiles { ca: ca.into(), identity: None })?),
            None => None,
        };
        Ok(Tls { server, client })
    }
}
