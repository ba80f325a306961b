//! The counters of a process in a file, where any other process can read them.
//!
//! A thread copies all sets of a [`Registry`] into `tickcast-counters-<pid>-<namespace>-<random>` at an interval; the threads that
//! count know nothing of it. The file is made whole, gone when the process ends in order, and removed by
//! whoever finds that its process is dead. `docs/protocol/counters.md` has the layout.
//!
//! There are two banks, and a sequence number that says which one holds: the other one is written, then the
//! number is raised. So a reader sees all values of one time or tries again, and finds the last ones of a
//! process that was killed at any point (`a_reader_never_sees_half_a_snapshot`).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
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
/// A snapshot that was overwritten while it was read is read again so often.
const READS_MAX: usize = 1_000;
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
        snapshot::emit(&self.head, registry, room, &mut self.bytes);
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

/// Process ids alone do not do: containers that share the directory have the same ones, and a dead process of another
/// user may have left its file. So the namespace and a random number go with them.
fn path(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("{PREFIX}{pid}-{:x}-{:x}", namespace(), clock::seed() as u32))
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
            affinity::step_aside();
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

/// A file of counters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// The process, as it knows itself.
    pub pid: u32,
    /// The namespace in which it has that number; see [`namespace`].
    pub namespace: u64,
    path: PathBuf,
}

impl Found {
    /// The counters as they were published last.
    ///
    /// # Errors
    /// The file is gone or cannot be read, or is not one of counters of that process; the error names it.
    pub fn read(&self) -> io::Result<Snapshot> {
        let named = |e: io::Error| {
            io::Error::new(e.kind(), format!("cannot read counters in {}: {e}", self.path.display()))
        };
        let read = read_file(&self.open().map_err(named)?).map_err(named)?;
        if read.head.pid == self.pid {
            return Ok(read);
        }
        let text = format!("it says that it is of process {}", read.head.pid);
        Err(named(io::Error::new(io::ErrorKind::InvalidData, text)))
    }

    /// Whether the process may have made the file, or root: anybody may put one where all of them are. What is
    /// not known is believed.
    fn is_of_its_user(&self) -> bool {
        let user = || {
            let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
            let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
            // The real one is before the effective one.
            ids.split_whitespace().nth(1)?.parse::<u32>().ok()
        };
        let owner = || Some(fs::symlink_metadata(&self.path).ok()?.uid()).filter(|owner| *owner != 0);
        self.namespace != namespace() || owner().zip(user()).is_none_or(|(owner, user)| owner == user)
    }

    fn open(&self) -> io::Result<File> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        File::options().read(true).custom_flags(flags).open(&self.path)
    }

    /// Whether its process lives, whosoever that is.
    fn lives(&self) -> io::Result<bool> {
        owned_file::is_owned(&self.open()?)
    }

    fn of(directory: &Path, name: &str) -> Option<Found> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let pid = parts.next()?.parse().ok()?;
        let namespace = u64::from_str_radix(parts.next()?, 16).ok()?;
        u32::from_str_radix(parts.next()?, 16).ok()?;
        parts.next().is_none().then(|| Found { pid, namespace, path: directory.join(name) })
    }
}

/// Tells the namespaces of a host apart in which processes have their numbers, so containers: the inode of this
/// process's, or 0 where `/proc` is not there.
#[must_use]
pub fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// The file of a process that publishes counters in `directory`. Without a namespace, one of this process's namespace
/// goes before others. Files of this namespace that are neither root's nor those of the process's user do not count.
///
/// # Errors
/// There is none, or there are several in other namespaces, which the error names.
pub fn find(directory: &Path, pid: u32, wanted: Option<u64>) -> io::Result<Found> {
    let here = namespace();
    let mut all = files(directory)?;
    all.retain(|found| found.pid == pid && wanted.is_none_or(|wanted| wanted == found.namespace));
    all.retain(Found::is_of_its_user);
    // Of a process that was killed the last values are there until somebody cleans up.
    let lives = |found: &Found| found.lives().unwrap_or(false);
    if all.iter().any(lives) {
        all.retain(lives);
    }
    all.sort_unstable();
    if let Some(own) = all.iter().find(|found| found.namespace == here) {
        return Ok(own.clone());
    }
    match &all[..] {
        [] => {
            let text = format!("process {pid} publishes no counters in {}", directory.display());
            Err(io::Error::new(io::ErrorKind::NotFound, text))
        }
        [one] => Ok(one.clone()),
        several => {
            let names = several.iter().map(|found| format!("{pid}@{}", found.namespace));
            let names = names.collect::<Vec<_>>().join(", ");
            let text = format!("there are several processes {pid}: {names}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

/// The counters of a process as it published them last; see [`find`].
///
/// # Errors
/// As [`find`] and [`Found::read`].
pub fn read(directory: &Path, pid: u32) -> io::Result<Snapshot> {
    find(directory, pid, None)?.read()
}

fn read_file(file: &File) -> io::Result<Snapshot> {
    let mut start = [0; 12];
    file.read_exact_at(&mut start, 0)?;
    if start[..8] != MAGIC || start[8..] != VERSION.to_le_bytes() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file of counters of version 1"));
    }
    for _ in 0..READS_MAX {
        let sequence = read_u64(file, SEQUENCE_AT)?;
        let bytes = read_bank(file, bank_at(sequence));
        // The bank is written again only behind the next number.
        if read_u64(file, SEQUENCE_AT)? == sequence {
            let parsed = Snapshot::parse(&bytes?);
            return parsed.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e));
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "it changes each time while it is read"))
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
pub fn processes(directory: &Path) -> io::Result<Vec<Found>> {
    // A directory that cannot be read is told below.
    let _ = clean(directory);
    let mut all = files(directory)?;
    // What this user may not remove is there still. What cannot be looked at, the reader is told of.
    all.retain(|found| found.lives().unwrap_or(true));
    all.sort_unstable();
    Ok(all)
}

/// Removes what dead processes have left, as far as this user may. Returns how many files that were.
///
/// # Errors
/// The directory cannot be read.
pub fn clean(directory: &Path) -> io::Result<usize> {
    let reclaimed = |found: &Found| owned_file::reclaim(&found.path).unwrap_or(false);
    Ok(files(directory)?.iter().filter(|found| reclaimed(found)).count())
}

fn files(directory: &Path) -> io::Result<Vec<Found>> {
    let found = |entry: fs::DirEntry| Found::of(directory, entry.file_name().to_str()?);
    fs::read_dir(directory)?.filter_map(|entry| entry.map(found).transpose()).collect()
}

#[cfg(test)]
mod tests {
    use counters::table::{self, LbtrmSource};
    use counters::{Roll, Rows};
    use testkit::Folder;

    use super::*;

    /// Options with a folder of their own.
    struct Place(CountersFileOptions, #[expect(dead_code, reason = "removed at the end")] Folder);

    impl Place {
        fn new(test: &str) -> Place {
            let folder = Folder::in_memory();
            let (directory, interval) = (folder.to_path_buf(), Duration::from_millis(1));
            Place(CountersFileOptions { directory, interval, program: format!("test of {test}") }, folder)
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
        let found = processes(&place.0.directory).unwrap();
        assert_eq!((found.len(), found[0].pid, found[0].namespace), (1, pid, namespace()));
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
        let roll = Roll::default();
        let _lent = registry.lend_roll(&[], roll.clone());
        let counting = std::thread::spawn(move || {
            for i in 1..=300 {
                all.iter().for_each(|source| source.msgs_sent.set(i));
                // Names of any length, and more or fewer of them.
                let mut rows = Rows::default();
                rows.monotonic_ns = i;
                let name = "x".repeat(i as usize);
                (0..i % 7)
                    .for_each(|_| rows.push(&table::sessions::SOURCE, &[("topic", &name)], &[("next", i)]));
                while !roll.show(&mut rows) {}
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
            for roll in read.rolls.iter().filter(|roll| roll.monotonic_ns > 0) {
                let (i, of) = (roll.monotonic_ns, &roll.sets);
                assert_eq!(of.len() as u64, i % 7, "rows of one round");
                assert!(of.iter().all(|set| set.labels[1].1.len() as u64 == i && set.values == [i]));
            }
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
        assert_eq!(processes(directory).unwrap()[0].pid, 1);
        drop(dead);
        assert_eq!(fs::read_dir(directory).unwrap().count(), 1, "the file that is none of ours");
    }

    #[test]
    fn processes_of_one_number_in_other_containers_have_files_of_their_own() {
        let place = Place::new("namespaces");
        let directory = &place.0.directory;
        let mut all: Vec<Writer> = (0..3).map(|_| Writer::create(&place.0).unwrap()).collect();
        for writer in &mut all {
            writer.write(&Registry::default()).unwrap();
        }
        // The first two as other namespaces name them.
        let pid = std::process::id();
        for (writer, namespace) in all.iter_mut().zip([17, 18]) {
            let path = directory.join(format!("{PREFIX}{pid}-{namespace:x}-1"));
            fs::rename(&writer.path, &path).unwrap();
            writer.path = path;
        }
        assert_eq!(processes(directory).unwrap().len(), 3);
        assert_eq!(find(directory, pid, None).unwrap().namespace, namespace(), "the own one goes before");
        assert_eq!(find(directory, pid, Some(18)).unwrap().namespace, 18);
        drop(all.pop());
        let error = find(directory, pid, None).unwrap_err().to_string();
        assert!(error.contains(&format!("{pid}@17, {pid}@18")), "{error}");
        drop(all.pop());
        assert_eq!(find(directory, pid, None).unwrap().namespace, 17);
        drop(all);
        assert_eq!(find(directory, pid, None).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_that_a_dead_process_of_another_user_has_left_is_in_nobodys_way() {
        if !testkit::child::is_root() {
            eprintln!("skipped: only root becomes other users");
            return;
        }
        let place = Place::new("users");
        fs::set_permissions(&place.0.directory, std::os::unix::fs::PermissionsExt::from_mode(0o1777))
            .unwrap();
        let left = std::mem::ManuallyDrop::new(Writer::create(&place.0).unwrap());
        // As a dead process leaves it: nobody has its lock.
        let number = std::os::fd::AsRawFd::as_raw_fd(&left.file);
        // SAFETY: the descriptor is the writer's, which is never dropped.
        unsafe { libc::close(number) };
        let child = testkit::child::fork(|| {
            testkit::child::become_user(64_001, 64_000).expect("root may");
            let published = CountersFile::publish(Registry::default(), &place.0);
            let found = processes(&place.0.directory).expect("anybody may look");
            published.is_ok() && found.len() == 1 && found[0].pid == std::process::id()
        });
        assert!(child.unwrap().has_ended_well());
        assert_eq!(clean(&place.0.directory).unwrap(), 1, "its user may remove it");
    }

    #[test]
    fn a_file_that_another_user_has_made_for_a_process_is_not_taken_for_its_own() {
        if !testkit::child::is_root() {
            eprintln!("skipped: only root becomes other users");
            return;
        }
        let place = Place::new("forged");
        let directory = &place.0.directory;
        fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
        let mut writer = Writer::create(&place.0).unwrap();
        writer.write(&Registry::default()).unwrap();
        let pid = std::process::id();
        // It stands before the genuine one.
        let forged = directory.join(format!("{PREFIX}{pid}-{:x}-0", namespace()));
        let child = testkit::child::fork(|| {
            testkit::child::become_user(64_001, 64_000).expect("root may");
            fs::copy(&writer.path, &forged).is_ok()
        });
        assert!(child.unwrap().has_ended_well());
        assert_eq!(find(directory, pid, None).unwrap().path, writer.path);
        drop(writer);
        assert_eq!(find(directory, pid, None).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_of_one_process_is_not_read_as_another_s() {
        let place = Place::new("renamed");
        let mut writer = Writer::create(&place.0).unwrap();
        writer.write(&Registry::default()).unwrap();
        let other = path(&place.0.directory, u32::MAX);
        fs::rename(&writer.path, &other).unwrap();
        writer.path = other;
        let error = read(&place.0.directory, u32::MAX).unwrap_err().to_string();
        assert!(error.contains(&format!("of process {}", std::process::id())), "{error}");
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
