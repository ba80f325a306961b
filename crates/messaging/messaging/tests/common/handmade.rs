//! An LBT-RM source made by hand, for what no honest one sends.
#![allow(dead_code, reason = "each test file uses its part of it")]

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use lbt::wire::lbmc::{self, Chain, Kind};
use lbt::wire::lbtrm::{DATA_HEADER_LEN, Data, FLAG_RETRANSMISSION, Packet, SessionHeader, SessionMessage};
use tickcast_messaging::{MessagingConfig, Sqn};

use super::{config_with, group, group_port};

pub(crate) const TOPIC_INDEX: u32 = 7;

/// Where receivers find topic `px` without resolution, and a socket to send there from.
pub(crate) struct Handmade {
    socket: UdpSocket,
    to: SocketAddrV4,
    session: SessionHeader,
}

impl Handmade {
    pub(crate) fn new(test: u8) -> Handmade {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let ucast_port = socket.local_addr().expect("bound").port();
        let to = SocketAddrV4::new(group(248, test), group_port());
        let session = SessionHeader { ucast_port, session_id: 0x5eed_0001 };
        Handmade { socket, to, session }
    }

    /// Who sends in the name of an LBT-RM source, of which a receiver said `TOPIC SOURCE STRING`.
    pub(crate) fn in_the_name_of(source: &str) -> Handmade {
        let (_, string) = source.split_once(' ').expect("a topic comes first");
        let mut parts = string.split([':', '[']).skip(2);
        let mut next = || parts.next().expect("all parts of an LBT-RM source string");
        let ucast_port = next().parse().expect("a port");
        let session_id = u32::from_str_radix(next(), 16).expect("an id");
        let to = SocketAddrV4::new(next().parse().expect("a group"), next().parse().expect("a port"));
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        Handmade { socket, to, session: SessionHeader { ucast_port, session_id } }
    }

    /// The end of the session.
    pub(crate) fn end_of_transport(&self, sqn: u32) {
        let mut datagram = vec![0; DATA_HEADER_LEN];
        let header = Data::new(self.session, Sqn(sqn), Sqn(0));
        header.emit_header(datagram.first_chunk_mut().expect("as long as the header"));
        lbmc::emit_message(&mut datagram, Kind::EndOfTransport, None, &Chain::default(), None);
        self.send(&datagram);
    }

    /// For receivers, with the settings of `toml` besides.
    pub(crate) fn config(&self, test: u8, toml: &str) -> MessagingConfig {
        let SessionHeader { ucast_port, session_id } = self.session;
        let place =
            format!("LBTRM:127.0.0.1:{ucast_port}:{session_id:x}:{}:{}", self.to.ip(), self.to.port());
        let sources = format!("resolver.static_source = [\"px = {place}[{TOPIC_INDEX}]\"]\n");
        config_with(test, &format!("[messaging]\n{sources}{toml}"))
    }

    /// A datagram with one message of the topic.
    pub(crate) fn data(&self, sqn: u32, number: u32) {
        self.datagram(sqn, number, 0);
    }

    /// Sends what is asked for again: of each datagram the message of the same number.
    pub(crate) fn answer_naks(&self) {
        let mut buffer = [0; 2_048];
        self.socket.set_nonblocking(true).expect("it is open");
        while let Ok(count) = self.socket.recv(&mut buffer) {
            if let Ok(Packet::Nak(nak)) = Packet::parse(&buffer[..count]) {
                nak.numbers.iter().for_each(|sqn| self.datagram(sqn.0, sqn.0, FLAG_RETRANSMISSION));
            }
        }
    }

    fn datagram(&self, sqn: u32, number: u32, flags: u8) {
        let mut datagram = vec![0; DATA_HEADER_LEN];
        let mut header = Data::new(self.session, Sqn(sqn), Sqn(0));
        header.flags |= flags;
        header.emit_header(datagram.first_chunk_mut().expect("as long as the header"));
        let topic = Some((TOPIC_INDEX, Sqn(number)));
        let payload = number.to_be_bytes();
        lbmc::emit_message(&mut datagram, Kind::Message, topic, &Chain::default(), Some(&payload));
        self.send(&datagram);
    }

    /// A session message.
    pub(crate) fn session_message(&self, sm_sqn: u32, lead: u32, trail: u32) {
        let mut datagram = Vec::new();
        SessionMessage::new(self.session, sm_sqn, Sqn(lead), Sqn(trail)).emit(&mut datagram);
        self.send(&datagram);
    }

    pub(crate) fn send(&self, datagram: &[u8]) {
        self.socket.send_to(datagram, self.to).expect("loopback has multicast");
    }
}
