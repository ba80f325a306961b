//! Two points beside each other: every message of the one is looked for at the other.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use observation::{Line, Reader};
use serde::Serialize;

use super::figures::{Collector, Figures};
use super::files::{Observed, Order, Scale};
use super::samples::Samples;
use super::sorter::{Sorted, Sorter};
use super::{AnalysisError, Options};

/// Spans of time that are told apart at most.
const MOST_SPANS: u64 = 100_000;
/// Ids of lost messages that are named.
const NAMED: usize = 10;

/// What became of the messages between two points.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Pair {
    /// The point where they were first.
    pub from: String,
    /// The point where they were then.
    pub to: String,
    /// Ids at the first point, each counted once.
    pub sent: u64,
    /// Ids at both.
    pub matched: u64,
    /// Ids at the first point alone.
    pub lost: u64,
    /// The lowest ten of them, with their streams.
    pub first_lost: Vec<(String, u64)>,
    /// Ids at the second point alone.
    pub only_at_to: u64,
    /// Records beyond the first one of an id, at each point.
    pub duplicates_from: u64,
    /// As above.
    pub duplicates_to: u64,
    /// Messages at the second point that came after one of the same publisher with a higher number.
    pub reordered: u64,
    /// How far the number of such a message was behind the highest that had come, in the mean.
    pub reordered_mean_behind: f64,
    /// At most.
    pub reordered_most_behind: u64,
    /// Messages a second from the first to the last record, at each point.
    pub sent_per_second: f64,
    /// As above.
    pub received_per_second: f64,
    /// By how much a latency may be off; none where there are no latencies.
    pub error_ns: Option<u64>,
    /// By what clock, or why there are none.
    pub clock: String,
    /// Latencies of all messages that are at both points; none where the clocks cannot be compared.
    pub latency: Option<Figures>,
    /// The same by when they were sent, in spans of equal length, if that is asked for. Those without a message are left out.
    pub over_time: Vec<Span>,
}

/// Messages that were sent within a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Span {
    /// When it begins, seconds after the first message.
    pub begins_s: f64,
    /// Messages sent in it.
    pub sent: u64,
    /// Of these, at the first point alone.
    pub lost: u64,
    /// Mean latency of the others, nanoseconds; 0 without any, as below.
    pub mean_ns: f64,
    /// The shortest.
    pub min_ns: i64,
    /// The longest.
    pub max_ns: i64,
    #[serde(skip)]
    sum_ns: i128,
}

/// One stream's messages of one point in the order of their ids: (id, time, how far behind).
enum Ordered {
    /// A file that is in this order.
    File {
        reader: Box<Reader<File>>,
        line: Line,
        path: String,
    },
    Sorted(Sorted<3>),
}

/// Words whose order is that of the times.
const SIGN: u64 = 1 << 63;

impl Ordered {
    fn new(files: &[(&Observed, Line)], options: &Options) -> Result<Ordered, AnalysisError> {
        if let [(file, line)] = files
            && file.ascends
        {
            return Ok(Ordered::File {
                reader: Box::new(file.reader()?),
                line: *line,
                path: file.path.display().to_string(),
            });
        }
        let mut sorter = Sorter::new(options.memory_bytes / 3, &options.scratch);
        for (file, line) in files {
            let (mut reader, mut order) = (file.reader()?, Order::default());
            while let Some(record) = reader.next().map_err(|error| AnalysisError::file(&file.path, error))? {
                let behind = order.behind(record.id).unwrap_or(0);
                sorter.push([record.id, line.at(record.ticks) as u64 ^ SIGN, behind])?;
            }
        }
        Ok(Ordered::Sorted(sorter.finish()?))
    }

    fn next(&mut self) -> Result<Option<(u64, i64, u64)>, AnalysisError> {
        match self {
            Ordered::File { reader, line, path } => {
                let record = reader.next().map_err(|error| AnalysisError::file(Path::new(path), error))?;
                Ok(record.map(|record| (record.id, line.at(record.ticks), 0)))
            }
            Ordered::Sorted(rows) => {
                Ok(rows.next()?.map(|[id, time, behind]| (id, (time ^ SIGN) as i64, behind)))
            }
        }
    }
}

/// The records of an id: the first, and how many more there are.
struct Groups {
    rows: Ordered,
    ahead: Option<(u64, i64, u64)>,
}

#[derive(Clone, Copy)]
struct Group {
    id: u64,
    time: i64,
    behind: u64,
    more: u64,
}

impl Groups {
    fn new(mut rows: Ordered) -> Result<Groups, AnalysisError> {
        let ahead = rows.next()?;
        Ok(Groups { rows, ahead })
    }

    fn next(&mut self) -> Result<Option<Group>, AnalysisError> {
        let Some((id, time, behind)) = self.ahead else { return Ok(None) };
        let mut group = Group { id, time, behind, more: 0 };
        loop {
            self.ahead = self.rows.next()?;
            match self.ahead {
                Some((next, ..)) if next == id => group.more += 1,
                _ => return Ok(Some(group)),
            }
        }
    }
}

/// Two points that are compared.
pub(super) struct Comparison<'a> {
    pub(super) options: &'a Options,
    pub(super) from: Vec<&'a Observed>,
    pub(super) to: Vec<&'a Observed>,
}

/// What is collected meanwhile.
struct Taking<'a> {
    pair: Pair,
    latencies: Collector,
    samples: Option<Samples>,
    /// Length of a span, and when the first begins.
    spans: Option<(i64, i64, Vec<Span>)>,
    has_times: bool,
    stream: &'a str,
}

impl Comparison<'_> {
    pub(super) fn pair(&self, progress: &mut dyn FnMut(&str)) -> Result<Pair, AnalysisError> {
        let files: Vec<&Observed> = self.from.iter().chain(&self.to).copied().collect();
        let scale = super::files::scale(&files, self.options.clock_error_ns);
        let lines = match &scale {
            Ok(scale) => scale.lines.clone(),
            Err(_) => files.iter().map(|file| file.head.to_monotonic()).collect(),
        };
        let (from_lines, to_lines) = lines.split_at(self.from.len());
        let mut taking = self.taking(scale, from_lines)?;
        let mut streams: Vec<&str> = files.iter().map(|file| &*file.head.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        for stream in streams {
            progress(stream);
            let of = |files: &[&'_ Observed], lines: &[Line]| {
                let all = files.iter().copied().zip(lines.iter().copied());
                let own: Vec<_> = all.filter(|(file, _)| file.head.stream == stream).collect();
                Groups::new(Ordered::new(&own, self.options)?)
            };
            let (from, to) = (of(&self.from, from_lines)?, of(&self.to, to_lines)?);
            taking.stream = stream;
            taking.join(from, to)?;
        }
        taking.pair(self.options)
    }

    fn taking(
        &self,
        scale: Result<Scale, String>,
        from_lines: &[Line],
    ) -> Result<Taking<'static>, AnalysisError> {
        let has_times = scale.is_ok();
        let (error_ns, clock) = match scale {
            Ok(scale) => (Some(scale.error_ns), scale.about),
            Err(why) => (None, why),
        };
        let rate = |files: &[&Observed]| {
            let with_records = || files.iter().filter(|file| file.about.records > 0);
            // Times of another boot are of another clock.
            let boots: BTreeSet<&str> = with_records().map(|file| file.head.boot_id.as_str()).collect();
            let of_boot = |boot: &str| {
                let there = || with_records().filter(|file| file.head.boot_id == boot);
                let first = there().map(|file| file.about.first_ns).min().unwrap_or(0);
                let last = there().map(|file| file.about.last_ns).max().unwrap_or(0);
                let records: u64 = there().map(|file| file.about.records).sum();
                let span = last.saturating_sub(first);
                if span > 0 { records.saturating_sub(1) as f64 * 1e9 / span as f64 } else { 0.0 }
            };
            boots.into_iter().map(of_boot).sum()
        };
        let pair = Pair {
            from: self.from[0].head.point.clone(),
            to: self.to[0].head.point.clone(),
            sent_per_second: rate(&self.from),
            received_per_second: rate(&self.to),
            error_ns,
            clock,
            ..Pair::default()
        };
        let sorter = Sorter::new(self.options.memory_bytes / 3, &self.options.scratch);
        if let (Some(path), false) = (&self.options.samples, has_times) {
            let text = format!("--samples {}: there are no latencies: {}", path.display(), pair.clock);
            return Err(AnalysisError::Input(text));
        }
        let samples = self.options.samples.as_ref();
        let samples =
            samples.map(|path| Samples::new(path).map_err(|error| AnalysisError::write(path, &error)));
        let spans = self.options.over_time_ns.map(|ns| self.spans(ns, from_lines)).transpose()?;
        let latencies = Collector::new(sorter);
        Ok(Taking { pair, latencies, samples: samples.transpose()?, spans, has_times, stream: "" })
    }

    fn spans(&self, ns: u64, lines: &[Line]) -> Result<(i64, i64, Vec<Span>), AnalysisError> {
        // On the clock of the comparison, which may be another than that of the summaries.
        let with_records = self.from.iter().zip(lines).filter(|(file, _)| file.about.records > 0);
        let ends = with_records.map(|(file, line)| {
            let [start, end] = [&file.head.start, &file.head.end].map(|moment| line.at(moment.ticks));
            let (own_start, own_end) =
                (file.head.start.monotonic_ns as i64, file.head.end.monotonic_ns as i64);
            (start + (file.about.first_ns - own_start), end - (own_end - file.about.last_ns))
        });
        let (first, last) =
            ends.fold((i64::MAX, i64::MIN), |(first, last), (from, to)| (first.min(from), last.max(to)));
        let count = (last.saturating_sub(first).max(0) as u64) / ns + 1;
        if count > MOST_SPANS {
            let text = format!(
                "--over-time {}: {count} spans of time; at most {MOST_SPANS} are told apart",
                ns as f64 / 1e9
            );
            return Err(AnalysisError::Input(text));
        }
        let span = |at: u64| Span { begins_s: (at * ns) as f64 / 1e9, ..Span::default() };
        Ok((ns as i64, first, (0..count).map(span).collect()))
    }
}

impl Taking<'_> {
    fn join(&mut self, mut from: Groups, mut to: Groups) -> Result<(), AnalysisError> {
        let (mut sent, mut came) = (from.next()?, to.next()?);
        loop {
            match (sent, came) {
                (None, None) => return Ok(()),
                (Some(one), Some(other)) if one.id == other.id => {
                    self.both(one, other)?;
                    (sent, came) = (from.next()?, to.next()?);
                }
                (Some(one), other) if other.is_none_or(|other| one.id < other.id) => {
                    self.lost(one);
                    sent = from.next()?;
                }
                (_, Some(other)) => {
                    self.pair.only_at_to += 1;
                    self.arrived(other);
                    came = to.next()?;
                }
                // The third arm takes one alone.
                (Some(_), None) => return Ok(()),
            }
        }
    }

    #[inline]
    fn both(&mut self, one: Group, other: Group) -> Result<(), AnalysisError> {
        self.pair.sent += 1;
        self.pair.matched += 1;
        self.pair.duplicates_from += one.more;
        self.arrived(other);
        if !self.has_times {
            // Loss needs no clock that both have.
            self.span(one.time).into_iter().for_each(|span| span.sent += 1);
            return Ok(());
        }
        let latency = other.time.saturating_sub(one.time);
        self.latencies.add(latency)?;
        if let Some(samples) = &mut self.samples {
            samples.row(one.id, one.time, latency)?;
        }
        if let Some(span) = self.span(one.time) {
            if span.sent == span.lost {
                (span.min_ns, span.max_ns) = (latency, latency);
            }
            span.sent += 1;
            span.sum_ns += i128::from(latency);
            (span.min_ns, span.max_ns) = (span.min_ns.min(latency), span.max_ns.max(latency));
        }
        Ok(())
    }

    fn arrived(&mut self, group: Group) {
        self.pair.duplicates_to += group.more;
        if group.behind > 0 {
            self.pair.reordered += 1;
            self.pair.reordered_mean_behind += group.behind as f64;
            self.pair.reordered_most_behind = self.pair.reordered_most_behind.max(group.behind);
        }
    }

    fn lost(&mut self, group: Group) {
        self.pair.sent += 1;
        self.pair.lost += 1;
        self.pair.duplicates_from += group.more;
        if self.pair.first_lost.len() < NAMED {
            self.pair.first_lost.push((self.stream.to_owned(), group.id));
        }
        if let Some(span) = self.span(group.time) {
            span.sent += 1;
            span.lost += 1;
        }
    }

    fn span(&mut self, time: i64) -> Option<&mut Span> {
        let (ns, first, spans) = self.spans.as_mut()?;
        // A line may be off by a nanosecond at its ends.
        let at = (time.saturating_sub(*first).max(0) / *ns) as usize;
        let last = spans.len() - 1;
        spans.get_mut(at.min(last))
    }

    fn pair(self, options: &Options) -> Result<Pair, AnalysisError> {
        let mut pair = self.pair;
        pair.reordered_mean_behind /= pair.reordered.max(1) as f64;
        if self.has_times {
            pair.latency = Some(self.latencies.figures(options.bucket_ns)?);
        }
        let spans = self.spans.map(|(.., spans)| spans).unwrap_or_default();
        let told = spans.into_iter().filter(|span| span.sent > 0);
        pair.over_time = told
            .map(|span| {
                let matched = span.sent - span.lost;
                Span { mean_ns: span.sum_ns as f64 / matched.max(1) as f64, ..span }
            })
            .collect();
        if let (Some(samples), Some(path)) = (self.samples, &options.samples) {
            samples.finish().map_err(|error| AnalysisError::write(path, &error))?;
        }
        Ok(pair)
    }
}
