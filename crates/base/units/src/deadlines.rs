use crate::Nanos;

/// The moments at which things with small numbers are due, the earliest at hand.
///
/// Each stands here at most once, at its present moment: a binary heap whose entries know their places. Setting and
/// taking cost the logarithm of how many there are, asking for the earliest one look.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    heap: Vec<(Nanos, u32)>,
    /// By number: the place in the heap, or [`ABSENT`].
    places: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;

impl Deadlines {
    /// The earliest moment; never, if there is none.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Nanos {
        self.heap.first().map_or(Nanos::NEVER, |first| first.0)
    }

    /// The number that is due first.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.heap.first().map(|first| first.1)
    }

    /// When a number is due, if it stands here.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<Nanos> {
        self.place(number).map(|place| self.heap[place].0)
    }

    /// A number is due then and at no other time; never: not at all.
    pub fn set(&mut self, number: u32, at: Nanos) {
        match self.place(number) {
            Some(place) if at == Nanos::NEVER => self.take_out(place),
            Some(place) => {
                self.heap[place].0 = at;
                self.settle(place);
            }
            None if at == Nanos::NEVER => {}
            None => {
                let index = number as usize;
                if index >= self.places.len() {
                    self.places.resize(index + 1, ABSENT);
                }
                self.places[index] = self.heap.len() as u32;
                self.heap.push((at, number));
                self.settle(self.heap.len() - 1);
            }
        }
    }

    /// The same if that is earlier than before. Where moments are mostly put off, whoever takes a number looks whether
    /// it is due in truth, and few are moved.
    #[inline]
    pub fn bring_forward(&mut self, number: u32, at: Nanos) {
        if self.get(number).is_none_or(|before| at < before) {
            self.set(number, at);
        }
    }

    /// Takes a number out; false if it was not here.
    pub fn remove(&mut self, number: u32) -> bool {
        let place = self.place(number);
        place.into_iter().for_each(|place| self.take_out(place));
        place.is_some()
    }

    /// Takes the number out that is due first, if it is due by now.
    pub fn pop_due(&mut self, now: Nanos) -> Option<u32> {
        let &(_, number) = self.heap.first().filter(|first| first.0 <= now)?;
        self.take_out(0);
        Some(number)
    }

    /// How many stand here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is ever due.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn place(&self, number: u32) -> Option<usize> {
        self.places.get(number as usize).filter(|place| **place != ABSENT).map(|place| *place as usize)
    }

    fn take_out(&mut self, place: usize) {
        let (_, number) = self.heap.swap_remove(place);
        self.places[number as usize] = ABSENT;
        if place < self.heap.len() {
            self.settle(place);
        }
    }

    /// Moves an entry up or down to where it belongs.
    fn settle(&mut self, mut place: usize) {
        while place > 0 && self.heap[place] < self.heap[(place - 1) / 2] {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
        loop {
            let children = (2 * place + 1..2 * place + 3).filter(|child| *child < self.heap.len());
            let Some(least) = children.min_by_key(|child| self.heap[*child]) else { break };
            if self.heap[place] <= self.heap[least] {
                break;
            }
            self.swap(place, least);
            place = least;
        }
        self.places[self.heap[place].1 as usize] = place as u32;
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places[self.heap[a].1 as usize] = a as u32;
        self.places[self.heap[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Rng;

    #[test]
    fn it_agrees_with_a_look_at_everything_after_any_changes() {
        let _repeat = testkit::repeat!();
        let mut rng = Rng::new(1);
        let (mut deadlines, mut plain) = (Deadlines::default(), BTreeMap::<u32, Nanos>::new());
        for step in 0..100_000 {
            // Few and many by turns.
            let number = rng.below(if step % 20_000 < 10_000 { 8 } else { 300 }) as u32;
            let at = if rng.chance(0.1) { Nanos::NEVER } else { Nanos(rng.below(1_000)) };
            match rng.below(4) {
                0 => {
                    deadlines.set(number, at);
                    plain.insert(number, at);
                }
                1 => {
                    deadlines.bring_forward(number, at);
                    plain.entry(number).and_modify(|before| *before = at.min(*before)).or_insert(at);
                }
                2 => assert_eq!(deadlines.remove(number), plain.remove(&number).is_some()),
                _ => {
                    let first = plain.iter().map(|(number, at)| (*at, *number)).min();
                    let first = first.filter(|(due, _)| *due <= at && *due != Nanos::NEVER);
                    assert_eq!(deadlines.pop_due(at), first.map(|(_, number)| number));
                    first.map(|(_, number)| plain.remove(&number));
                }
            }
            plain.retain(|_, at| *at != Nanos::NEVER);
            assert_eq!(deadlines.next(), plain.values().min().copied().unwrap_or(Nanos::NEVER));
            assert_eq!((deadlines.get(number), deadlines.len()), (plain.get(&number).copied(), plain.len()));
            let first = plain.iter().map(|(number, at)| (*at, *number)).min().map(|first| first.1);
            assert_eq!((deadlines.first(), deadlines.is_empty()), (first, plain.is_empty()));
        }
    }
}
