//! Figures of the published reports, beside ours.

use measure::run::RecordedTable;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::figures::{self, Differing};
use crate::page::Table;
use crate::scale::number;

/// A table of a published report.
#[derive(Debug, Deserialize)]
struct Published {
    name: String,
    year: u32,
    hardware: String,
    workload: String,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    /// The values of the row of ours that it stands beside.
    #[serde(rename = "where", default)]
    at: Map<String, Value>,
    /// What was tested, for a rate.
    test: Option<String>,
    per_s: Option<f64>,
    #[serde(flatten)]
    figures: Map<String, Value>,
}

/// Bytes of a published update without any header.
const PAYLOAD: u64 = 74;

/// Name of a published latency, where ours is, and what the column is called.
const LATENCIES: [(&str, &str, &str); 7] = [
    ("p50_ns", "p50_ns", "median us"),
    ("mean_ns", "all.mean_ns", "mean us"),
    ("deviation_ns", "all.deviation_ns", "deviation us"),
    ("shortest_ns", "all.shortest_ns", "shortest us"),
    ("longest_ns", "all.longest_ns", "longest us"),
    ("p99_ns", "p99_ns", "99 % us"),
    ("p999_ns", "p999_ns", "99.9 % us"),
];

fn all() -> Vec<Published> {
    let text = include_str!("published.json");
    serde_json::from_str(text).expect("the file is part of the program, and a test reads it")
}

/// Published figures that belong to the rows of a table: of the same rates and sizes beside ours, and highest rates.
pub(crate) fn beside(table: &RecordedTable) -> Vec<Table> {
    let all: Vec<Published> = all().into_iter().filter(|set| set.workload == table.name).collect();
    [latencies(table, &all), rates(&all)].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn latencies(table: &RecordedTable, all: &[Published]) -> Table {
    let mut heads = vec!["of", "system", "year"];
    heads.extend(LATENCIES.map(|(_, _, head)| head));
    let caption = "Beside published figures of the same message size and rate; hardware as below";
    let mut shown = Table::new(caption, &heads);
    let differing = Differing::of(&table.rows);
    // What is asked for, each once, in the order of the reports.
    let mut asked: Vec<&Map<String, Value>> = Vec::new();
    for row in all.iter().flat_map(|set| &set.rows).filter(|row| !row.at.is_empty()) {
        if !asked.contains(&&row.at) {
            asked.push(&row.at);
        }
    }
    for at in asked {
        let ours: Vec<_> = table
            .rows
            .iter()
            .filter(|row| figures::has(&row.figures, at) && has_payload(&row.figures))
            .collect();
        if ours.is_empty() {
            continue;
        }
        let of =
            at.iter().map(|(key, value)| format!("{key} {}", plain(value))).collect::<Vec<_>>().join(", ");
        let us = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| number(ns / 1e3));
        for row in ours {
            let keys: Vec<&str> = at.keys().map(String::as_str).collect();
            let mut name = figures::name(row, &differing, &keys);
            if !figures::is_sustained(row) {
                name.push_str(", not sustained");
            }
            let cells = LATENCIES.map(|(_, path, _)| us(latency(&row.figures, path)));
            shown.row([of.clone(), format!("here: {name}"), String::new()].into_iter().chain(cells));
        }
        for set in all {
            for row in set.rows.iter().filter(|row| row.at == *at) {
                let cells = LATENCIES.map(|(key, ..)| us(row.figures.get(key).and_then(Value::as_f64)));
                shown.row([of.clone(), set.name.clone(), set.year.to_string()].into_iter().chain(cells));
            }
        }
    }
    shown
}

/// Whether an update, if that is what the row is about, is as long as the published ones.
fn has_payload(row: &Value) -> bool {
    row.get("payload").and_then(Value::as_u64).is_none_or(|bytes| bytes == PAYLOAD)
}

/// A latency of ours; none for a percentile that stands for less than one message of a run, which would be the longest.
fn latency(row: &Value, path: &str) -> Option<f64> {
    let above = match path {
        "p99_ns" => 0.01,
        "p999_ns" => 0.001,
        _ => 1.0,
    };
    let runs = figures::runs(row, path).map_or(1, |runs| runs.len());
    let points = figures::figure(row, "all.points").map(|points| points / runs as f64 * above);
    figures::figure(row, path).filter(|_| points.is_none_or(|points| points > 0.999))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn rates(all: &[Published]) -> Table {
    let mut shown =
        Table::new("Published highest rates", &["system", "year", "hardware", "test", "a second"]);
    for set in all {
        for row in &set.rows {
            if let (Some(test), Some(per_s)) = (&row.test, row.per_s) {
                let (year, hardware) = (set.year.to_string(), set.hardware.clone());
                shown.row([set.name.clone(), year, hardware, test.clone(), number(per_s)]);
            }
        }
    }
    shown
}

/// The hardware of every published system of these workloads.
pub(crate) fn hardware(workloads: &[&str]) -> Table {
    let mut shown = Table::new("Published systems", &["system", "year", "hardware"]);
    for set in all().iter().filter(|set| workloads.contains(&set.workload.as_str())) {
        shown.row([set.name.clone(), set.year.to_string(), set.hardware.clone()]);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::run::RecordedRow;
    use serde_json::json;

    #[test]
    fn published_figures_stand_beside_ours_of_the_same_rate() {
        let ours = json!({ "way": "separate", "rate": 1_000, "all": { "mean_ns": 50_000.0 }, "is_sustained": false });
        let rows = vec![RecordedRow { figures: ours, ..RecordedRow::default() }];
        let table = RecordedTable { name: "end-to-end".to_owned(), rows, ..RecordedTable::default() };
        let [shown] = &beside(&table)[..] else { panic!("one table") };
        assert_eq!(shown.rows.len(), 8, "seven published systems had that rate");
        assert_eq!(shown.rows[0][..5], ["rate 1000", "here: separate, not sustained", "", "-", "50"]);
        let slert =
            shown.rows.iter().find(|row| row[1].contains("SLERT 10, Inf")).expect("it is one of them");
        assert_eq!(slert[2..8], ["2008", "-", "140", "6", "130", "209"]);
    }

    #[test]
    fn what_is_not_alike_does_not_stand_beside_them() {
        let row = |payload: u64| {
            let runs = json!({ "median": 9_000.0, "runs": [9_000.0, 9_000.0] });
            let all = json!({ "mean_ns": 50_000.0, "points": 300 });
            let figures = json!({ "way": "separate", "rate": 1_000, "payload": payload, "p99_ns": runs, "p999_ns": runs, "all": all });
            RecordedRow { figures, ..RecordedRow::default() }
        };
        let rows = vec![row(74), row(330)];
        let table = RecordedTable { name: "end-to-end".to_owned(), rows, ..RecordedTable::default() };
        let [shown] = &beside(&table)[..] else { panic!("one table") };
        let ours: Vec<_> = shown.rows.iter().filter(|row| row[1].starts_with("here")).collect();
        assert_eq!(ours.len(), 1, "{ours:?}");
        assert_eq!(ours[0][8..], ["9", "-"], "150 points a run have no 99.9 %");
    }

    #[test]
    fn published_rates_are_listed() {
        let table = RecordedTable { name: "producer-50-50".to_owned(), ..RecordedTable::default() };
        let [shown] = &beside(&table)[..] else { panic!("one table") };
        assert!(shown.rows.iter().any(|row| row[4] == "10.1 M"), "{shown:?}");
        assert!(beside(&RecordedTable { name: "rwf".to_owned(), ..RecordedTable::default() }).is_empty());
        assert_eq!(hardware(&["pingpong"]).rows.len(), 2);
    }
}
