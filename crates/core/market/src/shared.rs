//! Values that many hold alike, kept once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// Values that are in use somewhere, each once.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    known: HashSet<Arc<T>>,
    /// At this number those that nobody uses any more are dropped.
    sweep_at: usize,
}

/// Below this there is nothing worth sweeping.
const SWEEP_MIN: usize = 64;

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared { known: HashSet::new(), sweep_at: SWEEP_MIN }
    }
}

impl<T: Eq + Hash> Shared<T> {
    /// The one value that is equal to this.
    pub(crate) fn share(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.known.get(&value) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.sweep_at = SWEEP_MIN.max(2 * self.known.len());
        }
        let value = Arc::new(value);
        self.known.insert(Arc::clone(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_while_somebody_has_them() {
        let mut shared = Shared::default();
        let kept = shared.share(0);
        assert!(Arc::ptr_eq(&kept, &shared.share(0)));
        for n in 1..1_000 {
            shared.share(n);
            assert!(shared.known.len() <= SWEEP_MIN, "nobody has them");
        }
        assert!(Arc::ptr_eq(&kept, &shared.share(0)));
    }
}
