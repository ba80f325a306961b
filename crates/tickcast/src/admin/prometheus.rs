//! The Prometheus text exposition format, version 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write;

use counters::{Descriptor, Histogram, Kind, Registered};

/// What the answer's `Content-Type` says.
pub(super) const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Before each name, so that it is not another program's.
const PREFIX: &str = "tickcast_";

/// One counter of every set that has it.
struct Metric<'a> {
    descriptor: &'a Descriptor,
    samples: Vec<(&'a Registered, u64)>,
}

/// All sets, each counter under one head with its meaning and unit; then those that are histograms.
pub(super) fn text(sets: &[Registered]) -> String {
    let mut by_name: BTreeMap<&str, Metric> = BTreeMap::new();
    let mut values = Vec::new();
    for registered in sets.iter().filter(|registered| registered.set.histogram().is_none()) {
        values.clear();
        registered.set.values(&mut values);
        for (descriptor, &value) in registered.set.descriptors().iter().zip(&values) {
            let metric = by_name.entry(descriptor.name).or_insert(Metric { descriptor, samples: Vec::new() });
            metric.samples.push((registered, value));
        }
    }
    let mut out = String::new();
    for (name, Metric { descriptor, samples }) in by_name {
        let name = format_args!("{PREFIX}{name}");
        let kind = match descriptor.kind {
            Kind::Total => "counter",
            Kind::Gauge => "gauge",
        };
        // Writing to a String cannot fail.
        let _ =
            writeln!(out, "# HELP {name} {} ({})\n# TYPE {name} {kind}", descriptor.meaning, descriptor.unit);
        for (registered, value) in samples {
            let _ = writeln!(out, "{name}{} {value}", labels(registered));
        }
    }
    histograms(sets, &mut out);
    out
}

/// Each histogram: how many are within each bound, their sum in seconds, how many there are.
fn histograms(sets: &[Registered], out: &mut String) {
    let mut by_name: BTreeMap<&str, Vec<(Histogram, &Registered)>> = BTreeMap::new();
    for registered in sets {
        if let Some(histogram) = registered.set.histogram() {
            by_name.entry(histogram.name).or_default().push((histogram, registered));
        }
    }
    let mut values = Vec::new();
    for (name, all) in by_name {
        let meaning = all.first().map_or("", |(histogram, _)| histogram.meaning);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# HELP {PREFIX}{name} {meaning}\n# TYPE {PREFIX}{name} histogram");
        for (histogram, registered) in all {
            values.clear();
            registered.set.values(&mut values);
            let (labels, mut count) = (labels(registered), 0);
            let begin = labels.strip_suffix('}').map_or("{".to_owned(), |begin| format!("{begin},"));
            let bounds = histogram.bounds.iter().chain(&["+Inf"]);
            for (bound, within) in bounds.zip(&values) {
                count += within;
                let _ = writeln!(out, "{PREFIX}{name}_bucket{begin}le=\"{bound}\"}} {count}");
            }
            let sum_ns = values.get(histogram.bounds.len() + 1).copied().unwrap_or(0);
            let (seconds, rest) = (sum_ns / 1_000_000_000, sum_ns % 1_000_000_000);
            let _ = writeln!(out, "{PREFIX}{name}_sum{labels} {seconds}.{rest:09}");
            let _ = writeln!(out, "{PREFIX}{name}_count{labels} {count}");
        }
    }
}

fn labels(registered: &Registered) -> String {
    if registered.labels.is_empty() {
        return String::new();
    }
    let quoted = registered.labels.iter().map(|(name, value)| {
        format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
    });
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use counters::table::HopLatency;

    use super::*;

    #[test]
    fn a_histogram_counts_what_is_within_each_bound() {
        let latency = Arc::new(HopLatency::default());
        [900, 1_500, 1_900, 2_000_000_000].into_iter().for_each(|ns| latency.observe(ns, 1));
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let labels = vec![label("role", "p2ps"), label("hop", "backbone")];
        let shown = text(&[
            Registered { labels, set: latency.clone() },
            Registered { labels: Vec::new(), set: latency },
        ]);
        let named = "tickcast_hop_latency_seconds";
        assert_eq!(shown.matches(&format!("# TYPE {named} histogram\n")).count(), 1);
        for line in [
            "_bucket{role=\"p2ps\",hop=\"backbone\",le=\"0.000001\"} 1",
            "_bucket{role=\"p2ps\",hop=\"backbone\",le=\"0.000002\"} 3",
            "_bucket{role=\"p2ps\",hop=\"backbone\",le=\"1.048576\"} 3",
            "_bucket{role=\"p2ps\",hop=\"backbone\",le=\"+Inf\"} 4",
            "_sum{role=\"p2ps\",hop=\"backbone\"} 2.000004300",
            "_count{role=\"p2ps\",hop=\"backbone\"} 4",
            "_bucket{le=\"0.000001\"} 1",
            "_count 4",
        ] {
            assert!(shown.contains(&format!("\n{named}{line}\n")), "{line}: {shown}");
        }
        assert!(!shown.contains("at_most"), "not as counters besides");
    }
}
