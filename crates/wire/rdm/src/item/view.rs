use std::sync::Arc;

use rwf::{DataType, Decode, ElementListWriter};

use crate::element::{KnownElement, PutElement};
use crate::{Element, RdmError};

/// The part of an item that a consumer wants to see. The items of a batch share one.
///
/// Shape: elements `:ViewType` `UInt` and `:ViewData`, for 1 an array of `Int` field ids, for 2 an array of
/// element names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View<'a> {
    /// These fields.
    Fields(Arc<[i16]>),
    /// The elements of these names.
    Elements(Arc<[&'a [u8]]>),
}

const FIELD_IDS: u64 = 1;
const ELEMENT_NAMES: u64 = 2;

impl<'a> View<'a> {
    /// Makes a view of the two elements.
    pub(super) fn of(view_type: Option<u64>, data: Option<&KnownElement<'a>>) -> Result<View<'a>, RdmError> {
        let view_type = view_type.ok_or(RdmError::Missing { part: Element::ViewType.into() })?;
        let data = data.ok_or(RdmError::Missing { part: Element::ViewData.into() });
        match view_type {
            FIELD_IDS => Ok(View::Fields(field_ids(data?)?.into())),
            ELEMENT_NAMES => Ok(View::Elements(names(data?)?.into())),
            view_type => Err(RdmError::UnsupportedViewType { view_type }),
        }
    }

    pub(super) fn put(&self, e: &mut ElementListWriter<'_, '_, '_>) {
        match self {
            View::Fields(ids) => {
                e.element(Element::ViewType, FIELD_IDS);
                e.array(Element::ViewData.name(), DataType::INT, FIELD_ID_BYTES, |items| {
                    ids.iter().for_each(|id| items.put(i64::from(*id)));
                });
            }
            View::Elements(names) => {
                e.element(Element::ViewType, ELEMENT_NAMES);
                e.list(Element::ViewData, names.iter().map(|name| rwf::AsciiString(name)));
            }
        }
    }
}

/// Field ids have a fixed width in the array, as the libraries write them.
const FIELD_ID_BYTES: u16 = 2;

fn field_ids(data: &KnownElement<'_>) -> Result<Vec<i16>, RdmError> {
    let ids = data.ints()?.ok_or(RdmError::Missing { part: data.part() })?;
    ids.into_iter().map(|id| data.narrow(id, i16::MAX as u64)).collect()
}

/// The items of an array of names, blanks as empty names.
pub(super) fn names<'a>(data: &KnownElement<'a>) -> Result<Vec<&'a [u8]>, RdmError> {
    let (found, items) = data.items()?.ok_or(RdmError::Missing { part: data.part() })?;
    match found {
        DataType::ASCII_STRING | DataType::UTF8_STRING | DataType::RMTES_STRING => {
            items.map(|item| item.map_err(RdmError::from)).collect()
        }
        _ => Err(RdmError::WrongType { part: data.part(), found, wanted: DataType::ASCII_STRING }),
    }
}

/// The items of an array of stream ids.
pub(super) fn stream_ids(data: &KnownElement<'_>) -> Result<Vec<i32>, RdmError> {
    let (found, items) = data.items()?.ok_or(RdmError::Missing { part: data.part() })?;
    if found != DataType::INT {
        return Err(RdmError::WrongType { part: data.part(), found, wanted: DataType::INT });
    }
    let missing = RdmError::Missing { part: data.part() };
    items.map(|item| data.narrow(i64::decode(item?)?.ok_or(missing)?, i32::MAX as u64)).collect()
}
