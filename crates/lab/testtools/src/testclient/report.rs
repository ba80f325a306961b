//! What a consumer reports: the lines of the SDK's tools, or JSON.

use std::io::Write;
use std::time::Duration;

use serde_json::json;
use units::Nanos;

use super::{ClientCounts, ClientOutcome, IntervalCounts, TestClientArgs};
use crate::TestToolError;
use crate::command::duration;
use crate::lines::{latency, line, moments_json, range_json, usage};
use crate::usage::UsageWatch;

/// Reports of a run.
pub(super) struct ClientReport {
    is_json: bool,
    what: String,
    item_count: Option<usize>,
    start: Nanos,
    interval: Duration,
    has_posts: bool,
    has_generics: bool,
    usage: UsageWatch,
}

impl ClientReport {
    pub(super) fn new(args: &TestClientArgs, start: Nanos) -> ClientReport {
        ClientReport {
            is_json: args.json,
            what: format!("{} service {}, {} connections", args.host, args.service, args.connections),
            item_count: args.items,
            start,
            interval: duration(args.stats_interval),
            has_posts: args.post_rate > 0,
            has_generics: args.generic_rate > 0,
            usage: UsageWatch::new(),
        }
    }

    /// What is about to be done.
    pub(super) fn begin(&self, out: &mut dyn Write) -> Result<(), TestToolError> {
        if self.is_json {
            return line(out, &json!({ "ev": "start", "what": self.what }).to_string());
        }
        let items = self.item_count.map(|count| format!("{count} items, ")).unwrap_or_default();
        line(out, &format!("{items}{}", self.what))
    }

    /// All images have come.
    pub(super) fn images(&self, out: &mut dyn Write) -> Result<(), TestToolError> {
        let seconds = net::clock::monotonic().since(self.start).as_secs_f64();
        if self.is_json {
            return line(out, &json!({ "ev": "steady", "seconds": seconds }).to_string());
        }
        line(out, &format!("  - all images have come, {seconds:.3} s after the start"))
    }

    /// An interval of all connections.
    pub(super) fn interval(
        &mut self,
        number: u64,
        counts: &IntervalCounts,
        out: &mut dyn Write,
    ) -> Result<(), TestToolError> {
        let (usage, seconds) = (self.usage.look(), self.interval.as_secs_f64());
        let (end, rate) = ((number + 1) as f64 * seconds, counts.updates as f64 / seconds);
        if self.is_json {
            let object = json!({
                "ev": "interval",
                "seconds": end,
                "images": counts.images,
                "updates": counts.updates,
                "update_rate": rate.round() as u64,
                "statuses": counts.statuses,
                "posts": counts.posts,
                "generics": counts.generics,
                "generics_returned": counts.generics_returned,
                "latency": moments_json(&counts.latency[0]),
                "post_latency": moments_json(&counts.latency[1]),
                "generic_latency": moments_json(&counts.latency[2]),
                "cpu_percent": usage.cpu_percent,
                "memory_mib": usage.memory_mib,
            });
            return line(out, &object.to_string());
        }
        line(
            out,
            &format!(
                "{end:03.0}: Images: {:6}, Posts: {:6}, UpdRate: {rate:8.0}, CPU: {:6.2}%, Mem: {:6.2}MB",
                counts.images, counts.posts, usage.cpu_percent, usage.memory_mib
            ),
        )?;
        for (what, moments) in
            ["Latency(usec)", "PostLat(usec)", "GenMsgLat(usec)"].into_iter().zip(&counts.latency)
        {
            if moments.count > 0 {
                line(
                    out,
                    &format!(
                        "  {what}: Avg: {:6.1} StdDev: {:6.1} Max: {:6.1} Min: {:6.1}, Msgs: {}",
                        moments.mean_ns() / 1e3,
                        moments.deviation_ns() / 1e3,
                        moments.max_ns as f64 / 1e3,
                        moments.min_ns as f64 / 1e3,
                        moments.count
                    ),
                )?;
            }
        }
        if counts.generics + counts.generics_returned > 0 {
            let (sent, received) = (counts.generics, counts.generics_returned);
            line(out, &format!("  GenMsgs: sent {sent}, received {received}"))?;
        }
        if counts.statuses > 0 {
            line(out, &format!("  - Received {} status messages.", counts.statuses))?;
        }
        Ok(())
    }

    /// What the run came to.
    pub(super) fn end(
        &mut self,
        now: Nanos,
        outcome: &ClientOutcome,
        out: &mut dyn Write,
    ) -> Result<(), TestToolError> {
        self.usage.look();
        let cpu = self.usage.range(|usage| usage.cpu_percent);
        let memory = self.usage.range(|usage| usage.memory_mib);
        if self.is_json {
            let object = json!({
                "ev": "summary",
                "status": if outcome.failures.is_empty() { "OK" } else { "FAILED" },
                "failures": outcome.failures,
                "startup": times_json(&outcome.counts, now).0,
                "steady": times_json(&outcome.counts, now).1,
                "counts": outcome.counts.to_json(),
                "connections": outcome.connections.iter().map(ClientCounts::to_json).collect::<Vec<_>>(),
                "cpu_percent": range_json(cpu),
                "memory_mib": range_json(memory),
            });
            return line(out, &object.to_string());
        }
        if outcome.connections.len() > 1 {
            for (index, counts) in outcome.connections.iter().enumerate() {
                line(out, &format!("\n--- CLIENT {} SUMMARY ---\n", index + 1))?;
                self.summary(now, counts, out)?;
            }
        }
        line(out, "\n--- OVERALL SUMMARY ---\n")?;
        self.summary(now, &outcome.counts, out)?;
        usage(out, self.usage.count(), cpu, memory)?;
        for failure in &outcome.failures {
            line(out, &format!("\nERROR: TEST FAILED: {failure}"))?;
        }
        Ok(())
    }

    fn summary(&self, now: Nanos, counts: &ClientCounts, out: &mut dyn Write) -> Result<(), TestToolError> {
        let times = Times::of(counts, now);
        line(out, "Startup State Statistics:")?;
        line(out, &format!("  Sampling duration (sec): {:.3}", times.startup_s))?;
        latency(
            out,
            "Latency",
            &counts.startup.latency,
            "No latency information received during startup time.",
        )?;
        line(out, &format!("  Avg update rate: {:.0}", times.startup_rate))?;
        line(out, "\nSteady State Statistics:")?;
        if counts.complete_at.is_some() {
            line(out, &format!("  Sampling duration (sec): {:.3}", times.steady_s))?;
            let none = "No latency information was received during steady-state time.";
            latency(out, "Latency", &counts.steady.latency, none)?;
            if self.has_posts {
                let none = "No posting latency information was received during steady-state time.";
                latency(out, "Posting latency", &counts.post_latency, none)?;
            }
            line(out, &format!("  Avg update rate: {:.0}", times.steady_rate))?;
        } else {
            line(out, "  Steady state was not reached during this test.")?;
        }
        line(out, "\nOverall Statistics:")?;
        line(out, &format!("  Sampling duration (sec): {:.3}", times.startup_s + times.steady_s))?;
        latency(out, "Latency", &counts.overall_latency(), "No latency information was received.")?;
        if self.has_generics {
            latency(
                out,
                "GenMsg latency",
                &counts.generic_latency,
                "No GenMsg latency information was received.",
            )?;
        }
        line(out, "\nTest Statistics:")?;
        let mut lines = vec![
            ("Requests sent", counts.requests),
            ("Refreshes received", counts.images),
            ("Updates received", counts.updates()),
        ];
        if self.has_posts {
            lines.extend([("Posts sent", counts.posts), ("Posts returned", counts.posts_returned)]);
            lines.extend([
                ("Posts acknowledged", counts.posts_acked),
                ("Posts refused", counts.posts_refused),
            ]);
        }
        if self.has_generics {
            lines.extend([("GenMsgs sent", counts.generics), ("GenMsgs received", counts.generics_returned)]);
        }
        // What should not be is only shown where it is.
        let unusual = [
            ("Status messages received", counts.statuses),
            ("Streams closed", counts.closed),
            ("Connections lost", counts.connections_lost),
            ("Fields that could not be decoded", counts.unreadable),
            ("Fields that are not in the dictionary", counts.unknown),
            ("Time stamps of another host or unit", counts.stamps_unusable),
            ("Posts not sent (output buffers)", counts.posts_unsent),
            ("GenMsgs not sent (output buffers)", counts.generics_unsent),
        ];
        lines.extend(unusual.into_iter().filter(|(_, count)| *count > 0));
        for (what, count) in lines {
            line(out, &format!("  {what}: {count}"))?;
        }
        if counts.complete_at.is_some() {
            line(out, &format!("  Image retrieval time (sec): {:.3}", times.startup_s))?;
            line(out, &format!("  Avg image rate: {:.0}", per_second(counts.images, times.startup_s)))?;
        }
        line(out, &format!("  Avg update rate: {:.0}", times.overall_rate))
    }
}

/// How long the parts of a run lasted, and the rates in them.
struct Times {
    startup_s: f64,
    steady_s: f64,
    startup_rate: f64,
    steady_rate: f64,
    overall_rate: f64,
}

impl Times {
    fn of(counts: &ClientCounts, now: Nanos) -> Times {
        let seconds = |from: Option<Nanos>, to: Nanos| {
            from.filter(|from| *from < to).map_or(0.0, |from| to.since(from).as_secs_f64())
        };
        let startup_end = counts.complete_at.unwrap_or(now);
        let steady_s = seconds(counts.complete_at, now);
        let steady = counts.steady.updates + counts.left_out;
        Times {
            startup_s: seconds(counts.requested_at, startup_end),
            steady_s,
            startup_rate: per_second(counts.startup.updates, seconds(counts.first_update_at, startup_end)),
            steady_rate: per_second(steady, steady_s),
            overall_rate: per_second(counts.updates(), seconds(counts.first_update_at, now)),
        }
    }
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn times_json(counts: &ClientCounts, now: Nanos) -> (serde_json::Value, serde_json::Value) {
    let times = Times::of(counts, now);
    let is_complete = counts.complete_at.is_some();
    (
        json!({
            "seconds": times.startup_s,
            "update_rate": times.startup_rate,
            "image_rate": is_complete.then(|| per_second(counts.images, times.startup_s)),
        }),
        json!({ "seconds": times.steady_s, "update_rate": times.steady_rate, "reached": is_complete }),
    )
}
