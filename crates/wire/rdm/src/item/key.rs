use rwf::{Attributes, Key};

use crate::{Part, RdmError};

/// The name type that an absent one stands for.
pub const RIC: u8 = 1;

/// What names an item: service and name, and rarely more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct ItemKey<'a> {
    /// The service.
    pub service_id: u16,
    /// The name, at most 255 bytes.
    pub name: &'a [u8],
    /// What kind of name it is; absent it is [`RIC`].
    pub name_type: Option<u8>,
    /// What the domain makes of it.
    pub filter: Option<u32>,
    /// What the domain makes of it.
    pub identifier: Option<i32>,
    /// What the domain makes of it.
    pub attributes: Option<Attributes<'a>>,
}

impl<'a> ItemKey<'a> {
    /// A key of service and name.
    #[must_use]
    pub const fn new(service_id: u16, name: &'a [u8]) -> ItemKey<'a> {
        ItemKey { service_id, name, name_type: None, filter: None, identifier: None, attributes: None }
    }

    /// The key if it names an item.
    ///
    /// # Errors
    /// [`RdmError::Missing`] without a service id or without a name.
    pub fn parse(key: &Key<'a>) -> Result<ItemKey<'a>, RdmError> {
        Ok(ItemKey {
            service_id: service_id(key)?,
            name: key.name.filter(|name| !name.is_empty()).ok_or(RdmError::Missing { part: Part::Name })?,
            name_type: key.name_type,
            filter: key.filter,
            identifier: key.identifier,
            attributes: key.attributes,
        })
    }

    /// Whether both name the same item: an absent name type is [`RIC`].
    #[must_use]
    pub fn same_item(&self, other: &ItemKey<'_>) -> bool {
        let parts = |key: &ItemKey<'_>| (key.service_id, key.filter, key.identifier);
        let name_type = |key: &ItemKey<'_>| key.name_type.unwrap_or(RIC);
        parts(self) == parts(other)
            && self.name == other.name
            && name_type(self) == name_type(other)
            && self.attributes == other.attributes
    }
}

/// The service id that a request must have.
pub(super) fn service_id(key: &Key<'_>) -> Result<u16, RdmError> {
    key.service_id.ok_or(RdmError::Missing { part: Part::ServiceId })
}

impl<'a> From<ItemKey<'a>> for Key<'a> {
    fn from(item: ItemKey<'a>) -> Key<'a> {
        Key {
            service_id: Some(item.service_id),
            name: Some(item.name),
            name_type: item.name_type,
            filter: item.filter,
            identifier: item.identifier,
            attributes: item.attributes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_must_have_service_and_name() {
        let whole = Key::item(1, b"A");
        assert_eq!(ItemKey::parse(&whole), Ok(ItemKey::new(1, b"A")));
        assert_eq!(Key::from(ItemKey::new(1, b"A")), whole);
        let nameless = Err(RdmError::Missing { part: Part::Name });
        assert_eq!(ItemKey::parse(&Key { name: None, ..whole }), nameless);
        assert_eq!(ItemKey::parse(&Key { name: Some(b""), ..whole }), nameless);
        let homeless = Key { service_id: None, ..whole };
        assert_eq!(ItemKey::parse(&homeless), Err(RdmError::Missing { part: Part::ServiceId }));
    }

    #[test]
    fn an_absent_name_type_is_a_ric() {
        let (absent, other) =
            (ItemKey::new(1, b"A"), ItemKey { name_type: Some(2), ..ItemKey::new(1, b"A") });
        assert!(absent.same_item(&ItemKey { name_type: Some(RIC), ..absent }));
        assert!(!absent.same_item(&other));
        assert!(!absent.same_item(&ItemKey::new(2, b"A")));
    }
}
