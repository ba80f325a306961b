use std::num::NonZeroU64;

use units::Rng;

use super::fields::Fields;
use crate::HandshakeError;

/// Least length of a client key: without a key.
pub(crate) const KEY_LEAST_BYTES: u16 = 4;
/// Greatest length of a client key: with a key.
pub(crate) const KEY_MOST_BYTES: u16 = 12;

/// The generator every server in the field uses.
const GENERATOR: u64 = 5;
const FLAG_CLIENT_KEY: u8 = 0x08;
const KEY_BYTES: u8 = 8;

/// A server's side of the key exchange, as its ack carries it: `u64` modulus, `u64` generator, `u64` server
/// key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyOffer {
    /// P, the modulus.
    pub modulus: NonZeroU64,
    /// G.
    pub generator: u64,
    /// G to the power of the server's secret, modulo P.
    pub server_key: u64,
}

impl KeyOffer {
    /// Answers the offer with a key of our own.
    #[must_use]
    pub fn answer(&self, seed: u64) -> KeyAnswer {
        let secret = Rng::new(seed).next_u64();
        KeyAnswer {
            client_key: power_mod(self.generator, secret, self.modulus),
            shared_key: power_mod(self.server_key, secret, self.modulus),
        }
    }
}

/// A client's side of the key exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAnswer {
    /// To be sent.
    pub client_key: u64,
    /// What both sides know then.
    pub shared_key: u64,
}

/// What a server keeps until the client's key arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySecret {
    modulus: NonZeroU64,
    secret: u64,
}

impl KeySecret {
    /// Draws modulus and secret. The modulus is random in 2^62..2^63, as the libraries of the field draw it:
    /// it need not be prime, because nothing is protected with the result.
    pub(crate) fn draw(seed: u64) -> (KeySecret, KeyOffer) {
        let mut rng = Rng::new(seed);
        let modulus = NonZeroU64::MIN | (rng.next_u64() >> 2 | 1 << 62);
        let secret = rng.next_u64();
        let server_key = power_mod(GENERATOR, secret, modulus);
        (KeySecret { modulus, secret }, KeyOffer { modulus, generator: GENERATOR, server_key })
    }

    /// The number that both sides know once the client's key is here.
    pub(crate) fn shared_key(&self, client_key: u64) -> u64 {
        power_mod(client_key, self.secret, self.modulus)
    }
}

/// The client's last message of a version 14 handshake with key exchange.
///
/// Shape: `u16` length, 12 or 4; `u8` 0x08; `u8` key length, 8 or 0; the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientKey {
    /// The key; none if the client does not know the type of exchange that was offered.
    pub key: Option<u64>,
}

impl ClientKey {
    /// Parses a whole message, length field included.
    ///
    /// # Errors
    /// [`HandshakeError`] for any other flags or lengths.
    pub fn parse(message: &[u8]) -> Result<ClientKey, HandshakeError> {
        let mut fields = Fields::new(message, 2);
        let flags = fields.u8("key flags")?;
        if flags != FLAG_CLIENT_KEY {
            return Err(HandshakeError::Flags { message: "client key", flags, extended: 0 });
        }
        let bytes = fields.u8("key length")?;
        let key = if bytes == 0 { None } else { Some(fields.u64("key")?) };
        let required_bytes = if bytes == 0 { 0 } else { u16::from(KEY_BYTES) };
        if u16::from(bytes) != required_bytes || !fields.rest().is_empty() {
            return Err(HandshakeError::KeyLength { bytes: u16::from(bytes), required_bytes });
        }
        Ok(ClientKey { key })
    }

    /// Appends the message to `out`.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match self.key {
            Some(key) => {
                out.extend_from_slice(&[0, KEY_MOST_BYTES as u8, FLAG_CLIENT_KEY, KEY_BYTES]);
                out.extend_from_slice(&key.to_be_bytes());
            }
            None => out.extend_from_slice(&[0, KEY_LEAST_BYTES as u8, FLAG_CLIENT_KEY, 0]),
        }
    }
}

/// `base` to the power of `exponent`, modulo `modulus`. Products are 128 bits wide.
fn power_mod(base: u64, mut exponent: u64, modulus: NonZeroU64) -> u64 {
    let modulus = u128::from(modulus.get());
    let mut square = u128::from(base) % modulus;
    let mut result = 1 % modulus;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * square % modulus;
        }
        square = square * square % modulus;
        exponent >>= 1;
    }
    // Below a 64-bit modulus.
    result as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_do_not_overflow() {
        let largest_prime: u64 = 0xffff_ffff_ffff_ffc5;
        let power = |base, exponent, modulus| {
            power_mod(base, exponent, NonZeroU64::new(modulus).expect("the test gives no zero"))
        };
        assert_eq!(power(5, largest_prime - 1, largest_prime), 1, "Fermat");
        assert_eq!(power(largest_prime - 2, 2, largest_prime), 4);
        assert_eq!(power(5, 3, 1000), 125);
        assert_eq!(power(5, 0, 7), 1);
        assert_eq!(power(5, 9, 1), 0);
    }

    #[test]
    fn both_sides_compute_the_same_number() {
        testkit::for_each_seed!(0..100, |seed| {
            let (secret, offer) = KeySecret::draw(seed);
            assert!((1 << 62..1 << 63).contains(&offer.modulus.get()));
            assert_eq!(offer.generator, 5);
            let answer = offer.answer(seed + 1000);
            assert_eq!(secret.shared_key(answer.client_key), answer.shared_key);
        });
    }

    #[test]
    fn offers_follow_from_the_seed() {
        assert_eq!(KeySecret::draw(7).1, KeySecret::draw(7).1);
        assert_ne!(KeySecret::draw(7).1, KeySecret::draw(8).1);
    }

    #[test]
    fn a_recorded_key_is_read_and_written_to_the_byte() {
        let bytes = [0, 0x0c, 8, 8, 0x0c, 0xc6, 0x16, 0x87, 0x58, 0x96, 0x5b, 0x6d];
        let key = ClientKey::parse(&bytes).expect("a Java client wrote it");
        assert_eq!(key, ClientKey { key: Some(0x0cc6_1687_5896_5b6d) });
        let mut out = Vec::new();
        key.emit(&mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn a_client_may_send_no_key() {
        let bytes = [0, 4, 8, 0];
        assert_eq!(ClientKey::parse(&bytes), Ok(ClientKey { key: None }));
        let mut out = Vec::new();
        ClientKey { key: None }.emit(&mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn other_lengths_and_flags_are_refused() {
        let refused = |bytes: &[u8]| ClientKey::parse(bytes).expect_err("not a client key");
        let flags = HandshakeError::Flags { message: "client key", flags: 2, extended: 0 };
        assert_eq!(refused(&[0, 4, 2, 0]), flags);
        assert_eq!(refused(&[0, 5, 8, 0, 1]), HandshakeError::KeyLength { bytes: 0, required_bytes: 0 });
        assert_eq!(refused(&[0, 5, 8, 1, 1]), HandshakeError::Field { field: "key", end: 12, limit: 5 });
        let seven = [0, 12, 8, 7, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(refused(&seven), HandshakeError::KeyLength { bytes: 7, required_bytes: 8 });
    }
}
