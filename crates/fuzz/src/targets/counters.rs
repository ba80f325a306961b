use counters::snapshot::Snapshot;

use crate::Outcome;

/// Input: a snapshot as another process may have left it. What is read fits together, and was there.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let read = Snapshot::parse(input);
    if let Ok(snapshot) = &read {
        let counters: usize = snapshot.tables.iter().map(Vec::len).sum();
        let values: usize = snapshot.sets.iter().map(|set| set.values.len()).sum();
        assert!(7 * counters + 8 * values <= input.len(), "more than the input has");
        for set in &snapshot.sets {
            assert_eq!(set.values.len(), snapshot.tables[set.table].len());
        }
    }
    Outcome::of(&read, |s| (s.tables.len().min(3), s.sets.len().min(3)))
}
