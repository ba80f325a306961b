use super::slots::Slots;

/// Things in the order in which they were last heard, each with its [`Link`] in the slot where it is kept: a
/// list through them, so that one is put last without a look at the others.
#[derive(Default)]
pub(super) struct Ages {
    oldest: Option<u32>,
    latest: Option<u32>,
}

/// The place of one thing in the list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    older: Option<u32>,
    later: Option<u32>,
}

/// What is kept in such a list.
pub(super) trait Linked {
    fn link(&mut self) -> &mut Link;
}

impl Ages {
    /// The one that was heard longest ago.
    pub(super) fn front(&self) -> Option<u32> {
        self.oldest
    }

    /// Puts one last that is not in the list.
    pub(super) fn push<T: Linked>(&mut self, at: u32, things: &mut Slots<T>) {
        let older = self.latest.replace(at);
        change(at, things, |own| *own = Link { older, later: None });
        match older {
            Some(older) => change(older, things, |link| link.later = Some(at)),
            None => self.oldest = Some(at),
        }
    }

    /// Takes one out that is in the list.
    pub(super) fn remove<T: Linked>(&mut self, at: u32, things: &mut Slots<T>) {
        let gone = things.get_mut(at).map(|own| std::mem::take(own.link())).unwrap_or_default();
        match gone.older {
            Some(older) => change(older, things, |link| link.later = gone.later),
            None => self.oldest = gone.later,
        }
        match gone.later {
            Some(later) => change(later, things, |link| link.older = gone.older),
            None => self.latest = gone.older,
        }
    }
}

fn change<T: Linked>(at: u32, things: &mut Slots<T>, change: impl FnOnce(&mut Link)) {
    if let Some(thing) = things.get_mut(at) {
        change(thing.link());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Linked for Link {
        fn link(&mut self) -> &mut Link {
            self
        }
    }

    fn order(ages: &Ages, links: &Slots<Link>) -> Vec<u32> {
        let later = |at: &u32| links.get(*at).and_then(|link| link.later);
        let forth: Vec<u32> = std::iter::successors(ages.oldest, later).collect();
        let older = |at: &u32| links.get(*at).and_then(|link| link.older);
        let mut back: Vec<u32> = std::iter::successors(ages.latest, older).collect();
        back.reverse();
        assert_eq!(forth, back);
        forth
    }

    #[test]
    fn whatever_is_taken_out_the_others_keep_their_order() {
        let (mut links, mut ages) = (Slots::default(), Ages::default());
        for _ in 0..5 {
            let at = links.insert(Link::default()).0;
            ages.push(at, &mut links);
        }
        for (gone, left) in [(2, vec![0, 1, 3, 4]), (0, vec![1, 3, 4]), (4, vec![1, 3])] {
            ages.remove(gone, &mut links);
            assert_eq!((order(&ages, &links), ages.front()), (left.clone(), left.first().copied()));
        }
        ages.push(0, &mut links);
        assert_eq!(order(&ages, &links), [1, 3, 0]);
        for gone in [3, 1, 0] {
            ages.remove(gone, &mut links);
        }
        assert_eq!((order(&ages, &links), ages.front()), (vec![], None));
    }
}
