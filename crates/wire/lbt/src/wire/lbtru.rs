//! LBT-RU: the reliable unicast transport's packets.
//!
//! ```text
//!  0  ver_type u8    version 0 in the high nibble; the type in the low one
//!  1  next_hdr u8    type of the first option after the body, 0 for none
//!  2  flags u16      by type
//!  4  body by type
//!     options        8 bytes each: next_hdr u8, hdr_len u8 = 8, flags u16, value u32
//!     LBMC messages  DATA only
//! ```
//!
//! | type | from | flags | body |
//! |---|---|---|---|
//! | 0 DATA | source | 0x4000 retransmission | sqn u32, trail_sqn u32 |
//! | 2 SM | source | 0x8000 SYN | sm_sqn u32, lead_sqn u32, trail_sqn u32 |
//! | 3 NAK | receiver | 0 | count u16, format u16, numbers u32 each |
//! | 4 NCF | source | 0 | trail_sqn u32, count u16, reserved u8, reason and format u8, numbers u32 each |
//! | 5 ACK | receiver | 0 | ack_sqn u32 |
//! | 6 CREQ | receiver | request, 0 SYN | none |
//! | 7 RST | source | reason, 0 default | none |
//!
//! Option 1 is the source's session id, option 2 an id that the receiver chose. RST has no options: the
//! dissectors step over its flags wrongly and would misread what follows.

pub use super::list::{NcfReason, SqnList};
use super::list::{emit_list, list_count};
use super::{Reader, word};
use crate::error::{Part, WireError};
use units::Sqn;

/// Bytes before the body.
pub const HEADER_LEN: usize = 4;
/// Bytes of one option.
pub const OPTION_LEN: usize = 8;
/// Bytes before the first LBMC message of a DATA datagram with a session id.
pub const DATA_HEADER_LEN: usize = HEADER_LEN + 8 + OPTION_LEN;
/// Bytes of an NCF with a session id, less its numbers.
pub const NCF_LEN: usize = HEADER_LEN + 8 + OPTION_LEN;

/// Flag of DATA: this is a retransmission.
pub const FLAG_RETRANSMISSION: u16 = 0x4000;
/// Flag of SM: answer to a connect request.
pub const FLAG_SYN: u16 = 0x8000;
/// Where the flags stand.
pub(crate) const FLAGS_AT: usize = 2;
/// Where the trailing edge stands in a DATA datagram.
pub(crate) const DATA_TRAIL_AT: usize = 8;

const TYPE_DATA: u8 = 0;
const TYPE_SM: u8 = 2;
const TYPE_NAK: u8 = 3;
const TYPE_NCF: u8 = 4;
const TYPE_ACK: u8 = 5;
const TYPE_CREQ: u8 = 6;
const TYPE_RST: u8 = 7;

const OPTION_NONE: u8 = 0;
const OPTION_SESSION_ID: u8 = 1;
const OPTION_CLIENT_ID: u8 = 2;
/// Flag of an option: who does not know it may skip it.
const OPTION_IGNORE: u16 = 0x8000;

/// One LBT-RU datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Bytes 2 and 3, by type: [`FLAG_RETRANSMISSION`], [`FLAG_SYN`], the request of a CREQ, the reason of an
    /// RST; else reserved.
    pub flags: u16,
    /// What kind of packet it is, with the fields of that kind.
    pub body: Body<'a>,
    /// The options behind the body.
    pub options: Options,
    /// What follows the options: the LBMC messages of DATA; skipped in all others.
    pub rest: &'a [u8],
}

/// The part of a packet that differs by type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// New or retransmitted messages.
    Data {
        /// Transport number of this datagram.
        sqn: Sqn,
        /// Oldest number the source can still retransmit.
        trail_sqn: Sqn,
    },
    /// A session message.
    SessionMessage {
        /// Counts the session's session messages from 0.
        sm_sqn: u32,
        /// Number of the last datagram sent; the one before `trail_sqn` if none was.
        lead_sqn: Sqn,
        /// Oldest number the source can still retransmit.
        trail_sqn: Sqn,
    },
    /// A request for retransmission.
    Nak {
        /// Low nibble 0 selective, 1 parity; the rest is not judged.
        format: u16,
        /// The missing numbers.
        numbers: SqnList<'a>,
    },
    /// What became of a NAK.
    Ncf {
        /// Oldest number the source can still retransmit.
        trail_sqn: Sqn,
        /// Not judged.
        reserved: u8,
        /// High nibble of the last byte before the list.
        reason: NcfReason,
        /// Its low nibble: 0 selective, 1 parity.
        format: u8,
        /// The numbers the NAK named.
        numbers: SqnList<'a>,
    },
    /// A receiver's sign of life.
    Ack {
        /// The highest number it has heard of.
        sqn: Sqn,
    },
    /// A receiver wants to hear the session.
    ConnectRequest,
    /// The source refuses a receiver, or knows it no longer.
    Reset,
}

/// The options that are understood; others are skipped if their flags allow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The source's session, drawn anew for each. Sessions before it was introduced have none.
    pub session_id: Option<u32>,
    /// Chosen by the receiver and echoed by the source while they connect.
    pub client_id: Option<u32>,
}

impl Options {
    /// The session id alone.
    #[must_use]
    pub fn session(session_id: Option<u32>) -> Options {
        Options { session_id, client_id: None }
    }

    fn first(self) -> u8 {
        if self.session_id.is_some() { OPTION_SESSION_ID } else { self.second() }
    }

    fn second(self) -> u8 {
        if self.client_id.is_some() { OPTION_CLIENT_ID } else { OPTION_NONE }
    }

    fn read(r: &mut Reader<'_>, mut next: u8) -> Result<Options, WireError> {
        r.part(Part::LbtruOption);
        let mut options = Options::default();
        while next != OPTION_NONE {
            let at = r.at();
            let kind = next;
            next = r.u8()?;
            let len = usize::from(r.u8()?);
            if len < 4 {
                return Err(WireError::BadLength { part: Part::LbtruOption, at, found: len, limit: 4 });
            }
            let flags = r.u16()?;
            match kind {
                OPTION_SESSION_ID | OPTION_CLIENT_ID if len != OPTION_LEN => {
                    return Err(WireError::BadLength {
                        part: Part::LbtruOption,
                        at,
                        found: len,
                        limit: OPTION_LEN,
                    });
                }
                OPTION_SESSION_ID => options.session_id = Some(r.u32()?),
                OPTION_CLIENT_ID => options.client_id = Some(r.u32()?),
                _ if flags & OPTION_IGNORE != 0 => drop(r.take(len - 4)?),
                other => return unsupported(Part::LbtruOption, other, OPTION_CLIENT_ID),
            }
        }
        Ok(options)
    }

    fn emit(self, out: &mut Vec<u8>) {
        if let Some(id) = self.session_id {
            out.extend_from_slice(&option(self.second(), 0, id));
        }
        if let Some(id) = self.client_id {
            out.extend_from_slice(&option(OPTION_NONE, OPTION_IGNORE, id));
        }
    }
}

fn option(next: u8, flags: u16, value: u32) -> [u8; OPTION_LEN] {
    let ([f0, f1], [v0, v1, v2, v3]) = (flags.to_be_bytes(), value.to_be_bytes());
    [next, OPTION_LEN as u8, f0, f1, v0, v1, v2, v3]
}

fn unsupported<T>(part: Part, found: u8, limit: u8) -> Result<T, WireError> {
    Err(WireError::Unsupported { part, found: u32::from(found), limit: u32::from(limit) })
}

impl<'a> Packet<'a> {
    /// A packet without flags.
    #[must_use]
    pub fn new(body: Body<'a>, options: Options) -> Packet<'a> {
        Packet { flags: 0, body, options, rest: &[] }
    }

    /// Parses a whole datagram.
    ///
    /// # Errors
    /// Another version or type, an option that is not known and may not be skipped, numbers that contradict
    /// each other, or fewer bytes than the type, its counts and its options need. The LBMC messages of a DATA
    /// datagram are not looked at: see [`super::lbmc::check`].
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Result<Packet<'a>, WireError> {
        match Packet::usual(datagram) {
            Some(packet) => Ok(packet),
            None => Packet::parse_any(datagram),
        }
    }

    /// DATA as [`emit_data_header`] writes it, if it is that: nearly all of what comes. Read field by field it takes
    /// 190 instructions more.
    #[inline]
    pub(crate) fn usual(datagram: &'a [u8]) -> Option<Packet<'a>> {
        let (header, rest) = datagram.split_first_chunk::<DATA_HEADER_LEN>()?;
        let word = |at| word(header, at);
        let is_usual = header[..2] == [TYPE_DATA, OPTION_SESSION_ID]
            && header[12..14] == [OPTION_NONE, OPTION_LEN as u8]
            && !Sqn(word(4)).precedes(Sqn(word(8)));
        is_usual.then(|| Packet {
            flags: (word(0) & 0xFFFF) as u16,
            body: Body::Data { sqn: Sqn(word(4)), trail_sqn: Sqn(word(8)) },
            options: Options::session(Some(word(16))),
            rest,
        })
    }

    fn parse_any(datagram: &'a [u8]) -> Result<Packet<'a>, WireError> {
        let mut r = Reader::new(datagram, Part::LbtruHeader);
        let (ver_type, next_hdr, flags) = (r.u8()?, r.u8()?, r.u16()?);
        if ver_type >> 4 != 0 {
            return unsupported(Part::LbtruVersion, ver_type >> 4, 0);
        }
        let body = Body::read(ver_type, &mut r)?;
        if matches!(body, Body::Reset) && next_hdr != OPTION_NONE {
            return unsupported(Part::LbtruOption, next_hdr, OPTION_NONE);
        }
        let options = Options::read(&mut r, next_hdr)?;
        Ok(Packet { flags, body, options, rest: r.rest() })
    }

    /// Whether it repeats an earlier DATA datagram.
    #[must_use]
    pub fn is_retransmission(&self) -> bool {
        self.flags & FLAG_RETRANSMISSION != 0
    }

    /// Appends the datagram to `out`. A reset is written without options, whatever they are.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let options = if self.body == Body::Reset { Options::default() } else { self.options };
        out.extend_from_slice(&[self.body.code(), options.first()]);
        out.extend_from_slice(&self.flags.to_be_bytes());
        self.body.emit(out);
        options.emit(out);
        out.extend_from_slice(self.rest);
    }
}

impl<'a> Body<'a> {
    #[inline]
    fn read(code: u8, r: &mut Reader<'a>) -> Result<Body<'a>, WireError> {
        Ok(match code {
            TYPE_DATA => {
                r.part(Part::LbtruData);
                let (sqn, trail_sqn) = (Sqn(r.u32()?), Sqn(r.u32()?));
                in_order(Part::LbtruData, trail_sqn, sqn)?;
                Body::Data { sqn, trail_sqn }
            }
            TYPE_SM => {
                r.part(Part::SessionMessage);
                let (sm_sqn, lead_sqn, trail_sqn) = (r.u32()?, Sqn(r.u32()?), Sqn(r.u32()?));
                in_order(Part::SessionMessage, trail_sqn, lead_sqn.next())?;
                Body::SessionMessage { sm_sqn, lead_sqn, trail_sqn }
            }
            TYPE_NAK => {
                r.part(Part::Nak);
                let (count, format) = (r.u16()?, r.u16()?);
                Body::Nak { format, numbers: SqnList::read(r, count)? }
            }
            TYPE_NCF => {
                r.part(Part::Ncf);
                let (trail_sqn, count, reserved, byte) = (Sqn(r.u32()?), r.u16()?, r.u8()?, r.u8()?);
                let numbers = SqnList::read(r, count)?;
                let (reason, format) = (NcfReason::from_code(byte >> 4), byte & 0xF);
                Body::Ncf { trail_sqn, reserved, reason, format, numbers }
            }
            TYPE_ACK => {
                r.part(Part::Ack);
                Body::Ack { sqn: Sqn(r.u32()?) }
            }
            TYPE_CREQ => Body::ConnectRequest,
            TYPE_RST => Body::Reset,
            other => return unsupported(Part::LbtruType, other, TYPE_RST),
        })
    }

    fn code(&self) -> u8 {
        match self {
            Body::Data { .. } => TYPE_DATA,
            Body::SessionMessage { .. } => TYPE_SM,
            Body::Nak { .. } => TYPE_NAK,
            Body::Ncf { .. } => TYPE_NCF,
            Body::Ack { .. } => TYPE_ACK,
            Body::ConnectRequest => TYPE_CREQ,
            Body::Reset => TYPE_RST,
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let mut put = |numbers: &[u32]| numbers.iter().for_each(|n| out.extend_from_slice(&n.to_be_bytes()));
        match *self {
            Body::Data { sqn, trail_sqn } => put(&[sqn.0, trail_sqn.0]),
            Body::SessionMessage { sm_sqn, lead_sqn, trail_sqn } => put(&[sm_sqn, lead_sqn.0, trail_sqn.0]),
            Body::Ack { sqn } => put(&[sqn.0]),
            Body::Nak { format, numbers } => {
                put(&[(numbers.len() as u32) << 16 | u32::from(format)]);
                out.extend_from_slice(numbers.bytes());
            }
            Body::Ncf { trail_sqn, reserved, reason, format, numbers } => {
                let last = u32::from(reserved) << 8 | u32::from(reason.code() << 4 | format & 0xF);
                put(&[trail_sqn.0, (numbers.len() as u32) << 16 | last]);
                out.extend_from_slice(numbers.bytes());
            }
            Body::ConnectRequest | Body::Reset => {}
        }
    }
}

fn in_order(part: Part, trail: Sqn, lead: Sqn) -> Result<(), WireError> {
    if lead.precedes(trail) {
        return Err(WireError::Inconsistent { part, found: trail.0, limit: lead.0 });
    }
    Ok(())
}

/// Writes the header of new data of a session; the messages follow it on the wire.
pub(crate) fn emit_data_header(session_id: u32, sqn: Sqn, trail: Sqn, out: &mut [u8; DATA_HEADER_LEN]) {
    out[..4].copy_from_slice(&[TYPE_DATA, OPTION_SESSION_ID, 0, 0]);
    out[4..8].copy_from_slice(&sqn.0.to_be_bytes());
    out[8..12].copy_from_slice(&trail.0.to_be_bytes());
    out[12..].copy_from_slice(&option(OPTION_NONE, 0, session_id));
}

/// Appends a selective NAK for `numbers` to `out`; at most 65,535 of them.
pub fn emit_nak(options: Options, numbers: &[Sqn], out: &mut Vec<u8>) {
    out.extend_from_slice(&[TYPE_NAK, options.first(), 0, 0]);
    out.extend_from_slice(&list_count(numbers).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    emit_list(numbers, out);
    options.emit(out);
}

/// Appends a selective NCF for `numbers` to `out`; at most 65,535 of them.
pub fn emit_ncf(options: Options, trail: Sqn, reason: NcfReason, numbers: &[Sqn], out: &mut Vec<u8>) {
    out.extend_from_slice(&[TYPE_NCF, options.first(), 0, 0]);
    out.extend_from_slice(&trail.0.to_be_bytes());
    out.extend_from_slice(&list_count(numbers).to_be_bytes());
    out.extend_from_slice(&[0, reason.code() << 4]);
    emit_list(numbers, out);
    options.emit(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::damaged;

    const BOTH: Options = Options { session_id: Some(0x77aa_55cc), client_id: Some(1) };

    fn emitted(packet: &Packet<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        packet.emit(&mut out);
        out
    }

    fn samples() -> Vec<Vec<u8>> {
        let session = Options::session(Some(0x77aa_55cc));
        let mut lists = [Vec::new(), Vec::new()];
        emit_nak(session, &[Sqn(1), Sqn(2)], &mut lists[0]);
        emit_ncf(session, Sqn(3), NcfReason::Shed, &[Sqn(1), Sqn(2)], &mut lists[1]);
        let bodies = [
            (Body::Data { sqn: Sqn(9), trail_sqn: Sqn(3) }, session),
            (Body::SessionMessage { sm_sqn: 7, lead_sqn: Sqn(9), trail_sqn: Sqn(3) }, BOTH),
            (Body::Ack { sqn: Sqn(9) }, session),
            (Body::ConnectRequest, Options { session_id: None, client_id: Some(1) }),
            (Body::Reset, Options::default()),
        ];
        lists.into_iter().chain(bodies.map(|(body, options)| emitted(&Packet::new(body, options)))).collect()
    }

    #[test]
    fn every_packet_is_built_again_byte_for_byte_and_every_shorter_one_is_refused_as_truncated() {
        for whole in samples() {
            let packet = Packet::parse(&whole).expect("well-formed");
            assert_eq!(emitted(&packet), whole, "{packet:?}");
            for cut in 0..whole.len() {
                let result = Packet::parse(&whole[..cut]);
                assert!(matches!(result, Err(WireError::Truncated { .. })), "{cut}: {result:?}");
            }
        }
    }

    #[test]
    fn every_flipped_bit_gives_a_refusal_or_a_packet_that_is_built_again_alike() {
        for whole in samples() {
            for bit in 0..8 * whole.len() {
                let mut flipped = whole.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                // what is not kept: flags of options, and the order of options that are written otherwise
                if let Ok(packet) = Packet::parse(&flipped) {
                    let again = emitted(&packet);
                    assert_eq!(Packet::parse(&again), Ok(packet), "bit {bit} of {whole:02x?}");
                }
            }
        }
    }

    #[test]
    fn what_is_read_at_once_is_what_is_read_field_by_field() {
        let usual = &samples()[2];
        assert!(Packet::usual(usual).is_some());
        for datagram in damaged(&[usual, &b"messages"[..]].concat()) {
            if let Some(packet) = Packet::usual(&datagram) {
                assert_eq!(Packet::parse_any(&datagram), Ok(packet), "{datagram:02x?}");
            }
        }
    }

    #[test]
    fn the_header_of_data_is_the_one_that_is_parsed() {
        let mut out = [0; DATA_HEADER_LEN];
        emit_data_header(0x77aa_55cc, Sqn(9), Sqn(3), &mut out);
        assert_eq!(out[..], samples()[2]);
    }

    #[test]
    fn other_versions_types_and_options_are_refused() {
        let creq = [6, 2, 0, 0, 0, 8, 0x80, 0, 0, 0, 0, 1];
        assert!(Packet::parse(&creq).is_ok());
        for (at, value) in [(0, 0x16), (0, 1), (0, 8), (1, 3)] {
            let mut bad = creq;
            (bad[at], bad[6]) = (value, 0);
            assert!(matches!(Packet::parse(&bad), Err(WireError::Unsupported { .. })), "{at} {value}");
        }
        let mut short = creq;
        for len in [0, 3, 4, 7, 9] {
            short[5] = len;
            assert!(matches!(Packet::parse(&short), Err(WireError::BadLength { .. })), "{len}");
        }
        let reset = [7, 2, 0, 0, 0, 8, 0x80, 0, 0, 0, 0, 1];
        assert!(matches!(Packet::parse(&reset), Err(WireError::Unsupported { .. })));
    }

    #[test]
    fn an_unknown_option_is_skipped_if_its_flags_allow_it() {
        let ack = [5, 9, 0, 0, 0, 0, 0, 4, 1, 6, 0x80, 0, 0xAA, 0xBB, 0, 8, 0, 0, 0, 0, 0, 7];
        let packet = Packet::parse(&ack).expect("nine may be skipped");
        assert_eq!((packet.body, packet.options), (Body::Ack { sqn: Sqn(4) }, Options::session(Some(7))));
    }

    #[test]
    fn a_trailing_edge_beyond_the_leading_one_is_refused_and_one_before_the_wrap_is_not() {
        for (body, good) in [
            (Body::Data { sqn: Sqn(u32::MAX), trail_sqn: Sqn(0) }, false),
            (Body::Data { sqn: Sqn(0), trail_sqn: Sqn(u32::MAX) }, true),
            (Body::SessionMessage { sm_sqn: 0, lead_sqn: Sqn(u32::MAX), trail_sqn: Sqn(0) }, true),
            (Body::SessionMessage { sm_sqn: 0, lead_sqn: Sqn(u32::MAX), trail_sqn: Sqn(1) }, false),
        ] {
            let datagram = emitted(&Packet::new(body, Options::default()));
            assert_eq!(Packet::parse(&datagram).is_ok(), good, "{body:?}");
        }
    }
}
