use crate::rm::SessionKey;
use crate::wire::lbmr::{TopicInformation, TopicOption, TopicOptions, Transport};
use crate::wire::lbtrm::SessionHeader;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Where one topic of one source is to be heard: what an advertisement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRecord {
    /// The topic within its transport session.
    pub topic_index: u32,
    /// The transport session.
    pub session: TransportSession,
    /// Where the source takes requests by TCP.
    pub request: Option<SocketAddrV4>,
    /// The source retains messages for late joiners and off-transport recovery, asked for at `request`: the
    /// number of its transport session there.
    pub late_join: Option<u32>,
    /// Whose the session is, if the source says so. One that sends on two networks advertises its session on
    /// each under its address there, and says the same here.
    pub origin: Option<Origin>,
}

/// What names a multicast session whichever network it is advertised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The source's address on its first network.
    pub source: Ipv4Addr,
    /// The instance of its context, drawn at random: 64 bits that another session has by intent alone.
    pub context: [u8; 8],
}

/// One transport session of any transport: what tells it from others, and where it is to be found.
///
/// Prints as the field's source strings do, without the topic index: `LBTRM:10.29.3.1:14391:5eed1234:
/// 224.10.10.10:14400` (one line), `LBT-RU:ip:port:session_id`, `TCP:ip:port:session_id`,
/// `LBT-IPC:session_id:transport_id`; session ids in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TransportSession {
    /// LBT-RM (0x10): multicast.
    LbtRm {
        /// Address, unicast port and session id of the source.
        key: SessionKey,
        /// Multicast group and destination port.
        group: SocketAddrV4,
    },
    /// LBT-RU (0x01): reliable unicast.
    LbtRu {
        /// Where the source takes connect requests.
        address: SocketAddrV4,
        /// The session; none in the short form of the record.
        session_id: Option<u32>,
    },
    /// TCP (0x00).
    Tcp {
        /// Where the source listens.
        address: SocketAddrV4,
        /// The session; none in the short form of the record.
        session_id: Option<u32>,
    },
    /// LBT-IPC (0x40): shared memory of one host.
    Ipc {
        /// Tells hosts apart: a receiver on another host leaves the source out.
        host_id: u32,
        /// The session.
        session_id: u32,
        /// Tells the sessions of a host apart, with the session id the name of the file.
        transport_id: u16,
    },
}

impl TransportSession {
    /// The type in topic information records.
    #[must_use]
    pub fn kind(&self) -> u8 {
        match self {
            TransportSession::LbtRm { .. } => 0x10,
            TransportSession::LbtRu { .. } => 0x01,
            TransportSession::Tcp { .. } => 0x00,
            TransportSession::Ipc { .. } => 0x40,
        }
    }

    fn of(transport: &Transport<'_>) -> Option<TransportSession> {
        Some(match *transport {
            Transport::LbtRm { source, group, session_id, dest_port, ucast_port } => {
                let key = SessionKey { source, session: SessionHeader { ucast_port, session_id } };
                TransportSession::LbtRm { key, group: SocketAddrV4::new(group, dest_port) }
            }
            Transport::LbtRu { ip, port, session_id } => {
                TransportSession::LbtRu { address: SocketAddrV4::new(ip, port), session_id }
            }
            Transport::Tcp { ip, port, session_id } => {
                TransportSession::Tcp { address: SocketAddrV4::new(ip, port), session_id }
            }
            Transport::Shared { smx: false, host_id, session_id, transport_id } => {
                TransportSession::Ipc { host_id, session_id, transport_id }
            }
            Transport::Shared { smx: true, .. } | Transport::Other { .. } => return None,
        })
    }

    fn transport(&self) -> Transport<'static> {
        match *self {
            TransportSession::LbtRm { key, group } => Transport::LbtRm {
                source: key.source,
                group: *group.ip(),
                session_id: key.session.session_id,
                dest_port: group.port(),
                ucast_port: key.session.ucast_port,
            },
            TransportSession::LbtRu { address, session_id } => {
                Transport::LbtRu { ip: *address.ip(), port: address.port(), session_id }
            }
            TransportSession::Tcp { address, session_id } => {
                Transport::Tcp { ip: *address.ip(), port: address.port(), session_id }
            }
            TransportSession::Ipc { host_id, session_id, transport_id } => {
                Transport::Shared { smx: false, host_id, session_id, transport_id }
            }
        }
    }
}

impl fmt::Display for TransportSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = |id: Option<u32>| id.map_or_else(String::new, |id| format!(":{id:x}"));
        match *self {
            TransportSession::LbtRm { key, group } => {
                let SessionHeader { ucast_port, session_id } = key.session;
                write!(f, "LBTRM:{}:{ucast_port}:{session_id:x}:{group}", key.source)
            }
            TransportSession::LbtRu { address, session_id } => {
                write!(f, "LBT-RU:{address}{}", id(session_id))
            }
            TransportSession::Tcp { address, session_id } => write!(f, "TCP:{address}{}", id(session_id)),
            TransportSession::Ipc { session_id, transport_id, .. } => {
                write!(f, "LBT-IPC:{session_id:x}:{transport_id}")
            }
        }
    }
}

/// Bit of the functions of a source: late join.
const FUNCTION_LATE_JOIN: u32 = 1;

/// Flag of options and packet options: may be ignored by who does not know it.
pub(super) const IGNORABLE: u16 = 0x8000;

impl SourceRecord {
    /// What a topic information record says; `None` if it is about a transport that is not spoken here.
    pub(super) fn of(record: &TopicInformation<'_>) -> Option<SourceRecord> {
        let session = TransportSession::of(&record.transport)?;
        let request = record.options.and_then(|options| options.iter().find_map(request_address));
        let late_join = record.options.and_then(|options| options.iter().find_map(late_join_transport));
        let own = SourceRecord { topic_index: record.index, session, request, late_join, origin: None };
        let origin = record.options.and_then(|options| options.iter().find_map(|o| own.origin_in(o)));
        Some(SourceRecord { origin, ..own })
    }

    /// Whose session the record says it is. It counts where everything but the address is that of the session
    /// itself: what a router passes on as a session of its own is another one.
    fn origin_in(&self, option: TopicOption<'_>) -> Option<Origin> {
        let TopicOption::OriginatingTransport { id, .. } = option else { return None };
        let (&source, &context) = (id[1..].first_chunk::<4>()?, id[21..].first_chunk::<8>()?);
        let origin = Origin { source: Ipv4Addr::from(source), context };
        let is_own = matches!(self.session, TransportSession::LbtRm { .. })
            && self.originating_transport(origin)[..29] == id[..29];
        is_own.then_some(origin)
    }

    /// The record as it stands on the network on which the source has another address: it takes requests there
    /// at that address too, on the same port.
    #[must_use]
    pub fn on_network(&self, source: Ipv4Addr) -> SourceRecord {
        match self.session {
            TransportSession::LbtRm { key, group } => {
                let moved = |at: SocketAddrV4| match *at.ip() == key.source {
                    true => SocketAddrV4::new(source, at.port()),
                    false => at,
                };
                let (request, key) = (self.request.map(moved), SessionKey { source, ..key });
                SourceRecord { session: TransportSession::LbtRm { key, group }, request, ..*self }
            }
            _ => *self,
        }
    }

    /// The record as it stands on the source's first network: the same for all that are of one session.
    #[must_use]
    pub fn on_first_network(&self) -> SourceRecord {
        self.origin.map_or(*self, |origin| self.on_network(origin.source))
    }

    /// Appends the topic information record. With `context`, the originating transport is named as UM 6 does.
    pub(super) fn emit(&self, name: &str, ttl: u16, context: Option<[u8; 8]>, out: &mut Vec<u8>) {
        let mut options = Vec::new();
        let origin = self.origin.or(context.map(|context| Origin { source: self.address(), context }));
        if let Some(origin) = origin {
            let id = self.originating_transport(origin);
            TopicOption::OriginatingTransport { flags: IGNORABLE, id }.emit(&mut options);
        }
        if let Some(request) = self.request {
            let (request_port, ip) = (request.port(), *request.ip());
            let functions = if self.late_join.is_some() { FUNCTION_LATE_JOIN } else { 0 };
            if let Some(transport) = self.late_join {
                // the numbers change with every message: who wants them asks
                let (high, low) = (0, 0);
                TopicOption::LateJoin { flags: IGNORABLE, request_port, ip, transport, high, low }
                    .emit(&mut options);
            }
            TopicOption::ExtendedFunctionality { flags: IGNORABLE, request_port, ip, functions }
                .emit(&mut options);
        }
        let transport = self.session.transport();
        let options = (!options.is_empty()).then_some(TopicOptions::written(&options));
        TopicInformation { name: name.as_bytes(), ttl, index: self.topic_index, options, transport }
            .emit(out);
    }

    /// The address in the session's name.
    fn address(&self) -> Ipv4Addr {
        match self.session {
            TransportSession::LbtRm { key, .. } => key.source,
            TransportSession::LbtRu { address, .. } | TransportSession::Tcp { address, .. } => *address.ip(),
            TransportSession::Ipc { host_id, .. } => Ipv4Addr::from_bits(host_id),
        }
    }

    /// The 32 bytes by which the field names a transport: type, addresses, session id in the other byte
    /// order, topic index, context. For transports other than LBT-RM the addresses that they lack are zero.
    fn originating_transport(&self, origin: Origin) -> [u8; 32] {
        let none = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let (source, group, session_id) = match self.session {
            TransportSession::LbtRm { key, group } => {
                (SocketAddrV4::new(key.source, key.session.ucast_port), group, key.session.session_id)
            }
            TransportSession::LbtRu { address, session_id }
            | TransportSession::Tcp { address, session_id } => {
                (address, none, session_id.unwrap_or_default())
            }
            TransportSession::Ipc { host_id, session_id, transport_id } => {
                (SocketAddrV4::new(Ipv4Addr::from_bits(host_id), transport_id), none, session_id)
            }
        };
        let mut id = [0; 32];
        id[0] = self.session.kind();
        id[1..5].copy_from_slice(&origin.source.octets());
        id[5..7].copy_from_slice(&source.port().to_be_bytes());
        id[7..11].copy_from_slice(&group.ip().octets());
        id[11..13].copy_from_slice(&group.port().to_be_bytes());
        id[13..17].copy_from_slice(&session_id.to_le_bytes());
        id[17..21].copy_from_slice(&self.topic_index.to_be_bytes());
        id[21..29].copy_from_slice(&origin.context);
        id[31] = 1;
        id
    }
}

fn request_address(option: TopicOption<'_>) -> Option<SocketAddrV4> {
    match option {
        TopicOption::ExtendedFunctionality { request_port, ip, .. }
        | TopicOption::LateJoin { request_port, ip, .. }
            if request_port != 0 && ip != Ipv4Addr::UNSPECIFIED =>
        {
            Some(SocketAddrV4::new(ip, request_port))
        }
        _ => None,
    }
}

fn late_join_transport(option: TopicOption<'_>) -> Option<u32> {
    match option {
        TopicOption::LateJoin { transport, request_port, ip, .. }
            if request_port != 0 && ip != Ipv4Addr::UNSPECIFIED =>
        {
            Some(transport)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::lbmr::{Kind, Packet, TopicRecords};

    fn at(port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 1), port)
    }

    fn sessions() -> [TransportSession; 6] {
        let header = SessionHeader { ucast_port: 14_391, session_id: 0x5eed_1234 };
        let key = SessionKey { source: Ipv4Addr::new(10, 29, 3, 1), session: header };
        let group = SocketAddrV4::new(Ipv4Addr::new(224, 10, 10, 10), 14_400);
        [
            TransportSession::LbtRm { key, group },
            TransportSession::LbtRu { address: at(14_380), session_id: Some(0x77aa_55cc) },
            TransportSession::LbtRu { address: at(14_380), session_id: None },
            TransportSession::Tcp { address: at(14_371), session_id: Some(0x1001) },
            TransportSession::Tcp { address: at(14_371), session_id: None },
            TransportSession::Ipc { host_id: 7, session_id: 0xabc, transport_id: 20_001 },
        ]
    }

    #[test]
    fn a_record_of_each_transport_reads_back_with_and_without_options() {
        for session in sessions() {
            let request = Some(at(14_392));
            for (request, context, late_join) in
                [(None, None, None), (request, Some([9; 8]), None), (request, None, Some(0x77))]
            {
                let record = SourceRecord { topic_index: 7, session, request, late_join, origin: None };
                let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
                record.emit("px.eq.ACME", 16, context, &mut bytes);
                Packet { records: TopicRecords::written(1, &bytes), ..Packet::of(Kind::Normal) }
                    .emit(&mut datagram);
                let packet = Packet::parse(&datagram).expect("well-formed");
                let read = packet.records.iter().next().expect("one record");
                let is_named = context.is_some() && matches!(session, TransportSession::LbtRm { .. });
                let origin = is_named.then_some(Origin { source: *at(0).ip(), context: [9; 8] });
                assert_eq!(SourceRecord::of(&read), Some(SourceRecord { origin, ..record }));
            }
        }
    }

    /// What is read of a record that was written.
    fn over_the_wire(record: &SourceRecord, change: impl FnOnce(&mut Vec<u8>)) -> SourceRecord {
        let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
        record.emit("px", 16, None, &mut bytes);
        change(&mut bytes);
        Packet { records: TopicRecords::written(1, &bytes), ..Packet::of(Kind::Normal) }.emit(&mut datagram);
        let packet = Packet::parse(&datagram).expect("well-formed");
        SourceRecord::of(&packet.records.iter().next().expect("one record")).expect("a known transport")
    }

    #[test]
    fn the_records_of_one_session_on_two_networks_name_the_same_session() {
        let [session, ..] = sessions();
        let origin = Some(Origin { source: Ipv4Addr::new(10, 29, 3, 1), context: [7; 8] });
        let (request, late_join) = (Some(at(14_391)), Some(3));
        let first = SourceRecord { topic_index: 7, session, request, late_join, origin };
        let second = first.on_network(Ipv4Addr::new(10, 30, 3, 1));
        assert_ne!(first.session, second.session);
        assert_eq!(second.request, Some(SocketAddrV4::new(Ipv4Addr::new(10, 30, 3, 1), 14_391)));
        let elsewhere =
            SourceRecord { request: Some("10.31.3.1:14391".parse().expect("an address")), ..first };
        assert_eq!(elsewhere.on_network(Ipv4Addr::new(10, 30, 3, 1)).request, elsewhere.request);
        for record in [first, second] {
            let read = over_the_wire(&record, |_| {});
            assert_eq!((read, read.on_first_network()), (record, first));
        }
        // Of a session whose port is another one the name is another's: a router's, say.
        let passed_on = over_the_wire(&second, |bytes| *bytes.last_mut().expect("the unicast port") ^= 1);
        assert_eq!(passed_on.origin, None);
        assert_eq!(passed_on.on_first_network(), passed_on);
    }

    #[test]
    fn sessions_print_as_the_source_strings_of_the_field() {
        let expected = [
            "LBTRM:10.29.3.1:14391:5eed1234:224.10.10.10:14400",
            "LBT-RU:10.29.3.1:14380:77aa55cc",
            "LBT-RU:10.29.3.1:14380",
            "TCP:10.29.3.1:14371:1001",
            "TCP:10.29.3.1:14371",
            "LBT-IPC:abc:20001",
        ];
        assert_eq!(sessions().map(|s| s.to_string()), expected);
    }
}
