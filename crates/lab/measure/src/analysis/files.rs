//! The files that are analysed, looked through once before anything is said of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::path::{Path, PathBuf};

use observation::{Calibration, Clock, Head, Line, Reader, publisher_of};
use serde::Serialize;

use super::AnalysisError;

/// A file that is whole, and what its records are like.
pub(super) struct Observed {
    pub(super) path: PathBuf,
    pub(super) head: Head,
    /// Ids only go up, so that nothing is to be sorted.
    pub(super) ascends: bool,
    pub(super) about: FileSummary,
}

/// What is said of a file.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct FileSummary {
    pub path: String,
    pub point: String,
    pub stream: String,
    pub host: String,
    pub program: String,
    pub pid: u32,
    pub clock: &'static str,
    /// What a call of the recorder cost there, nanoseconds.
    pub cost_ns: f64,
    /// Its times as nanoseconds of `CLOCK_MONOTONIC` are off by at most so much.
    pub clock_error_ns: u64,
    pub records: u64,
    /// Messages that found no room in the recorder: nothing is known of them.
    pub not_recorded: u64,
    /// Of the first and of the last record on `CLOCK_MONOTONIC`; 0 without records.
    pub first_ns: i64,
    pub last_ns: i64,
    /// Records a second from the first to the last; 0 for fewer than two.
    pub per_second: f64,
    /// Records whose number is not above all before it of the same publisher.
    pub disordered: u64,
}

impl Observed {
    /// Reads a file to its end, so that its check sum is known to be right.
    pub(super) fn look(path: &Path, mut progress: impl FnMut(u64)) -> Result<Observed, AnalysisError> {
        let wrong = |error| AnalysisError::file(path, error);
        let mut reader = Reader::open(path).map_err(wrong)?;
        let head = reader.head().clone();
        let line = head.to_monotonic();
        let (mut first, mut last, mut before, mut ascends) = (u64::MAX, 0, None, true);
        let (mut order, mut disordered, mut seen) = (Order::default(), 0, 0_u64);
        while let Some(record) = reader.next().map_err(wrong)? {
            (first, last) = (first.min(record.ticks), last.max(record.ticks));
            ascends &= before.is_none_or(|before| record.id > before);
            before = Some(record.id);
            disordered += u64::from(order.behind(record.id).is_some());
            seen += 1;
            if seen.is_multiple_of(1 << 20) {
                progress(seen);
            }
        }
        let (first_ns, last_ns) = if seen == 0 { (0, 0) } else { (line.at(first), line.at(last)) };
        let span = last_ns.saturating_sub(first_ns);
        let about = FileSummary {
            path: path.display().to_string(),
            point: head.point.clone(),
            stream: head.stream.clone(),
            host: head.host.clone(),
            program: head.program.clone(),
            pid: head.pid,
            clock: head.clock.name(),
            cost_ns: head.cost_ns,
            clock_error_ns: head.error_ns(),
            records: seen,
            not_recorded: head.lost,
            first_ns,
            last_ns,
            per_second: if span > 0 { (seen - 1) as f64 * 1e9 / span as f64 } else { 0.0 },
            disordered,
        };
        Ok(Observed { path: path.to_owned(), head, ascends, about })
    }

    /// Opens it anew.
    pub(super) fn reader(&self) -> Result<Reader<File>, AnalysisError> {
        let reader = Reader::open(&self.path).map_err(|error| AnalysisError::file(&self.path, error))?;
        if *reader.head() != self.head {
            return Err(AnalysisError::Input(format!("{}: it has changed meanwhile", self.path.display())));
        }
        Ok(reader)
    }
}

/// Whether numbers of each publisher go up.
#[derive(Default)]
pub(super) struct Order {
    furthest: HashMap<u16, u64>,
    /// Of the publisher that was asked for last: mostly there is one alone.
    last: Option<(u16, u64)>,
}

impl Order {
    /// How far a number is behind the furthest one of its publisher; none if it is further.
    #[inline]
    pub(super) fn behind(&mut self, id: u64) -> Option<u64> {
        let publisher = publisher_of(id);
        let furthest = match &mut self.last {
            Some((last, furthest)) if *last == publisher => furthest,
            _ => self.turn_to(publisher, id)?,
        };
        if id > *furthest {
            *furthest = id;
            return None;
        }
        Some(*furthest - id)
    }

    /// The furthest of another publisher; none if this is its first number.
    fn turn_to(&mut self, publisher: u16, id: u64) -> Option<&mut u64> {
        if let Some((last, furthest)) = self.last.take() {
            self.furthest.insert(last, furthest);
        }
        let (furthest, is_new) = match self.furthest.entry(publisher) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(new) => (*new.insert(id), true),
        };
        let (_, furthest) = self.last.insert((publisher, furthest));
        (!is_new).then_some(furthest)
    }
}

/// How the times of the files of two points are compared.
pub(super) struct Scale {
    /// By file, in the order in which the files were given.
    pub(super) lines: Vec<Line>,
    /// A latency is off by at most so much.
    pub(super) error_ns: u64,
    /// What that comes from.
    pub(super) about: String,
}

/// The clock that all files have, or why one-way times between them mean nothing.
pub(super) fn scale(files: &[&Observed], clock_error_ns: Option<u64>) -> Result<Scale, String> {
    let first = files[0];
    let is_one_boot =
        !first.head.boot_id.is_empty() && files.iter().all(|file| file.head.boot_id == first.head.boot_id);
    if is_one_boot { of_one_boot(files) } else { of_several_hosts(files, clock_error_ns) }
}

fn of_one_boot(files: &[&Observed]) -> Result<Scale, String> {
    if files.iter().all(|file| file.head.clock == Clock::Tsc) {
        return by_one_line(files);
    }
    let lines = files.iter().map(|file| file.head.to_monotonic()).collect();
    let mut errors: Vec<u64> = files.iter().map(|file| file.head.error_ns()).collect();
    errors.sort_unstable_by(|a, b| b.cmp(a));
    let error_ns = errors.iter().take(2).fold(0, |sum: u64, error| sum.saturating_add(*error));
    Ok(Scale { lines, error_ns, about: "one host, times on CLOCK_MONOTONIC".to_owned() })
}

/// All times are of one counter: with one line for all of them, what it is off by does not show in a difference, save for its
/// slope.
fn by_one_line(files: &[&Observed]) -> Result<Scale, String> {
    let starts = files.iter().map(|file| &file.head.start).min_by_key(|moment| moment.ticks);
    let ends = files.iter().map(|file| &file.head.end).max_by_key(|moment| moment.ticks);
    let (Some(start), Some(end)) = (starts, ends) else { return Err("there are no files".to_owned()) };
    let at = |moment: &Calibration| (moment.ticks, moment.monotonic_ns);
    let line = Line::through(at(start), at(end)).ok_or("the clocks of the files contradict each other")?;
    // Each file's own, so that what two files say of one moment does not hide in it.
    let mut own: Vec<u64> = files.iter().map(|file| file.head.error_ns()).collect();
    own.sort_unstable_by(|a, b| b.cmp(a));
    let error_ns = own.iter().take(2).fold(0_u64, |sum, error| sum.saturating_add(*error));
    for file in files {
        for moment in [&file.head.start, &file.head.end] {
            let off = line.at(moment.ticks).abs_diff(moment.monotonic_ns as i64);
            // Also what another reading was off by.
            if off > error_ns.saturating_add(moment.uncertainty_ns) {
                let path = file.path.display();
                return Err(format!(
                    "the clocks of the files contradict each other: {path} puts the same moment of the TSC {off} ns apart, \
                     more than the {error_ns} ns by which they may be off"
                ));
            }
        }
    }
    let span = end.monotonic_ns.saturating_sub(start.monotonic_ns);
    // Of a latency of a second; a longer one is off by as much more.
    let parts = error_ns as f64 / span as f64;
    let error_ns = ((parts * 1e9).ceil() as u64).clamp(1, error_ns.max(1));
    let about = format!(
        "one host, times by one TSC of {:.6} GHz; the bound is that of a latency of a second",
        1.0 / line.slope()
    );
    Ok(Scale { lines: vec![line; files.len()], error_ns, about })
}

fn of_several_hosts(files: &[&Observed], clock_error_ns: Option<u64>) -> Result<Scale, String> {
    let mut errors = Vec::new();
    let mut lines = Vec::new();
    for file in files {
        let head = &file.head;
        let at = |moment: &Calibration| (moment.ticks, moment.realtime_ns);
        let line = Line::through(at(&head.start), at(&head.end));
        let past = head.start.realtime_ns.max(head.end.realtime_ns) > i64::MAX as u64;
        let path = file.path.display();
        lines.push(
            line.filter(|_| !past).ok_or_else(|| format!("{path}: CLOCK_REALTIME was set during the run"))?,
        );
        let readings = head.error_ns().saturating_add(head.start.uncertainty_ns.max(head.end.uncertainty_ns));
        let kept = [&head.start, &head.end].map(|moment| moment.discipline);
        let most_us = kept.iter().map(|kept| kept.maximum_error_us).max().unwrap_or(0);
        if clock_error_ns.is_none() && kept.iter().any(|kept| !kept.is_synchronised) {
            return Err(format!(
                "the points are on different hosts, or the host was started anew in between, and the clock of {} ({path}) was \
                 not kept by NTP or PTP; --clock-error NS says by how much the clocks differ at most",
                head.host
            ));
        }
        let kept_ns = if clock_error_ns.is_some() { 0 } else { most_us.saturating_mul(1_000) };
        errors.push(readings.saturating_add(kept_ns));
    }
    errors.sort_unstable_by(|a, b| b.cmp(a));
    let own = errors.iter().take(2).fold(0_u64, |sum, error| sum.saturating_add(*error));
    let (error_ns, about) = match clock_error_ns {
        Some(given) => (
            own.saturating_add(given),
            format!("clocks of hosts that differ by {given} ns at most, as was said"),
        ),
        None => (own, "clocks of hosts, off by what NTP or PTP told their kernels at most".to_owned()),
    };
    Ok(Scale { lines, error_ns, about })
}
