//! Operations on the two ends of a reliable session, in any order, over a wire that does what the input says.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use counters::table::{LbmDelivery, LbtrmReceiver, LbtrmSource, LbtruReceiver, LbtruSource};
use lbt::config::{LbtruReceiverConfig, LbtruSourceConfig, ReceiverConfig, SourceConfig};
use lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, EndReason, Lost};
use lbt::session::TopicId;
use lbt::wire::lbtrm::SessionHeader;
use lbt::{rm, ru};
use units::Nanos;

use crate::Outcome;
use crate::input::Input;

const SOURCE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 1), 14_380);
const RECEIVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 21), 14_360);
const SESSION: SessionHeader = SessionHeader { ucast_port: 14_380, session_id: 0x5eed_1234 };
const TOPIC: u32 = 7;
/// Datagrams on the wire in one direction; further ones are lost.
const WIRE_MAX: usize = 64;
/// What both ends together may hold.
const MEMORY_BYTES_MAX: usize = 4 << 20;
const MS: Duration = Duration::from_millis(1);

/// Both ends of a session of one transport.
pub(super) trait Ends {
    fn new() -> Self;
    fn send(&mut self, now: Nanos, payload: &[u8]);
    fn flush(&mut self);
    fn end(&mut self, now: Nanos);
    fn wake(&mut self, now: Nanos, stream: &mut Stream);
    /// What the source sends now, in part: `count` datagrams at most of what it hands out.
    fn transmit(&mut self, now: Nanos, count: u32, wire: &mut VecDeque<Vec<u8>>) -> bool;
    fn answer(&mut self, now: Nanos) -> Option<Vec<u8>>;
    fn to_receiver(&mut self, now: Nanos, datagram: &[u8], stream: &mut Stream);
    fn to_source(&mut self, now: Nanos, datagram: &[u8]);
    fn has_ended(&self) -> bool;
    fn memory_bytes(&self) -> usize;
}

/// The promise of a topic in order: each number once, ascending, none left out.
#[derive(Default)]
pub(super) struct Stream {
    next: Option<u32>,
    messages: u32,
    /// Announcements may jump by half of the numbers, again and again.
    lost: u64,
    /// Where it stood before each jump.
    jumped_from: Vec<u32>,
}

impl Stream {
    fn take(&mut self, first: u32, count: u32) {
        let next = self.next.as_mut().expect("a stream begins before it goes on");
        assert_eq!(*next, first, "in order, once, without a hole");
        *next = first.wrapping_add(count);
    }
}

impl DeliverySink for Stream {
    fn deliver(&mut self, m: Delivered<'_>) {
        self.messages += 1;
        self.take(m.first_sqn.0, m.sqn.0.wrapping_sub(m.first_sqn.0).wrapping_add(1));
    }

    fn lost(&mut self, lost: Lost) {
        self.lost += u64::from(lost.count);
        self.jumped_from.push(lost.first.0);
        self.take(lost.first.0, lost.count);
    }

    fn begin_of_stream(&mut self, begin: BeginOfStream) {
        assert_eq!(self.next.replace(begin.first.0), None, "a stream begins once");
    }

    fn end_of_stream(&mut self, end: EndOfStream) {
        let (next, end_next) = (self.next.take(), end.next.0);
        // A session whose last jump turns out to be somebody else's goes on where it stood before, as another one.
        let goes_back = end.reason == EndReason::Restarted && self.jumped_from.contains(&end_next);
        assert!(next == Some(end_next) || goes_back, "the end is where the stream is: {next:?}, {end_next}");
    }
}

/// Input: operations of a byte, with what each needs behind it. Taken is what delivers a message.
pub(super) fn execute<E: Ends>(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let mut session = Session::<E> {
        ends: E::new(),
        stream: Stream::default(),
        now: Nanos(1),
        down: VecDeque::new(),
        up: VecDeque::new(),
        answers: 0,
    };
    while !input.is_empty() {
        session.step(&mut input);
        let held = session.ends.memory_bytes();
        assert!(held <= MEMORY_BYTES_MAX, "{held} bytes are held");
    }
    session.come_to_rest();
    let Stream { messages, lost, .. } = session.stream;
    let shape =
        (messages > 1, messages > 9, lost > 0, lost > 9, session.answers > 3, session.ends.has_ended());
    if messages > 0 { Outcome::accepted(shape) } else { Outcome::refused(shape) }
}

struct Session<E> {
    ends: E,
    stream: Stream,
    now: Nanos,
    down: VecDeque<Vec<u8>>,
    up: VecDeque<Vec<u8>>,
    /// What the receiver has said.
    answers: u32,
}

impl<E: Ends> Session<E> {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 16 {
            0 => self.ends.send(self.now, &vec![7; 16 * usize::from(input.u8())]),
            1 => self.ends.flush(),
            2 => self.pass(u32::from(input.u8())),
            3 => self.pass(u32::from(input.u16())),
            4 => {
                self.ends.transmit(self.now, u32::from(input.u8()), &mut self.down);
                self.down.truncate(WIRE_MAX);
            }
            5 => {
                if let Some(datagram) = self.down.pop_front() {
                    self.ends.to_receiver(self.now, &datagram, &mut self.stream);
                }
            }
            6 => drop(self.down.pop_front()),
            7 => self.down.extend(self.down.front().cloned()),
            8 => self.up.extend(self.ends.answer(self.now)),
            9 => {
                if let Some(datagram) = self.up.pop_front() {
                    self.ends.to_source(self.now, &datagram);
                }
            }
            10 => drop(self.up.pop_front()),
            11 => self.ends.to_receiver(self.now, input.chunk(), &mut self.stream),
            12 => self.ends.to_source(self.now, input.chunk()),
            13 if input.u8() == 0 => self.ends.end(self.now),
            14 => {
                let (at, bits) = (usize::from(input.u8()), input.u8());
                if let Some(byte) = self.down.front_mut().and_then(|d| d.get_mut(at)) {
                    *byte ^= bits;
                }
            }
            _ => self.down.rotate_left(self.down.len().min(1)),
        }
        self.up.truncate(WIRE_MAX);
        self.down.truncate(WIRE_MAX);
    }

    fn pass(&mut self, ms: u32) {
        self.now += MS * ms;
        self.ends.wake(self.now, &mut self.stream);
    }

    /// The wire is good from now on: what is to be said is said, and nobody goes on without end.
    fn come_to_rest(&mut self) {
        for _ in 0..30 {
            self.pass(10);
            let mut rounds = 0;
            while self.ends.transmit(self.now, u32::MAX, &mut self.down) {
                rounds += 1;
                assert!(rounds < 100_000, "the source does not come to rest");
                for datagram in self.down.drain(..) {
                    self.ends.to_receiver(self.now, &datagram, &mut self.stream);
                }
            }
            rounds = 0;
            while let Some(datagram) = self.ends.answer(self.now) {
                rounds += 1;
                self.answers += 1;
                assert!(rounds < 10_000, "the receiver does not come to rest");
                self.ends.to_source(self.now, &datagram);
            }
        }
    }
}

/// What both transports have alike.
macro_rules! alike {
    () => {
        fn send(&mut self, now: Nanos, payload: &[u8]) {
            let _ = self.source.send(now, self.topic, &[payload]);
        }

        fn flush(&mut self) {
            self.source.flush();
        }

        fn end(&mut self, now: Nanos) {
            self.source.end(now);
        }

        fn wake(&mut self, now: Nanos, stream: &mut Stream) {
            self.source.on_wakeup(now);
            self.receiver.on_wakeup(now, stream);
        }

        fn answer(&mut self, now: Nanos) -> Option<Vec<u8>> {
            self.receiver.poll_transmit(now).map(|f| f.datagram.to_vec())
        }

        fn to_receiver(&mut self, now: Nanos, datagram: &[u8], stream: &mut Stream) {
            let _ = self.receiver.on_datagram(now, SOURCE, datagram, stream);
        }

        fn to_source(&mut self, now: Nanos, datagram: &[u8]) {
            let _ = self.source.on_datagram(now, RECEIVER, datagram);
        }

        fn has_ended(&self) -> bool {
            self.receiver.has_ended()
        }

        fn memory_bytes(&self) -> usize {
            self.source.memory_bytes() + self.receiver.memory_bytes()
        }
    };
}

pub(super) struct Multicast {
    source: rm::Source,
    topic: TopicId,
    receiver: rm::Receiver,
}

impl Ends for Multicast {
    fn new() -> Multicast {
        let config = SourceConfig {
            datagram_max_size: 500,
            transmission_window_size: 64 << 10,
            transport_session_maximum_buffer: 16 << 10,
            maximum_message_size: 16 << 10,
            ..SourceConfig::default()
        };
        let now = Nanos(1);
        let source = rm::Source::new(&config, SESSION, now, Arc::new(LbtrmSource::default()));
        let mut source = source.expect("allowed");
        let topic = source.add_topic(now, TOPIC);
        let key = rm::SessionKey { source: *SOURCE.ip(), session: SESSION };
        let config = receiver_config();
        let counters = (Arc::new(LbtrmReceiver::default()), Arc::new(LbmDelivery::default()));
        let receiver = rm::Receiver::new(&config, key, 1, now, counters.0, counters.1);
        let mut receiver = receiver.expect("allowed");
        receiver.subscribe(TOPIC, 0).expect("free");
        Multicast { source, topic, receiver }
    }

    fn transmit(&mut self, now: Nanos, count: u32, wire: &mut VecDeque<Vec<u8>>) -> bool {
        let Some(run) = self.source.poll_transmit(now) else { return false };
        let count = count.min(run.count);
        wire.extend(run.datagrams().take(count as usize).map(<[u8]>::to_vec));
        self.source.sent(now, count);
        true
    }

    alike!();
}

pub(super) struct Unicast {
    source: ru::Source,
    topic: TopicId,
    receiver: ru::Receiver,
}

impl Ends for Unicast {
    fn new() -> Unicast {
        let session = SourceConfig {
            datagram_max_size: 500,
            transmission_window_size: 64 << 10,
            transport_session_maximum_buffer: 16 << 10,
            maximum_message_size: 16 << 10,
            ..SourceConfig::default()
        };
        let config = LbtruSourceConfig { session, ..LbtruSourceConfig::default() };
        let (now, id) = (Nanos(1), SESSION.session_id);
        let source = ru::Source::new(&config, id, 1, now, Arc::new(LbtruSource::default()));
        let mut source = source.expect("allowed");
        let topic = source.add_topic(now, TOPIC);
        let key = ru::SessionKey { source: SOURCE, session_id: Some(id) };
        let limits = receiver_config();
        let standard = LbtruReceiverConfig::default();
        let session = ReceiverConfig {
            maximum_missing: limits.maximum_missing,
            maximum_gaps: limits.maximum_gaps,
            delivery: limits.delivery,
            ..standard.session
        };
        let config = LbtruReceiverConfig { session, ..standard };
        let counters = (Arc::new(LbtruReceiver::default()), Arc::new(LbmDelivery::default()));
        let receiver = ru::Receiver::new(&config, key, 1, 1, now, counters.0, counters.1);
        let mut receiver = receiver.expect("allowed");
        receiver.subscribe(TOPIC, 0).expect("free");
        Unicast { source, topic, receiver }
    }

    /// What goes to others than the receiver is not looked at.
    fn transmit(&mut self, now: Nanos, count: u32, wire: &mut VecDeque<Vec<u8>>) -> bool {
        let Some(transmit) = self.source.poll_transmit(now) else { return false };
        let count = count.min(transmit.count());
        if transmit.to.contains(&RECEIVER) {
            wire.extend(transmit.run.datagrams().take(count as usize).map(<[u8]>::to_vec));
        }
        self.source.sent(now, count);
        true
    }

    alike!();
}

fn receiver_config() -> ReceiverConfig {
    let mut config = ReceiverConfig { maximum_gaps: 50, maximum_missing: 1_000, ..ReceiverConfig::default() };
    config.delivery.hold_maximum_bytes = 256 << 10;
    config.delivery.delivery_control_maximum_total_map_entries = 8_192;
    config.delivery.maximum_message_size = 100_000;
    config.delivery.reassembly_maximum_bytes = 200_000;
    config
}
