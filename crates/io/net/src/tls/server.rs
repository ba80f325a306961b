use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};

use super::names::NamedClients;
use super::pem::{authorities, certificates, key, provider, unusable, unusable_pair};
use super::validity::check_dates;
use super::{TlsError, TlsStream, UnixSeconds, Validity};
use crate::{FileStamp, Transport};

/// Where a server's certificates are. All files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// The server's certificate, followed by those between it and its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate, not encrypted.
    pub key: PathBuf,
    /// What clients have to show.
    pub clients: ClientCertificates,
}

/// Whether clients are asked for a certificate, and by whose authority it has to be. One of another authority is
/// refused wherever certificates are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not asked.
    NotAsked,
    /// They are asked, and served without one too. The file names the authorities.
    Optional(PathBuf),
    /// They are asked, and refused without one. The file names the authorities.
    Required(PathBuf),
    /// The same, and the certificate has to be for one of these names, each a DNS name or an IP address.
    Named(PathBuf, Vec<String>),
}

/// A server's side of TLS: what its files say, as of the last [`ServerTls::refresh`].
#[derive(Debug)]
pub struct ServerTls {
    files: ServerFiles,
    config: Arc<ServerConfig>,
    /// Of the files when they were read last, whether they could be used or not.
    stamps: Vec<Option<FileStamp>>,
    /// Of what is in use; `None` if its dates cannot be read.
    validity: Option<Validity>,
    /// When what was read last becomes valid, if it was not yet.
    valid_from: Option<UnixSeconds>,
}

impl ServerTls {
    /// Reads the files. Dates are not looked at: [`ServerTls::check_dates`] does.
    ///
    /// # Errors
    /// [`TlsError`]: a file cannot be read or used; it is named.
    pub fn load(files: ServerFiles) -> Result<ServerTls, TlsError> {
        let stamps = files.stamps();
        let (config, validity) = files.read()?;
        Ok(ServerTls { files, config, stamps, validity, valid_from: None })
    }

    /// Whether what is in use is valid at a time.
    ///
    /// # Errors
    /// [`TlsError::Dates`] if it is not.
    pub fn check_dates(&self, now: UnixSeconds) -> Result<(), TlsError> {
        check_dates(&self.files.certificate, self.validity, now)
    }

    /// When what is in use is valid, and its file; `None` if its dates cannot be read.
    #[must_use]
    pub fn validity(&self) -> Option<(&Path, Validity)> {
        Some((&self.files.certificate, self.validity?))
    }

    /// Reads the files again if one has changed, and says whether it did. Sessions that stand keep what they
    /// have; new ones get what was read. `now` is the time of the wall clock.
    ///
    /// # Errors
    /// [`TlsError`]: what the files hold now cannot be used, or is not valid now, and what was read before is kept.
    /// It is told once: the next attempt is made when a file has changed again, or what it holds becomes valid.
    pub fn refresh(&mut self, now: UnixSeconds) -> Result<bool, TlsError> {
        let stamps = self.files.stamps();
        if stamps == self.stamps && self.valid_from.is_none_or(|from| now < from) {
            return Ok(false);
        }
        // From before the files are read: what changes meanwhile is seen the next time.
        (self.stamps, self.valid_from) = (stamps, None);
        let (config, validity) = self.files.read()?;
        if let Err(error) = check_dates(&self.files.certificate, validity, now) {
            self.valid_from = validity.map(|validity| validity.from).filter(|from| now < *from);
            return Err(error);
        }
        (self.config, self.validity) = (config, validity);
        Ok(true)
    }

    /// Begins a session on an accepted socket, non-blocking.
    ///
    /// # Errors
    /// None in practice: the configuration has been checked.
    pub fn accept(&self, socket: TcpStream) -> io::Result<Transport> {
        let tls = rustls::ServerConnection::new(Arc::clone(&self.config)).map_err(io::Error::other)?;
        Ok(Transport::Tls(Box::new(TlsStream::new(socket, tls.into()))))
    }
}

impl ServerFiles {
    fn read(&self) -> Result<(Arc<ServerConfig>, Option<Validity>), TlsError> {
        let chain = certificates(&self.certificate)?;
        let validity = Validity::of_chain(&chain);
        let key = key(&self.key)?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(|error| unusable(&self.certificate, error))?;
        let verifier = self.clients.verifier()?;
        let asks = verifier.is_some();
        let builder = match verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| unusable_pair(&self.certificate, &self.key, error))?;
        if asks {
            // A session that is resumed would not be asked again, though its certificate has expired meanwhile.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok((Arc::new(config), validity))
    }

    fn stamps(&self) -> Vec<Option<FileStamp>> {
        let files = [Some(&self.certificate), Some(&self.key), self.clients.authorities_file()];
        files.into_iter().flatten().map(|file| FileStamp::of(file)).collect()
    }
}

impl ClientCertificates {
    fn authorities_file(&self) -> Option<&PathBuf> {
        match self {
            ClientCertificates::NotAsked => None,
            ClientCertificates::Optional(file)
            | ClientCertificates::Required(file)
            | ClientCertificates::Named(file, _) => Some(file),
        }
    }

    /// What looks at certificates of clients.
    fn verifier(&self) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
        let Some(file) = self.authorities_file() else { return Ok(None) };
        let builder = WebPkiClientVerifier::builder_with_provider(authorities(file)?, provider());
        let builder = match self {
            ClientCertificates::Optional(_) => builder.allow_unauthenticated(),
            _ => builder,
        };
        let by_authority = builder.build().map_err(|error| unusable(file, error))?;
        Ok(Some(match self {
            ClientCertificates::Named(_, names) => Arc::new(NamedClients::new(by_authority, names)?),
            _ => by_authority,
        }))
    }
}
