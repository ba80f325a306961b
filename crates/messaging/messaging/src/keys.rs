//! The keys of signed and of encrypted packets, from files.

use std::io;
use std::sync::Arc;

use lbt::authentication::Keys;
use lbt::encryption::{Aead, NONCE_LEN, PayloadKey, PayloadKeys, SALT_LEN, Salt, Secret, TAG_LEN};
use lbt::resolution::TransportSession;
use net::authentication::HmacSha256;
use net::encryption::{PayloadCipher, PayloadSecret, random_bytes};
use net::{SecretKeys, clock};

use crate::MessagingConfig;

/// Reads the keys with which a process signs: [`SecretKeys::read`].
///
/// # Errors
/// The file cannot be read, or a line is not a key.
pub(crate) fn load(path: &str) -> io::Result<Keys> {
    let SecretKeys { signing, accepted } = SecretKeys::read(path, HmacSha256::coder)?;
    Ok(Keys::new(signing, accepted))
}

/// Reads the keys with which a process encrypts payloads, likewise.
///
/// # Errors
/// The file cannot be read, or a line is not a key.
pub fn load_payload_keys(path: &str) -> io::Result<PayloadKeys> {
    let SecretKeys { signing, accepted } = SecretKeys::read(path, PayloadSecret::new)?;
    let key = |(id, secret)| PayloadKey { id, secret: Arc::new(OfFile(secret)) };
    Ok(PayloadKeys { sealing: key(signing), accepted: accepted.map(key) })
}

/// Keys that were read again.
pub(crate) enum NewKeys<'a> {
    Rm(&'a Keys),
    Ru(&'a Keys),
    RmPayloads(&'a PayloadKeys),
    RuPayloads(&'a PayloadKeys),
}

/// The keys with which messages are encrypted, for each transport that has some.
#[derive(Default)]
pub(crate) struct PayloadKeysOf {
    pub(crate) rm: Option<PayloadKeys>,
    pub(crate) ru: Option<PayloadKeys>,
}

impl PayloadKeysOf {
    pub(crate) fn load(config: &MessagingConfig) -> io::Result<PayloadKeysOf> {
        let of = |path: &Option<String>| path.as_deref().map(load_payload_keys).transpose();
        let rm = of(&config.lbtrm.encryption_key_file)?;
        Ok(PayloadKeysOf { rm, ru: of(&config.lbtru.encryption_key_file)? })
    }

    /// Whether messages of a session are encrypted.
    pub(crate) fn encrypts(&self, session: &TransportSession) -> bool {
        match session {
            TransportSession::LbtRm { .. } => self.rm.is_some(),
            TransportSession::LbtRu { .. } => self.ru.is_some(),
            _ => false,
        }
    }
}

/// A salt for a source that begins now.
///
/// # Errors
/// The system has no randomness.
pub(crate) fn draw_salt() -> io::Result<Salt> {
    let mut salt = [0; SALT_LEN];
    let (time, drawn) = salt.split_at_mut(SALT_LEN / 2);
    time.copy_from_slice(&clock::wall_ns().to_be_bytes());
    drawn.copy_from_slice(&random_bytes::<{ SALT_LEN / 2 }>()?);
    Ok(salt)
}

struct OfFile(PayloadSecret);

struct Gcm(PayloadCipher);

impl Secret for OfFile {
    fn derive(&self, salt: &Salt, session: &[u8]) -> Box<dyn Aead> {
        Box::new(Gcm(self.0.derive(salt, session)))
    }
}

impl Aead for Gcm {
    fn seal(&self, nonce: &[u8; NONCE_LEN], associated: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        self.0.seal(nonce, associated, text)
    }

    fn open(&self, nonce: &[u8; NONCE_LEN], associated: &[u8], text_and_tag: &mut [u8]) -> bool {
        self.0.open(nonce, associated, text_and_tag)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use lbt::config::SourceConfig;
    use lbt::rm::Source;
    use lbt::wire::lbtrm::SessionHeader;
    use units::Nanos;

    use super::*;

    /// As it was made from the description in `docs/protocol/extensions.md` by another library, Python's `cryptography`.
    #[test]
    fn an_encrypted_datagram_is_what_another_library_makes_of_the_same() {
        let expected = "0000382c5eed123400000000000000008003000008fe00490020c000540500000100000700000000\
                        000102030405060708090a0b0c0d0e0f184e2198562a5cb387d405ae5b47866358af7cd327ee1140\
                        fb7777bf9b66a950e6241d586f";
        let folder = testkit::Folder::new();
        let path = folder.join("payload-golden");
        std::fs::write(&path, "7 000102030405060708090a0b0c0d0e0f").expect("a writable place");
        let keys = load_payload_keys(path.to_str().expect("text")).expect("a key");
        let session = SessionHeader { ucast_port: 14_380, session_id: 0x5eed_1234 };
        let source = Source::new(&SourceConfig::default(), session, Nanos::ZERO, Arc::default());
        let mut source = source.expect("allowed");
        source.encrypt(&keys, Ipv4Addr::new(10, 29, 3, 1), std::array::from_fn(|at| at as u8));
        let topic = source.add_topic(Nanos::ZERO, 7);
        source.send(Nanos::ZERO, topic, &[b"a message"]).expect("there is room");
        source.flush();
        let datagram = source.poll_transmit(Nanos::ZERO).expect("flushed").bytes;
        let hex: String = datagram.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
    }

    #[test]
    fn no_salt_is_drawn_twice() {
        let salts: Vec<Salt> = (0..100).map(|_| draw_salt().expect("the system has randomness")).collect();
        let drawn: std::collections::HashSet<&[u8]> = salts.iter().map(|salt| &salt[8..]).collect();
        assert_eq!(drawn.len(), 100);
    }
}
