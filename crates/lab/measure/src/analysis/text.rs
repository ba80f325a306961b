//! An analysis for people.

use std::fmt;

use super::{Analysis, Figures, Pair};
use crate::Table;

/// Buckets of a histogram that are shown; programs get all.
const SHOWN_BUCKETS: usize = 60;
/// Width of the longest bar.
const BAR: u64 = 40;

impl fmt::Display for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&[
            "point",
            "stream",
            "host",
            "process",
            "clock",
            "call ns",
            "messages",
            "messages/s",
            "not recorded",
        ]);
        for file in &self.files {
            table.row([
                file.point.clone(),
                file.stream.clone(),
                file.host.clone(),
                format!("{} {}", file.program, file.pid),
                file.clock.to_owned(),
                format!("{:.1}", file.cost_ns),
                file.records.to_string(),
                format!("{:.0}", file.per_second),
                file.not_recorded.to_string(),
            ]);
        }
        write!(f, "{table}")?;
        for pair in &self.pairs {
            write!(f, "\n{pair}")?;
        }
        for note in &self.notes {
            write!(f, "\nNote: {note}\n")?;
        }
        Ok(())
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} -> {}\n", self.from, self.to)?;
        let rows = [
            ("messages", format!("{} at {:.0}/s", self.sent, self.sent_per_second)),
            ("at both ends", format!("{} at {:.0}/s", self.matched, self.received_per_second)),
            ("lost", self.lost.to_string()),
            ("only at the end", self.only_at_to.to_string()),
            (
                "duplicates",
                format!("{} at the start, {} at the end", self.duplicates_from, self.duplicates_to),
            ),
            ("reordered", self.reordering()),
        ];
        rows.iter().try_for_each(|(name, text)| writeln!(f, "  {name:<16} {text}"))?;
        if !self.first_lost.is_empty() {
            let ids: Vec<String> = self.first_lost.iter().map(|(_, id)| id.to_string()).collect();
            let more = if self.lost as usize > ids.len() { ", ..." } else { "" };
            writeln!(f, "  {:<16} {}{more}", "lost ids", ids.join(", "))?;
        }
        match (&self.latency, self.error_ns) {
            (Some(latency), Some(error_ns)) => {
                writeln!(f, "  {:<16} {}", "clock", self.clock)?;
                writeln!(f, "  {:<16} {} us at most", "clock error", micros(error_ns as f64))?;
                write!(f, "\n{latency}")?;
            }
            _ => writeln!(f, "  {:<16} none: {}", "latency", self.clock)?,
        }
        self.over_time(f)
    }
}

impl Pair {
    fn reordering(&self) -> String {
        match self.reordered {
            0 => "0".to_owned(),
            count => format!(
                "{count}, behind by {:.1} numbers in the mean, {} at most",
                self.reordered_mean_behind, self.reordered_most_behind
            ),
        }
    }

    fn over_time(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.over_time.is_empty() {
            return Ok(());
        }
        let mut table = Table::new(&["from s", "messages", "lost", "mean us", "shortest us", "longest us"]);
        for span in &self.over_time {
            let none = span.sent == span.lost || self.latency.is_none();
            let time = |ns: f64| if none { "-".to_owned() } else { micros(ns) };
            table.row([
                format!("{:.3}", span.begins_s),
                span.sent.to_string(),
                span.lost.to_string(),
                time(span.mean_ns),
                time(span.min_ns as f64),
                time(span.max_ns as f64),
            ]);
        }
        write!(f, "\n{table}")
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return writeln!(f, "  no message is at both ends");
        }
        let mut heads = vec!["mean us", "deviation us", "shortest us"];
        let names: Vec<String> = self.percentiles_ns.iter().map(|(name, _)| format!("{name} us")).collect();
        heads.extend(names.iter().map(|name| &**name));
        heads.push("longest us");
        let mut table = Table::new(&heads);
        let first = [self.mean_ns, self.deviation_ns, self.min_ns as f64].map(micros);
        let percentiles = self.percentiles_ns.iter().map(|(_, ns)| ns.map_or_else(|| "-".to_owned(), micros));
        table.row(first.into_iter().chain(percentiles).chain([micros(self.max_ns as f64)]));
        write!(f, "{table}")?;
        if self.negative > 0 {
            writeln!(f, "\n  {} latencies are below zero", self.negative)?;
        }
        self.histogram(f)
    }
}

impl Figures {
    fn histogram(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.buckets.iter().map(|(_, count)| *count).max().unwrap_or(1);
        let mut table = Table::new(&["from us", "messages", "share"]);
        for (begins, count) in self.buckets.iter().take(SHOWN_BUCKETS) {
            let bar = "#".repeat((u128::from(*count) * u128::from(BAR)).div_ceil(u128::from(most)) as usize);
            table.row([
                micros(*begins as f64),
                count.to_string(),
                format!("{bar:<width$}", width = BAR as usize),
            ]);
        }
        write!(f, "\n{table}")?;
        let rest: u64 =
            self.buckets.iter().skip(SHOWN_BUCKETS).map(|(_, count)| count).sum::<u64>() + self.beyond;
        if rest > 0 {
            let buckets = self.buckets.len().saturating_sub(SHOWN_BUCKETS);
            writeln!(f, "{rest} messages in {buckets} further buckets; --json has them")?;
        }
        Ok(())
    }
}

fn micros(ns: f64) -> String {
    format!("{:.3}", ns / 1000.0)
}
