use std::io;
use std::path::Path;
use std::time::Duration;

use net::fork::Home;
use net::resident::Resident;
use net::timekeeping::{KernelClock, clock_source};

use crate::head::{Head, MOST_RECORDS, NAME_BYTES};
use crate::{Calibration, Clock, writer};

/// Batches of which the median counts, and calls of a batch, when a call's cost is measured.
const BATCHES: usize = 65;
const BATCH_CALLS: usize = 1_000;
/// Two moments further apart tell the rate of a clock to some parts per million.
const SHORTEST_LIFE: Duration = Duration::from_millis(20);

/// What a recorder is made for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Where messages are observed, as `sender`: 1 to 64 bytes of text.
    pub point: String,
    /// Which messages, if several kinds have the same ids: up to 64 bytes of text.
    pub stream: String,
    /// Observations that there is room for: 1 to 2^35, 16 bytes each.
    pub capacity: u64,
    /// By which clock; without one by the TSC where it is a clock, else by `CLOCK_MONOTONIC`.
    pub clock: Option<Clock>,
}

/// Takes down what one thread observes: (id, time) of each message, in memory that is there before.
#[derive(Debug)]
pub struct Recorder {
    tape: Tape,
    settings: Settings,
    cost_ns: f64,
    start: Calibration,
    source: String,
    no_tsc: Option<String>,
    home: Home,
}

/// The memory, and how far it is used.
#[derive(Debug)]
struct Tape {
    memory: Resident,
    clock: Clock,
    /// The next word.
    next: usize,
    lost: u64,
}

impl Tape {
    #[inline]
    fn record(&mut self, id: u64) -> bool {
        let ticks = self.clock.now();
        let place = self.memory.words_mut().get_mut(self.next..).and_then(|rest| rest.first_chunk_mut());
        match place {
            Some(place) => {
                *place = [id, ticks];
                self.next += 2;
                true
            }
            None => {
                self.lost += 1;
                false
            }
        }
    }

    /// What a call costs, nanoseconds, by calls whose records are forgotten.
    fn cost_ns(&mut self) -> f64 {
        let calls = BATCH_CALLS.min(self.memory.words().len() / 2);
        let mut batches: Vec<f64> = (0..BATCHES)
            .map(|batch| {
                // As far as there is room each batch has memory of its own, as the messages will.
                if self.next + 2 * calls > self.memory.words().len() {
                    self.next = 0;
                }
                let begun = KernelClock::Monotonic.now_ns();
                for number in 0..calls {
                    std::hint::black_box(self.record(std::hint::black_box((batch * calls + number) as u64)));
                }
                KernelClock::Monotonic.now_ns().saturating_sub(begun) as f64 / calls as f64
            })
            .collect();
        (self.next, self.lost) = (0, 0);
        batches.sort_by(f64::total_cmp);
        batches[BATCHES / 2]
    }
}

impl Recorder {
    /// Makes one. Its memory is given by the system now, and the cost of a call is measured (some milliseconds).
    ///
    /// # Errors
    /// A name is empty, longer than 64 bytes or of several lines; the capacity is out of its range or more than there is memory
    /// for; the clock that is asked for is none here.
    pub fn new(settings: &Settings) -> io::Result<Recorder> {
        check(settings)?;
        let no_tsc = Clock::Tsc.why_not();
        let clock = match (settings.clock, &no_tsc) {
            (Some(Clock::Tsc), Some(why)) => return Err(wrong(format!("clock tsc: {why}"))),
            (Some(clock), _) => clock,
            (None, None) => Clock::Tsc,
            (None, Some(_)) => Clock::Monotonic,
        };
        let words =
            usize::try_from(2 * settings.capacity).map_err(|_| wrong("more than memory".to_owned()))?;
        let memory = Resident::new(words).map_err(|error| {
            io::Error::new(error.kind(), format!("memory for {} observations: {error}", settings.capacity))
        })?;
        let mut tape = Tape { memory, clock, next: 0, lost: 0 };
        let cost_ns = tape.cost_ns();
        let (settings, home, source) = (settings.clone(), Home::here(), clock_source());
        Ok(Recorder { tape, settings, cost_ns, start: Calibration::now(clock), source, no_tsc, home })
    }

    /// Takes a message down; whether there was room. It never waits and never grows: what finds no room is counted.
    #[inline]
    pub fn record(&mut self, id: u64) -> bool {
        self.tape.record(id)
    }

    /// Messages that were taken down.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.tape.next as u64 / 2
    }

    /// Messages that found no room.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.tape.lost
    }

    /// Messages that there is room for in all.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.settings.capacity
    }

    /// The clock of its times.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.tape.clock
    }

    /// Why that is not the TSC, if this host does not have it as a clock.
    #[must_use]
    pub fn why_no_tsc(&self) -> Option<&str> {
        self.no_tsc.as_deref()
    }

    /// What a call of [`Recorder::record`] costs here, nanoseconds: the median of 65 batches of 1,000 calls.
    #[must_use]
    pub fn cost_ns(&self) -> f64 {
        self.cost_ns
    }

    /// Whether its memory cannot be taken away, which the limit of locked memory may forbid.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.tape.memory.is_locked()
    }

    /// Writes what there is into a file, whole or not at all, after the run: it reads all of the memory. `progress` hears how
    /// many bytes of how many are written. The recorder goes on; when it writes again, the file has all.
    ///
    /// # Errors
    /// The file cannot be written, or this is a child made by `fork`, which has not observed anything.
    pub fn write(&self, path: &Path, progress: impl FnMut(u64, u64)) -> io::Result<()> {
        if !self.home.is_certain() {
            return Err(self.home.forked().into());
        }
        let head = self.head();
        // Clocks that contradict each other would make a file that nobody takes.
        Head::parse(&head.encode()).map_err(wrong)?;
        writer::write(path, &head, &self.tape.memory.words()[..self.tape.next], progress).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot write observations to {}: {error}", path.display()))
        })
    }

    fn head(&self) -> Head {
        let lived = KernelClock::Monotonic.now_ns().saturating_sub(self.start.monotonic_ns);
        std::thread::sleep(SHORTEST_LIFE.saturating_sub(Duration::from_nanos(lived)));
        let text = |path: &str| {
            std::fs::read_to_string(path).unwrap_or_default().trim().replace(char::is_control, " ")
        };
        let program = std::env::current_exe()
            .ok()
            .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Head {
            records: self.records(),
            lost: self.tape.lost,
            capacity: self.settings.capacity,
            clock: self.tape.clock,
            pid: std::process::id(),
            cost_ns: self.cost_ns,
            is_locked: self.is_locked(),
            pages: self.tape.memory.pages(),
            start: self.start,
            end: Calibration::now(self.tape.clock),
            point: self.settings.point.clone(),
            stream: self.settings.stream.clone(),
            host: text("/proc/sys/kernel/hostname"),
            boot_id: text("/proc/sys/kernel/random/boot_id"),
            clock_sources: [self.source.clone(), clock_source()],
            program: program.unwrap_or_default().replace(char::is_control, " "),
        }
    }
}

/// What a call costs here by a clock, nanoseconds, with memory for 65,000 observations.
///
/// # Errors
/// As [`Recorder::new`].
pub fn cost_ns(clock: Clock) -> io::Result<f64> {
    let capacity = (BATCHES * BATCH_CALLS) as u64;
    let settings = Settings { point: "cost".to_owned(), capacity, clock: Some(clock), ..Settings::default() };
    Recorder::new(&settings).map(|recorder| recorder.cost_ns())
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn check(settings: &Settings) -> io::Result<()> {
    for (what, name, least) in [("point", &settings.point, 1), ("stream", &settings.stream, 0)] {
        if !(least..=NAME_BYTES).contains(&name.len()) || name.contains(char::is_control) {
            return Err(wrong(format!(
                "{what} {name:?}: a name is {least} to {NAME_BYTES} bytes of text in one line"
            )));
        }
    }
    if !(1..=MOST_RECORDS).contains(&settings.capacity) {
        return Err(wrong(format!(
            "a capacity of {} observations; it is 1 to {MOST_RECORDS}",
            settings.capacity
        )));
    }
    Ok(())
}
