//! Encryption of payloads: AES-256-GCM under keys derived by HKDF-SHA-256, and the randomness that it takes.

use std::io;

use ::ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ::ring::hkdf;
use ::ring::rand::{SecureRandom, SystemRandom};

/// A secret of a key file, from which ciphers are derived.
pub struct PayloadSecret(Box<[u8]>);

/// AES-256-GCM with one key.
pub struct PayloadCipher(LessSafeKey);

impl PayloadSecret {
    /// With a secret of any length; 32 bytes are as good as more.
    #[must_use]
    pub fn new(secret: &[u8]) -> PayloadSecret {
        PayloadSecret(secret.into())
    }

    /// The cipher whose key is HKDF-SHA-256 (RFC 5869) of the secret, a salt, and what the key is for.
    #[must_use]
    pub fn derive(&self, salt: &[u8], info: &[u8]) -> PayloadCipher {
        let parts = [info];
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(&self.0);
        let expanded = extracted.expand(&parts, &AES_256_GCM).expect("32 bytes, and HKDF makes up to 8,160");
        PayloadCipher(LessSafeKey::new(UnboundKey::from(expanded)))
    }
}

impl PayloadCipher {
    /// Bytes of a nonce. Whoever seals sees to it that none is used twice.
    pub const NONCE_LEN: usize = 12;
    /// Bytes of a tag.
    pub const TAG_LEN: usize = 16;

    /// Encrypts the text in its place and returns the tag, which covers what is associated too.
    #[must_use]
    pub fn seal(
        &self,
        nonce: &[u8; PayloadCipher::NONCE_LEN],
        associated: &[u8],
        text: &mut [u8],
    ) -> [u8; PayloadCipher::TAG_LEN] {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(associated), text);
        let tag = tag.expect("a datagram is far below the 64 GiB of GCM");
        *tag.as_ref().first_chunk().expect("a tag of GCM has 16 bytes")
    }

    /// Decrypts what stands before the tag, the last 16 bytes, in its place. False if the tag is not right; then the
    /// bytes are of no use.
    #[must_use]
    pub fn open(
        &self,
        nonce: &[u8; PayloadCipher::NONCE_LEN],
        associated: &[u8],
        text_and_tag: &mut [u8],
    ) -> bool {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.0.open_in_place(nonce, Aad::from(associated), text_and_tag).is_ok()
    }
}

/// Bytes that nobody can guess, of the system.
///
/// # Errors
/// The system has none.
pub fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).expect("hexadecimal") as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    fn with_key(key: &[u8]) -> PayloadCipher {
        PayloadCipher(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("32 bytes")))
    }

    /// Test case 16 of "The Galois/Counter Mode of Operation" (McGrew, Viega), AES-256 with associated data.
    #[test]
    fn texts_and_tags_are_those_of_the_specification() {
        let cipher = with_key(&unhex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"));
        let nonce = unhex("cafebabefacedbaddecaf888").try_into().expect("12 bytes");
        let associated = unhex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let text = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525\
                    b16aedf5aa0de657ba637b39";
        let sealed = "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838\
                      c5f61e6393ba7a0abcc9f662";
        let mut bytes = unhex(text);
        let tag = cipher.seal(&nonce, &associated, &mut bytes);
        assert_eq!((bytes.clone(), tag.to_vec()), (unhex(sealed), unhex("76fc6ece0f4e1768cddf8853bb2d551b")));
        bytes.extend_from_slice(&tag);
        let mut other = bytes.clone();
        assert!(cipher.open(&nonce, &associated, &mut bytes));
        assert_eq!(bytes[..60], unhex(text));
        assert!(!cipher.open(&nonce, b"", &mut other), "other associated data");
    }

    /// Test case 1 of RFC 5869; the first 32 of its 42 bytes.
    #[test]
    fn keys_are_those_of_rfc_5869() {
        let secret = PayloadSecret::new(&[0x0b; 22]);
        let derived = secret.derive(&unhex("000102030405060708090a0b0c"), &unhex("f0f1f2f3f4f5f6f7f8f9"));
        let key = unhex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
        let seal = |cipher: PayloadCipher| cipher.seal(&[7; 12], b"", &mut [1; 40]);
        assert_eq!(seal(derived), seal(with_key(&key)));
    }

    #[test]
    fn random_bytes_differ() {
        let draw = || random_bytes::<16>().expect("the system has some");
        assert_ne!(draw(), draw());
    }
}
