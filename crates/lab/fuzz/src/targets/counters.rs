use counters::snapshot::Snapshot;

use crate::Outcome;

/// Input: a snapshot as another process may have left it. What is read fits together, and was there.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let read = Snapshot::parse(input);
    if let Ok(snapshot) = &read {
        let parts = snapshot.rolls.iter().map(|roll| (&roll.tables, &roll.sets));
        let parts: Vec<_> = parts.chain([(&snapshot.tables, &snapshot.sets)]).collect();
        let counters: usize = parts.iter().flat_map(|(tables, _)| tables.iter().map(Vec::len)).sum();
        let values: usize = parts.iter().flat_map(|(_, sets)| sets.iter().map(|set| set.values.len())).sum();
        assert!(7 * counters + 8 * values <= input.len(), "more than the input has");
        for (tables, sets) in parts {
            assert!(sets.iter().all(|set| set.values.len() == tables[set.table].len()));
        }
    }
    let rows = |s: &Snapshot| s.rolls.iter().map(|roll| roll.sets.len()).sum::<usize>();
    Outcome::of(&read, |s| (s.tables.len().min(3), s.sets.len().min(3), s.rolls.len().min(3), rows(s).min(3)))
}
