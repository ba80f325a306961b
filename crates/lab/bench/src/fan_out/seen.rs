//! What clients have seen of a run, and how they tell it.

use measure::Latencies;
use serde_json::{Value, json};

use crate::BenchError;

/// Of one process of clients, or of several.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) updates: u64,
    /// Of the protocol, before encryption, with all that is around updates.
    pub(super) bytes: u64,
    pub(super) latencies: Latencies,
    /// How late the end of the run came to the last of them.
    pub(super) last_ns: u64,
    /// The last update, without what differs between contenders; empty if nobody compares it.
    pub(super) example: String,
}

impl Seen {
    /// As they tell it: latencies as pairs of a value and how often it was seen, so that those of several can be joined.
    pub(super) fn to_json(&self, run: u32) -> Value {
        let values: Vec<(u64, u64)> = self.latencies.values().collect();
        json!({
            "run": run, "updates": self.updates, "bytes": self.bytes, "values": values,
            "last_ns": self.last_ns, "example": self.example,
        })
    }

    /// What was told.
    pub(super) fn of_json(told: &Value) -> Result<Seen, BenchError> {
        let number = |key: &str| {
            told[key].as_u64().ok_or_else(|| BenchError::new(format!("no {key} in the answer of clients")))
        };
        let values: Vec<(u64, u64)> = serde_json::from_value(told["values"].clone())?;
        let mut latencies = Latencies::default();
        values.into_iter().for_each(|(ns, count)| latencies.record_many(ns, count));
        Ok(Seen {
            updates: number("updates")?,
            bytes: number("bytes")?,
            latencies,
            last_ns: number("last_ns")?,
            example: told["example"].as_str().unwrap_or_default().to_owned(),
        })
    }

    /// Adds what others have seen.
    pub(super) fn add(&mut self, other: &Seen) {
        self.latencies.merge(&other.latencies);
        self.updates += other.updates;
        self.bytes += other.bytes;
        self.last_ns = self.last_ns.max(other.last_ns);
        self.example.clone_from(&other.example);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_was_seen() {
        let mut seen =
            Seen { updates: 7, bytes: 99, last_ns: 5, example: "{}".to_owned(), ..Seen::default() };
        [3, 70_000, 1_234_567].into_iter().for_each(|ns| seen.latencies.record(ns));
        let again = Seen::of_json(&seen.to_json(1)).expect("well formed");
        assert_eq!(again.latencies.summary(), seen.latencies.summary());
        let mut both = Seen::default();
        both.add(&seen);
        both.add(&again);
        assert_eq!((both.updates, both.bytes, both.last_ns, both.latencies.count()), (14, 198, 5, 6));
        assert_eq!(both.example, "{}");
        assert!(Seen::of_json(&json!({ "updates": 1 })).is_err());
    }
}
