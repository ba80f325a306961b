use rwf::{DataType, ElementListWriter};

use super::ItemKey;
use crate::element::PutElement;
use crate::{Element, Part, RdmError};

/// What a request is about.
///
/// Shape of a batch: element `:ItemList`, an array of names, or `:StreamIdList`, an array of `Int`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// One item.
    Item(ItemKey<'a>),
    /// Several items, which get the stream ids that follow the batch's own, in this order.
    Items {
        /// What the keys have in common: the service, and rarely more. Its name is empty.
        common: ItemKey<'a>,
        /// The names. An empty one takes a stream id as well, and is to be refused.
        names: Vec<&'a [u8]>,
    },
    /// Several open streams that are asked for again.
    Streams(Vec<i32>),
}

impl<'a> Target<'a> {
    /// The keys with their stream ids; none for [`Target::Streams`].
    ///
    /// That the ids do not overflow was checked when the batch was read; one that is built with ids past the
    /// end of their range ends there.
    pub fn keys(&self, stream_id: i32) -> impl Iterator<Item = (i32, ItemKey<'a>)> + '_ {
        let (single, common, names) = match self {
            Target::Item(key) => (Some((stream_id, *key)), ItemKey::default(), &[][..]),
            Target::Items { common, names } => (None, *common, &names[..]),
            Target::Streams(_) => (None, ItemKey::default(), &[][..]),
        };
        let followers = (stream_id..=i32::MAX).skip(1);
        single.into_iter().chain(followers.zip(names).map(move |(id, name)| (id, ItemKey { name, ..common })))
    }

    pub(super) fn put(&self, e: &mut ElementListWriter<'_, '_, '_>) {
        match self {
            Target::Item(_) => {}
            Target::Items { names, .. } => {
                e.list(Element::BatchItemList, names.iter().map(|name| rwf::AsciiString(name)));
            }
            Target::Streams(ids) => put_stream_ids(e, ids),
        }
    }

    pub(super) fn is_batch(&self) -> bool {
        !matches!(self, Target::Item(_))
    }
}

pub(super) fn put_stream_ids(e: &mut ElementListWriter<'_, '_, '_>, ids: &[i32]) {
    e.array(Element::StreamIdList.name(), DataType::INT, 0, |items| {
        ids.iter().for_each(|id| items.put(i64::from(*id)));
    });
}

/// Checks that there are as many stream ids behind the batch's own as it has items.
pub(super) fn check_stream_ids(stream_id: i32, count: usize) -> Result<(), RdmError> {
    let last = i64::from(stream_id) + count as i64;
    let max = i32::MAX as u64;
    if last <= i64::from(i32::MAX) {
        Ok(())
    } else {
        Err(RdmError::OutOfRange { part: Part::StreamId, value: last as u64, max })
    }
}

/// Checks that each name can stand in a key of its own.
pub(super) fn check_names(names: &[&[u8]]) -> Result<(), RdmError> {
    let max = u8::MAX.into();
    match names.iter().map(|name| name.len() as u64).find(|length| *length > max) {
        Some(value) => Err(RdmError::OutOfRange { part: Element::BatchItemList.into(), value, max }),
        None => Ok(()),
    }
}
