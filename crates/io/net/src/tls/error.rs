use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use super::{UnixSeconds, Validity};

/// Why a side of TLS cannot be set up.
#[derive(Debug)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    Read {
        /// The file.
        file: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// A file is not PEM, or holds nothing of what it is read for.
    Pem {
        /// The file.
        file: PathBuf,
        /// What it is read for.
        wanted: &'static str,
        /// What is wrong.
        cause: String,
    },
    /// Certificates or keys that do not do what they are for, or do not belong together.
    Unusable {
        /// The file that cannot be used.
        file: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// A certificate, or one of those between it and its authority, that is not valid yet or not any more.
    Dates {
        /// The file.
        file: PathBuf,
        /// When all that it holds are valid.
        validity: Validity,
        /// What the clock said.
        now: UnixSeconds,
    },
    /// A host that is neither a DNS name nor an IP address, so that no certificate can be for it.
    HostName(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { file, cause } => write!(f, "cannot read {}: {cause}", file.display()),
            Self::Pem { file, wanted, cause } => {
                write!(f, "{} holds no {wanted}: {cause}", file.display())
            }
            Self::Unusable { file, cause } => write!(f, "cannot use {}: {cause}", file.display()),
            Self::Dates { file, validity: Validity { from, until }, now } => {
                let is = if now < from { "is not valid yet" } else { "has expired" };
                let file = file.display();
                write!(f, "cannot use {file}: it {is}: valid from {from} until {until}, now it is {now}")
            }
            Self::HostName(host) => write!(f, "{host:?} is no host name that a certificate can be for"),
        }
    }
}

impl Error for TlsError {}

/// Whether an error of [`Transport::read`](crate::Transport::read) is about the certificate of one of the two
/// ends: it is missing, or not acceptable to the other.
#[must_use]
pub fn is_about_certificates(error: &io::Error) -> bool {
    use rustls::AlertDescription as Alert;
    use rustls::Error as Tls;
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Tls>());
    matches!(
        cause,
        Some(
            Tls::InvalidCertificate(_)
                | Tls::NoCertificatesPresented
                | Tls::AlertReceived(
                    Alert::BadCertificate
                        | Alert::UnsupportedCertificate
                        | Alert::CertificateRevoked
                        | Alert::CertificateExpired
                        | Alert::CertificateUnknown
                        | Alert::UnknownCA
                        | Alert::CertificateRequired
                )
        )
    )
}
