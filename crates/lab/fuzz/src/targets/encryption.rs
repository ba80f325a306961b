use std::sync::Arc;

use counters::table::{LbmDelivery, LbtrmReceiver, LbtrmSource};
use lbt::config::{ReceiverConfig, SourceConfig};
use lbt::encryption::{Aead, COVER_LEN, NONCE_LEN, PayloadKey, PayloadKeys, Salt, Secret, TAG_LEN};
use lbt::rm::{Receiver, SessionKey, Source};
use net::encryption::{PayloadCipher, PayloadSecret};
use units::Sqn;

use super::authentication::{FROM, Heard, NOW, SESSION, SOURCE, TOPIC};
use crate::Outcome;
use crate::input::Input;

/// Bytes of a header of DATA, which encryption does not cover.
const HEADER_LEN: usize = 20;
const FRAME_LEN: usize = COVER_LEN - TAG_LEN;

/// The key is the same whatever the session, so that others can be played who have it.
struct OneKey;

struct Gcm(PayloadCipher);

fn cipher() -> Gcm {
    Gcm(PayloadSecret::new(b"what nobody else knows").derive(b"", b""))
}

impl Secret for OneKey {
    fn derive(&self, _: &Salt, _: &[u8]) -> Box<dyn Aead> {
        Box::new(cipher())
    }
}

impl Aead for Gcm {
    fn seal(&self, nonce: &[u8; NONCE_LEN], associated: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        self.0.seal(nonce, associated, text)
    }

    fn open(&self, nonce: &[u8; NONCE_LEN], associated: &[u8], text_and_tag: &mut [u8]) -> bool {
        self.0.open(nonce, associated, text_and_tag)
    }
}

fn keys() -> PayloadKeys {
    PayloadKeys { sealing: PayloadKey { id: 3, secret: Arc::new(OneKey) }, accepted: None }
}

/// Input: what is sent to a receiver of an encrypted session, and to one that has no keys: first a byte that says how it
/// is made, then bytes as they are (0), messages that somebody with the key has encrypted (1), or a datagram of the
/// source, changed behind its header at a place (else). What is not encrypted with the key delivers nothing.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let good = datagram();
    let (datagram, is_sealed, is_changed) = match input.u8() % 4 {
        0 => (input.rest().to_vec(), false, false),
        1 => (sealed(input.rest(), &good), true, false),
        _ => {
            let at = HEADER_LEN + usize::from(input.u16()) % (good.len() - HEADER_LEN);
            let by = input.u8();
            let mut changed = good.clone();
            changed[at] ^= by;
            (changed, by == 0, by != 0)
        }
    };
    let (mut receiver, mut heard) = (receiver(), Heard::default());
    receiver.decrypt(keys());
    let taken = receiver.on_datagram(NOW, FROM, &datagram, &mut heard);
    assert!(is_sealed || heard.0 == 0, "{taken:?}");
    if is_changed {
        assert!(taken.is_err(), "{taken:?}");
        assert_eq!(receiver.on_datagram(NOW, FROM, &good, &mut heard), Ok(()), "the good one still comes");
        assert_eq!(heard.0, 1);
    }
    let mut bare = Heard::default();
    let passed = self::receiver().on_datagram(NOW, FROM, &datagram, &mut bare);
    assert!(!is_sealed || bare.0 == 0, "what is encrypted is nobody's without the key");
    match taken {
        Err(taken) => Outcome::refused((taken, passed)),
        Ok(()) => Outcome::accepted((heard.0.min(2), passed)),
    }
}

fn receiver() -> Receiver {
    let key = SessionKey { source: SOURCE, session: SESSION };
    let (counters, delivery) = (Arc::new(LbtrmReceiver::default()), Arc::new(LbmDelivery::default()));
    let receiver = Receiver::new(&ReceiverConfig::default(), key, 1, NOW, counters, delivery);
    let mut receiver = receiver.expect("allowed");
    receiver.subscribe(TOPIC, 1).expect("free");
    receiver
}

/// A datagram of one message, encrypted.
fn datagram() -> Vec<u8> {
    let config = SourceConfig {
        transmission_window_size: 65_536,
        transport_session_maximum_buffer: 32_768,
        maximum_message_size: 8_000,
        ..SourceConfig::default()
    };
    let mut source = Source::new(&config, SESSION, NOW, Arc::new(LbtrmSource::default())).expect("allowed");
    source.encrypt(&keys(), SOURCE, [5; 16]);
    let topic = source.add_topic(NOW, TOPIC);
    assert_eq!(source.send(NOW, topic, &[b"a message"]), Ok(Sqn(0)));
    source.flush();
    source.poll_transmit(NOW).expect("flushed").bytes.to_vec()
}

/// The header and frame of a good datagram, and any messages behind them.
fn sealed(messages: &[u8], good: &[u8]) -> Vec<u8> {
    let mut datagram = good[..HEADER_LEN + FRAME_LEN].to_vec();
    let len = (messages.len() + COVER_LEN) as u16;
    datagram[HEADER_LEN + 2..HEADER_LEN + 4].copy_from_slice(&len.to_be_bytes());
    let mut text = messages.to_vec();
    // The first number of the first epoch.
    let tag = cipher().seal(&[0; NONCE_LEN], &datagram[HEADER_LEN..], &mut text);
    datagram.extend_from_slice(&text);
    datagram.extend_from_slice(&tag);
    datagram
}
