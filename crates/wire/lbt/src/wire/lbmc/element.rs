use super::super::Reader;
use super::NEXT_NONE;
use crate::error::WireError;

/// Number of the element that carries a hot failover number.
const FAILOVER_NUMBER: u8 = 0x02;
/// Bytes of `next u8, len u8, reserved u16`, with which every element begins.
const PREFIX_LEN: usize = 4;
/// Bytes of the element made by [`failover_element`].
pub const FAILOVER_NUMBER_LEN: usize = PREFIX_LEN + 8;

/// The elements of a chain header: `next u8, len u8, reserved u16, data` each. The number of an element
/// stands in the one before it; `len` counts from `next`. Checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements<'a> {
    first: u8,
    bytes: &'a [u8],
}

/// One element of a chain header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// 1 channel number, 2 hot failover number, 4 application header, 5 user data, 6 length of properties.
    pub kind: u8,
    /// One byte at least.
    pub data: &'a [u8],
}

impl<'a> Elements<'a> {
    /// Elements that were written one after another, of which the first has number `first`.
    #[must_use]
    pub fn written(first: u8, bytes: &'a [u8]) -> Elements<'a> {
        Elements { first, bytes }
    }

    pub(super) fn read(r: &mut Reader<'a>) -> Result<Elements<'a>, WireError> {
        let (_reserved, first, bytes) = (r.u8()?, r.u8()?, r.rest());
        let mut kind = first;
        while kind != NEXT_NONE {
            (_, kind) = read_element(kind, r)?;
        }
        Ok(Elements { first, bytes: &bytes[..bytes.len() - r.left()] })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0, self.first]);
        out.extend_from_slice(self.bytes);
    }

    /// The elements in their order.
    pub fn iter(&self) -> impl Iterator<Item = Element<'a>> + use<'a> {
        let (mut kind, mut r) = (self.first, Reader::new(self.bytes, crate::error::Part::LbmcHeader));
        std::iter::from_fn(move || {
            if kind == NEXT_NONE {
                return None;
            }
            // They were checked when the header was read, or have just been written.
            let (element, next) = read_element(kind, &mut r).ok()?;
            kind = next;
            Some(element)
        })
    }

    /// The hot failover number, of four or eight bytes.
    #[must_use]
    pub fn failover_number(&self) -> Option<u64> {
        let data = self.iter().find(|e| e.kind == FAILOVER_NUMBER)?.data;
        match (data.first_chunk::<8>(), data.first_chunk::<4>()) {
            (Some(&long), _) if data.len() == 8 => Some(u64::from_be_bytes(long)),
            (_, Some(&short)) if data.len() == 4 => Some(u32::from_be_bytes(short).into()),
            _ => None,
        }
    }
}

/// The next element, and the number of the one after it.
fn read_element<'a>(kind: u8, r: &mut Reader<'a>) -> Result<(Element<'a>, u8), WireError> {
    let at = r.at();
    let (next, len, _reserved) = (r.u8()?, usize::from(r.u8()?), r.u16()?);
    if len <= PREFIX_LEN {
        let part = crate::error::Part::LbmcHeader;
        return Err(WireError::BadLength { part, at, found: len, limit: PREFIX_LEN + 1 });
    }
    Ok((Element { kind, data: r.take(len - PREFIX_LEN)? }, next))
}

/// The one element of a chain header that says a message's hot failover number, for
/// [`Header::Chain`](super::Header::Chain).
#[must_use]
pub fn failover_element(number: u64, bytes: &mut [u8; FAILOVER_NUMBER_LEN]) -> Elements<'_> {
    bytes[..PREFIX_LEN].copy_from_slice(&[NEXT_NONE, FAILOVER_NUMBER_LEN as u8, 0, 0]);
    bytes[PREFIX_LEN..].copy_from_slice(&number.to_be_bytes());
    Elements::written(FAILOVER_NUMBER, bytes)
}

#[cfg(test)]
mod tests {
    use super::super::{Chain, Header, Kind, Message, emit_message};
    use super::*;
    use units::Sqn;

    fn with(elements: Elements<'_>) -> Vec<u8> {
        let mut chain = Chain::default();
        chain.push(&Header::Chain { elements });
        let mut out = Vec::new();
        emit_message(&mut out, Kind::Message, Some((1, Sqn(2))), &chain, Some(b"data"));
        out
    }

    fn number_of(bytes: &[u8]) -> Option<u64> {
        let message = Message::parse(bytes, 0).expect("well-formed");
        message.headers.failover_number()
    }

    #[test]
    fn a_failover_number_reads_back_in_both_of_its_lengths() {
        let mut room = [0; FAILOVER_NUMBER_LEN];
        let long = with(failover_element(0x0102_0304_0506_0708, &mut room));
        assert_eq!(number_of(&long), Some(0x0102_0304_0506_0708));
        let short = with(Elements::written(FAILOVER_NUMBER, &[NEXT_NONE, 8, 0, 0, 0, 0, 0, 77]));
        assert_eq!(number_of(&short), Some(77));
    }

    #[test]
    fn the_number_is_found_behind_other_elements_and_its_absence_is_seen() {
        let two = [FAILOVER_NUMBER, 5, 0, 0, 9, NEXT_NONE, 8, 0, 0, 0, 0, 0, 3];
        assert_eq!(number_of(&with(Elements::written(1, &two))), Some(3));
        assert_eq!(number_of(&with(Elements::written(1, &[NEXT_NONE, 5, 0, 0, 9]))), None);
        let odd = [NEXT_NONE, 7, 0, 0, 1, 2, 3];
        assert_eq!(number_of(&with(Elements::written(FAILOVER_NUMBER, &odd))), None, "of three bytes");
    }

    #[test]
    fn an_element_without_data_or_past_its_header_is_refused() {
        for bad in
            [&[NEXT_NONE, 4, 0, 0][..], &[NEXT_NONE, 0, 0, 0], &[NEXT_NONE, 9, 0, 0, 1], &[1, 5, 0, 0, 1]]
        {
            let bytes = with(Elements::written(2, bad));
            assert!(Message::parse(&bytes, 0).is_err(), "{bad:?}");
        }
    }
}
