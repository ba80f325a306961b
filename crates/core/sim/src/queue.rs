use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Nanos;

/// Events by time; those of one time in the order in which they were put in.
pub struct Queue<E> {
    heap: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    events: Vec<Option<E>>,
    free: Vec<usize>,
    next: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Queue<E> {
        Queue::new()
    }
}

impl<E> Queue<E> {
    /// One without events.
    #[must_use]
    pub fn new() -> Queue<E> {
        Queue { heap: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), next: 0 }
    }

    /// Puts an event in.
    pub fn put(&mut self, at: Nanos, event: E) {
        let place = self.free.pop().unwrap_or(self.events.len());
        if place == self.events.len() {
            self.events.push(None);
        }
        self.events[place] = Some(event);
        self.heap.push(Reverse((at, self.next, place)));
        self.next += 1;
    }

    /// Takes the first one out, with its time.
    pub fn take(&mut self) -> Option<(Nanos, E)> {
        let Reverse((at, _, place)) = self.heap.pop()?;
        self.free.push(place);
        let event = self.events[place].take().expect("each place is taken once");
        Some((at, event))
    }

    /// The same, if it is due by then.
    pub fn take_until(&mut self, until: Nanos) -> Option<(Nanos, E)> {
        self.next_at().filter(|at| *at <= until)?;
        self.take()
    }

    /// When the first one is due.
    #[must_use]
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}
