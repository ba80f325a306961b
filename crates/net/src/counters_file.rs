//! The counters of a process in a file, where any other process can read them.
//!
//! A thread copies all sets of a [`Registry`] into `tickcast-counters-<pid>` at an interval; the threads that
//! count know nothing of it. The file is made whole, gone when the process ends in order, and removed by
//! whoever finds that its process is dead. `docs/protocol/counters.md` has the layout.
//!
//! There are two banks, and a sequence number that says which one holds: the other one is written, then the
//! number is raised. So a reader sees all values of one time or tries again, and finds the last ones of a
//! process that was killed at any point (`a_reader_never_sees_half_a_snapshot`).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use counters::Registry;
use counters::snapshot::{self, Head, Snapshot};

use crate::fork::Home;
use crate::{affinity, clock, owned_file};

const MAGIC: [u8; 8] = *b"TICKCNT\0";
const VERSION: u32 = 1;
const PREFIX: &str = "tickcast-counters-";

const SEQUENCE_AT: u64 = 16;
const BANKS_AT: u64 = 4_096;
/// Pages of a bank that are never written take no memory.
const BANK_BYTES: u64 = 8 << 20;
/// In front of a snapshot: its length.
const LENGTH_BYTES: u64 = 8;

/// What a process publishes, and where.
#[derive(Clone, Debug)]
pub struct CountersFileOptions {
    /// A directory in memory.
    pub directory: PathBuf,
    /// How often values are copied.
    pub interval: Duration,
    /// What the process calls itself.
    pub program: String,
}

/// The file of this process.
struct Writer {
    file: File,
    path: PathBuf,
    sequence: u64,
    head: Head,
    bytes: Vec<u8>,
}

impl Writer {
    fn create(options: &CountersFileOptions) -> io::Result<Writer> {
        let pid = std::process::id();
        let path = path(&options.directory, pid);
        let named = |e: io::Error| {
            io::Error::new(e.kind(), format!("cannot publish counters in {}: {e}", path.display()))
        };
        let file = owned_file::create_unnamed(&options.directory, 0o644).map_err(named)?;
        let mut start = [0; 16];
        start[..8].copy_from_slice(&MAGIC);
        start[8..12].copy_from_slice(&VERSION.to_le_bytes());
        file.write_all_at(&start, 0).map_err(named)?;
        file.set_len(BANKS_AT + 2 * BANK_BYTES).map_err(named)?;
        let head = Head {
            pid,
            started_ns: clock::wall_ns(),
            interval_ms: u32::try_from(options.interval.as_millis()).unwrap_or(u32::MAX),
            program: options.program.clone(),
            ..Head::default()
        };
        owned_file::link(&file, &path).map_err(named)?;
        Ok(Writer { file, path, sequence: 0, head, bytes: Vec::new() })
    }

    fn write(&mut self, registry: &Registry) -> io::Result<()> {
        self.head.wall_ns = clock::wall_ns();
        self.head.monotonic_ns = clock::monotonic().0;
        self.head.left_out = u32::try_from(registry.refused()).unwrap_or(u32::MAX);
        let room = (BANK_BYTES - LENGTH_BYTES) as usize;
        snapshot::emit(&self.head, &registry.snapshot(), room, &mut self.bytes);
        let bank = bank_at(self.sequence + 1);
        self.file.write_all_at(&(self.bytes.len() as u64).to_le_bytes(), bank)?;
        self.file.write_all_at(&self.bytes, bank + LENGTH_BYTES)?;
        self.sequence += 1;
        self.file.write_all_at(&self.sequence.to_le_bytes(), SEQUENCE_AT)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Whoever finds this process gone removes what stays.
        let _ = owned_file::remove(&self.file, &self.path);
    }
}

fn path(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("{PREFIX}{pid}"))
}

fn bank_at(sequence: u64) -> u64 {
    BANKS_AT + sequence % 2 * BANK_BYTES
}

/// A thread that publishes the counters of this process; dropping it ends the thread and removes the file.
pub struct CountersFile {
    home: Home,
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl CountersFile {
    /// Makes the file with the present values, and keeps it up to date.
    ///
    /// # Errors
    /// The directory is not there, or is in a file system that cannot make unnamed files; the error names it.
    pub fn publish(registry: Registry, options: &CountersFileOptions) -> io::Result<CountersFile> {
        // A directory that cannot be read is told by what follows, and what stays is in nobody's way.
        let _ = clean(&options.directory);
        let mut writer = Writer::create(options)?;
        writer.write(&registry)?;
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (stopped, interval) = (Arc::clone(&stop), options.interval);
        let thread = std::thread::Builder::new().name("counters".to_owned()).spawn(move || {
            // It inherits the priority of whoever publishes, before whom nothing else may run. To lower it
            // takes no rights.
            let _ = affinity::set_ordinary_priority();
            let (is_over, changed) = &*stopped;
            let mut guard = is_over.lock().unwrap_or_else(PoisonError::into_inner);
            while !*guard {
                (guard, _) = changed.wait_timeout(guard, interval).unwrap_or_else(PoisonError::into_inner);
                // A full disk is told by the time in the file, which stands still.
                let _ = writer.write(&registry);
            }
        })?;
        Ok(CountersFile { home: Home::here(), stop, thread: Some(thread) })
    }
}

impl Drop for CountersFile {
    fn drop(&mut self) {
        // A child of a fork has neither the thread nor the file, which are its parent's.
        if !self.home.is_certain() {
            return std::mem::forget(self.thread.take());
        }
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic has been told, and a drop has nobody to tell.
            let _ = thread.join();
        }
    }
}

/// The counters of a process as it published them last.
///
/// # Errors
/// The process publishes none in `directory`, or the file is not one of counters; the error names it.
pub fn read(directory: &Path, pid: u32) -> io::Result<Snapshot> {
    let path = path(directory, pid);
    let named =
        |e: io::Error| io::Error::new(e.kind(), format!("cannot read counters in {}: {e}", path.display()));
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(&path).map_err(named)?;
    read_file(&file).map_err(named)
}

fn read_file(file: &File) -> io::Result<Snapshot> {
    let mut start = [0; 12];
    file.read_exact_at(&mut start, 0)?;
    if start[..8] != MAGIC || start[8..] != VERSION.to_le_bytes() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file of counters of version 1"));
    }
    loop {
        let sequence = read_u64(file, SEQUENCE_AT)?;
        let bytes = read_bank(file, bank_at(sequence));
        // The bank is written again only behind the next number.
        if read_u64(file, SEQUENCE_AT)? == sequence {
            let parsed = Snapshot::parse(&bytes?);
            return parsed.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e));
        }
    }
}

fn read_bank(file: &File, bank: u64) -> io::Result<Vec<u8>> {
    let length = read_u64(file, bank)?.min(BANK_BYTES - LENGTH_BYTES);
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, bank + LENGTH_BYTES)?;
    Ok(bytes)
}

fn read_u64(file: &File, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The processes that publish counters in `directory`, by process id, after what dead ones have left was
/// removed.
///
/// # Errors
/// The directory cannot be read.
pub fn processes(directory: &Path) -> io::Result<Vec<u32>> {
    // A directory that cannot be read is told below.
    let _ = clean(directory);
    let mut pids = pids(directory)?;
    pids.sort_unstable();
    Ok(pids)
}

/// Removes what dead processes have left, as far as this user may. Returns how many files that were.
///
/// # Errors
/// The directory cannot be read.
pub fn clean(directory: &Path) -> io::Result<usize> {
    let reclaimed = |pid| owned_file::reclaim(&path(directory, pid)).unwrap_or(false);
    Ok(pids(directory)?.into_iter().filter(|pid| reclaimed(*pid)).count())
}

fn pids(directory: &Path) -> io::Result<Vec<u32>> {
    let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix(PREFIX)?.parse().ok();
    fs::read_dir(directory)?.filter_map(|entry| entry.map(pid).transpose()).collect()
}

#[cfg(test)]
mod tests {
    use counters::table::LbtrmSource;

    use super::*;

    struct Place(CountersFileOptions);

    impl Place {
        fn new(test: &str) -> Place {
            let directory =
                PathBuf::from(format!("/dev/shm/tickcast-counters-test-{test}-{}", std::process::id()));
            fs::create_dir(&directory).expect("/dev/shm is there");
            let interval = Duration::from_millis(1);
            Place(CountersFileOptions { directory, interval, program: format!("test of {test}") })
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0.directory);
        }
    }

    fn value(of: &Snapshot, set: usize, name: &str) -> u64 {
        let row = &of.sets[set];
        let column =
            of.tables[row.table].iter().position(|column| column.name == name).expect("in the table");
        row.values[column]
    }

    #[test]
    fn counters_are_read_while_they_count() {
        let place = Place::new("read");
        let (registry, source) = (Registry::default(), Arc::new(LbtrmSource::default()));
        registry.register(&[("session", "1")], source.clone());
        let published = CountersFile::publish(registry.clone(), &place.0).unwrap();
        let pid = std::process::id();
        assert_eq!(processes(&place.0.directory).unwrap(), [pid]);
        let first = read(&place.0.directory, pid).unwrap();
        assert_eq!((first.head.pid, &*first.head.program, first.head.interval_ms), (pid, "test of read", 1));
        source.msgs_sent.add(7);
        let later = registry.lend(&[("session", "2")], Arc::new(LbtrmSource::default()));
        let wait_for = |sets: usize| {
            loop {
                let read = read(&place.0.directory, pid).unwrap();
                if read.sets.len() == sets && value(&read, 0, "lbtrm_source_msgs_sent_total") == 7 {
                    return read;
                }
                std::thread::yield_now();
            }
        };
        let second = wait_for(2);
        assert!(second.head.monotonic_ns > first.head.monotonic_ns);
        assert_eq!(second.sets[1].labels, [("session".to_owned(), "2".to_owned())]);
        drop(later);
        wait_for(1);
        drop(published);
        assert!(processes(&place.0.directory).unwrap().is_empty(), "gone with the process");
        let error = read(&place.0.directory, pid).unwrap_err();
        assert!(error.to_string().contains(&pid.to_string()), "{error}");
    }

    #[test]
    fn a_reader_never_sees_half_a_snapshot() {
        let place = Place::new("whole");
        let registry = Registry::default();
        let all: Vec<_> = (0..200).map(|_| Arc::new(LbtrmSource::default())).collect();
        all.iter().for_each(|source| {
            registry.register(&[], source.clone());
        });
        let mut writer = Writer::create(&place.0).unwrap();
        writer.write(&registry).unwrap();
        let file = File::open(&writer.path).unwrap();
        let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let counting = std::thread::spawn(move || {
            for i in 1..=300 {
                all.iter().for_each(|source| source.msgs_sent.set(i));
                writer.write(&registry).unwrap();
            }
            stop.store(true, std::sync::atomic::Ordering::Release);
            writer
        });
        let mut last = 0;
        while !is_over.load(std::sync::atomic::Ordering::Acquire) {
            let read = read_file(&file).unwrap();
            let now = value(&read, 0, "lbtrm_source_msgs_sent_total");
            assert!((0..200).all(|set| value(&read, set, "lbtrm_source_msgs_sent_total") == now));
            assert!(now >= last);
            last = now;
        }
        drop(counting.join().unwrap());
    }

    #[test]
    fn what_a_dead_process_has_left_is_removed() {
        let place = Place::new("dead");
        let directory = &place.0.directory;
        let mut dead = Writer::create(&place.0).unwrap();
        let stays = path(directory, 1);
        fs::rename(&dead.path, &stays).unwrap();
        dead.path = stays;
        assert_eq!(clean(directory).unwrap(), 0, "it lives");
        fs::write(path(directory, 2), b"").unwrap();
        fs::write(directory.join("tickcast-counters-x"), b"").unwrap();
        assert_eq!(clean(directory).unwrap(), 1);
        assert_eq!(processes(directory).unwrap(), [1]);
        drop(dead);
        assert_eq!(fs::read_dir(directory).unwrap().count(), 1, "the file that is none of ours");
    }

    #[test]
    fn files_that_are_no_counters_are_refused() {
        let place = Place::new("nonsense");
        let file = path(&place.0.directory, 3);
        let mut short = Vec::from(MAGIC);
        short.extend(VERSION.to_le_bytes());
        for nonsense in [&b""[..], &[0; 10_000], &short] {
            fs::write(&file, nonsense).unwrap();
            assert!(read(&place.0.directory, 3).is_err());
        }
        short.resize(10_000, 0xff);
        fs::write(&file, &short).unwrap();
        assert!(read(&place.0.directory, 3).is_err());
        let nowhere = CountersFileOptions { directory: "/nowhere".into(), ..place.0.clone() };
        assert!(CountersFile::publish(Registry::default(), &nowhere).is_err());
    }
}
