//! What a provider reports: a line each interval, a summary at the end.

use std::io::Write;
use std::time::Duration;

use serde_json::json;
use units::Nanos;

use super::{ServerCounts, TestServerArgs};
use crate::TestToolError;
use crate::command::duration;
use crate::lines::{line, moments, range_json, usage};
use crate::usage::{Usage, UsageWatch};

/// Reports of a run.
pub(super) struct Reports {
    is_json: bool,
    what: String,
    interval: Duration,
    start: Nanos,
    last: Nanos,
    next: Nanos,
    before: ServerCounts,
    usage: UsageWatch,
}

impl Reports {
    pub(super) fn new(args: &TestServerArgs, start: Nanos) -> Reports {
        let interval = duration(args.stats_interval);
        let rates = format!(
            "{} updates a second to each connection in {} ticks, {} timed",
            args.update_rate, args.tick_rate, args.latency_rate
        );
        Reports {
            is_json: args.json,
            what: format!("service {} ({}), {rates}", args.service, args.service_id),
            interval,
            start,
            last: start,
            next: start.after(interval),
            before: ServerCounts::default(),
            usage: UsageWatch::new(),
        }
    }

    /// It can be used from now on.
    pub(super) fn ready(&self, place: &str, out: &mut dyn Write) -> Result<(), TestToolError> {
        if self.is_json {
            return line(out, &json!({ "ev": "ready", "place": place }).to_string());
        }
        line(out, &format!("{place}: {}", self.what))
    }

    /// Prints a line if it is time.
    pub(super) fn look(
        &mut self,
        now: Nanos,
        counts: &ServerCounts,
        out: &mut dyn Write,
    ) -> Result<(), TestToolError> {
        if now < self.next {
            return Ok(());
        }
        let usage = self.usage.look();
        self.interval_line(now, counts, usage, out)?;
        self.before = counts.clone();
        self.last = now;
        // A report that comes late is one.
        while self.next <= now {
            self.next = self.next.after(self.interval);
        }
        Ok(())
    }

    fn interval_line(
        &self,
        now: Nanos,
        counts: &ServerCounts,
        usage: Usage,
        out: &mut dyn Write,
    ) -> Result<(), TestToolError> {
        let (seconds, passed) = (now.since(self.start).as_secs(), now.since(self.last).as_secs_f64());
        let rate = (counts.updates - self.before.updates) as f64 / passed;
        if self.is_json {
            let object = json!({
                "ev": "interval",
                "seconds": now.since(self.start).as_secs_f64(),
                "update_rate": rate.round() as u64,
                "cpu_percent": usage.cpu_percent,
                "memory_mib": usage.memory_mib,
                "counts": counts.to_json(),
            });
            return line(out, &object.to_string());
        }
        line(
            out,
            &format!(
                "{seconds:03}: UpdRate: {rate:8.0}, CPU: {:6.2}%, Mem: {:6.2}MB",
                usage.cpu_percent, usage.memory_mib
            ),
        )?;
        let since = |part: fn(&ServerCounts) -> u64| part(counts) - part(&self.before);
        for (count, total, what) in [
            (since(|c| c.requests), counts.requests, "item requests received"),
            (since(|c| c.images), counts.images, "images sent"),
            (since(|c| c.posts), counts.posts, "posts received"),
            (since(|c| c.generics), counts.generics, "generic messages received"),
            (since(|c| c.dropped), counts.dropped, "updates not sent due to lack of output buffers"),
        ] {
            if count > 0 {
                line(out, &format!("  - {count} {what} (total: {total})"))?;
            }
        }
        Ok(())
    }

    /// Prints what the run came to.
    pub(super) fn end(
        &mut self,
        now: Nanos,
        counts: &ServerCounts,
        out: &mut dyn Write,
    ) -> Result<(), TestToolError> {
        self.usage.look();
        let seconds = now.since(self.start).as_secs_f64();
        let cpu = self.usage.range(|usage| usage.cpu_percent);
        let memory = self.usage.range(|usage| usage.memory_mib);
        if self.is_json {
            let object = json!({
                "ev": "summary",
                "seconds": seconds,
                "cpu_percent": range_json(cpu),
                "memory_mib": range_json(memory),
                "counts": counts.to_json(),
            });
            return line(out, &object.to_string());
        }
        line(out, "\n--- OVERALL SUMMARY ---\n\nOverall Statistics:")?;
        line(out, &format!("  Sampling duration (sec): {seconds:.3}"))?;
        for (what, count) in [
            ("Connections accepted", counts.connections),
            ("Image requests received", counts.requests),
            ("Requests refused", counts.refused),
            ("Images sent", counts.images),
            ("Updates sent", counts.updates),
            ("Updates with time stamp", counts.stamped),
            ("Updates not sent (output buffers)", counts.dropped),
            ("Posts received", counts.posts),
            ("Posts reflected", counts.posts_reflected),
            ("GenMsgs received", counts.generics),
            ("GenMsgs sent", counts.generics_answered),
            ("Late ticks", counts.late_ticks),
        ] {
            line(out, &format!("  {what}: {count}"))?;
        }
        let latency = &counts.generic_latency.moments;
        moments(out, "GenMsg latency", latency)?;
        usage(out, self.usage.count(), cpu, memory)
    }
}
