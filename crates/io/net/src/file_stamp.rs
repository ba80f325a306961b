use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What changes when a file is written, replaced, or gets other permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl FileStamp {
    /// That of a file as it is now; `None` if it is not there.
    #[must_use]
    pub fn of(file: &Path) -> Option<FileStamp> {
        let found = fs::metadata(file).ok()?;
        let ns = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Some(FileStamp {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.len(),
            modified_ns: ns(found.mtime(), found.mtime_nsec()),
            changed_ns: ns(found.ctime(), found.ctime_nsec()),
        })
    }
}

/// Files that are read together, and read again when they change: each change once, and only when they were the
/// same at two looks, so that one that is being written is not read half done.
#[derive(Debug)]
pub struct WatchedFiles {
    files: Vec<PathBuf>,
    /// Of the files that were read last, whether they could be used or not.
    read: Vec<Option<FileStamp>>,
    /// At the last look.
    seen: Vec<Option<FileStamp>>,
}

impl WatchedFiles {
    /// Begins to watch. To be made before the files are read: what changes meanwhile is seen.
    #[must_use]
    pub fn new(files: Vec<PathBuf>) -> WatchedFiles {
        let seen = stamps(&files);
        WatchedFiles { files, read: seen.clone(), seen }
    }

    /// The files.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Looks whether the files have changed since they were read, and not since the last look.
    pub fn has_changed(&mut self) -> bool {
        let stamps = stamps(&self.files);
        let is_settled = std::mem::replace(&mut self.seen, stamps) == self.seen;
        is_settled && self.seen != self.read
    }

    /// The files are about to be read. What changes from now on is seen the next time.
    pub fn mark_read(&mut self) {
        self.seen = stamps(&self.files);
        self.read.clone_from(&self.seen);
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<FileStamp>> {
    files.iter().map(|file| FileStamp::of(file)).collect()
}
