//! Fields of our own, where the dissectors of the family accept them.
//!
//! An extension is one LBMC control message with one EXTOPT header, in a DATA datagram among its messages,
//! in a session message, NAK or NCF as trailer. Others skip it. The subtypes in use and their layouts are in
//! `docs/protocol/extensions.md`.
//!
//! ```text
//!  0  08 FE len u16          control message, EXTOPT follows
//!  4  FF len u8              nothing follows; the header's length
//!  6  C0 00                  may be ignored, subtype may be ignored; id 0
//!  8  subtype u16
//! 10  offset u16             0: extensions are not cut
//! 12  data, at most 247 bytes
//! ```

use super::lbmc::{CONTROL_HEADER_LEN, Header, Kind, Messages};

/// Bytes before the data.
pub const EXTENSION_HEADER_LEN: usize = 12;
/// Most bytes of data: the length of the EXTOPT header is one byte.
pub const EXTENSION_DATA_MAX: usize = 247;

/// A keyed code over the datagram it ends: see [`crate::authentication`].
pub const SUBTYPE_AUTHENTICATION: u16 = 0x5401;
/// What a source says for congestion control, with its session messages: see [`crate::congestion`].
pub const SUBTYPE_PULSE: u16 = 0x5402;
/// What a receiver reports for congestion control, with a NAK of no numbers: see [`crate::congestion`].
pub const SUBTYPE_REPORT: u16 = 0x5403;
/// Which run of its source a datagram is of: see [`crate::session::RunId`].
pub const SUBTYPE_RUN: u16 = 0x5404;
/// The messages of a datagram, encrypted: see [`crate::encryption`].
pub const SUBTYPE_ENCRYPTION: u16 = 0x5405;
/// A receiver of LBT-RU leaves, with an ACK: it has all it wants of the session.
pub const SUBTYPE_LEAVE: u16 = 0x5406;
/// A source asks who receives topics, with a session message or in its stream: see [`crate::presence`].
pub const SUBTYPE_QUERY: u16 = 0x5407;
/// A receiver answers that it does, with a NAK of no numbers or on its connection: see [`crate::presence`].
pub const SUBTYPE_PRESENCE: u16 = 0x5408;

const FLAGS_MAY_BE_IGNORED: u8 = 0xC0;
const EXTOPT: u8 = 0xFE;
const NOTHING_FOLLOWS: u8 = 0xFF;
const TEXT_FOLLOWS: u8 = 0;

/// The bytes before `len` bytes of data.
///
/// # Panics
/// In debug builds, if `len` is above [`EXTENSION_DATA_MAX`].
#[must_use]
pub fn extension_header(subtype: u16, len: usize) -> [u8; EXTENSION_HEADER_LEN] {
    debug_assert!(len <= EXTENSION_DATA_MAX, "{len} bytes in one extension");
    let [m0, m1] = ((EXTENSION_HEADER_LEN + len) as u16).to_be_bytes();
    let header_len = (EXTENSION_HEADER_LEN - CONTROL_HEADER_LEN + len) as u8;
    let [s0, s1] = subtype.to_be_bytes();
    let kind = Kind::Control.code();
    [kind, EXTOPT, m0, m1, NOTHING_FOLLOWS, header_len, FLAGS_MAY_BE_IGNORED, 0, s0, s1, 0, 0]
}

/// The bytes before `len` bytes of data of an extension with a text behind it: a message of `whole` bytes in all.
#[must_use]
pub(crate) fn text_header(subtype: u16, len: usize, whole: usize) -> [u8; EXTENSION_HEADER_LEN] {
    let mut header = extension_header(subtype, len);
    header[2..4].copy_from_slice(&(whole as u16).to_be_bytes());
    header[4] = TEXT_FOLLOWS;
    header
}

/// Appends an extension.
pub fn emit_extension(out: &mut Vec<u8>, subtype: u16, data: &[u8]) {
    out.extend_from_slice(&extension_header(subtype, data.len()));
    out.extend_from_slice(data);
}

/// The data of the first extension of a subtype in a trailer; `None` if there is none, or if what comes
/// before it is not well-formed.
#[must_use]
pub fn find_extension(trailer: &[u8], subtype: u16) -> Option<&[u8]> {
    let messages = Messages::new(trailer).map_while(Result::ok);
    messages.filter(|m| m.kind == Kind::Control).find_map(|m| match m.headers.iter().next() {
        Some(Header::ExtOpt { subtype: found, offset: 0, data, .. }) if found == subtype => Some(data),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::lbmc;
    use super::*;

    #[test]
    fn an_extension_is_a_well_formed_control_message_and_reads_back() {
        for len in [0, 1, 16, EXTENSION_DATA_MAX] {
            let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut out = Vec::new();
            emit_extension(&mut out, SUBTYPE_PULSE, b"before");
            emit_extension(&mut out, SUBTYPE_REPORT, &data);
            assert_eq!(lbmc::check(&out), Ok(2), "{len}");
            assert_eq!(find_extension(&out, SUBTYPE_REPORT), Some(&data[..]));
            assert_eq!(find_extension(&out, SUBTYPE_AUTHENTICATION), None);
        }
    }

    #[test]
    fn a_trailer_of_anything_is_searched_without_harm() {
        assert_eq!(find_extension(&[], SUBTYPE_REPORT), None);
        assert_eq!(find_extension(&[8, 0xFE, 0, 200, 1, 2, 3], SUBTYPE_REPORT), None);
        let mut cut = Vec::new();
        emit_extension(&mut cut, SUBTYPE_REPORT, &[0; 20]);
        for len in 0..cut.len() {
            assert_eq!(find_extension(&cut[..len], SUBTYPE_REPORT), None, "{len}");
        }
    }
}
