//! The Prometheus text exposition format, version 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write;

use counters::{Descriptor, Kind, Registered};

/// What the answer's `Content-Type` says.
pub(super) const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Before each name, so that it is not another program's.
const PREFIX: &str = "tickcast_";

/// One counter of every set that has it.
struct Metric<'a> {
    descriptor: &'a Descriptor,
    samples: Vec<(&'a Registered, u64)>,
}

/// All sets, each counter under one head with its meaning and unit.
pub(super) fn text(sets: &[Registered]) -> String {
    let mut by_name: BTreeMap<&str, Metric> = BTreeMap::new();
    let mut values = Vec::new();
    for registered in sets {
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
    out
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
