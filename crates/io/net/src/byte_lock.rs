//! Locks on single bytes of a file that end with the process that holds them.
//!
//! They belong to an open file ("open file description locks"): two opens in one process exclude each other
//! as those of two processes do, the kernel releases them however the process ends, and a process id that is
//! used again or means nothing in another container makes no difference. A lock lasts as long as the open
//! file, of which a mapping is a part, so until descriptor and mappings are gone. A child made by `fork`
//! would share both with its parent, and hold the lock when that one is dead: see [`crate::fork`].

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Takes the lock on the byte at `offset`, which need not exist. Returns whether it was free.
///
/// # Errors
/// The file is not open for writing, or its file system knows no locks.
pub(crate) fn try_lock(file: &File, offset: u64) -> io::Result<bool> {
    match lock_call(file, libc::F_OFD_SETLK, &mut range(offset)) {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Whether somebody holds the lock on the byte at `offset` through another open of the file.
///
/// # Errors
/// The file system knows no locks.
pub(crate) fn is_locked(file: &File, offset: u64) -> io::Result<bool> {
    let mut range = range(offset);
    lock_call(file, libc::F_OFD_GETLK, &mut range)?;
    Ok(range.l_type != libc::F_UNLCK as libc::c_short)
}

/// Gives the lock on the byte at `offset` back before the file is closed.
///
/// # Errors
/// The file system knows no locks.
pub(crate) fn unlock(file: &File, offset: u64) -> io::Result<()> {
    let mut range = range(offset);
    range.l_type = libc::F_UNLCK as libc::c_short;
    lock_call(file, libc::F_OFD_SETLK, &mut range)
}

fn range(offset: u64) -> libc::flock {
    // SAFETY: a structure of integers, for which zero is a value.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = libc::F_WRLCK as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = offset as libc::off_t;
    range.l_len = 1;
    range
}

fn lock_call(file: &File, command: libc::c_int, range: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the kernel reads and writes one
    // `flock` there.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(range)) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_locked_once_until_its_file_is_closed() {
        let folder = testkit::Folder::new();
        let path = folder.join("locks");
        let first = File::create(&path).expect("a directory for temporary files");
        let second = File::options().write(true).open(&path).expect("it was just made");
        std::fs::remove_file(&path).expect("it was just made");
        assert!(try_lock(&first, 3).unwrap());
        assert!(try_lock(&first, 3).unwrap(), "its own lock is no obstacle");
        assert!(!try_lock(&second, 3).unwrap());
        assert!(is_locked(&second, 3).unwrap());
        assert!(!is_locked(&first, 3).unwrap(), "its own lock is not told");
        assert!(try_lock(&second, 4).unwrap(), "another byte");
        assert!(try_lock(&first, 5).unwrap());
        unlock(&first, 5).unwrap();
        assert!(try_lock(&second, 5).unwrap());
        drop(first);
        assert!(!is_locked(&second, 3).unwrap());
        assert!(try_lock(&second, 3).unwrap());
    }
}
