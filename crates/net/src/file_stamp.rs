use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
