//! Peers by name: a certificate has to be of an authority and for one of some names.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::TlsError;
use super::pem::provider;

/// Whether a certificate can be for a name: a DNS name without wildcards, or an IP address.
#[must_use]
pub fn is_peer_name(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

/// Names of which a certificate has to have one among its subject alternative names.
#[derive(Debug)]
struct Names(Vec<ServerName<'static>>);

impl Names {
    fn new(names: &[String]) -> Result<Names, TlsError> {
        let parse =
            |name: &String| ServerName::try_from(name.clone()).map_err(|_| TlsError::HostName(name.clone()));
        names.iter().map(parse).collect::<Result<_, _>>().map(Names)
    }

    fn check(&self, certificate: &ParsedCertificate<'_>) -> Result<(), Error> {
        let is_named = self.0.iter().any(|name| verify_server_name(certificate, name).is_ok());
        if is_named { Ok(()) } else { Err(Error::InvalidCertificate(CertificateError::NotValidForName)) }
    }
}

/// A server's judgement of its clients: that of their authority, and then their names.
#[derive(Debug)]
pub(super) struct NamedClients {
    by_authority: Arc<dyn ClientCertVerifier>,
    names: Names,
}

impl NamedClients {
    pub(super) fn new(
        by_authority: Arc<dyn ClientCertVerifier>,
        names: &[String],
    ) -> Result<NamedClients, TlsError> {
        Ok(NamedClients { by_authority, names: Names::new(names)? })
    }
}

impl ClientCertVerifier for NamedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.by_authority.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.by_authority.verify_client_cert(end_entity, intermediates, now)?;
        self.names.check(&ParsedCertificate::try_from(end_entity)?)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// A client's judgement of its servers: of an authority, for one of the names, whatever address they are reached at.
#[derive(Debug)]
pub(super) struct NamedServers {
    roots: Arc<RootCertStore>,
    names: Names,
    algorithms: WebPkiSupportedAlgorithms,
}

impl NamedServers {
    pub(super) fn new(roots: Arc<RootCertStore>, names: &[String]) -> Result<NamedServers, TlsError> {
        let algorithms = provider().signature_verification_algorithms;
        Ok(NamedServers { roots, names: Names::new(names)?, algorithms })
    }
}

impl ServerCertVerifier for NamedServers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let (roots, algorithms) = (&self.roots, self.algorithms.all);
        verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        self.names.check(&certificate)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
