use std::hash::{BuildHasher, DefaultHasher, Hasher};

/// Hashes that follow from a seed: maps that are built alike are walked in the same order.
///
/// Who chooses keys must not know the seed, or they can choose keys whose hashes are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hashing(u64);

impl Hashing {
    /// Those of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Hashing {
        Hashing(seed)
    }
}

impl BuildHasher for Hashing {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn order(seed: u64) -> Vec<u32> {
        let mut map = HashMap::with_hasher(Hashing::of(seed));
        map.extend((0..100).map(|key| (key, ())));
        map.into_keys().collect()
    }

    #[test]
    fn the_order_of_a_map_follows_from_the_seed() {
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
    }
}
