//! Packets with a keyed code, an option of both ends of an LBT-RM session: who has no key can neither forge a
//! packet nor change one.
//!
//! The last bytes of every datagram of the session, DATA, session message, NAK, report and confirmation, are
//! an [extension](crate::wire::extension) of 32 bytes: in DATA the last LBMC message, elsewhere the end of
//! the trailer. Others skip it.
//!
//! ```text
//!  0  header of the extension, 12 bytes, subtype 0x5401
//! 12  version u8 = 1, reserved u8 = 0, key u16
//! 16  code, 16 bytes: of the source's IPv4 address and of all bytes of the datagram before the code
//! ```
//!
//! - **Nothing is left out of the code**, trailing edge and flags included: a retransmission, in which these
//!   change, is signed anew when it goes out. A forged trailing edge would make receivers give up what they
//!   miss.
//! - **What is not authentic is counted and ignored**, before anything in it is acted upon. So is everything
//!   of a peer that does not sign. It also catches corruption that UDP's checksum misses.
//! - **Replays.** An old DATA, confirmation or session message names numbers that are settled, so it changes
//!   nothing; an old NAK earns one retransmission an ignore interval within the retransmission rate, and none
//!   once its numbers left the window; an old report names numbers from before the present rate. A session
//!   that is over can be replayed as a whole to a receiver that has never heard it: change the keys where
//!   that matters. Session ids are random, so within one key no session has another's packets.
//! - **Keys** have numbers. A process signs with one and accepts a second, so that keys are changed without
//!   interruption: first all accept the new one, then all sign with it, then the old one goes. Sessions that
//!   stand go on with the keys that they are given meanwhile (`rekey` of sources and receivers).
//!
//! | promise | test (`tests/flow`) |
//! |---|---|
//! | with loss and retransmissions it delivers the same | `a_lossy_session_is_the_same_with_codes` |
//! | each changed byte is noticed | `a_datagram_with_any_byte_changed_is_counted_and_ignored` |
//! | forged and unsigned NAKs have no effect | `forged_and_unsigned_naks_are_counted_and_ignored` |
//! | keys change without loss | `keys_are_changed_without_losing_a_message` |
//! | the dissectors see well-formed packets | `signed_packets_are_what_the_dissectors_expect` |

use crate::error::{Part, WireError};
use crate::wire::extension::{EXTENSION_HEADER_LEN, SUBTYPE_AUTHENTICATION, extension_header};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Bytes of a code.
pub const CODE_LEN: usize = 16;
/// Bytes that authentication adds to a datagram.
pub const SEAL_LEN: usize = EXTENSION_HEADER_LEN + 4 + CODE_LEN;

const VERSION: u8 = 1;
/// Bytes of the seal that the code covers.
const BEFORE_CODE: usize = SEAL_LEN - CODE_LEN;

/// Makes a keyed code, such as HMAC-SHA-256 cut to 16 bytes.
pub trait Mac: Send + Sync {
    /// The code of the parts, as if they were one.
    fn code(&self, parts: &[&[u8]]) -> [u8; CODE_LEN];
}

impl<F: Fn(&[&[u8]]) -> [u8; CODE_LEN] + Send + Sync> Mac for F {
    fn code(&self, parts: &[&[u8]]) -> [u8; CODE_LEN] {
        self(parts)
    }
}

/// A key and its number.
#[derive(Clone)]
pub struct Key {
    /// Its number; the same with all who have the key.
    pub id: u16,
    /// What makes codes with it.
    pub mac: Arc<dyn Mac>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}", self.id)
    }
}

/// The keys of a process.
#[derive(Clone, Debug)]
pub struct Keys {
    /// What it signs with, and accepts.
    pub signing: Key,
    /// What it accepts besides: the one before, or the one to come.
    pub accepted: Option<Key>,
}

impl Keys {
    /// Keys with their numbers: what a process signs with, and what it accepts besides.
    pub fn new<M: Mac + 'static>(signing: (u16, M), accepted: Option<(u16, M)>) -> Keys {
        let key = |(id, mac)| Key { id, mac: Arc::new(mac) };
        Keys { signing: key(signing), accepted: accepted.map(key) }
    }

    pub(crate) fn by_id(&self, id: u16) -> Option<&Key> {
        [Some(&self.signing), self.accepted.as_ref()].into_iter().flatten().find(|k| k.id == id)
    }
}

/// Signs and checks the packets of one session, whose source has an address.
#[derive(Clone, Debug)]
pub(crate) struct Sealer {
    keys: Keys,
    source: [u8; 4],
}

impl Sealer {
    pub(crate) fn new(keys: Keys, source: Ipv4Addr) -> Sealer {
        Sealer { keys, source: source.octets() }
    }

    /// Goes on with other keys, if packets are signed at all.
    pub(crate) fn rekey(sealer: &mut Option<Box<Sealer>>, keys: Keys) {
        if let Some(sealer) = sealer {
            sealer.keys = keys;
        }
    }

    /// Writes the seal into the last [`SEAL_LEN`] bytes of a datagram.
    pub(crate) fn seal(&self, datagram: &mut [u8]) {
        let at = datagram.len() - SEAL_LEN;
        let Key { id, mac } = &self.keys.signing;
        let seal = &mut datagram[at..];
        let header = extension_header(SUBTYPE_AUTHENTICATION, SEAL_LEN - EXTENSION_HEADER_LEN);
        let [k0, k1] = id.to_be_bytes();
        seal[..EXTENSION_HEADER_LEN].copy_from_slice(&header);
        seal[EXTENSION_HEADER_LEN..BEFORE_CODE].copy_from_slice(&[VERSION, 0, k0, k1]);
        let (covered, place) = datagram.split_at_mut(at + BEFORE_CODE);
        place.copy_from_slice(&mac.code(&[&self.source, covered]));
    }

    /// Appends a seal to a datagram.
    pub(crate) fn append(&self, datagram: &mut Vec<u8>) {
        datagram.resize(datagram.len() + SEAL_LEN, 0);
        self.seal(datagram);
    }

    /// The datagram without its seal, if that is right.
    pub(crate) fn open<'a>(&self, datagram: &'a [u8]) -> Result<&'a [u8], WireError> {
        let Some((rest, seal)) = datagram.split_last_chunk::<SEAL_LEN>() else {
            let (at, have) = (0, datagram.len());
            return Err(WireError::Truncated { part: Part::Authentication, at, need: SEAL_LEN, have });
        };
        let header = extension_header(SUBTYPE_AUTHENTICATION, SEAL_LEN - EXTENSION_HEADER_LEN);
        if seal[..EXTENSION_HEADER_LEN] != header || seal[EXTENSION_HEADER_LEN..][..2] != [VERSION, 0] {
            return Err(WireError::Unauthentic { key: None });
        }
        let id = u16::from_be_bytes([seal[BEFORE_CODE - 2], seal[BEFORE_CODE - 1]]);
        let unauthentic = WireError::Unauthentic { key: Some(id) };
        let key = self.keys.by_id(id).ok_or(unauthentic)?;
        let covered = &datagram[..datagram.len() - CODE_LEN];
        let right = key.mac.code(&[&self.source, covered]);
        if is_equal(&right, &seal[BEFORE_CODE..]) { Ok(rest) } else { Err(unauthentic) }
    }
}

/// Compares in a time that does not depend on where the first difference is.
pub(crate) fn is_equal(a: &[u8; CODE_LEN], b: &[u8]) -> bool {
    let Ok(b) = <&[u8; CODE_LEN]>::try_from(b) else { return false };
    std::hint::black_box(u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No secret: the sum of all bytes by their place.
    struct Sum(u8);

    impl Mac for Sum {
        fn code(&self, parts: &[&[u8]]) -> [u8; CODE_LEN] {
            let mut code = [self.0; CODE_LEN];
            for (at, byte) in parts.iter().flat_map(|p| p.iter()).enumerate() {
                let place = &mut code[at % CODE_LEN];
                *place = place.rotate_left(1).wrapping_add(*byte);
            }
            code
        }
    }

    fn sealer(id: u16, accepted: Option<u16>) -> Sealer {
        let key = |id: u16| Key { id, mac: Arc::new(Sum(id as u8)) };
        let keys = Keys { signing: key(id), accepted: accepted.map(key) };
        Sealer::new(keys, Ipv4Addr::new(10, 0, 0, 1))
    }

    #[test]
    fn a_seal_is_one_control_message_and_opens_with_either_key() {
        let mut datagram = b"datagram".to_vec();
        sealer(1, None).append(&mut datagram);
        assert_eq!(crate::wire::lbmc::check(&datagram[8..]), Ok(1));
        assert_eq!(datagram.len(), 8 + SEAL_LEN);
        assert_eq!(sealer(1, None).open(&datagram), Ok(&b"datagram"[..]));
        assert_eq!(sealer(2, Some(1)).open(&datagram), Ok(&b"datagram"[..]));
        assert_eq!(sealer(2, Some(3)).open(&datagram), Err(WireError::Unauthentic { key: Some(1) }));
    }

    #[test]
    fn another_source_a_changed_byte_and_a_missing_seal_are_refused() {
        let mut datagram = b"datagram".to_vec();
        let mine = sealer(1, None);
        mine.append(&mut datagram);
        let other = Sealer::new(mine.keys.clone(), Ipv4Addr::new(10, 0, 0, 2));
        assert!(other.open(&datagram).is_err());
        for at in 0..datagram.len() {
            let mut bad = datagram.clone();
            bad[at] ^= 0x10;
            assert!(mine.open(&bad).is_err(), "byte {at}");
        }
        assert!(matches!(mine.open(b"short"), Err(WireError::Truncated { need: SEAL_LEN, .. })));
        assert_eq!(mine.open(&[0; 64]), Err(WireError::Unauthentic { key: None }));
    }
}
