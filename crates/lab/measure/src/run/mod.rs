//! A run as a directory: what was measured, how, on what, and every bucket behind the figures.
//!
//! | file | what |
//! |---|---|
//! | `run.json` | [`About`]: command, version, machine, times, counters of the kernel |
//! | `records.jsonl` | a line for each table begun, row, note and process, in their order |
//! | `histograms.jsonl` | a line for each run of each row with latencies: `row`, `run`, `buckets` of `[ns, count]` |
//! | `logs/NAME.log` | what the processes said on standard error |
//!
//! Lines of `records.jsonl` have one of these shapes:
//!
//! ```text
//! {"table": "pingpong", "heads": ["path", "p50 us"]}
//! {"row": 0, "cells": ["udp", "4.1"], "figures": {"p50_ns": {"median": 4100.0, "low": 4000.0, "high": 4300.0}}}
//! {"note": "Both ends spin.", "state": {}}
//! {"process": "p2ps", "arguments": ["p2ps", "--set", "p2ps.port=14002"]}
//! ```
//!
//! Rows are counted from 0 through all tables of the run. `run.json` is written when the run begins, and again when it has
//! ended; until then it is not `finished`.

mod disclosure;
mod reader;
mod utc;
mod writer;

pub use disclosure::{Disclosure, Interface, system_counters};
pub use reader::{RecordedRow, RecordedRun, RecordedTable, read_about};
pub use utc::utc;
pub use writer::{RunDirectory, remove};

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The format that is written, and the only one that is read.
pub const FORMAT: u32 = 1;

/// Whether a directory is a run.
#[must_use]
pub fn is_run(path: &Path) -> bool {
    path.join(ABOUT).is_file()
}

const ABOUT: &str = "run.json";
/// Until it is whole.
const ABOUT_NEW: &str = "run.json.new";
const RECORDS: &str = "records.jsonl";
const HISTOGRAMS: &str = "histograms.jsonl";
const LOGS: &str = "logs";

/// What a run was: the command, the program, the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// [`FORMAT`].
    pub format: u32,
    /// The words of the command, the program first.
    pub command: Vec<String>,
    /// Version of the program.
    pub version: String,
    /// Commit that it was built of, where that was told to the build.
    pub commit: Option<String>,
    /// Nanoseconds since 1970.
    pub began_ns: u64,
    /// It has come to its end; else it still runs, or was interrupted.
    pub finished: bool,
    /// How long it took, once it has ended.
    pub seconds: Option<f64>,
    /// Why it has failed, if it has.
    pub error: Option<String>,
    /// Where it ran.
    pub machine: Disclosure,
    /// What the kernel counted meanwhile ([`system_counters`]); nothing of what did not change.
    pub counted: BTreeMap<String, u64>,
}

/// Why a run directory cannot be written or read.
#[derive(Debug)]
pub enum RunError {
    /// A file of it.
    File(PathBuf, io::Error),
    /// It is no run directory, or one that is not understood: the place, and what is wrong there.
    Content(PathBuf, String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::File(path, error) => write!(f, "{}: {error}", path.display()),
            RunError::Content(path, what) => write!(f, "{}: {what}", path.display()),
        }
    }
}

impl std::error::Error for RunError {}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            Place(std::env::temp_dir().join(format!("run-{}-{name}", std::process::id())))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn recorded(place: &Path) -> RunDirectory {
        let command = vec!["tickcast".to_owned(), "bench".to_owned()];
        let mut run = RunDirectory::create(place, command, "1.2.3", Some("abc")).expect("nothing is there");
        run.table("pingpong", &["path", "p50 us"]);
        run.process("peer", &["--size".to_owned(), "64".to_owned()]);
        let buckets = [vec![(4_100, 3), (9_000, 1)], vec![(4_200, 4)]];
        run.row(&["udp".to_owned(), "4.1".to_owned()], &json!({ "p50_ns": 4_100 }), &buckets);
        run.note("Both ends spin.", Some(&json!({ "gaps": 1 })));
        run.table("stream", &["path"]);
        run.row(&["tcp".to_owned()], &json!({}), &[]);
        run
    }

    #[test]
    fn what_was_written_is_read() {
        let place = Place::new("whole");
        recorded(&place.0).finish(None).expect("written");
        let run = RecordedRun::read(&place.0).expect("legal");
        assert!(run.about.finished && run.about.error.is_none() && run.about.seconds.is_some());
        assert_eq!((run.about.version.as_str(), run.about.commit.as_deref()), ("1.2.3", Some("abc")));
        let [pingpong, stream] = &run.tables[..] else { panic!("{:?}", run.tables) };
        assert_eq!(
            (pingpong.name.as_str(), &pingpong.heads[..]),
            ("pingpong", &["path".to_owned(), "p50 us".to_owned()][..])
        );
        assert_eq!(pingpong.rows[0].histograms, [vec![(4_100, 3), (9_000, 1)], vec![(4_200, 4)]]);
        assert_eq!(pingpong.rows[0].figures, json!({ "p50_ns": 4_100 }));
        assert_eq!(pingpong.notes, ["Both ends spin."]);
        assert_eq!(pingpong.states, [json!({ "gaps": 1 })]);
        assert_eq!((stream.rows.len(), stream.rows[0].histograms.len()), (1, 0));
        assert_eq!(run.processes, [("peer".to_owned(), vec!["--size".to_owned(), "64".to_owned()])]);
    }

    #[test]
    fn an_interrupted_run_has_what_it_came_to() {
        let place = Place::new("torn");
        drop(recorded(&place.0));
        let path = place.0.join(RECORDS);
        let mut text = fs::read_to_string(&path).expect("there");
        text.truncate(text.len() - 5);
        fs::write(&path, text).expect("written");
        let run = RecordedRun::read(&place.0).expect("all but the last line");
        assert!(!run.about.finished);
        assert_eq!(run.tables.iter().map(|table| table.rows.len()).collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn a_run_that_has_just_begun_is_one_and_a_line_cut_off_later_is_told() {
        let place = Place::new("begun");
        recorded(&place.0).finish(None).expect("written");
        let path = place.0.join(RECORDS);
        let text = fs::read_to_string(&path).expect("there");
        fs::write(&path, text.trim_end()).expect("written");
        let error = RecordedRun::read(&place.0).expect_err("it has finished").to_string();
        assert!(error.contains("cut off"), "{error}");
        let about = fs::read_to_string(place.0.join(ABOUT)).expect("there");
        fs::write(place.0.join(ABOUT), about.replace("\"finished\": true", "\"finished\": false"))
            .expect("written");
        fs::remove_file(&path).expect("there");
        fs::write(place.0.join(HISTOGRAMS), "").expect("written");
        assert!(RecordedRun::read(&place.0).expect("nothing is measured yet").tables.is_empty());
    }

    #[test]
    fn a_run_is_removed_and_nothing_else() {
        let place = Place::new("removed");
        let run = recorded(&place.0);
        fs::write(run.log("p2ps"), "said").expect("written");
        run.finish(None).expect("written");
        fs::write(place.0.join("precious.txt"), "").expect("written");
        remove(&place.0).expect_err("something else is there");
        assert!(place.0.join("precious.txt").exists());
        fs::remove_file(place.0.join("precious.txt")).expect("there");
        fs::remove_dir(&place.0).expect("empty");
        recorded(&place.0).finish(None).expect("written");
        remove(&place.0).expect("all of it is a run's");
        assert!(!place.0.exists());
    }

    #[test]
    fn a_directory_is_taken_only_once() {
        let place = Place::new("twice");
        recorded(&place.0).finish(Some("no CPU")).expect("written");
        let again = RunDirectory::create(&place.0, Vec::new(), "1", None).err().expect("it is full");
        assert!(again.to_string().contains("not empty"), "{again}");
        assert_eq!(RecordedRun::read(&place.0).expect("as it was").about.error.as_deref(), Some("no CPU"));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let place = Place::new("bad");
        let error = |what: &str| {
            let error = RecordedRun::read(&place.0).err().unwrap_or_else(|| panic!("{what} was read"));
            error.to_string()
        };
        assert!(error("nothing").contains(ABOUT), "{}", error("nothing"));
        recorded(&place.0).finish(None).expect("written");
        let records = place.0.join(RECORDS);
        let good = fs::read_to_string(&records).expect("there");
        for (line, what) in [
            ("{\"cells\": [], \"row\": 7}", "row 7, not 2"),
            ("{\"cells\": 3}", "cells"),
            ("{\"other\": 1}", "neither"),
            ("nonsense", "line 7"),
        ] {
            fs::write(&records, format!("{good}{line}\n")).expect("written");
            assert!(error(line).contains(what) && error(line).contains("line 7"), "{}", error(line));
        }
        fs::write(&records, &good).expect("written");
        fs::write(place.0.join(HISTOGRAMS), "{\"row\": 9, \"run\": 0, \"buckets\": []}\n").expect("written");
        assert!(error("a row").contains("row 9"), "{}", error("a row"));
        let many =
            format!("{{\"row\": 0, \"run\": 0, \"buckets\": [[1, {0}], [2, {0}]]}}\n", u64::MAX / 2 + 1);
        fs::write(place.0.join(HISTOGRAMS), many).expect("written");
        assert!(error("a sum").contains("more than"), "{}", error("a sum"));
        let about = fs::read_to_string(place.0.join(ABOUT)).expect("there");
        fs::write(place.0.join(ABOUT), about.replace("\"format\": 1", "\"format\": 2")).expect("written");
        assert!(error("a format").contains("format 2"), "{}", error("a format"));
    }
}
