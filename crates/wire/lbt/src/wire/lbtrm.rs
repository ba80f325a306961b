//! LBT-RM: the reliable multicast transport's DATA, session message, NAK and NAK confirmation.
//!
//! ```text
//!  0  ver_type u8    version 0 in the high nibble; 0 DATA, 2 SM, 3 NAK, 4 NCF in the low one
//!  1  next_hdr u8    0: option headers are not part of what the dissectors accept
//!  2  ucast_port u16 the source's unicast port, where it listens for NAKs
//!  4  session_id u32
//!  8  body by type
//! ```

pub use super::list::{NcfReason, SqnList};
use super::list::{emit_list, list_count};
use super::{Reader, word};
use crate::error::{Part, WireError};
use units::Sqn;

/// Bytes of the common header.
pub const HEADER_LEN: usize = 8;
/// Bytes before the first LBMC message of a DATA datagram.
pub const DATA_HEADER_LEN: usize = 20;
/// Bytes before the list of an NCF.
pub const NCF_HEADER_LEN: usize = 16;

/// Flag of DATA and SM: NAKs are sent to the source's unicast port.
pub const FLAG_UNICAST_NAKS: u8 = 0x80;
/// Flag of DATA: this is a retransmission.
pub const FLAG_RETRANSMISSION: u8 = 0x20;
/// Where [`FLAG_RETRANSMISSION`] stands in a DATA datagram.
pub(crate) const DATA_FLAGS_AT: usize = 16;
/// Where the trailing edge stands in a DATA datagram.
pub(crate) const DATA_TRAIL_AT: usize = 12;

const TYPE_DATA: u8 = 0;
const TYPE_SM: u8 = 2;
const TYPE_NAK: u8 = 3;
const TYPE_NCF: u8 = 4;
/// log2 of the transmission group size that the field sends; nobody acts on it.
const TGSZ: u8 = 3;

/// The two fields of the common header that name a session; the same in all four types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionHeader {
    /// Where the source listens for NAKs.
    pub ucast_port: u16,
    /// Drawn anew for each transport session.
    pub session_id: u32,
}

/// One LBT-RM datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// New or retransmitted messages.
    Data(Data<'a>),
    /// A session message.
    SessionMessage(SessionMessage<'a>),
    /// A request for retransmission.
    Nak(Nak<'a>),
    /// What became of a NAK.
    Ncf(Ncf<'a>),
}

impl<'a> Packet<'a> {
    /// Parses a whole datagram.
    ///
    /// # Errors
    /// Another version or type, option headers, or fewer bytes than the type and its counts need. The LBMC
    /// messages of a DATA datagram are not looked at: see [`super::lbmc::check`].
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Result<Packet<'a>, WireError> {
        match Packet::data(datagram) {
            Some(packet) => Ok(packet),
            None => Packet::parse_any(datagram),
        }
    }

    /// DATA that is as it should be: nearly all of what comes. Read field by field it takes 110 instructions more.
    #[inline]
    fn data(datagram: &'a [u8]) -> Option<Packet<'a>> {
        let (header, messages) = datagram.split_first_chunk::<DATA_HEADER_LEN>()?;
        let word = |at| word(header, at);
        let (sqn, trail_sqn, last) = (Sqn(word(8)), Sqn(word(12)), word(16));
        if header[..2] != [TYPE_DATA, 0] || sqn.precedes(trail_sqn) {
            return None;
        }
        let session = SessionHeader { ucast_port: (word(0) & 0xFFFF) as u16, session_id: word(4) };
        let (flags, tgsz, fec_symbol) = ((last >> 24) as u8, (last >> 16) as u8, (last & 0xFFFF) as u16);
        Some(Packet::Data(Data { session, sqn, trail_sqn, flags, tgsz, fec_symbol, messages }))
    }

    fn parse_any(datagram: &'a [u8]) -> Result<Packet<'a>, WireError> {
        let mut r = Reader::new(datagram, Part::LbtrmHeader);
        let ver_type = r.u8()?;
        let next_hdr = r.u8()?;
        let session = SessionHeader { ucast_port: r.u16()?, session_id: r.u32()? };
        if ver_type >> 4 != 0 {
            return unsupported(Part::LbtrmVersion, ver_type >> 4, 0);
        }
        if next_hdr != 0 {
            return unsupported(Part::LbtrmOptions, next_hdr, 0);
        }
        match ver_type {
            TYPE_DATA => Data::read(session, r).map(Packet::Data),
            TYPE_SM => SessionMessage::read(session, r).map(Packet::SessionMessage),
            TYPE_NAK => Nak::read(session, r).map(Packet::Nak),
            TYPE_NCF => Ncf::read(session, r).map(Packet::Ncf),
            other => unsupported(Part::LbtrmType, other, TYPE_NCF),
        }
    }

    /// The session the datagram belongs to.
    #[must_use]
    pub fn session(&self) -> SessionHeader {
        match self {
            Packet::Data(p) => p.session,
            Packet::SessionMessage(p) => p.session,
            Packet::Nak(p) => p.session,
            Packet::Ncf(p) => p.session,
        }
    }
}

fn unsupported<'a>(part: Part, found: u8, limit: u8) -> Result<Packet<'a>, WireError> {
    Err(WireError::Unsupported { part, found: u32::from(found), limit: u32::from(limit) })
}

fn header(ver_type: u8, session: SessionHeader) -> [u8; HEADER_LEN] {
    let [p0, p1] = session.ucast_port.to_be_bytes();
    let [s0, s1, s2, s3] = session.session_id.to_be_bytes();
    [ver_type, 0, p0, p1, s0, s1, s2, s3]
}

/// DATA: `sqn u32, trail_sqn u32, flags u8, tgsz u8, fec_symbol u16`, then LBMC messages to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// The session.
    pub session: SessionHeader,
    /// Transport number of this datagram.
    pub sqn: Sqn,
    /// Oldest number the source can still retransmit.
    pub trail_sqn: Sqn,
    /// [`FLAG_UNICAST_NAKS`], [`FLAG_RETRANSMISSION`]; the other bits are not judged.
    pub flags: u8,
    /// log2 of the transmission group size; not judged.
    pub tgsz: u8,
    /// Position in the transmission group; not judged.
    pub fec_symbol: u16,
    /// The LBMC messages.
    pub messages: &'a [u8],
}

impl<'a> Data<'a> {
    fn read(session: SessionHeader, mut r: Reader<'a>) -> Result<Data<'a>, WireError> {
        r.part(Part::LbtrmData);
        let (sqn, trail_sqn) = (Sqn(r.u32()?), Sqn(r.u32()?));
        let (flags, tgsz, fec_symbol) = (r.u8()?, r.u8()?, r.u16()?);
        if sqn.precedes(trail_sqn) {
            return Err(WireError::Inconsistent { part: Part::LbtrmData, found: trail_sqn.0, limit: sqn.0 });
        }
        Ok(Data { session, sqn, trail_sqn, flags, tgsz, fec_symbol, messages: r.rest() })
    }

    /// A header for new data as the field sends it; `messages` stay empty.
    #[must_use]
    pub fn new(session: SessionHeader, sqn: Sqn, trail_sqn: Sqn) -> Data<'static> {
        let fec_symbol = (sqn.0 & ((1 << TGSZ) - 1)) as u16;
        Data { session, sqn, trail_sqn, flags: FLAG_UNICAST_NAKS, tgsz: TGSZ, fec_symbol, messages: &[] }
    }

    /// Whether the datagram repeats an earlier one.
    #[must_use]
    pub fn is_retransmission(&self) -> bool {
        self.flags & FLAG_RETRANSMISSION != 0
    }

    /// Writes the header; the messages follow it on the wire.
    pub fn emit_header(&self, out: &mut [u8; DATA_HEADER_LEN]) {
        out[..8].copy_from_slice(&header(TYPE_DATA, self.session));
        out[8..12].copy_from_slice(&self.sqn.0.to_be_bytes());
        out[12..16].copy_from_slice(&self.trail_sqn.0.to_be_bytes());
        out[16] = self.flags;
        out[17] = self.tgsz;
        out[18..].copy_from_slice(&self.fec_symbol.to_be_bytes());
    }
}

/// Session message: `sm_sqn u32, lead_sqn u32, trail_sqn u32, flags u8, tgsz u8, reserved u16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionMessage<'a> {
    /// The session.
    pub session: SessionHeader,
    /// Counts the session's session messages from 0.
    pub sm_sqn: u32,
    /// Number of the last datagram sent.
    pub lead_sqn: Sqn,
    /// Oldest number the source can still retransmit.
    pub trail_sqn: Sqn,
    /// As in [`Data`].
    pub flags: u8,
    /// As in [`Data`].
    pub tgsz: u8,
    /// Not judged.
    pub reserved: u16,
    /// Bytes after the message; skipped.
    pub trailer: &'a [u8],
}

impl<'a> SessionMessage<'a> {
    fn read(session: SessionHeader, mut r: Reader<'a>) -> Result<SessionMessage<'a>, WireError> {
        r.part(Part::SessionMessage);
        let (sm_sqn, lead_sqn, trail_sqn) = (r.u32()?, Sqn(r.u32()?), Sqn(r.u32()?));
        let (flags, tgsz, reserved) = (r.u8()?, r.u8()?, r.u16()?);
        if lead_sqn.next().precedes(trail_sqn) {
            let (found, limit) = (trail_sqn.0, lead_sqn.0);
            return Err(WireError::Inconsistent { part: Part::SessionMessage, found, limit });
        }
        Ok(SessionMessage { session, sm_sqn, lead_sqn, trail_sqn, flags, tgsz, reserved, trailer: r.rest() })
    }

    /// A session message as the field sends it.
    #[must_use]
    pub fn new(
        session: SessionHeader,
        sm_sqn: u32,
        lead_sqn: Sqn,
        trail_sqn: Sqn,
    ) -> SessionMessage<'static> {
        let (flags, tgsz) = (FLAG_UNICAST_NAKS, TGSZ);
        SessionMessage { session, sm_sqn, lead_sqn, trail_sqn, flags, tgsz, reserved: 0, trailer: &[] }
    }

    /// Appends the datagram to `out`.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&header(TYPE_SM, self.session));
        out.extend_from_slice(&self.sm_sqn.to_be_bytes());
        out.extend_from_slice(&self.lead_sqn.0.to_be_bytes());
        out.extend_from_slice(&self.trail_sqn.0.to_be_bytes());
        out.extend_from_slice(&[self.flags, self.tgsz]);
        out.extend_from_slice(&self.reserved.to_be_bytes());
        out.extend_from_slice(self.trailer);
    }
}

/// NAK: `num_naks u16, format u16`, then the numbers. Sent to the source's unicast port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nak<'a> {
    /// The source's session, echoed.
    pub session: SessionHeader,
    /// Low nibble 0 selective, 1 parity; the rest is not judged.
    pub format: u16,
    /// The missing numbers.
    pub numbers: SqnList<'a>,
    /// Bytes after the list; skipped.
    pub trailer: &'a [u8],
}

impl<'a> Nak<'a> {
    fn read(session: SessionHeader, mut r: Reader<'a>) -> Result<Nak<'a>, WireError> {
        r.part(Part::Nak);
        let (count, format) = (r.u16()?, r.u16()?);
        let numbers = SqnList::read(&mut r, count)?;
        Ok(Nak { session, format, numbers, trailer: r.rest() })
    }

    /// Whether the numbers name datagrams, as opposed to parity.
    #[must_use]
    pub fn is_selective(&self) -> bool {
        self.format & 0xF == 0
    }

    /// Appends a selective NAK for `numbers` to `out`; at most 65,535 of them.
    pub fn emit(session: SessionHeader, numbers: &[Sqn], out: &mut Vec<u8>) {
        Nak::emit_header(session, list_count(numbers), 0, out);
        emit_list(numbers, out);
    }

    /// Appends the header alone, for a list or a trailer that is written by other means.
    pub fn emit_header(session: SessionHeader, count: u16, format: u16, out: &mut Vec<u8>) {
        out.extend_from_slice(&header(TYPE_NAK, session));
        out.extend_from_slice(&count.to_be_bytes());
        out.extend_from_slice(&format.to_be_bytes());
    }
}

/// NCF: `trail_sqn u32, num_ncfs u16, reserved u8, reason and format u8`, then the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ncf<'a> {
    /// The session.
    pub session: SessionHeader,
    /// Oldest number the source can still retransmit.
    pub trail_sqn: Sqn,
    /// Not judged.
    pub reserved: u8,
    /// High nibble of byte 15.
    pub reason: NcfReason,
    /// Low nibble of byte 15: 0 selective, 1 parity.
    pub format: u8,
    /// The numbers the NAK named.
    pub numbers: SqnList<'a>,
    /// Bytes after the list; skipped.
    pub trailer: &'a [u8],
}

impl<'a> Ncf<'a> {
    fn read(session: SessionHeader, mut r: Reader<'a>) -> Result<Ncf<'a>, WireError> {
        r.part(Part::Ncf);
        let (trail_sqn, count, reserved, byte) = (Sqn(r.u32()?), r.u16()?, r.u8()?, r.u8()?);
        let numbers = SqnList::read(&mut r, count)?;
        let (reason, format) = (NcfReason::from_code(byte >> 4), byte & 0xF);
        Ok(Ncf { session, trail_sqn, reserved, reason, format, numbers, trailer: r.rest() })
    }

    /// Appends a selective NCF for `numbers` to `out`; at most 65,535 of them.
    pub fn emit(
        session: SessionHeader,
        trail_sqn: Sqn,
        reason: NcfReason,
        numbers: &[Sqn],
        out: &mut Vec<u8>,
    ) {
        let byte = reason.code() << 4;
        Ncf::emit_header(session, trail_sqn, list_count(numbers), 0, byte, out);
        emit_list(numbers, out);
    }

    /// Appends the header alone; `reason_format` is the last byte as it goes on the wire.
    pub fn emit_header(
        session: SessionHeader,
        trail_sqn: Sqn,
        count: u16,
        reserved: u8,
        reason_format: u8,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(&header(TYPE_NCF, session));
        out.extend_from_slice(&trail_sqn.0.to_be_bytes());
        out.extend_from_slice(&count.to_be_bytes());
        out.extend_from_slice(&[reserved, reason_format]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::damaged;

    const SESSION: SessionHeader = SessionHeader { ucast_port: 14391, session_id: 0x5eed_1234 };

    fn nak(numbers: &[Sqn]) -> Vec<u8> {
        let mut out = Vec::new();
        Nak::emit(SESSION, numbers, &mut out);
        out
    }

    #[test]
    fn every_shorter_datagram_is_refused_as_truncated() {
        let mut sm = Vec::new();
        SessionMessage::new(SESSION, 7, Sqn(9), Sqn(3)).emit(&mut sm);
        let mut data = [0; DATA_HEADER_LEN];
        Data::new(SESSION, Sqn(9), Sqn(3)).emit_header(&mut data);
        for whole in [nak(&[Sqn(1), Sqn(2)]), sm, data.to_vec()] {
            assert!(Packet::parse(&whole).is_ok());
            for cut in 0..whole.len() {
                let result = Packet::parse(&whole[..cut]);
                assert!(matches!(result, Err(WireError::Truncated { .. })), "{cut}: {result:?}");
            }
        }
    }

    #[test]
    fn what_is_read_at_once_is_what_is_read_field_by_field() {
        let mut header = [0; DATA_HEADER_LEN];
        Data { tgsz: 3, fec_symbol: 0x102, ..Data::new(SESSION, Sqn(9), Sqn(3)) }.emit_header(&mut header);
        assert!(Packet::data(&header).is_some());
        for datagram in damaged(&[&header[..], b"messages"].concat()) {
            if let Some(packet) = Packet::data(&datagram) {
                assert_eq!(Packet::parse_any(&datagram), Ok(packet), "{datagram:02x?}");
            }
        }
    }

    #[test]
    fn a_trailing_edge_beyond_the_datagram_is_refused() {
        let mut data = [0; DATA_HEADER_LEN];
        Data::new(SESSION, Sqn(u32::MAX), Sqn(0)).emit_header(&mut data);
        let refused = WireError::Inconsistent { part: Part::LbtrmData, found: 0, limit: u32::MAX };
        assert_eq!(Packet::parse(&data), Err(refused));
        Data::new(SESSION, Sqn(0), Sqn(u32::MAX)).emit_header(&mut data);
        assert!(Packet::parse(&data).is_ok(), "the trailing edge may lie before the wrap");
    }

    #[test]
    fn other_versions_types_and_option_headers_are_refused() {
        let good = nak(&[]);
        for (at, value) in [(0, 0x13), (0, 0x01), (0, 0x05), (0, 0x0F), (1, 1)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(matches!(Packet::parse(&bad), Err(WireError::Unsupported { .. })), "{at} {value}");
        }
    }
}
