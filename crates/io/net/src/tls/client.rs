use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;

use super::names::NamedServers;
use super::pem::{authorities, certificates, key, provider, unusable, unusable_pair};
use super::validity::check_dates;
use super::{TlsError, TlsStream, UnixSeconds, Validity};
use crate::Transport;

/// Whom a client trusts and who it is. All files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// Authorities of servers. There is no other trust: the system's authorities are not asked.
    pub ca: PathBuf,
    /// The client's certificate (with those between it and its authority) and its private key, for servers
    /// that ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A client's side of TLS.
#[derive(Clone, Debug)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    /// When its own certificate is valid, and the file of that.
    validity: Option<(PathBuf, Validity)>,
}

impl ClientTls {
    /// Reads the files. Dates are not looked at: [`ClientTls::check_dates`] does.
    ///
    /// # Errors
    /// [`TlsError`]: a file cannot be read or used; it is named.
    pub fn load(files: &ClientFiles) -> Result<ClientTls, TlsError> {
        ClientTls::load_named(files, &[])
    }

    /// The same. A server's certificate has to be for one of `names`, each a DNS name or an IP address, in place of
    /// the host that [`ClientTls::connect`] is told; without names it is that host.
    ///
    /// # Errors
    /// As [`ClientTls::load`], and [`TlsError::HostName`].
    pub fn load_named(files: &ClientFiles, names: &[String]) -> Result<ClientTls, TlsError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(|error| unusable(&files.ca, error))?;
        let roots = authorities(&files.ca)?;
        let builder = if names.is_empty() {
            builder.with_root_certificates(roots)
        } else {
            let verifier = Arc::new(NamedServers::new(roots, names)?);
            builder.dangerous().with_custom_certificate_verifier(verifier)
        };
        let (config, validity) = match &files.identity {
            None => (builder.with_no_client_auth(), None),
            Some((certificate, key_file)) => {
                let chain = certificates(certificate)?;
                let validity = Validity::of_chain(&chain).map(|validity| (certificate.clone(), validity));
                let config = builder
                    .with_client_auth_cert(chain, key(key_file)?)
                    .map_err(|error| unusable_pair(certificate, key_file, error))?;
                (config, validity)
            }
        };
        Ok(ClientTls { config: Arc::new(config), validity })
    }

    /// Whether the client's own certificate, if it has one, is valid at a time.
    ///
    /// # Errors
    /// [`TlsError::Dates`] if it is not.
    pub fn check_dates(&self, now: UnixSeconds) -> Result<(), TlsError> {
        let Some((file, validity)) = &self.validity else { return Ok(()) };
        check_dates(file, Some(*validity), now)
    }

    /// Begins a session on a connected socket, non-blocking. The server's certificate must be for `host`: a
    /// DNS name or an IP address.
    ///
    /// # Errors
    /// [`TlsError::HostName`] if it is neither.
    pub fn connect(&self, socket: TcpStream, host: &str) -> Result<Transport, TlsError> {
        let unknown = || TlsError::HostName(host.to_owned());
        let name = ServerName::try_from(host.to_owned()).map_err(|_| unknown())?;
        let tls = rustls::ClientConnection::new(Arc::clone(&self.config), name).map_err(|_| unknown())?;
        Ok(Transport::Tls(Box::new(TlsStream::new(socket, tls.into()))))
    }
}
