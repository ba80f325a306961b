//! Files of observations whose times are made up.

use std::cell::Cell;
use std::path::PathBuf;

use net::resident::Pages;
use net::timekeeping::Discipline;
use observation::{Calibration, Clock, Head, Record, encode};
use testkit::Folder;
use tickcast_measure::analysis::{Analysis, Options, analyse};

/// When the recorders are made, and when they write, on `CLOCK_MONOTONIC`.
const BEGIN: u64 = 1_000_000_000;
const END: u64 = 3_600_000_000_000;

fn moment(at: u64) -> Calibration {
    Calibration {
        ticks: at,
        monotonic_ns: at,
        raw_ns: at,
        realtime_ns: 1_700_000_000_000_000_000 + at,
        tai_ns: 1_700_000_037_000_000_000 + at,
        uncertainty_ns: 10,
        discipline: Discipline::default(),
    }
}

/// The head of a file of a point, by `CLOCK_MONOTONIC`.
pub(crate) fn head(point: &str) -> Head {
    Head {
        records: 0,
        lost: 0,
        capacity: 1 << 30,
        clock: Clock::Monotonic,
        pid: 77,
        cost_ns: 9.5,
        is_locked: false,
        pages: Pages::Small,
        start: moment(BEGIN),
        end: moment(END),
        point: point.to_owned(),
        stream: String::new(),
        host: "host".to_owned(),
        boot_id: "boot".to_owned(),
        clock_sources: ["acpi_pm", "acpi_pm"].map(str::to_owned),
        program: "program".to_owned(),
    }
}

/// Messages of the numbers from 0, one every `every` nanoseconds, the first one `from` nanoseconds after a second.
pub(crate) fn at_rate(from: u64, count: u64, every: u64) -> Vec<(u64, u64)> {
    (0..count).map(|number| (number, 2 * BEGIN + from + number * every)).collect()
}

/// Files in a folder that goes with this value.
pub(crate) struct Files {
    pub(crate) folder: Folder,
    count: Cell<usize>,
}

impl Files {
    pub(crate) fn new() -> Files {
        Files { folder: Folder::new(), count: Cell::new(0) }
    }

    /// Adds a file of (id, ticks). Ticks before the recorder's time are put behind its beginning.
    pub(crate) fn add(&self, head: &Head, records: &[(u64, u64)]) {
        let shift = if records.iter().any(|(_, at)| *at < BEGIN) { 2 * BEGIN } else { 0 };
        let records: Vec<Record> =
            records.iter().map(|(id, at)| Record { id: *id, ticks: at + shift }).collect();
        let head = Head { records: records.len() as u64, ..head.clone() };
        let bytes = encode(&head, &records).expect("its times are within the recorder's");
        std::fs::write(self.folder.join(format!("{}", self.count.get())), bytes).expect("a writable place");
        self.count.set(self.count.get() + 1);
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        (0..self.count.get()).map(|number| self.folder.join(format!("{number}"))).collect()
    }

    pub(crate) fn analyse(&self, options: &Options) -> Analysis {
        analyse(&self.paths(), options, |_| ()).expect("files as they were written")
    }
}
