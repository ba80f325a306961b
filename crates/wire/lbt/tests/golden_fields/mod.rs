//! The fields of a parsed packet under the names tshark gives them.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tickcast_lbt::wire::lbmc::{Header, Messages};
use tickcast_lbt::wire::lbmr::{self, PacketOption, Query, TopicOption, Transport};
use tickcast_lbt::wire::lbtrm;
use tickcast_lbt::wire::lbtru::{self, Body};

/// Values in the order of their appearance, by field name.
#[derive(Default)]
pub(crate) struct Fields(BTreeMap<&'static str, Vec<String>>);

impl Fields {
    fn number(&mut self, name: &'static str, value: impl Into<u64>) {
        self.text(name, value.into().to_string());
    }

    fn text(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.entry(name).or_default().push(value.into());
    }

    fn bytes(&mut self, name: &'static str, value: &[u8]) {
        let hex: Vec<_> = value.iter().map(|b| format!("{b:02x}")).collect();
        self.text(name, hex.join(":"));
    }

    /// Compares every field with tshark's, and notes which names were compared.
    pub(crate) fn compare(&self, frame: &str, tshark: &Value, compared: &mut BTreeSet<&'static str>) {
        let mut theirs = BTreeMap::new();
        leaves("", tshark, &mut theirs);
        for (&name, ours) in &self.0 {
            let found = theirs.get(name).unwrap_or_else(|| panic!("{frame}: tshark has no {name}"));
            assert_eq!(ours, found, "{frame}: {name}");
            compared.insert(name);
        }
    }
}

fn leaves(name: &str, value: &Value, into: &mut BTreeMap<String, Vec<String>>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(k, v)| leaves(k, v, into)),
        Value::Array(items) => items.iter().for_each(|v| leaves(name, v, into)),
        Value::String(text) => into.entry(name.to_owned()).or_default().push(canonical(text)),
        other => panic!("{name} is {other}"),
    }
}

/// Numbers in decimal, everything else as it stands.
fn canonical(text: &str) -> String {
    match text.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16)) {
        Some(Ok(number)) => number.to_string(),
        _ => text.to_owned(),
    }
}

pub(crate) fn lbtrm_fields(packet: &lbtrm::Packet<'_>) -> Fields {
    let mut f = Fields::default();
    let session = packet.session();
    match packet {
        lbtrm::Packet::Data(p) => {
            f = lbmc_fields(p.messages);
            f.number("lbtrm.hdr.type", 0u8);
            f.number("lbtrm.data.sqn", p.sqn.0);
            f.number("lbtrm.data.trail_sqn", p.trail_sqn.0);
            f.number("lbtrm.data.flags_fec_type", p.flags);
            f.number("lbtrm.data.flags_tgsz", p.tgsz);
            f.number("lbtrm.data.fec_symbol", p.fec_symbol);
        }
        lbtrm::Packet::SessionMessage(p) => {
            f.number("lbtrm.hdr.type", 2u8);
            f.number("lbtrm.sm.sm_sqn", p.sm_sqn);
            f.number("lbtrm.sm.lead_sqn", p.lead_sqn.0);
            f.number("lbtrm.sm.trail_sqn", p.trail_sqn.0);
            f.number("lbtrm.sm.flags_fec_type", p.flags);
            f.number("lbtrm.sm.flags_tgsz", p.tgsz);
            f.number("lbtrm.sm.reserved", p.reserved);
        }
        lbtrm::Packet::Nak(p) => {
            f.number("lbtrm.hdr.type", 3u8);
            f.number("lbtrm.nak.num_naks", p.numbers.len() as u64);
            p.numbers.iter().for_each(|n| f.number("lbtrm.nak.list.nak", n.0));
        }
        lbtrm::Packet::Ncf(p) => {
            f.number("lbtrm.hdr.type", 4u8);
            f.number("lbtrm.ncf.trail_sqn", p.trail_sqn.0);
            f.number("lbtrm.ncf.num_ncfs", p.numbers.len() as u64);
            f.number("lbtrm.ncf.reserved", p.reserved);
            f.number("lbtrm.ncf.reason", p.reason.code());
            p.numbers.iter().for_each(|n| f.number("lbtrm.ncf.list.ncf", n.0));
        }
    }
    f.number("lbtrm.hdr.ucast_port", session.ucast_port);
    f.number("lbtrm.hdr.session_id", session.session_id);
    f
}

pub(crate) fn lbtru_fields(packet: &lbtru::Packet<'_>) -> Fields {
    let mut f = match packet.body {
        Body::Data { .. } => lbmc_fields(packet.rest),
        _ => Fields::default(),
    };
    let (code, flags) = match packet.body {
        Body::Data { sqn, trail_sqn } => {
            f.number("lbtru.data.sqn", sqn.0);
            f.number("lbtru.data.trail", trail_sqn.0);
            (0u8, "lbtru.hdr.flags")
        }
        Body::SessionMessage { sm_sqn, lead_sqn, trail_sqn } => {
            f.number("lbtru.sm.sqn", sm_sqn);
            f.number("lbtru.sm.lead", lead_sqn.0);
            f.number("lbtru.sm.trail", trail_sqn.0);
            (2, "lbtru.hdr.flags")
        }
        Body::Nak { format, numbers } => {
            f.number("lbtru.nak.num", numbers.len() as u64);
            f.number("lbtru.nak.format", format);
            numbers.iter().for_each(|n| f.number("lbtru.nak.list.nak", n.0));
            (3, "lbtru.hdr.res")
        }
        Body::Ncf { trail_sqn, reserved, reason, format, numbers } => {
            f.number("lbtru.ncf.trail", trail_sqn.0);
            f.number("lbtru.ncf.num", numbers.len() as u64);
            f.number("lbtru.ncf.reserved", reserved);
            f.number("lbtru.ncf.reason", reason.code());
            f.number("lbtru.ncf.format", format);
            numbers.iter().for_each(|n| f.number("lbtru.ncf.list.ncf", n.0));
            (4, "lbtru.hdr.res")
        }
        Body::Ack { sqn } => {
            f.number("lbtru.ack.sqn", sqn.0);
            (5, "lbtru.hdr.res")
        }
        Body::ConnectRequest => (6, "lbtru.hdr.request"),
        Body::Reset => (7, "lbtru.hdr.reason"),
    };
    f.number("lbtru.hdr.type", code);
    f.number(flags, packet.flags);
    if let Some(id) = packet.options.session_id {
        f.number("lbtru.opt_sid.session_id", id);
    }
    if let Some(id) = packet.options.client_id {
        f.number("lbtru.opt_cid.client_id", id);
    }
    f
}

pub(crate) fn lbmc_fields(messages: &[u8]) -> Fields {
    let mut f = Fields::default();
    for message in Messages::new(messages) {
        let message = message.expect("checked before");
        f.number("lbmc.type", message.kind.code());
        f.number("lbmc.msglen", message.len as u64);
        if message.kind.has_topic() {
            f.number("lbmc.tidx", message.topic_index);
            f.number("lbmc.sqn", message.sqn.0);
        }
        message.headers.iter().for_each(|h| header_fields(&mut f, &h));
    }
    f
}

fn header_fields(f: &mut Fields, header: &Header<'_>) {
    match *header {
        Header::Frag { flags, first_sqn, offset, length } => {
            f.number("lbmc.frag.flags", flags);
            f.number("lbmc.frag.first_sqn", first_sqn.0);
            f.number("lbmc.frag.offset", offset);
            f.number("lbmc.frag.len", length);
        }
        Header::Batch { flags } => f.number("lbmc.batch.flags", flags),
        Header::Request { flags, transport, index, port, ip } => {
            f.number("lbmc.tcp_request.flags", flags);
            f.number("lbmc.tcp_request.transport", transport);
            f.number("lbmc.tcp_request.qidx", index);
            f.number("lbmc.tcp_request.port", port);
            f.text("lbmc.tcp_request.ipaddr", ip.to_string());
        }
        Header::TopicName { flags, name } => {
            f.number("lbmc.topicname.flags", flags);
            f.text("lbmc.topicname.topic", String::from_utf8_lossy(name));
        }
        Header::Tsni { records, .. } => {
            f.number("lbmc.tsni.num_recs", records.len() as u64);
            for (index, sqn) in records.iter() {
                f.number("lbmc.tsni.tsni_rec.tidx", index);
                f.number("lbmc.tsni.tsni_rec.sqn", sqn.0);
            }
        }
        Header::Chain { elements } => {
            elements.iter().filter(|e| e.kind == 6).for_each(|e| {
                let len = u32::from_be_bytes(*e.data.first_chunk().expect("four bytes"));
                f.number("lbmc.apphdr_chain.msgprop.proplen", len);
            });
        }
        Header::SourceIndex { flags, transport, topic } => {
            f.number("lbmc.srcidx.flags", flags);
            f.number("lbmc.srcidx.srcidx", u64::from(transport) << 32 | u64::from(topic));
        }
        Header::LateJoinInfoRequest {
            flags,
            request,
            transport,
            topic,
            ip,
            port,
            low,
            request_max,
            outstanding_max,
        } => {
            f.number("lbmc.lji_req.flags", flags);
            f.number("lbmc.lji_req.request_idx", request);
            f.number("lbmc.lji_req.transport_idx", transport);
            f.number("lbmc.lji_req.topic_idx", topic);
            f.text("lbmc.lji_req.req_ip", ip.to_string());
            f.number("lbmc.lji_req.req_port", port);
            f.number("lbmc.lji_req.tx_low_sqn", low.0);
            f.number("lbmc.lji_req.rx_req_max", request_max);
            f.number("lbmc.lji_req.rx_req_outstanding_max", outstanding_max);
        }
        Header::LateJoinInfo { flags, low, high, request } => {
            f.number("lbmc.ume_lj_info.flags", flags);
            f.number("lbmc.ume_lj_info.low_seqnum", low.0);
            f.number("lbmc.ume_lj_info.high_seqnum", high.0);
            f.number("lbmc.ume_lj_info.qidx", request);
        }
        Header::RetransmissionRequest { flags, request, transport, topic, sqn, port, ip } => {
            f.number("lbmc.ume_rxreq.flags", flags);
            f.number("lbmc.ume_rxreq.request_idx", request);
            f.number("lbmc.ume_rxreq.transport_idx", transport);
            f.number("lbmc.ume_rxreq.id_2", topic);
            f.number("lbmc.ume_rxreq.seqnum", sqn.0);
            f.number("lbmc.ume_rxreq.rx_port", port);
            f.text("lbmc.ume_rxreq.rx_ip", ip.to_string());
        }
        Header::Stream { flags, stream, sqn, context } => {
            f.number("lbmc.stream.flags", flags);
            f.number("lbmc.stream.stream_id", stream);
            f.number("lbmc.stream.sqn", sqn.0);
            f.bytes("lbmc.stream.ctxinst", &context);
        }
        Header::TcpSessionId { flags, session_id } => {
            f.number("lbmc.tcp_sid.flags", flags);
            f.number("lbmc.tcp_sid.sid", session_id);
        }
        Header::ExtOpt { flags, id, subtype, offset, data } => {
            f.number("lbmc.extopt.flags", flags);
            f.number("lbmc.extopt.id", id);
            f.number("lbmc.extopt.subtype", subtype);
            f.number("lbmc.extopt.fragment_offset", offset);
            f.bytes("lbmc.extopt.data", data);
        }
        Header::Other { .. } => {}
    }
}

pub(crate) fn lbmr_fields(packet: &lbmr::Packet<'_>) -> Fields {
    let mut f = Fields::default();
    f.number("lbmr.hdr.ver", packet.version);
    match packet.kind {
        lbmr::Kind::ResolutionRequest(mask) => {
            f.number("lbmr.hdr.ext_type", 4u8);
            f.number("lbmr.topic_res_request.flags", mask);
        }
        lbmr::Kind::Other { code, .. } => f.number("lbmr.hdr.type", code & 7),
        _ => {
            f.number("lbmr.hdr.tqrs", packet.queries.len() as u64);
            f.number("lbmr.hdr.tirs", packet.records.len() as u64);
        }
    }
    for query in packet.queries.iter() {
        match query {
            Query::Topic(name) => f.text("lbmr.tqr.name", String::from_utf8_lossy(name)),
            Query::Pattern { syntax, pattern } => {
                f.number("lbmr.tqr.pattern_type", syntax);
                // tshark prints the type byte as the first character of the pattern
                let shown = format!("{}{}", char::from(syntax), String::from_utf8_lossy(pattern));
                f.text("lbmr.tqr.pattern", shown);
            }
        }
    }
    packet.records.iter().for_each(|r| record_fields(&mut f, &r));
    if let Some(options) = packet.options {
        options.iter().for_each(|o| packet_option_fields(&mut f, &o));
    }
    f
}

fn record_fields(f: &mut Fields, record: &lbmr::TopicInformation<'_>) {
    f.text("lbmr.tir.name", String::from_utf8_lossy(record.name));
    f.number("lbmr.tir.ttl", record.ttl);
    f.number("lbmr.tir.index", record.index);
    match record.transport {
        Transport::Tcp { ip, port, session_id } => {
            f.text("lbmr.tir.tcp.ip", ip.to_string());
            f.number("lbmr.tir.tcp.port", port);
            session_id.inspect(|&id| f.number("lbmr.tir.tcp.session_id", id));
        }
        Transport::LbtRu { ip, port, session_id } => {
            f.text("lbmr.tir.lbtru.ip", ip.to_string());
            f.number("lbmr.tir.lbtru.port", port);
            session_id.inspect(|&id| f.number("lbmr.tir.lbtru.session_id", id));
        }
        Transport::LbtRm { source, group, session_id, dest_port, ucast_port } => {
            f.text("lbmr.tir.lbtrm.srcip", source.to_string());
            f.text("lbmr.tir.lbtrm.mcastip", group.to_string());
            f.number("lbmr.tir.lbtrm.sessid", session_id);
            f.number("lbmr.tir.lbtrm.dport", dest_port);
            f.number("lbmr.tir.lbtrm.sport", ucast_port);
        }
        Transport::Shared { smx, host_id, session_id, transport_id } => {
            let names = if smx {
                ["lbmr.tir.lbtsmx.host_id", "lbmr.tir.lbtsmx.session_id", "lbmr.tir.lbtsmx.xport_id"]
            } else {
                ["lbmr.tir.lbtipc.host_id", "lbmr.tir.lbtipc.session_id", "lbmr.tir.lbtipc.xport_id"]
            };
            f.number(names[0], host_id);
            f.number(names[1], session_id);
            f.number(names[2], transport_id);
        }
        Transport::Other { .. } => {}
    }
    if let Some(options) = record.options {
        options.iter().for_each(|o| topic_option_fields(f, &o));
    }
}

fn topic_option_fields(f: &mut Fields, option: &TopicOption<'_>) {
    match *option {
        TopicOption::ExtendedFunctionality { flags, request_port, ip, functions } => {
            f.number("lbmr.topt.exfunc.flags", flags);
            f.number("lbmr.topt.exfunc.src_tcp_port", request_port);
            f.text("lbmr.topt.exfunc.src_ip_addr", ip.to_string());
            f.number("lbmr.topt.exfunc.functionality_flags", functions);
        }
        TopicOption::LateJoin { flags, request_port, ip, transport, high, low } => {
            f.number("lbmr.topt.latejoin.flags", flags);
            f.number("lbmr.topt.latejoin.src_tcp_port", request_port);
            f.text("lbmr.topt.latejoin.src_ip_addr", ip.to_string());
            f.number("lbmr.topt.latejoin.transport_idx", transport);
            f.number("lbmr.topt.latejoin.high_seqnum", high);
            f.number("lbmr.topt.latejoin.low_seqnum", low);
        }
        TopicOption::OriginatingTransport { flags, id } => {
            f.number("lbmr.topt.otid.flags", flags);
            f.bytes("lbmr.topt.otid.originating_transport", &id);
        }
        TopicOption::Other { .. } => {}
    }
}

fn packet_option_fields(f: &mut Fields, option: &PacketOption<'_>) {
    match *option {
        PacketOption::SourceId { flags, context } => {
            f.number("lbmr.opt.src_id.flags", flags);
            f.bytes("lbmr.opt.src_id.src_id", &context);
        }
        PacketOption::SourceType { flags, kind } => {
            f.number("lbmr.opt.src_type.flags", flags);
            f.number("lbmr.opt.src_type.src_type", kind);
        }
        PacketOption::Version { flags, version } => {
            f.number("lbmr.opt.version.flags", flags);
            f.number("lbmr.opt.version.version", version);
        }
        PacketOption::LocalDomain { flags, domain } => {
            f.number("lbmr.opt.local_domain.flags", flags);
            f.number("lbmr.opt.local_domain.local_domain_id", domain);
        }
        PacketOption::Other { .. } => {}
    }
}
