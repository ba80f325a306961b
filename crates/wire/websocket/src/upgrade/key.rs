use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1_smol::Sha1;

/// What RFC 6455, 1.3, appends to a key.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Length of a client's key: base64 of 16 bytes.
pub const KEY_CHARACTERS: usize = 24;

/// The value of `Sec-WebSocket-Accept` that answers a key.
#[must_use]
pub fn accept_key(key: &str) -> String {
    let mut hash = Sha1::from(key);
    hash.update(GUID);
    STANDARD.encode(hash.digest().bytes())
}

/// A client's key, of 16 random bytes.
#[must_use]
pub fn client_key(random: [u8; 16]) -> String {
    STANDARD.encode(random)
}

/// Whether it is a key: base64 of 16 bytes.
pub(crate) fn is_key(key: &str) -> bool {
    key.len() == KEY_CHARACTERS && STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc_comes_out() {
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_key_is_sixteen_bytes_in_base64() {
        assert!(is_key(&client_key([7; 16])));
        for bad in ["", "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZSE=x", "!!!!!!!!!!!!!!!!!!!!!!=="] {
            assert!(!is_key(bad), "{bad}");
        }
    }
}
