//! Sets of places of a table, in order.

use std::collections::BTreeMap;

/// Which places of a table are in a set.
///
/// Places that are near each other share a word, one bit each. A million of them in one tree of their own would be so
/// deep that most steps of a search miss every cache: an item that is opened or given up pays for that.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Sets of 64 places, by the first one's place in units of 64; none is empty.
    words: BTreeMap<usize, u64>,
    count: usize,
}

const PLACES: usize = u64::BITS as usize;

fn split(place: usize) -> (usize, u64) {
    (place / PLACES, 1 << (place % PLACES))
}

impl Places {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether a place is in it.
    pub(crate) fn contains(&self, place: usize) -> bool {
        let (at, bit) = split(place);
        self.words.get(&at).is_some_and(|word| word & bit != 0)
    }

    /// Adds a place.
    pub(crate) fn insert(&mut self, place: usize) {
        let (at, bit) = split(place);
        let word = self.words.entry(at).or_default();
        self.count += usize::from(*word & bit == 0);
        *word |= bit;
    }

    /// Takes a place out.
    pub(crate) fn remove(&mut self, place: usize) {
        let (at, bit) = split(place);
        let Some(word) = self.words.get_mut(&at).filter(|word| **word & bit != 0) else { return };
        *word &= !bit;
        if *word == 0 {
            self.words.remove(&at);
        }
        self.count -= 1;
    }

    /// The first place that is not before this one.
    pub(crate) fn next_from(&self, place: usize) -> Option<usize> {
        let (first, bit) = split(place);
        self.words.range(first..).find_map(|(at, word)| {
            let word = if *at == first { word & !(bit - 1) } else { *word };
            (word != 0).then(|| at * PLACES + word.trailing_zeros() as usize)
        })
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.next_from(0), |place| self.next_from(place + 1))
    }

    /// Takes the first one out.
    pub(crate) fn pop_first(&mut self) -> Option<usize> {
        let place = self.next_from(0)?;
        self.remove(place);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_has_what_a_sorted_set_has() {
        let _repeat = testkit::repeat!();
        let mut rng = units::Rng::new(7);
        let (mut places, mut model) = (Places::default(), BTreeSet::new());
        for step in 0..20_000 {
            let place = rng.below(if step % 3 == 0 { 200 } else { 100_000 }) as usize;
            match rng.below(5) {
                0 | 1 => {
                    places.insert(place);
                    model.insert(place);
                }
                2 => {
                    let known = model.iter().nth(rng.below(model.len().max(1) as u64) as usize).copied();
                    let place = known.unwrap_or(place);
                    places.remove(place);
                    model.remove(&place);
                }
                3 => assert_eq!(places.next_from(place), model.range(place..).next().copied(), "{place}"),
                _ if step % 100 == 0 => assert_eq!(places.pop_first(), model.pop_first()),
                _ => assert_eq!(places.contains(place), model.contains(&place), "{place}"),
            }
            assert_eq!(places.len(), model.len());
        }
        assert!(model.len() > 1_000);
        assert!(places.iter().eq(model.iter().copied()));
        while let Some(first) = model.pop_first() {
            assert_eq!(places.pop_first(), Some(first));
        }
        assert!(places.pop_first().is_none() && places.is_empty() && places.words.is_empty());
    }
}
