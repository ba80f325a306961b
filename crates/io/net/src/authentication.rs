//! Keyed codes of packets.

use ::ring::hmac;

/// HMAC-SHA-256 with one key, cut to its first 16 bytes as RFC 2104 allows.
pub struct HmacSha256(hmac::Key);

impl HmacSha256 {
    /// Bytes of a code.
    pub const CODE_LEN: usize = 16;

    /// With a secret of any length; 32 bytes are as good as more.
    #[must_use]
    pub fn new(secret: &[u8]) -> HmacSha256 {
        HmacSha256(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The code of the parts, as if they were one.
    #[must_use]
    pub fn code(&self, parts: &[&[u8]]) -> [u8; HmacSha256::CODE_LEN] {
        let mut context = hmac::Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        *context.sign().as_ref().first_chunk().expect("a code of SHA-256 has 32 bytes")
    }

    /// What makes codes with a secret, for those who know keyed codes by that alone.
    pub fn coder(secret: &[u8]) -> impl Fn(&[&[u8]]) -> [u8; HmacSha256::CODE_LEN] + Send + Sync + use<> {
        let hmac = HmacSha256::new(secret);
        move |parts| hmac.code(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).expect("hexadecimal") as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    #[test]
    fn codes_are_those_of_rfc_4231_in_one_part_or_several() {
        let table = [
            (vec![0x0b; 20], &b"Hi There"[..], "b0344c61d8db38535ca8afceaf0bf12b"),
            (b"Jefe".to_vec(), b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c7"),
            (vec![0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a7"),
        ];
        for (secret, message, code) in table {
            let mac = HmacSha256::new(&secret);
            assert_eq!(mac.code(&[message]).to_vec(), unhex(code));
            let (head, tail) = message.split_at(3);
            assert_eq!(mac.code(&[head, &[], tail]).to_vec(), unhex(code));
        }
    }
}
