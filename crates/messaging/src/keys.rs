//! The keys of signed packets, from a file.

use std::io;
use std::sync::Arc;

use lbt::authentication::{CODE_LEN, Key, Keys, Mac};
use net::SecretKeys;
use net::authentication::HmacSha256;

/// Reads the keys of a process: [`SecretKeys::read`].
///
/// # Errors
/// The file cannot be read, or a line is not a key.
pub(crate) fn load(path: &str) -> io::Result<Keys> {
    let SecretKeys { signing, accepted } = SecretKeys::read(path)?;
    let key = |(id, hmac)| Key { id, mac: Arc::new(Hmac(hmac)) };
    Ok(Keys { signing: key(signing), accepted: accepted.map(key) })
}

struct Hmac(HmacSha256);

impl Mac for Hmac {
    fn code(&self, parts: &[&[u8]]) -> [u8; CODE_LEN] {
        self.0.code(parts)
    }
}
