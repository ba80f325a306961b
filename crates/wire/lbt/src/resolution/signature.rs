//! Signed topic resolution, an option of all contexts of a network: who has no key can neither advertise, nor
//! query, nor change what others say.
//!
//! Each datagram carries a packet option of 32 bytes, the last before the length option that ends the block.
//! Others skip it by its length.
//!
//! ```text
//!  0  type u8 = 0xD4, length u8 = 32, flags u16 = 0x8000: may be ignored
//!  4  version u8 = 1, reserved u8 = 0, key u16
//!  8  time u64: when it was signed, nanoseconds since 1970
//! 16  code, 16 bytes: of "LBMR", and of all bytes of the datagram but the code
//! ```
//!
//! - **What is not authentic is counted and dropped** before anything in it is looked at.
//! - **Replays.** What was signed longer ago than the window, or is as far in the future, is stale: counted and
//!   dropped. So clocks must agree to within the window. A datagram can be replayed as long as the window is;
//!   it says then what it said, and what it has answered stays within the rate limits.
//! - **The sender's address is not covered**: relays send datagrams on unchanged, and address translation does not
//!   matter. The addresses of sources stand in their records, which are covered.
//! - **Not signed** are the empty keep-alives of a relay, which say nothing, and resolution requests, which
//!   contexts with keys ignore. Keep-alives of contexts to a relay are signed.
//! - **Keys** have numbers and are changed as those of sessions are: see [`crate::authentication`].
//!
//! | promise | test (`tests/signed_resolution.rs`) |
//! |---|---|
//! | contexts with a key find each other, also on two networks and through a relay | `contexts_with_a_key_find_each_other`, `a_relay_with_keys_takes_and_sends_on_what_is_signed` |
//! | each changed byte is noticed, nothing unsigned is believed | `a_datagram_with_any_byte_changed_or_no_code_is_counted_and_dropped` |
//! | what is old is not believed | `a_replay_is_believed_within_the_window_alone` |
//! | keys change without a gap | `keys_are_changed_without_a_gap` |
//! | others understand what is signed | `who_has_no_key_understands_what_is_signed` |

use crate::authentication::{CODE_LEN, Keys, is_equal};
use crate::error::{Part, WireError};
use counters::Counter;
use std::time::Duration;

/// Bytes of the option.
pub(super) const SIGNATURE_LEN: usize = 32;

const TYPE: u8 = 0xD4;
const VERSION: u8 = 1;
/// Of the option, before the key's number.
const BEGIN: [u8; 6] = [TYPE, SIGNATURE_LEN as u8, 0x80, 0, VERSION, 0];
/// The length option that ends a block: its type, and its length.
const LENGTH: [u8; 2] = [0x80, 4];
const LENGTH_LEN: usize = 4;
/// The bit of the first byte that says that options follow, and the version that packets with options have.
const OPTIONS_FLAG: u8 = 0x08;
const VERSION_WITH_OPTIONS: u8 = 0x10;
/// What codes begin with, so that one of a session's datagram is none of topic resolution.
const LABEL: &[u8] = b"LBMR";
/// What a relay sends to keep itself known, and nothing else is: a packet without queries, records and options.
const KEEPALIVE: [u8; 4] = [0; 4];

/// Signs what is sent and checks what is heard, if that is wanted.
#[derive(Default)]
pub(super) struct Signer(Option<Box<Signing>>);

struct Signing {
    keys: Keys,
    window_ns: u64,
    /// Nanoseconds since 1970, as last told.
    wall_ns: u64,
}

impl Signer {
    /// From now on, with these keys; also to change them.
    pub(super) fn set_keys(&mut self, keys: Keys, window: Duration) {
        let wall_ns = self.0.as_ref().map_or(0, |signing| signing.wall_ns);
        self.0 = Some(Box::new(Signing { keys, window_ns: window.as_nanos() as u64, wall_ns }));
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn set_wall_clock(&mut self, wall_ns: u64) {
        if let Some(signing) = &mut self.0 {
            signing.wall_ns = wall_ns;
        }
    }

    /// Adds the option to a datagram. An empty one stays empty.
    pub(super) fn sign(&self, datagram: &mut Vec<u8>) {
        if let Some(signing) = &self.0 {
            signing.sign(datagram);
        }
    }

    /// Whether a datagram may be believed; counts one that may not.
    pub(super) fn check(
        &self,
        datagram: &[u8],
        unauthentic: &Counter,
        stale: &Counter,
    ) -> Result<(), WireError> {
        let Some(signing) = &self.0 else { return Ok(()) };
        signing.check(datagram).inspect_err(|error| match error {
            WireError::Stale { .. } => stale.inc(),
            _ => unauthentic.inc(),
        })
    }

    /// Bytes that signing adds to a datagram, which has options already or not.
    pub(super) fn added_len(has_options: bool) -> usize {
        SIGNATURE_LEN + if has_options { 0 } else { LENGTH_LEN }
    }
}

impl Signing {
    fn sign(&self, datagram: &mut Vec<u8>) {
        let Some(&first) = datagram.first() else { return };
        let options_len = match datagram[..] {
            [.., t, l, t0, t1] if first & OPTIONS_FLAG != 0 && [t, l] == LENGTH => {
                datagram.truncate(datagram.len() - LENGTH_LEN);
                u16::from_be_bytes([t0, t1])
            }
            _ => LENGTH_LEN as u16,
        };
        datagram[0] = first & 0x0F | OPTIONS_FLAG | VERSION_WITH_OPTIONS;
        let key = &self.keys.signing;
        datagram.extend_from_slice(&BEGIN);
        datagram.extend_from_slice(&key.id.to_be_bytes());
        datagram.extend_from_slice(&self.wall_ns.to_be_bytes());
        let at = datagram.len();
        let [t0, t1] = (options_len + SIGNATURE_LEN as u16).to_be_bytes();
        let end = [LENGTH[0], LENGTH[1], t0, t1];
        let code = key.mac.code(&[LABEL, datagram, &end]);
        datagram.extend_from_slice(&code);
        datagram.extend_from_slice(&end);
        debug_assert_eq!(datagram.len(), at + CODE_LEN + LENGTH_LEN);
    }

    fn check(&self, datagram: &[u8]) -> Result<(), WireError> {
        if datagram == KEEPALIVE {
            return Ok(());
        }
        let Some((rest, end)) = datagram.split_last_chunk::<LENGTH_LEN>() else {
            let (at, need, have) = (0, LENGTH_LEN, datagram.len());
            return Err(WireError::Truncated { part: Part::Authentication, at, need, have });
        };
        let Some((covered, code)) = rest.split_last_chunk::<CODE_LEN>() else {
            return Err(WireError::Unauthentic { key: None });
        };
        let Some((_, [begin @ .., k0, k1, t0, t1, t2, t3, t4, t5, t6, t7])) =
            covered.split_last_chunk::<{ SIGNATURE_LEN - CODE_LEN }>()
        else {
            return Err(WireError::Unauthentic { key: None });
        };
        let has_options = datagram[0] & OPTIONS_FLAG != 0 && end[..2] == LENGTH;
        if !has_options || *begin != BEGIN {
            return Err(WireError::Unauthentic { key: None });
        }
        let id = u16::from_be_bytes([*k0, *k1]);
        let unauthentic = WireError::Unauthentic { key: Some(id) };
        let key = self.keys.by_id(id).ok_or(unauthentic)?;
        if !is_equal(&key.mac.code(&[LABEL, covered, end]), code) {
            return Err(unauthentic);
        }
        let time = u64::from_be_bytes([*t0, *t1, *t2, *t3, *t4, *t5, *t6, *t7]);
        if time.abs_diff(self.wall_ns) > self.window_ns { Err(WireError::Stale { key: id }) } else { Ok(()) }
    }
}
