//! Keys for tests.

use std::sync::Arc;
use tickcast_lbt::authentication::{CODE_LEN, Key, Keys, Mac};

/// No secret, but every byte counts.
struct Mixer(u64);

impl Mac for Mixer {
    fn code(&self, parts: &[&[u8]]) -> [u8; CODE_LEN] {
        let mix = |seed: u64| {
            parts.iter().flat_map(|p| p.iter()).fold(seed, |state, byte| {
                (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
            })
        };
        let mut code = [0; CODE_LEN];
        code[..8].copy_from_slice(&mix(self.0).to_be_bytes());
        code[8..].copy_from_slice(&mix(!self.0).to_be_bytes());
        code
    }
}

fn key(id: u16) -> Key {
    Key { id, mac: Arc::new(Mixer(u64::from(id) + 1)) }
}

pub(crate) fn keys(signing: u16, accepted: Option<u16>) -> Keys {
    Keys { signing: key(signing), accepted: accepted.map(key) }
}
