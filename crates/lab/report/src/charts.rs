//! Which charts a table has: as the published reports have them.

use measure::run::{RecordedRow, RecordedTable};

use crate::chart::{Axis, Chart, Drawn, Point, SERIES_MAX, Series};
use crate::figures::{self, Differing};
use crate::scale::Scale;

/// Histograms and bar charts of one table.
const EACH_MAX: usize = 6;
/// Columns of a histogram.
const COLUMNS_MAX: usize = 400;
/// Width of a column, as the published histograms have it.
const COLUMN_NS: u64 = 10_000;

/// All charts of a table.
pub(crate) fn of(table: &RecordedTable) -> Vec<Chart> {
    let mut charts = against(table, "rate", "messages a second");
    if charts.is_empty() {
        charts = against(table, "size", "bytes of a message");
    }
    charts.extend(highest_rates(table));
    charts.extend(bars(table));
    charts.extend(percentiles(table));
    charts.extend(histograms(table));
    charts
}

/// Mean, median, longest and deviation against something that the rows differ in.
fn against(table: &RecordedTable, key: &str, name: &str) -> Vec<Chart> {
    let wanted = [
        ("all.mean_ns", "mean"),
        ("p50_ns", "median"),
        ("p99_ns", "99 %"),
        ("all.longest_ns", "longest"),
        ("all.deviation_ns", "standard deviation"),
    ];
    let chart = |(path, what): (&str, &str)| {
        let series = series(table, key, path);
        let enough = series.iter().any(|series| series.points.len() > 1);
        enough.then(|| Chart {
            title: format!("{}: {what} against {name}", table.name),
            x: Axis::new(name, Scale::Logarithmic),
            y: Axis::new(format!("{what}, us"), Scale::Logarithmic),
            drawn: Drawn::Lines,
            series,
        })
    };
    wanted.into_iter().filter_map(chart).collect()
}

/// A figure in microseconds by a key, a series for each kind of row; only of what was sustained.
fn series(table: &RecordedTable, key: &str, path: &str) -> Vec<Series> {
    let differing = Differing::of(&table.rows);
    let mut all: Vec<Series> = Vec::new();
    for row in table.rows.iter().filter(|row| figures::is_sustained(row)) {
        let (Some(x), Some(y)) = (figures::figure(&row.figures, key), figures::figure(&row.figures, path))
        else {
            continue;
        };
        let name = figures::name(row, &differing, &[key]);
        let range = figures::range(&row.figures, path).map(|(low, high)| (low / 1e3, high / 1e3));
        let point = Point { range, ..Point::new(x, y / 1e3) };
        match all.iter().position(|series| series.name == name) {
            Some(at) => all[at].points.push(point),
            None if all.len() < SERIES_MAX => all.push(Series { name, points: vec![point] }),
            None => {}
        }
    }
    all.iter_mut().for_each(|series| series.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    all
}

/// What was searched, or came out of a fan-out: the highest rate of each kind of row that was sustained.
fn highest_rates(table: &RecordedTable) -> Option<Chart> {
    let has = |key: &str| table.rows.iter().any(|row| row.figures.get(key).is_some());
    let path =
        ["out_per_s", "rate"].into_iter().find(|path| has(path) && (*path != "rate" || has("trials")))?;
    let bar = |(name, row): (String, &RecordedRow)| {
        let point = Point {
            range: figures::range(&row.figures, path),
            ..Point::new(0.0, figures::figure(&row.figures, path)?)
        };
        Some(Series { name, points: vec![point] })
    };
    let series: Vec<Series> =
        highest(table, |_| true).into_iter().filter_map(bar).take(2 * SERIES_MAX).collect();
    (!series.is_empty()).then(|| Chart {
        title: format!("{}: highest rate that was sustained", table.name),
        x: Axis::new("a second", Scale::Linear),
        y: Axis::new("", Scale::Linear),
        drawn: Drawn::Bars,
        series,
    })
}

/// Rates and medians side by side, a chart for each message size and path.
fn bars(table: &RecordedTable) -> Vec<Chart> {
    let of_rate = ["received_per_s", "out_per_s", "updates_per_s", "images_per_s"].into_iter().find(|path| {
        table
            .rows
            .iter()
            .any(|row| figures::range(&row.figures, path).is_some() && row.figures.get("p50_ns").is_none())
    });
    let has_rates = table.rows.iter().any(|row| row.figures.get("rate").is_some());
    let (path, name, by) = match of_rate {
        Some(path) => (path, "a second", 1.0),
        None if has_rates => return Vec::new(),
        None => ("p50_ns", "median, us", 1e3),
    };
    let kinds = ["path", "size", "datagram"];
    let differing = Differing::of(&table.rows);
    let mut groups: Vec<(String, Vec<&RecordedRow>)> = Vec::new();
    for row in table.rows.iter().filter(|row| figures::figure(&row.figures, path).is_some()) {
        let identity = figures::identity(row);
        let group = identity.into_iter().filter(|(key, _)| kinds.contains(key)).map(|(key, value)| {
            if key == "datagram" { format!("datagrams of {value}").replace("datagram ", "") } else { value }
        });
        let group = group.collect::<Vec<_>>().join(", ");
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((group, vec![row])),
        }
    }
    let chart = |(group, rows): (String, Vec<&RecordedRow>)| Chart {
        title: [&table.name, ": ", &group].concat().trim_end_matches(": ").to_owned(),
        x: Axis::new(name, Scale::Linear),
        y: Axis::new("", Scale::Linear),
        drawn: Drawn::Bars,
        series: rows
            .iter()
            .take(2 * SERIES_MAX)
            .filter_map(|row| {
                let range = figures::range(&row.figures, path).map(|(low, high)| (low / by, high / by));
                let point = Point { range, ..Point::new(0.0, figures::figure(&row.figures, path)? / by) };
                Some(Series { name: figures::name(row, &differing, &kinds), points: vec![point] })
            })
            .collect(),
    };
    groups.into_iter().filter(|(_, rows)| rows.len() > 1).take(EACH_MAX).map(chart).collect()
}

/// Of each kind of row the one with the highest rate that was sustained, among those that are wanted.
fn highest(table: &RecordedTable, is_wanted: impl Fn(&RecordedRow) -> bool) -> Vec<(String, &RecordedRow)> {
    let differing = Differing::of(&table.rows);
    let mut all: Vec<(String, &RecordedRow)> = Vec::new();
    let rate = |row: &RecordedRow| figures::figure(&row.figures, "rate").unwrap_or(0.0);
    for row in table.rows.iter().filter(|row| figures::is_sustained(row) && is_wanted(row)) {
        let name = figures::name(row, &differing, &["rate"]);
        match all.iter_mut().find(|(there, _)| *there == name) {
            Some((_, there)) if rate(there) < rate(row) => *there = row,
            Some(_) => {}
            None => all.push((name, row)),
        }
    }
    all
}

fn has_histograms(row: &RecordedRow) -> bool {
    !row.histograms.is_empty()
}

fn at_rate(row: &RecordedRow) -> String {
    let rate = figures::figure(&row.figures, "rate").map(crate::scale::number);
    rate.map(|rate| format!(" at {rate}/s")).unwrap_or_default()
}

/// How long the share of the longest takes: the axis names one in how many.
fn percentiles(table: &RecordedTable) -> Option<Chart> {
    let rows = highest(table, has_histograms);
    let series: Vec<Series> = rows
        .iter()
        .take(SERIES_MAX)
        .map(|(name, row)| {
            let buckets = figures::all_buckets(row);
            Series {
                name: format!("{name}{}", at_rate(row)).trim().to_owned(),
                points: percentile_points(&buckets),
            }
        })
        .collect();
    (!series.is_empty()).then(|| Chart {
        title: format!("{}: percentiles", table.name),
        x: Axis::new("one message in so many takes longer", Scale::Logarithmic),
        y: Axis::new("us", Scale::Logarithmic),
        drawn: Drawn::Curve,
        series,
    })
}

/// For one in 1, 1.26, 1.58, 2, ... of the messages how long it takes, up to as many as there are.
fn percentile_points(buckets: &[(u64, u64)]) -> Vec<Point> {
    let count: u64 = buckets.iter().map(|(_, count)| count).sum();
    let mut points = Vec::new();
    let (mut at, mut below) = (0, 0);
    for step in 0.. {
        let one_in = 10f64.powf(f64::from(step) / 10.0);
        if one_in > count as f64 {
            return points;
        }
        // The bucket with the message that so many are not longer than.
        let rank = ((count as f64) * (1.0 - 1.0 / one_in)).floor() as u64;
        while at < buckets.len() && below + buckets[at].1 <= rank {
            below += buckets[at].1;
            at += 1;
        }
        let Some((ns, _)) = buckets.get(at) else { return points };
        points.push(Point::new(one_in, *ns as f64 / 1e3));
    }
    points
}

fn histograms(table: &RecordedTable) -> Vec<Chart> {
    let chart = |(name, row): (String, &RecordedRow)| {
        let buckets = figures::all_buckets(row);
        let (points, scale, width) = columns(&buckets);
        let of = format!("{name}{}", at_rate(row));
        Chart {
            title: format!("{}: histogram, {}, columns {width}", table.name, of.trim()),
            x: Axis::new("us", scale),
            y: Axis::new("messages", Scale::Logarithmic),
            drawn: Drawn::Columns,
            series: vec![Series { name: String::new(), points }],
        }
    };
    highest(table, has_histograms).into_iter().take(EACH_MAX).map(chart).collect()
}

/// Columns of 10 us where the latencies lie within some hundreds of them; else ten for each power of ten. What is beyond the
/// last column is in it.
fn columns(buckets: &[(u64, u64)]) -> (Vec<Point>, Scale, &'static str) {
    let count: u64 = buckets.iter().map(|(_, count)| count).sum();
    // All but one in a thousand are shorter.
    let (mut below, mut far) = (0, 0);
    for (ns, there) in buckets {
        far = *ns;
        below += there;
        if below as f64 >= count as f64 * 0.999 {
            break;
        }
    }
    let is_linear = (4 * COLUMN_NS..COLUMN_NS * COLUMNS_MAX as u64).contains(&far);
    if is_linear {
        let last = (buckets.last().map_or(0, |(ns, _)| *ns) / COLUMN_NS).min(COLUMNS_MAX as u64);
        let mut counts = vec![0_u64; last as usize + 1];
        buckets.iter().for_each(|(ns, count)| counts[(ns / COLUMN_NS).min(last) as usize] += count);
        let counts = counts.iter().chain([&0]);
        let points = counts.enumerate().map(|(at, count)| Point::new(at as f64 * 10.0, *count as f64));
        return (points.collect(), Scale::Linear, "of 10 us");
    }
    let step = |ns: u64| (10.0 * (ns.max(1) as f64).log10()).floor() as i32;
    let ends = buckets.first().zip(buckets.last()).map(|((low, _), (high, _))| (step(*low), step(*high)));
    let (first, last) = ends.unwrap_or((0, 0));
    let mut counts = vec![0_u64; (last - first) as usize + 1];
    buckets.iter().for_each(|(ns, count)| counts[(step(*ns) - first) as usize] += count);
    let at = |step: usize| 10f64.powf(f64::from(first + step as i32) / 10.0) / 1e3;
    let points =
        counts.iter().chain([&0]).enumerate().map(|(step, count)| Point::new(at(step), *count as f64));
    (points.collect(), Scale::Logarithmic, "ten for each power of ten")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn table(rows: Vec<(Value, Vec<(u64, u64)>)>) -> RecordedTable {
        let row = |(figures, buckets): (Value, Vec<(u64, u64)>)| {
            let histograms = if buckets.is_empty() { Vec::new() } else { vec![buckets] };
            RecordedRow { cells: Vec::new(), figures, histograms }
        };
        RecordedTable {
            name: "load".to_owned(),
            rows: rows.into_iter().map(row).collect(),
            ..RecordedTable::default()
        }
    }

    #[test]
    fn latency_is_drawn_against_the_rate_of_what_was_sustained() {
        let of = |way: &str, rate: u64, ns: f64, is_sustained: bool| {
            let all = json!({ "mean_ns": ns, "longest_ns": ns, "deviation_ns": ns });
            (
                json!({ "way": way, "rate": rate, "is_sustained": is_sustained, "all": all }),
                vec![(ns as u64, 5)],
            )
        };
        let table = table(vec![
            of("ours", 2_000, 9_000.0, true),
            of("ours", 1_000, 8_000.0, true),
            of("ours", 3_000, 1e9, false),
            of("raw", 1_000, 4_000.0, true),
        ]);
        let charts = super::of(&table);
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
        assert_eq!(
            titles[..3],
            [
                "load: mean against messages a second",
                "load: longest against messages a second",
                "load: standard deviation against messages a second",
            ]
        );
        assert_eq!(titles.len(), 6, "{titles:?}");
        assert_eq!(charts[0].series[0].points, [Point::new(1_000.0, 8.0), Point::new(2_000.0, 9.0)]);
        assert_eq!(charts[3].series[0].name, "ours at 2,000/s");
    }

    #[test]
    fn the_highest_rate_of_a_search_is_a_bar() {
        let of = |layout: &str, rate: u64, is_sustained: bool| {
            (json!({ "layout": layout, "rate": rate, "is_sustained": is_sustained, "trials": 7 }), Vec::new())
        };
        let table = table(vec![of("lan", 5_000, true), of("lan", 6_000, false), of("pop", 3_000, true)]);
        let chart = highest_rates(&table).expect("it was searched");
        let bars: Vec<(&str, f64)> =
            chart.series.iter().map(|bar| (bar.name.as_str(), bar.points[0].y)).collect();
        assert_eq!(bars, [("lan", 5_000.0), ("pop", 3_000.0)]);
    }

    #[test]
    fn percentiles_are_those_of_the_buckets() {
        // 1 to 1,000 us, each once.
        let buckets: Vec<(u64, u64)> = (1..=1_000).map(|us| (us * 1_000, 1)).collect();
        let points = percentile_points(&buckets);
        let at =
            |one_in: f64| points.iter().find(|point| (point.x - one_in).abs() < 1e-6).map(|point| point.y);
        assert_eq!([1.0, 10.0, 100.0, 1_000.0].map(at), [Some(1.0), Some(901.0), Some(991.0), Some(1_000.0)]);
        assert_eq!(points.len(), 31);
        assert!(percentile_points(&[]).is_empty());
    }

    #[test]
    fn histograms_have_every_message_once() {
        let all = |points: &[Point]| points.iter().map(|point| point.y).sum::<f64>();
        let near: Vec<(u64, u64)> = (0..100).map(|at| (at * 1_000, 3)).collect();
        let (points, scale, _) = columns(&near);
        assert_eq!((points.len(), all(&points), scale), (11, 300.0, Scale::Linear));
        // One far out is in the last column.
        let far: Vec<(u64, u64)> =
            near.iter().copied().chain([(60_000_000_000, 1)]).map(|(ns, n)| (ns, n * 1_000)).collect();
        let (points, ..) = columns(&far);
        assert!(all(&points) == 301_000.0 && points.len() <= COLUMNS_MAX + 2, "{}", points.len());
        let (points, scale, _) = columns(&[(1, 2), (999, 5), (60_000_000_000, 1)]);
        assert_eq!((all(&points), scale), (8.0, Scale::Logarithmic));
        assert_eq!(columns(&[]).0.len(), 2);
    }
}
