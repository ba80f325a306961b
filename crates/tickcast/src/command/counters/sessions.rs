//! `tickcast counters PID --sessions`: each session, receiver, stream and source of a process by name.

use std::collections::HashMap;
use std::io::{self, Write};

use counters::Kind;
use counters::snapshot::{Column, RollRead, Row, Snapshot};
use serde_json::{Value, json};

use super::{CountersArgs, Shown, age, filters, object};

/// What is shown of one snapshot, beside the one before.
pub(super) struct View<'a> {
    pub(super) args: &'a CountersArgs,
    pub(super) now: &'a Snapshot,
    pub(super) before: Option<&'a Snapshot>,
}

/// A row of the snapshot before, with what it counts.
type Old<'a> = (&'a [Column], &'a Row);

/// The rows of one context, beside those before.
struct Part<'a> {
    args: &'a CountersArgs,
    roll: &'a RollRead,
    before: HashMap<&'a [(String, String)], Old<'a>>,
    seconds: f64,
}

impl<'a> View<'a> {
    fn parts(&self) -> impl Iterator<Item = Part<'a>> {
        let View { args, now, before } = *self;
        now.rolls.iter().map(move |roll| {
            let old = before.and_then(|before| before.rolls.iter().find(|old| old.labels == roll.labels));
            let of = |old: &'a RollRead| {
                let row = |row: &'a Row| (&row.labels[..], (&old.tables[row.table][..], row));
                old.sets.iter().map(row).collect()
            };
            let since = old.map_or(0, |old| roll.monotonic_ns.saturating_sub(old.monotonic_ns));
            Part { args, roll, before: old.map(of).unwrap_or_default(), seconds: since as f64 / 1e9 }
        })
    }

    pub(super) fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let head = &self.now.head;
        writeln!(out, "{}, process {}, {}", head.program, head.pid, age(self.now))?;
        if self.now.rolls.is_empty() {
            writeln!(out, "no context of this process names its sessions (counters_sessions_maximum)")?;
        }
        for part in self.parts() {
            let RollRead { labels, monotonic_ns, left_out, sets, .. } = part.roll;
            let names: Vec<_> = labels.iter().map(|(name, value)| format!("{name} {value}")).collect();
            write!(out, "\n{}: {} rows", names.join(", "), sets.len())?;
            if *left_out > 0 {
                write!(out, ", {left_out} more had no room (counters_sessions_maximum)")?;
            }
            // Rows are as old as the context's last look at itself: one that nobody drives shows here.
            match head.monotonic_ns.saturating_sub(*monotonic_ns) {
                _ if *monotonic_ns == 0 => writeln!(out, ", not written yet")?,
                late => writeln!(out, ", written {:.1} s before", late as f64 / 1e9)?,
            }
            for (row, shown) in part.rows() {
                let kind = kind(row);
                let names = row.labels.iter().filter(|(name, _)| name != "kind");
                write!(out, "  {kind:<8}")?;
                names.clone().try_for_each(|(name, value)| write!(out, " {name}={value}"))?;
                write!(out, "  ")?;
                for Shown { column, value, per_second } in shown {
                    write!(out, " {}={value}", short(&column.name, kind))?;
                    if let Some(rate) = per_second {
                        write!(out, "({rate:.1}/s)")?;
                    }
                }
                writeln!(out)?;
            }
        }
        if self.args.watch.is_some() {
            writeln!(out)?;
        }
        Ok(())
    }

    pub(super) fn json(&self, out: &mut impl Write) -> io::Result<()> {
        let contexts = self.parts().map(|part| {
            let row = |(row, shown): (&Row, Vec<Shown<'_>>)| {
                let values = shown.iter().map(|s| (&*s.column.name, s.value.into()));
                let rates = shown.iter().filter_map(|s| Some((&*s.column.name, s.per_second?.into())));
                json!({ "labels": named(&row.labels), "counters": object(values), "per_second": object(rates) })
            };
            let RollRead { labels, monotonic_ns, left_out, .. } = part.roll;
            json!({
                "labels": named(labels), "monotonic_ns": monotonic_ns, "left_out": left_out,
                "rows": part.rows().map(row).collect::<Vec<_>>(),
            })
        });
        let head = &self.now.head;
        let line = json!({
            "pid": head.pid, "program": head.program, "wall_ns": head.wall_ns, "monotonic_ns": head.monotonic_ns,
            "contexts": contexts.collect::<Vec<_>>(),
        });
        writeln!(out, "{line}")
    }
}

impl<'a> Part<'a> {
    /// The rows that pass the filters, each with the counters that do.
    fn rows(&self) -> impl Iterator<Item = (&'a Row, Vec<Shown<'a>>)> + '_ {
        let asks_for_counters = filters(self.args).any(|filter| !filter.contains('='));
        let rows = self.roll.sets.iter().filter(|row| {
            let mut wanted = filters(self.args).filter_map(|filter| filter.split_once('='));
            let labels = self.roll.labels.iter().chain(&row.labels);
            wanted.all(|(name, value)| labels.clone().any(|(n, v)| n == name && v == value))
        });
        let rows = rows.map(|row| (row, self.shown(row)));
        rows.filter(move |(_, shown)| !asks_for_counters || !shown.is_empty())
    }

    fn shown(&self, row: &'a Row) -> Vec<Shown<'a>> {
        let columns = &self.roll.tables[row.table];
        let before = self.before.get(&row.labels[..]);
        let before = before.filter(|(old, _)| *old == &columns[..] && self.seconds > 0.0);
        let shown = columns.iter().zip(&row.values).enumerate().filter_map(|(i, (column, &value))| {
            let mut names = filters(self.args).filter(|filter| !filter.contains('='));
            let is_wanted = (value != 0 || self.args.all) && names.all(|name| column.name.contains(name));
            let rate = |(_, old): &(_, &Row)| value.saturating_sub(old.values[i]) as f64 / self.seconds;
            let per_second = before.filter(|_| column.kind == Kind::Total).map(rate);
            is_wanted.then_some(Shown { column, value, per_second })
        });
        shown.collect()
    }
}

fn named(labels: &[(String, String)]) -> Value {
    object(labels.iter().map(|(name, value)| (&**name, (&**value).into())))
}

fn kind(row: &Row) -> &str {
    row.labels.iter().find(|(name, _)| name == "kind").map_or("", |(_, kind)| kind)
}

/// A counter's name without what its row says anyway.
fn short<'a>(name: &'a str, kind: &str) -> &'a str {
    let rest = name.strip_prefix("messaging_").unwrap_or(name);
    let rest = rest.strip_prefix(kind).and_then(|rest| rest.strip_prefix('_')).unwrap_or(rest);
    rest.strip_suffix("_total").unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use counters::snapshot::{self, Head};
    use counters::table::sessions::{INCOMING, PEER};
    use counters::{Registry, Roll, Rows};

    use super::super::tests::args;
    use super::*;

    fn snapshot_of(naks: u64, second: u64) -> Snapshot {
        let (registry, roll, mut rows) = (Registry::default(), Roll::default(), Rows::default());
        let _lent = registry.lend_roll(&[("context", "1")], roll.clone());
        for n in 0..2u64 {
            let peer = format!("10.0.0.{n}:5");
            rows.push(&PEER, &[("peer", &peer)], &[("naks", naks * n), ("waiting_bytes", 7)]);
        }
        rows.push(&INCOMING, &[("transport", &"LBTRM:x"), ("session", &3)], &[("lost", 0), ("streams", 1)]);
        (rows.monotonic_ns, rows.left_out) = (second * 1_000_000_000, 4);
        assert!(roll.show(&mut rows));
        let head = Head { pid: 4711, monotonic_ns: second * 1_000_000_000 + 500_000_000, ..Head::default() };
        let mut bytes = Vec::new();
        snapshot::emit(&head, &registry, 1 << 20, &mut bytes);
        Snapshot::parse(&bytes).expect("as it was written")
    }

    fn text(words: &[&str], now: &Snapshot, before: Option<&Snapshot>) -> Vec<String> {
        let (args, mut out) = (args(words), Vec::new());
        View { args: &args, now, before }.text(&mut out).expect("memory takes it");
        let text = String::from_utf8(out).expect("text");
        text.lines().skip(1).filter(|line| !line.is_empty()).map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn a_row_is_a_line_with_its_names_and_what_is_not_zero() {
        let now = snapshot_of(9, 1);
        let shown = text(&["--sessions"], &now, None);
        assert_eq!(
            shown,
            [
                "context 1: 3 rows, 4 more had no room (counters_sessions_maximum), written 0.5 s before",
                "peer     peer=10.0.0.0:5   waiting_bytes=7",
                "peer     peer=10.0.0.1:5   naks=9 waiting_bytes=7",
                "incoming transport=LBTRM:x session=3   streams=1",
            ]
        );
        assert!(text(&["--sessions", "--all"], &now, None)[1].ends_with(" naks=0 waiting_bytes=7"));
        assert_eq!(text(&["--sessions", "naks"], &now, None)[1..], ["peer     peer=10.0.0.1:5   naks=9"]);
        let of_one = text(&["--sessions", "kind=peer", "context=1", "peer=10.0.0.0:5"], &now, None);
        assert_eq!(of_one[1..], [&*shown[1]]);
        assert_eq!(text(&["--sessions", "context=2"], &now, None).len(), 1);
        let none = text(&["--sessions"], &Snapshot::default(), None);
        assert!(none[0].contains("counters_sessions_maximum"), "{none:?}");
    }

    #[test]
    fn totals_have_rates_by_the_time_at_which_the_rows_were_written() {
        let (before, now) = (snapshot_of(10, 1), snapshot_of(30, 3));
        let shown = text(&["--sessions", "--watch", "1"], &now, Some(&before));
        assert!(shown[2].ends_with(" naks=30(10.0/s) waiting_bytes=7"), "{shown:?}");
    }

    #[test]
    fn the_form_of_json_is_fixed() {
        let (before, now) = (snapshot_of(10, 1), snapshot_of(30, 3));
        let (args, mut out) = (args(&["--sessions", "--json", "peer=10.0.0.1:5"]), Vec::new());
        View { args: &args, now: &now, before: Some(&before) }.json(&mut out).expect("memory takes it");
        let line: Value = serde_json::from_slice(&out).expect("one line of JSON");
        let fixed = json!({
            "pid": 4711, "program": "", "wall_ns": 0, "monotonic_ns": 3_500_000_000u64,
            "contexts": [{
                "labels": { "context": "1" }, "monotonic_ns": 3_000_000_000u64, "left_out": 4,
                "rows": [{
                    "labels": { "kind": "peer", "peer": "10.0.0.1:5" },
                    "counters": { "messaging_peer_naks_total": 30, "messaging_peer_waiting_bytes": 7 },
                    "per_second": { "messaging_peer_naks_total": 10.0 },
                }],
            }],
        });
        assert_eq!(line, fixed);
    }
}
