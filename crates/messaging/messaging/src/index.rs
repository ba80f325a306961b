//! Sets of small values under what they belong to, in a fixed order. What is asked of a group costs the
//! logarithm of all there is and what the group has, never a look at the others. And how far slabs grow.

use std::collections::BTreeSet;

use slab::Slab;

/// Before a value is inserted into a slab that may get very many: see [`units::places_to_reserve`].
#[inline]
pub(crate) fn reserve_for_insert<T>(slab: &mut Slab<T>) {
    if slab.len() == slab.capacity() {
        // A vacant place is told from a value, which may take a word.
        slab.reserve_exact(units::places_to_reserve(slab.len(), size_of::<T>() + size_of::<usize>()));
    }
}

/// Members by group: streams by session, streams by receiver, sources by session.
#[derive(Clone, Debug)]
pub(crate) struct Groups<G, M>(BTreeSet<(G, M)>);

impl<G, M> Default for Groups<G, M> {
    fn default() -> Groups<G, M> {
        Groups(BTreeSet::new())
    }
}

/// What has a least value, from which a group's members are listed.
pub(crate) trait Member: Copy + Ord {
    const LEAST: Self;
}

impl Member for usize {
    const LEAST: usize = 0;
}

impl<A: Member, B: Member> Member for (A, B) {
    const LEAST: (A, B) = (A::LEAST, B::LEAST);
}

impl<G: Copy + Ord, M: Member> Groups<G, M> {
    /// Adds a member; false if it was there.
    pub(crate) fn insert(&mut self, group: G, member: M) -> bool {
        self.0.insert((group, member))
    }

    /// Takes a member out; false if it was not there.
    pub(crate) fn remove(&mut self, group: G, member: M) -> bool {
        self.0.remove(&(group, member))
    }

    /// The members of a group, in order.
    pub(crate) fn of(&self, group: G) -> impl Iterator<Item = M> + '_ {
        let all = self.0.range((group, M::LEAST)..);
        all.take_while(move |(of, _)| *of == group).map(|(_, member)| *member)
    }

    /// Whether a group has a member.
    pub(crate) fn has(&self, group: G) -> bool {
        self.of(group).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use units::Rng;

    use super::*;

    #[test]
    fn it_lists_what_a_look_at_everything_finds_after_any_changes() {
        let _repeat = testkit::repeat!();
        let mut rng = Rng::new(1);
        let (mut groups, mut plain) = (Groups::default(), Vec::<(u64, (usize, usize))>::new());
        for _ in 0..20_000 {
            let (group, member) = (rng.below(5), (rng.below(4) as usize, rng.below(4) as usize));
            let at = plain.iter().position(|all| *all == (group, member));
            if rng.chance(0.5) {
                assert_eq!(groups.insert(group, member), at.is_none());
                at.is_none().then(|| plain.push((group, member)));
            } else {
                assert_eq!(groups.remove(group, member), at.is_some());
                at.map(|at| plain.swap_remove(at));
            }
            let mut found: Vec<_> = plain.iter().filter(|(of, _)| *of == group).map(|all| all.1).collect();
            found.sort_unstable();
            assert_eq!(groups.has(group), !found.is_empty());
            assert!(groups.of(group).eq(found));
        }
    }
}
