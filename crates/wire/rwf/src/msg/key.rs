use crate::reader::Reader;
use crate::{DataType, DecodeError, EncodeError, Place, Writer};

const SERVICE_ID: u16 = 0x01;
const NAME: u16 = 0x02;
const NAME_TYPE: u16 = 0x04;
const FILTER: u16 = 0x08;
const IDENTIFIER: u16 = 0x10;
const ATTRIBUTES: u16 = 0x20;

/// What a stream is about: the parts that name an item, a login, a directory, a dictionary.
///
/// Shape: flags `u15rb`; \[service id `u16ob`\]; \[name behind a length `u8`\]; \[name type `u8`\]; \[filter
/// `u32`\]; \[identifier `i32`\]; \[container type − 128 `u8`, attributes behind a `u15rb` length\]. Source:
/// RWF 14.1, message key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Key<'a> {
    /// The service.
    pub service_id: Option<u16>,
    /// The name, at most 255 bytes.
    pub name: Option<&'a [u8]>,
    /// What kind of name it is; only with a name. Absent it is 1: a RIC, or a user name for a login.
    pub name_type: Option<u8>,
    /// Which aspects, as bits.
    pub filter: Option<u32>,
    /// A number whose meaning the domain defines.
    pub identifier: Option<i32>,
    /// More, as a container.
    pub attributes: Option<Attributes<'a>>,
}

/// The container in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attributes<'a> {
    /// Its type.
    pub container_type: DataType,
    /// Its bytes; empty for `NO_DATA`.
    pub data: &'a [u8],
}

impl<'a> Key<'a> {
    /// The key of an item: service and name.
    #[must_use]
    pub const fn item(service_id: u16, name: &'a [u8]) -> Key<'a> {
        Key {
            service_id: Some(service_id),
            name: Some(name),
            name_type: None,
            filter: None,
            identifier: None,
            attributes: None,
        }
    }

    /// Reads a key from its bytes, without the length in front.
    ///
    /// # Errors
    /// [`DecodeError`] if a part is cut off. A name type without a name is not there, whatever its flag says.
    pub fn parse(bytes: &'a [u8]) -> Result<Key<'a>, DecodeError> {
        let mut r = Reader::new(bytes);
        let flags = r.u15rb(Place::Key)?;
        let has = |flag| flags & flag != 0;
        let service_id = if has(SERVICE_ID) { Some(r.u16ob(Place::ServiceId)?) } else { None };
        let name = if has(NAME) { Some(r.buf8(Place::KeyName)?) } else { None };
        let name_type = if has(NAME) && has(NAME_TYPE) { Some(r.u8(Place::KeyNameType)?) } else { None };
        let filter = if has(FILTER) { Some(r.u32(Place::Key)?) } else { None };
        let identifier = if has(IDENTIFIER) { Some(r.i32(Place::Key)?) } else { None };
        let attributes = if has(ATTRIBUTES) { Some(Attributes::read(&mut r)?) } else { None };
        Ok(Key { service_id, name, name_type, filter, identifier, attributes })
    }

    /// Writes the key without a length in front.
    pub fn encode(&self, w: &mut Writer<'_>) {
        if self.name_type.is_some() && self.name.is_none() {
            w.fail(EncodeError::OutOfOrder { place: Place::KeyNameType });
        }
        w.u15rb(self.flags(), Place::Key);
        if let Some(service_id) = self.service_id {
            w.u16ob(service_id);
        }
        if let Some(name) = self.name {
            w.buf8(name, Place::KeyName);
        }
        if let Some(name_type) = self.name_type {
            w.u8(name_type);
        }
        if let Some(filter) = self.filter {
            w.u32(filter);
        }
        if let Some(identifier) = self.identifier {
            w.i32(identifier);
        }
        if let Some(attributes) = self.attributes {
            w.container_type(attributes.container_type, Place::KeyAttributes);
            if attributes.container_type != DataType::NO_DATA {
                w.buf15(attributes.data, Place::KeyAttributes);
            }
        }
    }

    fn flags(&self) -> u16 {
        super::flag_bits! {
            self.service_id.is_some() => SERVICE_ID,
            self.name.is_some() => NAME,
            self.name_type.is_some() => NAME_TYPE,
            self.filter.is_some() => FILTER,
            self.identifier.is_some() => IDENTIFIER,
            self.attributes.is_some() => ATTRIBUTES,
        }
    }

    /// A key in a message that is there if its flag is set.
    #[inline]
    pub(super) fn read_optional(
        r: &mut Reader<'a>,
        flags: u16,
        flag: u16,
        place: Place,
    ) -> Result<Option<Key<'a>>, DecodeError> {
        super::optional(flags, flag, || Key::parse(r.buf15(place)?))
    }

    /// Writes a key behind its length, which always takes two bytes.
    pub(super) fn put_optional(key: Option<&Key<'_>>, w: &mut Writer<'_>, place: Place) {
        if let Some(key) = key {
            w.nested15_long(place, |w| key.encode(w));
        }
    }
}

impl<'a> Attributes<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Attributes<'a>, DecodeError> {
        let container_type = r.container_type(Place::KeyAttributes)?;
        let data = match container_type {
            DataType::NO_DATA => &[],
            _ => r.buf15(Place::KeyAttributes)?,
        };
        Ok(Attributes { container_type, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_to_vec;

    #[test]
    fn a_name_type_needs_a_name() {
        let key = Key { name_type: Some(1), ..Key::default() };
        let refused = encode_to_vec(|w| key.encode(w));
        assert_eq!(refused, Err(EncodeError::OutOfOrder { place: Place::KeyNameType }));
        assert_eq!(Key::parse(&[NAME_TYPE as u8]), Ok(Key::default()));
    }

    #[test]
    fn a_name_of_255_bytes_is_the_longest() {
        let named = |length| encode_to_vec(|w| Key::item(1, &vec![b'A'; length]).encode(w));
        assert!(named(255).is_ok());
        assert_eq!(named(256), Err(EncodeError::TooLong { place: Place::KeyName, length: 256, max: 255 }));
    }

    #[test]
    fn attributes_without_data_have_no_length() {
        let attributes = Some(Attributes { container_type: DataType::NO_DATA, data: &[] });
        let key = Key { attributes, ..Key::default() };
        assert_eq!(encode_to_vec(|w| key.encode(w)), Ok(vec![0x20, 0]));
        assert_eq!(Key::parse(&[0x20, 0]), Ok(key));
    }
}
