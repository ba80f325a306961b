//! Children of a test made by `fork`, and what they become.

use std::io;
use std::time::Duration;

/// A child of a test that lives longer hangs; what it waits for itself has a shorter bound.
const CHILD_TIMEOUT: Duration = Duration::from_secs(180);
const CHILD_LOOK: Duration = Duration::from_millis(1);

/// A child of this process.
#[derive(Debug)]
pub struct Child(libc::pid_t);

/// Runs `there` in a child made by `fork`, for tests of what such children do to their parents. The child has this
/// thread alone, so locks that another one holds are never given back there; it ends without what Rust does at the end
/// of a process.
///
/// # Errors
/// There are too many processes.
pub fn fork(there: impl FnOnce() -> bool) -> io::Result<Child> {
    // SAFETY: the child has its own copy of all memory, and nothing there is half changed but what a lock of another
    // thread keeps: that lock is never given back, so the child may wait for ever and sees no such state. It ends by
    // `_exit`, without the destructors of objects that its parent has too.
    match unsafe { libc::fork() } {
        0 => {
            let is_good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(there)).unwrap_or(false);
            // SAFETY: it ends this process alone.
            unsafe { libc::_exit(i32::from(!is_good)) }
        }
        pid if pid > 0 => Ok(Child(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Child {
    /// Whether it has ended by now, and so whether `there` has said true.
    #[must_use]
    pub fn poll(&mut self) -> Option<bool> {
        let mut status = 0;
        // SAFETY: `status` is room for what the call writes.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, libc::WNOHANG) };
        (waited != 0).then_some(waited == self.0 && status == 0)
    }

    /// Waits for its end; whether `there` has said true. One that hangs is killed, and has not ended well.
    #[must_use]
    pub fn has_ended_well(mut self) -> bool {
        let mut left = CHILD_TIMEOUT;
        while !left.is_zero() {
            if let Some(is_good) = self.poll() {
                return is_good;
            }
            std::thread::sleep(CHILD_LOOK);
            // Time in which this process was stopped does not count.
            left = left.saturating_sub(CHILD_LOOK);
        }
        eprintln!("child {} hangs, and is killed", self.0);
        // SAFETY: the child is this process's own, and was not waited for.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        let mut status = 0;
        // SAFETY: `status` is room for what the call writes.
        unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        false
    }
}

/// Becomes another user, a member of one group, with a umask that leaves others nothing. For children of [`fork`].
///
/// # Errors
/// The process is not root's.
pub fn become_user(user: u32, group: u32) -> io::Result<()> {
    let groups = [group];
    // SAFETY: numbers, and an array with its length.
    let is_done = unsafe {
        libc::umask(0o077);
        libc::setgroups(1, groups.as_ptr()) == 0 && libc::setgid(user) == 0 && libc::setuid(user) == 0
    };
    if is_done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether this process may become other users.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
