//! `tickcast counters`: what the processes of this host count, read from their files.

mod sessions;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use counters::Kind;
use counters::snapshot::{Column, Row, Snapshot};
use net::{clock, counters_file};
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// Which process, and what of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tickcast counters                            the processes of this host that publish counters
  tickcast counters 4711                       what 4711 has counted, without what is zero
  tickcast counters 4711 naks session=beef     counters with naks in their name, of sets with that label
  tickcast counters 4711 --watch 1             every second, with rates
  tickcast counters 4711 --json | jq .         as a line of JSON
  tickcast counters 4711 --sessions            each session, receiver, stream and source by name
  tickcast counters 4711 --sessions lost       who has lost something
  tickcast counters 4711 --sessions naks kind=peer --watch 1
                                               who asks for retransmissions, and how often a second

With --sessions a line is what one thing has come to, as its context wrote it last: kind, names, numbers. The kinds are
  session   published on: topics, peers, bytes, datagrams, retransmissions
  peer      a receiver of it: naks, retransmissions, shed, bytes, waiting_bytes, silent_ns
  incoming  a session that is received: lost, bytes, datagrams, missing, naks_sent, recovered, given_up, duplicates
  stream    a topic of it: begun, delivered, lost, losses
  source    a topic that is published: next, blocked
A context shows as many as messaging.counters_sessions_maximum says, sessions and peers before streams and sources.

Every daemon and every messaging context publishes its counters in a file, tickcast-counters-PID-..., and copies them there
once a second or as configured (admin.counters_directory, admin.counters_interval_ms). Reading disturbs nobody, and shows
the last values of a process that is stopped or was killed.

Exit status: 0 done; 1 the process publishes no counters, or is gone; 2 wrong usage.")]
pub(crate) struct CountersArgs {
    /// Process, as PID or, for one of another container, PID@NAMESPACE; without one all are listed.
    #[arg(value_name = "PID", id = "process")]
    process: Option<ProcessName>,
    /// Shows only counters with each of these in their name or among their labels (NAME=VALUE).
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// Shows sessions, their receivers, streams and sources by name in place of sums.
    #[arg(long, requires = "process")]
    sessions: bool,
    /// Shows zeros too.
    #[arg(long)]
    all: bool,
    /// Shows them again and again, so many seconds apart, with rates.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    watch: Option<u32>,
    /// As lines of JSON.
    #[arg(long)]
    json: bool,
    /// Where the files are.
    #[arg(long, value_name = "DIRECTORY", default_value = "/dev/shm")]
    directory: PathBuf,
}

/// A process by its number, and by the namespace of that if it is not the own one.
#[derive(Clone, Copy, Debug)]
struct ProcessName {
    pid: u32,
    namespace: Option<u64>,
}

impl std::str::FromStr for ProcessName {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<ProcessName, Self::Err> {
        let (pid, namespace) = match text.split_once('@') {
            Some((pid, namespace)) => (pid, Some(namespace.parse()?)),
            None => (text, None),
        };
        Ok(ProcessName { pid: pid.parse()?, namespace })
    }
}

pub(crate) fn run(args: &CountersArgs) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let shown = match args.process {
        None => list(args, &mut out),
        Some(process) => show(args, process, &mut out),
    };
    match shown {
        Err(Failure::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn list(args: &CountersArgs, out: &mut impl Write) -> Result<(), Failure> {
    let found = counters_file::processes(&args.directory).map_err(|e| {
        Failure::Run(format!("cannot look for counters in {}: {e}", args.directory.display()))
    })?;
    let here = counters_file::namespace();
    let all = found.into_iter().filter_map(|found| match found.read() {
        Ok(snapshot) => Some((found, snapshot)),
        // One that ends between the two looks is none any more.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            say!("tickcast: {error}");
            None
        }
    });
    if !args.json {
        writeln!(out, "{:>8}  {:<28}  {:>6}  UPDATED", "PID", "PROGRAM", "SETS").map_err(Failure::Output)?;
    }
    for (found, snapshot) in all {
        let (head, sets) = (&snapshot.head, snapshot.sets.len());
        if args.json {
            let line = json!({
                "pid": head.pid, "namespace": found.namespace, "program": head.program, "sets": sets, "left_out": head.left_out,
                "wall_ns": head.wall_ns, "started_ns": head.started_ns, "interval_ms": head.interval_ms,
            });
            writeln!(out, "{line}")
        } else {
            let name = match found.namespace {
                namespace if namespace == here => head.pid.to_string(),
                namespace => format!("{}@{namespace}", head.pid),
            };
            writeln!(out, "{name:>8}  {:<28}  {sets:>6}  {}", head.program, age(&snapshot))
        }
        .map_err(Failure::Output)?;
    }
    Ok(())
}

fn age(snapshot: &Snapshot) -> String {
    let ns = clock::wall_ns().saturating_sub(snapshot.head.wall_ns);
    format!("{:.1} s ago", ns as f64 / 1e9)
}

fn show(args: &CountersArgs, process: ProcessName, out: &mut impl Write) -> Result<(), Failure> {
    let mut before: Option<Snapshot> = None;
    let ProcessName { pid, namespace } = process;
    let found =
        counters_file::find(&args.directory, pid, namespace).map_err(|e| Failure::Run(e.to_string()))?;
    loop {
        let now = found.read().map_err(|e| Failure::Run(e.to_string()))?;
        let is_news = before.as_ref().is_none_or(|before| before.head.monotonic_ns != now.head.monotonic_ns);
        if is_news {
            show_one(args, &now, before.as_ref(), out).map_err(Failure::Output)?;
            out.flush().map_err(Failure::Output)?;
            before = Some(now);
        }
        let Some(seconds) = args.watch else { return Ok(()) };
        std::thread::sleep(Duration::from_secs(seconds.into()));
    }
}

fn show_one(
    args: &CountersArgs,
    now: &Snapshot,
    before: Option<&Snapshot>,
    out: &mut impl Write,
) -> io::Result<()> {
    match (args.sessions, args.json) {
        (false, false) => View { args, now, before }.text(out),
        (false, true) => View { args, now, before }.json(out),
        (true, false) => sessions::View { args, now, before }.text(out),
        (true, true) => sessions::View { args, now, before }.json(out),
    }
}

/// What the counters or labels have to have.
fn filters(args: &CountersArgs) -> impl Iterator<Item = &str> + Clone {
    args.filters.iter().map(|filter| &**filter)
}

fn object<'a>(pairs: impl Iterator<Item = (&'a str, Value)>) -> Value {
    Value::Object(pairs.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

/// What is shown of one snapshot, beside the one before.
struct View<'a> {
    args: &'a CountersArgs,
    now: &'a Snapshot,
    before: Option<&'a Snapshot>,
}

/// One counter that is shown.
struct Shown<'a> {
    column: &'a Column,
    value: u64,
    per_second: Option<f64>,
}

impl<'a> View<'a> {
    /// The counters of a set that pass the filters.
    fn shown(&self, row: &'a Row) -> Vec<Shown<'a>> {
        let before = self.before.and_then(|before| Some((before, same_set(before, self.now, row)?)));
        let seconds = self.before.map_or(0.0, |before| {
            self.now.head.monotonic_ns.saturating_sub(before.head.monotonic_ns) as f64 / 1e9
        });
        let columns = self.now.tables[row.table].iter().enumerate();
        let shown = columns.filter_map(|(i, column)| {
            let value = row.values[i];
            let is_wanted = (value != 0 || self.args.all) && self.passes(column, row);
            let per_second = before
                .filter(|_| column.kind == Kind::Total && seconds > 0.0)
                .map(|(_, before)| value.saturating_sub(before.values[i]) as f64 / seconds);
            is_wanted.then_some(Shown { column, value, per_second })
        });
        shown.collect()
    }

    fn passes(&self, column: &Column, row: &Row) -> bool {
        filters(self.args).all(|filter| match filter.split_once('=') {
            Some((name, value)) => row.labels.iter().any(|(n, v)| n == name && v == value),
            None => column.name.contains(filter),
        })
    }

    fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let head = &self.now.head;
        writeln!(out, "{}, process {}, {}", head.program, head.pid, age(self.now))?;
        if head.left_out > 0 {
            writeln!(out, "{} sets had no room and are left out", head.left_out)?;
        }
        for row in &self.now.sets {
            let shown = self.shown(row);
            if shown.is_empty() {
                continue;
            }
            let labels: Vec<_> = row.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            writeln!(out, "\n[{}]", labels.join(" "))?;
            for Shown { column, value, per_second } in shown {
                let rate = per_second.map(|rate| format!("{rate:.1}/s")).unwrap_or_default();
                let rate = if self.args.watch.is_some() { format!("{rate:>14}") } else { rate };
                let Column { name, unit, meaning, .. } = column;
                writeln!(out, "  {name:<48} {value:>16}{rate}  {unit:<12} {meaning}")?;
            }
        }
        if self.args.watch.is_some() {
            writeln!(out)?;
        }
        Ok(())
    }

    fn json(&self, out: &mut impl Write) -> io::Result<()> {
        let sets = self.now.sets.iter().filter_map(|row| {
            let shown = self.shown(row);
            let values = object(shown.iter().map(|s| (&*s.column.name, s.value.into())));
            let rates = object(shown.iter().filter_map(|s| Some((&*s.column.name, s.per_second?.into()))));
            let labels = object(row.labels.iter().map(|(name, value)| (&**name, (&**value).into())));
            let set = json!({ "labels": labels, "counters": values, "per_second": rates });
            (!shown.is_empty()).then_some(set)
        });
        let head = &self.now.head;
        let line = json!({
            "pid": head.pid, "program": head.program, "wall_ns": head.wall_ns, "left_out": head.left_out,
            "sets": sets.collect::<Vec<_>>(),
        });
        writeln!(out, "{line}")
    }
}

/// The set that `row` was in the snapshot before: the same labels and the same counters.
fn same_set<'a>(before: &'a Snapshot, now: &Snapshot, row: &Row) -> Option<&'a Row> {
    let columns = &now.tables[row.table];
    before.sets.iter().find(|old| old.labels == row.labels && before.tables[old.table] == *columns)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clap::Parser;
    use counters::Registry;
    use counters::snapshot::{self, Head};
    use counters::table::LbtrmSource;

    use super::*;
    use crate::cli::{Cli, Command};

    pub(super) fn args(words: &[&str]) -> CountersArgs {
        let words = ["tickcast", "counters", "4711"].iter().chain(words);
        match Cli::parse_from(words).command {
            Command::Counters(args) => args,
            other => panic!("{other:?}"),
        }
    }

    fn snapshot_of(sent: u64, second: u64) -> Snapshot {
        let registry = Registry::default();
        for (session, factor) in [("a", 1), ("b", 10)] {
            let source = LbtrmSource::default();
            source.msgs_sent.add(sent * factor);
            source.naks_rcved.add(3);
            source.txw_msgs.set(sent);
            registry.register(&[("session", session)], Arc::new(source));
        }
        let head = Head {
            pid: 4711,
            monotonic_ns: second * 1_000_000_000,
            program: "tickcast test".to_owned(),
            ..Head::default()
        };
        let mut bytes = Vec::new();
        snapshot::emit(&head, &registry, 1 << 20, &mut bytes);
        Snapshot::parse(&bytes).expect("as it was written")
    }

    fn text(words: &[&str], now: &Snapshot, before: Option<&Snapshot>) -> String {
        let (args, mut out) = (args(words), Vec::new());
        View { args: &args, now, before }.text(&mut out).expect("memory takes it");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn counters_stand_under_their_labels_without_zeros() {
        let shown = text(&[], &snapshot_of(5, 1), None);
        let lines: Vec<Vec<&str>> =
            shown.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
        assert!(shown.starts_with("tickcast test, process 4711, "), "{shown}");
        assert_eq!(
            lines[2..6],
            [
                vec!["[session=a]"],
                vec!["lbtrm_source_msgs_sent_total", "5", "datagrams"],
                vec!["lbtrm_source_txw_msgs", "5", "datagrams"],
                vec!["lbtrm_source_naks_rcved_total", "3", "naks"],
            ]
        );
        assert_eq!(lines.len(), 11, "{shown}");
        let all = text(&["--all"], &snapshot_of(5, 1), None);
        assert_eq!(all.lines().count(), 1 + 2 * (2 + LbtrmSource::TABLE.len()));
    }

    #[test]
    fn filters_are_parts_of_names_and_whole_labels() {
        let shown = text(&["naks", "session=b"], &snapshot_of(5, 1), None);
        assert_eq!(shown.lines().count(), 4, "{shown}");
        assert!(shown.contains("[session=b]") && shown.contains("naks_rcved_total"), "{shown}");
        assert_eq!(text(&["session=c"], &snapshot_of(5, 1), None).lines().count(), 1);
    }

    #[test]
    fn totals_have_rates_between_two_times() {
        let (before, now) = (snapshot_of(5, 1), snapshot_of(25, 3));
        let shown = text(&["--watch", "2", "msgs"], &now, Some(&before));
        assert!(shown.contains(" 10.0/s ") && shown.contains(" 100.0/s "), "{shown}");
        assert_eq!(shown.matches("/s ").count(), 2, "present values have none: {shown}");
        let (args, mut out) = (args(&["--json", "msgs", "session=b"]), Vec::new());
        View { args: &args, now: &now, before: Some(&before) }.json(&mut out).expect("memory takes it");
        let line: Value = serde_json::from_slice(&out).expect("one line of JSON");
        let sets = json!([{
            "labels": { "session": "b" },
            "counters": { "lbtrm_source_msgs_sent_total": 250, "lbtrm_source_txw_msgs": 25 },
            "per_second": { "lbtrm_source_msgs_sent_total": 100.0 },
        }]);
        assert_eq!((&line["pid"], &line["sets"]), (&json!(4711), &sets));
    }
}
