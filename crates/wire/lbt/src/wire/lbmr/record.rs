use super::super::Reader;
use super::{emit_name, read_name};
use crate::error::{Part, WireError};
use std::net::Ipv4Addr;

const OPTIONS_FLAG: u8 = 0x80;
/// Bytes of the length option that begins the options of a record.
const LENGTH_OPTION_LEN: usize = 4;

const TOPT_LATE_JOIN: u8 = 0x04;
const TOPT_ORIGINATING_TRANSPORT: u8 = 0x08;
const TOPT_EXTENDED_FUNCTIONALITY: u8 = 0x0E;

/// TIR, the advertisement of one topic.
///
/// Shape: `name, 0, transport u8 (0x80 options present), record length u8, ttl u16, index u32`, the
/// options, the transport record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicInformation<'a> {
    /// Topic name, without its zero.
    pub name: &'a [u8],
    /// What the field fills with 16 at first and 60 afterwards.
    pub ttl: u16,
    /// The topic's index within the transport session.
    pub index: u32,
    /// Options, if there are any.
    pub options: Option<TopicOptions<'a>>,
    /// Where the topic is to be heard.
    pub transport: Transport<'a>,
}

impl<'a> TopicInformation<'a> {
    pub(super) fn read(r: &mut Reader<'a>) -> Result<TopicInformation<'a>, WireError> {
        let name = read_name(r, Part::TopicInformation)?;
        let (kind, record_len, ttl, index) = (r.u8()?, r.u8()?, r.u16()?, r.u32()?);
        let options = if kind & OPTIONS_FLAG != 0 { Some(TopicOptions::read(r)?) } else { None };
        r.part(Part::TransportRecord);
        let at = r.at();
        let transport = Transport::parse(kind & !OPTIONS_FLAG, r.take(usize::from(record_len))?, at)?;
        Ok(TopicInformation { name, ttl, index, options, transport })
    }

    /// Appends the record.
    pub fn emit(&self, out: &mut Vec<u8>) {
        emit_name(out, self.name);
        let flag = if self.options.is_some() { OPTIONS_FLAG } else { 0 };
        out.extend_from_slice(&[flag | self.transport.kind(), self.transport.len()]);
        out.extend_from_slice(&self.ttl.to_be_bytes());
        out.extend_from_slice(&self.index.to_be_bytes());
        if let Some(options) = self.options {
            options.emit(out);
        }
        self.transport.emit(out);
    }
}

/// Where a topic is to be heard: the transport record of a TIR. Each type has exactly the lengths given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport<'a> {
    /// TCP 0x00: `ip, port` (6) or `ip, session_id, port` (10).
    Tcp {
        /// Address of the source.
        ip: Ipv4Addr,
        /// Port it listens on.
        port: u16,
        /// Session id, in the longer form.
        session_id: Option<u32>,
    },
    /// LBT-RU 0x01, in the same two forms.
    LbtRu {
        /// Address of the source.
        ip: Ipv4Addr,
        /// Port it listens on.
        port: u16,
        /// Session id, in the longer form.
        session_id: Option<u32>,
    },
    /// LBT-RM 0x10: `source ip, group, session_id, destination port, ucast_port` (16).
    LbtRm {
        /// Address of the source.
        source: Ipv4Addr,
        /// Multicast group.
        group: Ipv4Addr,
        /// Session id.
        session_id: u32,
        /// Destination port of the group.
        dest_port: u16,
        /// Where the source listens for NAKs.
        ucast_port: u16,
    },
    /// LBT-SMX 0x04 and LBT-IPC 0x40: `host_id, session_id, transport_id u16` (10).
    Shared {
        /// Whether it is SMX.
        smx: bool,
        /// Host.
        host_id: u32,
        /// Session id.
        session_id: u32,
        /// Transport id.
        transport_id: u16,
    },
    /// A type this library does not know.
    Other {
        /// The type, seven bits.
        kind: u8,
        /// The record.
        record: &'a [u8],
    },
}

impl<'a> Transport<'a> {
    fn parse(kind: u8, record: &'a [u8], at: usize) -> Result<Transport<'a>, WireError> {
        let allowed: &[usize] = match kind {
            0x00 | 0x01 => &[6, 10],
            0x04 | 0x40 => &[10],
            0x10 => &[16],
            _ => return Ok(Transport::Other { kind, record }),
        };
        if !allowed.contains(&record.len()) {
            let (found, limit) = (record.len(), allowed[allowed.len() - 1]);
            return Err(WireError::BadLength { part: Part::TransportRecord, at, found, limit });
        }
        let mut r = Reader::new(record, Part::TransportRecord);
        match kind {
            0x00 | 0x01 => Transport::read_socket(kind, &mut r),
            0x10 => Transport::read_lbtrm(&mut r),
            _ => {
                let (host_id, session_id, transport_id) = (r.u32()?, r.u32()?, r.u16()?);
                Ok(Transport::Shared { smx: kind == 0x04, host_id, session_id, transport_id })
            }
        }
    }

    fn read_socket(kind: u8, r: &mut Reader<'a>) -> Result<Transport<'a>, WireError> {
        let ip = Ipv4Addr::from(r.array()?);
        let session_id = if r.left() > 2 { Some(r.u32()?) } else { None };
        let port = r.u16()?;
        Ok(match kind {
            0x00 => Transport::Tcp { ip, port, session_id },
            _ => Transport::LbtRu { ip, port, session_id },
        })
    }

    fn read_lbtrm(r: &mut Reader<'a>) -> Result<Transport<'a>, WireError> {
        Ok(Transport::LbtRm {
            source: Ipv4Addr::from(r.array()?),
            group: Ipv4Addr::from(r.array()?),
            session_id: r.u32()?,
            dest_port: r.u16()?,
            ucast_port: r.u16()?,
        })
    }

    fn kind(&self) -> u8 {
        match self {
            Transport::Tcp { .. } => 0x00,
            Transport::LbtRu { .. } => 0x01,
            Transport::LbtRm { .. } => 0x10,
            Transport::Shared { smx: true, .. } => 0x04,
            Transport::Shared { smx: false, .. } => 0x40,
            Transport::Other { kind, .. } => *kind,
        }
    }

    fn len(&self) -> u8 {
        match self {
            Transport::Tcp { session_id, .. } | Transport::LbtRu { session_id, .. } => {
                if session_id.is_some() { 10 } else { 6 }
            }
            Transport::LbtRm { .. } => 16,
            Transport::Shared { .. } => 10,
            Transport::Other { record, .. } => record.len() as u8,
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match *self {
            Transport::Tcp { ip, port, session_id } | Transport::LbtRu { ip, port, session_id } => {
                out.extend_from_slice(&ip.octets());
                if let Some(id) = session_id {
                    out.extend_from_slice(&id.to_be_bytes());
                }
                out.extend_from_slice(&port.to_be_bytes());
            }
            Transport::LbtRm { source, group, session_id, dest_port, ucast_port } => {
                out.extend_from_slice(&source.octets());
                out.extend_from_slice(&group.octets());
                out.extend_from_slice(&session_id.to_be_bytes());
                out.extend_from_slice(&dest_port.to_be_bytes());
                out.extend_from_slice(&ucast_port.to_be_bytes());
            }
            Transport::Shared { host_id, session_id, transport_id, .. } => {
                out.extend_from_slice(&host_id.to_be_bytes());
                out.extend_from_slice(&session_id.to_be_bytes());
                out.extend_from_slice(&transport_id.to_be_bytes());
            }
            Transport::Other { record, .. } => out.extend_from_slice(record),
        }
    }
}

/// The options of a TIR, checked: `00 04 total u16`, then options `type u8, len u8, body` that fill `total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicOptions<'a>(&'a [u8]);

impl<'a> TopicOptions<'a> {
    /// Options that were written with [`TopicOption::emit`].
    #[must_use]
    pub fn written(bytes: &'a [u8]) -> TopicOptions<'a> {
        TopicOptions(bytes)
    }

    fn read(r: &mut Reader<'a>) -> Result<TopicOptions<'a>, WireError> {
        r.part(Part::TopicOption);
        let at = r.at();
        let (kind, len, total) = (r.u8()?, r.u8()?, usize::from(r.u16()?));
        if kind != 0 || usize::from(len) != LENGTH_OPTION_LEN || total < LENGTH_OPTION_LEN {
            let (found, limit) = (total, LENGTH_OPTION_LEN);
            return Err(WireError::BadLength { part: Part::TopicOption, at, found, limit });
        }
        let body = r.take(total - LENGTH_OPTION_LEN)?;
        let mut inner = Reader::new(body, Part::TopicOption);
        while inner.left() > 0 {
            TopicOption::read(&mut inner)?;
        }
        Ok(TopicOptions(body))
    }

    /// The options in their order.
    pub fn iter(&self) -> impl Iterator<Item = TopicOption<'a>> + use<'a> {
        let mut r = Reader::new(self.0, Part::TopicOption);
        // They were checked when the record was read.
        std::iter::from_fn(move || if r.left() == 0 { None } else { TopicOption::read(&mut r).ok() })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let total = (LENGTH_OPTION_LEN + self.0.len()) as u16;
        out.extend_from_slice(&[0, LENGTH_OPTION_LEN as u8]);
        out.extend_from_slice(&total.to_be_bytes());
        out.extend_from_slice(self.0);
    }
}

/// One option of a TIR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicOption<'a> {
    /// 0x0E: `flags u16, request port u16, reserved u16, ip, functions u32`: where the source takes
    /// requests by TCP.
    ExtendedFunctionality {
        /// 0x8000: may be ignored.
        flags: u16,
        /// TCP port for requests; 0 if there is none.
        request_port: u16,
        /// Address for requests.
        ip: Ipv4Addr,
        /// 1 late join, 2 persistence, 4 queuing, 8 load balancing; the upper bits are free.
        functions: u32,
    },
    /// 0x04: `flags u16, request port u16, reserved u16, ip, transport u32, high u32, low u32`: messages of
    /// the topic are retained, and where they are asked for.
    LateJoin {
        /// 0x8000: may be ignored.
        flags: u16,
        /// TCP port for requests.
        request_port: u16,
        /// Address for requests.
        ip: Ipv4Addr,
        /// The transport session's number within its context.
        transport: u32,
        /// The last number sent when this was written; a hint.
        high: u32,
        /// The lowest number retained when this was written; a hint.
        low: u32,
    },
    /// 0x08: `flags u16`, 32 opaque bytes.
    OriginatingTransport {
        /// 0x8000: may be ignored.
        flags: u16,
        /// The id; its inner layout is the field's own.
        id: [u8; 32],
    },
    /// Any other option: skipped by its length.
    Other {
        /// The type.
        kind: u8,
        /// What follows type and length.
        body: &'a [u8],
    },
}

impl<'a> TopicOption<'a> {
    fn read(r: &mut Reader<'a>) -> Result<TopicOption<'a>, WireError> {
        let (kind, body) = read_option(r, Part::TopicOption, 2)?;
        let mut r = Reader::new(body, Part::TopicOption);
        let option = match kind {
            TOPT_EXTENDED_FUNCTIONALITY => {
                let (flags, request_port, _reserved) = (r.u16()?, r.u16()?, r.u16()?);
                let ip = Ipv4Addr::from(r.array()?);
                TopicOption::ExtendedFunctionality { flags, request_port, ip, functions: r.u32()? }
            }
            TOPT_LATE_JOIN => {
                let (flags, request_port, _reserved) = (r.u16()?, r.u16()?, r.u16()?);
                let ip = Ipv4Addr::from(r.array()?);
                let (transport, high, low) = (r.u32()?, r.u32()?, r.u32()?);
                TopicOption::LateJoin { flags, request_port, ip, transport, high, low }
            }
            TOPT_ORIGINATING_TRANSPORT => {
                TopicOption::OriginatingTransport { flags: r.u16()?, id: r.array()? }
            }
            kind => TopicOption::Other { kind, body: r.take(body.len())? },
        };
        r.end()?;
        Ok(option)
    }

    /// Appends the option.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match *self {
            TopicOption::ExtendedFunctionality { flags, request_port, ip, functions } => {
                out.extend_from_slice(&[TOPT_EXTENDED_FUNCTIONALITY, 16]);
                out.extend_from_slice(&flags.to_be_bytes());
                out.extend_from_slice(&request_port.to_be_bytes());
                out.extend_from_slice(&[0, 0]);
                out.extend_from_slice(&ip.octets());
                out.extend_from_slice(&functions.to_be_bytes());
            }
            TopicOption::LateJoin { flags, request_port, ip, transport, high, low } => {
                out.extend_from_slice(&[TOPT_LATE_JOIN, 24]);
                out.extend_from_slice(&flags.to_be_bytes());
                out.extend_from_slice(&request_port.to_be_bytes());
                out.extend_from_slice(&[0, 0]);
                out.extend_from_slice(&ip.octets());
                [transport, high, low].iter().for_each(|n| out.extend_from_slice(&n.to_be_bytes()));
            }
            TopicOption::OriginatingTransport { flags, id } => {
                out.extend_from_slice(&[TOPT_ORIGINATING_TRANSPORT, 36]);
                out.extend_from_slice(&flags.to_be_bytes());
                out.extend_from_slice(&id);
            }
            TopicOption::Other { kind, body } => {
                out.extend_from_slice(&[kind, (2 + body.len()) as u8]);
                out.extend_from_slice(body);
            }
        }
    }
}

/// Reads `type u8, len u8, body`, where `len` counts from the type and is at least `min`.
pub(super) fn read_option<'a>(
    r: &mut Reader<'a>,
    part: Part,
    min: usize,
) -> Result<(u8, &'a [u8]), WireError> {
    r.part(part);
    let at = r.at();
    let (kind, len) = (r.u8()?, usize::from(r.u8()?));
    if len < min {
        return Err(WireError::BadLength { part, at, found: len, limit: min });
    }
    Ok((kind, r.take(len - 2)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(options: Option<TopicOptions<'_>>) -> Vec<u8> {
        let transport = Transport::LbtRm {
            source: Ipv4Addr::new(10, 0, 0, 1),
            group: Ipv4Addr::new(224, 10, 10, 10),
            session_id: 7,
            dest_port: 14400,
            ucast_port: 14391,
        };
        let mut out = Vec::new();
        TopicInformation { name: b"topic", ttl: 60, index: 9, options, transport }.emit(&mut out);
        out
    }

    fn parse(bytes: &[u8]) -> Result<TopicInformation<'_>, WireError> {
        TopicInformation::read(&mut Reader::new(bytes, Part::TopicInformation))
    }

    #[test]
    fn the_request_port_reads_back() {
        let option = TopicOption::ExtendedFunctionality {
            flags: 0x8000,
            request_port: 14391,
            ip: Ipv4Addr::new(10, 0, 0, 1),
            functions: 0,
        };
        let mut bytes = Vec::new();
        TopicOption::Other { kind: 0x0D, body: &[0; 6] }.emit(&mut bytes);
        option.emit(&mut bytes);
        let record = sample(Some(TopicOptions::written(&bytes)));
        let parsed = parse(&record).expect("well-formed").options.expect("present");
        assert_eq!(parsed.iter().last(), Some(option));
    }

    #[test]
    fn every_shorter_record_is_refused() {
        let whole = sample(None);
        for cut in 0..whole.len() {
            assert!(parse(&whole[..cut]).is_err(), "{cut}");
        }
        assert!(parse(&whole).is_ok());
    }

    #[test]
    fn a_transport_record_of_another_length_is_refused_and_an_unknown_type_kept() {
        let mut bytes = sample(None);
        bytes[6] = 0x00;
        assert!(matches!(parse(&bytes), Err(WireError::BadLength { found: 16, limit: 10, .. })));
        bytes[6] = 0x02;
        assert!(matches!(parse(&bytes).map(|t| t.transport), Ok(Transport::Other { kind: 2, .. })));
    }

    #[test]
    fn options_that_overrun_or_are_shorter_than_their_header_are_refused() {
        let mut bytes = Vec::new();
        TopicOption::Other { kind: 0x0D, body: &[0; 6] }.emit(&mut bytes);
        for len in [0, 1, 9] {
            let mut bad = bytes.clone();
            bad[1] = len;
            assert!(parse(&sample(Some(TopicOptions::written(&bad)))).is_err(), "{len}");
        }
    }
}
