use crate::rm::SessionKey;
use crate::wire::lbmr::{TopicInformation, TopicOption, TopicOptions, Transport};
use crate::wire::lbtrm::SessionHeader;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Where one topic of one source is to be heard: what an advertisement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRecord {
    /// The topic within its transport session.
    pub topic_index: u32,
    /// The transport session.
    pub key: SessionKey,
    /// Multicast group and port of the session.
    pub group: SocketAddrV4,
    /// Where the source takes requests by TCP.
    pub request: Option<SocketAddrV4>,
}

/// Flag of options and packet options: may be ignored by who does not know it.
pub(super) const IGNORABLE: u16 = 0x8000;

impl SourceRecord {
    /// What a topic information record says; `None` if it is about another transport than LBT-RM.
    pub(super) fn of(record: &TopicInformation<'_>) -> Option<SourceRecord> {
        let Transport::LbtRm { source, group, session_id, dest_port, ucast_port } = record.transport else {
            return None;
        };
        let request = record.options.and_then(|options| options.iter().find_map(request_address));
        Some(SourceRecord {
            topic_index: record.index,
            key: SessionKey { source, session: SessionHeader { ucast_port, session_id } },
            group: SocketAddrV4::new(group, dest_port),
            request,
        })
    }

    /// Appends the topic information record. With `context`, the originating transport is named as UM 6 does.
    pub(super) fn emit(&self, name: &str, ttl: u16, context: Option<[u8; 8]>, out: &mut Vec<u8>) {
        let mut options = Vec::new();
        if let Some(context) = context {
            let id = self.originating_transport(context);
            TopicOption::OriginatingTransport { flags: IGNORABLE, id }.emit(&mut options);
        }
        if let Some(request) = self.request {
            let (request_port, ip) = (request.port(), *request.ip());
            TopicOption::ExtendedFunctionality { flags: IGNORABLE, request_port, ip, functions: 0 }
                .emit(&mut options);
        }
        let session = self.key.session;
        let transport = Transport::LbtRm {
            source: self.key.source,
            group: *self.group.ip(),
            session_id: session.session_id,
            dest_port: self.group.port(),
            ucast_port: session.ucast_port,
        };
        let options = (!options.is_empty()).then_some(TopicOptions::written(&options));
        TopicInformation { name: name.as_bytes(), ttl, index: self.topic_index, options, transport }
            .emit(out);
    }

    /// The 32 bytes by which the field names a transport: type, addresses, session id in the other byte
    /// order, topic index, context.
    fn originating_transport(&self, context: [u8; 8]) -> [u8; 32] {
        let mut id = [0; 32];
        id[0] = 0x10;
        id[1..5].copy_from_slice(&self.key.source.octets());
        id[5..7].copy_from_slice(&self.key.session.ucast_port.to_be_bytes());
        id[7..11].copy_from_slice(&self.group.ip().octets());
        id[11..13].copy_from_slice(&self.group.port().to_be_bytes());
        id[13..17].copy_from_slice(&self.key.session.session_id.to_le_bytes());
        id[17..21].copy_from_slice(&self.topic_index.to_be_bytes());
        id[21..29].copy_from_slice(&context);
        id[31] = 1;
        id
    }
}

fn request_address(option: TopicOption<'_>) -> Option<SocketAddrV4> {
    match option {
        TopicOption::ExtendedFunctionality { request_port, ip, .. }
            if request_port != 0 && ip != Ipv4Addr::UNSPECIFIED =>
        {
            Some(SocketAddrV4::new(ip, request_port))
        }
        _ => None,
    }
}
