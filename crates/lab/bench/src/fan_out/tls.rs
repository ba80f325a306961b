//! Encrypted ports of the server that is measured.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use net::tls::{ClientFiles, ClientTls};

use crate::BenchError;

/// A directory with `ca.pem`, and `server.pem` and `server.key` of a server `localhost`.
#[derive(Clone, Debug)]
pub(crate) struct TlsDirectory(PathBuf);

const CA: &str = "ca.pem";
const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server.key";

impl FromStr for TlsDirectory {
    type Err = String;

    fn from_str(path: &str) -> Result<TlsDirectory, String> {
        let directory = Path::new(path).canonicalize().map_err(|error| error.to_string())?;
        match [CA, CERTIFICATE, KEY].iter().find(|file| !directory.join(file).is_file()) {
            Some(missing) => Err(format!("there is no {missing} in it")),
            None => Ok(TlsDirectory(directory)),
        }
    }
}

impl fmt::Display for TlsDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl TlsDirectory {
    /// The settings of a section, which names the port's protocol, for an encrypted port.
    pub(super) fn sets(&self, section: &str, port: u16) -> Vec<String> {
        let file = |name: &str| self.0.join(name).display().to_string();
        vec![
            format!("{section}.tls.port={port}"),
            format!("{section}.tls.certificate_file={}", file(CERTIFICATE)),
            format!("{section}.tls.key_file={}", file(KEY)),
        ]
    }

    /// The arguments of clients.
    pub(super) fn args(&self) -> Vec<String> {
        vec!["--ca".to_owned(), self.0.join(CA).display().to_string()]
    }
}

/// What clients need for a server with a certificate of this authority.
pub(super) fn client(ca: Option<&PathBuf>) -> Result<Option<ClientTls>, BenchError> {
    Ok(ca.map(|ca| ClientTls::load(&ClientFiles { ca: ca.clone(), identity: None })).transpose()?)
}
