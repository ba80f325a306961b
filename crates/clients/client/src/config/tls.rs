use config::Complaint;
use net::tls::{ClientFiles, ClientTls, TlsError, UnixSeconds};

config::section! {
    /// Encrypted connections: whom this end trusts, and who it is. Files are PEM and read once.
    pub struct ClientTlsConfig {
        /// File of the authorities of servers. No others are trusted.
        ca_file: String, required, length 1..=4096;
        /// File of this end's certificate, followed by those between it and its authority, for servers that
        /// ask for one.
        certificate_file: Option<String> = None;
        /// File of the certificate's private key, not encrypted.
        key_file: Option<String> = None;
    }
    check = ClientTlsConfig::check;
}

impl ClientTlsConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        if self.certificate_file.is_some() == self.key_file.is_some() {
            return Ok(());
        }
        let keys = ["certificate_file", "key_file"];
        Err(vec![Complaint::new(keys, "a certificate and its key go together")])
    }

    /// Reads the files. An own certificate has to be valid now: servers would refuse it.
    pub(crate) fn load(&self) -> Result<ClientTls, TlsError> {
        let identity = self.certificate_file.as_ref().zip(self.key_file.as_ref());
        let tls = ClientTls::load(&ClientFiles {
            ca: self.ca_file.clone().into(),
            identity: identity.map(|(certificate, key)| (certificate.into(), key.into())),
        })?;
        tls.check_dates(UnixSeconds::now())?;
        Ok(tls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        assert_eq!(config::audit::<ClientTlsConfig>(), Vec::<String>::new());
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let load = |file: &str| config::Loader::new::<ClientTlsConfig>().file("t.toml", file).load();
        assert!(load("ca_file = \"ca.pem\"\n").is_ok());
        assert!(load("ca_file = \"ca.pem\"\ncertificate_file = \"c.pem\"\nkey_file = \"k.pem\"\n").is_ok());
        let faults = load("ca_file = \"ca.pem\"\ncertificate_file = \"c.pem\"\n").expect_err("no key");
        assert!(faults.to_string().contains("go together"), "{faults}");
        assert!(load("").is_err());
    }
}
