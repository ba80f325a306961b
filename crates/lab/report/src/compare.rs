//! What has changed since other runs.

use std::collections::BTreeMap;

use measure::run::{RecordedRow, RecordedTable};
use measure::{COMPARED_MIN, Comparison, Runs};

use crate::figures;
use crate::page::Section;
use crate::page::Table;
use crate::scale::number;

/// Figures of several runs: the path, what it is, and whether more of it is better.
const COMPARED: [(&str, &str, bool); 7] = [
    ("p50_ns", "median us", false),
    ("p99_ns", "99 % us", false),
    ("mean_ns", "mean us", false),
    ("received_per_s", "received/s", true),
    ("out_per_s", "out/s", true),
    ("updates_per_s", "updates/s", true),
    ("images_per_s", "images/s", true),
];

/// Rows that both have, figure by figure.
pub(crate) fn section(new: &[&RecordedTable], old: &[&RecordedTable]) -> Section {
    let mut section = Section::new("What has changed");
    let heads = ["workload", "row", "figure", "before", "now", "ratio", "95 % interval", ""];
    let mut table = Table::new("Medians of the runs, and their ratio with its confidence interval", &heads);
    let mut few = 0;
    for (name, row, before) in pairs(new, old) {
        for (path, what, more_is_better) in COMPARED {
            let (Some(now), Some(then)) = (runs(row, path), runs(before, path)) else { continue };
            let Some(compared) = Comparison::of(&now, &then) else {
                few += 1;
                continue;
            };
            let by = if path.ends_with("_ns") { 1e3 } else { 1.0 };
            let verdict = match (compared.is_change(), compared.ratio > 1.0) {
                (false, _) => "no difference shown",
                (true, is_more) if is_more == more_is_better => "better",
                (true, _) => "worse",
            };
            let of =
                figures::identity(row).into_iter().map(|(_, value)| value).collect::<Vec<_>>().join(", ");
            let (low, high) = compared.interval;
            table.row([
                name.to_owned(),
                of,
                what.to_owned(),
                number(then.median() / by),
                number(now.median() / by),
                format!("{:.3}", compared.ratio),
                format!("{low:.3} to {high:.3}"),
                verdict.to_owned(),
            ]);
        }
    }
    section.text(
        "The interval is that of the bootstrap over runs. Where it has 1 in it, the difference may be noise. Of many rows, one \
         in twenty may be called a change by chance.",
    );
    if few > 0 {
        section.text(format!(
            "{few} figures are left out: a comparison needs {COMPARED_MIN} runs on each side, with figures above 0."
        ));
    }
    section.table(table);
    section
}

fn runs(row: &RecordedRow, path: &str) -> Option<Runs> {
    Some(figures::runs(&row.figures, path)?.into_iter().collect())
}

/// Rows of both that are of the same thing; what one side has twice is left out.
fn pairs<'a>(
    new: &[&'a RecordedTable],
    old: &[&'a RecordedTable],
) -> Vec<(&'a str, &'a RecordedRow, &'a RecordedRow)> {
    let (new_rows, old_rows) = (named(new), named(old));
    let mut pairs = Vec::new();
    for table in new {
        for row in &table.rows {
            let name = (table.name.as_str(), figures::identity(row), figures::is_sustained(row));
            if let (Some([_]), Some([before])) =
                (new_rows.get(&name).map(Vec::as_slice), old_rows.get(&name).map(Vec::as_slice))
            {
                pairs.push((name.0, row, *before));
            }
        }
    }
    pairs
}

/// Workload, what tells the row from others, whether it was sustained: a search has one of each.
type Name<'a> = (&'a str, Vec<(&'static str, String)>, bool);

fn named<'a>(tables: &[&'a RecordedTable]) -> BTreeMap<Name<'a>, Vec<&'a RecordedRow>> {
    let mut rows: BTreeMap<Name, Vec<&RecordedRow>> = BTreeMap::new();
    for table in tables {
        for row in &table.rows {
            let name = (table.name.as_str(), figures::identity(row), figures::is_sustained(row));
            rows.entry(name).or_default().push(row);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Block;
    use serde_json::json;

    fn table(ways: &[(&str, [f64; 5])]) -> RecordedTable {
        let row = |(way, runs): &(&str, [f64; 5])| RecordedRow {
            figures: json!({ "way": way, "p50_ns": { "median": runs[2], "runs": runs } }),
            ..RecordedRow::default()
        };
        RecordedTable {
            name: "w".to_owned(),
            rows: ways.iter().map(row).collect(),
            ..RecordedTable::default()
        }
    }

    #[test]
    fn rows_of_both_are_compared_and_noise_is_no_progress() {
        let steady = [100.0, 101.0, 102.0, 103.0, 104.0];
        let new = table(&[("same", steady), ("twice", steady.map(|ns| 2.0 * ns)), ("new", steady)]);
        let old = table(&[("same", [99.0, 101.0, 102.5, 103.0, 105.0]), ("twice", steady), ("gone", steady)]);
        let section = section(&[&new], &[&old]);
        let Some(Block::Table(table)) = section.blocks.last() else { panic!("{section:?}") };
        let told: Vec<(&str, &str)> =
            table.rows.iter().map(|row| (row[1].as_str(), row[7].as_str())).collect();
        assert_eq!(told, [("same", "no difference shown"), ("twice", "worse")]);
        assert_eq!(table.rows[1][5], "2.000");
    }
}
