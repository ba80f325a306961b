//! A receiver with its log, and datagrams made by hand.
#![allow(dead_code, reason = "each test file uses its part of it")]

use counters::table::{LbmDelivery, LbtrmReceiver};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use tickcast_lbt::config::ReceiverConfig;
use tickcast_lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, EndReason, Lost};
use tickcast_lbt::error::WireError;
use tickcast_lbt::rm::{Receiver, SessionKey};
use tickcast_lbt::wire::lbmc::{self, Chain, Header, Kind};
use tickcast_lbt::wire::lbtrm::{
    DATA_HEADER_LEN, Data, FLAG_RETRANSMISSION, Ncf, Packet, SessionHeader, SessionMessage,
};
use tickcast_lbt::wire::list::NcfReason;
use units::{Nanos, Sqn};

pub(crate) const SESSION: SessionHeader = SessionHeader { ucast_port: 14391, session_id: 0x5eed_1234 };
pub(crate) const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 29, 3, 1);
pub(crate) const FROM: SocketAddrV4 = SocketAddrV4::new(SOURCE, 40_001);

/// What a sink was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Begin { token: u64, first: u32 },
    Message { token: u64, first: u32, sqn: u32, payload: Vec<u8>, recovered: bool },
    Lost { token: u64, first: u32, count: u32 },
    Unheard { token: u64, next: u32 },
    End { token: u64, reason: EndReason, next: u32, tail_unknown: bool },
}

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) events: Vec<Event>,
}

impl Log {
    pub(crate) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}

impl DeliverySink for Log {
    fn deliver(&mut self, m: Delivered<'_>) {
        let (token, first, sqn, recovered) = (m.token, m.first_sqn.0, m.sqn.0, m.recovered);
        self.events.push(Event::Message { token, first, sqn, payload: m.payload.to_vec(), recovered });
    }

    fn lost(&mut self, lost: Lost) {
        self.events.push(Event::Lost { token: lost.token, first: lost.first.0, count: lost.count });
    }

    fn begin_of_stream(&mut self, begin: BeginOfStream) {
        self.events.push(Event::Begin { token: begin.token, first: begin.first.0 });
    }

    fn unheard(&mut self, end: EndOfStream, is_known: bool) {
        if is_known {
            self.events.push(Event::Unheard { token: end.token, next: end.next.0 });
        }
    }

    fn end_of_stream(&mut self, end: EndOfStream) {
        let EndOfStream { token, reason, next, tail_unknown, .. } = end;
        self.events.push(Event::End { token, reason, next: next.0, tail_unknown });
    }
}

pub(crate) struct ReceiverBench {
    pub(crate) receiver: Receiver,
    pub(crate) counters: Arc<LbtrmReceiver>,
    pub(crate) delivery: Arc<LbmDelivery>,
    pub(crate) log: Log,
    pub(crate) now: Nanos,
}

impl ReceiverBench {
    pub(crate) fn new(config: &ReceiverConfig) -> ReceiverBench {
        let counters = Arc::new(LbtrmReceiver::default());
        let delivery = Arc::new(LbmDelivery::default());
        let key = SessionKey { source: SOURCE, session: SESSION };
        let receiver = Receiver::new(config, key, 1, Nanos::ZERO, counters.clone(), delivery.clone());
        let receiver = receiver.expect("allowed");
        ReceiverBench { receiver, counters, delivery, log: Log::default(), now: Nanos::ZERO }
    }

    pub(crate) fn take(&mut self, datagram: &[u8]) {
        self.try_take(datagram).expect("well-formed");
    }

    pub(crate) fn try_take(&mut self, datagram: &[u8]) -> Result<(), WireError> {
        self.receiver.on_datagram(self.now, FROM, datagram, &mut self.log)
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.now += by;
        self.receiver.on_wakeup(self.now, &mut self.log);
    }

    /// Time passes in which the source is heard, though it sends nothing that is missing.
    pub(crate) fn advance_heard(&mut self, by: Duration) {
        const STEP: Duration = Duration::from_millis(100);
        let end = self.now + by;
        while self.now < end {
            let mut ncf = Vec::new();
            Ncf::emit(SESSION, Sqn(0), NcfReason::Ignored, &[], &mut ncf);
            self.take(&ncf);
            self.advance(end.since(self.now).min(STEP));
        }
    }

    pub(crate) fn close(&mut self) {
        self.receiver.close(&mut self.log);
    }

    /// The numbers of the NAKs that are due, packet by packet.
    pub(crate) fn naks(&mut self) -> Vec<Vec<u32>> {
        let mut naks = Vec::new();
        while let Some(feedback) = self.receiver.poll_transmit(self.now) {
            let Ok(Packet::Nak(nak)) = Packet::parse(feedback.datagram) else { panic!("not a NAK") };
            naks.push(nak.numbers.iter().map(|n| n.0).collect());
        }
        naks
    }
}

/// A DATA datagram of messages given as topic index, number and text.
pub(crate) fn data(sqn: u32, messages: &[(u32, u32, &str)]) -> Vec<u8> {
    data_with(sqn, 0, false, messages)
}

pub(crate) fn data_with(sqn: u32, trail: u32, again: bool, messages: &[(u32, u32, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for &(topic, number, text) in messages {
        let topic = Some((topic, Sqn(number)));
        lbmc::emit_message(&mut out, Kind::Message, topic, &Chain::default(), Some(text.as_bytes()));
    }
    data_of(sqn, trail, again, &out)
}

pub(crate) fn data_of(sqn: u32, trail: u32, again: bool, messages: &[u8]) -> Vec<u8> {
    let mut header = Data::new(SESSION, Sqn(sqn), Sqn(trail));
    header.flags |= if again { FLAG_RETRANSMISSION } else { 0 };
    let mut out = [0; DATA_HEADER_LEN];
    header.emit_header(&mut out);
    [&out, messages].concat()
}

/// A fragment: topic number, first number, offset and length of the whole.
pub(crate) fn fragment(
    topic: u32,
    number: u32,
    first: u32,
    offset: u32,
    length: u32,
    data: &[u8],
) -> Vec<u8> {
    let mut chain = Chain::default();
    chain.push(&Header::Frag { flags: 0, first_sqn: Sqn(first), offset, length });
    let mut out = Vec::new();
    lbmc::emit_message(&mut out, Kind::Message, Some((topic, Sqn(number))), &chain, Some(data));
    out
}

pub(crate) fn sm(lead: u32, trail: u32) -> Vec<u8> {
    let mut out = Vec::new();
    SessionMessage::new(SESSION, 0, Sqn(lead), Sqn(trail)).emit(&mut out);
    out
}

pub(crate) fn tsni(sqn: u32, topics: &[(u32, u32)]) -> Vec<u8> {
    let topics: Vec<_> = topics.iter().map(|&(index, last)| (index, Sqn(last))).collect();
    let mut out = Vec::new();
    lbmc::emit_tsni(&mut out, &topics);
    data_of(sqn, 0, false, &out)
}

pub(crate) fn eot(sqn: u32) -> Vec<u8> {
    let mut out = Vec::new();
    lbmc::emit_message(&mut out, Kind::EndOfTransport, None, &Chain::default(), None);
    data_of(sqn, 0, false, &out)
}
