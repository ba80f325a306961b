//! The state file: what settings were before they were changed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::setting::{Setting, VALUE_BYTES_MAX};
use crate::tree::Tree;

/// Version of the file's format.
const VERSION: u32 = 1;
/// Longest file, and most settings in it.
const BYTES_MAX: u64 = 4 << 20;
const ENTRIES_MAX: usize = 65_536;

/// Root writes here: a link that somebody has laid leads nowhere.
const NO_LINK: i32 = OFlags::NOFOLLOW.bits() as i32;

/// One setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// The finding that it belongs to.
    pub(crate) name: String,
    pub(crate) setting: String,
    /// The value before the first change.
    pub(crate) before: String,
    /// The value that was to be written.
    pub(crate) wanted: String,
    /// What the kernel has made of it, if that reads otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) became: Option<String>,
}

impl Entry {
    /// The value that `apply` has left.
    pub(crate) fn left(&self) -> &str {
        self.became.as_deref().unwrap_or(&self.wanted)
    }

    fn check(&self) -> Result<(), String> {
        let values = [Some(&self.before), Some(&self.wanted), self.became.as_ref()];
        let is_odd = |value: &&String| value.len() > VALUE_BYTES_MAX || value.contains(char::is_control);
        match values.into_iter().flatten().find(is_odd) {
            Some(value) => Err(format!("{:?} is no value of {}", crate::tree::shorten(value), self.setting)),
            None => self.setting.parse::<Setting>().map(|_| ()),
        }
    }
}

/// All that was changed and is not undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    version: u32,
    /// The kernel's number of this start of the machine: with the next one, all is as it was.
    pub(crate) boot_id: String,
    /// The network namespace whose settings these are.
    pub(crate) network: String,
    /// In the order of the changes.
    pub(crate) entries: Vec<Entry>,
}

impl Record {
    /// Of this start of the machine, without a change.
    ///
    /// # Errors
    /// The kernel does not say which start that is.
    pub(crate) fn new(tree: &Tree) -> Result<Record, String> {
        let boot_id = tree.text("/proc/sys/kernel/random/boot_id")?;
        let network = tree.link("/proc/self/ns/net").unwrap_or_default();
        Ok(Record { version: VERSION, boot_id, network, entries: Vec::new() })
    }

    /// Takes a change into account: a setting that was changed before keeps its first value.
    pub(crate) fn add(&mut self, entry: Entry) {
        match self.entries.iter_mut().find(|one| one.setting == entry.setting) {
            Some(known) => (known.wanted, known.became) = (entry.wanted, None),
            None => self.entries.push(entry),
        }
    }
}

/// Where the state file is, locked against another program that changes settings.
pub(crate) struct Store {
    path: PathBuf,
    _lock: File,
}

impl Store {
    /// Locks it. Its folder is made if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made or written; another program is at work.
    pub(crate) fn open(path: &Path) -> Result<Store, String> {
        let named = |what: &str, error: &io::Error| format!("{what} {}: {error}", path.display());
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|error| named("cannot make the folder of", &error))?;
        }
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(NO_LINK)
            .open(path.with_extension("lock"))
            .map_err(|error| named("cannot lock", &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Store { path: path.to_owned(), _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => {
                Err(format!("another program changes settings now and has locked {}", path.display()))
            }
            Err(fs::TryLockError::Error(error)) => Err(named("cannot lock", &error)),
        }
    }

    /// What is recorded, if anything is.
    ///
    /// # Errors
    /// The file cannot be read, or is not one of these.
    pub(crate) fn load(&self) -> Result<Option<Record>, String> {
        let wrong =
            |why: &dyn std::fmt::Display| format!("{} is no record of settings: {why}", self.path.display());
        let bytes = match net::small_file::read(&self.path, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot read {}: {error}", self.path.display())),
        };
        let record: Record = serde_json::from_slice(&bytes).map_err(|error| wrong(&error))?;
        if record.version != VERSION {
            return Err(wrong(&format!("its version is {}, and not {VERSION}", record.version)));
        }
        if record.entries.len() > ENTRIES_MAX {
            return Err(wrong(&format!("it has more than {ENTRIES_MAX} settings")));
        }
        record.entries.iter().try_for_each(Entry::check).map_err(|why| wrong(&why))?;
        Ok(Some(record))
    }

    /// Replaces the file as a whole; it is on the disk when this returns. Without an entry there is none.
    ///
    /// # Errors
    /// The disk is full, or the folder may not be written.
    pub(crate) fn save(&self, record: &Record) -> Result<(), String> {
        let named = |error: io::Error| format!("cannot write {}: {error}", self.path.display());
        if record.entries.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(named(error)),
                _ => Ok(()),
            };
        }
        self.replace(record).map_err(named)
    }

    fn replace(&self, record: &Record) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let mut options = File::options();
        let mut file = options
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .custom_flags(NO_LINK)
            .open(&beside)?;
        serde_json::to_writer_pretty(&mut file, record)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        // The name itself is on the disk when the folder is.
        match self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}
