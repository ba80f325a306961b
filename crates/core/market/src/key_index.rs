//! Which place of a table the item of a key has.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::key::ItemKey;
use crate::table::Table;

/// Finds the item of a key in a table. It holds places alone: keys are with the items, and a million of them would take
/// some 80 bytes each once more.
pub(crate) struct KeyIndex {
    /// By the upper bits of a key's hash. Each part grows by itself, so that the key that makes one grow waits while a
    /// small part of them is moved.
    parts: [HashTable<u32>; PARTS],
    hasher: RandomState,
}

const PARTS: usize = 64;

/// What has a key.
pub(crate) trait Keyed {
    fn key(&self) -> ItemKey<'_>;
}

impl Default for KeyIndex {
    fn default() -> Self {
        KeyIndex { parts: std::array::from_fn(|_| HashTable::new()), hasher: RandomState::new() }
    }
}

impl KeyIndex {
    fn hash(hasher: &RandomState, key: ItemKey<'_>) -> u64 {
        key.with_bytes(|bytes| hasher.hash_one(bytes))
    }

    /// A part has the hashes of one value of bits that its own table does not look at: that takes the lowest and the
    /// seven highest.
    fn part_of(hash: u64) -> usize {
        (hash >> 48) as usize % PARTS
    }

    /// The place of a key's item.
    pub(crate) fn find<T: Keyed>(&self, table: &Table<T>, key: ItemKey<'_>) -> Option<usize> {
        let hash = Self::hash(&self.hasher, key);
        let is_it = |place: &u32| table.get(*place as usize).is_some_and(|item| item.key() == key);
        self.parts[Self::part_of(hash)].find(hash, is_it).map(|place| *place as usize)
    }

    /// Notes a place of the table, of which there are fewer than 4 billion. Its key is new.
    pub(crate) fn insert<T: Keyed>(&mut self, table: &Table<T>, place: usize) {
        let KeyIndex { parts, hasher } = self;
        let hash_of =
            |place: &u32| table.get(*place as usize).map_or(0, |item| Self::hash(hasher, item.key()));
        let place = place as u32;
        let hash = hash_of(&place);
        parts[Self::part_of(hash)].insert_unique(hash, place, hash_of);
    }

    /// Forgets a place that the item of this key had.
    pub(crate) fn remove(&mut self, place: usize, key: ItemKey<'_>) {
        let hash = Self::hash(&self.hasher, key);
        let found = self.parts[Self::part_of(hash)].find_entry(hash, |known| *known as usize == place);
        if let Ok(entry) = found {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rwf::Domain;

    use super::*;
    use crate::key::OwnedKey;

    impl Keyed for OwnedKey {
        fn key(&self) -> ItemKey<'_> {
            self.as_key()
        }
    }

    #[test]
    fn it_finds_what_a_sorted_map_finds() {
        let _repeat = testkit::repeat!();
        let mut rng = units::Rng::new(3);
        let (mut index, mut table) = (KeyIndex::default(), Table::default());
        let mut model: BTreeMap<String, usize> = BTreeMap::new();
        for step in 0..60_000 {
            let name = format!("I{}", rng.next_u64() % 5_000);
            let key = ItemKey::named(1, Domain::MARKET_PRICE, name.as_bytes());
            let found = index.find(&table, key);
            assert_eq!(found, model.get(&name).copied(), "{name}");
            let grows = step / 10_000 % 2 == 0;
            match found {
                None if grows || rng.next_u64().is_multiple_of(4) => {
                    let place = table.insert(key.to_owned());
                    index.insert(&table, place);
                    model.insert(name, place);
                }
                Some(place) if !grows || rng.next_u64().is_multiple_of(4) => {
                    let gone = table.remove(place);
                    index.remove(place, gone.as_key());
                    model.remove(&name);
                }
                _ => {}
            }
        }
        assert!(model.len() > 100 && index.parts.iter().map(HashTable::len).sum::<usize>() == model.len());
    }
}
