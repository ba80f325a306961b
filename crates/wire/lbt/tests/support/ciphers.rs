//! Ciphers for tests.

use std::sync::Arc;
use tickcast_lbt::encryption::{Aead, NONCE_LEN, PayloadKey, PayloadKeys, Salt, Secret, TAG_LEN};

/// No secret, but every bit of key, nonce and text counts.
struct Scrambler(u64);

struct Toy(u64);

fn mix(seed: u64, parts: &[&[u8]]) -> u64 {
    parts
        .iter()
        .flat_map(|part| part.iter())
        .fold(seed, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23))
}

impl Secret for Toy {
    fn derive(&self, salt: &Salt, session: &[u8]) -> Box<dyn Aead> {
        Box::new(Scrambler(mix(self.0, &[salt, session])))
    }
}

impl Scrambler {
    fn scramble(&self, nonce: &[u8; NONCE_LEN], text: &mut [u8]) {
        for (at, byte) in text.iter_mut().enumerate() {
            *byte ^= (mix(self.0, &[nonce, &at.to_be_bytes()]) >> 17) as u8;
        }
    }

    fn tag(&self, nonce: &[u8; NONCE_LEN], associated: &[u8], text: &[u8]) -> [u8; TAG_LEN] {
        let half = |seed: u64| mix(seed, &[nonce, associated, text]).to_be_bytes();
        let mut tag = [0; TAG_LEN];
        tag[..8].copy_from_slice(&half(self.0));
        tag[8..].copy_from_slice(&half(!self.0));
        tag
    }
}

impl Aead for Scrambler {
    fn seal(&self, nonce: &[u8; NONCE_LEN], associated: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        self.scramble(nonce, text);
        self.tag(nonce, associated, text)
    }

    fn open(&self, nonce: &[u8; NONCE_LEN], associated: &[u8], text_and_tag: &mut [u8]) -> bool {
        let (text, tag) = text_and_tag.split_last_chunk_mut::<TAG_LEN>().expect("longer than a tag");
        let is_right = self.tag(nonce, associated, text) == *tag;
        self.scramble(nonce, text);
        is_right
    }
}

fn key(id: u16) -> PayloadKey {
    PayloadKey { id, secret: Arc::new(Toy(u64::from(id) + 1)) }
}

pub(crate) fn payload_keys(sealing: u16, accepted: Option<u16>) -> PayloadKeys {
    PayloadKeys { sealing: key(sealing), accepted: accepted.map(key) }
}

pub(crate) const SALT: Salt = *b"at noon, at once";
