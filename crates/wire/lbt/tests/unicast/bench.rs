//! A source and receivers of LBT-RU with a wire between them that loses what a test says.

use crate::support::Log;
use counters::table::{LbmDelivery, LbtruReceiver, LbtruSource};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use tickcast_lbt::config::{LbtruReceiverConfig, LbtruSourceConfig, SourceConfig};
use tickcast_lbt::ru::{Receiver, SessionKey, Source, TopicId};
use tickcast_lbt::wire::lbtru::{Body, Options, Packet, emit_nak};
use units::{Nanos, Sqn};

pub(crate) const ID: u32 = 0x77aa_55cc;
pub(crate) const SOURCE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 1), 14_380);
pub(crate) const TOPIC: u32 = 0x0a11_ce01;
pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) fn address(n: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 21 + n as u8), 14_360)
}

pub(crate) struct End {
    pub(crate) address: SocketAddrV4,
    pub(crate) receiver: Receiver,
    pub(crate) counters: Arc<LbtruReceiver>,
    pub(crate) log: Log,
}

impl End {
    /// A good datagram arrives from the source.
    pub(crate) fn hear(&mut self, now: Nanos, datagram: &[u8]) {
        self.receiver.on_datagram(now, SOURCE, datagram, &mut self.log).expect("well-formed");
    }
}

pub(crate) struct Bench {
    pub(crate) source: Source,
    pub(crate) topic: TopicId,
    pub(crate) counters: Arc<LbtruSource>,
    pub(crate) ends: Vec<End>,
    pub(crate) now: Nanos,
    /// What the source sent, and where to.
    pub(crate) sent: Vec<(SocketAddrV4, Vec<u8>)>,
}

impl Bench {
    pub(crate) fn new(change: impl FnOnce(&mut LbtruSourceConfig)) -> Bench {
        let session = SourceConfig {
            data_rate_limit: 0,
            transmission_window_size: 1 << 20,
            maximum_message_size: 1 << 19,
            ..SourceConfig::default()
        };
        let mut config = LbtruSourceConfig { session, ..LbtruSourceConfig::default() };
        change(&mut config);
        let counters = Arc::new(LbtruSource::default());
        let source = Source::new(&config, ID, 1, Nanos::ZERO, counters.clone());
        let mut source = source.expect("allowed");
        let topic = source.add_topic(Nanos::ZERO, TOPIC);
        Bench { source, topic, counters, ends: Vec::new(), now: Nanos::ZERO, sent: Vec::new() }
    }

    /// A receiver that subscribed to the topic; it connects when packets pass.
    pub(crate) fn add_receiver(&mut self, change: impl FnOnce(&mut LbtruReceiverConfig)) -> usize {
        self.add_receiver_of(ID, change)
    }

    pub(crate) fn add_receiver_of(
        &mut self,
        id: u32,
        change: impl FnOnce(&mut LbtruReceiverConfig),
    ) -> usize {
        let mut config = LbtruReceiverConfig::default();
        change(&mut config);
        let counters = Arc::new(LbtruReceiver::default());
        let key = SessionKey { source: SOURCE, session_id: Some(id) };
        let at = self.ends.len();
        let delivery = Arc::new(LbmDelivery::default());
        let receiver = Receiver::new(&config, key, at as u32 + 1, 1, self.now, counters.clone(), delivery);
        let mut receiver = receiver.expect("allowed");
        receiver.subscribe(TOPIC, at as u64).expect("free");
        self.ends.push(End { address: address(at), receiver, counters, log: Log::default() });
        at
    }

    pub(crate) fn add_receivers(&mut self, count: usize) {
        for _ in 0..count {
            self.add_receiver(|_| {});
        }
    }

    /// A bench whose receivers are connected.
    pub(crate) fn connected(receivers: usize) -> Bench {
        let mut b = Bench::new(|_| {});
        b.add_receivers(receivers);
        b.pass(|_, _| true);
        assert_eq!(b.source.clients().count(), receivers);
        b.sent.clear();
        b
    }

    /// Everything that is due goes to and fro until nothing is left; `arrives` says of what the source sends
    /// to whom whether it does.
    pub(crate) fn pass(&mut self, mut arrives: impl FnMut(SocketAddrV4, &[u8]) -> bool) {
        loop {
            self.source.on_wakeup(self.now);
            let mut quiet = true;
            while let Some((to, datagram)) = self.next_sent() {
                quiet = false;
                let arrived = arrives(to, &datagram);
                self.sent.push((to, datagram.clone()));
                for end in self.ends.iter_mut().filter(|e| e.address == to && arrived) {
                    let _ = end.receiver.on_datagram(self.now, SOURCE, &datagram, &mut end.log);
                }
            }
            for end in &mut self.ends {
                end.receiver.on_wakeup(self.now, &mut end.log);
                while let Some(feedback) = end.receiver.poll_transmit(self.now) {
                    quiet = false;
                    assert_eq!(feedback.to, SOURCE);
                    let _ = self.source.on_datagram(self.now, end.address, feedback.datagram);
                }
            }
            if quiet {
                return;
            }
        }
    }

    /// One datagram that the source sends to one address.
    fn next_sent(&mut self) -> Option<(SocketAddrV4, Vec<u8>)> {
        let transmit = self.source.poll_transmit(self.now)?;
        let first = transmit.run.datagrams().next().expect("at least one");
        let one = (transmit.to[0], first.to_vec());
        self.source.sent(self.now, 1);
        Some(one)
    }

    /// What the source sends now, without anybody hearing it.
    pub(crate) fn drained(&mut self) -> Vec<(SocketAddrV4, Vec<u8>)> {
        std::iter::from_fn(|| self.next_sent()).collect()
    }

    /// Time passes, and packets with it.
    pub(crate) fn run(&mut self, span: Duration, mut arrives: impl FnMut(SocketAddrV4, &[u8]) -> bool) {
        let end = self.now + span;
        loop {
            self.pass(&mut arrives);
            let wakeups = self.ends.iter().map(|e| e.receiver.next_wakeup());
            let next = wakeups.min().unwrap_or(Nanos::NEVER).min(self.source.next_wakeup());
            assert!(next > self.now, "nothing is left to do");
            self.now = next.min(end);
            if next > end {
                return;
            }
        }
    }

    pub(crate) fn publish(&mut self, payload: &[u8]) {
        self.source.send(self.now, self.topic, &[payload]).expect("room");
        self.source.flush();
    }

    /// `count` datagrams of one message each.
    pub(crate) fn publish_many(&mut self, count: u32) {
        (0..count).for_each(|i| self.publish(&i.to_be_bytes()));
    }

    /// A packet that arrives at the source.
    pub(crate) fn arrive(&mut self, from: SocketAddrV4, packet: &Packet<'_>) {
        let mut datagram = Vec::new();
        packet.emit(&mut datagram);
        let _ = self.source.on_datagram(self.now, from, &datagram);
    }

    pub(crate) fn nak(&mut self, from: SocketAddrV4, numbers: &[u32]) {
        let numbers: Vec<_> = numbers.iter().map(|&n| Sqn(n)).collect();
        let mut datagram = Vec::new();
        emit_nak(Options::session(Some(ID)), &numbers, &mut datagram);
        self.source.on_datagram(self.now, from, &datagram).expect("a NAK of the session");
    }

    pub(crate) fn ack(&mut self, from: SocketAddrV4, session_id: u32, sqn: u32) {
        self.arrive(from, &Packet::new(Body::Ack { sqn: Sqn(sqn) }, Options::session(Some(session_id))));
    }
}

pub(crate) fn request(client_id: u32) -> Packet<'static> {
    Packet::new(Body::ConnectRequest, Options { session_id: None, client_id: Some(client_id) })
}

/// Transport numbers of the DATA among datagrams, and whether each is a retransmission.
pub(crate) fn data_numbers(sent: &[(SocketAddrV4, Vec<u8>)], to: SocketAddrV4) -> Vec<(u32, bool)> {
    let of = |(at, datagram): &(SocketAddrV4, Vec<u8>)| match Packet::parse(datagram) {
        Ok(p) if *at == to => match p.body {
            Body::Data { sqn, .. } => Some((sqn.0, p.is_retransmission())),
            _ => None,
        },
        _ => None,
    };
    sent.iter().filter_map(of).collect()
}
