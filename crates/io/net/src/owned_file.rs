//! Files with one owner: made whole or not at all, and removed when the owner is gone.
//!
//! The owner holds the lock on the file's first byte. A file is made without a name, gets its name when
//! everything in it is in place, and vanishes with its maker before that. Whoever takes a name away holds
//! that lock of the file it names, so two cannot take away each other's.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, linkat, open};

use crate::{byte_lock, fork, user};

/// The byte whose lock the owner holds.
const OWNER_LOCK: u64 = 0;

/// An empty file without a name in `directory`, owned by whoever holds the result.
pub(crate) fn create_unnamed(directory: &Path, permissions: u32) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = fork::unshare(File::from(open(directory, flags, Mode::from_raw_mode(permissions))?));
    if !byte_lock::try_lock(&file, OWNER_LOCK)? {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    Ok(file)
}

/// Sets permissions and, if given, the group of a file, whatever the umask is.
///
/// # Errors
/// The process is not a member of the group; the error says so.
pub(crate) fn set_access(file: &File, permissions: u32, group: Option<u32>) -> io::Result<()> {
    if let Some(group) = group {
        rustix::fs::fchown(file, None, Some(Gid::from_raw(group))).map_err(|error| {
            let error = io::Error::from(error);
            let user = user::user(rustix::process::geteuid().as_raw());
            let text = format!("user {user} cannot give it to group {group}: {error}");
            io::Error::new(error.kind(), text)
        })?;
    }
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(permissions))?)
}

/// Gives a file its name. What a dead owner has left under that name is removed first.
pub(crate) fn link(file: &File, path: &Path) -> io::Result<()> {
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    let attempt = || linkat(CWD, unnamed.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW);
    match attempt() {
        Err(rustix::io::Errno::EXIST) if reclaim(path)? => Ok(attempt()?),
        other => Ok(other?),
    }
}

/// Opens an existing file for reading and writing, following no link.
pub(crate) fn open_existing(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    Ok(fork::unshare(File::options().read(true).write(true).custom_flags(flags).open(path)?))
}

/// Whether the owner of a file that was opened elsewhere lives.
pub(crate) fn is_owned(file: &File) -> io::Result<bool> {
    byte_lock::is_locked(file, OWNER_LOCK)
}

/// Removes the name of a file whose owner is dead. Returns whether the name is free now.
pub(crate) fn reclaim(path: &Path) -> io::Result<bool> {
    let file = match open_existing(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(e) => return Err(e),
    };
    if !byte_lock::try_lock(&file, OWNER_LOCK)? {
        return Ok(false);
    }
    remove(&file, path)?;
    Ok(true)
}

/// Removes the name if it still is this file's. The caller is its owner.
pub(crate) fn remove(file: &File, path: &Path) -> io::Result<()> {
    let inode = |found: fs::Metadata| (found.dev(), found.ino());
    let is_own = |named| file.metadata().is_ok_and(|own| inode(own) == inode(named));
    if fs::symlink_metadata(path).is_ok_and(is_own) {
        fs::remove_file(path)?;
    }
    Ok(())
}
