use rwf::{AsciiString, DataType, DecodeError, EncodeError, Map, MapAction, MapHead, encode_to_vec};

use crate::{Part, RdmError};

/// One name in a symbol list, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// It is in the list, has changed, or is no longer in it.
    pub action: MapAction,
    /// The name of an item of the same service.
    pub name: &'a [u8],
    /// More about the item, of the list's container type; `None` where that is `NO_DATA`, and for a delete.
    pub data: Option<&'a [u8]>,
}

/// The names in the payload of a symbol list's refresh or update.
///
/// Shape: map, key `AsciiString` or `Buffer`, of field lists or nothing.
///
/// # Errors
/// [`RdmError::WrongType`] for another container, or keys that are no names; the iterator's items for what is
/// wrong behind the head.
pub fn symbols<'a>(
    container_type: DataType,
    payload: &'a [u8],
) -> Result<impl Iterator<Item = Result<Symbol<'a>, DecodeError>>, RdmError> {
    if container_type != DataType::MAP {
        let (found, wanted) = (container_type, DataType::MAP);
        return Err(RdmError::WrongType { part: Part::Payload, found, wanted });
    }
    let map = Map::parse(payload)?;
    match map.key_type {
        DataType::ASCII_STRING | DataType::BUFFER => {}
        found => return Err(RdmError::WrongType { part: Part::Name, found, wanted: DataType::ASCII_STRING }),
    }
    Ok(map.entries().map(|entry| {
        let entry = entry?;
        Ok(Symbol { action: entry.action, name: entry.key, data: entry.data })
    }))
}

/// The payload of a symbol list that has names only.
///
/// # Errors
/// [`EncodeError`] for an empty name, or more than 65535 names.
pub fn encode_symbols<'a>(
    symbols: impl IntoIterator<Item = (MapAction, &'a [u8])> + Clone,
) -> Result<Vec<u8>, EncodeError> {
    encode_to_vec(|w| {
        w.map(&MapHead::new(DataType::ASCII_STRING, DataType::NO_DATA), |map| {
            for (action, name) in symbols.clone() {
                // The empty string is the blank, which no key may be.
                let name = Some(AsciiString(name)).filter(|name| !name.0.is_empty());
                map.entry(action, name, None, |_| ());
            }
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_with_what_becomes_of_them() {
        let said = [(MapAction::Add, &b"A"[..]), (MapAction::Delete, b"B")];
        let payload = encode_symbols(said).expect("legal");
        let back = symbols(DataType::MAP, &payload).expect("legal").collect::<Result<Vec<_>, _>>();
        let wanted = said.map(|(action, name)| Symbol { action, name, data: None });
        assert_eq!(back.as_deref(), Ok(&wanted[..]));
    }

    #[test]
    fn another_container_other_keys_and_empty_names_are_refused() {
        assert!(matches!(
            symbols(DataType::FIELD_LIST, &[0]).map(Iterator::count),
            Err(RdmError::WrongType { part: Part::Payload, .. })
        ));
        let by_number = encode_to_vec(|w| {
            w.map(&MapHead::new(DataType::UINT, DataType::NO_DATA), |map| map.delete(1u64));
        });
        assert!(matches!(
            symbols(DataType::MAP, &by_number.expect("legal")).map(Iterator::count),
            Err(RdmError::WrongType { part: Part::Name, .. })
        ));
        let nameless = encode_symbols([(MapAction::Add, &b""[..])]);
        assert_eq!(nameless, Err(EncodeError::Blank { place: rwf::Place::MapKey }));
    }
}
