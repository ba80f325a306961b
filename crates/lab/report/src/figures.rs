//! The figures of a row, found by their names.

use std::fmt::Write;

use measure::run::RecordedRow;
use serde_json::{Map, Value};

/// What tells one row of a table from another, in the order in which it is named.
const IDENTITY: [&str; 22] = [
    "way",
    "layout",
    "name",
    "case",
    "path",
    "size",
    "datagram",
    "shape",
    "pair",
    "pairs",
    "backbone",
    "cache",
    "servers",
    "clients",
    "items",
    "payload",
    "decode",
    "preset",
    "state",
    "images_from",
    "is_under_load",
    "rate",
];

fn at<'a>(figures: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(figures, |value, key| value.get(key))
}

/// A figure of a row by its path, such as `all.mean_ns`; of several runs the median.
pub(crate) fn figure(figures: &Value, path: &str) -> Option<f64> {
    let value = at(figures, path)?;
    value.as_f64().or_else(|| value.get("median")?.as_f64())
}

/// The same of each run; none if it is not a figure of several runs.
pub(crate) fn runs(figures: &Value, path: &str) -> Option<Vec<f64>> {
    let value = at(figures, path)?;
    let runs: Option<Vec<f64>> = value.get("runs")?.as_array()?.iter().map(Value::as_f64).collect();
    runs.filter(|runs| !runs.is_empty())
}

/// Lowest and highest of the runs.
pub(crate) fn range(figures: &Value, path: &str) -> Option<(f64, f64)> {
    let value = at(figures, path)?;
    Some((value.get("low")?.as_f64()?, value.get("high")?.as_f64()?))
}

/// Whether the row has these values at these names; a way may have more words behind.
pub(crate) fn has(figures: &Value, values: &Map<String, Value>) -> bool {
    values.iter().all(|(key, value)| match (figures.get(key), value) {
        (Some(Value::String(there)), Value::String(asked)) if key == "way" => {
            there == asked || there.strip_prefix(asked.as_str()).is_some_and(|more| more.starts_with(','))
        }
        (Some(there), asked) => {
            there == asked || (there.as_f64().is_some() && there.as_f64() == asked.as_f64())
        }
        (None, _) => false,
    })
}

/// Whether the row says that its rate was not sustained.
pub(crate) fn is_sustained(row: &RecordedRow) -> bool {
    row.figures.get("is_sustained").and_then(Value::as_bool).unwrap_or(true)
}

/// The keys in which rows of a table differ.
pub(crate) struct Differing(Vec<&'static str>);

impl Differing {
    pub(crate) fn of(rows: &[RecordedRow]) -> Differing {
        let Some((first, others)) = rows.split_first() else { return Differing(Vec::new()) };
        let differs = |key: &&str| others.iter().any(|row| row.figures.get(*key) != first.figures.get(*key));
        Differing(IDENTITY.into_iter().filter(differs).collect())
    }
}

/// What a row is of, without what all the rows have in common and without the keys in `but`.
pub(crate) fn name(row: &RecordedRow, differing: &Differing, but: &[&str]) -> String {
    let keys = differing.0.iter().filter(|key| !but.contains(key));
    let mut name = String::new();
    for key in keys {
        let Some(value) = row.figures.get(*key).and_then(|value| scalar(key, value)) else { continue };
        let _ = write!(name, "{}{value}", if name.is_empty() { "" } else { ", " });
    }
    if name.is_empty() { scalar_of(row, "way").unwrap_or_default() } else { name }
}

fn scalar_of(row: &RecordedRow, key: &str) -> Option<String> {
    scalar(key, row.figures.get(key)?)
}

fn scalar(key: &str, value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if key == "size" => Some(format!("{number} bytes")),
        Value::Number(number) if key == "rate" => Some(format!("{number}/s")),
        Value::Number(number) => Some(format!("{key} {number}")),
        Value::Bool(is) => Some(format!("{key} {is}")),
        _ => None,
    }
}

/// All that tells a row from others, for the same row of another run.
pub(crate) fn identity(row: &RecordedRow) -> Vec<(&'static str, String)> {
    // The rate of a search is what it has found.
    let is_found = row.figures.get("bracket").is_some();
    let keys = IDENTITY.iter().filter(|key| !(is_found && **key == "rate"));
    keys.filter_map(|key| Some((*key, scalar(key, row.figures.get(*key)?)?))).collect()
}

/// Of all runs of a row: a time in nanoseconds, and how many were near it, in order.
pub(crate) fn all_buckets(row: &RecordedRow) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = row.histograms.iter().flatten().copied().collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(figures: Value) -> RecordedRow {
        RecordedRow { figures, ..RecordedRow::default() }
    }

    #[test]
    fn figures_are_found_by_their_path() {
        let figures = json!({ "rate": 10, "p50_ns": { "median": 2.5, "low": 1, "high": 4, "runs": [1, 2.5, 4] }, "all": { "mean_ns": 7.0 } });
        assert_eq!(
            ["rate", "p50_ns", "all.mean_ns"].map(|path| figure(&figures, path)),
            [Some(10.0), Some(2.5), Some(7.0)]
        );
        assert_eq!(["none", "all", "all.none", ""].map(|path| figure(&figures, path)), [None; 4]);
        assert_eq!(
            (runs(&figures, "p50_ns"), range(&figures, "p50_ns")),
            (Some(vec![1.0, 2.5, 4.0]), Some((1.0, 4.0)))
        );
        assert_eq!((runs(&figures, "rate"), range(&figures, "all")), (None, None));
    }

    #[test]
    fn rows_are_found_by_what_they_are_of() {
        let of = |asked: Value| asked.as_object().cloned().expect("an object");
        let figures = json!({ "way": "aeron, claim", "size": 64, "rate": 1_000.0 });
        for asked in
            [json!({}), json!({ "way": "aeron" }), json!({ "way": "aeron, claim", "size": 64, "rate": 1000 })]
        {
            assert!(has(&figures, &of(asked.clone())), "{asked}");
        }
        for asked in [json!({ "way": "aer" }), json!({ "size": 65 }), json!({ "path": "tcp" })] {
            assert!(!has(&figures, &of(asked.clone())), "{asked}");
        }
    }

    #[test]
    fn a_row_is_named_by_what_differs() {
        let rows = [
            row(json!({ "way": "raw", "size": 64, "path": "tcp", "rate": 5 })),
            row(json!({ "way": "ours", "size": 64, "path": "tcp", "rate": 6 })),
        ];
        let differing = Differing::of(&rows);
        assert_eq!(name(&rows[1], &differing, &["rate"]), "ours");
        assert_eq!(name(&rows[1], &differing, &[]), "ours, 6/s");
        assert_eq!(name(&rows[0], &Differing::of(&rows[..1]), &[]), "raw");
        assert_eq!(
            identity(&rows[0]),
            [
                ("way", "raw".to_owned()),
                ("path", "tcp".to_owned()),
                ("size", "64 bytes".to_owned()),
                ("rate", "5/s".to_owned())
            ]
        );
    }
}
