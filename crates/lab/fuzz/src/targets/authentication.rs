use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use counters::table::{LbmDelivery, LbtrmReceiver, LbtrmSource};
use lbt::authentication::{CODE_LEN, Keys, SEAL_LEN};
use lbt::config::{ReceiverConfig, SourceConfig};
use lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, Lost};
use lbt::rm::{Receiver, SessionKey, Source};
use lbt::wire::lbtrm::SessionHeader;
use net::authentication::HmacSha256;
use units::{Nanos, Sqn};

use crate::Outcome;
use crate::input::Input;

pub(super) const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 29, 3, 1);
pub(super) const FROM: SocketAddrV4 = SocketAddrV4::new(SOURCE, 14_380);
pub(super) const SESSION: SessionHeader = SessionHeader { ucast_port: 14_380, session_id: 0x5eed_1234 };
pub(super) const TOPIC: u32 = 7;
pub(super) const KEY: u16 = 3;
pub(super) const NOW: Nanos = Nanos(1);

const SECRET: &[u8] = b"what nobody else knows";

pub(super) fn secret() -> HmacSha256 {
    HmacSha256::new(SECRET)
}

pub(super) fn keys() -> Keys {
    Keys::new((KEY, HmacSha256::coder(SECRET)), None)
}

/// How many messages were delivered.
#[derive(Default)]
pub(super) struct Heard(pub(super) u32);

impl DeliverySink for Heard {
    fn deliver(&mut self, _: Delivered<'_>) {
        self.0 += 1;
    }
    fn lost(&mut self, _: Lost) {}
    fn begin_of_stream(&mut self, _: BeginOfStream) {}
    fn end_of_stream(&mut self, _: EndOfStream) {}
}

/// Input: what is sent to both ends of a session with keyed codes: first a byte that says how it is made,
/// then bytes as they are (0), bytes that somebody with the key has signed (1), or a datagram of the source
/// itself, changed at a place (else). What is not signed as it must be has no effect.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let (mut source, mut receiver, counters) = ends();
    let good = datagram(&mut source);
    let (datagram, is_signed) = match input.u8() % 4 {
        0 => (input.rest().to_vec(), false),
        1 => (signed(input.rest(), &good), true),
        _ => {
            let (at, by) = (usize::from(input.u16()) % good.len(), input.u8());
            let mut changed = good.clone();
            changed[at] ^= by;
            (changed, by == 0)
        }
    };
    let mut heard = Heard::default();
    let taken = receiver.on_datagram(NOW, FROM, &datagram, &mut heard);
    let nak = source.on_datagram(NOW, FROM, &datagram);
    if !is_signed {
        let refused = [counters.0.dgrams_unauthentic.get(), counters.1.nak_pckts_unauthentic.get()];
        assert!(taken.is_err() && heard.0 == 0, "{taken:?}");
        assert!(nak.is_err() && source.poll_transmit(NOW).is_none(), "{nak:?}, {refused:?}");
        assert_eq!(receiver.on_datagram(NOW, FROM, &good, &mut heard), Ok(()), "the good one still comes");
        assert_eq!(heard.0, 1);
    }
    match (taken, nak) {
        (Err(taken), Err(nak)) => Outcome::refused((taken, nak)),
        (taken, nak) => Outcome::accepted((heard.0.min(2), taken, nak)),
    }
}

fn ends() -> (Source, Receiver, (Arc<LbtrmReceiver>, Arc<LbtrmSource>)) {
    let config = SourceConfig {
        transmission_window_size: 65_536,
        transport_session_maximum_buffer: 32_768,
        maximum_message_size: 8_000,
        ..SourceConfig::default()
    };
    let (r, s) = (Arc::new(LbtrmReceiver::default()), Arc::new(LbtrmSource::default()));
    let mut source = Source::new(&config, SESSION, NOW, s.clone()).expect("allowed");
    source.authenticate(keys(), SOURCE);
    let key = SessionKey { source: SOURCE, session: SESSION };
    let delivery = Arc::new(LbmDelivery::default());
    let mut receiver =
        Receiver::new(&ReceiverConfig::default(), key, 1, NOW, r.clone(), delivery).expect("allowed");
    receiver.authenticate(keys());
    receiver.subscribe(TOPIC, 1).expect("free");
    (source, receiver, (r, s))
}

/// A datagram of one message, sent.
fn datagram(source: &mut Source) -> Vec<u8> {
    let topic = source.add_topic(NOW, TOPIC);
    assert_eq!(source.send(NOW, topic, &[b"a message"]), Ok(Sqn(0)));
    source.flush();
    let datagram = source.poll_transmit(NOW).expect("flushed").bytes.to_vec();
    source.sent(NOW, 1);
    datagram
}

/// The bytes with a seal like that of a good datagram.
fn signed(bytes: &[u8], good: &[u8]) -> Vec<u8> {
    let mut datagram = bytes.to_vec();
    datagram.extend_from_slice(&good[good.len() - SEAL_LEN..good.len() - CODE_LEN]);
    let code = secret().code(&[&SOURCE.octets(), &datagram]);
    datagram.extend_from_slice(&code);
    datagram
}
