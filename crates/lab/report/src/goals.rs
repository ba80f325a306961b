//! What the project means to reach, and whether a report shows it.

use measure::run::RecordedTable;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::figures;
use crate::page::Table;
use crate::scale::number;

/// A figure that is to be reached.
#[derive(Debug, Deserialize)]
pub(crate) struct Goal {
    name: String,
    workload: String,
    /// The row, or the state of a note, by its values.
    #[serde(rename = "where")]
    at: Map<String, Value>,
    /// Path of the figure in it.
    figure: String,
    /// The figure is a ratio to that of this row.
    beside: Option<Map<String, Value>>,
    at_most: Option<f64>,
    at_least: Option<f64>,
    shown: Shown,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shown {
    /// Nanoseconds.
    Time,
    Ratio,
    Rate,
}

pub(crate) fn all() -> Vec<Goal> {
    serde_json::from_str(include_str!("goals.json"))
        .expect("the file is part of the program, and a test reads it")
}

/// The goals that these tables say something about with a verdict, and the names of the others.
pub(crate) fn verdicts(goals: &[Goal], tables: &[&RecordedTable]) -> (Table, Vec<String>) {
    let mut table = Table::new("Goals of the project", &["goal", "asked for", "measured", "verdict"]);
    let mut others = Vec::new();
    for goal in goals {
        match goal.measured(tables) {
            Some(measured) => table.row([
                goal.name.clone(),
                goal.bound(),
                goal.shown(measured),
                if goal.is_met(measured) { "met" } else { "missed" }.to_owned(),
            ]),
            None => others.push(goal.name.clone()),
        }
    }
    (table, others)
}

impl Goal {
    /// The last one, if several tables have it.
    fn measured(&self, tables: &[&RecordedTable]) -> Option<f64> {
        let of = |table: &RecordedTable, at: &Map<String, Value>| {
            let all = table.rows.iter().map(|row| &row.figures).chain(&table.states);
            let found = all.rev().find(|figures| figures::has(figures, at))?;
            figures::figure(found, &self.figure).filter(|value| value.is_finite())
        };
        let of_table = |table: &&&RecordedTable| {
            let measured = of(table, &self.at)?;
            let Some(beside) = &self.beside else { return Some(measured) };
            let beside = of(table, beside).filter(|value| *value > 0.0)?;
            Some(measured / beside)
        };
        tables.iter().rev().filter(|table| table.name == self.workload).find_map(|table| of_table(&table))
    }

    fn is_met(&self, measured: f64) -> bool {
        self.at_most.is_none_or(|bound| measured <= bound)
            && self.at_least.is_none_or(|bound| measured >= bound)
    }

    fn bound(&self) -> String {
        let most = self.at_most.map(|bound| format!("at most {}", self.shown(bound)));
        let least = self.at_least.map(|bound| format!("at least {}", self.shown(bound)));
        most.into_iter().chain(least).collect::<Vec<_>>().join(", ")
    }

    fn shown(&self, value: f64) -> String {
        match self.shown {
            Shown::Time if value < 1e3 => format!("{} ns", number(value)),
            Shown::Time => format!("{} us", number(value / 1e3)),
            Shown::Ratio => format!("{value:.2}"),
            Shown::Rate => format!("{}/s", number(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::run::RecordedRow;
    use serde_json::json;

    fn table(name: &str, rows: &[Value]) -> RecordedTable {
        let rows =
            rows.iter().map(|figures| RecordedRow { figures: figures.clone(), ..RecordedRow::default() });
        RecordedTable { name: name.to_owned(), rows: rows.collect(), ..RecordedTable::default() }
    }

    #[test]
    fn every_goal_has_a_bound_and_a_place() {
        for goal in all() {
            assert!(goal.at_most.is_some() != goal.at_least.is_some(), "{}", goal.name);
            assert!(!goal.figure.is_empty() && !goal.at.is_empty(), "{}", goal.name);
        }
    }

    #[test]
    fn a_goal_is_met_missed_or_not_measured() {
        let goals: Vec<Goal> = serde_json::from_value(json!([
            { "name": "a", "workload": "w", "where": { "way": "ours" }, "figure": "to_raw", "at_most": 1.1, "shown": "ratio" },
            { "name": "b", "workload": "w", "where": { "way": "ours" }, "figure": "all.mean_ns", "at_most": 999, "shown": "time" },
            { "name": "c", "workload": "w", "where": { "way": "ours" }, "figure": "per_s", "beside": { "way": "aeron" }, "at_least": 2, "shown": "ratio" },
            { "name": "e", "workload": "w", "where": { "clock": "tsc" }, "figure": "cost_ns", "at_most": 9, "shown": "time" },
            { "name": "d", "workload": "other", "where": { "way": "ours" }, "figure": "to_raw", "at_least": 2, "shown": "rate" },
        ])).expect("goals");
        let ours =
            json!({ "way": "ours", "to_raw": 1.1, "all": { "mean_ns": 1_000 }, "per_s": { "median": 50.0 } });
        let mut table = table("w", &[ours, json!({ "way": "aeron, claim", "per_s": 20 })]);
        table.states.push(json!({ "clock": "tsc", "cost_ns": 9.5 }));
        let (table, others) = verdicts(&goals, &[&table]);
        assert_eq!(table.rows[0], ["a", "at most 1.10", "1.10", "met"]);
        assert_eq!(table.rows[1], ["b", "at most 999 ns", "1 us", "missed"]);
        assert_eq!(table.rows[2], ["c", "at least 2.00", "2.50", "met"]);
        assert_eq!(table.rows[3], ["e", "at most 9 ns", "9.5 ns", "missed"]);
        assert_eq!((table.rows.len(), others), (4, vec!["d".to_owned()]));
    }
}
