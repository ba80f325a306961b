//! Encrypted payloads, an option of LBT-RM and LBT-RU: who has no key reads no message, and can neither change nor make
//! one.
//!
//! The messages of a DATA datagram are encrypted and authenticated (AEAD, AES-256-GCM in `net`) when the datagram is
//! closed. On the wire they are one LBMC control message with an [extension](crate::wire::extension), of which the
//! text is the payload:
//!
//! ```text
//!  0  header of the extension, 12 bytes, subtype 0x5405; the message's length covers text and tag
//! 12  version u8 = 1, reserved u8 = 0, key u16
//! 16  epoch u32      how often the transport number has wrapped
//! 20  salt, 16 bytes
//! 36  text           the LBMC messages, encrypted
//!     tag, 16 bytes  of the 36 bytes before the text, and of the text
//! ```
//!
//! - **One key a session.** The key of a session is derived from the secret of the key file, a salt that is drawn anew
//!   for each source, and the session's name: transport, address, port, session id, number of the secret. The nonce is
//!   the epoch and the transport number. A source closes each number once, so no nonce is used twice under a key; a
//!   source that starts again has another salt.
//! - **Retransmissions are the same bytes.** Only the transport header changes, which is outside.
//! - **Every datagram says all that it takes** to read it, so who joins late reads the first one it hears.
//! - **What cannot be read is lost.** It is counted and dropped before its number is taken, so the receiver asks for it
//!   again. Datagrams that are not encrypted are dropped as well. A receiver without keys takes the numbers and
//!   delivers nothing.
//! - **Replays.** The number is part of the nonce, and a number is delivered once. A number of an earlier epoch
//!   is refused by its distance, a salt older than the one in use by its first eight bytes, which are the time
//!   at which it was drawn; an older one is taken only after a silence, for sources whose clocks are set back.
//! - **What is not protected:** transport headers, and so trailing edges; session messages, confirmations, NAKs. A
//!   forged trailing edge makes receivers give up what they miss. [Keyed codes](crate::authentication) protect all of
//!   these; both options go together.
//!
//! | promise | test (`tests/flow`) |
//! |---|---|
//! | with loss, fragments and retransmissions it delivers the same | `a_lossy_session_delivers_the_same_encrypted` |
//! | each changed byte of frame, text and tag is noticed, and what was changed comes again | `an_encrypted_datagram_with_any_byte_changed_is_dropped_and_asked_for_again` |
//! | no nonce comes twice at the wrap, and an earlier epoch is refused | `numbers_that_wrap_are_another_epoch_and_an_earlier_one_is_refused` |
//! | a run that is over cannot be put into one that goes on | `datagrams_of_an_earlier_run_are_refused_and_a_new_run_is_heard` |
//! | a retransmission is the datagram but for its header | `a_retransmission_is_the_same_bytes_behind_the_header` |
//! | a source reads what it has in its window, whatever keys it had meanwhile | `a_source_reads_all_of_its_window_however_often_its_key_was_changed` |
//! | keys change without loss | `payload_keys_are_changed_without_losing_a_message` |
//! | who has no key delivers nothing and asks for nothing | `a_receiver_without_payload_keys_delivers_nothing_and_asks_for_nothing` |
//! | the dissectors see well-formed packets | `encrypted_packets_are_what_the_dissectors_expect` |

use crate::error::WireError;
use crate::wire::extension::{EXTENSION_HEADER_LEN, SUBTYPE_ENCRYPTION, text_header};
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, Sqn};

/// Bytes of a salt.
pub const SALT_LEN: usize = 16;
/// Bytes of a tag.
pub const TAG_LEN: usize = 16;
/// Bytes of a nonce.
pub const NONCE_LEN: usize = 12;
/// Bytes that encryption adds to a datagram.
pub const COVER_LEN: usize = FRAME_LEN + TAG_LEN;

/// Bytes before the text.
pub(crate) const FRAME_LEN: usize = EXTENSION_HEADER_LEN + FIELDS_LEN;
const FIELDS_LEN: usize = 8 + SALT_LEN;
const VERSION: u8 = 1;
const LABEL: &[u8] = b"tickcast payload 1";

/// What a source draws when it begins: eight bytes of the time of day, in nanoseconds, big-endian, and eight of
/// randomness.
pub type Salt = [u8; SALT_LEN];

/// A cipher with one key: authenticated encryption with associated data.
pub trait Aead: Send + Sync {
    /// Encrypts the text in its place and returns the tag.
    fn seal(&self, nonce: &[u8; NONCE_LEN], associated: &[u8], text: &mut [u8]) -> [u8; TAG_LEN];

    /// Decrypts what is before the last [`TAG_LEN`] bytes, the tag, in its place. False if the tag is not right; then
    /// the bytes are of no use.
    fn open(&self, nonce: &[u8; NONCE_LEN], associated: &[u8], text_and_tag: &mut [u8]) -> bool;
}

/// A secret from which the keys of sessions are derived.
pub trait Secret: Send + Sync {
    /// The cipher of a session.
    fn derive(&self, salt: &Salt, session: &[u8]) -> Box<dyn Aead>;
}

/// A secret and its number.
#[derive(Clone)]
pub struct PayloadKey {
    /// Its number; the same with all who have the secret.
    pub id: u16,
    /// What derives ciphers from it.
    pub secret: Arc<dyn Secret>,
}

impl fmt::Debug for PayloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "payload key {}", self.id)
    }
}

/// The secrets of a process.
#[derive(Clone, Debug)]
pub struct PayloadKeys {
    /// What its sources encrypt with, and its receivers accept.
    pub sealing: PayloadKey,
    /// What its receivers accept besides: the one before, or the one to come.
    pub accepted: Option<PayloadKey>,
}

impl PayloadKeys {
    fn by_id(&self, id: u16) -> Option<&PayloadKey> {
        [Some(&self.sealing), self.accepted.as_ref()].into_iter().flatten().find(|key| key.id == id)
    }
}

/// What a session's key is derived for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionName([u8; 11]);

impl SessionName {
    pub(crate) fn rm(source: SocketAddrV4, session_id: u32) -> SessionName {
        SessionName::new(1, source, session_id)
    }

    pub(crate) fn ru(source: SocketAddrV4, session_id: u32) -> SessionName {
        SessionName::new(2, source, session_id)
    }

    fn new(transport: u8, source: SocketAddrV4, session_id: u32) -> SessionName {
        let mut name = [transport; 11];
        name[1..5].copy_from_slice(&source.ip().octets());
        name[5..7].copy_from_slice(&source.port().to_be_bytes());
        name[7..].copy_from_slice(&session_id.to_be_bytes());
        SessionName(name)
    }

    fn derive(&self, key: &PayloadKey, salt: &Salt) -> Box<dyn Aead> {
        let mut session = [0; LABEL.len() + 13];
        session[..LABEL.len()].copy_from_slice(LABEL);
        session[LABEL.len()..LABEL.len() + 11].copy_from_slice(&self.0);
        session[LABEL.len() + 11..].copy_from_slice(&key.id.to_be_bytes());
        key.secret.derive(salt, &session)
    }
}

/// The fields before the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    key: u16,
    epoch: u32,
    salt: Salt,
}

impl Frame {
    fn emit(&self, len: usize) -> [u8; FRAME_LEN] {
        let mut frame = [0; FRAME_LEN];
        frame[..EXTENSION_HEADER_LEN].copy_from_slice(&text_header(SUBTYPE_ENCRYPTION, FIELDS_LEN, len));
        frame[12] = VERSION;
        frame[14..16].copy_from_slice(&self.key.to_be_bytes());
        frame[16..20].copy_from_slice(&self.epoch.to_be_bytes());
        frame[20..].copy_from_slice(&self.salt);
        frame
    }

    /// The frame that begins `messages`, its bytes, and text and tag. Bytes behind those, such as a keyed code that
    /// nobody checks here, are left out. None if it is not whole, or of a version that is not known.
    fn split(messages: &[u8]) -> Option<(Frame, &[u8; FRAME_LEN], &[u8])> {
        let (bytes, _) = messages.split_first_chunk::<FRAME_LEN>()?;
        let len = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        let sealed = messages.get(FRAME_LEN..len).filter(|sealed| sealed.len() >= TAG_LEN)?;
        let &[.., k0, k1, e0, e1, e2, e3] = bytes.first_chunk::<20>()?;
        let salt = *bytes.last_chunk::<SALT_LEN>()?;
        let frame =
            Frame { key: u16::from_be_bytes([k0, k1]), epoch: u32::from_be_bytes([e0, e1, e2, e3]), salt };
        // Whatever else stands there is not what was written.
        (frame.emit(len) == *bytes).then_some((frame, bytes, sealed))
    }
}

/// Whether the messages of a datagram are encrypted, in whatever version.
pub(crate) fn is_encrypted(messages: &[u8]) -> bool {
    let header = text_header(SUBTYPE_ENCRYPTION, FIELDS_LEN, 0);
    let same = |range: std::ops::Range<usize>| messages.get(range.clone()) == Some(&header[range]);
    same(0..2) && same(8..10)
}

fn nonce(wide: u64) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[4..].copy_from_slice(&wide.to_be_bytes());
    nonce
}

fn wide(epoch: u32, sqn: Sqn) -> u64 {
    u64::from(epoch) << 32 | u64::from(sqn.0)
}

/// A key that encrypts no more.
struct Earlier {
    /// The number of the first datagram that has another key, wraps included.
    end: u64,
    aead: Box<dyn Aead>,
}

/// Encrypts the datagrams of one session.
pub(crate) struct Encryptor {
    name: SessionName,
    salt: Salt,
    key: u16,
    aead: Box<dyn Aead>,
    /// Earlier keys, the oldest first. Each has encrypted something that was in the window at the last change of keys,
    /// so there are no more of them than datagrams in a window.
    before: VecDeque<Earlier>,
    /// The number of the next datagram, wraps included.
    next: u64,
    /// The messages of a datagram in clear.
    plain: Vec<u8>,
}

impl Encryptor {
    /// `first` is the number of the session's first datagram.
    pub(crate) fn new(keys: &PayloadKeys, name: SessionName, salt: Salt, first: Sqn) -> Encryptor {
        let (key, aead) = (keys.sealing.id, name.derive(&keys.sealing, &salt));
        let (before, next) = (VecDeque::new(), u64::from(first.0));
        Encryptor { name, salt, key, aead, before, next, plain: Vec::new() }
    }

    /// What is closed from now on is encrypted with another key. The last `count` datagrams are in the window still: what
    /// encrypted one of them is kept, as the source reads them to retain them and to count what it has not sent.
    pub(crate) fn rekey(&mut self, keys: &PayloadKeys, count: u32) {
        // The salt stays, and so does the count: if the key is the one of before, no nonce comes twice.
        let aead = self.name.derive(&keys.sealing, &self.salt);
        let before = std::mem::replace(&mut self.aead, aead);
        self.key = keys.sealing.id;
        let (oldest, end) = (self.next - u64::from(count), self.next);
        while self.before.front().is_some_and(|earlier| earlier.end <= oldest) {
            self.before.pop_front();
        }
        if self.before.back().map_or(oldest, |earlier| earlier.end) < end {
            self.before.push_back(Earlier { end, aead: before });
        }
    }

    /// Encrypts the next datagram: `messages` has [`FRAME_LEN`] bytes before the text and [`TAG_LEN`] behind it.
    #[inline(never)]
    pub(crate) fn cover(&mut self, sqn: Sqn, messages: &mut [u8]) {
        debug_assert_eq!(sqn.0, self.next as u32, "each number is closed once");
        let frame = Frame { key: self.key, epoch: (self.next >> 32) as u32, salt: self.salt };
        let frame = frame.emit(messages.len());
        let text_end = messages.len() - TAG_LEN;
        let (head, rest) = messages.split_at_mut(FRAME_LEN);
        head.copy_from_slice(&frame);
        let (text, place) = rest.split_at_mut(text_end - FRAME_LEN);
        place.copy_from_slice(&self.aead.seal(&nonce(self.next), &frame, text));
        self.next += 1;
    }

    /// The messages of a datagram that this session has encrypted, in clear; none if it has not.
    pub(crate) fn reveal(&mut self, sqn: Sqn, messages: &[u8]) -> &[u8] {
        let mut plain = std::mem::take(&mut self.plain);
        self.reveal_into(sqn, messages, &mut plain);
        self.plain = plain;
        &self.plain
    }

    /// The same into `plain`.
    pub(crate) fn reveal_into(&self, sqn: Sqn, messages: &[u8], plain: &mut Vec<u8>) {
        plain.clear();
        let Some((frame, bytes, sealed)) = Frame::split(messages) else { return };
        let number = wide(frame.epoch, sqn);
        let earlier = self.before.partition_point(|earlier| earlier.end <= number);
        let aead = self.before.get(earlier).map_or(&self.aead, |earlier| &earlier.aead);
        plain.extend_from_slice(sealed);
        let is_right = aead.open(&nonce(number), bytes, plain);
        plain.truncate(if is_right { sealed.len() - TAG_LEN } else { 0 });
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Encryptor>() + self.plain.capacity() + self.before.capacity() * size_of::<Earlier>()
    }
}

/// Decrypts the datagrams of one session.
pub(crate) struct Decryptor {
    keys: PayloadKeys,
    name: SessionName,
    /// The run of the source that is heard.
    run: Option<Run>,
    /// The ciphers of its keys, by their numbers.
    ciphers: Vec<(u16, Box<dyn Aead>)>,
    /// How long a run is believed to go on without a datagram.
    patience: Duration,
    /// The messages of the last datagram in clear.
    plain: Vec<u8>,
}

/// One run of a source, from its start to its end.
#[derive(Clone, Copy)]
struct Run {
    salt: Salt,
    /// The highest number that was read, wraps included.
    highest: u64,
    /// When a datagram was read last.
    heard: Nanos,
}

/// Numbers that are farther apart than this are not of one window.
const SAME_WINDOW: u64 = 1 << 31;

impl Decryptor {
    pub(crate) fn new(keys: PayloadKeys, name: SessionName, patience: Duration) -> Decryptor {
        Decryptor { keys, name, run: None, ciphers: Vec::new(), patience, plain: Vec::new() }
    }

    /// Accepts other keys from now on.
    pub(crate) fn rekey(&mut self, keys: PayloadKeys) {
        self.keys = keys;
        self.ciphers.clear();
    }

    /// The session's name has become known.
    pub(crate) fn rename(&mut self, name: SessionName) {
        if self.name != name {
            (self.name, self.run) = (name, None);
            self.ciphers.clear();
        }
    }

    /// The messages of a datagram in clear.
    pub(crate) fn open(&mut self, now: Nanos, sqn: Sqn, messages: &[u8]) -> Result<&[u8], WireError> {
        if !is_encrypted(messages) {
            return Err(WireError::NotEncrypted);
        }
        let (frame, bytes, sealed) = Frame::split(messages).ok_or(WireError::Undeciphered { key: None })?;
        let undeciphered = WireError::Undeciphered { key: Some(frame.key) };
        let number = wide(frame.epoch, sqn);
        let run = self.run.filter(|run| run.salt == frame.salt);
        let is_credible = match (run, self.run) {
            (Some(run), _) => number.abs_diff(run.highest) < SAME_WINDOW,
            (None, Some(other)) => frame.salt > other.salt || now.since(other.heard) >= self.patience,
            (None, None) => true,
        };
        if !is_credible {
            return Err(undeciphered);
        }
        self.plain.clear();
        self.plain.extend_from_slice(sealed);
        let nonce = nonce(number);
        let known = self.ciphers.iter().find(|(id, _)| *id == frame.key).filter(|_| run.is_some());
        match known {
            Some((_, aead)) => {
                if !aead.open(&nonce, bytes, &mut self.plain) {
                    return Err(undeciphered);
                }
            }
            None => self.open_first(&frame, &nonce, bytes).ok_or(undeciphered)?,
        }
        let highest = run.map_or(number, |run| run.highest.max(number));
        self.run = Some(Run { salt: frame.salt, highest, heard: now });
        self.plain.truncate(sealed.len() - TAG_LEN);
        Ok(&self.plain)
    }

    /// Decrypts the first datagram of a run, or of a key; its cipher is kept if it is right.
    #[cold]
    #[inline(never)]
    fn open_first(&mut self, frame: &Frame, nonce: &[u8; NONCE_LEN], bytes: &[u8]) -> Option<()> {
        let aead = self.name.derive(self.keys.by_id(frame.key)?, &frame.salt);
        if !aead.open(nonce, bytes, &mut self.plain) {
            return None;
        }
        if self.run.is_none_or(|run| run.salt != frame.salt) {
            self.ciphers.clear();
        }
        self.ciphers.push((frame.key, aead));
        Some(())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Decryptor>() + self.plain.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// Numbers of secrets stand for them.
    struct Plain(u8);

    impl Secret for Plain {
        fn derive(&self, _: &Salt, _: &[u8]) -> Box<dyn Aead> {
            Box::new(Plain(self.0))
        }
    }

    impl Aead for Plain {
        fn seal(&self, _: &[u8; NONCE_LEN], _: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
            text.iter_mut().for_each(|byte| *byte ^= self.0);
            [self.0; TAG_LEN]
        }

        fn open(&self, _: &[u8; NONCE_LEN], _: &[u8], text_and_tag: &mut [u8]) -> bool {
            text_and_tag.iter_mut().for_each(|byte| *byte ^= self.0);
            text_and_tag.ends_with(&[0; TAG_LEN])
        }
    }

    fn keys(id: u8) -> PayloadKeys {
        PayloadKeys { sealing: PayloadKey { id: id.into(), secret: Arc::new(Plain(id)) }, accepted: None }
    }

    #[test]
    fn a_source_reads_all_of_its_window_however_often_its_key_was_changed() {
        // Over the wrap of the numbers, with a window of 10 datagrams.
        let (first, window) = (Sqn(u32::MAX - 20), 10);
        let name = SessionName::rm(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1), 1);
        let mut encryptor = Encryptor::new(&keys(1), name, [0; SALT_LEN], first);
        let mut sent = Vec::<(Sqn, Vec<u8>)>::new();
        for i in 0..60_u8 {
            let mut messages = vec![0; COVER_LEN];
            messages.splice(FRAME_LEN..FRAME_LEN, [i; 5]);
            let sqn = first.plus(i.into());
            encryptor.cover(sqn, &mut messages);
            sent.push((sqn, messages));
            // Now and then two changes with nothing between them, and none for longer than the window.
            for change in 0..match i % 30 {
                0..10 => 1,
                10..12 => 2,
                _ => 0,
            } {
                encryptor.rekey(&keys(i.wrapping_mul(3) + change + 2), window.min(u32::from(i) + 1));
            }
            let from = sent.len().saturating_sub(window as usize);
            for (number, (sqn, messages)) in sent.iter().enumerate().skip(from) {
                assert_eq!(encryptor.reveal(*sqn, messages), [number as u8; 5], "{number} after {i}");
            }
            assert!(encryptor.before.len() <= window as usize, "{}", encryptor.before.len());
        }
        encryptor.rekey(&keys(200), 0);
        assert_eq!(encryptor.before.len(), 0, "nothing is in the window");
    }
}
