use std::collections::BTreeMap;

/// A map that is mostly asked for the same key many times one after the other: then it is one comparison.
#[derive(Clone, Debug)]
pub struct RecentMap<K, V> {
    entries: BTreeMap<K, V>,
    /// What was found last. Never anything that is not in the map.
    recent: Option<(K, V)>,
}

impl<K, V> Default for RecentMap<K, V> {
    fn default() -> RecentMap<K, V> {
        RecentMap { entries: BTreeMap::new(), recent: None }
    }
}

impl<K: Copy + Ord, V: Copy> RecentMap<K, V> {
    /// The value of a key, which is remembered.
    #[inline]
    pub fn find(&mut self, key: K) -> Option<V> {
        if let Some((recent, value)) = self.recent
            && recent == key
        {
            return Some(value);
        }
        let value = self.get(key)?;
        self.recent = Some((key, value));
        Some(value)
    }

    /// The value of a key, where that is not asked often.
    #[must_use]
    pub fn get(&self, key: K) -> Option<V> {
        self.entries.get(&key).copied()
    }

    /// Gives a key a value, and returns the one it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.recent = None;
        self.entries.insert(key, value)
    }

    /// Takes a key out, and returns the value it had.
    pub fn remove(&mut self, key: K) -> Option<V> {
        self.recent = None;
        self.entries.remove(&key)
    }

    /// Takes every key out whose value is `value`.
    pub fn remove_value(&mut self, value: V)
    where
        V: PartialEq,
    {
        self.recent = None;
        self.entries.retain(|_, of| *of != value);
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn it_finds_what_a_plain_map_has_after_any_changes() {
        let _repeat = testkit::repeat!();
        let mut rng = Rng::new(1);
        let (mut map, mut plain) = (RecentMap::default(), BTreeMap::new());
        for _ in 0..100_000 {
            let (key, value) = (rng.below(6), rng.below(4));
            match rng.below(16) {
                0 | 1 => assert_eq!(map.insert(key, value), plain.insert(key, value)),
                2 => assert_eq!(map.remove(key), plain.remove(&key)),
                3 => {
                    map.remove_value(value);
                    plain.retain(|_, of| *of != value);
                }
                _ => assert_eq!(map.find(key), plain.get(&key).copied()),
            }
            assert_eq!((map.get(key), map.len()), (plain.get(&key).copied(), plain.len()));
            assert_eq!(map.is_empty(), plain.is_empty());
        }
    }
}
