//! Lines that both commands print: latencies, processor time and memory.

use std::io::Write;

use serde_json::json;

use crate::TestToolError;
use crate::statistics::{LatencyStatistics, Moments};

/// (greatest, least, mean) as an object.
pub(crate) fn range_json((max, min, mean): (f64, f64, f64)) -> serde_json::Value {
    json!({ "max": max, "min": min, "mean": mean })
}

/// Writes a line; it is seen at once.
pub(crate) fn line(out: &mut dyn Write, text: &str) -> Result<(), TestToolError> {
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(TestToolError::Output)
}

/// Count, mean, deviation, least and greatest as an object, nanoseconds.
pub(crate) fn moments_json(moments: &Moments) -> serde_json::Value {
    json!({
        "count": moments.count,
        "mean_ns": moments.mean_ns().round() as u64,
        "stddev_ns": moments.deviation_ns().round() as u64,
        "min_ns": moments.min_ns,
        "max_ns": moments.max_ns,
    })
}

/// The lines of a latency with its percentiles, or that there is none.
pub(crate) fn latency(
    out: &mut dyn Write,
    what: &str,
    latency: &LatencyStatistics,
    none: &str,
) -> Result<(), TestToolError> {
    if latency.moments.count == 0 {
        return line(out, &format!("  {none}"));
    }
    moments(out, what, &latency.moments)?;
    let [p50, p90, p99, p999] = latency.percentiles_ns().map(|ns| ns as f64 / 1e3);
    line(out, &format!("  {what} percentiles 50/90/99/99.9 (usec): {p50:.1} {p90:.1} {p99:.1} {p999:.1}"))
}

/// The lines of a latency; none without one.
pub(crate) fn moments(out: &mut dyn Write, what: &str, moments: &Moments) -> Result<(), TestToolError> {
    if moments.count == 0 {
        return Ok(());
    }
    for (part, ns) in [
        ("avg", moments.mean_ns()),
        ("std dev", moments.deviation_ns()),
        ("max", moments.max_ns as f64),
        ("min", moments.min_ns as f64),
    ] {
        line(out, &format!("  {what} {part} (usec): {:.1}", ns / 1e3))?;
    }
    line(out, &format!("  {what} samples: {}", moments.count))
}

/// The lines of processor time and memory: (greatest, least, mean) each.
pub(crate) fn usage(
    out: &mut dyn Write,
    samples: usize,
    cpu: (f64, f64, f64),
    memory: (f64, f64, f64),
) -> Result<(), TestToolError> {
    line(out, &format!("  CPU/Memory samples: {samples}"))?;
    for (what, (max, min, mean)) in [("CPU Usage {} (%)", cpu), ("Memory Usage {} (MB)", memory)] {
        for (part, value) in [("max", max), ("min", min), ("avg", mean)] {
            line(out, &format!("  {}: {value:.2}", what.replace("{}", part)))?;
        }
    }
    Ok(())
}
