//! What the streams of a provider are for, by stream id.

use std::collections::HashMap;

use super::provider::Target;

/// Targets of streams.
///
/// Those who give out stream ids count from 1 or from -1, so nearly all ids are small. These stand in a table by id, which is
/// found without hashing and shares its cache lines with the streams beside it; ids far beyond are hashed. The table is at
/// most some times as long as there are streams, whatever their ids are.
#[derive(Debug, Default)]
pub(super) struct ProviderStreams {
    /// By [`place_of`]; [`NONE`] where there is none.
    near: Vec<u32>,
    near_count: usize,
    far: HashMap<i32, Target>,
}

/// No stream: no place either, as [`pack`] gives none so high.
const NONE: u32 = u32::MAX;
/// The place is one of a private stream.
const PRIVATE: u32 = 1 << 31;
/// A table of so many places is made at once.
const PLACES_MIN: usize = 1_024;
/// The table is as long as streams, times this: of one sign every other place is empty.
const PLACES_FOR_STREAM: usize = 4;

/// 0, -1, 1, -2, 2 and so on.
#[inline]
fn place_of(id: i32) -> usize {
    ((id << 1) ^ (id >> 31)) as u32 as usize
}

/// The other way round.
#[inline]
fn id_at(place: usize) -> i32 {
    (place as u32 >> 1) as i32 ^ -((place & 1) as i32)
}

/// A target in 32 bits, if its place fits.
#[inline]
fn pack(target: Target) -> Option<u32> {
    let (place, flag) = match target {
        Target::Item(place) => (place, 0),
        Target::Private(place) => (place, PRIVATE),
    };
    (place < (PRIVATE - 1) as usize).then_some(place as u32 | flag)
}

#[inline]
fn unpack(packed: u32) -> Option<Target> {
    let place = (packed & !PRIVATE) as usize;
    match packed {
        NONE => None,
        _ if packed & PRIVATE == 0 => Some(Target::Item(place)),
        _ => Some(Target::Private(place)),
    }
}

impl ProviderStreams {
    /// What a stream is for.
    #[inline]
    pub(super) fn get(&self, id: i32) -> Option<Target> {
        match self.near.get(place_of(id)).and_then(|packed| unpack(*packed)) {
            None if !self.far.is_empty() => self.far.get(&id).copied(),
            found => found,
        }
    }

    /// Whether there is such a stream.
    pub(super) fn contains(&self, id: i32) -> bool {
        self.get(id).is_some()
    }

    /// Sets what a stream is for.
    pub(super) fn insert(&mut self, id: i32, target: Target) {
        self.remove(id);
        let (place, most) = (place_of(id), (self.len() * PLACES_FOR_STREAM).max(PLACES_MIN));
        match pack(target) {
            Some(packed) if place < self.near.len().max(most) => {
                if place >= self.near.len() {
                    self.near.reserve_exact(most - self.near.len());
                    self.near.resize(most, NONE);
                }
                self.near[place] = packed;
                self.near_count += 1;
            }
            _ => {
                self.far.insert(id, target);
            }
        }
    }

    /// Forgets a stream.
    pub(super) fn remove(&mut self, id: i32) {
        match self.near.get_mut(place_of(id)) {
            Some(packed) if *packed != NONE => {
                *packed = NONE;
                self.near_count -= 1;
            }
            _ => {
                self.far.remove(&id);
            }
        }
    }

    /// How many streams there are.
    pub(super) fn len(&self) -> usize {
        self.near_count + self.far.len()
    }

    /// Ids and what they are for, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i32, Target)> + '_ {
        let near = self.near.iter().enumerate();
        let near = near.filter_map(|(place, packed)| Some((id_at(place), unpack(*packed)?)));
        near.chain(self.far.iter().map(|(id, target)| (*id, *target)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_from_one_or_minus_one_are_not_hashed() {
        for sign in [1, -1] {
            let mut streams = ProviderStreams::default();
            for n in 1..=100_000 {
                streams.insert(sign * n, Target::Item(n as usize));
            }
            assert_eq!((streams.len(), streams.far.len()), (100_000, 0));
            assert!(streams.near.len() <= 4 * 100_000, "{}", streams.near.len());
            assert_eq!(streams.get(sign * 77_777), Some(Target::Item(77_777)));
            assert_eq!(streams.get(-sign * 77_777), None);
        }
    }

    #[test]
    fn ids_far_apart_take_no_room_between() {
        let mut streams = ProviderStreams::default();
        for n in 0..1_000 {
            streams.insert(n * 2_000_000, Target::Private(n as usize));
        }
        assert!(streams.near.len() <= 4 * 1_000, "{}", streams.near.len());
        assert_eq!(streams.get(999 * 2_000_000), Some(Target::Private(999)));
    }

    #[test]
    fn places_beyond_31_bits_are_kept_too() {
        let mut streams = ProviderStreams::default();
        let all = [Target::Item(NONE as usize), Target::Private(PRIVATE as usize - 1), Target::Item(1 << 40)];
        (1..).zip(all).for_each(|(id, target)| streams.insert(id, target));
        assert_eq!([1, 2, 3].map(|id| streams.get(id)), all.map(Some));
    }

    fn id() -> impl Strategy<Value = i32> {
        prop_oneof![-20..20, -3_000..3_000, any::<i32>(), Just(i32::MIN), Just(i32::MAX)]
    }

    testkit::properties! {
        #[test]
        fn it_holds_what_a_map_holds(steps in proptest::collection::vec((id(), any::<Option<(bool, u16)>>()), 0..300)) {
            let (mut streams, mut plain) = (ProviderStreams::default(), BTreeMap::new());
            for (id, set) in steps {
                match set {
                    Some((is_private, place)) => {
                        let place = place.into();
                        let target = if is_private { Target::Private(place) } else { Target::Item(place) };
                        streams.insert(id, target);
                        plain.insert(id, target);
                    }
                    None => {
                        streams.remove(id);
                        plain.remove(&id);
                    }
                }
                prop_assert_eq!(streams.get(id), plain.get(&id).copied());
                prop_assert_eq!(streams.len(), plain.len());
            }
            for id in plain.keys() {
                prop_assert_eq!(streams.get(*id), plain.get(id).copied());
                prop_assert!(streams.contains(*id));
            }
            prop_assert_eq!(streams.iter().count(), plain.len());
            prop_assert_eq!(streams.iter().collect::<BTreeMap<_, _>>(), plain);
        }
    }
}
