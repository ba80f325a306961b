use rwf::{CloseMsg, DataType, Domain, EncodeError, encode_to_vec};

use super::batch::put_stream_ids;
use super::require_items;
use super::view::stream_ids;
use crate::element::known_elements;
use crate::message::ToVec;
use crate::{Element, Part, RdmError};

/// Ends item streams, from the consumer's side. There is no answer, unless an ack is wanted.
///
/// Shape: close; for a batch a payload element list with `:StreamIdList`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemClose {
    /// The domain.
    pub domain: Domain,
    /// The stream of the message.
    pub stream_id: i32,
    /// An ack is wanted.
    pub ack: bool,
    /// The streams to end.
    pub target: CloseTarget,
}

/// Which streams a close ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseTarget {
    /// The stream of the message.
    Stream,
    /// These.
    Streams(Vec<i32>),
}

impl ItemClose {
    /// Ends one stream.
    #[must_use]
    pub const fn stream(domain: Domain, stream_id: i32) -> ItemClose {
        ItemClose { domain, stream_id, ack: false, target: CloseTarget::Stream }
    }

    /// Reads a close. One with a list of streams ends these even if the flag of a batch is not set: the vendor's
    /// JSON converter does not set it.
    ///
    /// # Errors
    /// [`RdmError::NotAnItemDomain`]; what is wrong with the list of a batch.
    pub fn parse(msg: &CloseMsg<'_>) -> Result<ItemClose, RdmError> {
        require_items(msg.domain)?;
        let listed = if msg.batch { Some(batch(msg)?) } else { batch(msg).ok() };
        let target = listed.map_or(CloseTarget::Stream, CloseTarget::Streams);
        Ok(ItemClose { domain: msg.domain, stream_id: msg.stream_id, ack: msg.ack, target })
    }

    /// The streams to end.
    pub fn streams(&self) -> impl Iterator<Item = i32> + '_ {
        let (single, many) = match &self.target {
            CloseTarget::Stream => (Some(self.stream_id), &[][..]),
            CloseTarget::Streams(ids) => (None, &ids[..]),
        };
        single.into_iter().chain(many.iter().copied())
    }
}

fn batch(msg: &CloseMsg<'_>) -> Result<Vec<i32>, RdmError> {
    if msg.container_type != DataType::ELEMENT_LIST {
        let (found, wanted) = (msg.container_type, DataType::ELEMENT_LIST);
        return Err(RdmError::WrongType { part: Part::Payload, found, wanted });
    }
    let mut ids = None;
    for element in known_elements(msg.payload, None)? {
        let e = element?;
        if e.element == Element::StreamIdList {
            ids = Some(stream_ids(&e)?);
        }
    }
    ids.ok_or(RdmError::Missing { part: Element::StreamIdList.into() })
}

impl ToVec for ItemClose {
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        let ids = match &self.target {
            CloseTarget::Stream => None,
            CloseTarget::Streams(ids) => Some(ids),
        };
        let container_type = if ids.is_some() { DataType::ELEMENT_LIST } else { DataType::NO_DATA };
        let msg = CloseMsg {
            ack: self.ack,
            batch: ids.is_some(),
            ..CloseMsg::new(self.domain, self.stream_id, container_type)
        };
        encode_to_vec(|w| {
            msg.encode_header(w);
            if let Some(ids) = ids {
                w.element_list(|e| put_stream_ids(e, ids));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_ends_its_own_stream_or_those_it_names() {
        let one = ItemClose::stream(Domain::MARKET_PRICE, 5);
        let target = CloseTarget::Streams(vec![5, -6, i32::MAX]);
        let many = ItemClose { ack: true, target, ..ItemClose::stream(Domain::MARKET_PRICE, 20) };
        for close in [&one, &many] {
            let bytes = close.to_vec().expect("legal");
            assert_eq!(ItemClose::parse(&CloseMsg::parse(&bytes).expect("whole")).as_ref(), Ok(close));
        }
        assert_eq!(one.streams().collect::<Vec<_>>(), [5]);
        assert_eq!(many.streams().collect::<Vec<_>>(), [5, -6, i32::MAX]);
    }

    #[test]
    fn a_list_of_streams_counts_without_the_flag_too() {
        let target = CloseTarget::Streams(vec![5, 6]);
        let close = ItemClose { target, ..ItemClose::stream(Domain::MARKET_PRICE, 5) };
        let bytes = close.to_vec().expect("legal");
        let unflagged = CloseMsg { batch: false, ..CloseMsg::parse(&bytes).expect("whole") };
        assert_eq!(ItemClose::parse(&unflagged), Ok(close));
    }

    #[test]
    fn a_batch_without_its_list_is_refused() {
        let empty = CloseMsg { batch: true, ..CloseMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA) };
        let wrong = RdmError::WrongType {
            part: Part::Payload,
            found: DataType::NO_DATA,
            wanted: DataType::ELEMENT_LIST,
        };
        assert_eq!(ItemClose::parse(&empty), Err(wrong));
        let list = CloseMsg { container_type: DataType::ELEMENT_LIST, payload: &[0], ..empty };
        let missing = RdmError::Missing { part: Element::StreamIdList.into() };
        assert_eq!(ItemClose::parse(&list), Err(missing));
        assert_eq!(missing.state_code(), rwf::StateCode::UNABLE_TO_REQUEST_AS_BATCH);
    }
}
