//! Shared memory: a ring that receivers of this host read.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::DerefMut;
use std::time::Duration;

use lbt::ordered::{Kept, Room, Slot, Source, ask_receivers};
use lbt::presence::{Answer, Query};
use lbt::resolution::TransportSession;
use lbt::rm::{SendError, TopicId};
use lbt::session::Unsent;
use lbt::wire::lbmc::Chain;
use net::shm::{self, Pacing, SessionName};
use units::Nanos;
use units::Sqn;

use super::claim::Claim;
use super::session::{KEPT_MAX_BYTES, Opened, Session};
use crate::base::Base;
use crate::closing::Patience;
use crate::config::IpcBehavior;
use crate::error::ContextError;
use crate::event::SourceEvent;
use crate::host::host_id;
use crate::published::Lent;
use crate::statistics::{Peer, SentStatistics};

/// The sending side of a session of shared memory.
pub(crate) struct IpcOutgoing {
    pub(super) session: Source,
    pub(super) ring: Kept<Ring>,
    /// When to look after the receivers again.
    look_at: Nanos,
    /// When to look again whether a ring that was full has room.
    room_at: Nanos,
    /// An explicit batch is open: it is shown when it ends, when a segment is full, or when
    /// there was no room for more of it.
    pub(super) is_held: bool,
    /// Somebody has removed the name of the file.
    has_lost_name: bool,
    pub(super) events: Vec<SourceEvent>,
    _shown: Option<Lent>,
}

/// The ring as a room for messages.
pub(crate) struct Ring {
    source: shm::Source,
    ring_bytes: u64,
    is_receiver_paced: bool,
    /// A claim found no room, and none was found since.
    is_full: bool,
}

/// How often the source looks after its receivers.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often a source that waits for its receivers looks whether there is room: nobody tells it. While a sixteenth of
/// the smallest ring is read, at several GB/s.
const ROOM_EVERY: Duration = Duration::from_micros(50);
/// What receivers of shared memory are called in events: they have no address.
const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The only session of a context.
const TRANSPORT_ID: u16 = 20_001;

impl IpcOutgoing {
    /// Opens the session of this context.
    pub(super) fn open(base: &mut Base) -> Result<Opened<IpcOutgoing>, ContextError> {
        let config = &base.config;
        let is_receiver_paced = config.ipc.behavior == IpcBehavior::ReceiverPaced;
        let stopped = Duration::from_micros(config.ipc.receiver_stopped_timeout_us);
        let pacing = if is_receiver_paced {
            Pacing::Receiver { drop_stopped_after: Some(stopped).filter(|span| !span.is_zero()) }
        } else {
            Pacing::Source
        };
        let ring_bytes = config.ipc.transmission_window_size_bytes.next_power_of_two();
        let group = config.ipc.group.as_deref().map(net::user::group_id).transpose()?;
        let options = shm::SourceOptions {
            directory: (&config.ipc.directory).into(),
            ring_bytes,
            pacing,
            permissions: if group.is_some() { 0o660 } else { 0o600 },
            group,
        };
        let topics = Source::new(&config.ipc_source(), base.counters.lbm_source.clone())?;
        let session_id = base.rng.next_u32().max(1);
        let source = shm::Source::create(SessionName { session_id, transport_id: TRANSPORT_ID }, &options)?;
        let host_id = host_id()?;
        let transport = TransportSession::Ipc { host_id, session_id, transport_id: TRANSPORT_ID };
        let shown = base.show(&transport, source.counters().clone());
        let session = IpcOutgoing {
            session: topics,
            ring: Kept::new(Ring { source, ring_bytes, is_receiver_paced, is_full: false }),
            look_at: base.now,
            room_at: base.now,
            is_held: false,
            has_lost_name: false,
            events: Vec::new(),
            _shown: shown,
        };
        Ok(Opened { session, transport, origin: None })
    }

    #[inline]
    fn show_all(&mut self) {
        self.ring.source.publish();
        if self.ring.is_full {
            self.ring.is_full = !self.ring.source.has_room();
        }
    }

    fn readers(&self) -> impl Iterator<Item = Peer> + '_ {
        let of = |reader: shm::ReaderInfo| Peer {
            process: reader.pid,
            waiting_bytes: reader.lag_bytes,
            ..Peer::at(HERE)
        };
        self.ring.source.readers().map(of)
    }

    /// Bytes that the slowest receiver has not read, where the source waits for it, and how many receivers
    /// have not read everything.
    fn unread(&self) -> (Unsent, u32) {
        if self.session.has_said_end() {
            // Receivers that have opened it read it to its end.
            return Default::default();
        }
        let lags = self.ring.source.readers().filter(|reader| !reader.is_dropped).map(|r| r.lag_bytes);
        let (mut left, mut receivers) = (Unsent::default(), 0);
        for lag in lags {
            left.bytes = left.bytes.max(lag);
            receivers += u32::from(lag > 0);
        }
        (left, receivers)
    }

    fn look_after_readers(&mut self, base: &Base, now: Nanos) {
        self.look_at = now + LOOK_EVERY;
        if !self.has_lost_name && !self.ring.source.has_name() {
            self.has_lost_name = true;
            base.counters.context.ipc_names_lost.inc();
        }
        let changes = self.ring.source.look_after_readers(now);
        let told = |event, count: u32| std::iter::repeat_n(event, count as usize);
        self.events.extend(told(SourceEvent::ReceiverConnected(HERE), changes.joined));
        self.events.extend(told(SourceEvent::ReceiverDisconnected(HERE), changes.left));
    }
}

impl Session for IpcOutgoing {
    fn add_topic(&mut self, now: Nanos, index: u32, first: Sqn) -> TopicId {
        self.session.add_topic_at(now, index, first)
    }

    fn remove_topic(&mut self, topic: TopicId) {
        self.session.remove_topic(topic);
    }

    fn next_sqn(&self, topic: TopicId) -> Option<Sqn> {
        self.session.next_sqn(topic)
    }

    #[inline]
    fn send(&mut self, now: Nanos, topic: TopicId, parts: &[&[u8]]) -> Result<Sqn, SendError> {
        self.session.send(now, topic, parts, &mut self.ring)
    }

    fn send_with(
        &mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        self.session.send_with(now, topic, headers, parts, &mut self.ring)
    }

    #[inline]
    fn claim(&mut self, now: Nanos, topic: TopicId, len: usize) -> Result<Claim<'_>, SendError> {
        self.session.claim(now, topic, len, &mut self.ring).map(Claim::ipc)
    }

    fn claim_max(&self) -> usize {
        self.session.claim_max()
    }

    fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    fn keep_written(&mut self) -> Sqn {
        self.ring.keep(KEPT_MAX_BYTES);
        Sqn(0)
    }

    fn written(&mut self, _: &mut Sqn, each: impl FnMut(&[u8])) {
        self.ring.take(each);
    }

    fn sent(&self) -> (u64, Option<SentStatistics>) {
        (self.ring.written_bytes(), None)
    }

    fn peers(&self, from: usize) -> Box<dyn Iterator<Item = (usize, Peer)> + '_> {
        Box::new(self.readers().enumerate().skip(from))
    }

    fn peer_count(&self) -> usize {
        self.readers().count()
    }

    fn is_blocked(&self) -> bool {
        self.ring.was_full() || self.ring.is_blocked()
    }

    fn next_wakeup(&self) -> Nanos {
        let own = if self.events.is_empty() { self.look_at } else { Nanos::ZERO };
        let room = if self.ring.is_full { self.room_at } else { Nanos::NEVER };
        own.min(room).min(self.session.next_wakeup())
    }

    fn transmit(&mut self, _: &mut Base, _: Nanos) {
        self.show_all();
    }

    #[inline]
    fn flush(&mut self, _: &mut Base, _: Nanos) {
        self.show_all();
    }

    fn end(&mut self, _: &mut Base, _: Nanos) {
        self.session.end(&mut self.ring);
        self.show_all();
    }

    fn on_wakeup(&mut self, base: &mut Base, now: Nanos) {
        self.session.on_wakeup(now, &mut self.ring);
        if !self.is_held || self.ring.is_full {
            self.show_all();
        }
        self.room_at = now + ROOM_EVERY;
        if now >= self.look_at {
            self.look_after_readers(base, now);
        }
    }

    fn on_ready(&mut self, _: &mut Base, _: Nanos) -> bool {
        false
    }

    fn ask_receivers(&mut self, query: &Query) -> bool {
        let is_asked = !self.session.has_said_end() && ask_receivers(query, &mut self.ring);
        if is_asked && !self.is_held {
            self.show_all();
        }
        is_asked
    }

    fn take_answers(&mut self, mut each: impl FnMut(Answer, Option<SocketAddr>)) {
        self.ring.source.take_answers(|shm::Answer { receiver, number, topics }| {
            each(Answer { number, receiver, topics }, None);
        });
    }

    fn has_silent_answers(&self) -> bool {
        true
    }

    fn take_events(&mut self, _: &mut Base) -> Vec<SourceEvent> {
        std::mem::take(&mut self.events)
    }

    fn left(&self) -> (Unsent, u32, bool) {
        let (unsent, receivers) = self.unread();
        (unsent, receivers, false)
    }

    fn settle(&mut self, base: &mut Base, now: Nanos, _: &Patience) -> bool {
        self.on_wakeup(base, now);
        self.session.has_said_end()
    }

    /// No message follows what is in the ring, whether there was room to say so or not.
    fn bid_farewell(&mut self, _: &mut Base, _: Nanos) -> bool {
        self.ring.source.close();
        false
    }
}

impl Room for Ring {
    type Slot<'a> = RingSlot<'a>;

    /// What was full may have room by now: the claim says.
    #[inline]
    fn is_blocked(&self) -> bool {
        false
    }

    #[inline]
    fn slot(&mut self, len: usize) -> Option<RingSlot<'_>> {
        match self.source.claim(len, 0) {
            Ok(claim) => Some(RingSlot(claim)),
            Err(_) => {
                self.is_full = true;
                None
            }
        }
    }

    fn can_hold(&self, count: usize, len: usize) -> bool {
        // A frame has eight bytes before the message and lies within one of sixteen segments.
        let per_segment = (self.ring_bytes / 16) / (len as u64 + 16).next_multiple_of(8);
        let need = (count as u64).div_ceil(per_segment.max(1)) + 2;
        let lag = if self.is_receiver_paced {
            self.source.readers().map(|reader| reader.lag_bytes).max().unwrap_or(0)
        } else {
            0
        };
        need * (self.ring_bytes / 16) + lag <= self.ring_bytes
    }
}

impl Ring {
    /// Bytes of the stream so far, as they lie in the ring.
    pub(super) fn written_bytes(&self) -> u64 {
        self.source.position()
    }

    /// Whether the last send found no room, and none was found since.
    pub(super) fn was_full(&self) -> bool {
        self.is_full
    }
}

/// Room for one message in the ring.
pub(crate) struct RingSlot<'a>(shm::Claim<'a>);

impl Slot for RingSlot<'_> {
    #[inline]
    fn bytes(&mut self) -> &mut [u8] {
        self.0.deref_mut()
    }

    #[inline]
    fn commit(self) {
        self.0.commit();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use units::Sqn;

    use super::*;
    use crate::context::tests::lone_with;
    use crate::{
        Context, EndReason, Handler, Message, MessagingConfig, Receiver, ReceiverOptions, SendError, Source,
        SourceOptions, StreamId, Transport,
    };

    #[derive(Default)]
    struct Heard {
        messages: u64,
        ends: Vec<crate::End>,
        rooms: u32,
    }

    impl Handler for Heard {
        fn on_message(&mut self, _: &Message<'_>) {
            self.messages += 1;
        }
        fn on_end(&mut self, _: Receiver, _: StreamId, end: &crate::End) {
            self.ends.push(*end);
        }
        fn on_source_event(&mut self, _: Source, event: SourceEvent) {
            self.rooms += u32::from(event == SourceEvent::WakeUp);
        }
    }

    /// A source that waits for its receiver, which has heard of it and reads no more; how many messages it has sent.
    fn full(test: u8) -> (Context, Source, Context, Heard, u64) {
        let paced = |config: &mut MessagingConfig| {
            config.ipc.behavior = IpcBehavior::ReceiverPaced;
            config.ipc.transmission_window_size_bytes = 2 << 20;
            config.ipc.receiver_stopped_timeout_us = 0;
        };
        let (mut sending, mut receiving) = (lone_with(test, paced), lone_with(test, paced));
        let options = SourceOptions { transport: Some(Transport::LbtIpc), ..SourceOptions::default() };
        let source = sending.create_source("px", &options).expect("there is memory");
        receiving.create_receiver("px", &ReceiverOptions::default()).expect("it is a name");
        let (mut heard, mut sent, begun) = (Heard::default(), 0, Instant::now());
        while heard.messages == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "they do not meet");
            sending.send(source, &[b"hello"]).expect("nobody is in the way");
            sent += 1;
            sending.poll(&mut ()).expect("the poller works");
            receiving.poll(&mut heard).expect("the poller works");
        }
        loop {
            match sending.send(source, &[&[7; 1_000]]) {
                Ok(_) => sent += 1,
                Err(SendError::WouldBlock) => return (sending, source, receiving, heard, sent),
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn a_source_whose_ring_is_full_looks_for_room_now_and_then_and_tells_of_it_when_it_is_there() {
        let (mut sending, source, mut receiving, mut heard, _) = full(76);
        let mut room = Heard::default();
        for _ in 0..100 {
            sending.on_wakeup(sending.base.now, &mut room);
            assert!(sending.next_wakeup() > sending.base.now, "it is looked for without a pause");
            assert_eq!(sending.send(source, &[&[7; 1_000]]), Err(SendError::WouldBlock));
        }
        assert_eq!(room.rooms, 0, "there is none");
        let begun = Instant::now();
        while room.rooms == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody tells of room");
            receiving.poll(&mut heard).expect("the poller works");
            sending.wait(Some(Duration::from_millis(1)), &mut room).expect("the poller works");
        }
        sending.send(source, &[&[7; 1_000]]).expect("there is room");
    }

    #[test]
    fn a_file_that_somebody_has_removed_is_counted_once() {
        let mut context = lone_with(78, |_| {});
        let mut session = IpcOutgoing::open(&mut context.base).expect("there is memory").session;
        let counters = context.base.counters.context.clone();
        let mut look = |session: &mut IpcOutgoing| {
            context.base.now += LOOK_EVERY;
            let now = context.base.now;
            session.on_wakeup(&mut context.base, now);
            counters.ipc_names_lost.get()
        };
        assert_eq!(look(&mut session), 0);
        std::fs::remove_file(session.ring.source.path()).expect("it has a name");
        assert_eq!([look(&mut session), look(&mut session)], [1, 1]);
    }

    #[test]
    fn a_full_ring_that_is_closed_is_read_to_its_end_which_is_known() {
        let (mut sending, source, mut receiving, mut heard, sent) = full(77);
        let left = sending.close(Duration::ZERO);
        assert_eq!((left.sessions.len(), left.sessions[0].receivers), (1, 1), "{left}");
        assert_eq!(sending.send(source, &[b"late"]), Err(SendError::Ended));
        // The context is still there.
        let begun = Instant::now();
        while heard.ends.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the end is not told");
            receiving.wait(Some(Duration::from_millis(1)), &mut heard).expect("the poller works");
        }
        let crate::End { reason, next, tail_unknown } = heard.ends[0];
        assert_eq!((reason, next, tail_unknown), (EndReason::Ended, Some(Sqn(sent as u32)), false));
        drop(sending);
    }
}
