use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsError;
use crate::small_file;

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A chain of certificates, the end entity's own first.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match all {
        Ok(chain) if chain.is_empty() => Err(not_found(file, "certificate", pem::Error::NoItemsFound)),
        Ok(chain) => Ok(chain),
        Err(error) => Err(not_found(file, "certificate", error)),
    }
}

/// A private key: PKCS#8, PKCS#1 or SEC1, not encrypted.
pub(super) fn key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let read = small_file::read_secret(file, BYTES_MAX);
    let bytes = read.map_err(|cause| TlsError::Read { file: file.to_owned(), cause })?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| not_found(file, "private key", error))
}

/// More than the authorities of the world.
const BYTES_MAX: u64 = 16 << 20;

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    small_file::read(file, BYTES_MAX).map_err(|cause| TlsError::Read { file: file.to_owned(), cause })
}

/// The authorities of a file.
pub(super) fn authorities(file: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| unusable(file, error))?;
    }
    Ok(Arc::new(roots))
}

pub(super) fn unusable(file: &Path, error: impl std::fmt::Display) -> TlsError {
    TlsError::Unusable { file: file.to_owned(), cause: error.to_string() }
}

/// A certificate and its key that do not serve together: which of the files it is.
pub(super) fn unusable_pair(certificate: &Path, key: &Path, error: rustls::Error) -> TlsError {
    let is_of_certificate = matches!(error, rustls::Error::InvalidCertificate(_));
    unusable(if is_of_certificate { certificate } else { key }, error)
}

fn not_found(file: &Path, wanted: &'static str, error: pem::Error) -> TlsError {
    match error {
        pem::Error::Io(cause) => TlsError::Read { file: file.to_owned(), cause },
        other => TlsError::Pem { file: file.to_owned(), wanted, cause: in_words(&other) },
    }
}

/// Lines as text, of which the library shows the bytes.
fn in_words(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!("the line `-----END {}-----` is missing", end_marker.escape_ascii())
        }
        pem::Error::IllegalSectionStart { line } => {
            format!("the line `{}` is not understood", line.get(..80).unwrap_or(line).escape_ascii())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_whole_is_told_with_the_line_that_is_missing() {
        let folder = testkit::Folder::new();
        let file = folder.join("half");
        let told = |bytes: &[u8]| {
            std::fs::write(&file, bytes).expect("a writable place");
            certificates(&file).expect_err("it is not whole").to_string()
        };
        let half = told(b"-----BEGIN CERTIFICATE-----\nMIIB\n");
        assert!(half.contains("the line `-----END CERTIFICATE-----` is missing"), "{half}");
        let start = told(b"-----BEGIN CERTIFICATE\nMIIB\n");
        assert!(start.contains("the line `-----BEGIN CERTIFICATE` is not understood"), "{start}");
    }
}
