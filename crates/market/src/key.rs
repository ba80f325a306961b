//! The key of an item: service, domain and name.

use std::fmt;

use rwf::Domain;

/// Which item, in the whole system: one name may exist in several domains of a service.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ItemKey<'a> {
    /// The service's id.
    pub service: u16,
    /// The domain.
    pub domain: Domain,
    /// The name, at most 255 bytes.
    pub name: &'a [u8],
}

impl ItemKey<'_> {
    /// The key as bytes, to be looked up by: service, domain, name. Names longer than 255 bytes, which RWF
    /// does not have, are cut.
    pub fn with_bytes<R>(&self, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
        let mut room = [0; 3 + 255];
        let name = &self.name[..self.name.len().min(255)];
        room[..2].copy_from_slice(&self.service.to_be_bytes());
        room[2] = self.domain.0;
        room[3..3 + name.len()].copy_from_slice(name);
        use_bytes(&room[..3 + name.len()])
    }

    /// An owned copy.
    #[must_use]
    pub fn to_owned(&self) -> OwnedKey {
        OwnedKey { service: self.service, domain: self.domain, name: self.name.into() }
    }
}

impl fmt::Debug for ItemKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.service, self.domain, String::from_utf8_lossy(self.name))
    }
}

/// An [`ItemKey`] that owns its name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnedKey {
    /// The service's id.
    pub service: u16,
    /// The domain.
    pub domain: Domain,
    /// The name.
    pub name: Box<[u8]>,
}

impl OwnedKey {
    /// A borrowed view.
    #[must_use]
    pub fn as_key(&self) -> ItemKey<'_> {
        ItemKey { service: self.service, domain: self.domain, name: &self.name }
    }
}

impl fmt::Debug for OwnedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_key().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_tells_keys_apart() {
        let key = |service, domain, name| ItemKey { service, domain: Domain(domain), name };
        let all = [key(1, 6, b"A"), key(2, 6, b"A"), key(1, 8, b"A"), key(1, 6, b"B"), key(1, 6, b"")];
        let bytes: std::collections::HashSet<Vec<u8>> =
            all.iter().map(|k| k.with_bytes(<[u8]>::to_vec)).collect();
        assert_eq!(bytes.len(), all.len());
        assert!(bytes.contains(&b"\0\x01\x06A"[..]));
    }
}
