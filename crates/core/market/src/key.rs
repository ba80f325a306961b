//! The key of an item: service, domain, name, and what else of a message key tells items apart.

use std::fmt;

use rdm::item::RIC;
use rwf::{Attributes, DataType, DecodeError, Domain, Key, Place};

/// Which item, in the whole system: one name may exist in several domains of a service, and stand for several
/// items with other parts of a key.
///
/// Keys are equal if they name the same item: every part counts, attributes byte by byte. A name type of
/// [`RIC`] is left out, since an absent one means the same; filter and identifier have no such default.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ItemKey<'a> {
    /// The service's id.
    pub service: u16,
    /// The domain.
    pub domain: Domain,
    /// The name, at most 255 bytes.
    pub name: &'a [u8],
    more: Parts<'a>,
}

/// What few keys have besides a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Parts<'a> {
    name_type: Option<u8>,
    filter: Option<u32>,
    identifier: Option<i32>,
    attributes: Option<Attributes<'a>>,
}

/// The longest attributes that an item's key may have. RWF has room for 32,767 bytes, which each client could
/// make a server keep for every stream it opens.
pub const KEY_ATTRIBUTES_BYTES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 255;
/// Flags, name type, filter, identifier, type of the attributes.
const PARTS_BYTES_MAX: usize = 1 + 1 + 4 + 4 + 1;

impl<'a> ItemKey<'a> {
    /// The key of an item that is told apart by its name alone, as nearly all are. A name longer than 255
    /// bytes, which RWF does not have, is cut.
    #[must_use]
    pub fn named(service: u16, domain: Domain, name: &'a [u8]) -> ItemKey<'a> {
        let name = &name[..name.len().min(NAME_BYTES_MAX)];
        ItemKey { service, domain, name, more: Parts::default() }
    }

    /// The item that a message key names within a service; the service in the key is somebody else's number
    /// for it. Without a name, the name is empty.
    ///
    /// # Errors
    /// [`DecodeError::BadLength`] for attributes longer than [`KEY_ATTRIBUTES_BYTES_MAX`].
    pub fn of(service: u16, domain: Domain, key: &Key<'a>) -> Result<ItemKey<'a>, DecodeError> {
        let attributes_bytes = key.attributes.map_or(0, |attributes| attributes.data.len());
        if attributes_bytes > KEY_ATTRIBUTES_BYTES_MAX {
            let (length, max) = (attributes_bytes as u32, KEY_ATTRIBUTES_BYTES_MAX as u32);
            return Err(DecodeError::BadLength { place: Place::KeyAttributes, length, max });
        }
        let more = Parts {
            name_type: key.name_type.filter(|name_type| *name_type != RIC),
            filter: key.filter,
            identifier: key.identifier,
            attributes: key.attributes,
        };
        Ok(ItemKey { more, ..ItemKey::named(service, domain, key.name.unwrap_or_default()) })
    }

    /// The key as messages have it.
    #[must_use]
    pub fn to_key(&self) -> Key<'a> {
        let Parts { name_type, filter, identifier, attributes } = self.more;
        let (service_id, name) = (Some(self.service), Some(self.name));
        Key { service_id, name, name_type, filter, identifier, attributes }
    }

    /// Whether service, domain and name are all there is.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.more == Parts::default()
    }

    /// Whether a request on the stream of this item can mean it: a part that it leaves out is as it was.
    #[must_use]
    pub fn is_meant_by(&self, asked: &ItemKey<'_>) -> bool {
        let (ours, theirs) = (&self.more, &asked.more);
        (self.service, self.domain, self.name) == (asked.service, asked.domain, asked.name)
            && theirs.name_type.is_none_or(|name_type| ours.name_type == Some(name_type))
            && theirs.filter.is_none_or(|filter| ours.filter == Some(filter))
            && theirs.identifier.is_none_or(|identifier| ours.identifier == Some(identifier))
            && theirs.attributes.is_none_or(|attributes| ours.attributes == Some(attributes))
    }

    /// The key of an item that is the same but for its service and name.
    #[must_use]
    pub fn renamed<'b>(&self, service: u16, name: &'b [u8]) -> ItemKey<'b>
    where
        'a: 'b,
    {
        ItemKey { more: self.more, ..ItemKey::named(service, self.domain, name) }
    }

    /// The key as bytes, to be looked up by: those of different items differ.
    ///
    /// Shape: service `u16`, domain `u8`, name behind its length `u8`, and nothing more for a plain key; else
    /// flags `u8`, the parts that these name, the data of the attributes.
    pub fn with_bytes<R>(&self, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
        let mut room = [0; 4 + NAME_BYTES_MAX + PARTS_BYTES_MAX];
        let mut len = 0;
        let mut put = |bytes: &[u8]| {
            room[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        };
        put(&self.service.to_be_bytes());
        put(&[self.domain.0, self.name.len() as u8]);
        put(self.name);
        if !self.is_plain() {
            self.more.put(&mut put);
        }
        match self.more.attributes {
            Some(attributes) => use_bytes(&[&room[..len], attributes.data].concat()),
            None => use_bytes(&room[..len]),
        }
    }

    /// An owned copy.
    #[must_use]
    pub fn to_owned(&self) -> OwnedKey {
        let more = (!self.is_plain()).then(|| Box::new(self.more.to_owned()));
        OwnedKey { service: self.service, domain: self.domain, name: self.name.into(), more }
    }
}

impl Parts<'_> {
    fn put(&self, put: &mut impl FnMut(&[u8])) {
        let is_there = [
            self.name_type.is_some(),
            self.filter.is_some(),
            self.identifier.is_some(),
            self.attributes.is_some(),
        ];
        put(&[is_there.iter().rev().fold(0, |flags, is_there| flags << 1 | u8::from(*is_there))]);
        if let Some(name_type) = self.name_type {
            put(&[name_type]);
        }
        if let Some(filter) = self.filter {
            put(&filter.to_be_bytes());
        }
        if let Some(identifier) = self.identifier {
            put(&identifier.to_be_bytes());
        }
        if let Some(attributes) = self.attributes {
            put(&[attributes.container_type.0]);
        }
    }

    fn to_owned(self) -> OwnedParts {
        let attributes = self.attributes.map(|a| (a.container_type, a.data.into()));
        OwnedParts { name_type: self.name_type, filter: self.filter, identifier: self.identifier, attributes }
    }
}

impl fmt::Debug for ItemKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.service, self.domain, String::from_utf8_lossy(self.name))?;
        let Parts { name_type, filter, identifier, attributes } = self.more;
        if let Some(name_type) = name_type {
            write!(f, " name type {name_type}")?;
        }
        if let Some(filter) = filter {
            write!(f, " filter {filter:#x}")?;
        }
        if let Some(identifier) = identifier {
            write!(f, " identifier {identifier}")?;
        }
        if let Some(attributes) = attributes {
            write!(f, " attributes of {} bytes", attributes.data.len())?;
        }
        Ok(())
    }
}

/// An [`ItemKey`] that owns its parts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnedKey {
    /// The service's id.
    pub service: u16,
    /// The domain.
    pub domain: Domain,
    /// The name.
    pub name: Box<[u8]>,
    /// `None` for a plain key: most items take no room for it.
    more: Option<Box<OwnedParts>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct OwnedParts {
    name_type: Option<u8>,
    filter: Option<u32>,
    identifier: Option<i32>,
    attributes: Option<(DataType, Box<[u8]>)>,
}

impl OwnedKey {
    /// A borrowed view.
    #[must_use]
    pub fn as_key(&self) -> ItemKey<'_> {
        let more = self.more.as_deref().map(OwnedParts::borrow).unwrap_or_default();
        ItemKey { service: self.service, domain: self.domain, name: &self.name, more }
    }
}

impl OwnedParts {
    fn borrow(&self) -> Parts<'_> {
        let attributes = self.attributes.as_ref();
        Parts {
            name_type: self.name_type,
            filter: self.filter,
            identifier: self.identifier,
            attributes: attributes
                .map(|(container_type, data)| Attributes { container_type: *container_type, data }),
        }
    }
}

impl fmt::Debug for OwnedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_key().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const MARKET_PRICE: Domain = Domain::MARKET_PRICE;

    fn of(key: Key<'static>) -> ItemKey<'static> {
        ItemKey::of(1, MARKET_PRICE, &key).expect("short attributes")
    }

    fn attributes(container_type: DataType, data: &'static [u8]) -> Key<'static> {
        Key { attributes: Some(Attributes { container_type, data }), ..Key::item(1, b"A") }
    }

    /// Keys of as many items, among them those whose parts would run into each other without lengths and
    /// flags.
    fn all() -> Vec<ItemKey<'static>> {
        let a = Key::item(1, b"A");
        vec![
            ItemKey::named(1, MARKET_PRICE, b"A"),
            ItemKey::named(2, MARKET_PRICE, b"A"),
            ItemKey::named(1, Domain::SYMBOL_LIST, b"A"),
            ItemKey::named(1, MARKET_PRICE, b"B"),
            ItemKey::named(1, MARKET_PRICE, b""),
            ItemKey::named(1, MARKET_PRICE, b"A\x01\x02"),
            of(Key { name_type: Some(2), ..a }),
            of(Key { name_type: Some(0), ..a }),
            of(Key { filter: Some(0), ..a }),
            of(Key { filter: Some(2), ..a }),
            of(Key { identifier: Some(0), ..a }),
            of(Key { identifier: Some(2), ..a }),
            of(Key { identifier: Some(-2), ..a }),
            of(Key { filter: Some(2), identifier: Some(2), ..a }),
            of(attributes(DataType::OPAQUE, b"")),
            of(attributes(DataType::OPAQUE, b"x")),
            of(attributes(DataType::XML, b"x")),
            of(Key { name_type: Some(2), ..attributes(DataType::OPAQUE, b"x") }),
        ]
    }

    #[test]
    fn every_part_tells_keys_apart_and_comes_back() {
        let all = all();
        let bytes: HashSet<Vec<u8>> = all.iter().map(|k| k.with_bytes(<[u8]>::to_vec)).collect();
        assert_eq!(bytes.len(), all.len());
        assert!(bytes.contains(&b"\0\x01\x06\x01A"[..]), "a plain key has no more");
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        for key in all {
            assert_eq!(key.to_owned().as_key(), key);
            assert_eq!(ItemKey::of(key.service, key.domain, &key.to_key()), Ok(key));
            assert_eq!(key.to_owned().more.is_none(), key.is_plain());
        }
    }

    #[test]
    fn a_name_type_of_one_is_that_of_an_absent_one() {
        let named = ItemKey::named(1, MARKET_PRICE, b"A");
        assert_eq!(of(Key { name_type: Some(RIC), ..Key::item(1, b"A") }), named);
        assert!(named.is_plain());
        assert_eq!(named.to_key(), Key::item(1, b"A"));
    }

    #[test]
    fn attributes_longer_than_the_limit_are_refused() {
        let key = |length| {
            let attributes = Some(Attributes { container_type: DataType::OPAQUE, data: &vec![0; length] });
            ItemKey::of(1, MARKET_PRICE, &Key { attributes, ..Key::item(1, b"A") }).map(|_| ())
        };
        assert_eq!(key(KEY_ATTRIBUTES_BYTES_MAX), Ok(()));
        let too_long = DecodeError::BadLength { place: Place::KeyAttributes, length: 4097, max: 4096 };
        assert_eq!(key(KEY_ATTRIBUTES_BYTES_MAX + 1), Err(too_long));
        let longest = ItemKey::named(1, MARKET_PRICE, &[b'A'; 300]).name.len();
        assert_eq!(longest, 255);
    }

    #[test]
    fn a_request_on_an_open_stream_may_leave_out_what_does_not_change() {
        let open = of(Key { name_type: Some(2), filter: Some(7), ..Key::item(1, b"A") });
        assert!(open.is_meant_by(&open));
        assert!(open.is_meant_by(&ItemKey::named(1, MARKET_PRICE, b"A")));
        assert!(!open.is_meant_by(&ItemKey::named(1, MARKET_PRICE, b"B")));
        assert!(!open.is_meant_by(&of(Key { filter: Some(8), ..Key::item(1, b"A") })));
        assert!(!ItemKey::named(1, MARKET_PRICE, b"A").is_meant_by(&open));
    }

    #[test]
    fn parts_are_shown_where_there_are_some() {
        assert_eq!(format!("{:?}", ItemKey::named(1, MARKET_PRICE, b"A")), format!("1/{MARKET_PRICE}/A"));
        let key = Key {
            name_type: Some(2),
            filter: Some(15),
            identifier: Some(-3),
            ..attributes(DataType::XML, b"<a/>")
        };
        let expected =
            format!("1/{MARKET_PRICE}/A name type 2 filter 0xf identifier -3 attributes of 4 bytes");
        assert_eq!(format!("{:?}", of(key)), expected);
    }
}
